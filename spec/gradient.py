"""II.2: a gradient is a product of local derivatives along the path, summed over paths."""

from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.descent import DESCENT
from gnomon.spec.families import TIED_LOGITS
from gnomon.spec.linear import LINEAR

OP_AND_MODEL = (Level.OP, Level.MODEL)
STORED_NARROW = "the arguments are stored in no more bits than that"

GRADIENT = Proposition(
    number="II.2",
    slug="gradient",
    statement="A gradient is a product of local derivatives along a path, summed over all paths.",
    formula=r"\frac{\partial \ell}{\partial x} = \sum_{\text{paths}} \prod_{\text{steps}} J_k^{\top}\, "
    r"\frac{\partial \ell}{\partial y}",
    source="Foundations, gathered: equation 4; Griewank and Walther 2008, chapter 3; Pascanu et al. 2013",
    rests_on=(DESCENT, LINEAR),
    said="The framework computes the gradients, so they are right.",
    so="A backward pass is code of its own, and a wrong one still trains, only worse.",
)

MISSING_FACTOR = Mistake(
    "missing-factor",
    "the backward pass leaves out the scale of the scores",
    "gradients of queries and keys are √(head width) times too large; the forward pass is right",
    needs=("attention.key",),
)
NO_RANK_ONE_TERM = Mistake(
    "no-rank-one-term",
    "the gradient of a softmax is taken to be p times the gradient above, without − p·Σ p·g",
    "a shift of all logits, which changes nothing, is given a gradient",
    needs=("softmax.logits",),
)
ROTATION_NOT_REVERSED = Mistake(
    "rotation-not-reversed",
    "the gradient of a rotation is turned forwards, as the features were, not back",
    "queries and keys learn for twice the distance",
    needs=("rope.positions",),
)
DETACHED_BRANCH = Mistake(
    "detached-branch",
    "the gate of a gated network is cut off from the gradient",
    "the gate keeps its initial weights; the loss still falls",
    needs=("feed_forward.activation",),
)
PAIRING = Clause(
    proposition=GRADIENT,
    number="II.2.1",
    slug="pairing",
    statement="Forward and reverse agree: what a small change of an argument does to the output along u is what the "
    "gradient pulled back from u says of the change.",
    formula=r"\langle u, Jv\rangle = \langle J^{\top}u, v\rangle",
    kind=Kind.BOUND,
    level=OP_AND_MODEL,
    proven=True,
    mistakes=(MISSING_FACTOR, NO_RANK_ONE_TERM, ROTATION_NOT_REVERSED, DETACHED_BRANCH),
)

REPLAYED_NARROW = Mistake(
    "replayed-narrow",
    "the forward pass that the gradient needs is replayed with arguments rounded to float16",
    "memory is saved, and gradients belong to other numbers than the output does",
    unseen={"float16": STORED_NARROW, "bfloat16": "float16 has all of its digits"},
)
VALUE_ROWS_BY_KEY_WIDTH = Mistake(
    "value-rows-by-key-width",
    "the rows of the values' gradient are written one head width apart, whatever the width of the values is",
    "right where keys and values are equally wide",
    seen=("Dao-AILab/flash-attention#2552 (2026)",),
    bugs=("B156",),
    needs=("attention.value",),
)
REPLAYED_ANEW = Mistake(
    "replayed-anew",
    "the forward pass that the gradient needs is run again with another draw of the dropout",
    "gradients are of units that the output did not have: the loss falls slowly, then diverges",
    seen=(
        "openai/guided-diffusion#167 (2025)",
        "allenai/OLMo-core#828 (2026)",
        "pytorch/pytorch#190717 (2026)",
    ),
    bugs=("B159", "B160", "B161"),
)
DROPOUT_PULLED_BY_SHARE = Mistake(
    "dropout-pulled-by-share",
    "the backward pass multiplies what dropout kept by the share dropped, not by one over the share kept",
    "gradients below every dropout are ten times too small",
    seen=("NVIDIA/apex#816 (2020)",),
    bugs=("B165",),
)
DERIVATIVE = Clause(
    proposition=GRADIENT,
    number="II.2.2",
    slug="derivative",
    statement="Every entry of a gradient is the derivative of the equation, whether intermediates were kept for it or "
    "are computed again.",
    formula=r"g_i = \frac{\partial}{\partial x_i} \langle u, f(x)\rangle",
    kind=Kind.BOUND,
    level=(Level.OP, Level.MODEL, Level.TRAIN),
    rests_on=(PAIRING,),
    proven=True,
    mistakes=(REPLAYED_NARROW, VALUE_ROWS_BY_KEY_WIDTH, REPLAYED_ANEW, DROPOUT_PULLED_BY_SHARE),
)

