"""Faults of VIII.1: casts that lose more than a format does, scales that are not undone, copies in name only."""

from typing import Any

import ml_dtypes
import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.formats import NARROW, NumpyScaler
from gnomon.impl.reference import Array, NumpyReference, Parameters
from gnomon.spec.formats import (
    CLIPPED_SCALED,
    FLUSHED,
    HALF_SATURATES,
    INFINITE_E4M3,
    INITIAL_SCALE,
    MASTER_IN_NAME,
    MEAN_OF_SHARES,
    NAN_BECOMES_ZERO,
    NAN_UNSEEN,
    NORMAL_FLOOR,
    ROUNDED_TWICE,
    SCALE_IGNORED,
    SCALE_NOT_UNDONE,
    SCALE_STAYS,
    STEP_NOT_SKIPPED,
    STORED_PRODUCT_SUMS,
    STORED_SUMS,
    TENSOR_SKIPPED,
    TIES_AWAY,
    TOWARDS_ZERO,
    UNSCALED_TWICE,
    ZEROS_COUNTED,
)


def _spelled(x: Array) -> Array:
    """Stored numbers, in float32."""
    return np.asarray(x.astype(np.float32))


def _normal(narrow: np.dtype[Any]) -> np.float32:
    """The smallest normal number of a format."""
    exponents = {"float16": -14, "bfloat16": -126, "float8_e4m3fn": -6, "float8_e5m2": -14}
    return np.float32(2.0 ** exponents[str(narrow)])


@commits(FLUSHED)
class Flushed(NumpyReference):
    """What is stored under the smallest normal number is zero."""

    def cast(self, x: Array, narrow: np.dtype[Any]) -> Array:
        out = super().cast(x, narrow)
        subnormal = np.abs(_spelled(out)) < _normal(narrow)
        return np.where(subnormal, np.copysign(0, x), _spelled(out)).astype(narrow)


@commits(TOWARDS_ZERO)
class TowardsZero(NumpyReference):
    """A number that was rounded up is taken back by one."""

    def cast(self, x: Array, narrow: np.dtype[Any]) -> Array:
        out = super().cast(x, narrow)
        return np.where(np.abs(_spelled(out)) > np.abs(x), np.nextafter(out, narrow.type(0)), out).astype(narrow)


@commits(TIES_AWAY)
class TiesAway(NumpyReference):
    """A number halfway between two is pushed over the middle."""

    def cast(self, x: Array, narrow: np.dtype[Any]) -> Array:
        near = super().cast(x, narrow)
        over = super().cast(np.nextafter(x, np.copysign(np.float32(np.inf), x)), narrow)
        return np.where(np.isfinite(x) & (_spelled(near) != x), over, near).astype(narrow)


@commits(ROUNDED_TWICE)
class RoundedTwice(NumpyReference):
    """Eight bits are reached by way of bfloat16."""

    def cast(self, x: Array, narrow: np.dtype[Any]) -> Array:
        through = x.astype(ml_dtypes.bfloat16).astype(np.float32) if narrow.itemsize == 1 else x
        return super().cast(through, narrow)


@commits(HALF_SATURATES)
class HalfSaturates(NumpyReference):
    """Half precision ends in its largest number."""

    def cast(self, x: Array, narrow: np.dtype[Any]) -> Array:
        limit = np.finfo(np.float16).max.astype(np.float32)
        held = np.where(np.isinf(x), x, np.clip(x, -limit, limit)) if narrow == np.float16 else x
        return super().cast(held, narrow)


@commits(INFINITE_E4M3)
class InfiniteE4M3(NumpyReference):
    """Numbers beyond e4m3fn come back infinite."""

    def rounded(self, x: Array, *, format: str) -> Array:
        out = super().rounded(x, format=format)
        if format != "float8_e4m3fn":
            return out
        return np.where(np.isnan(out) & ~np.isnan(x), np.copysign(np.inf, _spelled(x)), _spelled(out)).astype(x.dtype)


@commits(NAN_BECOMES_ZERO)
class NanBecomesZero(NumpyReference):
    """NaN is replaced before the cast."""

    def cast(self, x: Array, narrow: np.dtype[Any]) -> Array:
        return super().cast(np.where(np.isnan(x), np.float32(0), x), narrow)


@commits(SCALE_NOT_UNDONE)
class ScaleNotUndone(NumpyReference):
    """The scaled gradients are used as they are."""

    def unscaled(self, gradients: dict[str, Array], scale: float) -> dict[str, Array]:
        return gradients


@commits(UNSCALED_TWICE)
class UnscaledTwice(NumpyReference):
    """The scale is divided out two times."""

    def unscaled(self, gradients: dict[str, Array], scale: float) -> dict[str, Array]:
        return super().unscaled(super().unscaled(gradients, scale), scale)


