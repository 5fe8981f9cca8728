"""Faults of II.1: linear layers that are not affine, act on another axis or carry another activation."""

from typing import Any

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference, Parameters, wide
from gnomon.spec.linear import (
    ACTIVATION_FORGOTTEN,
    BIAS_FIRST,
    ERF_FOR_TANH,
    GATE_AND_UP_EXCHANGED,
    HIDDEN_ACTIVATION,
    LEAKY_SLOPE,
    OVER_POSITIONS,
    QUICK_GELU,
    RESHAPED,
    TANH_FOR_ERF,
    TRANSPOSED_WEIGHT,
)


@commits(HIDDEN_ACTIVATION)
class HiddenActivation(NumpyReference):
    """The layer ends in a ReLU of its own."""

    def linear(self, x: Array, weight: Array, bias: Array | None = None) -> Array:
        return self.relu(super().linear(x, weight, bias))


@commits(LEAKY_SLOPE)
class LeakySlope(NumpyReference):
    """Negative outputs are a thousandth too small."""

    def linear(self, x: Array, weight: Array, bias: Array | None = None) -> Array:
        out = super().linear(x, weight, bias)
        return np.where(out < 0, wide(out) * 0.999, out).astype(out.dtype)


@commits(BIAS_FIRST)
class BiasFirst(NumpyReference):
    """The bias of a square layer goes through the weight."""

    def linear(self, x: Array, weight: Array, bias: Array | None = None) -> Array:
        if bias is None or weight.shape[0] != weight.shape[1]:
            return super().linear(x, weight, bias)
        return super().linear(wide(x) + wide(bias), weight).astype(x.dtype)


@commits(ACTIVATION_FORGOTTEN)
class ActivationForgotten(NumpyReference):
    """Nothing stands between the up and the down projection."""

    def feed_forward(self, x: Array, parameters: Parameters, *, activation: str) -> Array:
        return self.project(self.project(x, parameters, "up"), parameters, "down")


@commits(TRANSPOSED_WEIGHT)
class TransposedWeight(NumpyReference):
    """A square weight is not transposed."""

    def oriented(self, weight: Array) -> Array:
        return weight if weight.shape[0] == weight.shape[1] else super().oriented(weight)


@commits(OVER_POSITIONS)
class OverPositions(NumpyReference):
    """The weight contracts the time axis where that is as long as the features'."""

    def linear(self, x: Array, weight: Array, bias: Array | None = None) -> Array:
        return super().linear(x.swapaxes(-1, -2) if x.shape[-2] == x.shape[-1] else x, weight, bias)


@commits(RESHAPED)
class Reshaped(NumpyReference):
    """The output `[out, time]` is reshaped to `[time, out]`, not transposed."""

    def linear(self, x: Array, weight: Array, bias: Array | None = None) -> Array:
        out = super().linear(x, weight, bias)
        return out.swapaxes(-1, -2).reshape(out.shape)


@commits(TANH_FOR_ERF)
class TanhForErf(NumpyReference):
    """GELU is its tanh approximation."""

    def gelu(self, x: Array) -> Array:
        return self.gelu_tanh(x)


@commits(ERF_FOR_TANH)
class ErfForTanh(NumpyReference):
    """The tanh form of GELU is the exact one."""

    def gelu_tanh(self, x: Array) -> Array:
        return self.gelu(x)


@commits(GATE_AND_UP_EXCHANGED)
class GateAndUpExchanged(NumpyReference):
    """The up projection is activated in place of the gate."""

    def gated(self, act: Any, gate: Array, up: Array) -> Array:
        return super().gated(act, up, gate)


@commits(QUICK_GELU)
class QuickGelu(NumpyReference):
    """GELU is x·sigmoid(1.702x)."""

    def gelu(self, x: Array) -> Array:
        inner = wide(x)
        sigmoid = (1 + np.tanh(inner * inner.dtype.type(0.851))) / 2
        return np.asarray(inner * sigmoid, x.dtype)
