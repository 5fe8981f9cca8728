"""VIII.2 held to an implementation that reports a gap."""

from collections.abc import Iterator

import numpy as np

from gnomon.props.expected import Expected, expected
from gnomon.props.judge import Comparison, close, same
from gnomon.props.leakage_cases import SCORES, ScoreCase, asked
from gnomon.props.outcome import ImplementationFailed
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import capacity as spec
from gnomon.spec.bounds import Bounds
from gnomon.spec.precision import declared

Comparisons = Iterator[Comparison]


@checks(spec.GAP, SCORES, needs=("gap",))
def gap(subject: Subject, case: ScoreCase) -> Comparisons:
    """Training minus held-out, its standard error, and a refusal of two metrics."""
    training, held_out = case.samples
    got, error = pair_of_numbers(asked(subject, "gap", training, held_out, metrics=("accuracy", "accuracy")), "gap")
    E = Bounds(declared("float64"))
    yield close("gap", got, *number(expected(spec.gap(E, training, held_out))))
    yield root("standard error of the gap", error, *number(expected(spec.squared_error(E, training, held_out))))
    yield same(
        "refusal of two metrics", refused(subject, "gap", training, held_out, metrics=("accuracy", "loss")), True
    )


def number(due: Expected) -> tuple[float, float]:
    """A total and its bound, without the axis that is kept for it."""
    return float(due.value[0]), float(due.allowed[0])


def root(what: str, got: float, square: float, room: float) -> Comparison:
    """A number is the root of another, of which a bound is known."""
    return close(what, got, np.sqrt(max(square, 0.0)), spec.root_room(max(square, 0.0), room))


def pair_of_numbers(found: object, operation: str) -> tuple[float, float]:
    """Two real numbers; anything else is a failure in one sentence."""
    try:
        one, other = (float(n) for n in found)  # type: ignore[attr-defined]
    except (TypeError, ValueError) as error:
        raise ImplementationFailed(f"{operation} returned {found!r} where two numbers are due") from error
    return one, other


def refused(subject: Subject, operation: str, *arguments: object, **options: object) -> bool:
    """Whether an operation raises; that it does not offer the arguments is no refusal."""
    try:
        asked(subject, operation, *arguments, **options)
    except ImplementationFailed:
        return True
    return False
