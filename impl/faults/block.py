"""Faults of VII.1: norms with other statistics, or with epsilon in another place."""

from typing import Any

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.initialisation import Rng
from gnomon.impl.reference import Array, NumpyReference, wide
from gnomon.spec.block import (
    CENTRED_RMS,
    DEPTH_FACTOR_MISSING,
    EPSILON_IGNORED,
    EPSILON_OF_THE_FORMAT,
    EPSILON_OUTSIDE_ROOT,
    NORM_OVER_TIME,
    ROWS_ZEROED_BY_ACCIDENT,
    SQUARED_FOR_ROOT,
    STATISTICS_IN_STORAGE,
    UNBIASED_VARIANCE,
)
from gnomon.spec.configuration import Configuration
from gnomon.spec.precision import FORMATS


@commits(UNBIASED_VARIANCE)
class UnbiasedVariance(NumpyReference):
    """The squares about the mean are divided by one less than their number."""

    def variance(self, centred: Array) -> Array:
        width = centred.shape[-1]
        return np.asarray(super().variance(centred) * centred.dtype.type(width / max(width - 1, 1)))


@commits(EPSILON_OUTSIDE_ROOT)
class EpsilonOutsideRoot(NumpyReference):
    """Epsilon is added to the root."""

    def spread(self, mean_square: Array, eps: float) -> Array:
        return np.asarray(np.sqrt(mean_square) + mean_square.dtype.type(eps))


@commits(EPSILON_OF_THE_FORMAT)
class EpsilonOfTheFormat(NumpyReference):
    """Epsilon is the spacing at one of the arguments' format."""

    def layer_norm(self, x: Array, weight: Array, bias: Array | None = None, *, eps: float) -> Array:
        return super().layer_norm(x, weight, bias, eps=2 * FORMATS[x.dtype.name].unit)

    def rms_norm(self, x: Array, weight: Array, *, eps: float) -> Array:
        return super().rms_norm(x, weight, eps=2 * FORMATS[x.dtype.name].unit)


@commits(SQUARED_FOR_ROOT)
class SquaredForRoot(NumpyReference):
    """The mean square, epsilon added, is squared."""

    def spread(self, mean_square: Array, eps: float) -> Array:
        return np.asarray(np.square(mean_square + mean_square.dtype.type(eps)))


@commits(NORM_OVER_TIME)
class NormOverTime(NumpyReference):
    """Means are taken along the last axis but one."""

    def mean(self, x: Array) -> Array:
        return np.asarray(x.mean(-2, keepdims=True), x.dtype)


@commits(STATISTICS_IN_STORAGE)
class StatisticsInStorage(NumpyReference):
    """Squares are formed and averaged in the format of the arguments."""

    storage: np.dtype[Any] = np.dtype(np.float64)

    def layer_norm(self, x: Array, weight: Array, bias: Array | None = None, *, eps: float) -> Array:
        self.storage = x.dtype
        return super().layer_norm(x, weight, bias, eps=eps)

    def rms_norm(self, x: Array, weight: Array, *, eps: float) -> Array:
        self.storage = x.dtype
        return super().rms_norm(x, weight, eps=eps)

    def mean_square(self, x: Array) -> Array:
        stored = x.astype(self.storage)
        return np.asarray((stored * stored).mean(-1, keepdims=True), x.dtype)


@commits(CENTRED_RMS)
class CentredRms(NumpyReference):
    """The mean of the features is subtracted."""

    def rms_norm(self, x: Array, weight: Array, *, eps: float) -> Array:
        centred = wide(x) - self.mean(wide(x))
        return super().rms_norm(centred, weight, eps=eps).astype(x.dtype)


@commits(EPSILON_IGNORED)
class EpsilonIgnored(NumpyReference):
    """Epsilon is zero."""

    def spread(self, mean_square: Array, eps: float) -> Array:
        return super().spread(mean_square, 0.0)


@commits(DEPTH_FACTOR_MISSING)
class DepthFactorMissing(NumpyReference):
    """No deviation is divided."""

    def depth(self, name: str, c: Configuration, depth_scaled: bool) -> float:
        return 1.0


@commits(ROWS_ZEROED_BY_ACCIDENT)
class RowsZeroedByAccident(NumpyReference):
    """The first row of a table is zero."""

    def drawn(
        self, rng: Rng, name: str, shape: tuple[int, ...], c: Configuration, deviation: float, depth_scaled: bool
    ) -> Array:
        drawn = super().drawn(rng, name, shape, c, deviation, depth_scaled)
        return drawn * (np.arange(len(drawn)) > 0)[:, None] if name.endswith("embedding") else drawn
