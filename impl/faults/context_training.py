"""Faults of VIII.3 that show when something is learned."""

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference, Pass
from gnomon.spec.context import EIGHT_TOKENS_READ, UNTURNED


@commits(UNTURNED)
class Unturned(NumpyReference):
    """The heads stay as they are."""

    def turned_to(self, x: Array, p: Pass) -> Array:
        return x


@commits(EIGHT_TOKENS_READ)
class EightTokensRead(NumpyReference):
    """The last eight keys alone are seen."""

    def model_mask(self, query: Array, layer: int, p: Pass) -> Array | None:
        seen = super().model_mask(query, layer, p)
        keys = p.seen.shape[1]
        return None if seen is None else seen & (np.arange(keys) >= keys - 8)
