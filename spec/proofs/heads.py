"""Proofs for V.3: heads add up, have no order, and act through two products of weights."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sympy import Function, Matrix, MatrixSymbol, Mod, Sum, floor

from gnomon.spec.attention import attention
from gnomon.spec.constants import ONE
from gnomon.spec.heads import (
    CHANGE_OF_BASIS,
    HEAD_PERMUTATION,
    SUM_OVER_HEADS,
    multi_head_attention,
)
from gnomon.spec.linear import linear
from gnomon.spec.proofs import Equation, Scope, proves
from gnomon.spec.proofs.algebra import (
    AnySize,
    Expr,
    Family,
    Matrices,
    array,
    divided,
    family,
    index,
    no_matrix,
    permutations,
    real,
    reordered,
    size,
    zero,
)
from gnomon.spec.symbolic import Symbolic

Array = Any
E, S, M = AnySize(), Symbolic(), Matrices()
NAMES = ("query", "key", "value")
batch, time, width, heads, head_width = size("batch time width heads head_width")
at = index("b t c")
X = family("x", batch, time, width)
WEIGHTS = {name: family(f"w_{name}", heads * head_width, width) for name in NAMES}
BIASES = {name: family(f"b_{name}", heads * head_width) for name in NAMES}
OUTPUT = family("w_output", width, heads * head_width)
scaled: dict[str, Any] = {"heads": heads, "scale": real("beta")}


def parameters(move: Callable[[Expr], Expr]) -> dict[str, Family]:
    """The parameters whose row (the output's column) r holds what stood at move(r)."""
    rows = {f"{n}_weight": Family(w.shape, lambda r, c, w=w: w[move(r), c]) for n, w in WEIGHTS.items()}
    biases = {f"{n}_bias": Family(b.shape, lambda r, b=b: b[(move(r),)]) for n, b in BIASES.items()}
    columns = Family(OUTPUT.shape, lambda r, c: OUTPUT[r, move(c)])
    return {**rows, **biases, "output_weight": columns, "output_bias": family("b_output", width)}


PLAIN = parameters(lambda r: r)


@proves(
    SUM_OVER_HEADS,
    Scope.GENERAL,
    argument="The sum over the merged width becomes a double sum over heads and over features of one head, by "
    "division with remainder; for each head it is that head's attention through its own columns.",
)
def sum_over_heads(multi_head_attention: Equation = multi_head_attention) -> bool:
    """The output is the sum over heads i of linear(headᵢ, columns i·d … i·d+d−1), and the bias once."""
    i = index("i")

    def own(a: Family) -> Family:
        return Family((head_width, *a.shape[1:]), lambda r, *c: a[(i * head_width + r, *c)])

    q, k, v = (linear(E, X, own(WEIGHTS[name]), own(BIASES[name])) for name in NAMES)
    columns = Family((width, head_width), lambda c, r: OUTPUT[c, i * head_width + r])
    one = linear(E, attention(E, q, k, v, scale=scaled["scale"]), columns)
    parts = Sum(one[at], (i, 0, heads - 1)) + PLAIN["output_bias"][at]
    return zero(divided(multi_head_attention(E, X, PLAIN, **scaled)[at], heads, head_width) - parts)


def written_out(count: int, shared: int, own_width: int) -> tuple[Array, dict[str, Array]]:
    """An input of two positions and parameters for that many heads, every number a symbol."""
    rows = {"query": count * own_width, "key": shared * own_width, "value": shared * own_width}
    weights = {f"{name}_weight": array(f"w_{name}", n, 2) for name, n in rows.items()}
    return array("x", 1, 2, 2), {**weights, "output_weight": array("w_output", 2, count * own_width)}


@proves(
    SUM_OVER_HEADS,
    Scope.SIZES,
    sizes="2 positions, width 2, 2 query heads of width 1 on 1 key-value head",
    argument="Each head is computed from its own rows by the same function with one head, and the two are added.",
)
def shared_keys_written_out(multi_head_attention: Equation = multi_head_attention) -> bool:
    """The sum over heads also holds where query heads share keys and values."""
    x, p = written_out(2, 1, 1)
    both = multi_head_attention(S, x, p, heads=2, kv_heads=1)
    alone = [{**p, "query_weight": p["query_weight"][[i]], "output_weight": p["output_weight"][:, [i]]} for i in (0, 1)]
    return zero(both - sum(multi_head_attention(S, x, own, heads=1) for own in alone))


@proves(
    HEAD_PERMUTATION,
    Scope.GENERAL,
    argument="Row i·d + c of the query, key and value parameters and column i·d + c of the output weight hold "
    "those of head π(i). The output is then a sum over heads that meets its index only as π(i).",
)
def any_order_of_heads(multi_head_attention: Equation = multi_head_attention) -> bool:
    """Heads permuted in all four weights and in the biases give the same output."""
    pi = Function("pi", integer=True)
    moved = parameters(lambda r: pi(floor(r / head_width)) * head_width + Mod(r, head_width))
    plain, permuted = (divided(multi_head_attention(E, X, p, **scaled)[at], heads, head_width) for p in (PLAIN, moved))
    return zero(reordered(permuted, pi, heads) - plain)


@proves(
    HEAD_PERMUTATION,
    Scope.SIZES,
    sizes="2 positions, width 2, 3 heads of width 1",
    argument="Both permutations that generate all others are carried out on parameters of distinct symbols.",
)
def permuted_written_out(multi_head_attention: Equation = multi_head_attention) -> bool:
    """An exchange and a turn of three heads change nothing."""
    x, p = written_out(3, 3, 1)
    plain = multi_head_attention(S, x, p, heads=3)
    moved = [{name: w[:, o] if name == "output_weight" else w[o] for name, w in p.items()} for o in permutations(3)]
    return all(zero(multi_head_attention(S, x, other, heads=3) - plain) for other in moved)


@proves(
    CHANGE_OF_BASIS,
    Scope.GENERAL,
    argument="In the scores AᵀA⁻ᵀ, and from the values to the output B⁻¹B, stand side by side and cancel; biases "
    "are changed along with their weights.",
)
def cancels_in_the_products(linear: Equation = linear, scores: Equation = M.scores) -> bool:
    """Scores and outputs are those of the head before the change, for every invertible A and B."""
    X, P = MatrixSymbol("X", time, width), MatrixSymbol("P", time, time)
    A, B = (MatrixSymbol(name, head_width, head_width) for name in "AB")
    q, k, v = (MatrixSymbol(f"W_{n}", head_width, width) for n in NAMES)
    b, c, d = (MatrixSymbol(f"b_{n}", 1, head_width) for n in NAMES)
    out = MatrixSymbol("W_O", width, head_width)

    def head(q: Expr, b: Expr, k: Expr, c: Expr, v: Expr, d: Expr, out: Expr) -> tuple[Expr, Expr]:
        query, key = (M.number(linear(M, X, w, bias)) for w, bias in ((q, b), (k, c)))
        return scores(query, key, ONE).of, linear(M, P * linear(M, X, v, d), out)

    changed = head(A * q, b * A.T, A.inv().T * k, c * A.inv(), B * v, d * B.T, out * B.inv())
    return all(no_matrix(x - y) for x, y in zip(head(q, b, k, c, v, d, out), changed, strict=True))


@proves(
    CHANGE_OF_BASIS,
    Scope.SIZES,
    sizes="2 positions, width 2, 1 head of width 2",
    argument="A shear, a stretch and an exchange, of which every invertible matrix is a product, are put into the "
    "weights and the whole of attention is computed.",
)
def generators_written_out(multi_head_attention: Equation = multi_head_attention) -> bool:
    """The output of the layer does not see a change of basis of its queries with keys or values with output."""
    x, p = written_out(1, 1, 2)
    t = real("t", positive=True)
    plain = multi_head_attention(S, x, p, heads=1)
    for A in (Matrix([[1, t], [0, 1]]), Matrix([[t, 0], [0, 1]]), Matrix([[0, 1], [1, 0]])):
        a, inverse = np.array(A), np.array(A.inv())
        changed = {
            "query_weight": a @ p["query_weight"],
            "key_weight": inverse.T @ p["key_weight"],
            "value_weight": a @ p["value_weight"],
            "output_weight": p["output_weight"] @ inverse,
        }
        if not zero(multi_head_attention(S, x, changed, heads=1) - plain):
            return False
    return True


@proves(
    CHANGE_OF_BASIS,
    Scope.SIZES,
    sizes="heads of width 1 and 2 in a model one wider",
    argument="The inputs of one, which read the product off, give a matrix whose determinant is identically 0. In "
    "general a product through d numbers has rank at most d.",
)
def rank_at_most_head_width(linear: Equation = linear) -> bool:
    """Neither product of weights has a rank above the head's width."""
    for d in (1, 2):
        unit, (q, k) = np.eye(d + 1, dtype=int), (array(name, d, d + 1) for name in "qk")
        scores = S.scores(linear(S, unit, q), linear(S, unit, k), ONE)
        through = linear(S, linear(S, unit, q), k.T)
        if not zero(Matrix(scores).det(), Matrix(through).det()):
            return False
    return True
