"""I.2: the gradient gives the direction, the rate gives the distance."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.constants import HALF, ONE, exactly, rational
from gnomon.spec.conventions import AfterEnd, FirstRate
from gnomon.spec.evaluators import Evaluator, Floats, Quantity
from gnomon.spec.function import FUNCTION

Method = Literal["sgd", "adam", "adamw"]
METHODS: tuple[Method, ...] = ("sgd", "adam", "adamw")
Curve = Literal["linear", "cosine", "constant"]
CURVES: tuple[Curve, ...] = ("linear", "cosine", "constant")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What an optimiser is told before the first step; numbers, or symbols in a proof.

    kind: plain descent, Adam, or Adam with decoupled decay. That of the other two is coupled: it joins the gradient.
    """

    kind: Method = "sgd"
    rate: Any
    momentum: Any = 0.0
    betas: tuple[Any, Any] = (0.9, 0.999)
    epsilon: Any = 1e-8
    weight_decay: Any = 0.0


@dataclass(frozen=True, slots=True)
class State:
    """What an optimiser keeps of one parameter: how many steps were taken, and its moments after the first."""

    steps: int = 0
    first: Quantity = None
    second: Quantity = None


def scalar(E: Evaluator, x: Any) -> Quantity:
    """A number of a rule as the evaluator says it; a symbol is itself."""
    return E.constant(exactly(x)) if isinstance(x, float) else x


def decayed(E: Evaluator, rule: Rule, parameter: Quantity, gradient: Quantity) -> Quantity:
    """The gradient of the loss with half the decay times the squared parameter added to it."""
    if isinstance(rule.weight_decay, float) and not rule.weight_decay:
        return gradient
    return E.store(gradient + E.store(scalar(E, rule.weight_decay) * parameter, "update"), "update")


def plain_step(E: Evaluator, rule: Rule, parameter: Any, gradient: Any, state: State, rate: Any) -> tuple[Any, State]:
    """θ − ηv with v the gradient, or μv + g after the first step; and what is kept of it."""
    parameter = E.number(parameter)
    velocity = decayed(E, rule, parameter, E.number(gradient))
    if state.first is not None:
        velocity = E.store(E.store(scalar(E, rule.momentum) * state.first, "update") + velocity, "moment")
    kept = None if isinstance(rule.momentum, float) and not rule.momentum else velocity
    moved = parameter - E.store(scalar(E, rate) * velocity, "update")
    return E.store(moved, "out"), State(state.steps + 1, kept)


def clipped(E: Evaluator, gradients: Mapping[str, Any], limit: float, epsilon: float) -> dict[str, Quantity]:
    """Every gradient times the limit over the norm of all together, where that norm is above the limit."""
    given = {name: E.number(g) for name, g in gradients.items()}
    squares = [E.store(E.total(E.store(g * g, "update").reshape(1, -1)), "update")[0, 0] for g in given.values()]
    norm = E.store(E.sqrt(E.added([_renormed(E, s) for s in squares], "update")), "update")
    factor = E.store(scalar(E, limit) / E.store(norm + scalar(E, epsilon), "update"), "update")
    return {name: E.store(g * factor, "out") for name, g in given.items()}


def _renormed(E: Evaluator, square: Quantity) -> Quantity:
    """The squared norm of one gradient, which may have been stored as a norm in between."""
    norm = E.store(E.sqrt(square), "update")
    return E.either(square, norm * norm)


