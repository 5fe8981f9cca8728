"""Faults of V.2: scores divided by something else."""

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference
from gnomon.spec.scale import (
    CONSTANT_SCALE,
    MODEL_WIDTH_SCALE,
    NO_SCALE,
    SCALE_BY_WIDTH,
    SCALE_INVERTED,
    SCALE_REMOVED,
    SCALE_TWICE,
    SHARPENED,
)


@commits(NO_SCALE)
class NoScale(NumpyReference):
    """The scores are not divided unless a scale is given."""

    def scale(self, width: int, heads: int) -> float:
        return 1.0


@commits(SCALE_BY_WIDTH)
class ScaleByWidth(NumpyReference):
    """The scores are divided by the head width."""

    def scale(self, width: int, heads: int) -> float:
        return 1 / width


@commits(SCALE_TWICE)
class ScaleTwice(NumpyReference):
    """The query is scaled before the scores are."""

    def scores(self, query: Array, key: Array, scale: float | None) -> Array:
        factor = self.scale(query.shape[-1], query.shape[-3])
        return super().scores(query * query.dtype.type(factor), key, scale)


@commits(SCALE_INVERTED)
class ScaleInverted(NumpyReference):
    """The scores are divided by the reciprocal root."""

    def scale(self, width: int, heads: int) -> float:
        return 1 / super().scale(width, heads)


@commits(MODEL_WIDTH_SCALE)
class ModelWidthScale(NumpyReference):
    """The scores are divided by the root of all heads' width."""

    def scale(self, width: int, heads: int) -> float:
        return super().scale(heads * width, heads)


@commits(CONSTANT_SCALE)
class ConstantScale(NumpyReference):
    """The scores are divided by eight at every width."""

    def scale(self, width: int, heads: int) -> float:
        return 0.125


@commits(SCALE_REMOVED)
class ScaleRemoved(NumpyReference):
    """The scores are never divided, whatever scale is given."""

    def scores(self, query: Array, key: Array, scale: float | None) -> Array:
        return super().scores(query, key, 1.0)


@commits(SHARPENED)
class Sharpened(NumpyReference):
    """The scores are doubled."""

    def scores(self, query: Array, key: Array, scale: float | None) -> Array:
        return super().scores(query, key, scale) * 2
