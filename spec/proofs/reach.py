"""Proofs for IV.1: what a recurrence forgets with the distance, and attention does not."""

import numpy as np
from sympy import Integer, Matrix, Sum

from gnomon.spec.attention import attention
from gnomon.spec.proofs import Equation, Scope, proves
from gnomon.spec.proofs.algebra import (
    AnySize,
    Expr,
    Family,
    array,
    canonical_sums,
    family,
    index,
    over_sums,
    real,
    size,
    zero,
)
from gnomon.spec.reach import DECAY, recurrence, step
from gnomon.spec.symbolic import Symbolic

E, S = AnySize(), Symbolic()
heads, queries, keys, width, value_width = size("heads queries keys width value_width")


@proves(
    DECAY,
    Scope.SIZES,
    sizes="2 features, distances up to 3",
    argument="The states are differentiated by the first input, for a weight of four symbols.",
)
def derivative_is_a_power(recurrence: Equation = recurrence) -> bool:
    """The derivative of the state n steps on by an input is the weight to the power n."""
    x, weight = array("x", 4, 2), array("w", 2, 2)
    states = recurrence(S, x, weight)
    derivatives = (Matrix(h).jacobian(Matrix(x[0])) for h in states)
    return zero(*(d - Matrix(weight) ** n for n, d in enumerate(derivatives)))


@proves(
    DECAY,
    Scope.GENERAL,
    argument="Induction on the distance: an input along an eigenvector is at distance 0 itself, and one step takes "
    "λⁿu to λⁿ(Wu) = λⁿ⁺¹u, at any width.",
)
def along_an_eigenvector(step: Equation = step) -> bool:
    """An effect of λⁿ times an eigenvector becomes λⁿ⁺¹ times that one."""
    weight, u, value = family("w", width, width), family("u", 1, width), real("lambda")
    n, row = index("n j")
    state, nothing = u.map(lambda e: value**n * e), Family((1, width), lambda *_: Integer(0))
    after = step(E, state, nothing, weight.swapaxes(0, 1))[0, row]

    def is_eigenvector(summand: Expr, k: Expr, *_: Expr) -> Expr | None:
        return value * u[0, row] if summand == weight[row, k] * u[0, k] else None

    return zero(over_sums(canonical_sums(after), is_eigenvector) - value ** (n + 1) * u[0, row])


@proves(
    DECAY,
    Scope.SIZES,
    sizes="2 features, every symmetric weight, any distance",
    argument="A step of a weight with orthogonal eigenvectors and eigenvalues λ, μ takes a state of square length s to "
    "λ²s − (λ² − μ²)c², c its component along the second one; with |λ| the larger, by induction no effect at "
    "distance n is larger than |λ|ⁿ times the input. The turn that takes the axes to the eigenvectors is rational in "
    "the tangent of half its angle.",
)
def no_slower_than_the_radius(step: Equation = step) -> bool:
    """The square length after a step falls short of λ² times the one before by (λ² − μ²)c²."""
    one, other, t = real("lambda mu t")
    turn = np.array([[1 - t**2, -2 * t], [2 * t, 1 - t**2]]) / (1 + t**2)
    state = array("h", 1, 2)
    after = step(S, state, np.zeros((1, 2), int), (turn * np.array([one, other])) @ turn.T)
    before, along = (state @ state.T)[0, 0], (state @ turn)[0, 1]
    return zero(one**2 * before - (after @ after.T)[0, 0] - (one**2 - other**2) * along**2)


@proves(
    DECAY,
    Scope.GENERAL,
    argument="Equal keys give a row equal scores, whose exponential leaves both sums and cancels; each value is left "
    "with the factor one over the number of keys, in which its position does not occur.",
)
def the_same_at_every_distance(attention: Equation = attention) -> bool:
    """Behind equal keys the output is the sum of the values over their number."""
    one_key, V = family("k", heads, width), family("v", heads, keys, value_width)
    K = Family((heads, keys, width), lambda h, _, c: one_key[h, c])
    at, j = index("h i c"), index("j")
    out = attention(E, family("q", heads, queries, width), K, V, scale=real("beta"))[at]
    return zero(out - Sum(V[at[0], j, at[2]], (j, 0, keys - 1)) / keys)
