"""Faults of V.5: estimates that forget a factor."""

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import NumpyReference
from gnomon.spec.configuration import Configuration
from gnomon.spec.memory import BATCH_FORGOTTEN, HEADS_FORGOTTEN, QUERY_HEADS_CACHED


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
