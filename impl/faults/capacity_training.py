"""Faults of VIII.2 that show when something is memorised."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference
from gnomon.impl.tape import asarray
from gnomon.spec.capacity import CAPPED_RECTIFIER, FIRST_LAYER_FROZEN, SCORED_ON_TRAINING_ROWS


@commits(CAPPED_RECTIFIER)
class CappedRectifier(NumpyReference):
    """Nothing above six passes."""

    def relu(self, x: Array) -> Array:
        return asarray(np.minimum(super().relu(x), x.dtype.type(6)))


@commits(FIRST_LAYER_FROZEN)
class FirstLayerFrozen(NumpyReference):
    """The first layer of a feed-forward network has a gradient of zero."""

    def vjp(self, operation: str, arrays: Sequence[Any], upstream: Array, **options: Any) -> list[Any]:
        found = super().vjp(operation, arrays, upstream, **options)
        if operation == "feed_forward":
            found[1] = {n: g * (not n.startswith("up")) for n, g in found[1].items()}
        return found


@commits(SCORED_ON_TRAINING_ROWS)
class ScoredOnTrainingRows(NumpyReference):
    """The first rows are scored, as many as were held out."""

    def rows_scored(self, learned: Array, held_out: Array) -> Array:
        return np.resize(learned, len(held_out))
