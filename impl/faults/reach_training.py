"""Faults of IV.1 in additive attention."""

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference
from gnomon.impl.tape import asarray
from gnomon.spec.reach import BENT_APART, OVER_THE_QUERIES, QUERY_UNREAD


@commits(OVER_THE_QUERIES)
class OverTheQueries(NumpyReference):
    """The softmax runs over the axis before the last."""

    def over_keys(self, scores: Array) -> Array:
        return super().over_keys(scores.swapaxes(-1, -2)).swapaxes(-1, -2)


@commits(QUERY_UNREAD)
class QueryUnread(NumpyReference):
    """Zero times the query is added to the key."""

    def bent(self, query: Array, key: Array) -> Array:
        return super().bent(query * query.dtype.type(0), key)


@commits(BENT_APART)
class BentApart(NumpyReference):
    """Two tangents are added."""

    def bent(self, query: Array, key: Array) -> Array:
        return asarray(np.tanh(query) + np.tanh(key))
