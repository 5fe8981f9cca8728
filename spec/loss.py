"""I.4: the loss is not the objective."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gnomon.spec.attention import softmax
from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.constants import exactly
from gnomon.spec.conventions import AllIgnored
from gnomon.spec.evaluators import Evaluator, Quantity
from gnomon.spec.function import FUNCTION

OP_AND_TRAIN = (Level.OP, Level.TRAIN)
Ids = npt.NDArray[np.int64]
Reduction = Literal["mean", "sum", "none"]


def token_losses(E: Evaluator, logits: Any, targets: Ids) -> Quantity:
    """−log p(target) of every position; logits `[..., vocabulary]`, targets `[...]`."""
    return -E.log_softmax(E.number(logits))[(*np.indices(targets.shape), targets)]


def cross_entropy(
    E: Evaluator,
    logits: Any,
    targets: Ids,
    *,
    ignore_index: int | None = None,
    reduction: Reduction = "mean",
    all_ignored: AllIgnored = "zero",
) -> Quantity:
    """−log p(target), for each position with zeros where it is ignored, summed, or averaged over what counts."""
    counted = np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index
    losses = E.select(counted, token_losses(E, logits, np.where(counted, targets, 0)))
    if reduction == "none":
        return E.store(losses, "out")
    if not counted.any():
        return E.number(np.nan if reduction == "mean" and all_ignored == "nan" else 0.0)
    total = E.added([losses[tuple(i)] for i in np.argwhere(counted)], "losses")
    return E.store(total if reduction == "sum" else total / E.number(float(counted.sum())), "out")


def next_token_loss(
    E: Evaluator, logits: Any, tokens: Ids, *, ignore_index: int | None = None, all_ignored: AllIgnored = "zero"
) -> Quantity:
    """The mean loss of logits at t `[batch, time, vocabulary]` against token t+1 `[batch, time]`, the last unscored."""
    return cross_entropy(E, E.number(logits)[:, :-1], tokens[:, 1:], ignore_index=ignore_index, all_ignored=all_ignored)


def tempered(E: Evaluator, logits: Any, temperature: Any) -> Quantity:
    """The probabilities of logits that were divided by a temperature, a number or a constant, `[..., vocabulary]`."""
    divisor = E.constant(exactly(temperature) if isinstance(temperature, float) else temperature)
    return softmax(E, E.store(E.number(logits) / divisor, "logits"))


LOSS = Proposition(
    number="I.4",
    slug="loss",
    statement="The loss is not the objective: it is what can be computed and descended, and it leaves things out.",
    formula=r"L(z,y) = -\log\frac{e^{z_y}}{\sum_j e^{z_j}}",
    source="Foundations, gathered: chapter I, proposition 4; laboratory 7; vocabulary: logit",
    rests_on=(FUNCTION,),
)

SOFTMAX_TWICE = Mistake(
    "softmax-twice",
    "probabilities are given to a cross-entropy that takes logits, so that softmax is applied twice",
    "the loss of a sure and right model stays above zero, and gradients are weak; training runs and stalls",
)
CLIPPED_PROBABILITY = Mistake(
    "clipped-probability",
    "the logarithm is taken of a probability that was clipped at a ten-millionth",
    "no loss exceeds 16.1, and the tokens that are predicted worst have no gradient",
)
NO_MAXIMUM = Mistake(
    "loss-without-maximum",
    "exponentials are taken without the largest logit subtracted",
    "logits above 88 give an infinite loss or NaN in float32",
)
NORMALISER_IN_STORAGE = Mistake(
    "normaliser-in-storage",
    "the logarithm of the sum is rounded to the 16 bits of the logits before the target's logit is subtracted",
    "losses come in steps of an eighth; those of sure tokens are zero or an eighth",
    seen=("google-deepmind/optax#1020 (2024)", "a small public project (2026)"),
    bugs=("B183", "B182"),
    unseen=dict.fromkeys(("float64", "float32"), "the logits are stored in the format of the arithmetic"),
)
CROSS_ENTROPY = Clause(
    proposition=LOSS,
    number="I.4.1",
    slug="cross-entropy",
    statement="Cross-entropy from logits is the negative log-probability of the target: at least zero, log V at equal "
    "logits, unchanged when a constant is added to all logits, and finite for logits of ten thousand.",
    formula=r"L(z,y) = \log\sum_j e^{z_j} - z_y,\qquad L(z+c,y) = L(z,y)",
    kind=Kind.BOUND,
    level=OP_AND_TRAIN,
    proven=True,
    mistakes=(SOFTMAX_TWICE, CLIPPED_PROBABILITY, NO_MAXIMUM, NORMALISER_IN_STORAGE),
)

IGNORED_IN_THE_DENOMINATOR = Mistake(
    "ignored-in-the-denominator",
    "the sum over the counted targets is divided by the number of all targets",
    "the loss and the step shrink with the share of padding",
)
IGNORED_IN_THE_SUM = Mistake(
    "ignored-in-the-sum",
    "ignored targets are left out of the denominator and scored in the sum",
    "the model learns to predict padding",
)
MEAN_OF_ROW_MEANS = Mistake(
    "mean-of-row-means",
    "each row is averaged over its own counted targets, and the means over the rows",
    "a token of a short row weighs more than one of a long row",
    seen=("OpenNMT/OpenNMT-py#526 (2018)",),
    bugs=("B174",),
    needs=("cross_entropy.ignore_index",),
)
NOTHING_OVER_NOTHING = Mistake(
    "nothing-over-nothing",
    "the sum is divided by the number of counted targets where that is zero, and another result is declared",
    "one batch without a target makes every parameter NaN",
    seen=("pytorch/pytorch#70348 (2021)",),
    bugs=("B178",),
    needs=("cross_entropy.ignore_index",),
)
REDUCTION = Clause(
    proposition=LOSS,
    number="I.4.2",
    slug="reduction",
    statement="The reduction is what it says: the mean is over the targets that count, an ignored target is in neither "
    "sum nor denominator, and where all are ignored the result is the declared one.",
    formula=r"\bar L = \frac{\sum_i c_i L_i}{\sum_i c_i},\qquad c_i = [y_i \ne \mathrm{ignored}]",
    kind=Kind.BOUND,
    level=OP_AND_TRAIN,
    rests_on=(CROSS_ENTROPY,),
    conventions=("all_ignored",),
    mistakes=(IGNORED_IN_THE_DENOMINATOR, IGNORED_IN_THE_SUM, MEAN_OF_ROW_MEANS, NOTHING_OVER_NOTHING),
)

SHIFT_OF_ZERO = Mistake(
    "shift-of-zero",
    "position t is scored against token t, which it has been given",
    "the loss falls to zero at once, and the model copies its input",
    seen=("huggingface/transformers#27517 (2023)",),
    bugs=("B187",),
)
SHIFT_OF_TWO = Mistake(
    "shift-of-two",
    "labels that are shifted already are shifted once more, so that position t is scored against token t+2",
    "training works, and generated text leaves out every other word",
    seen=("huggingface/transformers#37830 (2025)", "a small public project (2024)"),
    bugs=("B186", "B188"),
)
SHIFT_OVER_ROWS = Mistake(
    "shift-over-rows",
    "rows are laid end to end before the shift, so that the last position is scored against the next row's first token",
    "one target in every row is of another text",
)
NEXT_TOKEN = Clause(
    proposition=LOSS,
    number="I.4.3",
    slug="next-token",
    statement="Next-token training scores position t against token t+1 and nothing later: no other token enters its "
    "term, and the logits of the last position enter nothing.",
    formula=r"L = \frac1n\sum_{t<T} -\log p_t(x_{t+1}),\qquad "
    r"\frac{\partial L_t}{\partial x_s}=0\ (s\ne t+1),\quad \frac{\partial L}{\partial z_T}=0",
    kind=Kind.EXACT,
    level=(Level.TRAIN,),
    rests_on=(REDUCTION,),
    mistakes=(SHIFT_OF_ZERO, SHIFT_OF_TWO, SHIFT_OVER_ROWS),
)

INVERSE_TEMPERATURE = Mistake(
    "inverse-temperature",
    "logits are multiplied by the temperature",
    "a temperature that should sharpen flattens; the ranking looks right",
)
TEMPERATURE_AFTER_SOFTMAX = Mistake(
    "temperature-after-softmax",
    "probabilities are divided by the temperature, and normalised again",
    "the temperature does nothing at all",
)
TEMPERATURE = Clause(
    proposition=LOSS,
    number="I.4.4",
    slug="temperature",
    statement="Logits have no scale: a positive temperature keeps their ranking and changes the loss, so that neither "
    "accuracy nor loss determines the other.",
    formula=r"z_i > z_j \Rightarrow p_i(T) > p_j(T),\qquad p(T) = \mathrm{softmax}(z/T)",
    kind=Kind.BOUND,
    rests_on=(CROSS_ENTROPY,),
    proven=True,
    mistakes=(INVERSE_TEMPERATURE, TEMPERATURE_AFTER_SOFTMAX),
)

HIDDEN_OMISSION = Mistake(
    "hidden-omission",
    "a term of the objective that the loss does not see passes unlisted",
    "the list that failures come from has a gap where the next one comes from",
)
OMISSION_BY_LIKENESS = Mistake(
    "omission-by-likeness",
    "a term counts as told if its name is part of another's",
    "“answer” passes for being listed because “right answer” is",
)
REASON_MISSING = Mistake(
    "reason-missing",
    "an omission is taken without a reason",
    "the list is filled in to get past the check",
)
WORKSHEET = Clause(
    proposition=LOSS,
    number="I.4.5",
    slug="worksheet",
    statement="A record of an objective and a loss names every term of the objective that the loss does not see, each "
    "with a reason; one that hides an omission is refused.",
    formula=r"O \subseteq L \cup \{\text{omitted}\}",
    kind=Kind.TOOL,
    level=(Level.DATA,),
    mistakes=(HIDDEN_OMISSION, OMISSION_BY_LIKENESS, REASON_MISSING),
)
