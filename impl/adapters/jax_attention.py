"""`jax.nn.dot_product_attention` by XLA, and the activations of `jax.nn`."""

from functools import wraps
from typing import Any

import jax
from jax import Array

from gnomon.impl.adapters.jax_platform import swapped
from gnomon.impl.declaration import Declaration
from gnomon.spec.conventions import Conventions
from gnomon.spec.precision import FUSED


def unjitted(
    query: Array,
    key: Array,
    value: Array,
    *,
    mask: Array | None = None,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
) -> Array:
    """The attention, dispatched one operation after the other."""
    if value.shape[-1] != key.shape[-1]:
        raise NotImplementedError("jax.nn.dot_product_attention takes values only of the keys' width")
    boolean = mask is not None and mask.dtype == bool
    output = jax.nn.dot_product_attention(
        swapped(query),
        swapped(key),
        swapped(value),
        bias=None if boolean else mask,
        mask=mask if boolean else None,
        scale=scale,
        is_causal=causal,
        local_window_size=window,
        implementation="xla",
    )
    return swapped(output)


jitted = jax.jit(unjitted, static_argnames=("causal", "window"))


@wraps(unjitted)
def attention(*arrays: Array, **keywords: Any) -> Array:
    """The attention, compiled as a whole."""
    try:
        output: Array = jitted(*arrays, **keywords)
    except jax.errors.JaxRuntimeError as error:
        if "Algorithm not supported" not in str(error):
            raise
        raise NotImplementedError("XLA has no bfloat16 product with float32 sums for one single dot") from error
    return output


@jax.jit
def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """The affine map x·Wᵀ + b."""
    return x @ weight.T if bias is None else x @ weight.T + bias


def relu(x: Array) -> Array:
    """The positive part."""
    return jax.nn.relu(x)


@jax.jit
def gelu(x: Array) -> Array:
    """x·Φ(x)."""
    return jax.nn.gelu(x, approximate=False)


@jax.jit
def gelu_tanh(x: Array) -> Array:
    """The approximation of x·Φ(x) by the hyperbolic tangent."""
    return jax.nn.gelu(x, approximate=True)


def silu(x: Array) -> Array:
    """x·σ(x)."""
    return jax.nn.silu(x)


@jax.jit
def softmax(logits: Array) -> Array:
    """The exponentials along the last axis, divided by their sum."""
    return jax.nn.softmax(logits)


declaration = Declaration(
    framework="jax",
    compiles=True,
    # Not float64: its softmax is carried out in float32 whatever it is given (F4 in docs/findings.md).
    dtypes=("float32", "bfloat16"),
    # Attention keeps its scores in float32; a bias and the steps of an activation meet numbers already rounded.
    sites=FUSED | {"prebias", "steps"},
    conventions=Conventions(
        window="excluding-self",
        alignment="top-left",
        empty_row="mean",
        masked_key="blocked",
        masked_value="leaks",
    ),
    paths={"attention": {"un-jitted": unjitted}},
)
