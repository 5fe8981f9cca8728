"""Faults of VII.2: totals that leave something out or count it twice."""

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import NumpyReference
from gnomon.spec.configuration import Configuration
from gnomon.spec.parameters import BIASES_FORGOTTEN, NORMS_FORGOTTEN, TIED_COUNTED_TWICE


@commits(BIASES_FORGOTTEN)
class BiasesForgotten(NumpyReference):
    """A linear layer is its weight alone."""

    def matrix(self, inward: int, outward: int, biased: bool) -> int:
        return inward * outward


@commits(NORMS_FORGOTTEN)
class NormsForgotten(NumpyReference):
    """A norm has no parameters."""

    def norm_parameters(self, c: Configuration) -> int:
        return 0


@commits(TIED_COUNTED_TWICE)
class TiedCountedTwice(NumpyReference):
    """A tied unembedding is counted like one of its own."""

    def unembedding_parameters(self, c: Configuration) -> int:
        return c.vocabulary * c.width + c.vocabulary * c.unembedding_bias
