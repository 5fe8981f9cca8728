"""I.3: Adam widens the band of usable rates; it does not remove it."""

from fractions import Fraction
from typing import Any

from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.constants import ONE, Constant
from gnomon.spec.descent import DESCENT, Rule, State, decayed, plain_step, scalar
from gnomon.spec.evaluators import Evaluator, Quantity


def step(
    E: Evaluator, rule: Rule, parameter: Any, gradient: Any, state: State, rate: Any = None
) -> tuple[Quantity, State]:
    """The parameter after one step of the rule, at the rate of the rule unless another is given; and what is kept."""
    own = rule.rate if rate is None else rate
    return (plain_step if rule.kind == "sgd" else adam_step)(E, rule, parameter, gradient, state, own)


def adam_step(E: Evaluator, rule: Rule, parameter: Any, gradient: Any, state: State, rate: Any) -> tuple[Any, State]:
    """θ − η·m̂/(√v̂ + ε); with decoupled decay θ shrinks by ηλθ as well, and otherwise λθ has joined the gradient."""
    parameter, gradient = E.number(parameter), E.number(gradient)
    kept = moments(E, rule, gradient if rule.kind == "adamw" else decayed(E, rule, parameter, gradient), state)
    quotient = direction(E, rule, kept)
    moved = E.store(scalar(E, rate) * quotient, "update")
    if rule.kind == "adam" or (isinstance(rule.weight_decay, float) and not rule.weight_decay):
        return E.store(parameter - moved, "out"), kept
    decay = scalar(E, rule.weight_decay)
    left = E.store(E.constant(ONE) - scalar(E, rate) * decay, "constant")
    shrunk = E.store(parameter * left, "update")
    both = E.store(quotient + E.store(decay * parameter, "update"), "update")
    together = parameter - E.store(scalar(E, rate) * both, "update")
    return E.store(E.either(shrunk - moved, together), "out"), kept


def moments(E: Evaluator, rule: Rule, gradient: Quantity, state: State) -> State:
    """The running means of the gradient and of its square, which start at zero."""
    (keep, take), (keep_square, take_square) = ((scalar(E, b), _rest(E, b)) for b in rule.betas)
    square = E.store(E.store(gradient * gradient, "update") * take_square, "update")
    if state.first is None:
        return State(1, E.store(take * gradient, "moment"), E.store(square, "moment"))
    weighted = E.store(keep * state.first, "update") + E.store(take * gradient, "update")
    towards = state.first + E.store(take * E.store(gradient - state.first, "update"), "update")
    second = E.store(keep_square * state.second, "update") + square
    return State(state.steps + 1, E.store(E.either(weighted, towards), "moment"), E.store(second, "moment"))


def direction(E: Evaluator, rule: Rule, kept: State) -> Quantity:
    """m̂/(√v̂ + ε), each moment corrected for its start at zero; the root may be taken before that or after."""
    first, second = (_correction(E, beta, kept.steps) for beta in rule.betas)
    after = E.store(E.sqrt(E.store(kept.second / second, "update")), "update")
    before = E.store(E.store(E.sqrt(kept.second), "update") / E.store(E.sqrt(second), "constant"), "update")
    denominator = E.store(E.either(after, before) + scalar(E, rule.epsilon), "update")
    return E.store(E.store(kept.first / first, "update") / denominator, "update")


def _rest(E: Evaluator, beta: Any) -> Quantity:
    """1 − β."""
    return E.constant(Constant(1 - Fraction(beta))) if isinstance(beta, float) else 1 - beta


def _correction(E: Evaluator, beta: Any, steps: int) -> Quantity:
    """1 − β^t."""
    return E.complement(Constant(Fraction(beta)), steps) if isinstance(beta, float) else 1 - beta**steps


ADAM = Proposition(
    number="I.3",
    slug="adam",
    statement="Adam widens the band of usable rates; it does not remove it.",
    formula=r"\theta \leftarrow \theta - \eta\,\hat m/(\sqrt{\hat v}+\epsilon)",
    source="Foundations, gathered: claim 7",
    rests_on=(DESCENT,),
    said="Adam removes the need to tune the learning rate.",
    so="Adam widens the usable band. A result that changes character when the rate moves by a factor of two was never "
    "about the architecture.",
)

