"""Dropout of Equinox."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from gnomon.impl.adapters.jax_formats import checkpointed


@partial(jax.jit, static_argnames=("share",))
def drop(x: Array, key: Array, *, share: float) -> Array:
    """The output of an `eqx.nn.Dropout` that is not in inference."""
    return jnp.asarray(eqx.nn.Dropout(share)(x, key=key))


def dropout(x: Array, *, share: float, seed: int) -> Array:
    """The same, by a seed."""
    return jnp.asarray(drop(x, jax.random.key(seed), share=share))


def checkpointed_dropout(x: Array, upstream: Array, *, share: float, seed: int) -> tuple[Array, Array]:
    """Dropout under `jax.checkpoint`, and its gradient."""
    output, gradient = checkpointed(drop, x, upstream, jax.random.key(seed), share)
    return output, gradient
