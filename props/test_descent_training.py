"""I.1.6, I.2.5 and I.2.6 held to what trains whole models: its gradients, its buffers and all that has to stay."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gnomon.props.box import Input, box, equation
from gnomon.props.gradients import Slopes
from gnomon.props.judge import Comparison, close, same
from gnomon.props.measure import convention
from gnomon.props.model_cases import ModelCase, model_cases
from gnomon.props.outcome import Declined
from gnomon.props.property import checks
from gnomon.props.subject import Subject, guarded
from gnomon.props.training import named
from gnomon.spec import descent as spec
from gnomon.spec import function as function_spec
from gnomon.spec.adjoint import Adjoint
from gnomon.spec.bounds import Bounds, Tracked, allowed
from gnomon.spec.configuration import Configuration
from gnomon.spec.evaluators import Evaluator, Floats, Quantity
from gnomon.spec.loss import cross_entropy
from gnomon.spec.model import Tokens
from gnomon.spec.reverse import vjp

Comparisons = Iterator[Comparison]
Named = Mapping[str, Floats]

TRAINER = ("trainer",)
RATE = 1.0  # so that the distance is the gradient


def next_tokens(c: Configuration) -> bool:
    """Whether it is a model of next tokens."""
    return c.causal and c.output == "logits"


CASES: dict[str, Any] = {"time": st.sampled_from((5, 4)), "layers": st.sampled_from((1, 2)), "regime": "ordinary"}


def batches(case: ModelCase, which: int = 0) -> list[Tokens]:
    """Two or three micro-batches `[rows, time]` of different lengths."""
    rng = np.random.default_rng((case.seed, 51 + which))
    shapes = [(1 + (case.seed + i) % 2, (case.time, 2, 3)[i]) for i in range(2 + case.seed % 2)]
    return [rng.integers(0, case.vocabulary, shape) for shape in shapes]


class Trainer:
    """The subject's trainer of the case's model."""

    def __init__(self, subject: Subject, case: ModelCase, parameters: Named, **options: Any):
        subject.require("trainer", "rate", *options)
        self.subject, self.shapes = subject, {name: p.shape for name, p in parameters.items()}
        self.handed = subject.hand(dict(parameters))
        make = subject.function("trainer", None)
        self.own = guarded("trainer", make, [case.configuration, self.handed], {"rate": RATE} | options)

    def step(self, given: Sequence[Tokens]) -> dict[str, Floats]:
        """The parameters after one more step."""
        handed = [self.subject.hand(tokens) for tokens in given]
        return named(self.subject, "trainer.step", guarded("trainer.step", self.own.step, [handed], {}), self.shapes)

    def logits(self, tokens: Tokens) -> Floats:
        """What the model in training gives."""
        if not callable(self.own):
            raise Declined("the model in training cannot be asked")
        return self.subject.framework.take(guarded("trainer", self.own, [self.subject.hand(tokens)], {}))[0]


def slopes(subject: Subject, case: ModelCase, given: Sequence[Tokens]) -> Slopes:
    """The gradients of the mean loss of all tokens."""
    E, model = Adjoint(subject.precision), box(subject, case)
    count = float(sum(t[:, 1:].size for t in given))

    def run(R: Evaluator, parameters: Mapping[str, Any]) -> Quantity:
        losses = [
            cross_entropy(R, equation(model, Input(t))(R, parameters)[:, :-1], t[:, 1:], reduction="sum") for t in given
        ]
        return R.added(losses, "losses") / R.number(count)

    return Slopes(E, vjp(E, run, model.parameters, np.ones(()))[1])


def accumulated(subject: Subject, case: ModelCase, limit: float | None, exact: Slopes, start: Named) -> Comparisons:
    """The parameter that is farthest from the step of the exact gradient, by its own bound and that of the factor."""
    options = {} if limit is None else {"limit": limit}
    after = Trainer(subject, case, start, **options).step(batches(case))
    got = {name: (start[name] - after[name]) / RATE for name in after}
    epsilon, unsure = (0.0, 0.0) if limit is None else _clip_epsilon(subject)
    factor = 1.0 if limit is None else limit / (exact.norm + epsilon)
    name = max(got, key=lambda n: float(np.abs(got[n] - factor * exact.value(n)).max()))
    value = exact.value(name)
    worst = np.unravel_index(np.argmax(np.abs(got[name] - factor * value)), value.shape)
    functional = np.zeros(value.shape)
    functional[worst] = 1.0
    room = exact.allowed({name: functional})
    astray = 0.0 if limit is None else _astray(exact, got) + unsure / exact.norm
    own = factor * (room * (1 + astray) + astray * abs(value[worst]))
    E = Bounds(subject.precision)
    gradient = Tracked(np.asarray(factor * value[worst]), np.asarray(own), subject.precision)
    moved, _ = spec.plain_step(E, spec.Rule(rate=RATE), start[name][worst], gradient, spec.State(), RATE)
    yield close(f"{name}{[int(i) for i in worst]} after a step", after[name][worst], moved.value, allowed(moved))


def _require_width(subject: Subject) -> None:
    if subject.precision.narrow:
        raise Declined("the gradient of a whole model is judged in float32 and float64")


def _clip_epsilon(subject: Subject) -> tuple[float, float]:
    """What clipping adds to the norm, and how much more it may be where that is neither declared nor to be measured."""
    if subject.conventions.clip_epsilon is None and not subject.offers("clip_by_global_norm"):
        return 0.0, float("1e-6")
    return float(convention(subject, "clip_epsilon")), 0.0


def _astray(exact: Slopes, got: Named) -> float:
    """By what share the norm may be off: the error along the exact gradient, and along the one that was got."""
    size = spec.global_norm(got) or 1.0
    inward = {n: g / exact.norm for n, g in exact.values.items()}
    outward = {n: g / size for n, g in got.items()}
    share = max(exact.allowed(inward), exact.allowed(outward)) / exact.norm
    return share / (1 - share) if share < 1 / 2 else np.inf


@checks(
    spec.ACCUMULATION, model_cases(next_tokens, **CASES), needs=TRAINER, share=0.25,
    mistakes=(spec.MEAN_OF_MEANS, spec.SUM_OF_MEANS, spec.PER_SENTENCE),
)  # fmt: skip
def accumulation(subject: Subject, case: ModelCase) -> Comparisons:
    """A step of rate one on micro-batches of unequal lengths."""
    start = case.parameters(subject.precision.storage)
    _require_width(subject)
    yield from accumulated(subject, case, None, slopes(subject, case, batches(case)), start)


@checks(
    spec.ACCUMULATION, model_cases(next_tokens, **CASES), needs=TRAINER, share=0.25,
    mistakes=(spec.CLIPPED_EACH_MICRO_BATCH, spec.CLIPPED_TOO_EARLY),
)  # fmt: skip
def accumulation_clipped(subject: Subject, case: ModelCase) -> Comparisons:
    """The same with a limit of a quarter of the norm."""
    start = case.parameters(subject.precision.storage)
    subject.require("trainer", "limit")
    _require_width(subject)
    exact = slopes(subject, case, batches(case))
    yield from accumulated(subject, case, exact.norm / 4, exact, start)


@checks(spec.CLEARED, model_cases(next_tokens, **CASES), needs=TRAINER, share=0.25)
def cleared(subject: Subject, case: ModelCase) -> Comparisons:
    """The second step of one trainer against the first of another."""
    start = case.parameters(subject.precision.storage)
    trainer = Trainer(subject, case, start)
    after = trainer.step(batches(case))
    one, other = trainer.step(batches(case, 1)), Trainer(subject, case, after).step(batches(case, 1))
    for name in one:
        yield same(f"{name} after the second step", one[name], other[name])


@checks(function_spec.NOTHING_ELSE, model_cases(next_tokens, favour=("llama",), **CASES), needs=TRAINER, share=0.25)
def nothing_else(subject: Subject, case: ModelCase) -> Comparisons:
    """What is frozen, what the caller holds, and a model built anew from the parameters alone."""
    start = case.parameters(subject.precision.storage)
    frozen = tuple(sorted(start))[case.seed % 2 :: 2]
    trainer = Trainer(subject, case, start, frozen=frozen)
    after = trainer.step(batches(case))
    for name in frozen:
        yield same(f"{name}, which is frozen,", after[name], start[name])
    for name, held in trainer.handed.items():
        yield same(f"the caller's {name}", subject.framework.take(held)[0], start[name])
    tokens = batches(case)[0]
    yield same("logits of the trained model", trainer.logits(tokens), box(subject, case, after)(Input(tokens)))
