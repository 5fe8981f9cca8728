"""Dropout, loss scaling and master copies of Flax and optax."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen, nnx
from flax.training.dynamic_scale import DynamicScale
from jax import Array

from gnomon.impl.adapters.jax_formats import checkpointed


@partial(jax.jit, static_argnames=("share",))
def drop(x: Array, key: Array, *, share: float) -> Array:
    """The output of a `linen.Dropout` that is not deterministic."""
    return jnp.asarray(linen.Dropout(share, deterministic=False).apply({}, x, rngs={"dropout": key}))


def dropout(x: Array, *, share: float, seed: int) -> Array:
    """The same, by a seed."""
    return jnp.asarray(drop(x, jax.random.key(seed), share=share))


def dropout_nnx(x: Array, *, share: float, seed: int) -> Array:
    """The output of an `nnx.Dropout` that is not deterministic."""
    return jnp.asarray(nnx.Dropout(share, deterministic=False, rngs=nnx.Rngs(seed))(x))


def checkpointed_dropout(x: Array, upstream: Array, *, share: float, seed: int) -> tuple[Array, Array]:
    """Dropout under `jax.checkpoint`, and its gradient."""
    output, gradient = checkpointed(drop, x, upstream, jax.random.key(seed), share)
    return output, gradient


def master_step(parameter: Array, gradient: Array, *, rate: float, steps: int) -> Array:
    """Steps of `optax.sgd` on a copy in float32."""
    wide = parameter.dtype if parameter.dtype == jnp.float64 else jnp.float32
    master, descent = parameter.astype(wide), optax.sgd(rate)
    state = descent.init(master)
    for _ in range(steps):
        updates, state = descent.update(gradient.astype(wide), state)
        master = optax.apply_updates(master, updates)
    return jnp.asarray(master).astype(parameter.dtype)


class FlaxScaled:
    """Flax's `DynamicScale` and `optax.sgd` on parameters that are wider than their gradients."""

    def __init__(self, parameters: Mapping[str, Array], rate: float, scale: float, clip: float | None):
        self.held: dict[str, Array] = dict(parameters)
        self.dynamic = DynamicScale(scale=jnp.float32(scale))
        steps = (optax.sgd(rate),) if clip is None else (optax.clip_by_global_norm(clip), optax.sgd(rate))
        self.descent = optax.chain(*steps)
        self.state = self.descent.init(self.held)

    @property
    def scale(self) -> float:
        """What the next loss is multiplied by."""
        return float(self.dynamic.scale)

    def step(self, gradients: Mapping[str, Array]) -> dict[str, Array]:
        """The parameters after a step, by a loss whose scaled gradients are the given ones."""
        given = {name: g.astype(self.held[name].dtype) for name, g in gradients.items()}
        scale = self.dynamic.scale

        def loss(parameters: dict[str, Array]) -> Array:
            return sum((p * (given[n] / scale)).sum() for n, p in parameters.items())  # type: ignore[return-value]

        self.dynamic, finite, _, slopes = self.dynamic.value_and_grad(loss)(self.held)
        updates, state = self.descent.update(slopes, self.state, self.held)
        moved: Any = optax.apply_updates(self.held, updates)
        kept: Callable[..., Any] = partial(jnp.where, finite)
        self.held = jax.tree_util.tree_map(kept, moved, self.held)
        self.state = jax.tree_util.tree_map(kept, state, self.state)
        return dict(self.held)


def loss_scaler(parameters: Mapping[str, Array], *, rate: float, scale: float, clip: float | None = None) -> FlaxScaled:
    """Plain descent from these parameters on gradients of the scaled loss."""
    return FlaxScaled(parameters, rate, scale, clip)
