"""Faults of I.1.9: dropout of another share, without its scale, or from another draw than was asked for."""

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference
from gnomon.spec.function import (
    ALL_DROPPED,
    KEEP_FOR_DROP,
    MASK_OF_A_ROW,
    SAME_MASK,
    SCALING_FORGOTTEN,
    SEED_BY_ADDRESS,
)


@commits(KEEP_FOR_DROP)
class KeepForDrop(NumpyReference):
    """The share is what is kept, and is scaled for that."""

    def dropout(self, x: Array, *, share: float, seed: int) -> Array:
        return super().dropout(x, share=1 - share if share else 0.0, seed=seed)


@commits(SAME_MASK)
class SameMask(NumpyReference):
    """Every mask is that of the seed 0."""

    def drawn_mask(self, shape: tuple[int, ...], share: float, seed: int) -> Array:
        return super().drawn_mask(shape, share, 0)


@commits(SCALING_FORGOTTEN)
class ScalingForgotten(NumpyReference):
    """What is kept stays as it is."""

    def dropout_gain(self, share: float) -> float:
        return 1.0


@commits(MASK_OF_A_ROW)
class MaskOfARow(NumpyReference):
    """The first row's mask serves all."""

    def drawn_mask(self, shape: tuple[int, ...], share: float, seed: int) -> Array:
        return np.broadcast_to(super().drawn_mask(shape[1:], share, seed), shape)


@commits(ALL_DROPPED)
class AllDropped(NumpyReference):
    """The mask is all zeros."""

    def drawn_mask(self, shape: tuple[int, ...], share: float, seed: int) -> Array:
        return np.asarray(super().drawn_mask(shape, share, seed) & (share == 0))


@commits(SEED_BY_ADDRESS)
class SeedByAddress(NumpyReference):
    """The generator is started from something that is new at every call."""

    calls = 0

    def drawn_mask(self, shape: tuple[int, ...], share: float, seed: int) -> Array:
        self.calls += 1
        return super().drawn_mask(shape, share, seed + (self.calls << 32))
