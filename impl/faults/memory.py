"""Faults of V.5: estimates that forget a factor, counts that forget a passage, and declarations that are not so."""

from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.faults.tiles import Tiled
from gnomon.impl.reference import Array, NumpyReference
from gnomon.impl.traffic import Arrays, Standard, Tiles
from gnomon.spec.configuration import Configuration
from gnomon.spec.memory import (
    BATCH_FORGOTTEN,
    HEADS_FORGOTTEN,
    KEYS_READ_ONCE,
    MATRIX_KEPT,
    QUERY_HEADS_CACHED,
    SCORES_MOVED_ONCE,
    TILING_UNDECLARED,
)

_USUAL = NumpyReference.declaration


@commits(HEADS_FORGOTTEN)
class HeadsForgotten(NumpyReference):
    """One score matrix stands for all heads."""

    def score_matrices(self, c: Configuration, batch: int) -> int:
        return batch


@commits(BATCH_FORGOTTEN)
class BatchForgotten(NumpyReference):
    """One score matrix a head stands for the whole batch."""

    def score_matrices(self, c: Configuration, batch: int) -> int:
        return c.heads


@commits(QUERY_HEADS_CACHED)
class QueryHeadsCached(NumpyReference):
    """As many heads are cached as there are of queries."""

    def cached_width(self, c: Configuration) -> int:
        return c.heads * c.head_width


class TiledQueries(NumpyReference):
    """Plain attention takes a tile of queries at a time, so that no whole score matrix is ever there."""

    tile = 64

    def attention(self, query: Array, key: Array, value: Array, **options: Any) -> Array:
        if options:
            return super().attention(query, key, value, **options)
        cuts = range(0, query.shape[-2], self.tile)
        rows = [super(TiledQueries, self).attention(query[..., c : c + self.tile, :], key, value) for c in cuts]
        return np.concatenate(rows, axis=-2)


@commits(MATRIX_KEPT)
class MatrixKept(Tiled):
    """The keys are read tile by tile from a whole score matrix."""

    declaration = replace(_USUAL, memory="linear")


@commits(TILING_UNDECLARED)
class TilingUndeclared(TiledQueries):
    """The queries are tiled, and the declaration is that of the plain implementation."""

    declaration = replace(_USUAL, memory="quadratic")


class _WithoutReading(Standard):
    def read_back(self, *matrices: Array) -> Arrays:
        return self.room(*(a.copy() for a in matrices))


@commits(SCORES_MOVED_ONCE)
class ScoresMovedOnce(NumpyReference):
    """What was written is in fast memory again without being counted."""

    standard = _WithoutReading


class _WithoutReturn(Tiles):
    def passing(self, rows: slice, key: Array, value: Array) -> Arrays:
        return super().passing(rows, key, value) if rows.start == 0 else self.room(key.copy(), value.copy())


@commits(KEYS_READ_ONCE)
class KeysReadOnce(NumpyReference):
    """Only the first tile of queries has its keys and values counted."""

    tiles = _WithoutReturn
