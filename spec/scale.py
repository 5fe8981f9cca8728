"""V.2: the divisor √dₖ keeps the softmax out of saturation."""

from gnomon.spec.attention import ATTENTION, EQUATION
from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.constants import Constant, inverse_root, rational
from gnomon.spec.gradient import GRADIENT
from gnomon.spec.trained import UNTRAINED


def declared_scale(convention: str, head_width: int) -> Constant:
    """The factor on the scores that a convention names."""
    if convention == "1/sqrt(head_width)":
        return inverse_root(head_width)
    return rational(1, head_width if convention == "1/head_width" else 1)


SCALE = Proposition(
    number="V.2",
    slug="scale",
    statement="The divisor √dₖ keeps the softmax out of saturation.",
    formula=r"\mathrm{Var}(q\cdot k) = d_k,\qquad \mathrm{Var}(q\cdot k/\sqrt{d_k}) = 1",
    source="Foundations, gathered: equation 5, fifth usual mistake, laboratory 2; Vaswani et al. 2017, section 3.2.1",
    rests_on=(ATTENTION, GRADIENT),
    said="The √dₖ is a cosmetic normalisation.",
    so="Without it the logits grow with head width, the softmax saturates and the gradient to queries and keys "
    "vanishes; the model still trains, worse and silently.",
)

NO_SCALE = Mistake(
    "no-scale",
    "the scores are not divided at all",
    "attention saturates as heads widen; training goes on, worse",
)
SCALE_BY_WIDTH = Mistake(
    "scale-by-width",
    "the scores are divided by dₖ instead of its root",
    "attention is nearly uniform in wide heads",
)
SCALE_TWICE = Mistake(
    "scale-twice",
    "the query is scaled and the kernel scales again",
    "the same function as 1/dₖ, from two correct halves",
)
SCALE_INVERTED = Mistake(
    "scale-inverted",
    "the reciprocal root is stored and then divided by",
    "scores grow by √dₖ instead of shrinking",
    seen=("a small public project (2021)",),
    bugs=("B016",),
)
MODEL_WIDTH_SCALE = Mistake(
    "model-width-scale",
    "the root of the model width is used for that of the head",
    "right with one head; flatter attention with every head more",
    seen=("lucidrains/vit-pytorch#65 (2021)",),
    bugs=("B013",),
)
MEASURED_SCALE = Clause(
    proposition=SCALE,
    number="V.2.1",
    slug="measured-scale",
    statement="The scale, measured from outside as the log-ratio of two weights, is one over the root of the head "
    "width, unless another is declared.",
    formula=r"\ln(p_{i1}/p_{i0}) = \alpha\,(q_i\cdot k_1 - q_i\cdot k_0),\qquad \alpha = 1/\sqrt{d_k}",
    kind=Kind.BOUND,
    level=(Level.OP, Level.MODEL),
    conventions=("scale",),
    mistakes=(NO_SCALE, SCALE_BY_WIDTH, SCALE_TWICE, SCALE_INVERTED, MODEL_WIDTH_SCALE),
)

CONSTANT_SCALE = Mistake(
    "constant-scale",
    "one constant, right for a width of 64, is used for every width",
    "the variance of the logits follows the width again",
)
UNIT_VARIANCE = Clause(
    proposition=SCALE,
    number="V.2.2",
    slug="unit-variance",
    statement="For independent entries of mean 0 and variance 1 the raw logit has variance dₖ and the scaled one "
    "has 1, at every head width.",
    formula=r"\mathrm{Var}\Big(\sum_{c=1}^{d_k} q_c k_c\Big) = d_k",
    kind=Kind.STAT,
    proven=True,
    rests_on=(MEASURED_SCALE,),
    conventions=("scale",),
    mistakes=(CONSTANT_SCALE,),
)

SCALE_REMOVED = Mistake(
    "scale-removed",
    "the divisor has been taken out",
    "the entropy of the weights is that of the unscaled scores",
)
ENTROPY = Clause(
    proposition=SCALE,
    number="V.2.3",
    slug="entropy",
    statement="Sample by sample, the entropy of the weights with the divisor is never smaller than without it, and "
    "is larger by what the definition says.",
    formula=r"\frac{dH}{d\beta} = -\beta\,\mathrm{Var}_p(s) \le 0",
    kind=Kind.BOUND,
    proven=True,
    rests_on=(EQUATION,),
    conventions=("scale",),
    mistakes=(SCALE_REMOVED,),
)

SHARPENED = Mistake(
    "sharpened",
    "the scores are multiplied by two before the softmax",
    "in saturation a change of the keys moves the weights twice as far as the Jacobian allows",
)
SATURATION = Clause(
    proposition=SCALE,
    number="V.2.4",
    slug="saturation",
    statement="In saturation the weights stop answering to queries and keys: a change of the logits by at most ε moves "
    "them by at most 2(e^{2ε}−1)(1−max p) in sum, sample by sample. On average over random entries the "
    "Jacobian vanishes with the width only from about 16 on.",
    formula=r"\|\mathrm{diag}(p)-pp^\top\|_F \le 1-\sum_j p_j^2 \le 2(1-\max_j p_j),\quad "
    r"\|\delta s\|_\infty\le\varepsilon \Rightarrow \|\delta p\|_1 \le 2(e^{2\varepsilon}-1)(1-\max_j p_j)",
    kind=Kind.BOUND,
    proven=True,
    rests_on=(EQUATION,),
    conventions=("scale",),
    mistakes=(SHARPENED,),
    control="an unsaturated row, where the same change moves the weights by more than a saturated one allows",
)

SCALE_KEYWORD_IGNORED = Mistake(
    "scale-keyword-ignored",
    "a scale can be asked for, and the usual one is taken whatever is asked",
    "a model that was trained with another scale runs and answers slightly wrong; two scales compared are one",
    unseen=UNTRAINED,
    needs=("scale",),
)
STILL_TRAINS = Clause(
    proposition=SCALE,
    number="V.2.5",
    slug="still-trains",
    statement="Without the divisor it still trains, badly and silently: where a head of width 256 learns to recall by "
    "content, the loss falls with the divisor and without it, and ends higher without it.",
    formula=r"L_{\beta=1}(T) < L_{\beta=1}(0),\qquad L_{\beta=1}(T) > L_{\beta=1/\sqrt{d_k}}(T)",
    kind=Kind.TRAINED,
    level=(Level.TRAIN,),
    rests_on=(SATURATION,),
    conventions=("scale",),
    mistakes=(SCALE_KEYWORD_IGNORED,),
)