UNCORRECTED = Mistake(
    "uncorrected",
    "neither moment is corrected for its start at zero",
    "the first steps are about three times too long at the usual shares",
)
SECOND_UNCORRECTED = Mistake(
    "second-uncorrected",
    "only the first moment is corrected",
    "the first step is thirty times too long",
)
EPSILON_INSIDE = Mistake(
    "epsilon-inside",
    "epsilon is added under the root",
    "small gradients take steps as if epsilon were its own root",
)
EPSILON_BEFORE_CORRECTION = Mistake(
    "epsilon-before-correction",
    "epsilon is added to the root of the uncorrected moment, and the correction is applied to both",
    "epsilon is too large by thirty in the first step and shrinks to itself",
    seen=("pytorch/pytorch#22628 (2019)", "karpathy/nanochat#304 (2025)"),
    bugs=("B147", "B148"),
)
DECAY_COUPLED = Mistake(
    "decay-coupled",
    "decay called decoupled is added to the gradient, so that it goes through the quotient",
    "parameters with large gradients hardly decay",
    seen=("a small public project (2023)",),
    bugs=("B150",),
)
DECAY_DECOUPLED = Mistake(
    "decay-decoupled",
    "decay called coupled shrinks the parameter directly",
    "another regulariser than the one that was tuned",
)
DECAY_IGNORED = Mistake(
    "decay-ignored",
    "the decay is taken and never used",
    "weights grow, and only held-out loss tells",
    seen=("PaddlePaddle/Paddle#5836 (2017)",),
    bugs=("B151",),
)
DECAY_LAST = Mistake(
    "decay-last",
    "the decay shrinks the parameter that has moved already",
    "off by the square of the rate times the decay",
    seen=("a small public project (2025)",),
    bugs=("B152",),
)
DECAY_WITHOUT_RATE = Mistake(
    "decay-without-rate",
    "decoupled decay is not multiplied by the rate",
    "the schedule of the rate leaves the decay alone",
)
COUNT_AHEAD = Mistake(
    "count-ahead",
    "the first step is counted as the second",
    "the first step is half as long as it should be, the next ones nearly right",
)
ONE_STEP_ONLY = Mistake(
    "one-step-only",
    "from the second step on the second moment is not corrected any more",
    "the first step is right, and a test of one step passes",
)
TOGETHER_ONLY = Mistake(
    "together-only",
    "where parameters are stepped together, all share the count of the steps of all",
    "corrections fade too fast on one of two paths",
)
NARROW_ONLY = Mistake(
    "narrow-only",
    "moments kept in 16 bits are updated with a share rounded down to a power of two",
    "the second moment forgets twice as slowly as asked",
    unseen=dict.fromkeys(("float64", "float32"), "its moments are wide"),
)
ADAM_STEP = Clause(
    proposition=ADAM,
    number="I.3.1",
    slug="adam-step",
    statement="The update is Adam's, with both bias corrections and epsilon outside the root, on every path; "
    "coupled decay "
    "enters the gradient, decoupled decay shrinks the old parameter by the rate times the decay.",
    formula=r"\theta_{t+1} = (1-\eta\lambda)\theta_t - \eta\frac{m_t/(1-\beta_1^t)}{\sqrt{v_t/(1-\beta_2^t)}+\epsilon}",
    kind=Kind.BOUND,
    level=(Level.TRAIN,),
    mistakes=(
        UNCORRECTED, SECOND_UNCORRECTED, EPSILON_INSIDE, EPSILON_BEFORE_CORRECTION, DECAY_COUPLED, DECAY_DECOUPLED,
        DECAY_IGNORED, DECAY_LAST, DECAY_WITHOUT_RATE, COUNT_AHEAD, ONE_STEP_ONLY, TOGETHER_ONLY, NARROW_ONLY,
    ),
)  # fmt: skip

