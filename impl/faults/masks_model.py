"""Faults of V.4 in whole models: caches, padding, packed documents, windows."""

from dataclasses import replace

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, Cache, NumpyReference, Parameters, Pass
from gnomon.spec.masks import (
    CACHE_IN_REVERSE,
    CACHE_OVERWRITES,
    CROP_KEEPS_THE_END,
    LAST_LAYER_SEES_ALL,
    LEFT_PADDING_SHIFTS,
    MASK_BY_POSITION_ONLY,
    NO_POSITION_FOR_ONE,
    OFFSET_BEFORE_CACHE,
    OFFSET_GROWS,
    ONE_CACHE_FOR_ALL_LAYERS,
    PADDING_ATTENDED,
    PADDING_FORGOTTEN_WITH_CACHE,
    POSITION_FROM_COLUMN,
    POSITIONS_RESTART,
    UNFILLED_SLOTS,
    WINDOW_IN_OTHER_LAYERS,
)


@commits(LAST_LAYER_SEES_ALL)
class LastLayerSeesAll(NumpyReference):
    """The last layer has no causal mask."""

    def model_mask(self, query: Array, layer: int, p: Pass) -> Array | None:
        c = p.configuration
        return super().model_mask(query, layer, replace(p, configuration=replace(c, causal=layer + 1 < c.layers)))


@commits(CACHE_OVERWRITES)
class CacheOverwrites(NumpyReference):
    """The last of the cached keys and values become those of the first new token."""

    def remembered(self, key: Array, value: Array, layer: int, p: Pass) -> tuple[Array, Array]:
        keys, values = super().remembered(key, value, layer, p)
        if p.start:
            for held in (keys, values):
                held[:, :, p.start - 1] = held[:, :, p.start]
        return keys, values


@commits(CACHE_IN_REVERSE)
class CacheInReverse(NumpyReference):
    """New keys come first, new values last."""

    def remembered(self, key: Array, value: Array, layer: int, p: Pass) -> tuple[Array, Array]:
        keys, values = super().remembered(key, value, layer, p)
        return np.roll(keys, key.shape[2], axis=2), values


@commits(POSITIONS_RESTART)
class PositionsRestart(NumpyReference):
    """Positions begin at zero in every call."""

    def positions_of(self, tokens: Array, start: int) -> Array:
        return super().positions_of(tokens, 0)


@commits(NO_POSITION_FOR_ONE)
class NoPositionForOne(NumpyReference):
    """A single token gets no row of the table of positions."""

    def position_rows(self, table: Array, p: Pass) -> Array:
        rows = super().position_rows(table, p)
        return rows if rows.shape[1] > 1 else np.zeros_like(rows)


@commits(ONE_CACHE_FOR_ALL_LAYERS)
class OneCacheForAllLayers(NumpyReference):
    """What a layer remembers of the past is what the first one kept."""

    def remembered(self, key: Array, value: Array, layer: int, p: Pass) -> tuple[Array, Array]:
        keys, values = super().remembered(key, value, layer, p)
        if p.cache is not None:
            for held, first in zip((keys, values), p.cache.layers[0], strict=True):
                held[:, :, : p.start] = first[:, :, : p.start]
        return keys, values


@commits(OFFSET_GROWS)
class OffsetGrows(NumpyReference):
    """From the second call on a cache the positions are one call's length too large."""

    def positions_of(self, tokens: Array, start: int) -> Array:
        return super().positions_of(tokens, start + (tokens.shape[1] if start else 0))


@commits(OFFSET_BEFORE_CACHE)
class OffsetBeforeCache(NumpyReference):
    """The causal triangle starts at the first cached key."""

    def past(self, scores: Array) -> Array:
        queries, keys = scores.shape[-2:]
        return np.asarray(np.arange(keys) <= np.arange(queries)[:, None])


@commits(CROP_KEEPS_THE_END)
class CropKeepsTheEnd(NumpyReference):
    """The last tokens are kept."""

    def crop(self, cache: Cache, length: int) -> None:
        beyond = cache.length - length
        cache.layers = [(key[:, :, beyond:], value[:, :, beyond:]) for key, value in cache.layers]
        cache.positions = None if cache.positions is None else cache.positions[:, :length]


@commits(UNFILLED_SLOTS)
class UnfilledSlots(NumpyReference):
    """The slot after the last token is full of NaN and has no weight."""

    def attention(self, query: Array, key: Array, value: Array, **options: object) -> Array:
        if query.shape[-2] < key.shape[-2]:
            value = value.copy()
            value[..., -1:, :] += np.zeros_like(value[..., -1:, :]) * np.asarray(np.nan, value.dtype)
        return super().attention(query, key, value, **options)  # type: ignore[arg-type]


@commits(WINDOW_IN_OTHER_LAYERS)
class WindowInOtherLayers(NumpyReference):
    """A layer has a window where the next one should."""

    def model_mask(self, query: Array, layer: int, p: Pass) -> Array | None:
        c = p.configuration
        own = 0 if c.window_of(layer) else c.window
        return super().model_mask(query, layer, replace(p, configuration=replace(c, window=own, window_every=1)))


@commits(LEFT_PADDING_SHIFTS)
class LeftPaddingShifts(NumpyReference):
    """Given positions are ignored."""

    def forward(self, parameters: Parameters, tokens: Array, p: Pass) -> Array:
        counted = self.positions_of(tokens, p.start)
        return super().forward(parameters, tokens, replace(p, positions=counted))


@commits(PADDING_ATTENDED)
class PaddingAttended(NumpyReference):
    """A mask of keys is dropped."""

    def spread_mask(self, mask: Array) -> Array:
        return super().spread_mask(mask if mask.ndim == 3 else np.ones_like(mask))


@commits(PADDING_FORGOTTEN_WITH_CACHE)
class PaddingForgottenWithCache(NumpyReference):
    """A mask of keys is dropped where the cache holds something."""

    def model_mask(self, query: Array, layer: int, p: Pass) -> Array | None:
        return super().model_mask(query, layer, replace(p, mask=None) if p.start else p)


@commits(POSITION_FROM_COLUMN)
class PositionFromColumn(NumpyReference):
    """Given positions are ignored where the cache holds something."""

    def forward(self, parameters: Parameters, tokens: Array, p: Pass) -> Array:
        counted = self.positions_of(tokens, p.start) if p.start else p.positions
        seen = np.concatenate([p.seen[:, : p.start], counted], 1)
        return super().forward(parameters, tokens, replace(p, positions=counted, seen=seen))


@commits(MASK_BY_POSITION_ONLY)
class MaskByPositionOnly(NumpyReference):
    """A mask of pairs is dropped."""

    def spread_mask(self, mask: Array) -> Array:
        return super().spread_mask(mask if mask.ndim == 2 else np.ones_like(mask))
