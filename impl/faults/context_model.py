"""Faults of VIII.3 in whole models: more tokens than there are positions, and no word about it."""

from dataclasses import replace

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference, Parameters, Pass
from gnomon.spec.context import (
    CLAMPED_POSITIONS,
    NO_VECTOR_PAST_THE_TABLE,
    SILENTLY_TRUNCATED,
    WRAPPED_POSITIONS,
)


@commits(WRAPPED_POSITIONS)
class WrappedPositions(NumpyReference):
    """Rows are taken modulo their number."""

    def position_rows(self, table: Array, p: Pass) -> Array:
        rows = len(table) - p.configuration.position_offset
        return super().position_rows(table, replace(p, positions=p.positions % rows))


@commits(CLAMPED_POSITIONS)
class ClampedPositions(NumpyReference):
    """No position is larger than the last."""

    def position_rows(self, table: Array, p: Pass) -> Array:
        last = len(table) - p.configuration.position_offset - 1
        return super().position_rows(table, replace(p, positions=np.minimum(p.positions, last)))


@commits(NO_VECTOR_PAST_THE_TABLE)
class NoVectorPastTheTable(NumpyReference):
    """The table goes on in zeros."""

    def position_rows(self, table: Array, p: Pass) -> Array:
        return super().position_rows(np.concatenate([table, np.zeros((4096, table.shape[1]), table.dtype)]), p)


@commits(SILENTLY_TRUNCATED)
class SilentlyTruncated(NumpyReference):
    """The first tokens are dropped where there are too many, and positions stay within the table."""

    def forward(self, parameters: Parameters, tokens: Array, p: Pass) -> Array:
        c = p.configuration
        if c.position_kind != "learned":
            return super().forward(parameters, tokens, p)
        room = c.positions - c.position_offset
        where = np.minimum(p.positions, room - 1)[:, -room:]
        return super().forward(parameters, tokens[:, -room:], replace(p, positions=where, seen=p.seen[:, -room:]))
