"""Optimisers, schedules and clipping in NumPy, in small steps that a fault can replace."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.impl.numpy_operations import Array, wide


@dataclass(frozen=True, slots=True)
class Rule:
    """What an optimiser was told."""

    kind: str
    rate: float
    momentum: float
    betas: tuple[float, float]
    epsilon: float
    weight_decay: float


@dataclass(eq=False)
class Memory:
    """What is kept of one parameter between steps; numbers of 16 bits are kept in float32."""

    steps: int = 0
    velocity: Array | None = None
    first: Array | float = 0.0
    second: Array | float = 0.0
    previous: Array | None = None  # the last gradient, which nothing sound reads


class NumpyStepping:
    """Plain descent, Adam and AdamW; a rate as a function of the step; clipping by the global norm."""

    def optimiser(
        self,
        kind: str,
        parameters: Mapping[str, Array],
        *,
        rate: float,
        momentum: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> "Optimiser":
        """An optimiser of that kind that starts at the parameters."""
        rule = Rule(kind, rate, momentum, betas, epsilon, weight_decay)
        return Optimiser(self, rule, {name: np.array(p) for name, p in parameters.items()})

    def optimiser_together(self, kind: str, parameters: Mapping[str, Array], **options: Any) -> "Together":
        """The same with all parameters in one array."""
        return Together(self, kind, parameters, options)

    def stepped(self, rule: Rule, rate: float, parameter: Array, gradient: Array, memory: Memory) -> Array:
        """The parameter after one step."""
        memory.steps += 1
        p, g = wide(parameter), wide(gradient)
        g = g if rule.kind == "adamw" else self.decayed_gradient(rule, p, g)
        if rule.kind == "sgd":
            return self.landed(
                p - self.plain_distance(rule, rate) * self.plain_velocity(rule, g, memory), parameter.dtype
            )
        self.update_moments(rule, g, memory)
        return self.landed(self.adam_move(rule, rate, p, memory), parameter.dtype)

    def landed(self, x: Array, dtype: Any) -> Array:
        """The parameter in its storage."""
        return x.astype(dtype)

    def plain_distance(self, rule: Rule, rate: float) -> float:
        """How far a plain step goes along the velocity."""
        return rate

    def decayed_gradient(self, rule: Rule, p: Array, g: Array) -> Array:
        """The gradient with what coupled decay adds to it."""
        return g + rule.weight_decay * p if rule.weight_decay else g

    def plain_velocity(self, rule: Rule, g: Array, memory: Memory) -> Array:
        """The direction of a plain step, down to the sign."""
        memory.velocity = g if memory.velocity is None else rule.momentum * memory.velocity + g
        return memory.velocity

    def update_moments(self, rule: Rule, g: Array, memory: Memory) -> None:
        """The running means of the gradient and its square."""
        memory.first = rule.betas[0] * memory.first + (1 - rule.betas[0]) * g
        memory.second = rule.betas[1] * memory.second + (1 - rule.betas[1]) * (g * g)

    def adam_move(self, rule: Rule, rate: float, p: Array, memory: Memory) -> Array:
        """The parameter after Adam's update, and after its decay where that is decoupled."""
        shrunk = self.decayed_weight(rule, rate, p) if rule.kind == "adamw" else p
        return np.asarray(shrunk - rate * self.adam_quotient(rule, memory))

    def decayed_weight(self, rule: Rule, rate: float, p: Array) -> Array:
        """The parameter after decoupled decay."""
        return np.asarray(p * (1 - rate * rule.weight_decay))

    def adam_quotient(self, rule: Rule, memory: Memory) -> Array:
        """The corrected mean over the root of the corrected mean square."""
        first, second = (1 - beta ** self.step_count(memory) for beta in rule.betas)
        return np.asarray(memory.first / first / (np.sqrt(memory.second / second) + rule.epsilon))

    def step_count(self, memory: Memory) -> int:
        """Which step this is, from one."""
        return memory.steps

    # Schedules.

    def schedule(self, step: int, *, kind: str, peak: float, warmup: int, total: int, minimum: float = 0.0) -> float:
        """The rate at a step, counted from zero."""
        if step < warmup:
            return self.warming_rate(step, peak, warmup)
        if kind == "constant":
            return peak
        progress = min(self.schedule_progress(step, warmup, total), 1.0)
        left = 1 - progress if kind == "linear" else (1 + math.cos(math.pi * progress)) / 2
        return self.falling_rate(peak, minimum, left)

    def warming_rate(self, step: int, peak: float, warmup: int) -> float:
        """The rate on the way up."""
        return peak * step / warmup

    def schedule_progress(self, step: int, warmup: int, total: int) -> float:
        """How much of the fall is done."""
        return (step - warmup) / (total - warmup)

    def falling_rate(self, peak: float, minimum: float, left: float) -> float:
        """The rate on the way down."""
        return minimum + (peak - minimum) * left

    # Clipping.

    def clip_by_global_norm(
        self, gradients: Mapping[str, Array], *, limit: float, scale: float | None = None
    ) -> dict[str, Array]:
        """All gradients times one number, which makes their common norm the limit where it is above."""
        inner = {name: wide(g) / (1.0 if scale is None else scale) for name, g in gradients.items()}
        return {name: np.asarray(g, gradients[name].dtype) for name, g in self.clipped_together(inner, limit).items()}

    def clipped_together(self, gradients: Mapping[str, Array], limit: float) -> Mapping[str, Array]:
        """The gradients of a loss that is not scaled, clipped."""
        factor = self.clipping_factor(self.gradient_norm(gradients), limit)
        return {name: g * factor for name, g in gradients.items()}

    def gradient_norm(self, gradients: Mapping[str, Array]) -> float:
        """The global norm."""
        return math.sqrt(sum(float(np.square(g).sum(dtype=np.float64)) for g in gradients.values()))

    def clipping_factor(self, norm: float, limit: float) -> float:
        """What all gradients are multiplied by."""
        return limit / norm if norm > limit else 1.0

    # The factor-of-two instrument.

    def factor_of_two(self, procedure: Callable[[float], object], rate: float) -> bool:
        """Whether the conclusion that a procedure comes to at a rate survives half and double the rate."""
        here = procedure(rate)
        return self.conclusions_agree(here, [procedure(other) for other in self.other_rates(rate)])

    def other_rates(self, rate: float) -> tuple[float, ...]:
        """The rates that are tried beside the given one."""
        return rate / 2, 2 * rate

    def conclusions_agree(self, here: object, elsewhere: list[object]) -> bool:
        """Whether all conclusions are the same."""
        return all(conclusion == here for conclusion in elsewhere)


