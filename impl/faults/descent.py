"""Faults of I.2: steps of another direction or length, clipping that is not global, schedules off their steps."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference
from gnomon.impl.stepping import Memory, Rule, Together
from gnomon.spec.descent import (
    ALWAYS_NORMALISED,
    ASCENT,
    CLAMPED_UPDATE,
    CLIPPED_BEFORE_UNSCALING,
    CLIPPED_BY_VALUE,
    CLIPPED_PER_TENSOR,
    CLIPPED_STEP,
    CLIPPING_IDLE,
    DECAY_FROM_ZERO,
    FIRST_RATE_LOST,
    HIDDEN_DECAY,
    MINIMUM_ADDED,
    NORMALISED_STEP,
    ONE_AHEAD,
    PERIOD_SHORTENED,
    PREVIOUS_GRADIENT,
    RATE_APPLIED_TWICE,
    RATE_KEPT,
    SIGN_STEP,
    STALE_MOMENTUM,
    TRUNCATED,
)


@commits(ASCENT)
class Ascent(NumpyReference):
    """A plain step goes up."""

    def plain_distance(self, rule: Rule, rate: float) -> float:
        return -rate


@commits(RATE_APPLIED_TWICE)
class RateAppliedTwice(NumpyReference):
    """A plain step goes the square of the rate far."""

    def plain_distance(self, rule: Rule, rate: float) -> float:
        return rate * rate


@commits(HIDDEN_DECAY)
class HiddenDecay(NumpyReference):
    """Parameters shrink although no decay was asked for."""

    def decayed_gradient(self, rule: Rule, p: Array, g: Array) -> Array:
        return super().decayed_gradient(rule if rule.weight_decay else replace(rule, weight_decay=0.1), p, g)


@commits(PREVIOUS_GRADIENT)
class PreviousGradient(NumpyReference):
    """Each step goes along the gradient before."""

    def plain_velocity(self, rule: Rule, g: Array, memory: Memory) -> Array:
        before, memory.previous = memory.previous, g
        return super().plain_velocity(rule, g if before is None else before, memory)


@commits(RATE_KEPT)
class RateKept(NumpyReference):
    """Stepped together, parameters keep the first rate."""

    def optimiser_together(self, kind: str, parameters: Mapping[str, Array], **options: Any) -> Together:
        return WithoutRate(self, kind, parameters, options)


class WithoutRate(Together):
    """It hears of no other rate."""

    def step(self, gradients: Mapping[str, Array], *, rate: float | None = None) -> dict[str, Array]:
        return super().step(gradients)


@commits(TRUNCATED)
class Truncated(NumpyReference):
    """What 16 bits do not hold is cut off."""

    def landed(self, x: Array, dtype: Any) -> Array:
        near = super().landed(x, dtype)
        if near.dtype.itemsize > 2:
            return near
        beyond = np.abs(near.astype(x.dtype)) > np.abs(x)
        return np.where(beyond, np.nextafter(near, np.zeros_like(near)), near)


@commits(SIGN_STEP)
class SignStep(NumpyReference):
    """Only the sign of a gradient counts."""

    def plain_velocity(self, rule: Rule, g: Array, memory: Memory) -> Array:
        return np.sign(super().plain_velocity(rule, g, memory))


@commits(CLIPPED_STEP)
class ClippedStep(NumpyReference):
    """A gradient is never longer than one."""

    def plain_velocity(self, rule: Rule, g: Array, memory: Memory) -> Array:
        return super().plain_velocity(rule, g / max(1.0, float(np.linalg.norm(g))), memory)


@commits(NORMALISED_STEP)
class NormalisedStep(NumpyReference):
    """Every gradient has the length one."""

    def plain_velocity(self, rule: Rule, g: Array, memory: Memory) -> Array:
        return super().plain_velocity(rule, g / (float(np.linalg.norm(g)) or 1.0), memory)


@commits(STALE_MOMENTUM)
class StaleMomentum(NumpyReference):
    """Plain descent has a momentum of a half."""

    def plain_velocity(self, rule: Rule, g: Array, memory: Memory) -> Array:
        return super().plain_velocity(rule if rule.momentum else replace(rule, momentum=0.5), g, memory)


@commits(CLAMPED_UPDATE)
class ClampedUpdate(NumpyReference):
    """No entry moves farther than a sixteenth."""

    def plain_velocity(self, rule: Rule, g: Array, memory: Memory) -> Array:
        most = 0.0625 / (rule.rate or 1.0)
        return np.clip(super().plain_velocity(rule, g, memory), -most, most)


@commits(CLIPPED_PER_TENSOR)
class ClippedPerTensor(NumpyReference):
    """Every gradient has a norm of its own."""

    def clipped_together(self, gradients: Mapping[str, Array], limit: float) -> Mapping[str, Array]:
        alone = (super(ClippedPerTensor, self).clipped_together({n: g}, limit) for n, g in gradients.items())
        return {name: g for own in alone for name, g in own.items()}


@commits(CLIPPED_BY_VALUE)
class ClippedByValue(NumpyReference):
    """Every entry has a limit."""

    def clipped_together(self, gradients: Mapping[str, Array], limit: float) -> Mapping[str, Array]:
        return {name: np.clip(g, -limit, limit) for name, g in gradients.items()}


@commits(CLIPPING_IDLE)
class ClippingIdle(NumpyReference):
    """Nothing is clipped."""

    def clipping_factor(self, norm: float, limit: float) -> float:
        return 1.0


@commits(CLIPPED_BEFORE_UNSCALING)
class ClippedBeforeUnscaling(NumpyReference):
    """The norm is that of the scaled gradients."""

    def clip_by_global_norm(
        self, gradients: Mapping[str, Array], *, limit: float, scale: float | None = None
    ) -> dict[str, Array]:
        clipped = super().clip_by_global_norm(gradients, limit=limit)
        return clipped if scale is None else {n: (g / scale).astype(g.dtype) for n, g in clipped.items()}


@commits(ALWAYS_NORMALISED)
class AlwaysNormalised(NumpyReference):
    """Short gradients become as long as the limit."""

    def clipping_factor(self, norm: float, limit: float) -> float:
        return limit / norm if norm else 1.0


@commits(FIRST_RATE_LOST)
class FirstRateLost(NumpyReference):
    """A first share of the warm-up is declared, and the first rate is zero."""

    declaration = replace(
        NumpyReference.declaration, conventions=replace(NumpyReference.declaration.conventions, first_rate="share")
    )


@commits(DECAY_FROM_ZERO)
class DecayFromZero(NumpyReference):
    """The fall begins with the warm-up."""

    def schedule_progress(self, step: int, warmup: int, total: int) -> float:
        return step / total


@commits(PERIOD_SHORTENED)
class PeriodShortened(NumpyReference):
    """The fall is over a warm-up too early."""

    def schedule_progress(self, step: int, warmup: int, total: int) -> float:
        return (step - warmup) / max(total - 2 * warmup, 1)


@commits(ONE_AHEAD)
class OneAhead(NumpyReference):
    """The fall is a step ahead."""

    def schedule_progress(self, step: int, warmup: int, total: int) -> float:
        return super().schedule_progress(step + 1, warmup, total)


@commits(MINIMUM_ADDED)
class MinimumAdded(NumpyReference):
    """The fall goes from the peak to zero, and the minimum is put on top."""

    def falling_rate(self, peak: float, minimum: float, left: float) -> float:
        return minimum + peak * left
