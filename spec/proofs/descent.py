"""Proofs for I.2 along one axis of a quadratic, on which a plain step moves by the gradient on that axis alone."""

from typing import Any

import numpy as np
from sympy import Expr, factor

from gnomon.spec.descent import SMOOTH_FALL, TWO_OVER_CURVATURE, Rule, State, plain_step
from gnomon.spec.proofs import Equation, Scope, proves
from gnomon.spec.proofs.algebra import nonnegative, real, zero
from gnomon.spec.symbolic import Symbolic

S = Symbolic()
x = real("x")
top, less, slower = real("beta", positive=True), real("b", nonnegative=True), real("a", nonnegative=True)
curvature = top / (1 + less)  # any of at most the top


def after(plain_step: Equation, rate: Expr, curvature: Expr) -> Any:
    """Where one step leads from x on the loss λx²/2."""
    moved, _ = plain_step(S, Rule(rate=rate), np.array([x]), np.array([curvature * x]), State(), rate)
    return moved[0]


@proves(
    SMOOTH_FALL,
    Scope.GENERAL,
    argument="A quadratic is a sum of λx²/2 over its axes, and so are both sides. On an axis with λ = β/(1+b), at the "
    "rate 1/(β(1+a)), what the loss falls by beyond half the rate times the squared gradient is a square times a "
    "quotient of sums of a, b and ab.",
)
def falls_on_every_axis(plain_step: Equation = plain_step) -> bool:
    """The fall less half the rate times the squared gradient is not negative."""
    rate = 1 / (top * (1 + slower))
    moved = after(plain_step, rate, curvature)
    fall = curvature * x**2 / 2 - curvature * moved**2 / 2
    excess = fall - rate / 2 * (curvature * x) ** 2
    return nonnegative(excess.together())


@proves(
    TWO_OVER_CURVATURE,
    Scope.GENERAL,
    argument="Induction on the steps: each multiplies the coordinate on an axis by 1 − ηλ. Below 2/β the square of "
    "that is under one on every axis, above 2/β over one on that of β.",
)
def one_factor_a_step(plain_step: Equation = plain_step) -> bool:
    """A step multiplies by 1 − ηλ, whose square is below one for ηλ under two, and above one over it."""
    rate, apart = real("eta"), real("a", positive=True)
    under, over = 2 / (top * (1 + apart)), (2 + apart) / top
    shrinks = 1 - (after(plain_step, under, curvature) / x) ** 2
    grows = (after(plain_step, over, top) / x) ** 2 - 1
    same = zero(after(plain_step, rate, curvature) - (1 - rate * curvature) * x)
    return same and all(factor(e.together()).is_positive is True for e in (shrinks, grows))
