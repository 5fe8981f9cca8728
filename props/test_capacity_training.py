"""VIII.2 held to an implementation: weights that memorise, networks that learn to, and harnesses that find it out."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gnomon.props.cases import EXPERIMENTS, LENGTHS, WIDTHS, ExperimentCase, LinearCase, linear_cases
from gnomon.props.experiments import Adam, Named, at_chance, classified, memorised, require_training
from gnomon.props.judge import Comparison, same
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import capacity as spec
from gnomon.spec.evaluators import Floats
from gnomon.spec.model import Tokens

Comparisons = Iterator[Comparison]


def told_apart(case: LinearCase) -> tuple[Floats, Floats, Floats]:
    """Points of whole numbers in any order, a direction, and where they stand in it: 1, 2 or 4 apart."""
    rng, n = case.rng, case.batch * case.time
    places = np.cumsum(rng.choice((1.0, 2.0, 4.0), n)) - 16
    direction = np.concatenate([[1.0], rng.integers(-2, 3, case.inner - 1)])
    points = rng.integers(-2, 3, (n, case.inner)).astype(float)
    points[:, 0] += places - points @ direction
    return points, direction, places


@checks(
    spec.ANY_LABELS,
    linear_cases(batch=1, inner=st.sampled_from(WIDTHS[:6]), time=st.sampled_from(LENGTHS)),
    needs=("linear", "relu"),
)
def any_labels(subject: Subject, case: LinearCase) -> Comparisons:
    """The network with the given weights has every label, in numbers that are whole or quarters throughout."""
    points, direction, places = told_apart(case)
    labels = case.rng.integers(-3, 4, len(places)).astype(float)
    offsets, weights = (np.array(a) for a in spec.memorising(list(places), list(labels)))
    order = case.rng.permutation(len(places))
    every = np.broadcast_to(direction, (len(places), case.inner)).copy()
    raised = subject.linear(points[None, order], every, -offsets)
    hidden = subject.call("relu", raised, shape=raised.shape)
    yield same("label", subject.linear(hidden, weights[None])[0, :, 0], labels[order])


WIDTH, UNITS, CLASSES = 8, 32, 4
ITEMS, HELD_OUT, STEPS, RATE = 96, 400, 600, 0.02
SHAPES = {"up_weight": (UNITS, WIDTH), "up_bias": (UNITS,), "down_weight": (WIDTH, UNITS), "down_bias": (WIDTH,)}


@dataclass(eq=False)
class Network:
    """A feed-forward network whose first outputs are the classes, and which learns until it has all labels right."""

    subject: Subject
    seed: int
    parameters: Named = field(default_factory=dict)

    def logits(self, x: Floats) -> Floats:
        """What it says of inputs `[items, width]`."""
        own = self.parameters
        return self.subject.call("feed_forward", x[None], own, shape=(1, *x.shape), activation="relu")[0, :, :CLASSES]

    def learn(self, x: Floats, labels: Tokens) -> "Network":
        """Itself, after as many steps as it took, or all that there are."""
        rng, adam = np.random.default_rng(self.seed), Adam(RATE)
        self.parameters = {n: rng.standard_normal(s) / s[-1] ** 0.5 for n, s in SHAPES.items()}
        for _ in range(STEPS):
            logits = self.logits(x)
            if (logits.argmax(-1) == labels).all():
                break
            upstream = np.zeros((1, *x.shape))
            upstream[0, :, :CLASSES] = classified(logits, labels)[1]
            arrays = (x[None], self.parameters)
            adam.step(
                self.parameters, self.subject.vjp("feed_forward", *arrays, upstream=upstream, activation="relu")[1]
            )
            self.subject.calls.clear()
        return self


@checks(
    spec.RANDOM_LABELS, EXPERIMENTS, needs=("feed_forward",), experiment=True, mistakes=(spec.FIRST_LAYER_FROZEN,)
)  # fmt: skip
def random_labels(subject: Subject, case: ExperimentCase) -> Comparisons:
    """Every label that was learned is right, and of the others as many as chance has right."""
    require_training(subject)
    rng = np.random.default_rng(case.seed)
    x, labels = rng.standard_normal((ITEMS + HELD_OUT, WIDTH)), rng.integers(0, CLASSES, ITEMS + HELD_OUT)
    right = Network(subject, case.seed).learn(x[:ITEMS], labels[:ITEMS]).logits(x).argmax(-1) == labels
    yield same("labels right of those learned", right[:ITEMS].sum(), ITEMS)
    yield at_chance("held out", int(right[ITEMS:].sum()), HELD_OUT, 1 / CLASSES)


@checks(
    spec.RANDOM_LABELS, EXPERIMENTS, needs=("random_labels",), experiment=True, mistakes=(spec.SCORED_ON_TRAINING_ROWS,)
)  # fmt: skip
def harness(subject: Subject, case: ExperimentCase) -> Comparisons:
    """Of a procedure that remembers its rows and guesses elsewhere, the harness says just that."""
    require_training(subject)
    x = np.random.default_rng(case.seed).standard_normal((ITEMS + HELD_OUT, WIDTH))
    given = list[Floats]()

    def remembering(inputs: Floats, labels: Tokens, seed: int) -> Any:
        given.append(np.asarray(inputs))
        return lambda asked: labels[((asked[:, None] - inputs) ** 2).sum(-1).argmin(-1)]

    found = memorised(subject, remembering, x, classes=CLASSES, held_out=HELD_OUT, seed=case.seed)
    yield same("rows learned from", sum(map(len, given)), ITEMS)
    yield same("labels right of those learned", found["training"], ITEMS)
    yield at_chance("held out", found["held_out"], HELD_OUT, 1 / CLASSES)
