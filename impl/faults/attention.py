"""Faults of V.1: averages with other weights, or of other values."""

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.faults.tiles import Tiled
from gnomon.impl.reference import Array, NumpyReference
from gnomon.spec.attention import (
    ADDED_ONE_NOT_SHIFTED,
    CAP_AFTER_MASK,
    CAP_IGNORED,
    HALF_PRECISION_SCORES,
    NO_MAXIMUM,
    OPERANDS_EXCHANGED,
    OVER_HEADS,
    OVER_QUERIES,
    PADDED_DENOMINATOR,
    POSITION_LEAKS_IN,
    RESCALING_FORGOTTEN,
    ROUNDED_BEFORE_DIVISION,
    SIGMOID_WEIGHTS,
    SQUARE_ONLY,
    TEMPERATURE_LEFT_IN,
    UNNORMALISED,
    VALUES_NOT_PERMUTED,
)

TILE = 8


@commits(OPERANDS_EXCHANGED)
class OperandsExchanged(NumpyReference):
    """A square matrix of weights is transposed before it meets the values."""

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        weights = self.normalise(scores, sink)
        return (weights.swapaxes(-1, -2) if weights.shape[-1] == weights.shape[-2] else weights) @ value


@commits(OVER_QUERIES)
class OverQueries(NumpyReference):
    """The softmax runs over the queries."""

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        return self.normalise(scores.swapaxes(-1, -2), sink).swapaxes(-1, -2) @ value


@commits(OVER_HEADS)
class OverHeads(NumpyReference):
    """The softmax runs over the heads."""

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        last = None if sink is None else np.moveaxis(sink, -3, -1)
        return np.moveaxis(self.normalise(np.moveaxis(scores, -3, -1), last), -1, -3) @ value


@commits(SIGMOID_WEIGHTS)
class SigmoidWeights(NumpyReference):
    """Each weight is the sigmoid of its score."""

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        return np.asarray(1 / (1 + np.exp(-scores)) @ value)


@commits(PADDED_DENOMINATOR)
class PaddedDenominator(NumpyReference):
    """Keys of score and value zero fill up the last tile and count in the sum."""

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        rest = -scores.shape[-1] % TILE
        keys_last = [(0, 0)] * (scores.ndim - 1) + [(0, rest)]
        return super().attend(np.pad(scores, keys_last), np.pad(value, [*keys_last[1:], (0, 0)]), sink)


@commits(UNNORMALISED)
class Unnormalised(NumpyReference):
    """The exponentials are not divided by their sum."""

    def divide(self, mass: Array, total: Array) -> Array:
        return mass


@commits(ROUNDED_BEFORE_DIVISION)
class RoundedBeforeDivision(NumpyReference):
    """The exponentials keep four bits, and their sum is that of the full ones."""

    def divide(self, mass: Array, total: Array) -> Array:
        fraction, exponent = np.frexp(mass)
        return super().divide(np.ldexp(np.round(fraction * 16) / 16, exponent), total)


@commits(VALUES_NOT_PERMUTED)
class ValuesByRank(NumpyReference):
    """The largest weight meets the first value, the next the second."""

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        return -np.sort(-self.normalise(scores, sink), axis=-1) @ value


@commits(POSITION_LEAKS_IN)
class PositionLeaksIn(NumpyReference):
    """Every key's score is a sixteenth above that of the key before."""

    def scores(self, query: Array, key: Array, scale: float | None) -> Array:
        return super().scores(query, key, scale) + np.arange(key.shape[-2], dtype=key.dtype) / 16


@commits(NO_MAXIMUM)
class NoMaximum(NumpyReference):
    """The exponentials are those of the scores as they are."""

    def top(self, scores: Array) -> Array:
        return np.zeros_like(super().top(scores))


@commits(HALF_PRECISION_SCORES)
class HalfPrecisionScores(NumpyReference):
    """The scores are rounded to half precision."""

    def scores(self, query: Array, key: Array, scale: float | None) -> Array:
        return super().scores(query, key, scale).astype(np.float16).astype(query.dtype)


@commits(TEMPERATURE_LEFT_IN)
class TemperatureLeftIn(NumpyReference):
    """The scores are halved."""

    def scores(self, query: Array, key: Array, scale: float | None) -> Array:
        return super().scores(query, key, scale) / 2


@commits(SQUARE_ONLY)
class SquareOnly(NumpyReference):
    """Keys beyond the number of queries are not read."""

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        queries = scores.shape[-2]
        return super().attend(scores[..., :queries], value[..., :queries, :], sink)


@commits(RESCALING_FORGOTTEN)
class RescalingForgotten(Tiled):
    """The sum and the output so far stay as they are when a tile raises the maximum."""

    tile = 4

    def rescaling(self, before: Array, top: Array) -> Array:
        return np.ones_like(top)


@commits(CAP_IGNORED)
class CapIgnored(NumpyReference):
    """The scores are not capped."""

    def cap(self, scores: Array, softcap: float | None) -> Array:
        return scores


@commits(CAP_AFTER_MASK)
class CapAfterMask(NumpyReference):
    """The scores are masked, then capped."""

    def logits(
        self, scores: Array, softcap: float | None, mask: Array | None, causal: bool, window: int | None
    ) -> Array:
        return self.cap(self.masked(scores, mask, causal, window), softcap)


@commits(ADDED_ONE_NOT_SHIFTED)
class SinkNotShifted(NumpyReference):
    """The sink's exponential is that of its score as it is, beside shifted ones."""

    def normalise(self, scores: Array, sink: Array | None = None) -> Array:
        return super().normalise(scores, None if sink is None else sink + self.top(scores))
