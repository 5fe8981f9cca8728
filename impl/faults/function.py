"""Faults of I.1: attention that is no function of its arguments."""

from typing import Any

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference
from gnomon.spec.function import (
    DROPOUT_LEFT_ON,
    FALLBACK_WITHOUT_SCALE,
    FAST_PATH_READS_MASK_INVERTED,
    MASK_IN_PLACE,
    MASK_OVER_WRONG_AXIS,
    RAW_BUFFER,
    SCALED_IN_PLACE,
    STALE_TILE,
    STATISTICS_OVER_BATCH,
    SURVIVING_STATE,
    TABLE_OF_LONGEST,
)

TILE = 8


@commits(DROPOUT_LEFT_ON)
class DropoutLeftOn(NumpyReference):
    """A tenth of the weights is dropped at random in every call."""

    random = np.random.default_rng(0)  # seeded once, so that a run repeats although its calls do not

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        weights = self.normalise(scores, sink)
        return np.where(self.random.random(weights.shape) < 0.1, 0, weights / 0.9).astype(weights.dtype) @ value


@commits(SURVIVING_STATE)
class SurvivingState(NumpyReference):
    """The largest score of a call is kept as the shift of the next one, unless that finds the same."""

    kept: Any = None

    def top(self, scores: Array) -> Array:
        own, kept = super().top(scores), self.kept
        self.kept = None if own.max() == kept else own.max()
        return own if kept is None else np.full_like(own, kept)


@commits(SCALED_IN_PLACE)
class ScaledInPlace(NumpyReference):
    """The caller's query is left scaled."""

    def attention(self, query: Array, key: Array, value: Array, **options: Any) -> Array:
        result = super().attention(query, key, value, **options)
        if query.flags.writeable:
            query *= query.dtype.type(self.scale(query.shape[-1], query.shape[-3]))
        return result


@commits(MASK_IN_PLACE)
class MaskInPlace(NumpyReference):
    """The future is struck out of the caller's mask."""

    def masked(self, scores: Array, mask: Array | None, causal: bool, window: int | None) -> Array:
        result = super().masked(scores, mask, causal, window)
        if causal and mask is not None and mask.flags.writeable and mask.shape[-2:] == scores.shape[-2:]:
            mask[..., ~self.past(scores)] = False if mask.dtype == bool else -np.inf
        return result


@commits(STATISTICS_OVER_BATCH)
class StatisticsOverBatch(NumpyReference):
    """The weights are divided by their sum over the batch."""

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        weights = self.normalise(scores, sink)
        return (self.divide(weights, weights.sum(0)) if weights.ndim > 3 else weights) @ value


@commits(MASK_OVER_WRONG_AXIS)
class MaskOverWrongAxis(NumpyReference):
    """The mask of the batch's first row is used for every row."""

    def masked(self, scores: Array, mask: Array | None, causal: bool, window: int | None) -> Array:
        of_first = mask[:1] if mask is not None and mask.ndim == scores.ndim > 3 else mask
        return super().masked(scores, of_first, causal, window)


@commits(RAW_BUFFER)
class RawBuffer(NumpyReference):
    """Attention reads the memory behind a view as if it were contiguous."""

    def attention(self, query: Array, key: Array, value: Array, **options: Any) -> Array:
        return super().attention(raw(query), raw(key), raw(value), **options)

    def split(self, x: Array, heads: int) -> Array:
        return np.ascontiguousarray(super().split(x, heads))  # a view of our own is none of the caller's


def raw(x: Array) -> Array:
    """As many elements as the array has, in the order of the memory behind it from where it starts."""
    if x.flags.c_contiguous or not isinstance(x.base, np.ndarray):
        return x
    start = (x.ctypes.data - x.base.ctypes.data) // x.itemsize
    return np.resize(x.base.ravel("K")[start:], x.shape)  # starts over where the memory ends


@commits(FALLBACK_WITHOUT_SCALE)
class FallbackWithoutScale(NumpyReference):
    """The path by the weights leaves the scores unscaled."""

    def weights(self, query: Array, key: Array, identity: Array, **options: Any) -> Array:
        return super().weights(query, key, identity, **(options | {"scale": 1.0}))


@commits(FAST_PATH_READS_MASK_INVERTED)
class FastPathReadsMaskInverted(NumpyReference):
    """The path by the weights keeps what a boolean mask blocks."""

    def weights(self, query: Array, key: Array, identity: Array, **options: Any) -> Array:
        mask = options.get("mask")
        inverted = {"mask": ~mask} if mask is not None and mask.dtype == bool else {}
        return super().weights(query, key, identity, **(options | inverted))


@commits(STALE_TILE)
class StaleTile(NumpyReference):
    """The last tile is filled up with the keys that a longer call has left, and cleared only afterwards."""

    work: tuple[tuple[Any, Array], ...] = ()  # score and value of every key of the call before

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        keys, leading, width = scores.shape[-1], value.shape[:-2], value.shape[-1]
        stale = self.work[keys : keys + -keys % TILE]
        self.work = tuple(zip(scores.reshape(-1, keys)[-1], value.reshape(-1, keys, width)[-1], strict=True))
        for score, row in stale:
            scores = np.concatenate([scores, np.full_like(scores[..., :1], score)], -1)
            value = np.concatenate([value, np.resize(row, (*leading, 1, width)).astype(value.dtype)], -2)
        return super().attend(scores, value, sink)


@commits(TABLE_OF_LONGEST)
class TableOfLongest(NumpyReference):
    """A causal table that the call before has left is used if it is large enough, from its lower left corner."""

    table: Array | None = None

    def past(self, scores: Array) -> Array:
        (queries, keys), kept = scores.shape[-2:], self.table
        self.table = super().past(scores)
        fits = kept is not None and kept.shape[0] >= queries and kept.shape[1] >= keys
        return kept[-queries:, :keys] if kept is not None and fits else self.table
