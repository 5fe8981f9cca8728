"""Faults of III.1: a look-up that gives something where nothing is named, or not what was named."""

import math

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference, wide
from gnomon.impl.tape import straight
from gnomon.spec.embedding import (
    CLAMPED_IDS,
    NEGATIVE_IDS,
    PADDING_ROW_ZEROED,
    ROWS_SCALED,
    SCATTER_OVERWRITES,
    WRAPPED_IDS,
    ZEROS_PAST_THE_TABLE,
)


@commits(CLAMPED_IDS)
class ClampedIds(NumpyReference):
    """Ids past the table name its last row."""

    def embedding(self, table: Array, ids: Array) -> Array:
        return super().embedding(table, np.minimum(ids, len(table) - 1))


@commits(ZEROS_PAST_THE_TABLE)
class ZerosPastTheTable(NumpyReference):
    """Ids past the table give zeros."""

    def embedding(self, table: Array, ids: Array) -> Array:
        rows = super().embedding(table, np.minimum(ids, len(table) - 1))
        return np.where((ids < len(table))[..., None], rows, 0).astype(table.dtype)


@commits(WRAPPED_IDS)
class WrappedIds(NumpyReference):
    """Ids past the table begin again at its first row."""

    def embedding(self, table: Array, ids: Array) -> Array:
        return super().embedding(table, np.where(ids < len(table), ids, ids % len(table)))


@commits(NEGATIVE_IDS)
class NegativeIds(NumpyReference):
    """Negative ids count from the end."""

    def embedding(self, table: Array, ids: Array) -> Array:
        return super().embedding(table, np.where(ids < 0, ids + len(table), ids))


@commits(PADDING_ROW_ZEROED)
class PaddingRowZeroed(NumpyReference):
    """Id 0 gives zeros."""

    def embedding(self, table: Array, ids: Array) -> Array:
        return super().embedding(np.concatenate([np.zeros_like(table[:1]), table[1:]]), ids)


@commits(ROWS_SCALED)
class RowsScaled(NumpyReference):
    """Rows are multiplied by the root of their width."""

    def embedding(self, table: Array, ids: Array) -> Array:
        rows = super().embedding(table, ids)
        return np.asarray(wide(rows) * wide(rows).dtype.type(math.sqrt(rows.shape[-1])), rows.dtype)


@commits(SCATTER_OVERWRITES)
class ScatterOverwrites(NumpyReference):
    """Of the places that name a row, the last alone gives it a gradient."""

    def embedding(self, table: Array, ids: Array) -> Array:
        rows, flat = super().embedding(table, ids), ids.ravel()
        last = np.array([i not in flat[n + 1 :] for n, i in enumerate(flat)]).reshape(*ids.shape, 1)
        return straight(rows, rows * last.astype(rows.dtype))
