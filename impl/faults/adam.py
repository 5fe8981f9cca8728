"""Faults of I.3: moments, corrections, epsilon and decay in wrong places, and instruments that look at one side."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference
from gnomon.impl.stepping import Memory, Rule, Together
from gnomon.spec.adam import (
    COUNT_AHEAD,
    DECAY_COUPLED,
    DECAY_DECOUPLED,
    DECAY_IGNORED,
    DECAY_LAST,
    DECAY_WITHOUT_RATE,
    EPSILON_BEFORE_CORRECTION,
    EPSILON_INSIDE,
    FOURTH_ROOT,
    MAJORITY,
    NARROW_ONLY,
    NEAR_RATES,
    NO_MOMENTS,
    ONE_STEP_ONLY,
    ONLY_DOUBLED,
    ONLY_HALVED,
    PLAIN_NORMALISED,
    RATE_IGNORED,
    SECOND_UNCORRECTED,
    STARTED_AT_GRADIENT,
    STARTED_AT_ONE,
    TOGETHER_ONLY,
    UNCORRECTED,
    WITHOUT_ROOT,
)


def corrections(rule: Rule, memory: Memory) -> tuple[float, float]:
    """What the moments have to be divided by."""
    first, second = (1 - beta**memory.steps for beta in rule.betas)
    return first, second


@commits(UNCORRECTED)
class Uncorrected(NumpyReference):
    """The moments are taken as they are."""

    def adam_quotient(self, rule: Rule, memory: Memory) -> Array:
        return np.asarray(memory.first / (np.sqrt(memory.second) + rule.epsilon))


@commits(SECOND_UNCORRECTED)
class SecondUncorrected(NumpyReference):
    """The second moment is taken as it is."""

    def adam_quotient(self, rule: Rule, memory: Memory) -> Array:
        first, _ = corrections(rule, memory)
        return np.asarray(memory.first / first / (np.sqrt(memory.second) + rule.epsilon))


@commits(EPSILON_INSIDE)
class EpsilonInside(NumpyReference):
    """Epsilon is under the root."""

    def adam_quotient(self, rule: Rule, memory: Memory) -> Array:
        first, second = corrections(rule, memory)
        return np.asarray(memory.first / first / np.sqrt(memory.second / second + rule.epsilon))


@commits(EPSILON_BEFORE_CORRECTION)
class EpsilonBeforeCorrection(NumpyReference):
    """Epsilon meets the root of the uncorrected moment."""

    def adam_quotient(self, rule: Rule, memory: Memory) -> Array:
        first, second = corrections(rule, memory)
        return np.asarray(memory.first * (math.sqrt(second) / first) / (np.sqrt(memory.second) + rule.epsilon))


@commits(DECAY_COUPLED)
class DecayCoupled(NumpyReference):
    """AdamW is Adam with another name."""

    def optimiser(self, kind: str, parameters: Mapping[str, Array], **options: Any) -> Any:
        return super().optimiser("adam" if kind == "adamw" else kind, parameters, **options)


@commits(DECAY_DECOUPLED)
class DecayDecoupled(NumpyReference):
    """Adam is AdamW with another name."""

    def optimiser(self, kind: str, parameters: Mapping[str, Array], **options: Any) -> Any:
        return super().optimiser("adamw" if kind == "adam" else kind, parameters, **options)


@commits(DECAY_IGNORED)
class DecayIgnored(NumpyReference):
    """Nothing decays under AdamW."""

    def decayed_weight(self, rule: Rule, rate: float, p: Array) -> Array:
        return p


@commits(DECAY_LAST)
class DecayLast(NumpyReference):
    """What has moved decays."""

    def adam_move(self, rule: Rule, rate: float, p: Array, memory: Memory) -> Array:
        if rule.kind == "adam":
            return super().adam_move(rule, rate, p, memory)
        return self.decayed_weight(rule, rate, super().adam_move(replace(rule, kind="adam"), rate, p, memory))


@commits(DECAY_WITHOUT_RATE)
class DecayWithoutRate(NumpyReference):
    """The decay is the same at every rate."""

    def decayed_weight(self, rule: Rule, rate: float, p: Array) -> Array:
        return super().decayed_weight(rule, 1.0, p)


@commits(COUNT_AHEAD)
class CountAhead(NumpyReference):
    """Steps are counted from two."""

    def step_count(self, memory: Memory) -> int:
        return super().step_count(memory) + 1


@commits(ONE_STEP_ONLY)
class OneStepOnly(NumpyReference):
    """The second moment is corrected once."""

    def adam_quotient(self, rule: Rule, memory: Memory) -> Array:
        if memory.steps == 1:
            return super().adam_quotient(rule, memory)
        first, _ = corrections(rule, memory)
        return np.asarray(memory.first / first / (np.sqrt(memory.second) + rule.epsilon))


@commits(TOGETHER_ONLY)
class TogetherOnly(NumpyReference):
    """Stepped together, parameters are counted one after another."""

    def optimiser_together(self, kind: str, parameters: Mapping[str, Array], **options: Any) -> Together:
        return Together(CountAhead(), kind, parameters, options)


@commits(NARROW_ONLY)
class NarrowOnly(NumpyReference):
    """In 16 bits the share of the new square is a power of two below the one that was asked for."""

    def stepped(self, rule: Rule, rate: float, parameter: Array, gradient: Array, memory: Memory) -> Array:
        if parameter.dtype.itemsize > 2:
            return super().stepped(rule, rate, parameter, gradient, memory)
        share = 2.0 ** (math.ceil(math.log2(1 - rule.betas[1])) - 1)
        return super().stepped(replace(rule, betas=(rule.betas[0], 1 - share)), rate, parameter, gradient, memory)


@commits(WITHOUT_ROOT)
class WithoutRoot(NumpyReference):
    """The mean is divided by the mean square."""

    def adam_quotient(self, rule: Rule, memory: Memory) -> Array:
        first, second = corrections(rule, memory)
        return np.asarray(memory.first / first / (memory.second / second + rule.epsilon))


@commits(FOURTH_ROOT)
class FourthRoot(NumpyReference):
    """The mean is divided by the fourth root."""

    def adam_quotient(self, rule: Rule, memory: Memory) -> Array:
        first, second = corrections(rule, memory)
        return np.asarray(memory.first / first / (np.sqrt(np.sqrt(memory.second / second)) + rule.epsilon))


@commits(PLAIN_NORMALISED)
class PlainNormalised(NumpyReference):
    """Plain descent normalises."""

    def plain_velocity(self, rule: Rule, g: Array, memory: Memory) -> Array:
        return super().plain_velocity(rule, g / (float(np.sqrt(np.square(g).mean())) or 1.0), memory)


@commits(STARTED_AT_ONE)
class StartedAtOne(NumpyReference):
    """The second moment starts at one."""

    def update_moments(self, rule: Rule, g: Array, memory: Memory) -> None:
        memory.second = 1.0 if memory.steps == 1 else memory.second
        super().update_moments(rule, g, memory)


@commits(STARTED_AT_GRADIENT)
class StartedAtGradient(NumpyReference):
    """The moments start at the first gradient."""

    def update_moments(self, rule: Rule, g: Array, memory: Memory) -> None:
        memory.first, memory.second = (g, g * g) if memory.steps == 1 else (memory.first, memory.second)
        super().update_moments(rule, g, memory)


@commits(RATE_IGNORED)
class RateIgnored(NumpyReference):
    """Every rate is a sixteenth."""

    def optimiser(self, kind: str, parameters: Mapping[str, Array], **options: Any) -> Any:
        return super().optimiser(kind, parameters, **(options | {"rate": 0.0625}))


@commits(NO_MOMENTS)
class NoMoments(NumpyReference):
    """Adam is plain descent."""

    def optimiser(self, kind: str, parameters: Mapping[str, Array], **options: Any) -> Any:
        return super().optimiser("sgd", parameters, **options)


@commits(ONLY_DOUBLED)
class OnlyDoubled(NumpyReference):
    """The rate is doubled."""

    def other_rates(self, rate: float) -> tuple[float, ...]:
        return (2 * rate,)


@commits(ONLY_HALVED)
class OnlyHalved(NumpyReference):
    """The rate is halved."""

    def other_rates(self, rate: float) -> tuple[float, ...]:
        return (rate / 2,)


@commits(NEAR_RATES)
class NearRates(NumpyReference):
    """Rates nearby are tried."""

    def other_rates(self, rate: float) -> tuple[float, ...]:
        return 0.9 * rate, 1.1 * rate


@commits(MAJORITY)
class Majority(NumpyReference):
    """One that agrees is enough."""

    def conclusions_agree(self, here: object, elsewhere: list[object]) -> bool:
        return any(conclusion == here for conclusion in elsewhere)
