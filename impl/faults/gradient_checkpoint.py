"""Faults of II.2.2 where a forward pass with dropout is run again for its gradient."""

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference
from gnomon.spec.gradient import DROPOUT_PULLED_BY_SHARE, REPLAYED_ANEW


@commits(REPLAYED_ANEW)
class ReplayedAnew(NumpyReference):
    """The second draw goes on where the first one ended."""

    def drawn_again(self, shape: tuple[int, ...], share: float, seed: int) -> Array:
        return np.asarray(self.drawn_mask((2, *shape), share, seed)[1])


@commits(DROPOUT_PULLED_BY_SHARE)
class DropoutPulledByShare(NumpyReference):
    """What was kept passes its gradient on times the share that was dropped."""

    def thinned_back(self, upstream: Array, kept: Array, share: float) -> Array:
        return self.thinned(upstream, kept, 1 - 1 / share)
