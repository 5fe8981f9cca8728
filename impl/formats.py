"""Casts, long sums, loss scaling, master copies and dropout in NumPy, in small steps that a fault can replace."""

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from gnomon.impl.numpy_operations import Array, Parameters, wide

NARROW: Mapping[str, np.dtype[Any]] = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}


class NumpyFormats:
    """What mixed precision and dropout need in NumPy."""

    # Formats.

    def rounded(self, x: Array, *, format: str) -> Array:
        """The array cast to the format and back."""
        return np.asarray(self.cast(self.singled(x), NARROW[format]).astype(np.float32).astype(x.dtype))

    def singled(self, x: Array) -> Array:
        """The array in float32, rounded to odd, so that the rounding that follows comes out as if it were the only one.

        Cut towards zero, with the last bit set where anything was cut off; ml_dtypes itself goes through the nearest.
        """
        if x.dtype != np.float64:
            return x.astype(np.float32)
        near = x.astype(np.float32)
        cut = np.where(np.abs(near.astype(np.float64)) > np.abs(x), np.nextafter(near, np.float32(0)), near)
        bits = cut.astype(np.float32).view(np.uint32) | (cut.astype(np.float64) != x).astype(np.uint32)
        return np.asarray(bits.view(np.float32))

    def cast(self, x: Array, narrow: np.dtype[Any]) -> Array:
        """The float32 array in a format of fewer bits."""
        return np.asarray(x.astype(narrow))

    def total(self, x: Array) -> Array:
        """The sum over the last axis."""
        return np.asarray(wide(x).sum(-1), x.dtype)

    # Dropout.

    def dropout(self, x: Array, *, share: float, seed: int) -> Array:
        """The array without that share of its entries, the others scaled up."""
        return self.thinned(x, self.drawn_mask(x.shape, share, seed), share)

    def checkpointed_dropout(self, x: Array, upstream: Array, *, share: float, seed: int) -> tuple[Array, Array]:
        """The same, and the gradient of x from a backward pass that draws the mask a second time."""
        output = self.dropout(x, share=share, seed=seed)
        return output, self.thinned_back(upstream, self.drawn_again(x.shape, share, seed), share)

    def drawn_mask(self, shape: tuple[int, ...], share: float, seed: int) -> Array:
        """Which entries are kept."""
        return np.asarray(np.random.default_rng(seed).random(shape) >= share)

    def drawn_again(self, shape: tuple[int, ...], share: float, seed: int) -> Array:
        """Which entries are kept where the backward pass runs the forward pass again."""
        return self.drawn_mask(shape, share, seed)

    def thinned(self, x: Array, kept: Array, share: float) -> Array:
        """The entries that are kept, scaled, and zeros."""
        inner = wide(x)
        return np.where(kept, inner * inner.dtype.type(self.dropout_gain(share)), 0).astype(x.dtype)

    def thinned_back(self, upstream: Array, kept: Array, share: float) -> Array:
        """The gradient of what went into dropout."""
        return self.thinned(upstream, kept, share)

    def dropout_gain(self, share: float) -> float:
        """The factor on what is kept."""
        return 1 / (1 - share)

    # Loss scaling and master copies.

    def loss_scaler(
        self, parameters: Parameters, *, rate: float, scale: float, clip: float | None = None
    ) -> "NumpyScaler":
        """Plain descent from these parameters on gradients of the scaled loss."""
        return NumpyScaler(self, parameters, rate, scale, clip)

    def overflowed(self, gradients: Parameters) -> bool:
        """Whether a step has to be skipped."""
        return not all(np.isfinite(g.astype(np.float64)).all() for g in gradients.values())

    def lowered(self, scale: float) -> float:
        """The scale after an overflow."""
        return scale / 2

    def directed(self, gradients: dict[str, Array], scaler: "NumpyScaler") -> dict[str, Array]:
        """The gradients of the loss, clipped."""
        return self.shortened(self.unscaled(gradients, scaler.scale), scaler.clip)

    def unscaled(self, gradients: dict[str, Array], scale: float) -> dict[str, Array]:
        """The gradients of the loss from those of the scaled loss."""
        return {name: g / g.dtype.type(scale) for name, g in gradients.items()}

    def shortened(self, gradients: dict[str, Array], clip: float | None) -> dict[str, Array]:
        """The gradients with a common norm that is not above the limit."""
        norm = float(np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in gradients.values())))
        if clip is None or norm <= clip:
            return gradients
        return {name: g * g.dtype.type(clip / norm) for name, g in gradients.items()}

    def moved(self, parameter: Array, gradient: Array, rate: float) -> Array:
        """The parameter after a step of plain descent."""
        return np.asarray(parameter - parameter.dtype.type(rate) * gradient)

    def master_step(self, parameter: Array, gradient: Array, *, rate: float, steps: int) -> Array:
        """The parameter after so many steps of plain descent along one gradient, taken on a wider copy of it."""
        master, slope = wide(parameter), wide(gradient)
        for _ in range(steps):
            master = self.moved(self.master(master, parameter.dtype), slope, rate)
        return np.asarray(master, parameter.dtype)

    def master(self, master: Array, stored: np.dtype[Any]) -> Array:
        """The copy from which the next step starts, beside parameters stored in that dtype."""
        return master

    # What falls through the floor.

    def share_under_floor(self, gradients: Parameters, *, format: str, scale: float = 1.0) -> float:
        """Of the gradients that are not zero, the share that is zero in the format once it is scaled."""
        lost, counted = zip(*(self.lost(g, format, scale) for g in gradients.values()), strict=True)
        return self.share_of(lost, counted)

    def lost(self, gradient: Array, format: str, scale: float) -> tuple[int, int]:
        """How many of a tensor's gradients become zero, and of how many."""
        alive = self.alive(wide(gradient))
        narrow = self.cast(self.singled(alive * alive.dtype.type(scale)), NARROW[format]).astype(np.float32)
        return int(self.gone(narrow, format).sum()), alive.size

    def alive(self, gradient: Array) -> Array:
        """The gradients that count."""
        return np.asarray(gradient[gradient != 0])

    def gone(self, narrow: Array, format: str) -> Array:
        """Which of the stored gradients are under the floor."""
        return np.asarray(narrow == 0)

    def share_of(self, lost: tuple[int, ...], counted: tuple[int, ...]) -> float:
        """The share over all tensors."""
        return sum(lost) / sum(counted) if sum(counted) else 0.0


class NumpyScaler:
    """Loss scaling around plain descent: unscale, skip or clip, step; the parameters are wider than the gradients."""

    def __init__(self, operations: NumpyFormats, parameters: Parameters, rate: float, scale: float, clip: float | None):
        self.operations, self.parameters = operations, dict(parameters)
        self.rate, self.scale, self.clip, self.first = rate, scale, clip, scale

    def step(self, gradients: Parameters) -> dict[str, Array]:
        """The parameters after a step on gradients of the loss times the scale, the same ones after an overflow."""
        o = self.operations
        if o.overflowed(gradients):
            self.scale = o.lowered(self.scale)
            return self.parameters
        own = {name: g.astype(self.parameters[name].dtype) for name, g in gradients.items()}
        self.parameters = {n: o.moved(self.parameters[n], g, self.rate) for n, g in o.directed(own, self).items()}
        return self.parameters
