"""`jax.nn.dot_product_attention` by XLA, and the activations of `jax.nn`."""

from collections.abc import Mapping
from functools import partial, wraps
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from gnomon.impl.adapters import jax_formats
from gnomon.impl.adapters.jax_platform import swapped
from gnomon.impl.declaration import Declaration
from gnomon.spec.conventions import Conventions
from gnomon.spec.precision import FUSED, ONE_PASS


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


@jax.jit
def additive_attention(query: Array, key: Array, value: Array, parameters: Mapping[str, Array]) -> Array:
    """The average of the values under the softmax of vᵀtanh(W·query + U·key), computed in float32."""
    wide = {name: parameter.astype(jnp.float32) for name, parameter in parameters.items()}
    own, seen = query.astype(jnp.float32) @ wide["query_weight"].T, key.astype(jnp.float32) @ wide["key_weight"].T
    scores = jnp.tanh(own[..., :, None, :] + seen[..., None, :, :]) @ wide["score_weight"]
    return (jax.nn.softmax(scores) @ value.astype(jnp.float32)).astype(query.dtype)


@partial(jax.jit, static_argnames=("dilation", "causal"))
def convolution(
    x: Array, weight: Array, bias: Array | None = None, *, dilation: int = 1, causal: bool = False
) -> Array:
    """The kernel's weighted sums over time, zeros beyond its ends, all of them before it where causal."""
    span = (weight.shape[-1] - 1) * dilation
    ends = (span, 0) if causal else (span // 2, span - span // 2)
    sums = jax.lax.conv_general_dilated(x.swapaxes(1, 2), weight, (1,), [ends], rhs_dilation=(dilation,))
    return sums.swapaxes(1, 2) if bias is None else sums.swapaxes(1, 2) + bias


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


@partial(jax.jit, static_argnames=("eps",))
def layer_norm(x: Array, weight: Array, bias: Array | None = None, *, eps: float) -> Array:
    """The standardised features times the gain, plus the shift."""
    scaled = jax.nn.standardize(x, epsilon=eps) * weight
    return scaled if bias is None else scaled + bias


def embedding(table: Array, ids: Array) -> Array:
    """The rows that the ids name."""
    return jnp.take(table, ids, axis=0)


rounded = jax_formats.rounded
total = jax_formats.total
share_under_floor = jax_formats.share_under_floor

declaration = Declaration(
    framework="jax",
    compiles=True,
    memory="quadratic",
    # Not float64: its softmax is carried out in float32 whatever it is given (F4 in docs/findings.md).
    dtypes=("float32", "bfloat16"),
    # Attention keeps its scores in float32; a bias and the steps of an activation meet numbers already rounded.
    # `standardize` takes its variance in one pass, and gain and shift meet what it has rounded.
    sites=FUSED | {"prebias", "steps", "normed", ONE_PASS},
    conventions=Conventions(
        window="excluding-self",
        alignment="top-left",
        empty_row="mean",
        masked_key="blocked",
        masked_value="leaks",
        e4m3fn_overflow="nan",
        e5m2_overflow="infinity",
    ),
    paths={"attention": {"un-jitted": unjitted}},
)
