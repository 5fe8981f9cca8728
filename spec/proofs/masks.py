"""Proofs for V.4: what a masked key can do to an output is nothing."""

from itertools import product

import numpy as np

from gnomon.spec.attention import attention
from gnomon.spec.masks import (
    DECODES_AS_PREFILL,
    PAST_UNCHANGED,
    RENORMALISED,
    SEES_ITSELF,
    ZERO_WEIGHT,
    causal,
    window,
)
from gnomon.spec.proofs import Equation, Scope, proves
from gnomon.spec.proofs.algebra import Expr, array, zero
from gnomon.spec.symbolic import Symbolic

S = Symbolic()
IDENTITY = np.eye(3, dtype=int)[None]
MASKS = [np.array(m)[None] for m in product((False, True), repeat=3) if any(m)]


def arrays(length: int) -> tuple[Expr, Expr, Expr]:
    """A query, a key and a value of width 1 at each of so many positions."""
    q, k, v = (array(name, 1, length, 1) for name in "qkv")
    return q, k, v


@proves(
    ZERO_WEIGHT,
    Scope.SIZES,
    sizes="3 keys under every mask that keeps one",
    argument="The weights are read off through identity values; the masked ones are the integer 0, with no "
    "symbol left in them.",
)
def integer_zero(attention: Equation = attention) -> bool:
    """A masked weight is zero before anything is simplified, and no other is."""
    q, k, _ = arrays(3)
    weights = [(attention(S, q[:, :1], k, IDENTITY, allowed=m)[0, 0], m[0]) for m in MASKS]
    return all((w == 0) is not bool(kept) for row, m in weights for w, kept in zip(row, m, strict=True))


@proves(
    PAST_UNCHANGED,
    Scope.SIZES,
    sizes="4 positions",
    argument="No key and no value of a later position occurs among the free symbols of an output.",
)
def no_future_symbol(attention: Equation = attention) -> bool:
    """The output at t is an expression in the query at t and the keys and values up to t, and in all of these."""
    q, k, v = arrays(4)
    out = attention(S, q, k, v, allowed=causal(4, 4))[0, :, 0]
    past = ({q[0, t, 0], *k[0, : t + 1, 0], *v[0, : t + 1, 0]} if t else {v[0, 0, 0]} for t in range(4))
    return all(o.free_symbols == symbols for o, symbols in zip(out, past, strict=True))


@proves(
    RENORMALISED,
    Scope.SIZES,
    sizes="3 keys under every mask that keeps one",
    argument="The output for values of 1 is the sum of the weights; what is masked is in neither sum.",
)
def remaining_sum_to_one(attention: Equation = attention) -> bool:
    """The weights that remain sum to exactly 1."""
    q, k, _ = arrays(3)
    return zero(*(attention(S, q[:, :1], k, np.ones((1, 3, 1)), allowed=m) - 1 for m in MASKS))


@proves(
    SEES_ITSELF,
    Scope.SIZES,
    sizes="3 positions",
    argument="The weights on the diagonal are quotients of exponentials, which are positive; the first row's "
    "quotient is 1.",
)
def first_sees_only_itself(attention: Equation = attention) -> bool:
    """Under a causal mask the diagonal is positive and the first output is the first value."""
    q, k, v = arrays(3)
    diagonal = attention(S, q, k, IDENTITY, allowed=causal(3, 3))[0].diagonal()
    first = attention(S, q, k, v, allowed=causal(3, 3))[0, 0] - v[0, 0]
    return zero(first) and all(bool(p.is_positive) for p in diagonal)


@proves(
    DECODES_AS_PREFILL,
    Scope.SIZES,
    sizes="4 positions, every chunk, without a window and with windows of 1 to 3",
    argument="A chunk of queries against the keys up to its end is masked row by row as in the whole pass, so the "
    "same expressions come out.",
)
def chunks_are_rows(attention: Equation = attention) -> bool:
    """Queries a to b against the first b keys give rows a to b of the whole pass."""
    q, k, v = arrays(4)
    for width, a, b in product((1, 2, 3, 4), range(4), range(1, 5)):
        if a >= b:
            continue
        whole, part = (causal(n, m) & window(n, m, width) for n, m in ((4, 4), (b - a, b)))
        rows = attention(S, q, k, v, allowed=whole)[:, a:b]
        if not zero(attention(S, q[:, a:b], k[:, :b], v[:, :b], allowed=part) - rows):
            return False
    return True