class Optimiser:
    """Parameters and what is kept of them; a parameter without a gradient stays."""

    def __init__(self, operations: NumpyStepping, rule: Rule, parameters: dict[str, Array]):
        self.operations, self.rule, self.parameters = operations, rule, parameters
        self.memory = {name: Memory() for name in parameters}

    def step(self, gradients: Mapping[str, Array], *, rate: float | None = None) -> dict[str, Array]:
        """The parameters after one more step, at this rate where one is given."""
        own = self.rule.rate if rate is None else rate
        for name, gradient in gradients.items():
            stepped = self.operations.stepped(self.rule, own, self.parameters[name], gradient, self.memory[name])
            self.parameters[name] = stepped
        return {name: p.copy() for name, p in self.parameters.items()}


class Together:
    """The parameters that have gradients stepped in one array."""

    def __init__(
        self, operations: NumpyStepping, kind: str, parameters: Mapping[str, Array], options: Mapping[str, Any]
    ):
        self.operations, self.kind, self.options = operations, kind, options
        self.parameters = {name: np.array(p) for name, p in parameters.items()}
        self.inner: Optimiser | None = None
        self.names: tuple[str, ...] = ()

    def step(self, gradients: Mapping[str, Array], *, rate: float | None = None) -> dict[str, Array]:
        """The parameters after one more step."""
        if self.inner is None:
            self.names = tuple(gradients)
            self.inner = self.operations.optimiser(self.kind, {"all": self.joined(self.parameters)}, **self.options)
        flat = self.inner.step({"all": self.joined(gradients)}, **({} if rate is None else {"rate": rate}))["all"]
        ends = np.cumsum([self.parameters[name].size for name in self.names])[:-1]
        for name, part in zip(self.names, np.split(flat, ends), strict=True):
            self.parameters[name] = part.reshape(self.parameters[name].shape).copy()
        return dict(self.parameters)

    def joined(self, arrays: Mapping[str, Array]) -> Array:
        """The arrays that are stepped, one after another."""
        return np.concatenate([arrays[name].reshape(-1) for name in self.names])
