"""The attention of Flax Linen, as a function and as a layer that holds given weights."""

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
from flax import linen
from jax import Array

from gnomon.impl.adapters import flax_formats
from gnomon.impl.adapters.jax_platform import swapped
from gnomon.impl.declaration import Declaration
from gnomon.spec.conventions import Conventions
from gnomon.spec.precision import EVERYWHERE, ONE_PASS


def combined(mask: Array | None, causal: bool, length: int) -> Array | None:
    """Flax's own combination of a boolean mask with its causal one."""
    future = linen.make_causal_mask(jnp.empty((1, length)), dtype=bool) if causal else None
    spread = None if mask is None else mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    merged: Array | None = linen.combine_masks(spread, future, dtype=bool)
    return merged


def unjitted(query: Array, key: Array, value: Array, *, mask: Array | None = None, causal: bool = False) -> Array:
    """The attention, dispatched one operation after the other."""
    if key.shape[1] != query.shape[1]:
        raise NotImplementedError("flax.linen.dot_product_attention takes as many key as query heads")
    if causal and key.shape[2] != query.shape[2]:
        raise NotImplementedError("flax.linen.make_causal_mask serves one length, not two")
    boolean = mask is None or mask.dtype == bool
    output = linen.dot_product_attention(
        swapped(query),
        swapped(key),
        swapped(value),
        bias=None if boolean else mask,
        mask=combined(mask if boolean else None, causal, query.shape[2]),
    )
    return swapped(output)


attention = jax.jit(unjitted, static_argnames=("causal",))


@partial(jax.jit, static_argnames=("heads", "causal"))
def multi_head_attention(
    x: Array,
    parameters: Mapping[str, Array],
    *,
    heads: int,
    mask: Array | None = None,
    causal: bool = False,
) -> Array:
    """The output of a `MultiHeadDotProductAttention` with these weights, zero for a bias not given."""
    if mask is not None and mask.dtype != bool:
        raise NotImplementedError("flax.linen.MultiHeadDotProductAttention takes no additive mask")
    inner, width = parameters["query_weight"].shape
    if parameters["key_weight"].shape[0] != inner:
        raise NotImplementedError("flax.linen.MultiHeadDotProductAttention shares no key heads")
    module = linen.MultiHeadDotProductAttention(num_heads=heads, qkv_features=inner)
    split = (heads, inner // heads)
    zero = jnp.zeros(inner, x.dtype)
    variables = {
        name: {
            "kernel": parameters[f"{name}_weight"].T.reshape(width, *split),
            "bias": parameters.get(f"{name}_bias", zero).reshape(split),
        }
        for name in ("query", "key", "value")
    } | {
        "out": {
            "kernel": parameters["output_weight"].T.reshape(*split, -1),
            "bias": parameters.get("output_bias", jnp.zeros(width, x.dtype)),
        }
    }
    return jnp.asarray(module.apply({"params": variables}, x, mask=combined(mask, causal, x.shape[1])))


@jax.jit
def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """The output of a `Dense` layer with these weights."""
    module = linen.Dense(weight.shape[0], use_bias=bias is not None)
    variables = {"kernel": weight.T} if bias is None else {"kernel": weight.T, "bias": bias}
    return jnp.asarray(module.apply({"params": variables}, x))


@partial(jax.jit, static_argnames=("eps",))
def layer_norm(x: Array, weight: Array, bias: Array | None = None, *, eps: float) -> Array:
    """The output of a `LayerNorm` with this gain and shift."""
    module = linen.LayerNorm(eps, use_bias=bias is not None)
    variables = {"scale": weight} if bias is None else {"scale": weight, "bias": bias}
    return jnp.asarray(module.apply({"params": variables}, x))


@partial(jax.jit, static_argnames=("eps",))
def rms_norm(x: Array, weight: Array, *, eps: float) -> Array:
    """The output of an `RMSNorm` with this gain."""
    return jnp.asarray(linen.RMSNorm(eps).apply({"params": {"scale": weight}}, x))


@jax.jit
def embedding(table: Array, ids: Array) -> Array:
    """The output of an `Embed` layer with this table."""
    return jnp.asarray(linen.Embed(table.shape[0], table.shape[1]).apply({"params": {"embedding": table}}, ids))


dropout = flax_formats.dropout
checkpointed_dropout = flax_formats.checkpointed_dropout
loss_scaler = flax_formats.loss_scaler
master_step = flax_formats.master_step

declaration = Declaration(
    framework="jax",
    compiles=True,
    memory="quadratic",
    dtypes=("float64", "float32", "bfloat16", "float16"),
    # `LayerNorm` takes its variance in one pass unless it is told not to.
    sites=EVERYWHERE | {ONE_PASS},
    conventions=Conventions(empty_row="mean", masked_key="blocked", masked_value="leaks"),
    paths={"attention": {"un-jitted": unjitted}, "dropout": {"nnx.Dropout": flax_formats.dropout_nnx}},
)
