"""Optimisers under test: opened, stepped, watched, and what each of their steps is due."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.props.expected import Expected, bounds, expected
from gnomon.props.judge import Comparison, close
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.props.subject import Subject, guarded
from gnomon.props.training import Named, named
from gnomon.spec.adam import step
from gnomon.spec.descent import Rule, State
from gnomon.spec.evaluators import Floats


def options(rule: Rule) -> dict[str, Any]:
    """The keywords that say the rule, without those that it does not use."""
    own: dict[str, Any] = {"rate": rule.rate}
    own |= {"momentum": rule.momentum} if rule.momentum else {}
    own |= {"betas": rule.betas, "epsilon": rule.epsilon} if rule.kind != "sgd" else {}
    return own | ({"weight_decay": rule.weight_decay} if rule.weight_decay else {})


class Optimiser:
    """The subject's optimiser for some parameters, by one of its paths."""

    def __init__(self, subject: Subject, rule: Rule, parameters: Named, path: str | None = None):
        given = options(rule)
        subject.require("optimiser", *given)
        self.subject, self.shapes = subject, {name: p.shape for name, p in parameters.items()}
        renamed = subject.implementation.declaration.keywords
        keywords = {renamed.get(name, name): value for name, value in given.items()}
        function = subject.function("optimiser", path)
        self.own = guarded("optimiser", function, [rule.kind, subject.hand(parameters)], keywords)

    def step(self, gradients: Named, rate: float | None = None) -> dict[str, Floats]:
        """The parameters after one more step."""
        call: Callable[..., Any] | None = getattr(self.own, "step", None)
        if call is None:
            raise ImplementationFailed(f"its optimiser is a {type(self.own).__name__}, which has no step")
        if rate is not None and not {"rate", "kwargs"} & set(inspect.signature(call).parameters):
            raise Declined("its optimiser takes no rate at a step")
        given = {} if rate is None else {"rate": rate}
        result = guarded("optimiser.step", call, [self.subject.hand(gradients)], given)
        return named(self.subject, "optimiser.step", result, self.shapes)


@dataclass(frozen=True, eq=False)
class Step:
    """One step that was taken."""

    before: Named
    gradients: Named
    rate: float | None
    after: Named


def walk(
    subject: Subject, rule: Rule, parameters: Named, gradients: Sequence[Named], rates: Sequence[float | None] = (),
    path: str | None = None,
) -> list[Step]:  # fmt: skip
    """The steps of one optimiser along given gradients."""
    optimiser, steps, now = Optimiser(subject, rule, parameters, path), list[Step](), parameters
    for index, gradient in enumerate(gradients):
        rate = rates[index] if rates else None
        after = optimiser.step(gradient, rate)
        steps.append(Step(now, gradient, rate, after))
        now = after
    return steps


def walks(
    subject: Subject, rule: Rule, parameters: Named, gradients: Sequence[Named], rates: Sequence[float | None] = ()
) -> Iterator[tuple[str, list[Step]]]:
    """The same by every path that takes these arguments; what each is called in a comparison."""
    yield "", walk(subject, rule, parameters, gradients, rates)
    for path in subject.paths("optimiser"):
        with suppress(Declined):
            yield f" by the path {path}", walk(subject, rule, parameters, gradients, rates, path)


def due(subject: Subject, rule: Rule, steps: Sequence[Step]) -> list[dict[str, Expected]]:
    """What every step is due from the parameters before it."""
    E, states, found = bounds(subject), dict[str, State](), list[dict[str, Expected]]()
    for taken in steps:
        own = dict[str, Expected]()
        for name, gradient in taken.gradients.items():
            state = states.get(name, State())
            after, states[name] = step(E, rule, taken.before[name], gradient, state, taken.rate)
            own[name] = expected(after)
        found.append(own)
    return found


def compared(subject: Subject, rule: Rule, steps: Sequence[Step], label: str) -> Iterator[Comparison]:
    """Every parameter after every step against what is due."""
    for number, (taken, wanted) in enumerate(zip(steps, due(subject, rule, steps), strict=True), 1):
        for name, (value, allowed) in wanted.items():
            yield close(f"{name} after step {number}{label} ", taken.after[name], value, allowed)


def together(arrays: Named) -> Floats:
    """All numbers in one row."""
    return np.concatenate([np.reshape(a, -1) for a in arrays.values()])
