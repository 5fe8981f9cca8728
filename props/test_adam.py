"""I.3 held to an implementation: Adam's update, its freedom from the loss's scale, its first step, its band."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from gnomon.props.bands import bands, ensemble
from gnomon.props.cases import EXPERIMENTS, SEEDS, ExperimentCase
from gnomon.props.judge import Comparison, between, close, same
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.props.property import checks
from gnomon.props.stepping import Step, compared, due, walks
from gnomon.props.stepping_cases import StepCase, step_cases
from gnomon.props.subject import Subject, guarded
from gnomon.spec import adam as spec
from gnomon.spec.descent import Rule
from gnomon.spec.statistics import fewest_successes

Comparisons = Iterator[Comparison]

ERROR_PROBABILITY = Fraction(1, 10**9)  # of the one test in each dtype
SHARE = Fraction(9, 10)  # of problems for which the claim is made; of 576 it was true for 573


@checks(spec.ADAM_STEP, step_cases("adam", "adamw", steps=st.integers(2, 4)), needs=("optimiser",))
def adam_step(subject: Subject, case: StepCase) -> Comparisons:
    """Every step, from the parameters that the one before it left, on every path."""
    form, rule = subject.precision.storage, case.rule
    for label, steps in walks(subject, rule, case.parameters(form), case.gradients(form), case.rates):
        yield from compared(subject, rule, steps, label)


# Gradients of five bits times these are exact in every format, and their squares within the range of float16.
FACTORS = (4.0, 0.25, 3.0, 0.75)


@checks(
    spec.SCALE_FREE, step_cases("adam", "adamw", decaying=False, varied=False), needs=("optimiser",),
    mistakes=(spec.WITHOUT_ROOT, spec.FOURTH_ROOT),
)  # fmt: skip
def scale_free(subject: Subject, case: StepCase) -> Comparisons:
    """Gradients times a constant give the same steps of Adam, the same bits where it is a power of two."""
    rule = replace(case.rule, epsilon=0.0, betas=((0.5, 0.75), (0.75, 0.75), (0.5, 0.5))[case.seed % 3])
    form, factor = subject.precision.storage, FACTORS[case.seed % 4]
    gradients = case.few_bits(form)
    scaled = [{name: factor * g for name, g in of_step.items()} for of_step in gradients]
    pairs = zip(*(walks(subject, rule, case.parameters(form), g) for g in (gradients, scaled)), strict=True)
    for (label, one), (_, other) in pairs:
        last = other[-1].after
        if factor in (4.0, 0.25):
            yield from (same(f"{n} of {factor} times the loss{label} ", last[n], one[-1].after[n]) for n in last)
        else:
            yield from _alike(subject, (rule, rule), one, other, 1.0, f" of {factor} times the loss{label} ")


@checks(
    spec.SCALE_FREE, step_cases("sgd", decaying=False, varied=False, steps=1), needs=("optimiser",),
    mistakes=(spec.PLAIN_NORMALISED,), share=0.5,
)  # fmt: skip
def scale_of_plain_descent(subject: Subject, case: StepCase) -> Comparisons:
    """Gradients times a constant make plain descent go so much farther."""
    form, factor, rule = subject.precision.storage, FACTORS[case.seed % 4], case.rule
    gradients = case.few_bits(form)
    scaled = [{name: factor * g for name, g in of_step.items()} for of_step in gradients]
    pairs = zip(*(walks(subject, rule, case.parameters(form), g) for g in (gradients, scaled)), strict=True)
    for (label, one), (_, other) in pairs:
        yield from _alike(subject, (rule, rule), one, other, factor, f" of {factor} times the loss{label} ")


def _alike(
    subject: Subject, rules: tuple[Rule, Rule], one: list[Step], other: list[Step], factor: float, label: str
) -> Comparisons:
    """Each step of the second walk is so many times the one of the first, within the bounds of both."""
    wanted = [due(subject, rule, steps) for rule, steps in zip(rules, (one, other), strict=True)]
    for a, b, of_a, of_b in zip(one, other, *wanted, strict=True):
        for name in a.after:
            moved, due_move = a.after[name] - a.before[name], factor * (of_a[name].value - a.before[name])
            cancelled = np.abs(due_move - (of_b[name].value - b.before[name]))  # float64 alone differs by this
            room = factor * of_a[name].allowed + of_b[name].allowed + cancelled
            yield close(f"distance of {name}{label}", b.after[name] - b.before[name], factor * moved, room)


@checks(
    spec.FIRST_STEP, step_cases("adam", "adamw", decaying=False, varied=False, steps=1), needs=("optimiser",),
)  # fmt: skip
def first_step(subject: Subject, case: StepCase) -> Comparisons:
    """From zero, the first step has the size of the rate, less the share that epsilon takes."""
    rule, gradients = case.rule, case.gradients(subject.precision.storage)
    for label, steps in walks(subject, rule, case.zeros(), gradients):
        for name, (value, allowed) in due(subject, rule, steps)[0].items():
            size = np.abs(gradients[0][name])
            wanted = rule.rate * size / (size + rule.epsilon)
            off = np.abs(np.abs(value) - wanted)  # what float64 makes of one formula and of the other
            yield close(
                f"size of the first step of {name}{label} ", np.abs(steps[0].after[name]), wanted, allowed + off
            )


@checks(spec.WIDER_BAND, EXPERIMENTS, needs=("optimiser",), experiment=True)
def wider_band(subject: Subject, case: ExperimentCase) -> Comparisons:
    """Of fresh problems, for how many is Adam's band wider than that of plain descent, and has two ends?"""
    if subject.precision.narrow:
        raise Declined("descents to a target are asked for in float32 and float64")
    problems = ensemble(case.seed)
    plain, adam = (bands(subject, kind, problems) for kind in ("sgd", "adam"))
    wider = int(np.count_nonzero((adam.widths > plain.widths) & adam.ended))
    trials = len(problems.start)
    yield between(
        f"problems of {trials} whose band is wider under Adam and ends ({plain.told()}; {adam.told()})",
        wider, fewest_successes(trials, SHARE, ERROR_PROBABILITY), trials, 0.0,
    )  # fmt: skip


