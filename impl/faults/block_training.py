"""Faults of VII.1 that show when something is learned."""

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference, Parameters
from gnomon.spec.block import RESIDUAL_WITHIN


@commits(RESIDUAL_WITHIN)
class ResidualWithin(NumpyReference):
    """What the network gives is its input changed, not the change."""

    def feed_forward(self, x: Array, parameters: Parameters, *, activation: str) -> Array:
        return self.added(super().feed_forward(x, parameters, activation=activation), x)
