"""VIII.2: zero training loss says capacity, not understanding."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.evaluators import Evaluator, Floats, Quantity
from gnomon.spec.linear import linear, relu
from gnomon.spec.loss import LOSS
from gnomon.spec.trained import UNTRAINED


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


def memorising(places: Sequence[Any], labels: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Offsets and weights of the network that takes each label at its place; the places ascend.

    It is the broken line through all of them, which rises from zero one before the first: a unit bends it at every
    place but the last. Whole numbers, fractions and expressions stay what they are.
    """
    offsets = [places[0] - 1, *places[:-1]]
    rises = [y - before for y, before in zip(labels, [0, *labels[:-1]], strict=True)]
    slopes = [rise / (x - offset) for rise, x, offset in zip(rises, places, offsets, strict=True)]
    return offsets, [slope - before for slope, before in zip(slopes, [0, *slopes[:-1]], strict=True)]


def two_layers(E: Evaluator, points: Any, direction: Any, offsets: Any, weights: Any) -> Quantity:
    """Σⱼ wⱼ·max(⟨a,z⟩ − bⱼ, 0) for every point z, `[n, 1]`; points `[n, d]`, direction a `[d]`: 2n + d weights."""
    every = np.broadcast_to(np.asarray(direction), (len(offsets), len(direction)))
    hidden = relu(E, linear(E, points, every, -np.asarray(offsets)))
    return linear(E, hidden, np.asarray(weights)[None])


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

CAPPED_RECTIFIER = Mistake(
    "capped-rectifier",
    "the rectifier ends at six",
    "small activations hide it; a unit that should go on rising does not",
)
ANY_LABELS = Clause(
    proposition=CAPACITY,
    number="VIII.2.1",
    slug="any-labels",
    statement="Two layers with 2n + d weights take any labels on any n points of d features that some direction tells "
    "apart: the weights are given, and the network has those labels exactly.",
    formula=r"c(z) = \sum_{j=1}^n w_j\max(\langle a,z\rangle - b_j, 0),\qquad c(z_i) = y_i",
    kind=Kind.EXACT,
    proven=True,
    mistakes=(CAPPED_RECTIFIER,),
)

FIRST_LAYER_FROZEN = Mistake(
    "first-layer-frozen",
    "no gradient reaches the first matrix of the network, so that only a read-out of random features learns",
    "training loss falls and stalls; an easy task does not show it",
    unseen=UNTRAINED,
)
SCORED_ON_TRAINING_ROWS = Mistake(
    "scored-on-training-rows",
    "the held-out score is taken on rows that were trained on",
    "a model that knows nothing but its rows scores perfectly",
    unseen=UNTRAINED,
)
RANDOM_LABELS = Clause(
    proposition=CAPACITY,
    number="VIII.2.2",
    slug="random-labels",
    statement="A network of 32 units learns random labels of 96 points until it has all of them right, and on points "
    "that were held out it is right as often as guessing is; a harness for this test finds the same of one that "
    "only remembers.",
    formula=r"\hat L_{\mathrm{train}} = 0,\qquad \textstyle\sum_{i\text{ held out}}[\hat y_i=y_i] "
    r"\sim \mathrm{Binomial}(m, 1/K)",
    kind=Kind.TRAINED,
    level=(Level.TRAIN,),
    rests_on=(ANY_LABELS,),
    mistakes=(FIRST_LAYER_FROZEN, SCORED_ON_TRAINING_ROWS),
)