WITHOUT_ROOT = Mistake(
    "without-root",
    "the quotient divides by the second moment, not by its root",
    "a loss twice as large makes steps half as long",
)
FOURTH_ROOT = Mistake(
    "fourth-root",
    "the root is taken twice",
    "half of the scale of the loss stays in the step",
)
PLAIN_NORMALISED = Mistake(
    "plain-normalised",
    "plain descent divides its gradient by the root of its mean square",
    "a rescaled loss no longer needs another rate, where it has to",
)
SCALE_FREE = Clause(
    proposition=ADAM,
    number="I.3.2",
    slug="scale-free",
    statement="A positive constant times the loss leaves Adam's path as it is where epsilon is zero, bit for bit "
    "for powers of "
    "two, and multiplies the distance of plain descent.",
    formula=r"L \mapsto cL:\quad \Delta_{\mathrm{Adam}} \mapsto \Delta_{\mathrm{Adam}},\qquad "
    r"\Delta_{\mathrm{plain}} \mapsto c\,\Delta_{\mathrm{plain}}",
    kind=Kind.BOUND,
    level=(Level.TRAIN,),
    proven=True,
    rests_on=(ADAM_STEP,),
    mistakes=(WITHOUT_ROOT, FOURTH_ROOT, PLAIN_NORMALISED),
)

STARTED_AT_ONE = Mistake(
    "started-at-one",
    "the second moment starts at one",
    "small gradients hardly move anything for as long as the moment remembers",
)
STARTED_AT_GRADIENT = Mistake(
    "started-at-gradient",
    "the moments start at the first gradient and its square, and are corrected all the same",
    "the first step is too long by the ratio of one correction to the root of the other",
)
FIRST_STEP = Clause(
    proposition=ADAM,
    number="I.3.3",
    slug="first-step",
    statement="The first step has the size of the rate for every parameter with a gradient, whatever its scale, "
    "less what "
    "epsilon takes of it.",
    formula=r"|\theta_1-\theta_0| = \eta\,|g|/(|g|+\epsilon)",
    kind=Kind.BOUND,
    level=(Level.TRAIN,),
    proven=True,
    rests_on=(ADAM_STEP,),
    mistakes=(STARTED_AT_ONE, STARTED_AT_GRADIENT),
)

RATE_IGNORED = Mistake(
    "rate-ignored",
    "the optimiser takes a rate and uses one of its own",
    "no rate is too small or too large, which looks robust",
    unseen=dict.fromkeys(("bfloat16", "float16"), "it trains in float32 and float64 alone"),
)
NO_MOMENTS = Mistake(
    "no-moments",
    "plain descent runs under the name of Adam",
    "the band is as narrow as that of plain descent",
    unseen=dict.fromkeys(("bfloat16", "float16"), "it trains in float32 and float64 alone"),
)
WIDER_BAND = Clause(
    proposition=ADAM,
    number="I.3.4",
    slug="wider-band",
    statement="On quadratics and logistic regressions with badly scaled coordinates the band of rates that reach "
    "the target "
    "in the budget of steps is wider for Adam than for plain descent, and has two ends.",
    formula=r"1 \le |\{\eta: \mathrm{plain}\ \text{reaches}\}| < |\{\eta: \mathrm{Adam}\ \text{reaches}\}| < \infty",
    kind=Kind.TRAINED,
    level=(Level.TRAIN,),
    rests_on=(ADAM_STEP,),
    mistakes=(RATE_IGNORED, NO_MOMENTS),
)

ONLY_DOUBLED = Mistake(
    "only-doubled",
    "only the double rate is tried",
    "a conclusion at the lower end of its band is called robust",
)
ONLY_HALVED = Mistake(
    "only-halved",
    "only half the rate is tried",
    "a conclusion at the upper end of its band is called robust",
)
NEAR_RATES = Mistake(
    "near-rates",
    "a tenth more and a tenth less are tried in place of the double and the half",
    "nearly everything survives",
)
MAJORITY = Mistake(
    "majority",
    "two of three conclusions that agree are taken for all",
    "whatever breaks at one end alone is called robust",
)
FACTOR_OF_TWO = Clause(
    proposition=ADAM,
    number="I.3.5",
    slug="factor-of-two",
    statement="The factor-of-two instrument calls a conclusion robust if it is the same at half and at double the "
    "rate, and "
    "fragile otherwise.",
    formula=r"C(\eta/2) = C(\eta) = C(2\eta)",
    kind=Kind.TOOL,
    level=(Level.TRAIN,),
    mistakes=(ONLY_DOUBLED, ONLY_HALVED, NEAR_RATES, MAJORITY),
)
