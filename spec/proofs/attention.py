"""Proofs for V.1: the average, its symmetries, and what its weights do not show."""

import numpy as np
from sympy import Function, Integer, Max, Rational, exp, log

from gnomon.spec.attention import HULL, SHIFT, SYMMETRY, TILING, WEAK_EVIDENCE, attention, softmax
from gnomon.spec.proofs import Equation, Scope, proves
from gnomon.spec.proofs.algebra import (
    AnySize,
    Expr,
    Family,
    array,
    canonical_sums,
    cut,
    family,
    index,
    nonnegative,
    over_sums,
    permutations,
    real,
    reordered,
    size,
    zero,
)
from gnomon.spec.symbolic import Symbolic

E = AnySize()
beta = real("beta")
heads, queries, keys, width, value_width = size("heads queries keys width value_width")
Q, K = family("q", heads, queries, width), family("k", heads, keys, width)
V = family("v", heads, keys, value_width)
at = index("h i c")


ONE_QUERY = Family((1, 1, 1), lambda *_: Integer(1))  # of width 1, so that the scores are the keys themselves
ONE = np.ones((1, 1, 1), int)  # the same, written out
logarithm = np.frompyfunc(log, 1, 1)


@proves(
    HULL,
    Scope.GENERAL,
    argument="Writing each value as a + g with g at least 0, the output is a plus an average of the g, a sum of "
    "products of nonnegative numbers; so it is at least a, and likewise at most a for a − g. With g = 0 it is a.",
)
def between(attention: Equation = attention) -> bool:
    """The output lies on that side of a on which every value lies."""
    a, g = family("a", 1, value_width), family("g", heads, keys, value_width, nonnegative=True)
    gap = attention(E, Q, K, g, scale=beta)[at]
    above = attention(E, Q, K, g + a, scale=beta)[at] - a[at] - gap
    below = attention(E, Q, K, a - g, scale=beta)[at] - a[at] + gap
    constant = attention(E, Q, K, g * 0 + a, scale=beta)[at] - a[at]
    return zero(above, below, constant) and nonnegative(gap)


@proves(
    SYMMETRY,
    Scope.GENERAL,
    argument="Numerator and denominator are sums over the keys that meet their index only through the permutation "
    "of keys and values, and a finite sum does not depend on the order of its terms.",
)
def keys_and_values(attention: Equation = attention) -> bool:
    """Keys and values permuted together give the same output."""
    pi = Function("pi", integer=True)
    K2, V2 = (Family(a.shape, lambda h, j, c, a=a: a[h, pi(j), c]) for a in (K, V))
    permuted = attention(E, Q, K2, V2, scale=beta)[at]
    return zero(reordered(permuted, pi, keys) - attention(E, Q, K, V, scale=beta)[at])


@proves(
    SYMMETRY,
    Scope.GENERAL,
    argument="A row of the output reads its own query alone, so row i of the permuted queries is row π(i).",
)
def queries_alone(attention: Equation = attention) -> bool:
    """Permuted queries give the output permuted alike."""
    pi, (h, i, c) = Function("pi", integer=True), at
    permuted = Family(Q.shape, lambda h, i, c: Q[h, pi(i), c])
    outputs = attention(E, permuted, K, V, scale=beta)[h, i, c], attention(E, Q, K, V, scale=beta)[h, pi(i), c]
    return zero(outputs[0] - outputs[1])


@proves(
    SYMMETRY,
    Scope.SIZES,
    sizes="3 queries, 3 keys, 2 features",
    argument="Both permutations that generate all others are carried out on arrays of distinct symbols.",
)
def both_written_out(attention: Equation = attention) -> bool:
    """An exchange and a turn of keys with values, and of queries, do what they should."""
    S, (q, k, v) = Symbolic(), (array(name, 1, 3, 2) for name in "qkv")
    plain = attention(S, q, k, v)
    return all(
        zero(attention(S, q, k[:, p], v[:, p]) - plain, attention(S, q[:, p], k, v) - plain[:, p])
        for p in permutations(3)
    )


@proves(
    SHIFT,
    Scope.GENERAL,
    argument="The vector adds q·c to every score of a row; the factor e^{βq·c} leaves the sums above and below the "
    "line and cancels.",
)
def one_vector_for_all_keys(attention: Equation = attention) -> bool:
    """The output for keys k + c is the output for keys k."""
    c = family("c", 1, width)
    return zero(attention(E, Q, K + c, V, scale=beta)[at] - attention(E, Q, K, V, scale=beta)[at])


@proves(
    SHIFT,
    Scope.GENERAL,
    argument="A number taken from every logit of a row leaves as a common factor; this is why the row's maximum "
    "may be subtracted, after which no exponential exceeds 1.",
)
def any_number_from_a_row(softmax: Equation = softmax) -> bool:
    """The softmax of x − m is the softmax of x, for every m."""
    x, m = family("x", queries, keys), family("m", queries, 1)
    return zero(softmax(E, x - m)[at[1:]] - softmax(E, x)[at[1:]])


