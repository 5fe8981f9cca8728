"""Casts and sums of JAX, and `jax.checkpoint` around the dropout of a library."""

from collections.abc import Callable, Mapping
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

Dropout = Callable[..., Array]  # of an input, by a key, of a share


@partial(jax.jit, static_argnames=("format",))
def rounded(x: Array, *, format: str) -> Array:
    """The array cast to the format and back."""
    return x.astype(format).astype(x.dtype)


@jax.jit
def total(x: Array) -> Array:
    """The sum over the last axis."""
    return x.sum(-1)


def share_under_floor(gradients: Mapping[str, Array], *, format: str, scale: float = 1.0) -> float:
    """Of the gradients that are not zero, the share that is zero in the format once it is scaled."""
    every = jnp.concatenate([g.ravel() for g in gradients.values()])
    alive = every != 0
    lost = alive & ((every * scale).astype(format).astype(jnp.float32) == 0)
    return float(lost.sum()) / max(int(alive.sum()), 1)


@partial(jax.jit, static_argnames=("dropout", "share"))
def checkpointed(dropout: Dropout, x: Array, upstream: Array, key: Array, share: float) -> tuple[Array, Array]:
    """Dropout under `jax.checkpoint`, and its gradient."""
    output, pull = jax.vjp(jax.checkpoint(partial(dropout, share=share)), x, key)
    return output, pull(upstream)[0]
