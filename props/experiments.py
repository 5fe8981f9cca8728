"""Experiments: small trainings around an implementation's own forward and backward passes, and how they are judged.

A claim that is true of nearly every training run is held against RUNS of them, with data and initial weights of their
own, and has to be true of at least ENOUGH. If it is true of a run with a probability of 0.99 or more, that fails with a
probability under 1e-9; if it is true of one in ten or fewer, as with the mistakes that each experiment has to tell
apart, it passes with a probability under 1e-9. Both are exact sums of binomial terms.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import index
from typing import Any

import numpy as np

from gnomon.props.judge import Comparison, between
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.props.subject import Subject, guarded
from gnomon.spec.evaluators import Floats
from gnomon.spec.model import Tokens
from gnomon.spec.statistics import binomial_counts
from gnomon.spec.trained import TRAINED_IN, UNSEEN

RUNS, ENOUGH = 24, 17
ERROR = 1e-9

Named = dict[str, Floats]


def require_training(subject: Subject) -> None:
    """Decline every dtype but the one in which experiments train."""
    offered = subject.implementation.declaration.dtypes
    if subject.dtype != (TRAINED_IN if TRAINED_IN in offered else offered[0]):
        raise Declined(UNSEEN)


@dataclass(eq=False)
class Adam:
    """Adam with its usual constants, in float64, on arrays by name."""

    rate: float
    decay: tuple[float, float] = (0.9, 0.99)
    epsilon: float = 2.0**-26
    moments: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)
    steps: int = 0

    def step(self, parameters: Named, gradients: Mapping[str, Floats]) -> None:
        """Put the next parameters in the place of these."""
        self.steps += 1
        for name, g in gradients.items():
            moments = self.moments.get(name, (np.zeros_like(g), np.zeros_like(g)))
            first, second = (b * m + (1 - b) * x for b, m, x in zip(self.decay, moments, (g, g * g), strict=True))
            self.moments[name] = first, second
            mean, square = (m / (1 - b**self.steps) for b, m in zip(self.decay, (first, second), strict=True))
            parameters[name] = parameters[name] - self.rate * mean / (np.sqrt(square) + self.epsilon)


def classified(logits: Floats, targets: Tokens) -> tuple[float, Floats]:
    """The mean cross-entropy of logits `[items, classes]`, and its gradient by them."""
    mass = np.exp(logits - logits.max(-1, keepdims=True))
    probabilities = mass / mass.sum(-1, keepdims=True)
    own = targets[:, None] == np.arange(logits.shape[-1])
    return float(-np.log(np.maximum(probabilities[own], np.finfo(float).tiny)).mean()), (probabilities - own) / len(own)


def in_most_runs(what: str, true: Iterable[bool]) -> Comparison:
    """The claim is true of at least ENOUGH of RUNS."""
    found = list(true)
    if len(found) != RUNS:
        raise ValueError(f"{len(found)} runs of {RUNS}")
    return between(f"of {RUNS} runs those in which {what}", sum(found), ENOUGH, RUNS, 0.0)


def at_chance(what: str, right: int, items: int, share: float) -> Comparison:
    """As many right as guessing gives, but with a probability under ERROR."""
    return between(f"{what} right of {items}", right, *binomial_counts(items, share, ERROR), 0.0)


def memorised(subject: Subject, train: Any, inputs: Floats, **options: int) -> dict[str, int]:
    """How many labels its own random-labels test finds right, of those learned and of those held out."""
    found = guarded("random_labels", subject.function("random_labels", None), [train, inputs], options)
    if not isinstance(found, Mapping) or not {"training", "held_out"} <= set(found):
        raise ImplementationFailed("random_labels returned no counts named training and held_out")
    return {name: int(found[name]) for name in ("training", "held_out")}


def recalled(subject: Subject, model: Any, vocabulary: int, distance: int, asked: int, seed: int) -> int:
    """How many answers its own test of recall finds right, of a model that is a function of token ids."""
    options = {"vocabulary": vocabulary, "distance": distance, "asked": asked, "seed": seed}
    found = guarded("recall", subject.function("recall", None), [model], options)
    try:
        return index(found)
    except TypeError as error:
        raise ImplementationFailed(f"recall returned {found!r} where a whole number is due") from error


def try_out(subject: Subject, operation: str) -> None:
    """A small random-labels test of a procedure that learns nothing, or one of recall of a model that says nothing."""
    if operation == "recall":
        recalled(subject, lambda tokens: np.zeros((*tokens.shape, 8)), 8, 6, 2, 0)
    else:
        nothing = np.zeros(8)[:, None]
        memorised(subject, lambda *_: lambda asked: asked[:, 0], nothing, classes=2, held_out=4, seed=0)
