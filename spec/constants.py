"""Constants of the equations, kept exact until an evaluator asks for its own kind of number."""

import math
from dataclasses import dataclass
from fractions import Fraction

_SPARE_BITS = 140  # enough for the integer root to round to float64 correctly but for a tie


@dataclass(frozen=True, slots=True)
class Constant:
    """The real number ratio·√root, or ratio·√(root/π)."""

    ratio: Fraction
    root: Fraction = Fraction(1)
    over_pi: bool = False

    @property
    def rational(self) -> Fraction | None:
        """Its value as a fraction, where it is one."""
        square = self.ratio**2 * self.root
        top, bottom = math.isqrt(square.numerator), math.isqrt(square.denominator)
        if self.over_pi or top**2 != square.numerator or bottom**2 != square.denominator:
            return None
        return Fraction(top, bottom) * (1 if self.ratio >= 0 else -1)

    def __float__(self) -> float:
        if self.over_pi:
            return float(self.ratio) * math.sqrt(self.root / Fraction(math.pi))
        value = self.rational
        if value is not None:
            return float(value)
        square = self.ratio**2 * self.root
        # A small root gets as many significant bits as a large one.
        bits = _SPARE_BITS + max(0, square.denominator.bit_length() - square.numerator.bit_length()) // 2
        scaled = math.isqrt((square.numerator << 2 * bits) // square.denominator)
        return math.copysign(float(Fraction(scaled, 1 << bits)), self.ratio)

    @property
    def short(self) -> bool:
        """Whether it is a fraction that every format holds without rounding: eight significant bits."""
        value = self.rational
        if value is None:
            return False
        power_of_two = value.denominator & (value.denominator - 1) == 0
        odd = abs(value.numerator) // max(1, value.numerator & -value.numerator)
        in_range = value == 0 or Fraction(1, 2**14) <= abs(value) < 2**16  # where float16 is normal
        return power_of_two and odd < 2**8 and in_range


def rational(numerator: int, denominator: int = 1) -> Constant:
    """The fraction numerator/denominator."""
    return Constant(Fraction(numerator, denominator))


def exactly(value: float) -> Constant:
    """The number that a float stands for, no less and no more."""
    return Constant(Fraction(value))


def inverse_root(n: int) -> Constant:
    """1/√n."""
    return Constant(Fraction(1, n), Fraction(n))


HALF = rational(1, 2)
ONE = rational(1)
ROOT_HALF = Constant(Fraction(1), Fraction(1, 2))
ROOT_TWO_OVER_PI = Constant(Fraction(1), Fraction(2), over_pi=True)
TWO_OVER_ROOT_PI = Constant(Fraction(2), over_pi=True)
TANH_CUBIC = rational(44715, 1000000)  # the coefficient of the tanh form of GELU, as its paper prints it
