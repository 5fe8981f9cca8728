"""Proofs for I.4: what a constant and a temperature leave alone, and that accuracy and loss are two things."""

import numpy as np
from sympy import Rational, Symbol, diff, exp, log, simplify

from gnomon.spec.loss import CROSS_ENTROPY, TEMPERATURE, tempered, token_losses
from gnomon.spec.proofs import Equation, Scope, proves
from gnomon.spec.proofs.algebra import AnySize, Expr, array, family, index, real, size, zero
from gnomon.spec.symbolic import Symbolic

E, S = AnySize(), Symbolic()


@proves(
    CROSS_ENTROPY,
    Scope.GENERAL,
    argument="e^{z+c} is e^c·e^z, the factor e^c leaves the sum in numerator and denominator, and what is left is "
    "the probability without c; so its logarithm is the same.",
)
def unchanged_by_a_constant(tempered: Equation = tempered) -> bool:
    """The probability of a target, of which the loss is the logarithm, is that of logits with a constant added."""
    words, i, c, temperature = size("V"), index("i"), real("c"), Symbol("T", positive=True)
    z = family("z", words)
    before, after = (tempered(E, a, temperature)[(i,)] for a in (z, z + c))
    return zero(after - before)


@proves(
    CROSS_ENTROPY,
    Scope.SIZES,
    sizes="2 to 6 words",
    argument="The equation is written out for each number of words; equal logits leave log V, and its derivative by a "
    "constant that is added to all logits is zero.",
)
def log_of_the_words(losses: Equation = token_losses) -> bool:
    """Equal logits lose log V, and the loss does not change with the constant that is added to all."""
    target, c = np.array([0]), real("c")
    for words in range(2, 7):
        z = array("z", 1, words)
        (equal,), (moved,) = losses(S, z * 0 + c, target), losses(S, z + c, target)
        if simplify(equal - log(words)) != 0 or simplify(diff(moved, c)) != 0:
            return False
    return True


@proves(
    TEMPERATURE,
    Scope.GENERAL,
    argument="The quotient of two probabilities is e^{(z_i − z_j)/T}, since both have the same sum below them; for a "
    "positive T that is above one exactly where z_i is above z_j.",
)
def ranking_kept(tempered: Equation = tempered) -> bool:
    """The log-odds of two words are the difference of their logits over the temperature."""
    words, (i, j), temperature = size("V"), index("i j"), Symbol("T", positive=True)
    z = family("z", words)
    p = tempered(E, z, temperature)
    odds = (z[(i,)] - z[(j,)]) / temperature
    return zero(p[(i,)] - p[(j,)] * exp(odds))


@proves(
    TEMPERATURE,
    Scope.WITNESS,
    argument="Masses 4, 2, 1 and their squares 16, 4, 1, which are those of half the temperature, rank the words "
    "alike, and the losses of the first are log 7/4 and log 21/16.",
)
def equal_accuracy_and_unequal_loss(losses: Equation = token_losses) -> bool:
    """Two models that are right about a token, of which one is surer."""
    values = [of_masses(losses, masses) for masses in ((4, 2, 1), (16, 4, 1))]
    wanted = log(Rational(7, 4)), log(Rational(21, 16))
    return all(simplify(value - due) == 0 for value, due in zip(values, wanted, strict=True))


def of_masses(losses: Equation, masses: tuple[int, ...]) -> Expr:
    """The loss of the first word where the exponentials of the logits are these."""
    return losses(S, np.array([[log(mass) for mass in masses]]), np.array([0]))[0]


@proves(
    TEMPERATURE,
    Scope.WITNESS,
    argument="Masses 4, 3, 3 and 4, 5, 1 give the first word four tenths; it is the likeliest of the former and "
    "not of the latter.",
)
def equal_loss_and_unequal_accuracy(losses: Equation = token_losses) -> bool:
    """Two models of one loss on a token, of which one is right."""
    right, wrong = (4, 3, 3), (4, 5, 1)
    values = [of_masses(losses, masses) for masses in (right, wrong)]
    same = all(simplify(value - log(Rational(5, 2))) == 0 for value in values)
    return same and right.index(max(right)) == 0 and wrong.index(max(wrong)) != 0
