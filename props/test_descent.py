"""I.2 held to an implementation: its plain steps, their falls and limits, its clipping and its schedules."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from gnomon.props.expected import bounds, expected
from gnomon.props.judge import Comparison, between, close, same
from gnomon.props.measure import convention
from gnomon.props.property import checks
from gnomon.props.stepping import Optimiser, Step, compared, due, walks
from gnomon.props.stepping_cases import (
    ClipCase,
    QuadraticCase,
    ScheduleCase,
    StepCase,
    clip_cases,
    quadratic_cases,
    schedule_cases,
    step_cases,
)
from gnomon.props.subject import Subject
from gnomon.props.training import clip, rate_at
from gnomon.spec import descent as spec
from gnomon.spec.bounds import Bounds, round_to
from gnomon.spec.evaluators import Floats
from gnomon.spec.precision import declared

Comparisons = Iterator[Comparison]


@checks(spec.PLAIN_STEP, step_cases("sgd", steps=st.integers(2, 4), momentum=st.booleans()), needs=("optimiser",))
def plain_step(subject: Subject, case: StepCase) -> Comparisons:
    """Every step, from the parameters that the one before it left, on every path."""
    form, rule = subject.precision.storage, case.rule
    for label, steps in walks(subject, rule, case.parameters(form), case.gradients(form), case.rates):
        yield from compared(subject, rule, steps, label)


def descent(subject: Subject, case: QuadraticCase, rate: float) -> Iterator[tuple[Step, Floats]]:
    """Steps down the quadratic, and how far each may lie from that of the exact gradient."""
    rule, now = spec.Rule(kind="sgd", rate=rate), case.at_start
    optimiser = Optimiser(subject, rule, now)
    for _ in range(case.steps):
        exact = case.exact_gradient(now["x"])
        given = round_to(np.array([float(g) for g in exact]), subject.precision.storage)
        off = np.array([abs(float(Fraction(g) - e)) for g, e in zip(given, exact, strict=True)])
        taken = Step(now, {"x": given}, None, optimiser.step({"x": given}))
        (_, allowed) = due(subject, rule, [taken])[0]["x"]
        yield taken, allowed + rate * off
        now = taken.after


@checks(spec.SMOOTH_FALL, quadratic_cases(), needs=("optimiser",))
def smooth_fall(subject: Subject, case: QuadraticCase) -> Comparisons:
    """The loss after each step is under that before it by half the rate times the squared norm, exactly computed."""
    rate = (1.0, 0.5, 0.75, 0.125)[case.seed % 4] / case.top
    for taken, astray in descent(subject, case, rate):
        before = taken.before["x"]
        gradient = case.exact_gradient(before)
        promised = case.loss(before) - Fraction(rate) / 2 * sum(g * g for g in gradient)
        exact = np.array([float(Fraction(x) - Fraction(rate) * g) for x, g in zip(before, gradient, strict=True)])
        slope = np.abs([float(g) for g in case.exact_gradient(exact)])
        slack = float(slope @ astray + case.top / 2 * (astray @ astray))
        over = float(case.loss(taken.after["x"]) - promised)
        yield between("loss above the promised one", over, -np.inf, 0.0, slack)


@checks(
    spec.TWO_OVER_CURVATURE, quadratic_cases(steps=st.integers(4, 8), above=st.booleans()), needs=("optimiser",),
)  # fmt: skip
def two_over_curvature(subject: Subject, case: QuadraticCase) -> Comparisons:
    """Along every axis the distance shrinks as fast as it has to, or grows along the one of largest curvature."""
    factors = np.abs(1 - case.rate * case.curvatures)
    error, last = np.zeros(case.size), case.at_start
    for taken, astray in descent(subject, case, case.rate):
        error, last = factors * error + np.abs(case.axes) @ astray, taken.after
    start, end = (np.abs(case.axes @ x) for x in (case.start, last["x"]))
    lost = 4 * case.size * np.finfo(float).eps * (np.abs(case.axes) @ np.abs(last["x"]))  # by these sums themselves
    if case.above:
        least = float(factors[0] ** case.steps * start[0])
        yield between("distance along the steepest axis", end[0], least, np.inf, error[0] + lost[0])
    else:
        most = np.max(factors) ** case.steps * start
        yield between("distance along each axis", end, 0.0, most, error + lost)


@checks(spec.STILL, step_cases("sgd", steps=2, decaying=False, varied=False), needs=("optimiser",))
def still(subject: Subject, case: StepCase) -> Comparisons:
    """A gradient of zero after one that is not, then a rate of zero: the same bits; and from zero twice as far."""
    form, rule = subject.precision.storage, case.rule
    parameters, gradient = case.parameters(form), case.few_bits(form)[0]
    for label, steps in walks(subject, rule, parameters, [gradient, case.zeros()]):
        yield from _unmoved(f"at zero gradient{label}", steps[1])
    for label, steps in walks(subject, replace(rule, rate=0.0), parameters, [gradient]):
        yield from _unmoved(f"at a rate of zero{label}", steps[0])
    once = list(walks(subject, rule, case.zeros(), [gradient]))
    twice = list(walks(subject, replace(rule, rate=2 * rule.rate), case.zeros(), [gradient]))
    for (label, (one,)), (_, (other,)) in zip(once, twice, strict=True):
        for name in gradient:
            yield same(f"{name} at twice the rate{label} ", other.after[name], 2 * one.after[name])


def _unmoved(where: str, step: Step) -> Comparisons:
    for name, before in step.before.items():
        yield same(f"{name} {where} ", step.after[name], before)


@checks(
    spec.CLIPPING, clip_cases(scaled=False), needs=("clip_by_global_norm",),
    mistakes=(spec.CLIPPED_PER_TENSOR, spec.CLIPPED_BY_VALUE, spec.CLIPPING_IDLE, spec.ALWAYS_NORMALISED),
)  # fmt: skip
def clipping(subject: Subject, case: ClipCase) -> Comparisons:
    """One factor for all, and none, to the bit, where the norm is under the limit; on every path."""
    gradients = case.gradients(subject.precision.storage)
    norm, added = spec.global_norm(gradients), convention(subject, "clip_epsilon")
    limit = norm * case.share
    value = {n: np.asarray(g) for n, g in gradients.items()} if case.above else None
    wanted = spec.clipped(bounds(subject), gradients, limit, 0.0 if added == "0" else float(added))
    for path in (None, *subject.paths("clip_by_global_norm")):
        got = clip(subject, gradients, limit, case.scale, path)
        for name, result in got.items():
            label = f"{name} clipped{f' by the path {path}' if path else ''} "
            if value is not None:
                yield same(label, result, value[name])
            else:
                yield close(label, result, *expected(wanted[name]))


@checks(
    spec.CLIPPING, clip_cases(scaled=True), needs=("clip_by_global_norm",), share=0.5,
    mistakes=(spec.CLIPPED_BEFORE_UNSCALING,),
)  # fmt: skip
def clipping_of_a_scaled_loss(subject: Subject, case: ClipCase) -> Comparisons:
    """The same of gradients that are divided by the scale of their loss before."""
    yield from clipping.check(subject, case)


@checks(spec.SCHEDULE, schedule_cases(), needs=("schedule",))
def schedule(subject: Subject, case: ScheduleCase) -> Comparisons:
    """The rate at the ends of warm-up and fall, beside them, between them and past the end."""
    given, E = case.schedule, Bounds(declared("float64"))
    axes = {"first": convention(subject, "first_rate"), "after": convention(subject, "after_end")}
    for step in case.steps:
        value, allowed = expected(spec.scheduled(E, given, step, **axes))  # type: ignore[arg-type]
        yield close(f"rate at step {step}", rate_at(subject, given, step), value, allowed)
