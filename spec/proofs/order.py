"""Proofs for VI.1: what has no order keeps none, and a shift of sinusoids is a rotation."""

from sympy import Function

from gnomon.spec.heads import multi_head_attention
from gnomon.spec.order import EQUIVARIANT, SINUSOIDS, waves
from gnomon.spec.proofs import Equation, Scope, proves
from gnomon.spec.proofs.algebra import (
    AnySize,
    Family,
    array,
    by_exponentials,
    family,
    index,
    real,
    reordered,
    size,
    zero,
)
from gnomon.spec.rotary import pairs, turned_pairs
from gnomon.spec.symbolic import Symbolic

E, S = AnySize(), Symbolic()
batch, time, width, heads, head_width = size("batch time width heads head_width")
X = family("x", batch, time, width)
WEIGHTS = {f"{name}_weight": family(f"w_{name}", heads * head_width, width) for name in ("query", "key", "value")}
WEIGHTS["output_weight"] = family("w_output", width, heads * head_width)


@proves(
    EQUIVARIANT,
    Scope.GENERAL,
    argument="A position's output reads its own query and sums over all keys; with permuted tokens that sum meets its "
    "index only through the permutation. Everything else in a block is done to each position alone.",
)
def any_order_of_tokens(multi_head_attention: Equation = multi_head_attention) -> bool:
    """Row t of the output for permuted tokens is row π(t) of the output."""
    pi, (b, t, c), beta = Function("pi", integer=True), index("b t c"), real("beta")
    moved = Family(X.shape, lambda b, t, c: X[b, pi(t), c])
    before, after = (multi_head_attention(E, x, WEIGHTS, heads=heads, scale=beta) for x in (moved, X))
    return zero(reordered(before[b, t, c], pi, time) - after[b, pi(t), c])


@proves(
    SINUSOIDS,
    Scope.SIZES,
    sizes="width 2 to 8 in both arrangements",
    argument="For symbols in place of the position, the shift and all frequencies, each pair of sine and cosine at "
    "p + k is the pair at p turned by −kω, a matrix without p.",
)
def a_shift_is_a_rotation(waves: Equation = waves) -> bool:
    """The code of p + k is one linear map, which depends on k alone, of the code of p."""
    p, k = real("p k")
    for size_ in (2, 4, 6, 8):
        rates = array("omega", size_ // 2)
        for arrangement, layout in (("interleaved", "interleaved"), ("concatenated", "half")):
            here, there = (pairs(waves(S, position * rates, arrangement), layout) for position in (p, p + k))
            turned = turned_pairs(S, *here, S.cos(-k * rates), S.sin(-k * rates))
            differences = (by_exponentials(d) for a, b in zip(there, turned, strict=True) for d in (a - b))
            if not zero(*differences):
                return False
    return True