@proves(
    WEAK_EVIDENCE,
    Scope.GENERAL,
    argument="The weights p and p + εn, given through keys that are their logarithms, meet the values in the sums "
    "of p, pv, n and nv; the last two are 0 by assumption. Any ε that leaves the weights positive will do.",
)
def along_the_null_space(attention: Equation = attention) -> bool:
    """Weights moved along a direction that the values do not see give the same output."""
    (p, n), v = (family(name, 1, keys, 1) for name in "pn"), family("v", 1, keys, value_width)
    moved = attention(E, ONE_QUERY, (p + n * real("epsilon")).map(log), v)[at]

    def vanish(summand: Expr, j: Expr, *_: Expr) -> Expr | None:
        unseen = n[0, j, 0], n[0, j, 0] * v[0, j, at[2]]
        return Integer(0) if summand in unseen else None

    return zero(over_sums(canonical_sums(moved), vanish) - attention(E, ONE_QUERY, p.map(log), v)[at])


@proves(
    WEAK_EVIDENCE,
    Scope.SIZES,
    sizes="3 keys, 1 feature",
    argument="With two keys more than features such a direction always exists: (v₂−v₃, v₃−v₁, v₁−v₂) sums to 0 "
    "and is orthogonal to the values.",
)
def a_direction_always_exists(attention: Equation = attention) -> bool:
    """Whatever the three values are, other weights give the same average."""
    v, p = array("v", 3), array("p", 3, positive=True)
    n = np.roll(v, -1) - np.roll(v, -2)
    keys = (logarithm(w).reshape(1, 3, 1) for w in (p, p + real("epsilon") * n))
    plain, moved = (attention(Symbolic(), ONE, k, v.reshape(1, 3, 1)) for k in keys)
    return zero(plain - moved)


@proves(
    WEAK_EVIDENCE,
    Scope.WITNESS,
    argument="Over the values 0, 1, 2 the weights 8/16, 4/16, 4/16 and 9/16, 2/16, 5/16 both average to 3/4.",
)
def two_sets_of_weights(attention: Equation = attention) -> bool:
    """Two different sets of weights, each read off through identity values, have one output."""
    values, identity = np.array([[0], [1], [2]]), np.eye(3, dtype=int)
    sets = [np.array([Rational(n, 16) for n in ns]) for ns in ((8, 4, 4), (9, 2, 5))]
    keys = [logarithm(weights).reshape(1, 3, 1) for weights in sets]
    read = [attention(Symbolic(), ONE, k, identity[None]) - w for k, w in zip(keys, sets, strict=True)]
    outputs = [attention(Symbolic(), ONE, k, values[None]) - Rational(3, 4) for k in keys]
    return zero(*read, *outputs) and not zero(sets[0] - sets[1])


@proves(
    WEAK_EVIDENCE,
    Scope.GENERAL,
    argument="The value that all keys share leaves the sum, and what is left is the sum of the weights, with the "
    "first key or without it.",
)
def removed_without_effect(attention: Equation = attention) -> bool:
    """A key, the most attended included, can go where the others hold its value."""
    shared = Family((heads, keys + 1, value_width), lambda h, _, c: family("v", heads, value_width)[h, c])
    all_keys = family("k", heads, keys + 1, width)
    rest = (Family((heads, keys, a.shape[-1]), lambda h, j, c, a=a: a[h, j + 1, c]) for a in (all_keys, shared))
    return zero(attention(E, Q, all_keys, shared, scale=beta)[at] - attention(E, Q, *rest, scale=beta)[at])


Tile = tuple[Expr, Expr, Expr]


def merge(one: Tile, other: Tile) -> Tile:
    """The online rule: maximum, mass relative to it and output of two tiles together."""
    (m1, l1, o1), (m2, l2, o2) = one, other
    m = Max(m1, m2)
    mass1, mass2 = l1 * exp(m1 - m), l2 * exp(m2 - m)
    return m, mass1 + mass2, (mass1 * o1 + mass2 * o2) / (mass1 + mass2)


@proves(
    TILING,
    Scope.GENERAL,
    argument="The tile of all keys is the merge of two at any cut, once its sums are cut there. Both tiles are "
    "attention over their own keys, with masses relative to any number.",
)
def merged_at_any_cut(attention: Equation = attention, merge: Equation = merge) -> bool:
    """Attention over m + n keys is the merge of attention over the first m and over the last n."""
    m, n = size("m n")
    k, v = family("k", heads, m + n, width), family("v", heads, m + n, value_width)

    def tile(first: Expr, count: Expr, top: Expr) -> Tile:
        own, values = (Family((heads, count, a.shape[-1]), lambda h, j, c, a=a: a[h, first + j, c]) for a in (k, v))
        mass = E.total(E.exp(E.scores(Q, own, beta) - top))
        return top, mass[at], attention(E, Q, own, values, scale=beta)[at]

    merged = merge(tile(Integer(0), m, real("m_1")), tile(m, n, real("m_2")))
    return zero(merged[2] - cut(attention(E, Q, k, v, scale=beta)[at], m, n))


@proves(
    TILING,
    Scope.GENERAL,
    argument="Maximum, mass and output of three tiles come out alike whichever two are merged first, and of two in "
    "either order; by induction so do those of any number of tiles.",
)
def associative_and_commutative(merge: Equation = merge) -> bool:
    """The merge of tiles neither depends on their grouping nor on their order."""
    a, b, c = (real(f"m_{t} l_{t} o_{t}") for t in "abc")
    grouped = zip(merge(merge(a, b), c), merge(a, merge(b, c)), strict=True)
    exchanged = zip(merge(a, b), merge(b, a), strict=True)
    return zero(*(x - y for x, y in (*grouped, *exchanged)))
