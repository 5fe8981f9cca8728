"""Proofs for VI.2: pairs that turn, and what is left of their positions in a product."""

from typing import Any

import numpy as np
import sympy

from gnomon.spec.proofs import Equation, Scope, proves
from gnomon.spec.proofs.algebra import AnySize, Expr, Family, array, by_exponentials, family, real, size, zero
from gnomon.spec.rotary import LAYOUTS, RELATIVE, ROTATIONS, pairs, turn, turned_pairs
from gnomon.spec.symbolic import Symbolic

E, S = AnySize(), Symbolic()
count = size("count")
m, n, s = real("m n s")
THETA = family("theta", 1, count)  # one row of pairs, of any number and at any frequencies
QUERY, KEY = ((family(f"{name}1", 1, count), family(f"{name}2", 1, count)) for name in "qk")
WIDTHS = (2, 4, 6)

Pair = tuple[Family, Family]


def at(turned_pairs: Equation, position: Expr, members: Pair) -> Pair:
    """The pairs turned to a position."""
    angle = THETA * position
    first, second = turned_pairs(E, *members, E.cos(angle), E.sin(angle))
    return first, second


def product(one: Pair, other: Pair) -> Expr:
    """The inner product over all pairs."""
    sums = (E.matmul(a, b.swapaxes(-1, -2))[0, 0] for a, b in zip(one, other, strict=True))
    return sympy.Add(*sums)


def vanish(*differences: Expr) -> bool:
    """Whether all are zero once sines and cosines are exponentials."""
    return zero(*map(by_exponentials, differences))


@proves(
    RELATIVE,
    Scope.GENERAL,
    argument="Both sides are sums over any number of pairs. With sines and cosines as exponentials, positions occur "
    "in every term only as e^(±iθ(n−m)), and the terms are equal one by one.",
)
def distance_alone(turned_pairs: Equation = turned_pairs) -> bool:
    """⟨R(m)q, R(n)k⟩ = ⟨q, R(n−m)k⟩, so a shift of both positions changes nothing."""
    score = product(at(turned_pairs, m, QUERY), at(turned_pairs, n, KEY))
    shifted = product(at(turned_pairs, m + s, QUERY), at(turned_pairs, n + s, KEY))
    return vanish(score - product(QUERY, at(turned_pairs, n - m, KEY)), score - shifted)


def whole(turn: Equation, x: Any, position: Expr, layout: str) -> Any:
    """A head of symbols turned to a position, its pairs at frequencies of their own."""
    angle = position * array("theta", x.shape[-1] // 2)
    return turn(S, x, S.cos(angle), S.sin(angle), layout)


@proves(
    RELATIVE,
    Scope.SIZES,
    sizes="heads of width 2 to 6 in both layouts",
    argument="The features are paired as the layout says and put back, and the products of whole heads are compared.",
)
def whole_heads(turn: Equation = turn) -> bool:
    """The same for heads as they are laid out."""
    for width in WIDTHS:
        q, k = array("q", width), array("k", width)
        for layout in ("half", "interleaved"):
            here = whole(turn, q, m, layout) @ whole(turn, k, n, layout)
            if not vanish(here - whole(turn, q, m + s, layout) @ whole(turn, k, n + s, layout)):
                return False
    return True


@proves(
    ROTATIONS,
    Scope.GENERAL,
    argument="For any number of pairs: squares of sine and cosine sum to one, the angle 0 gives 1 and 0, and the "
    "product of the matrices of two angles is the matrix of their sum.",
)
def a_group(turned_pairs: Equation = turned_pairs) -> bool:
    """R(m) keeps the norm, R(0) is the identity, and R(m)R(n) = R(m+n)."""
    i = sympy.Symbol("i", integer=True, nonnegative=True)
    turned = at(turned_pairs, m, QUERY)
    twice, once = at(turned_pairs, n, turned), at(turned_pairs, m + n, QUERY)
    same = (
        a[0, i] - b[0, i]
        for a, b in zip((*twice, *at(turned_pairs, sympy.S.Zero, QUERY)), (*once, *QUERY), strict=True)
    )
    return vanish(product(turned, turned) - product(QUERY, QUERY), *same)


@proves(
    LAYOUTS,
    Scope.SIZES,
    sizes="heads of width 2 to 6",
    argument="The features of pairs of neighbours are moved to where pairs lie half a head apart, turned there and "
    "moved back; each entry is the same expression.",
)
def one_permutation_apart(turn: Equation = turn) -> bool:
    """Turned interleaved is permuted, turned in halves, and permuted back."""
    for width in WIDTHS:
        x, order = array("x", width), np.concatenate(pairs(np.arange(width), "interleaved"))
        back = whole(turn, x[order], m, "half")
        if not zero(whole(turn, x, m, "interleaved")[order] - back):
            return False
    return True