def global_norm(gradients: Mapping[str, Floats]) -> float:
    """The root of the sum of all squares."""
    return math.sqrt(sum(float(np.square(g).sum()) for g in gradients.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A rate that rises in `warmup` steps to its peak and falls along a curve to its minimum at step `total`."""

    kind: Curve
    peak: float
    warmup: int
    total: int
    minimum: float = 0.0


def scheduled(
    E: Evaluator, schedule: Schedule, step: int, *, first: FirstRate = "zero", after: AfterEnd = "minimum"
) -> Quantity:
    """The rate at a step, counted from zero.

    first: whether the first step has no rate, or one share of the warm-up; or that because all is ahead by a step.
    after: whether a cosine stays at its minimum after the end or goes on.
    """
    if step < schedule.warmup:
        return scalar(E, schedule.peak) * E.constant(rational(step + (first != "zero"), schedule.warmup))
    if schedule.kind == "constant":
        return scalar(E, schedule.peak)
    progress = Fraction(step + (first == "ahead") - schedule.warmup, schedule.total - schedule.warmup)
    if after == "minimum" or schedule.kind == "linear":
        progress = min(progress, Fraction(1))
    minimum, peak, left = scalar(E, schedule.minimum), scalar(E, schedule.peak), _left(E, schedule.kind, progress)
    share = minimum / peak
    return E.either(minimum + (peak - minimum) * left, peak * (left * (E.constant(ONE) - share) + share))


def _left(E: Evaluator, kind: Curve, progress: Fraction) -> Quantity:
    """What is left of the fall, one at the start and zero at the end."""
    if kind == "linear":
        done = E.computed(np.asarray(float(progress)), np.asarray(2.0 * (progress.denominator > 1)))
        return E.constant(ONE) - done
    turned = np.asarray(math.pi * (progress % 2))
    return (E.constant(ONE) + E.cos(E.computed(turned, np.asarray(4.0)))) * E.constant(HALF)


DESCENT = Proposition(
    number="I.2",
    slug="descent",
    statement="The gradient gives the direction, the rate gives the distance.",
    formula=r"\theta \leftarrow \theta - \eta\nabla_\theta L",
    source="Foundations, gathered: equation 3",
    rests_on=(FUNCTION,),
)

ASCENT = Mistake(
    "ascent",
    "the gradient is added to the parameter",
    "the loss grows, or falls where a sign is wrong twice",
)
RATE_APPLIED_TWICE = Mistake(
    "rate-applied-twice",
    "the gradient is multiplied by the rate before the step that multiplies by it too",
    "training is slow by the factor of the rate, and a rate of one hides it",
)
HIDDEN_DECAY = Mistake(
    "hidden-decay",
    "the parameter shrinks by the rate times a decay that nobody asked for",
    "a regulariser that no configuration shows",
)
PREVIOUS_GRADIENT = Mistake(
    "previous-gradient",
    "each step goes along the gradient of the step before, the first along its own",
    "training works at small rates and is unstable at usual ones",
)
RATE_KEPT = Mistake(
    "rate-kept",
    "where parameters are stepped together, the rate given at a step is ignored for that of the start",
    "a schedule has no effect on one of two paths",
)
TRUNCATED = Mistake(
    "truncated-storage",
    "the new parameter is cut off to 16 bits instead of rounded",
    "all weights drift towards zero by a quarter of a spacing and more a step",
    unseen=dict.fromkeys(("float64", "float32"), "nothing is cut off"),
)
PLAIN_STEP = Clause(
    proposition=DESCENT,
    number="I.2.1",
    slug="plain-step",
    statement="One plain step is the parameter less the rate times the gradient, on every path; with momentum the "
    "gradient "
    "is joined by a fixed share of the last velocity, and coupled decay adds to it a share of the parameter.",
    formula=r"\theta_{t+1} = \theta_t - \eta_t v_t,\quad v_t = \mu v_{t-1} + g_t + \lambda\theta_t",
    kind=Kind.BOUND,
    level=(Level.TRAIN,),
    mistakes=(ASCENT, RATE_APPLIED_TWICE, HIDDEN_DECAY, PREVIOUS_GRADIENT, RATE_KEPT, TRUNCATED),
)

SIGN_STEP = Mistake(
    "sign-step",
    "each coordinate moves by the rate in the direction of its gradient's sign",
    "near a minimum the loss rises; far from one it hardly falls",
)
SMOOTH_FALL = Clause(
    proposition=DESCENT,
    number="I.2.2",
    slug="smooth-fall",
    statement="On a loss of curvature at most β, a plain step of rate at most 1/β lowers the loss by at least half "
    "the rate "
    "times the squared gradient norm.",
    formula=r"\eta\le 1/\beta:\ L(\theta-\eta\nabla L) \le L(\theta) - \tfrac{\eta}{2}\lVert\nabla L\rVert^2",
    kind=Kind.BOUND,
    level=(Level.TRAIN,),
    proven=True,
    rests_on=(PLAIN_STEP,),
    mistakes=(SIGN_STEP,),
)

CLIPPED_STEP = Mistake(
    "clipped-step",
    "a gradient longer than one is shortened to one, unasked",
    "a rate that has to diverge seems to be a good one",
)
NORMALISED_STEP = Mistake(
    "normalised-step",
    "the gradient is divided by its norm",
    "the loss stops at a distance of the rate from the minimum",
)
TWO_OVER_CURVATURE = Clause(
    proposition=DESCENT,
    number="I.2.3",
    slug="two-over-curvature",
    statement="On a quadratic of top curvature β plain descent converges at every rate below 2/β, and diverges "
    "above it.",
    formula=r"\lVert\theta_n\rVert \le \max_i|1-\eta\lambda_i|^n\lVert\theta_0\rVert,\quad "
    r"|u_\beta^\top\theta_n| = |1-\eta\beta|^n|u_\beta^\top\theta_0|",
    kind=Kind.BOUND,
    level=(Level.TRAIN,),
    proven=True,
    rests_on=(PLAIN_STEP,),
    mistakes=(CLIPPED_STEP, NORMALISED_STEP),
)

STALE_MOMENTUM = Mistake(
    "stale-momentum",
    "plain descent keeps a velocity although none was asked for",
    "parameters without a gradient move on",
)
CLAMPED_UPDATE = Mistake(
    "clamped-update",
    "no entry moves by more than a sixteenth in a step",
    "rates above some size all do the same",
)
STILL = Clause(
    proposition=DESCENT,
    number="I.2.4",
    slug="still",
    statement="At zero gradient, and at a rate of zero, a plain step moves nothing; and twice the rate goes twice "
    "as far.",
    formula=r"g=0 \Rightarrow \theta_{t+1}=\theta_t,\qquad \Delta\theta(2\eta) = 2\,\Delta\theta(\eta)",
    kind=Kind.EXACT,
    level=(Level.TRAIN,),
    rests_on=(PLAIN_STEP,),
    mistakes=(STALE_MOMENTUM, CLAMPED_UPDATE),
)

_NOT_JUDGED = dict.fromkeys(("bfloat16", "float16"), "the gradient of a whole model is not judged in 16 bits")
MEAN_OF_MEANS = Mistake(
    "mean-of-means",
    "the mean losses of the micro-batches are averaged, whatever each counted",
    "short micro-batches weigh more; with equal lengths nothing shows it",
    seen=(
        "huggingface/transformers#34191 (2024)", "karpathy/nanochat#59 (2025)", "a small public project (2024)",
    ),
    bugs=("B172", "B173", "B177"),
    unseen=_NOT_JUDGED,
)  # fmt: skip
SUM_OF_MEANS = Mistake(
    "sum-of-means",
    "the mean losses of the micro-batches are added up",
    "the rate is in effect multiplied by their number",
    seen=("linkedin/Liger-Kernel#802 (2025)",),
    bugs=("B176",),
    unseen=_NOT_JUDGED,
)
PER_SENTENCE = Mistake(
    "per-sentence",
    "the summed loss is divided by the number of rows, not of tokens",
    "the rate is in effect multiplied by the mean length",
    seen=("OpenNMT/OpenNMT-py#526 (2018)",),
    bugs=("B174",),
    unseen=_NOT_JUDGED,
)
CLIPPED_EACH_MICRO_BATCH = Mistake(
    "clipped-each-micro-batch",
    "gradients are clipped after every micro-batch, not once before the step",
    "early micro-batches are clipped again and again",
    seen=("huggingface/transformers#1563 (2019)",),
    bugs=("B168",),
    unseen=_NOT_JUDGED,
    needs=("trainer.limit",),
)
CLIPPED_TOO_EARLY = Mistake(
    "clipped-too-early",
    "clipping runs before the gradients are there",
    "nothing is ever clipped",
    seen=("a small public project (2026)",),
    bugs=("B171",),
    unseen=_NOT_JUDGED,
    needs=("trainer.limit",),
)
ACCUMULATION = Clause(
    proposition=DESCENT,
    number="I.2.5",
    slug="accumulation",
    statement="A step on micro-batches goes along the gradient of the mean loss of all their tokens, however many each "
    "has, and is clipped once, as a whole.",
    formula=r"g = \frac{\sum_b\nabla\sum_{t\in b}\ell_t}{\sum_b|b|}",
    kind=Kind.BOUND,
    level=(Level.TRAIN,),
    rests_on=(PLAIN_STEP,),
    mistakes=(MEAN_OF_MEANS, SUM_OF_MEANS, PER_SENTENCE, CLIPPED_EACH_MICRO_BATCH, CLIPPED_TOO_EARLY),
)

NEVER_CLEARED = Mistake(
    "never-cleared",
    "the buffers of gradients are not emptied after a step",
    "every step also goes along all earlier gradients, which looks like a momentum",
)
CLEARED = Clause(
    proposition=DESCENT,
    number="I.2.6",
    slug="cleared",
    statement="A gradient does not outlive its step: a second step is that of a trainer which starts where the "
    "first one "
    "ended.",
    formula=r"\theta_2(\theta_0, b_1, b_2) = \theta_1(\theta_1(\theta_0, b_1), b_2)",
    kind=Kind.EXACT,
    level=(Level.TRAIN,),
    rests_on=(ACCUMULATION,),
    mistakes=(NEVER_CLEARED,),
)

CLIPPED_PER_TENSOR = Mistake(
    "clipped-per-tensor",
    "every gradient is clipped to the limit by its own norm",
    "the direction of the whole changes with how parameters are grouped",
)
CLIPPED_BY_VALUE = Mistake(
    "clipped-by-value",
    "entries above the limit are set to it",
    "the direction turns towards the diagonal",
)
CLIPPING_IDLE = Mistake(
    "clipping-idle",
    "the factor is computed and never applied",
    "one bad batch throws the parameters far away",
    seen=("a small public project (2026)",),
    bugs=("B170",),
)
CLIPPED_BEFORE_UNSCALING = Mistake(
    "clipped-before-unscaling",
    "gradients of a scaled loss are clipped first and divided by the scale afterwards",
    "nearly every step is clipped, and to the limit over the scale",
    needs=("clip_by_global_norm.scale",),
)
ALWAYS_NORMALISED = Mistake(
    "always-normalised",
    "gradients shorter than the limit are lengthened to it",
    "the last steps are as long as the first",
)
CLIPPING = Clause(
    proposition=DESCENT,
    number="I.2.7",
    slug="clipping",
    statement="Clipping by the global norm multiplies all gradients by one number, which is one, exactly, where "
    "their common "
    "norm is under the limit, and else makes it the limit; of a scaled loss, after unscaling.",
    formula=r"g_i \mapsto g_i\cdot\min(1,\ c/(\lVert g\rVert + \epsilon)),\quad "
    r"\lVert g\rVert^2 = \sum_i\lVert g_i\rVert^2",
    kind=Kind.BOUND,
    level=(Level.TRAIN,),
    conventions=("clip_epsilon",),
    mistakes=(CLIPPED_PER_TENSOR, CLIPPED_BY_VALUE, CLIPPING_IDLE, CLIPPED_BEFORE_UNSCALING, ALWAYS_NORMALISED),
)

FIRST_RATE_LOST = Mistake(
    "first-rate-lost",
    "the warm-up is evaluated at step zero, so that the first batch is seen at a rate of zero",
    "one batch is wasted",
    seen=("meta-pytorch/torchtune#2010 (2024)",),
    bugs=("B189",),
)
DECAY_FROM_ZERO = Mistake(
    "decay-from-zero",
    "the fall is counted from step zero, not from the end of the warm-up",
    "the rate drops at the end of the warm-up",
    seen=("a small public project (2026)",),
    bugs=("B191",),
)
PERIOD_SHORTENED = Mistake(
    "period-shortened",
    "the warm-up is subtracted from the period twice",
    "the minimum is reached early and the last steps go nowhere",
)
ONE_AHEAD = Mistake(
    "one-ahead",
    "after the warm-up the schedule is a step ahead",
    "the peak is never held for a step, and two runs that resume differ",
)
MINIMUM_ADDED = Mistake(
    "minimum-added",
    "the minimum is added to a fall from the peak to zero",
    "the highest rate is above the peak that was asked for",
)
SCHEDULE = Clause(
    proposition=DESCENT,
    number="I.2.8",
    slug="schedule",
    statement="A schedule is the declared function of the step: from the declared first rate in a straight line to "
    "the peak, "
    "then along its curve to the minimum at the declared end.",
    formula=r"\eta_s = \eta_{\max}\tfrac{s}{w},\ s<w;\qquad "
    r"\eta_{\min} + (\eta_{\max}-\eta_{\min})\tfrac12\bigl(1+\cos\pi\tfrac{s-w}{n-w}\bigr),\ w\le s\le n",
    kind=Kind.BOUND,
    level=(Level.TRAIN,),
    conventions=("first_rate", "after_end"),
    mistakes=(FIRST_RATE_LOST, DECAY_FROM_ZERO, PERIOD_SHORTENED, ONE_AHEAD, MINIMUM_ADDED),
)
