"""VIII.2: zero training loss says capacity, not understanding."""

import numpy as np

from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.evaluators import Evaluator, Floats, Quantity
from gnomon.spec.loss import LOSS


def gap(E: Evaluator, training: Floats, held_out: Floats) -> Quantity:
    """The mean over the training items minus the mean over the held-out items."""
    return mean(E, training) - mean(E, held_out)


def mean(E: Evaluator, values: Floats) -> Quantity:
    """The sum over the number."""
    return E.total(E.number(values)) / E.number(float(len(values)))


def squared_error(E: Evaluator, training: Floats, held_out: Floats) -> Quantity:
    """The square of the gap's standard error: of each side the unbiased variance over the number of its items."""
    return variance(E, training) / E.number(float(len(training))) + variance(E, held_out) / E.number(
        float(len(held_out))
    )


def variance(E: Evaluator, values: Floats) -> Quantity:
    """(Σx² − (Σx)²/n)/(n − 1), of all ways to compute it the one that loses most digits."""
    x, n = E.number(values), float(len(values))
    total = E.total(x)
    return (E.total(x * x) - total * total / E.number(n)) / E.number(n - 1)


def root_room(square: float, room: float) -> float:
    """How far the root of a number within `room` of `square` may be from √square: |√a − √b| ≤ |a − b|/√b."""
    return float(np.sqrt(room) if square <= room else room / np.sqrt(square) + np.spacing(np.sqrt(square)))


CAPACITY = Proposition(
    number="VIII.2",
    slug="capacity",
    statement="Zero training loss says capacity, not understanding.",
    formula=r"G = \bar s_{\mathrm{train}} - \bar s_{\mathrm{held\ out}}",
    source="Foundations, gathered: the sixth usual mistake; vocabulary: generalisation gap",
    rests_on=(LOSS,),
    said="Low training loss means the model learned the task.",
    so="A large enough network reaches zero training loss on random labels; only held-out items tell the two apart.",
)

TWO_METRICS = Mistake(
    "two-metrics",
    "training performance in one metric and held-out performance in another are subtracted",
    "the gap is a number of no unit, and may have either sign",
)
SIGN_LOST = Mistake(
    "sign-lost",
    "the gap is reported as a distance, without its sign",
    "training below held-out, which points at a leak or at dropout left on, looks like memorisation",
)
ONE_SIDED_ERROR = Mistake(
    "one-sided-error",
    "the standard error is that of the held-out mean alone",
    "a gap within the noise of a small training sample is called real",
)
SPREAD_FOR_ERROR = Mistake(
    "spread-for-error",
    "the standard deviation of the items is reported where the error of their mean is due",
    "no gap is ever called real",
)
GAP = Clause(
    proposition=CAPACITY,
    number="VIII.2.3",
    slug="gap",
    statement="The generalisation gap is training minus held-out performance in one metric, with its sign and its "
    "standard error.",
    formula=r"G = \bar s_{\mathrm{train}} - \bar s_{\mathrm{held\ out}},\qquad "
    r"\mathrm{se}(G) = \sqrt{s^2_{\mathrm{train}}/n + s^2_{\mathrm{held\ out}}/m}",
    kind=Kind.BOUND,
    level=(Level.DATA,),
    mistakes=(TWO_METRICS, SIGN_LOST, ONE_SIDED_ERROR, SPREAD_FOR_ERROR),
)