@commits(INITIAL_SCALE)
class InitialScale(NumpyReference):
    """The scale of the first step is divided out of all."""

    def directed(self, gradients: dict[str, Array], scaler: NumpyScaler) -> dict[str, Array]:
        return self.shortened(self.unscaled(gradients, scaler.first), scaler.clip)


class _Unskipping(NumpyReference):
    """A step with overflow lowers the scale and is taken all the same."""

    def loss_scaler(
        self, parameters: Parameters, *, rate: float, scale: float, clip: float | None = None
    ) -> NumpyScaler:
        return _Unskipped(self, parameters, rate, scale, clip)

    def cured(self, gradients: Parameters) -> Parameters:
        """What the step is taken on."""
        return gradients


class _Unskipped(NumpyScaler):
    def step(self, gradients: Parameters) -> dict[str, Array]:
        o = self.operations
        assert isinstance(o, _Unskipping)
        own = {name: g.astype(self.parameters[name].dtype) for name, g in o.cured(gradients).items()}
        self.parameters = {n: o.moved(self.parameters[n], g, self.rate) for n, g in o.directed(own, self).items()}
        self.scale = o.lowered(self.scale) if o.overflowed(gradients) else self.scale
        return self.parameters


@commits(STEP_NOT_SKIPPED)
class StepNotSkipped(_Unskipping):
    """Infinity goes into the parameters."""


@commits(TENSOR_SKIPPED)
class TensorSkipped(_Unskipping):
    """A tensor with overflow gets a gradient of zeros, and the others their own."""

    def cured(self, gradients: Parameters) -> Parameters:
        return {n: np.zeros_like(g) if self.overflowed({n: g}) else g for n, g in gradients.items()}


@commits(NAN_UNSEEN)
class NanUnseen(NumpyReference):
    """NaN is finite enough."""

    def overflowed(self, gradients: Parameters) -> bool:
        return any(bool(np.isinf(g.astype(np.float64)).any()) for g in gradients.values())


@commits(SCALE_STAYS)
class ScaleStays(NumpyReference):
    """The scale is the same for ever."""

    def lowered(self, scale: float) -> float:
        return scale


@commits(CLIPPED_SCALED)
class ClippedScaled(NumpyReference):
    """The limit is held against the scaled norm."""

    def directed(self, gradients: dict[str, Array], scaler: NumpyScaler) -> dict[str, Array]:
        return self.unscaled(self.shortened(gradients, scaler.clip), scaler.scale)


@commits(MASTER_IN_NAME)
class MasterInName(NumpyReference):
    """Each step starts from the stored parameter."""

    def master(self, master: Array, stored: np.dtype[Any]) -> Array:
        return np.asarray(master.astype(stored).astype(master.dtype))


@commits(STORED_SUMS)
class StoredSums(NumpyReference):
    """Every partial sum is stored."""

    def total(self, x: Array) -> Array:
        return np.asarray(np.cumsum(x, axis=-1, dtype=x.dtype)[..., -1])


@commits(STORED_PRODUCT_SUMS)
class StoredProductSums(NumpyReference):
    """Every product is added to a sum in storage."""

    def linear(self, x: Array, weight: Array, bias: Array | None = None) -> Array:
        if x.dtype.itemsize > 2:
            return super().linear(x, weight, bias)
        out = np.zeros((*x.shape[:-1], weight.shape[0]), x.dtype)
        for index in range(x.shape[-1]):
            out = out + x[..., index, None] * weight[:, index]
        return out if bias is None else out + bias


@commits(NORMAL_FLOOR)
class NormalFloor(NumpyReference):
    """Subnormal gradients are counted as lost."""

    def gone(self, narrow: Array, format: str) -> Array:
        return np.asarray(np.abs(narrow) < _normal(NARROW[format]))


@commits(ZEROS_COUNTED)
class ZerosCounted(NumpyReference):
    """Gradients that are zero count among the others."""

    def alive(self, gradient: Array) -> Array:
        return gradient


@commits(SCALE_IGNORED)
class ScaleIgnored(NumpyReference):
    """The gradients are stored unscaled."""

    def lost(self, gradient: Array, format: str, scale: float) -> tuple[int, int]:
        return super().lost(gradient, format, 1.0)


@commits(MEAN_OF_SHARES)
class MeanOfShares(NumpyReference):
    """A share for each tensor, and their mean."""

    def share_of(self, lost: tuple[int, ...], counted: tuple[int, ...]) -> float:
        return float(np.mean([a / b for a, b in zip(lost, counted, strict=True) if b]))