# Conclusions that a procedure comes to, by the rate over the one that is asked about; and whether they survive.


@dataclass(frozen=True, eq=False)
class Conclusion:
    """Something that compares equal to another of the same words alone."""

    words: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conclusion) and other.words == self.words

    def __hash__(self) -> int:
        return hash(self.words)


SYNTHETIC = {
    "robust": (0.0, np.inf),
    "fragile above": (0.0, 1.9),
    "fragile below": (0.6, np.inf),
    "fragile at both ends": (0.6, 1.9),
    "robust inside": (0.3, 3.0),
}


@checks(
    spec.FACTOR_OF_TWO, st.builds(ExperimentCase, seed=SEEDS), needs=("factor_of_two",), share=0.2,
)  # fmt: skip
def factor_of_two(subject: Subject, case: ExperimentCase) -> Comparisons:
    """Procedures that conclude one thing within a band of rates and another outside it."""
    rate = 2.0 ** (case.seed % 21 - 15) * (1.0, 0.1, 3.0)[case.seed % 3]
    subject.require("factor_of_two")
    for name, (low, high) in SYNTHETIC.items():

        def procedure(own: float, low: float = low, high: float = high) -> Conclusion:
            return Conclusion("better" if low <= own / rate <= high else "worse")

        survives = guarded("factor_of_two", subject.function("factor_of_two", None), [procedure, rate], {})
        if not isinstance(survives, bool | np.bool_):
            raise ImplementationFailed(f"factor_of_two returned {survives!r} where true or false is due")
        yield same(f"whether a conclusion survives that is {name}", float(survives), float(name.startswith("robust")))
