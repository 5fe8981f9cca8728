"""Proofs for VII.1: what a norm forgets when epsilon is zero, at every width."""

import numpy as np
import sympy

from gnomon.spec.block import NORMS
from gnomon.spec.norms import layer_norm, rms_norm
from gnomon.spec.proofs import Equation, Scope, proves
from gnomon.spec.proofs.algebra import AnySize, Family, canonical_sums, family, index, size, zero
from gnomon.spec.symbolic import Symbolic


class Factored(AnySize):
    """Families whose roots are taken of factored sums, so that a positive factor comes out of them."""

    def rsqrt(self, a: Family) -> Family:
        """1/√a."""
        return a.map(lambda x: 1 / sympy.sqrt(sympy.factor(canonical_sums(x))))


E, S = Factored(), Symbolic()
time, width = size("time width")
at = index("t c")
X, SHIFT = family("x", time, width), family("s", time, 1)
SCALE = family("a", time, 1, positive=True)
GAIN, BIAS = family("g", width), family("b", width)
ONES = Family((width,), lambda c: sympy.S.One)


@proves(
    NORMS,
    Scope.GENERAL,
    argument="The mean of the shifted row is the shifted mean, so the centred row is the scale times that of the row "
    "and its mean square the squared scale times; the root of a positive square cancels.",
)
def shift_and_scale(layer_norm: Equation = layer_norm) -> bool:
    """LayerNorm of ax + s is that of x, for every a > 0 and s that may differ from row to row."""
    moved, plain = (layer_norm(E, x, GAIN, BIAS, eps=0.0) for x in (X * SCALE + SHIFT, X))
    return zero(moved[at] - plain[at])


@proves(
    NORMS,
    Scope.GENERAL,
    argument="The mean square of the scaled row is the squared scale times that of the row; the root of a positive "
    "square cancels.",
)
def scale_of_a_row(rms_norm: Equation = rms_norm) -> bool:
    """RMSNorm of ax is that of x, for every a > 0 that may differ from row to row."""
    moved, plain = (rms_norm(E, x, GAIN, eps=0.0) for x in (X * SCALE, X))
    return zero(moved[at] - plain[at])


@proves(
    NORMS,
    Scope.GENERAL,
    argument="With gain one and no bias the sum over the features and the sum of their squares are carried out; the "
    "second is the width because the variance is taken over n, not n − 1.",
)
def mean_zero_and_square_one(layer_norm: Equation = layer_norm) -> bool:
    """A row after LayerNorm has mean zero and mean square one."""
    row = layer_norm(E, X, ONES, eps=0.0)
    return zero(E.total(row)[at], E.total(row * row)[at] - width)


@proves(
    NORMS, Scope.WITNESS, argument="The rows (1, 2) and (2, 3) differ by a shift, and their RMSNorms are different."
)
def a_shift_is_kept(rms_norm: Equation = rms_norm) -> bool:
    """RMSNorm does not forget the shift of a row."""
    one, other = (rms_norm(S, np.array([row]), np.array([1, 1]), eps=0.0) for row in ((1, 2), (2, 3)))
    return not zero(one - other)
