"""Rounding-error bounds: the tracked evaluator carries, with each value, how far a declared precision may stray.

Every array is a pair (value, error): a correct implementation of the declared precision, whatever its order of
summation, blocking or fusion, computes a number within `error` of the exact one; `value` is the exact one but for
the error of float64, which `allowed` adds. The model of one operation is fl(x∘y) = (x∘y)(1+δ)+η with |δ| at most
the unit roundoff of the arithmetic and |η| at most its underflow; a sum of k terms in any order is off by at most
γ(k)·Σ|terms| with γ(k) = ku/(1−ku) (Higham, Accuracy and Stability of Numerical Algorithms, chapters 2 to 4).
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np

from gnomon.spec.constants import Constant
from gnomon.spec.evaluators import Evaluator, Float64, Floats, Mask
from gnomon.spec.precision import ABSOLUTE_SIGMOID, FLOAT64, ONE_PASS, ROUGH_POWERS, ROUGH_TANH, Format, Precision

_NOTHING, _MANY = np.zeros(()), 2**14
_NO_INFORMATION = 1e90  # an error this large says nothing, yet is no licence for NaN as infinity is
_EXP_RANGE = 700.0  # e^700 is still finite in float64
_COSH_RANGE = 300.0  # so is the square of cosh(300)
_EXPONENT = np.int64(0x7FF0 << 48)  # the exponent of a float64, which alone is the power of two below it
_CENTRED_LIMIT = 200_000  # above so many products the centred sum is bounded by Cauchy and Schwarz instead
_SECOND_ORDER = 1 + 2.0**-15  # covers products of library errors, which are dropped; measured below 2e-6

_plain = Float64()
_quiet = np.errstate(invalid="ignore", over="ignore", divide="ignore")  # what is no number has an infinite error


def half_ulp(x: Floats, form: Format) -> Floats:
    """Half the spacing of the format at |x|, the most that rounding to it moves x; zero stays exact."""
    power_of_two = (np.asarray(x, np.float64).view(np.int64) & _EXPONENT).view(np.float64)
    return np.where(x == 0, 0.0, np.maximum(form.unit * power_of_two, form.underflow))


def round_to(x: Floats, form: Format) -> Floats:
    """The nearest numbers of the format, ties to even, in one rounding from float64."""
    if form is FLOAT64:
        return np.asarray(x, np.float64)
    smallest = 2.0 ** (-24 if form.name == "float16" else -149 if form.name == "float32" else -133)
    step = np.maximum(np.ldexp(2 * form.unit, np.frexp(x)[1] - 1), smallest)
    near = np.rint(x / step) * step
    return np.asarray(np.where(np.abs(near) > form.largest, np.copysign(np.inf, near), near), np.float64)


class Tracked:
    """Values with their error bounds, elementwise and absolute; an infinite bound permits NaN.

    `stored` says that an implementation holds numbers of its storage format here, so storing them is exact.
    """

    __array_priority__ = 100
    __slots__ = ("error", "precision", "stored", "value")

    def __init__(self, value: Floats, error: Floats, precision: Precision, stored: bool = False):
        self.value, self.precision, self.stored, self.error = value, precision, stored, error
        if not error.max(initial=0.0) <= _NO_INFORMATION:  # nor is NaN
            self.error = np.where(error < np.inf, np.minimum(error, _NO_INFORMATION), np.inf)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.value.shape

    @property
    def size(self) -> Floats:
        """The largest magnitude that each entry may have."""
        return np.asarray(np.abs(self.value) + self.error)

    def like(self, value: Any, error: Any) -> Self:
        """The pair under the same precision."""
        return type(self)(np.asarray(value), np.asarray(error), self.precision)

    def rounded(self, value: Floats, error: Floats, times: float = 1.0) -> Self:
        """The result of one operation that rounds `times` times."""
        return self.like(value, self._grown(value, error, times))

    def _grown(self, value: Floats, error: Floats, times: float = 1.0) -> Floats:
        form = self.precision.arithmetic
        return np.asarray(error + times * form.unit * (np.abs(value) + error) + form.underflow)

    @_quiet
    def __add__(self, other: Any) -> Self:
        o = self._lift(other)
        exact, value, error = (o.size == 0) | (self.size == 0), self.value + o.value, self.error + o.error
        return self.like(value, np.where(exact, error, self._grown(value, error)))

    def __neg__(self) -> Self:
        return self.like(-self.value, self.error)

    def __sub__(self, other: Any) -> Self:
        return self + (-self._lift(other))

    @_quiet
    def __mul__(self, other: Any) -> Self:
        o = self._lift(other)
        error = np.abs(self.value) * o.error + self.error * np.abs(o.value) + self.error * o.error
        return self.rounded(self.value * o.value, error)

    __radd__, __rmul__ = __add__, __mul__

    @_quiet
    def __truediv__(self, other: Any) -> Self:
        """The quotient, rounded twice: some multiply by a rounded reciprocal."""
        o = self._lift(other)
        value, room = self.value / o.value, np.abs(o.value) - o.error
        error = np.where(room > 0, (self.error + np.abs(value) * o.error) / np.where(room > 0, room, 1), np.inf)
        return self.rounded(value, error, 2)

    def __getitem__(self, index: Any) -> Self:
        return self.like(self.value[index], self.error[index])

    def reshape(self, *shape: int) -> Self:
        """The same numbers in another shape."""
        return self.like(self.value.reshape(*shape), self.error.reshape(*shape))

    def swapaxes(self, a: int, b: int) -> Self:
        """The same numbers with two axes exchanged."""
        return self.like(self.value.swapaxes(a, b), self.error.swapaxes(a, b))

    def repeat(self, times: int, axis: int) -> Self:
        """Every entry along an axis repeated in place."""
        return self.like(self.value.repeat(times, axis), self.error.repeat(times, axis))

    def take(self, indices: Any, axis: int) -> Self:
        """The entries along an axis, in the order of the indices."""
        return self.like(self.value.take(indices, axis), self.error.take(indices, axis))

    def _lift(self, other: Any) -> "Tracked":
        if isinstance(other, Tracked):
            return other
        value = np.asarray(other, np.float64)
        return Tracked(value, np.zeros_like(value), self.precision)


def allowed(result: Tracked) -> Floats:
    """How far from `result.value` a correct implementation may be, the error of the value itself included.

    The value is computed in float64, whose roundoff is smaller by λ. Every term of a bound is zero at u = 0 and
    convex in u, so the value errs by at most λ times the bound, unless an a-priori range cuts the bound off; there
    the value keeps to that range as well, so that the range holds between the two. For float64 itself λ is one.
    """
    shrink = FLOAT64.unit / result.precision.arithmetic.unit
    return result.error * (1 + shrink) * _SECOND_ORDER


class Bounds(Evaluator):
    """The evaluator of values and error bounds for one declared precision."""

    def __init__(self, precision: Precision):
        self.precision = precision
        self._unit = precision.arithmetic.unit
        self._library = precision.library * self._unit
        self._range = (precision.arithmetic if precision.narrow else precision.storage).largest
        self._constants = dict[Constant, Tracked]()

    def number(self, x: Any) -> Tracked:
        """The array without error; tracked numbers come back unchanged."""
        if isinstance(x, Tracked):
            return x
        value = np.asarray(x, np.float64)
        # Where weights are many, zeros take no memory.
        nothing = np.zeros(value.shape) if value.size < _MANY else np.broadcast_to(_NOTHING, value.shape)
        return Tracked(value, nothing, self.precision)

    def given(self, x: Any) -> Tracked:
        """The array without error, which storing leaves as it is."""
        exact = self.number(x)
        return exact if exact.error.any() else Tracked(exact.value, exact.error, self.precision, stored=True)

    def constant(self, c: Constant) -> Tracked:
        """The constant, with the error of two roundings unless every format holds it."""
        if c not in self._constants:
            value = np.asarray(float(c))
            self._constants[c] = Tracked(value, np.abs(value) * self._constant_error(c), self.precision)
        return self._constants[c]

    @_quiet
    def exp(self, a: Tracked) -> Tracked:
        """e to the a; the argument may be split or multiplied by log2(e), so its size counts."""
        top = np.exp(np.minimum(a.value + a.error, _EXP_RANGE))
        own = (self.precision.library + 2 * np.abs(a.value)) * self._unit * top
        value = np.exp(np.minimum(a.value, _EXP_RANGE))
        error = value * np.expm1(np.minimum(a.error, _EXP_RANGE)) + own + self.precision.arithmetic.underflow
        return a.like(value, np.where(a.error < np.inf, error, np.inf))

    @_quiet
    def tanh(self, a: Tracked) -> Tracked:
        """The hyperbolic tangent: slope 1/cosh²(m) for the smallest |argument| m in reach, absolute library error."""
        near = np.minimum(np.maximum(np.abs(a.value) - a.error, 0.0), _COSH_RANGE)
        own = self.precision.erf * self._unit if ROUGH_TANH in self.precision.sites else self._library
        return a.like(np.tanh(a.value), _bounded(a.error / np.cosh(near) ** 2, 2.0) + own)

    @_quiet
    def erf(self, a: Tracked) -> Tracked:
        """The error function: slope at most 2/√π·exp(−m²) for the smallest |argument| m in reach."""
        near = np.maximum(np.abs(a.value) - a.error, 0.0)
        slope = 2 / np.sqrt(np.pi) * np.exp(-(near**2))
        error = np.where(a.error < np.inf, np.minimum(slope * a.error, 2.0), np.inf)
        return a.like(_plain.erf(a.value), error + self.precision.erf * self._unit)

    @_quiet
    def sigmoid(self, a: Tracked) -> Tracked:
        """1/(1 + e^-a): the slope σ(1−σ) grows by at most e^|δ| on the way, and 1−σ damps the error of e^-a."""
        value, rest = _plain.sigmoid(a.value), _plain.sigmoid(-a.value)
        slope = np.minimum(value * rest * np.exp(np.minimum(a.error, _EXP_RANGE)), 0.25)
        near = _bounded(slope * a.error, 1.0)
        argument = 2 * np.minimum(np.abs(a.value), _EXP_RANGE) * rest
        own = (self.precision.library + 3 + argument) * self._unit * (value + near)
        if self.precision.rounds("steps"):  # e^-a and 1 + e^-a are stored, and 1−σ damps the error of the first
            own = own + self.precision.storage.unit * (1 + rest) * (value + near)
        if ABSOLUTE_SIGMOID in self.precision.sites:
            own = np.maximum(own, self.precision.erf * self._unit)
        return a.like(value, near + own + self.precision.arithmetic.underflow)

    def cos(self, a: Tracked) -> Tracked:
        """The cosine: slope at most |sin| + |δ|, absolute library error, exact at zero."""
        return self._turned(a, np.cos(a.value), np.abs(np.sin(a.value)))

    def sin(self, a: Tracked) -> Tracked:
        """The sine: slope at most |cos| + |δ|, absolute library error, exact at zero."""
        return self._turned(a, np.sin(a.value), np.abs(np.cos(a.value)))

    @_quiet
    def _turned(self, a: Tracked, value: Floats, slope: Floats) -> Tracked:
        swayed = _bounded((slope + a.error / 2) * a.error, 2.0)
        return a.like(value, np.where(a.size == 0, 0.0, swayed + self._library))

    @_quiet
    def log(self, a: Tracked) -> Tracked:
        """The natural logarithm: slope 1/m for the smallest argument m in reach; anything where that is not above zero.

        The library's error is relative to the result, and a log1p may have been used for an argument near one.
        """
        value, lowest = np.log(a.value), a.value - a.error
        swayed = np.where(lowest > 0, -np.log1p(-a.error / np.where(lowest > 0, a.value, 1.0)), np.inf)
        error = swayed + self._library * (np.abs(value) + swayed)
        return a.like(value, np.where(a.error < np.inf, error, np.inf))

    def rsqrt(self, a: Tracked) -> Tracked:
        """1/√a; anything where a may be zero."""
        return self._rsqrt(a, 0.0)

    @_quiet
    def _rsqrt(self, a: Tracked, floor: float) -> Tracked:
        """1/√a of an `a` that is known not to lie under the floor."""
        value, lowest = 1 / np.sqrt(a.value), np.maximum(a.value - a.error, floor)
        most = np.where((a.error < np.inf) & (lowest > 0), 1 / np.sqrt(np.where(lowest > 0, lowest, 1.0)), np.inf)
        return a.like(value, most - value + self._library * most)

    @_quiet
    def sqrt(self, a: Tracked) -> Tracked:
        """√a: the root of the largest argument in reach less that of the smallest, which is not under zero."""
        value, lowest = np.sqrt(a.value), np.sqrt(np.maximum(a.value - a.error, 0.0))
        most = np.sqrt(a.value + a.error)
        error = np.maximum(most - value, value - lowest) + self._library * most
        return a.like(value, np.where(a.error < np.inf, error, np.inf))

    def complement(self, base: Constant, times: int) -> Tracked:
        """1 − base^times: `times` roundings of the base and as many of the power, in float64 or in the arithmetic."""
        value, power = np.asarray(float(1 - base.ratio**times)), float(base.ratio**times)
        rough = ROUGH_POWERS in self.precision.sites
        unit = self._unit if rough else FLOAT64.unit
        cast = self.precision.storage.unit if self.precision.rounds("constant") else 2 * self._unit
        own = (2 * times + self.precision.library) * unit * power * (times > 1 or rough)
        return Tracked(value, own + cast * value, self.precision)

    def added(self, parts: list[Tracked], site: str) -> Tracked:
        """The sum, each of its additions rounding at most what it would of the sum of all magnitudes."""
        size = np.asarray(sum(p.size for p in parts))
        form, times = self.precision.storage, len(parts) - 1
        stored = half_ulp(size, form) if self.precision.rounds(site) else 0.0
        error = sum(p.error for p in parts) + times * (self._unit * size + stored)
        whole = parts[0].like(sum(p.value for p in parts), error)
        largest = form.largest if self.precision.rounds(site) else self._range
        error = np.where(size > largest, np.inf, whole.error)
        return Tracked(whole.value, error, self.precision, stored=self.precision.rounds(site) and times > 0)

    @_quiet
    def reduced(self, a: Tracked, shape: tuple[int, ...]) -> Tracked:
        """The array summed over the axes of the broadcast, in any order."""
        value, error = (_plain.reduced(x, shape) for x in (a.value, a.error))
        terms = np.maximum(_plain.reduced((a.size > 0).astype(float), shape) - 1, 0)
        return self._in_range(a.like(value, error + self._gamma(terms) * _plain.reduced(a.size, shape)), self._range)

    @_quiet
    def scattered(self, a: Tracked, index: Any, shape: tuple[int, ...]) -> Tracked:
        """Zeros to which the entries are added, in any order; each sum may be stored."""
        value, error, size = (_plain.scattered(x, index, shape) for x in (a.value, a.error, a.size))
        terms = np.maximum(_plain.scattered((a.size > 0).astype(float), index, shape) - 1, 0)
        stored = half_ulp(size, self.precision.storage) * terms if self.precision.rounds("gradient") else 0.0
        return self._in_range(a.like(value, error + self._gamma(terms) * size + stored), self._range)

    def summed_products(self, pairs: Sequence[tuple[Tracked, Tracked]]) -> Tracked:
        """The sum of the products as one sum of all their terms or, where that errs more, of them stored one by one."""
        if len(pairs) == 1:
            return self.matmul(*pairs[0])
        left, right = self.concat([a for a, _ in pairs], -1), self.concat([b for _, b in pairs], -2)
        whole = self.matmul(left, right)
        if not self.precision.rounds("gradient"):
            return whole
        apart = self.added([self.store(self.matmul(*pair), "gradient") for pair in pairs], "gradient")
        return self.either(whole, apart)

    def gate(self, a: Tracked, g: Tracked) -> Tracked:
        """`g` above the bend, nothing below it, and either where it is not certain on which side the argument lies."""
        above, unsure = a.value > 0, np.abs(a.value) <= a.error
        return g.like(np.where(above, g.value, 0.0), np.where(unsure, g.size, np.where(above, g.error, 0.0)))

    def computed(self, value: Floats, roundoffs: Floats) -> Tracked:
        """The numbers, off by so many roundoffs of the arithmetic each; none where they are exact."""
        return Tracked(value, np.abs(value) * roundoffs * self._unit, self.precision)

    @_quiet
    def standardise(self, x: Tracked, epsilon: Constant, centred: bool) -> Tracked:
        """The standardised row: a mean square is never negative, and no entry exceeds the root of the width.

        The second holds of the computed row too, whatever the error of its mean, for it is divided by the root of its
        own mean square; so the bound of a constant row, where everything cancels, is that range. Neither holds of a
        variance in one pass. Epsilon meets the mean square in the arithmetic, two roundings off.
        """
        width = self.number(x.shape[-1])
        kept = x - self._summed(x) / width if centred else x
        in_one_pass = centred and ONE_PASS in self.precision.sites
        result = kept * (self.row_spread(x, kept, epsilon) if centred else self.inverse_spread(kept, epsilon))
        span = np.sqrt(x.shape[-1]) * (1 + float(self._gamma(x.shape[-1] + 8))) + np.abs(result.value)
        return result if in_one_pass else result.like(result.value, _bounded(result.error, span))

    def inverse_spread(self, kept: Tracked, epsilon: Constant) -> Tracked:
        """One over the root of the mean square plus epsilon, two roundings off; a mean square is never negative."""
        mean_square = self._summed(kept * kept) / self.number(kept.shape[-1])
        return self._inverse_root(mean_square, epsilon, float(epsilon) * (1 - 4 * self._unit))

    def row_spread(self, x: Tracked, kept: Tracked, epsilon: Constant) -> Tracked:
        """The same of a centred row, with the error of a variance in one pass where that is declared."""
        if ONE_PASS not in self.precision.sites:
            return self.inverse_spread(kept, epsilon)
        mean_square = self._summed(kept * kept) / self.number(x.shape[-1])
        error = np.maximum(mean_square.error, self._variance_in_one_pass(x).error)
        return self._inverse_root(mean_square.like(mean_square.value, error), epsilon, 0.0)

    def _inverse_root(self, mean_square: Tracked, epsilon: Constant, floor: float) -> Tracked:
        return self._rsqrt(mean_square + self.computed(np.asarray(float(epsilon)), np.asarray(2.0)), floor)

    def _variance_in_one_pass(self, x: Tracked) -> Tracked:
        """The mean of the squares less the square of the mean."""
        width = self.number(x.shape[-1])
        mean = self._summed(x) / width
        return self._summed(x * x) / width - mean * mean

    def _summed(self, a: Tracked) -> Tracked:
        """The sum over the last axis; out of the range of the arithmetic it may be anything."""
        return self._in_range(self.total(a), self._range)

    def rectify(self, a: Tracked) -> Tracked:
        """The larger of a and zero: exact, of slope at most one, and flat below zero."""
        return a.like(np.maximum(a.value, 0.0), np.minimum(a.error, np.maximum(a.value + a.error, 0.0)))

    def select(self, mask: Mask | None, a: Tracked) -> Tracked:
        """`a` where the mask is true, an exact zero elsewhere."""
        return a if mask is None else a.like(np.where(mask, a.value, 0.0), np.where(mask, a.error, 0.0))

    def shift(self, scores: Tracked, allowed: Mask | None) -> Floats:
        """The largest allowed score, as a constant without error, since softmax cancels any shift."""
        return _plain.shift(scores.value, allowed)

    def matmul(self, a: Tracked, b: Tracked) -> Tracked:
        """The product: γ of the number of terms that are not exactly zero, in any order and blocking."""
        return self._product(a, b, extra=0)

    @_quiet
    def affine(self, x: Tracked, weight: Tracked, bias: Tracked) -> Tracked:
        """x·weight + bias, whether the bias starts the sum, ends it, or meets a stored product."""
        product = self._product(x, weight, extra=1)
        terms = np.count_nonzero(x.size, axis=-1)[..., None]
        own = self._gamma(terms + 1) * bias.size
        stored = half_ulp(product.size, self.precision.storage) if self.precision.rounds("prebias") else 0.0
        return product.like(product.value + bias.value, product.error + bias.error + own + stored)

    @_quiet
    def scores(self, query: Tracked, key: Tracked, scale: Constant) -> Tracked:
        """scale·q·k: scaled before the sum, after it, or half on each side, whichever errs most, and stored."""
        product = self._product(query, key.swapaxes(-1, -2), extra=3)
        after = self.store(product, "dot") * self.constant(scale)
        if not self.precision.rounds("prescale"):
            return self.store(after, "scores")
        before = (product * self.constant(scale)).error + self._prescaling(query, key, scale)
        return self.store(after.like(after.value, np.maximum(after.error, before)), "scores")

    @_quiet
    def total(self, a: Tracked) -> Tracked:
        """The sum over the last axis, in any order."""
        terms = np.maximum(np.count_nonzero(a.size, axis=-1, keepdims=True) - 1, 0)
        error = a.error.sum(-1, keepdims=True) + self._gamma(terms) * a.size.sum(-1, keepdims=True)
        return a.like(a.value.sum(-1, keepdims=True), error)

    def either(self, one: Tracked, other: Tracked) -> Tracked:
        """The first value, with the larger error."""
        return one.like(one.value, np.maximum(one.error, other.error))

    def concat(self, parts: list[Tracked], axis: int) -> Tracked:
        """The arrays one after another along an axis."""
        value, error = (np.concatenate([getattr(p, n) for p in parts], axis) for n in ("value", "error"))
        return parts[0].like(value, error)

    def store(self, a: Tracked, site: str) -> Tracked:
        """`a` after the rounding to storage that the site permits; out of range it may be anything."""
        if not self.precision.rounds(site):
            return self._in_range(a, self._range)
        if a.stored:
            return a
        form = self.precision.storage
        kept = self._in_range(a.like(a.value, a.error + half_ulp(a.size, form)), form.largest)
        return Tracked(kept.value, kept.error, self.precision, stored=True)

    @_quiet
    def softmax(self, scores: Tracked, allowed: Mask | None = None) -> Tracked:
        """The weights: each is moved by its own perturbation less the average of all."""
        p, moved, reach, lost = self._weights(scores, allowed)
        every, terms = moved.sum(-1, keepdims=True), _terms(reach)
        others = every - moved + terms * 2 * FLOAT64.unit * every  # the last for what the difference cancels
        own = np.minimum(moved * (1 - p) + p * others, reach)
        floor = self.precision.arithmetic.underflow + self._vanished() * (1 + terms * p)
        error = own + self._summing(terms) * reach + floor * (terms > 0)
        return scores.like(p, np.where(lost, np.inf, error))

    @_quiet
    def log_softmax(self, logits: Tracked) -> Tracked:
        """The logarithm of the softmax: of a sum of exponentials, or of a chain of log(e^a + e^b), whichever errs more.

        With |δ_j| ≤ ρ_j for the exponents, log Σ e^(s+δ) moves by at most log Σ p·e^ρ. A chain in any order rounds each
        of its partial results l_k, whose error counts by e^(l_k−l); and (|l|+x)·e^(−x) is at most max(|l|, e^(|l|−1)).
        """
        p, (gap, near) = _plain.softmax(logits.value), self._exponents(logits, None)
        own = self._library + self.precision.storage.unit * self.precision.rounds("exps")
        top, terms = self.shift(logits, None), np.asarray(float(logits.shape[-1]))
        swayed, inherited = (_log_mean(p, a) for a in (near + own, np.minimum(logits.error, _NO_INFORMATION)))
        summed = np.log(np.exp(logits.value - top).sum(-1, keepdims=True))
        whole = np.abs(summed + top)
        relative = self._summing(terms) + self.precision.storage.unit * self.precision.rounds("normaliser")
        logarithm = (self.precision.library + 2) * self._unit * (summed + swayed)
        directly = swayed - np.log1p(-np.minimum(relative, 0.5)) + logarithm + self._unit * np.maximum(gap, whole)
        partial = np.where(whole < 1, np.exp(whole - 1), whole)
        steps = self._gamma(terms - 1) * partial + 2 * self._unit * (self.precision.library + np.log(terms))
        normaliser = np.maximum(directly, inherited + steps)
        if self.precision.rounds("normaliser"):
            normaliser = normaliser + half_ulp(summed + normaliser, self.precision.storage)
        if self.precision.rounds("shifted"):
            normaliser = normaliser + half_ulp(gap + normaliser, self.precision.storage)
        value, error = logits.value - top - summed, normaliser + logits.error
        error = np.where(logits.error.max(-1, keepdims=True) < np.inf, logits._grown(value, error), np.inf)
        return self.store(logits.like(value, error), "logprobs")

    def weights(self, scores: Tracked, allowed: Mask | None) -> Tracked:
        """The weights that meet the values: a kernel that divides last has cast the masses, not their quotients."""
        exact, form = self.softmax(scores, allowed), self.precision.storage
        if not self.precision.rounds("probs"):
            return exact
        cast = np.where(exact.size > 0, form.unit * exact.size + form.underflow, 0.0)
        return exact.like(exact.value, exact.error + cast)

    @_quiet
    def recomputed(self, scores: Tracked, allowed: Mask | None) -> Tracked:
        """The weights, or e^(s − l): the error of l, and that of a score against it, does not cancel in the row."""
        kept = self.weights(scores, allowed)
        gap, near = self._exponents(scores, allowed)
        size = np.abs(scores.value) if allowed is None else np.where(allowed, np.abs(scores.value), 0.0)
        length = size.max(-1, keepdims=True) + np.log(scores.shape[-1])
        own = self._summing(_terms(kept.size)) + self._unit * (3 * length + 2 * gap)
        reach = np.minimum(near + near.max(-1, keepdims=True) + own, _EXP_RANGE)
        relative = np.expm1(reach) + self._library * np.exp(reach)
        floor = np.where(kept.size > 0, self.precision.arithmetic.underflow, 0.0)
        return kept.like(kept.value, np.maximum(kept.error, kept.value * relative + floor))

    @_quiet
    def weigh(self, scores: Tracked, value: Tracked, allowed: Mask | None) -> Tracked:
        """The average, its score errors in centred form: Σ p·ρ·(v−o)/Σ p(1+ρ) with |ρ| the relative ones."""
        p, moved, reach, lost = self._weights(scores, allowed)
        out, terms = p @ value.value, _terms(reach)
        spread = np.abs(value.value).max(-2, keepdims=True)
        swayed = np.minimum(_centred(moved, value.value, out), 2 * spread)
        stored = self.precision.storage.unit if self.precision.rounds("probs") else 0.0
        weighed = reach @ value.size
        inherited = reach @ value.error if value.error.any() else 0.0
        error = swayed + inherited + (self._summing(terms) + self._gamma(terms) + stored) * weighed
        error = error + self._floor(reach, value, out, terms)
        # A kernel that divides last holds up to `terms` times the average, which may overflow before.
        lost = lost.any(-1, keepdims=True) | (terms * weighed > self._range)
        return scores.like(out, np.where(lost, np.inf, error))

    def _weights(self, scores: Tracked, allowed: Mask | None) -> tuple[Floats, Floats, Floats, Mask]:
        """Weights, p·|ρ|/Σ p(1+ρ) for each, the most that each may become, and lost rows."""
        p = _plain.softmax(scores.value, allowed)
        gap, near = self._exponents(scores, allowed)
        own = self._library + self.precision.storage.unit * self.precision.rounds("exps")
        close = np.minimum(near, 1.0)
        relative = np.expm1(close) + own * np.exp(close)
        room = (p * np.exp(-close)).sum(-1, keepdims=True) * (1 - own)
        room = np.where(room > 0, room, 1.0)
        moved, reach = p * relative / room, np.minimum(p * (1 + relative) / room, 1.0)
        far = near.max(-1, keepdims=True) > 1
        if far.any():
            distant = _reach_of_far_scores(gap, near + 2 * own, allowed)
            moved, reach = np.where(far, distant, moved), np.where(far, distant, reach)
        lost = (scores.error == np.inf).any(-1, keepdims=True)  # one score out of range makes its whole row NaN
        return p, moved, reach, np.broadcast_to(lost, p.shape)

    def _exponents(self, scores: Tracked, allowed: Mask | None) -> tuple[Floats, Floats]:
        """How far each score lies below the largest, and how far the exponent made of it may be off.

        Three roundings are for a scale folded with log2(e) and for a running maximum m, |m| ≤ |s| + gap; one is
        for the subtraction of the maximum and two for an argument in base two.
        """
        gap = np.abs(scores.value - self.shift(scores, allowed))
        parts = (np.abs(scores.value), np.minimum(scores.error, _NO_INFORMATION), gap)
        size, seen, gap = (a if allowed is None else np.where(allowed, a, 0.0) for a in parts)
        near = seen + 3 * self._unit * (size + gap)
        if self.precision.rounds("shifted"):  # at the gap that the erring scores may have
            near = near + half_ulp(gap + seen + seen.max(-1, keepdims=True), self.precision.storage)
        return gap, near

    def _summing(self, terms: Floats) -> Floats:
        """The relative error common to a row: its sum, the division, online rescaling."""
        rescaled = (self.precision.library + 2) * np.ceil(terms / self.precision.block)
        stored = self.precision.storage.unit * self.precision.rounds("expsum")
        return self._gamma(terms + 4 + rescaled) + stored

    def _vanished(self) -> float:
        """The most that an exponential loses by underflow; their sum is at least about one."""
        stored = self.precision.rounds("exps")
        return (self.precision.storage if stored else self.precision.arithmetic).underflow

    def _floor(self, reach: Floats, value: Tracked, out: Floats, terms: Floats) -> Floats:
        """What underflow of weights costs, η·Σ|v|, and of exponentials, η·Σ|v−o|."""
        form = self.precision.storage if self.precision.rounds("probs") else self.precision.arithmetic
        sizes = (reach > 0).astype(float) @ value.size
        return (form.underflow + self._vanished()) * sizes + self._vanished() * terms * np.abs(out)

    @_quiet
    def _product(self, a: Tracked, b: Tracked, extra: int) -> Tracked:
        magnitude = np.abs(a.value) @ np.abs(b.value)
        exact = not (a.error.any() or b.error.any())
        full = magnitude if exact else a.size @ b.size
        inherited = 0.0 if exact else np.abs(a.value) @ b.error + a.error @ b.size
        terms = np.count_nonzero(a.size, axis=-1)[..., None] + extra
        own = self._gamma(terms) * full + terms * self.precision.arithmetic.underflow * (full > 0)
        error = np.where(full > self._range, np.inf, inherited + own)  # some order may overflow on the way
        return Tracked(a.value @ b.value, error, self.precision)

    def _prescaling(self, query: Tracked, key: Tracked, scale: Constant) -> Floats:
        """What it costs when query and key are stored after each took a share of the scale."""
        form, factor = self.precision.storage, abs(float(scale))
        lost = form.underflow * max(1.0, factor)
        query_sum, key_sum = (np.asarray(a.size.sum(-1, keepdims=True)) for a in (query, key))
        error = np.asarray(lost * (query_sum + key_sum.swapaxes(-1, -2)))
        if _root_is_power_of_two(scale):
            return error
        # Query and key are stored, and so is the root of the scale, which both take, where constants are;
        # `constant` has counted the scale once unless it is short.
        roots = (2 if scale.short else 1) * self.precision.rounds("constant")
        relative = (1 + form.unit) ** (2 + roots) - 1
        return np.asarray(error + relative * factor * (query.size @ key.size.swapaxes(-1, -2)))

    def _gamma(self, terms: Any) -> Floats:
        product = np.asarray(terms, np.float64) * self._unit
        return np.where(product < 0.5, product / (1 - np.minimum(product, 0.5)), np.inf)

    def _constant_error(self, c: Constant) -> float:
        if c.short:
            return 0.0
        return self.precision.storage.unit if self.precision.rounds("constant") else 2 * self._unit

    def _in_range(self, a: Tracked, largest: float) -> Tracked:
        beyond = a.size > largest
        return a.like(a.value, np.where(beyond, np.inf, a.error)) if beyond.any() else a


def _root_is_power_of_two(scale: Constant) -> bool:
    square = scale.rational
    root = None if square is None else Constant(Fraction(1), abs(square)).rational
    return root is not None and root.numerator & (root.numerator - 1) == 0 and Constant(root).short


def _bounded(error: Floats, most: float) -> Floats:
    """The error where it is under an a-priori range; infinity, which permits NaN, stays."""
    return np.where(error < np.inf, np.minimum(error, most), np.inf)


def _terms(p: Floats) -> Floats:
    return np.asarray(np.count_nonzero(p, axis=-1)[..., None], np.float64)


def _log_mean(p: Floats, exponents: Floats) -> Floats:
    """log Σ p·e^exponent over the last axis for exponents of at least zero."""
    top = exponents.max(-1, keepdims=True)
    mean = np.log((p * np.exp(exponents - top)).sum(-1, keepdims=True)) + top
    small = np.log1p((p * np.expm1(np.minimum(exponents, 1.0))).sum(-1, keepdims=True))
    return np.asarray(np.where(top < 1, small, np.minimum(mean, top)))


def _reach_of_far_scores(gap: Floats, near: Floats, allowed: Mask | None) -> Floats:
    """The most that each weight may become when exponents err by more than one, a bound of its movement too.

    Then e^(near−gap) counts even where the weight itself has underflowed: a far key may have become the nearest.
    With weights p′ that sum to one, o′−o = Σ p′(v−o), so Σ reach·|v−o| bounds it; and |p′−p| ≤ reach.
    """
    most, least = near - gap, -near - gap
    if allowed is not None:
        most, least = (np.where(allowed, a, -np.inf) for a in (most, least))
    top = least.max(-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.exp(least - top).sum(-1, keepdims=True)
    reach = np.exp(np.minimum(most - top, _EXP_RANGE)) / np.maximum(total, 1.0)
    return np.asarray(np.minimum(reach, 1.0))


def _centred(moved: Floats, value: Floats, out: Floats) -> Floats:
    """Σ moved·|v−o| for every feature, or its bound by Cauchy and Schwarz where that sum is too long."""
    if moved.size * value.shape[-1] <= _CENTRED_LIMIT:
        distance = np.abs(value[..., None, :, :] - out[..., :, None, :])
        return np.asarray((moved[..., None, :] @ distance)[..., 0, :])
    # Centred at the first key rather than the mean, which one huge value that few queries see would carry off.
    value, out = value - value[..., :1, :], out - value[..., :1, :]
    mass, second = moved.sum(-1, keepdims=True), moved @ (value * value)
    whole = second + mass * (out * out)
    lost = 4 * (moved.shape[-1] + 8) * FLOAT64.unit * whole  # what float64 may lose where the difference cancels
    square = whole - 2 * out * (moved @ value) + lost
    return np.asarray(np.sqrt(mass * np.maximum(square, 0.0)))
