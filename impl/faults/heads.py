"""Faults of V.3: heads split, joined, grouped or coupled in another way."""

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference
from gnomon.spec.heads import (
    FUSED_SPLIT,
    MERGED_WITHOUT_TRANSPOSE,
    NEVER_EXPANDED,
    OTHER_ORDER,
    REPEATED_ALONG_TIME,
    SHARED_SOFTMAX,
    STACKED_HEADS_VIEWED,
    TIED_TO_HEAD_INDEX,
    TILED_FOR_GROUPED,
    WIDTH_ROUNDED_DOWN,
    WRONG_OUTPUT_SLICE,
)


@commits(MERGED_WITHOUT_TRANSPOSE)
class MergedWithoutTranspose(NumpyReference):
    """`[batch, heads, time, width]` is reshaped as if time came before the heads."""

    def merge(self, x: Array) -> Array:
        return x.reshape(super().merge(x).shape)


@commits(STACKED_HEADS_VIEWED)
class StackedHeadsViewed(NumpyReference):
    """`[heads, batch, time, width]` is reshaped as if the heads came last."""

    def merge(self, x: Array) -> Array:
        return x.swapaxes(0, 1).reshape(super().merge(x).shape)


@commits(OTHER_ORDER)
class OtherOrder(NumpyReference):
    """The last head comes first."""

    def merge(self, x: Array) -> Array:
        return super().merge(x[:, ::-1])


@commits(FUSED_SPLIT)
class FusedSplit(NumpyReference):
    """A head takes every h-th feature."""

    def split(self, x: Array, heads: int) -> Array:
        combed = x.reshape(*x.shape[:-1], -1, heads).swapaxes(-1, -2)
        return super().split(combed.reshape(x.shape), heads)


@commits(WRONG_OUTPUT_SLICE)
class WrongOutputSlice(NumpyReference):
    """Each head meets the output weights of the next."""

    def merge(self, x: Array) -> Array:
        return super().merge(np.roll(x, 1, axis=1))


@commits(WIDTH_ROUNDED_DOWN)
class WidthRoundedDown(NumpyReference):
    """Features that are left over when heads share the width are dropped."""

    def split(self, x: Array, heads: int) -> Array:
        return super().split(x[..., : x.shape[-1] // heads * heads], heads)

    def linear(self, x: Array, weight: Array, bias: Array | None = None) -> Array:
        return super().linear(x, weight[:, : x.shape[-1]], bias)


@commits(TIED_TO_HEAD_INDEX)
class TiedToHeadIndex(NumpyReference):
    """Scores fall with the distance, by a slope that every head halves."""

    def scores(self, query: Array, key: Array, scale: float | None) -> Array:
        scores = super().scores(query, key, scale)
        slopes = 0.5 ** np.arange(scores.shape[-3], dtype=scores.dtype)[:, None, None]
        return np.asarray(scores - slopes * np.abs(self.distance(scores)).astype(scores.dtype))


@commits(SHARED_SOFTMAX)
class SharedSoftmax(NumpyReference):
    """One softmax runs over the keys of all heads."""

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        by_query = scores.swapaxes(-3, -2)
        joint = by_query.reshape(*by_query.shape[:-2], -1)
        weights = self.normalise(joint, None if sink is None else np.logaddexp.reduce(sink))
        return weights.reshape(by_query.shape).swapaxes(-3, -2) @ value


@commits(TILED_FOR_GROUPED)
class TiledForGrouped(NumpyReference):
    """Query head i reads key-value head i mod h_kv."""

    def expand(self, shared: Array, heads: int) -> Array:
        return np.asarray(shared.take(np.arange(heads) % shared.shape[-3], axis=-3))


@commits(NEVER_EXPANDED)
class NeverExpanded(NumpyReference):
    """Query heads past the number of key-value heads read the last one."""

    def expand(self, shared: Array, heads: int) -> Array:
        return shared.take(np.arange(heads), axis=-3, mode="clip")


@commits(REPEATED_ALONG_TIME)
class RepeatedAlongTime(NumpyReference):
    """Positions are repeated and then read as heads."""

    def expand(self, shared: Array, heads: int) -> Array:
        times, rest = divmod(heads, shared.shape[-3])
        right = super().expand(shared, heads)
        return right if rest else np.asarray(shared.repeat(times, axis=-2).reshape(right.shape))
