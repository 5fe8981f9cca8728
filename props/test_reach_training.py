"""IV.1 held to what an implementation learns: looking things up, against reading them out of one vector."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from gnomon.props import expected
from gnomon.props.cases import EXPERIMENTS, LENGTHS, ExperimentCase, ReachCase, filled, reach_cases
from gnomon.props.experiments import Adam, Named, require_training
from gnomon.props.judge import Comparison, between, close
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import reach as spec
from gnomon.spec.bounds import round_to
from gnomon.spec.evaluators import Float64, Floats

Comparisons = Iterator[Comparison]

SIZES = st.sampled_from((1, 2, 4, 8))


@checks(spec.BOTTLENECK, reach_cases(width=SIZES, outer=SIZES, time=st.sampled_from(LENGTHS)),
        needs=("additive_attention",))  # fmt: skip
def additive_attention(subject: Subject, case: ReachCase) -> Comparisons:
    """The output is the definition's, with as many queries as keys and with another number of them."""
    form, rng = subject.precision.storage, np.random.default_rng((case.seed, 13))
    parameters = {f"{n}_weight": rng.standard_normal((case.outer, case.width)) for n in ("query", "key")}
    parameters["score_weight"] = 2 * rng.standard_normal(case.outer)
    parameters = {n: round_to(p, form) for n, p in parameters.items()}
    key, value = (filled(case, rng, form, case.batch, case.time, n) for n in (case.width, case.kernel))
    for queries in (case.time, case.depth):
        query = filled(case, rng, form, case.batch, queries, case.width)
        due = expected.additive_attention(subject, query, key, value, parameters=parameters)
        shape = (case.batch, queries, case.kernel)
        yield close("output", subject.call("additive_attention", query, key, value, parameters, shape=shape), *due)


BITS, INNER, LEARNED = 6, 24, 16
FEW, MANY, ASKED, STATE = 8, 64, 200, 32
BATCH, QUERIES, STEPS, RATE, GOAL = 16, 4, 400, 0.02, 0.02
CODES = np.array([[*(2.0 * (i >> b & 1) - 1 for b in range(BITS)), 1.0] for i in range(MANY)])  # and a one for a bias


@dataclass(eq=False)
class LookUp:
    """Additive attention that learns to give the value, one or minus one, of the item whose code it is asked with."""

    subject: Subject
    seed: int
    parameters: Named = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        shapes = {"query_weight": (INNER, BITS + 1), "key_weight": (INNER, BITS + 1), "score_weight": (INNER,)}
        self.parameters = {n: self.rng.standard_normal(s) / s[-1] ** 0.5 for n, s in shapes.items()}

    def drawn(self, items: int, batch: int) -> tuple[tuple[Floats, Floats, Floats], Floats]:
        """Queries, keys and values, and what is due."""
        chosen = self.rng.random((batch, MANY)).argsort(-1)[:, :items]
        asked = self.rng.integers(0, items, (batch, QUERIES, 1))
        key, value = CODES[chosen], self.rng.choice((-1.0, 1.0), (batch, items, 1))
        return (np.take_along_axis(key, asked, 1), key, value), np.take_along_axis(value, asked, 1)

    def answers(self, arrays: tuple[Floats, ...]) -> Floats:
        """What it recalls."""
        shape = (*arrays[0].shape[:2], 1)
        return self.subject.call("additive_attention", *arrays, self.parameters, shape=shape)

    def learn(self) -> "LookUp":
        """Itself, after it has learned to look up among LEARNED items, or has had all steps for it."""
        adam, errors = Adam(RATE), list[float]()
        while len(errors) < STEPS and not (len(errors) > 10 and np.mean(errors[-10:]) < GOAL):
            arrays, due = self.drawn(LEARNED, BATCH)
            error = self.answers(arrays) - due
            upstream = 2 * error / error.size
            found = self.subject.vjp("additive_attention", *arrays, self.parameters, upstream=upstream)
            adam.step(self.parameters, found[3])
            errors.append(float((error**2).mean()))
            self.subject.calls.clear()
        return self

    def recalled(self, items: int) -> int:
        """How many of ASKED signs are right."""
        arrays, due = self.drawn(items, ASKED // QUERIES)
        return int((np.sign(self.answers(arrays)) == due).sum())


def unexplained(subject: Subject, seed: int, items: int) -> float:
    """The share of so many numbers, each the sign of one step, that no linear read-out of the last state recovers.

    The sequences are the rows of a Hadamard matrix, so that the best read-out is a projection and by rank leaves at
    least 1 − STATE/items of the squares.
    """
    rng = np.random.default_rng(seed)
    signs = np.ones((1, 1))
    while len(signs) < items:
        signs = np.kron(signs, np.array([[1.0, 1.0], [1.0, -1.0]]))
    weight, way = np.linalg.qr(rng.standard_normal((STATE, STATE)))[0], rng.standard_normal(STATE)
    x = signs[:, :, None] * way
    if subject.offers("recurrence"):
        last = subject.call("recurrence", x, weight, shape=x.shape)[:, -1]
    else:
        last = spec.recurrence(Float64(), x, weight)[:, -1]
    read = last @ np.linalg.lstsq(last, signs, rcond=None)[0]
    return float(((signs - read) ** 2).mean())


@checks(
    spec.BOTTLENECK, EXPERIMENTS, needs=("additive_attention",), experiment=True,
    mistakes=(spec.QUERY_UNREAD, spec.BENT_APART),
)  # fmt: skip
def bottleneck(subject: Subject, case: ExperimentCase) -> Comparisons:
    """From a state of fixed width few items are read out and many are not; attention looks up among few and many."""
    require_training(subject)
    yield between(f"share of {FEW} items left unexplained", unexplained(subject, case.seed, FEW), 0.0, 0.01, 0.0)
    yield between(f"share of {MANY} items left unexplained", unexplained(subject, case.seed, MANY), 0.25, 1.0, 0.0)
    learned = LookUp(subject, case.seed).learn()
    for items in (FEW, MANY):
        yield between(f"looked up among {items}, of {ASKED}", learned.recalled(items), 9 * ASKED // 10, ASKED, 0.0)
