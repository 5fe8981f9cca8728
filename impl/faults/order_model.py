"""Faults of VI.1 in whole models: positions that say nothing."""

from dataclasses import replace

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference, Parameters, Pass
from gnomon.spec.order import POSITIONS_ALL_ZERO, POSITIONS_IGNORED


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
