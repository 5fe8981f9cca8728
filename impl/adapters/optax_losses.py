"""Cross-entropy by optax, and temperature by `jax.nn`."""

from functools import partial

import jax
import jax.numpy as jnp
import optax
from jax import Array

from gnomon.impl.declaration import Declaration
from gnomon.spec.conventions import Conventions
from gnomon.spec.precision import EVERYWHERE


@partial(jax.jit, static_argnames=("reduction",))
def cross_entropy(logits: Array, targets: Array, *, ignore_index: int | None = None, reduction: str = "mean") -> Array:
    """optax's loss of integer labels, of those alone that count."""
    counted = jnp.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index
    labels = jnp.where(counted, targets, 0)
    losses: Array = optax.softmax_cross_entropy_with_integer_labels(logits, labels, where=counted)
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.mean(where=counted)


def next_token_loss(logits: Array, tokens: Array, *, ignore_index: int | None = None) -> Array:
    """The mean loss of every position but the last against the token after it."""
    loss: Array = cross_entropy(logits[:, :-1], tokens[:, 1:], ignore_index=ignore_index)
    return loss


@jax.jit
def tempered(logits: Array, *, temperature: float) -> Array:
    """The softmax of the logits over the temperature."""
    return jax.nn.softmax(logits / temperature)


declaration = Declaration(
    framework="jax",
    compiles=True,
    dtypes=("float64", "float32", "bfloat16", "float16"),
    sites=EVERYWHERE,
    conventions=Conventions(all_ignored="nan"),
    families=(),
)
