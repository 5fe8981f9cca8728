"""JAX with 64-bit numbers, on the CPU unless the environment names another platform."""

import os

import jax
from jax import Array

jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]
jax.config.update("jax_platforms", os.environ.get("JAX_PLATFORMS", "cpu"))  # type: ignore[no-untyped-call]


def swapped(array: Array) -> Array:
    """The same array with heads and time exchanged: `[batch, time, heads, width]` for JAX's libraries."""
    return array.swapaxes(1, 2)
