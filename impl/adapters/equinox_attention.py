"""Equinox's layers holding given weights; they see one example at a time, so a batch is mapped over."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from gnomon.impl.adapters import equinox_formats
from gnomon.impl.adapters.jax_platform import swapped
from gnomon.impl.declaration import Declaration
from gnomon.spec.conventions import Conventions
from gnomon.spec.precision import EAGER

ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "gelu": partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": partial(jax.nn.gelu, approximate=True),
    "silu": jax.nn.silu,
}


def holding(weight: Array, bias: Array | None) -> Any:
    """A `Linear` layer with this weight and bias."""
    width_out, width_in = weight.shape
    make = partial(eqx.nn.Linear, width_in, width_out, use_bias=bias is not None)
    empty = eqx.filter_eval_shape(make, key=jax.random.key(0))
    parts = (weight,) if bias is None else (weight, bias)
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias)[: len(parts)], empty, parts)


def layer(heads: int, width: int, projections: tuple[Any, Any, Any, Any]) -> Any:
    """A `MultiheadAttention` with these projections of query, key, value and output."""
    make = partial(eqx.nn.MultiheadAttention, heads, width)
    empty = eqx.filter_eval_shape(make, key=jax.random.key(0))
    return eqx.tree_at(
        lambda tree: (tree.query_proj, tree.key_proj, tree.value_proj, tree.output_proj), empty, projections
    )


def mapped(module: Any, mask: Array | None, sizes: tuple[int, int, int, int], *arrays: Array) -> Array:
    """The layer applied to each example with its own part of the mask, one per head or one for all."""
    if mask is None:
        return jnp.asarray(jax.vmap(module)(*arrays))
    if mask.dtype != bool:
        raise NotImplementedError("equinox.nn.MultiheadAttention takes no additive mask")
    if mask.ndim == 2:
        return jnp.asarray(jax.vmap(partial(module, mask=jnp.broadcast_to(mask, sizes[2:])))(*arrays))
    masks = jnp.broadcast_to(mask, sizes)
    return jnp.asarray(jax.vmap(lambda part, *rows: module(*rows, mask=part))(masks, *arrays))


def unjitted(query: Array, key: Array, value: Array, *, mask: Array | None = None) -> Array:
    """The attention of a layer without projections, dispatched one operation after the other."""
    if key.shape[1] != query.shape[1]:
        raise NotImplementedError("equinox.nn.MultiheadAttention takes as many key as query heads")
    batch, heads, queries, width = query.shape
    module = layer(heads, heads * width, (eqx.nn.Identity(),) * 4)
    rows = (swapped(a).reshape(batch, a.shape[2], -1) for a in (query, key, value))
    output = mapped(module, mask, (batch, heads, queries, key.shape[2]), *rows)
    return swapped(output.reshape(batch, queries, heads, -1))


attention = jax.jit(unjitted)


@partial(jax.jit, static_argnames=("heads",))
def multi_head_attention(x: Array, parameters: Mapping[str, Array], *, heads: int, mask: Array | None = None) -> Array:
    """The output of a layer with these weights."""
    if parameters["key_weight"].shape[0] != parameters["query_weight"].shape[0]:
        raise NotImplementedError("equinox.nn.MultiheadAttention shares no key heads")
    batch, time, width = x.shape
    query, key, value, output = (
        holding(parameters[f"{name}_weight"], parameters.get(f"{name}_bias"))
        for name in ("query", "key", "value", "output")
    )
    module = layer(heads, width, (query, key, value, output))
    return mapped(module, mask, (batch, heads, time, time), x, x, x)


@jax.jit
def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """The output of a `Linear` layer, mapped over all axes but the last."""
    rows = jnp.asarray(jax.vmap(holding(weight, bias))(x.reshape(-1, x.shape[-1])))
    return rows.reshape(*x.shape[:-1], -1)


@partial(jax.jit, static_argnames=("activation",))
def feed_forward(x: Array, parameters: Mapping[str, Array], *, activation: str) -> Array:
    """The output of an `MLP` of one hidden layer, mapped over batch and time."""
    if "gate_weight" in parameters:
        raise NotImplementedError("equinox.nn.MLP has no gate")
    up, down = (holding(parameters[f"{name}_weight"], parameters.get(f"{name}_bias")) for name in ("up", "down"))
    make = partial(eqx.nn.MLP, x.shape[-1], x.shape[-1], 1, 1, ACTIVATIONS[activation])
    empty = eqx.filter_eval_shape(make, key=jax.random.key(0))
    module = eqx.tree_at(lambda tree: tree.layers, empty, (up, down))
    return jnp.asarray(jax.vmap(jax.vmap(module))(x))


@partial(jax.jit, static_argnames=("eps",))
def layer_norm(x: Array, weight: Array, bias: Array | None = None, *, eps: float) -> Array:
    """The output of a `LayerNorm`, mapped over batch and time."""
    empty = eqx.nn.LayerNorm(weight.shape, eps, use_bias=bias is not None)
    parts = (weight,) if bias is None else (weight, bias)
    module = eqx.tree_at(lambda tree: (tree.weight, tree.bias)[: len(parts)], empty, parts)
    return jnp.asarray(jax.vmap(jax.vmap(module))(x))


@partial(jax.jit, static_argnames=("eps",))
def rms_norm(x: Array, weight: Array, *, eps: float) -> Array:
    """The output of an `RMSNorm` without a shift, mapped over batch and time."""
    empty = eqx.nn.RMSNorm(weight.shape, eps, use_bias=False)
    module = eqx.tree_at(lambda tree: tree.weight, empty, weight)
    return jnp.asarray(jax.vmap(jax.vmap(module))(x))


@jax.jit
def embedding(table: Array, ids: Array) -> Array:
    """The output of an `Embedding` layer, mapped over batch and time."""
    return jnp.asarray(jax.vmap(jax.vmap(eqx.nn.Embedding(weight=table)))(ids))


dropout = equinox_formats.dropout
checkpointed_dropout = equinox_formats.checkpointed_dropout

declaration = Declaration(
    framework="jax",
    compiles=True,
    memory="quadratic",
    dtypes=("float64", "float32", "bfloat16", "float16"),
    sites=EAGER,
    conventions=Conventions(empty_row="mean", masked_key="blocked", masked_value="leaks"),
    paths={"attention": {"un-jitted": unjitted}},
)
