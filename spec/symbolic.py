"""The symbolic evaluator: the same equations over SymPy expressions, for proofs."""

from typing import Any

import numpy as np
import sympy

from gnomon.spec.constants import Constant
from gnomon.spec.evaluators import Evaluator, Mask, Quantity


def _elementwise(function: Any) -> Any:
    return np.frompyfunc(function, 1, 1)


class Symbolic(Evaluator):
    """Arrays of SymPy expressions; nothing is rounded and nothing is evaluated."""

    def number(self, x: Any) -> Quantity:
        """The array with every float or integer made a rational."""
        return _elementwise(sympy.nsimplify)(np.asarray(x, object))

    def constant(self, c: Constant) -> Quantity:
        """The constant as an expression with exact roots."""
        root = sympy.Rational(c.root.numerator, c.root.denominator) / (sympy.pi if c.over_pi else 1)
        return sympy.Rational(c.ratio.numerator, c.ratio.denominator) * sympy.sqrt(root)

    def exp(self, a: Quantity) -> Quantity:
        """e to the a."""
        return _elementwise(sympy.exp)(a)

    def tanh(self, a: Quantity) -> Quantity:
        """The hyperbolic tangent."""
        return _elementwise(sympy.tanh)(a)

    def erf(self, a: Quantity) -> Quantity:
        """The error function."""
        return _elementwise(sympy.erf)(a)

    def sigmoid(self, a: Quantity) -> Quantity:
        """1/(1 + e^-a)."""
        return 1 / (1 + self.exp(-a))

    def cos(self, a: Quantity) -> Quantity:
        """The cosine."""
        return _elementwise(sympy.cos)(a)

    def sin(self, a: Quantity) -> Quantity:
        """The sine."""
        return _elementwise(sympy.sin)(a)

    def log(self, a: Quantity) -> Quantity:
        """The natural logarithm."""
        return _elementwise(sympy.log)(a)

    def rsqrt(self, a: Quantity) -> Quantity:
        """1/√a."""
        return _elementwise(lambda x: 1 / sympy.sqrt(x))(a)

    def sqrt(self, a: Quantity) -> Quantity:
        """√a."""
        return _elementwise(sympy.sqrt)(a)

    def rectify(self, a: Quantity) -> Quantity:
        """The larger of a and zero."""
        return _elementwise(lambda x: sympy.Max(x, 0))(a)

    def select(self, mask: Mask | None, a: Quantity) -> Quantity:
        """`a` where the mask is true, zero elsewhere."""
        return a if mask is None else np.where(mask, a, sympy.Integer(0))

    def gate(self, a: Quantity, g: Quantity) -> Quantity:
        """`g` above the bend, half of it at the bend, nothing below."""
        return g * _elementwise(lambda x: sympy.Heaviside(x))(a)

    def shift(self, scores: Quantity, allowed: Mask | None) -> Quantity:
        """Zero: nothing overflows here."""
        return sympy.Integer(0)