LEAK_THROUGH_MASK = Mistake(
    "leak-through-mask",
    "the backward pass recomputes the weights with a penalty of 5 where the forward pass had minus infinity",
    "keys that nobody saw are trained a little at every step",
    needs=("attention.mask",),
)
STRAIGHT_THROUGH = Mistake(
    "straight-through",
    "the gradient passes a rectifier as if that were the identity",
    "dead units are trained, and the gradient is of another function",
    needs=("relu.x",),
)
ZERO_FACTOR = Clause(
    proposition=GRADIENT,
    number="II.2.3",
    slug="zero-factor",
    statement="A zero anywhere in the product is an exact zero at its end: below a dead unit, behind a mask, and "
    "wherever the gradient above is zero.",
    formula=r"J_k = 0 \Rightarrow \prod_k J_k^{\top}u = 0",
    kind=Kind.EXACT,
    level=OP_AND_MODEL,
    rests_on=(PAIRING,),
    mistakes=(LEAK_THROUGH_MASK, STRAIGHT_THROUGH),
)

LAST_HEAD_ALONE = Mistake(
    "last-head-alone",
    "a key head that several query heads read is given the gradient of the last of them",
    "shared heads learn from one reader",
    seen=("marin-community/levanter#449 (2024)",),
    bugs=("B154",),
    needs=("attention.key",),
)
TIED_OVERWRITTEN = Mistake(
    "tied-overwritten",
    "of a table that is tied, the gradient of the look-up is overwritten by that of the unembedding",
    "input vectors learn as output vectors only",
    seen=("NVIDIA/TransformerEngine#3437 (2026)",),
    bugs=("B197",),
    unseen=dict.fromkeys(("bfloat16", "float16"), "a whole model's gradient has no trace to decide it in 16 bits"),
    families=TIED_LOGITS,
    whole=True,
)
SUM_OF_USES = Clause(
    proposition=GRADIENT,
    number="II.2.4",
    slug="sum-of-uses",
    statement="An array that is used twice gets the sum of what both uses give back: a tied table, shared key and "
    "value heads.",
    formula=r"\frac{\partial \ell}{\partial x} = \sum_{\text{uses } k} J_k^{\top}\, \frac{\partial \ell}{\partial y_k}",
    kind=Kind.BOUND,
    level=(Level.TRAIN,),
    rests_on=(PAIRING,),
    mistakes=(LAST_HEAD_ALONE, TIED_OVERWRITTEN),
)

GEOMETRIC = Clause(
    proposition=GRADIENT,
    number="II.2.5",
    slug="geometric",
    statement="Without additions around its layers the gradient decays or grows geometrically with depth: through "
    "linear layers of independent normal weights of variance σ²/n its squared norm is multiplied by σ²·χ²ₙ/n in each.",
    formula=r"\|W^{\top}g\|^2 \sim \sigma^2\,\tfrac{\chi^2_n}{n}\,\|g\|^2 \ \Rightarrow\ "
    r"\tfrac1L\log\tfrac{\|g_0\|}{\|g_L\|} \to \log\sigma",
    kind=Kind.STAT,
    level=(Level.MODEL,),
    rests_on=(PAIRING,),
    control="a stack of orthogonal layers keeps the norm of the gradient",
)

UPSTREAM_REUSED = Mistake(
    "upstream-reused",
    "the product with the gradient above is written into that gradient's own memory",
    "saves an array, and every other consumer of that gradient reads another",
)
LEAVES_ITS_INPUTS = Clause(
    proposition=GRADIENT,
    number="II.2.6",
    slug="leaves-its-inputs",
    statement="A backward pass changes neither what it was given nor the gradient above, which may lie in memory in "
    "any way.",
    formula=r"(x, u) \mapsto J^{\top}u \ \text{leaves}\ (x, u)",
    kind=Kind.EXACT,
    rests_on=(DERIVATIVE,),
    mistakes=(UPSTREAM_REUSED,),
)
