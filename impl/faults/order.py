"""Faults of VI.1: order that leaks in, and tables of positions made otherwise."""

from typing import Any

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference, Parameters, wide
from gnomon.spec.order import (
    EXPONENT_PER_FEATURE,
    LINEAR_RAMP,
    NEXT_POWER_OF_TWO,
    ONE_SERIES,
    POSITION_ADDED,
    SINES_FIRST,
    SINUSOID_EXPONENT_HALVED,
    SLOPES_FROM_ONE,
)


@commits(POSITION_ADDED)
class PositionAdded(NumpyReference):
    """A sixteenth of its index is added to every token."""

    def multi_head_attention(self, x: Array, parameters: Parameters, **options: Any) -> Array:
        index = np.arange(x.shape[1], dtype=np.float32)[:, None] / 16
        return super().multi_head_attention(np.asarray(wide(x) + index, x.dtype), parameters, **options)


@commits(SINES_FIRST)
class SinesFirst(NumpyReference):
    """The two halves are not woven together."""

    def interleaved(self, sines: Array, cosines: Array) -> Array:
        return np.concatenate([sines, cosines], -1)


@commits(SINUSOID_EXPONENT_HALVED)
class SinusoidExponentHalved(NumpyReference):
    """Exponents run from 0 to one half."""

    def sinusoidal_angles(self, positions: Array, width: int) -> Array:
        return np.asarray(positions[..., None] * self.inverse_powers(width, 100.0))


@commits(EXPONENT_PER_FEATURE)
class ExponentPerFeature(NumpyReference):
    """Feature c has the exponent 2c/d."""

    def sinusoidal_positions(self, positions: Array, width: int, dtype: Any = np.float64) -> Array:
        feature = np.arange(width)
        angles = positions[..., None] * 10000.0 ** (-2 * feature / width)
        return np.where(feature % 2, np.cos(angles), np.sin(angles)).astype(dtype)


@commits(LINEAR_RAMP)
class LinearRamp(NumpyReference):
    """Frequencies are 2000·i/d."""

    def sinusoidal_angles(self, positions: Array, width: int) -> Array:
        return np.asarray(positions[..., None] * (np.arange(0, width, 2) * 1000 / width))


@commits(NEXT_POWER_OF_TWO)
class NextPowerOfTwo(NumpyReference):
    """The series for the power of two that is not below the number of heads, cut off."""

    def alibi_slopes(self, heads: int) -> Array:
        return self.series(1 << (heads - 1).bit_length())[:heads]


@commits(ONE_SERIES)
class OneSeries(NumpyReference):
    """The ratio of the series is 2^(−8/n) for any n."""

    def alibi_slopes(self, heads: int) -> Array:
        return self.series(heads)


@commits(SLOPES_FROM_ONE)
class SlopesFromOne(NumpyReference):
    """Every slope is that of the head before."""

    def series(self, heads: int) -> Array:
        return np.asarray(super().series(heads) * 2.0 ** (8.0 / heads))
