"""Proofs for II.1, over matrices whose sizes are symbols."""

from sympy import MatrixSymbol

from gnomon.spec.linear import AFFINE, COLLAPSE, linear
from gnomon.spec.proofs import Equation, Scope, proves
from gnomon.spec.proofs.algebra import Matrices, no_matrix, real, size

E = Matrices()


@proves(
    AFFINE,
    Scope.GENERAL,
    argument="Three inputs under weights that sum to one are put through the layer; weight and bias are "
    "distributed over them, and the bias meets the sum of the weights, which is one.",
)
def affine(linear: Equation = linear) -> bool:
    """The layer of a combination is the combination of the layers."""
    time, width, out = size("time width out")
    X, Y, Z = (MatrixSymbol(name, time, width) for name in "XYZ")
    W, b = MatrixSymbol("W", out, width), MatrixSymbol("b", 1, out)
    p, q = real("p q")
    of_mix = linear(E, p * X + q * Y + (1 - p - q) * Z, W, b)
    mix = p * linear(E, X, W, b) + q * linear(E, Y, W, b) + (1 - p - q) * linear(E, Z, W, b)
    return no_matrix(of_mix - mix)


@proves(
    COLLAPSE,
    Scope.GENERAL,
    argument="Induction on depth: one layer is itself, and where a stack is the layer (P, a) one more layer "
    "(W, b) makes it the layer (WP, Wa + b).",
)
def collapse(linear: Equation = linear) -> bool:
    """One more layer on a collapsed stack is again one layer, at any widths."""
    time, first, width, out = size("time first width out")
    X, P, a = MatrixSymbol("X", time, first), MatrixSymbol("P", width, first), MatrixSymbol("a", 1, width)
    W, b = MatrixSymbol("W", out, width), MatrixSymbol("b", 1, out)
    stack = linear(E, linear(E, X, P, a), W, b)
    single = linear(E, X, W * P, a * W.T + b)
    return no_matrix(stack - single)
