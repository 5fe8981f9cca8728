"""Proofs for I.3: a constant times the loss cancels in Adam's quotient, and the first step has the rate's size."""

import numpy as np
from sympy import Integer

from gnomon.spec.adam import FIRST_STEP, SCALE_FREE, adam_step, direction, moments
from gnomon.spec.descent import Rule, State, plain_step
from gnomon.spec.proofs import Equation, Scope, proves
from gnomon.spec.proofs.algebra import real, size, zero
from gnomon.spec.symbolic import Symbolic

S = Symbolic()
rate, gradient, parameter, mean = real("eta g theta m")
scale, square = real("c v", positive=True)
betas = real("beta_1 beta_2", positive=True)
epsilon = real("epsilon", nonnegative=True)
steps = size("t")
FREE = Rule(kind="adam", rate=rate, betas=betas, epsilon=Integer(0))


def one(entry: object) -> object:
    """An array of one entry."""
    return np.array([entry])


@proves(
    SCALE_FREE,
    Scope.GENERAL,
    argument="Induction on the steps: with every gradient times c, moments that were c and c² times the others are so "
    "again after one more, and in the quotient c cancels.",
)
def constant_cancels(moments: Equation = moments, direction: Equation = direction) -> bool:
    """Moments scaled by c and c² stay so, and give the same direction."""
    plain = moments(S, FREE, one(gradient), State(steps, one(mean), one(square)))
    scaled = moments(S, FREE, one(scale * gradient), State(steps, one(scale * mean), one(scale**2 * square)))
    kept = zero(scaled.first - scale * plain.first, scaled.second - scale**2 * plain.second)
    ways = (State(steps, one(scale * mean), one(scale**2 * square)), State(steps, one(mean), one(square)))
    return kept and zero(direction(S, FREE, ways[0]) - direction(S, FREE, ways[1]))


@proves(
    SCALE_FREE,
    Scope.GENERAL,
    argument="A plain step is linear in the gradient.",
)
def constant_stays(plain_step: Equation = plain_step) -> bool:
    """The distance of plain descent is multiplied by c."""
    walks = (
        plain_step(S, Rule(rate=rate), one(parameter), one(g), State(), rate)[0] - parameter
        for g in (gradient, scale * gradient)
    )
    short, long = walks
    return zero(long - scale * short)


@proves(
    FIRST_STEP,
    Scope.GENERAL,
    argument="Corrected for a start at zero, the first moments are the gradient and its square; the root of that is "
    "the gradient's size, of either sign.",
)
def size_of_the_rate(adam_step: Equation = adam_step) -> bool:
    """The first step is the rate times |g|/(|g| + ε), against the gradient's sign."""
    size, rule = real("s", positive=True), Rule(kind="adam", rate=rate, betas=betas, epsilon=epsilon)
    moved = [adam_step(S, rule, one(parameter), one(sign * size), State(), rate)[0] - parameter for sign in (1, -1)]
    wanted = rate * size / (size + epsilon)
    return zero(moved[0] + wanted, moved[1] - wanted)
