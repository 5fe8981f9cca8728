"""Optimisers, schedules and clipping of optax."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from gnomon.impl.declaration import Declaration
from gnomon.spec.conventions import Conventions
from gnomon.spec.precision import EAGER


@cache
def _update(kind: str, told: tuple[tuple[str, Any], ...]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """How a state is made, and a step at a rate that is given to it."""

    def rule(rate: Any) -> optax.GradientTransformation:
        own = dict(told)
        decay = own.pop("weight_decay")
        if kind == "adamw":
            return optax.adamw(rate, weight_decay=decay, **own)
        made = optax.sgd(rate, **own) if kind == "sgd" else optax.adam(rate, **own)
        return optax.chain(optax.add_decayed_weights(decay), made) if decay else made

    @jax.jit
    def step(parameters: Any, gradients: Any, state: Any, rate: Array) -> tuple[Any, Any]:
        updates, kept = rule(rate).update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), kept

    return rule(1.0).init, step


class Stepper:
    """A gradient transformation with its state and the parameters that it has come to."""

    def __init__(self, kind: str, parameters: Mapping[str, Array], rate: float, told: Mapping[str, Any]):
        init, self.update = _update(kind, tuple(told.items()))
        self.rate, self.parameters = rate, dict(parameters)
        self.state = init(self.parameters)

    def step(self, gradients: Mapping[str, Array], *, rate: float | None = None) -> dict[str, Array]:
        """The parameters after one more step."""
        if set(gradients) != set(self.parameters):
            raise NotImplementedError("optax asks for the gradients of all parameters")
        own = jnp.asarray(self.rate if rate is None else rate)
        self.parameters, self.state = self.update(self.parameters, dict(gradients), self.state, own)
        return dict(self.parameters)


def optimiser(
    kind: str,
    parameters: Mapping[str, Array],
    *,
    rate: float,
    momentum: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
) -> Stepper:
    """SGD, Adam or AdamW, jitted; coupled decay is chained before the others."""
    own: dict[str, Any] = {"momentum": momentum or None} if kind == "sgd" else {}
    own |= {} if kind == "sgd" else {"b1": betas[0], "b2": betas[1], "eps": epsilon}
    return Stepper(kind, parameters, rate, own | {"weight_decay": weight_decay})


def clip_by_global_norm(gradients: Mapping[str, Array], *, limit: float) -> dict[str, Array]:
    """The gradients under one limit."""
    clipping = optax.clip_by_global_norm(limit)
    clipped, _ = clipping.update(dict(gradients), clipping.init(dict(gradients)))
    return dict(clipped)


def schedule(step: int, *, kind: str, peak: float, warmup: int, total: int, minimum: float = 0.0) -> float:
    """Cosine as optax joins it to a warm-up; the other curves joined by hand from its parts."""
    if kind == "cosine":
        whole = optax.warmup_cosine_decay_schedule(0.0, peak, warmup, total, minimum)
    else:
        fall = (
            optax.linear_schedule(peak, minimum, total - warmup) if kind == "linear" else optax.constant_schedule(peak)
        )
        rise = [optax.linear_schedule(0.0, peak, warmup)] if warmup else []
        whole = optax.join_schedules([*rise, fall], [warmup] * len(rise))
    return float(whole(step))


declaration = Declaration(
    framework="jax",
    compiles=True,
    dtypes=("float64", "float32", "bfloat16", "float16"),
    sites=EAGER,
    conventions=Conventions(clip_epsilon="0", first_rate="zero", after_end="minimum"),
    families=(),
)
