"""Faults of VI.1 in whole models: positions that say nothing."""

from dataclasses import replace

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference, Parameters, Pass
from gnomon.spec.order import OFFSET_BY_PADDING, OFFSET_OF_THE_PADDING, POSITIONS_ALL_ZERO, POSITIONS_IGNORED


@commits(POSITIONS_IGNORED)
class PositionsIgnored(NumpyReference):
    """The model runs as one without positions."""

    def forward(self, parameters: Parameters, tokens: Array, p: Pass) -> Array:
        return super().forward(
            parameters, tokens, replace(p, configuration=replace(p.configuration, position_kind="none"))
        )


@commits(POSITIONS_ALL_ZERO)
class PositionsAllZero(NumpyReference):
    """Every token stands at zero."""

    def forward(self, parameters: Parameters, tokens: Array, p: Pass) -> Array:
        return super().forward(parameters, tokens, replace(p, positions=np.zeros_like(p.positions), seen=p.seen * 0))


def _padded(p: Pass) -> Array:
    """How many of the keys before each row's first real one are padding, `[batch, 1]`."""
    if p.mask is None or p.mask.ndim != 2:
        return np.zeros((len(p.positions), 1), int)
    return np.asarray(p.mask.argmax(1)[:, None])


@commits(OFFSET_BY_PADDING)
class OffsetByPadding(NumpyReference):
    """Each row of the learned table is as many further as the row has padding before its first token."""

    def position_rows(self, table: Array, p: Pass) -> Array:
        return super().position_rows(table, replace(p, positions=p.positions + _padded(p)))


@commits(OFFSET_OF_THE_PADDING)
class OffsetOfThePadding(NumpyReference):
    """Where a row begins with padding the declared offset is added twice."""

    def position_rows(self, table: Array, p: Pass) -> Array:
        again = p.configuration.position_offset * (_padded(p) > 0)
        return super().position_rows(table, replace(p, positions=p.positions + again))
