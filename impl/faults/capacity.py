"""Faults of VIII.2: gaps between two metrics, without a sign or with another error."""

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference
from gnomon.spec.capacity import ONE_SIDED_ERROR, SIGN_LOST, SPREAD_FOR_ERROR, TWO_METRICS


@commits(TWO_METRICS)
class TwoMetrics(NumpyReference):
    """Nobody asks what the numbers are of."""

    def require_one_metric(self, metrics: tuple[str, str]) -> None:
        pass


@commits(SIGN_LOST)
class SignLost(NumpyReference):
    """The gap is a distance."""

    def signed(self, gap: float) -> float:
        return abs(gap)


@commits(ONE_SIDED_ERROR)
class OneSidedError(NumpyReference):
    """The error is that of the held-out mean."""

    def standard_error(self, training: Array, held_out: Array) -> float:
        return float(np.sqrt(self.squared_error(held_out)))


@commits(SPREAD_FOR_ERROR)
class SpreadForError(NumpyReference):
    """The variance is not divided by the number of items."""

    def squared_error(self, values: Array) -> float:
        return float(values.var(ddof=1))
