"""Rounding-error bounds: the tracked evaluator carries, with each value, how far a declared precision may stray.

Every array is a pair (value, error): a correct implementation of the declared precision, whatever its order of
summation, blocking or fusion, computes a number within `error` of the exact one; `value` is the exact one but for
the error of float64, which `allowed` adds. The model of one operation is fl(x∘y) = (x∘y)(1+δ)+η with |δ| at most
the unit roundoff of the arithmetic and |η| at most its underflow; a sum of k terms in any order is off by at most
γ(k)·Σ|terms| with γ(k) = ku/(1−ku) (Higham, Accuracy and Stability of Numerical Algorithms, chapters 2 to 4).
"""

from fractions import Fraction
from typing import Any, Self

import numpy as np

from gnomon.spec.constants import Constant
from gnomon.spec.evaluators import Evaluator, Float64, Floats, Mask
from gnomon.spec.precision import FLOAT64, Format, Precision

_NO_INFORMATION = 1e90  # an error this large says nothing, yet is no licence for NaN as infinity is
_EXP_RANGE = 700.0  # e^700 is still finite in float64
_CENTRED_LIMIT = 200_000  # above so many products the centred sum is bounded by Cauchy and Schwarz instead
_SECOND_ORDER = 1 + 2.0**-15  # covers products of library errors, which are dropped; measured below 2e-6

_plain = Float64()


def half_ulp(x: Floats, form: Format) -> Floats:
    """Half the spacing of the format at |x|, the most that rounding to it moves x; zero stays exact."""
    spacing = np.ldexp(form.unit, np.frexp(x)[1] - 1)
    return np.where(x == 0, 0.0, np.maximum(spacing, form.underflow))


def round_to(x: Floats, form: Format) -> Floats:
    """The nearest numbers of the format, ties to even, in one rounding from float64."""
    if form is FLOAT64:
        return np.asarray(x, np.float64)
    smallest = 2.0 ** (-24 if form.name == "float16" else -149 if form.name == "float32" else -133)
    step = np.maximum(np.ldexp(2 * form.unit, np.frexp(x)[1] - 1), smallest)
    near = np.rint(x / step) * step
    return np.where(np.abs(near) > form.largest, np.copysign(np.inf, near), near)


class Tracked:
    """Values with their error bounds, elementwise and absolute; an infinite bound permits NaN."""

    __array_priority__ = 100
    __slots__ = ("error", "precision", "value")

    def __init__(self, value: Floats, error: Floats, precision: Precision):
        self.value, self.precision = value, precision
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
        form = self.precision.arithmetic
        return self.like(value, error + times * form.unit * (np.abs(value) + error) + form.underflow)

    def __add__(self, other: Any) -> Self:
        o = self._lift(other)
        exact = (o.size == 0) | (self.size == 0)
        sum_ = self.rounded(self.value + o.value, self.error + o.error)
        return self.like(sum_.value, np.where(exact, self.error + o.error, sum_.error))

    def __neg__(self) -> Self:
        return self.like(-self.value, self.error)

    def __sub__(self, other: Any) -> Self:
        return self + (-self._lift(other))

    def __mul__(self, other: Any) -> Self:
        o = self._lift(other)
        error = np.abs(self.value) * o.error + self.error * np.abs(o.value) + self.error * o.error
        return self.rounded(self.value * o.value, error)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> Self:
        """The quotient, rounded twice: some multiply by a rounded reciprocal."""
        o = self._lift(other)
        value, room = self.value / o.value, np.abs(o.value) - o.error
        error = np.where(
            room > 0, (self.error + np.abs(value) * o.error) / np.where(room > 0, room, 1), np.inf
        )
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

    Every term of a bound is zero at u = 0 and convex in u, so the float64 value, whose roundoff is
    smaller by the factor λ, is within λ times the bound; for float64 itself that doubles it.
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

    def number(self, x: Any) -> Tracked:
        """The array without error; tracked numbers come back unchanged."""
        if isinstance(x, Tracked):
            return x
        value = np.asarray(x, np.float64)
        return Tracked(value, np.zeros_like(value), self.precision)

    def constant(self, c: Constant) -> Tracked:
        """The constant, with the error of two roundings unless every format holds it."""
        value = np.asarray(float(c))
        return Tracked(value, np.abs(value) * self._constant_error(c), self.precision)

    def exp(self, a: Tracked) -> Tracked:
        """e to the a; the argument may be split or multiplied by log2(e), so its size counts."""
        top = np.exp(np.minimum(a.value + a.error, _EXP_RANGE))
        own = (self.precision.library + 2 * np.abs(a.value)) * self._unit * top
        value = np.exp(np.minimum(a.value, _EXP_RANGE))
        error = value * np.expm1(np.minimum(a.error, _EXP_RANGE)) + own + self.precision.arithmetic.underflow
        return a.like(value, np.where(a.error < np.inf, error, np.inf))

    def tanh(self, a: Tracked) -> Tracked:
        """The hyperbolic tangent, of slope at most one and absolute library error."""
        return a.like(np.tanh(a.value), _bounded(a.error, 2.0) + self._library)

    def erf(self, a: Tracked) -> Tracked:
        """The error function: slope at most 2/√π·exp(−m²) for the smallest |argument| m in reach."""
        near = np.maximum(np.abs(a.value) - a.error, 0.0)
        slope = 2 / np.sqrt(np.pi) * np.exp(-(near**2))
        error = np.where(a.error < np.inf, np.minimum(slope * a.error, 2.0), np.inf)
        return a.like(_plain.erf(a.value), error + self.precision.erf * self._unit)

    def sigmoid(self, a: Tracked) -> Tracked:
        """1/(1 + e^-a), of relative slope at most one."""
        value = _plain.sigmoid(a.value)
        own = (self.precision.library + 3 + 2 * np.minimum(np.abs(a.value), _EXP_RANGE)) * self._unit
        near = _bounded(value * np.expm1(np.minimum(a.error, _EXP_RANGE)), 1.0)
        near = np.where(a.error < np.inf, near, np.inf)
        return a.like(value, near + own * (value + near) + self.precision.arithmetic.underflow)

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

    def affine(self, x: Tracked, weight: Tracked, bias: Tracked) -> Tracked:
        """x·weight + bias, whether the bias starts the sum, ends it, or meets a stored product."""
        product = self._product(x, weight, extra=1)
        terms = np.count_nonzero(x.size, axis=-1)[..., None]
        own = self._gamma(terms + 1) * bias.size
        stored = half_ulp(product.size, self.precision.storage) if self.precision.rounds("prebias") else 0.0
        return product.like(product.value + bias.value, product.error + bias.error + own + stored)

    def scores(self, query: Tracked, key: Tracked, scale: Constant) -> Tracked:
        """scale·q·k: scaled before the sum, after it, or half on each side, stored wherever that may be."""
        dot = self.store(self._product(query, key.swapaxes(-1, -2), extra=3), "dot")
        scaled = dot * self.constant(scale)
        error = scaled.error + self._prescaling(query, key, scale)
        return self.store(scaled.like(scaled.value, error), "scores")

    def total(self, a: Tracked) -> Tracked:
        """The sum over the last axis, in any order."""
        terms = np.maximum(np.count_nonzero(a.size, axis=-1, keepdims=True) - 1, 0)
        error = a.error.sum(-1, keepdims=True) + self._gamma(terms) * a.size.sum(-1, keepdims=True)
        return a.like(a.value.sum(-1, keepdims=True), error)

    def concat(self, parts: list[Tracked], axis: int) -> Tracked:
        """The arrays one after another along an axis."""
        value, error = (np.concatenate([getattr(p, n) for p in parts], axis) for n in ("value", "error"))
        return parts[0].like(value, error)

    def store(self, a: Tracked, site: str) -> Tracked:
        """`a` after the rounding to storage that the site permits; out of range it may be anything."""
        if not self.precision.rounds(site):
            return self._in_range(a, self._range)
        form = self.precision.storage
        return self._in_range(a.like(a.value, a.error + half_ulp(a.size, form)), form.largest)

    def softmax(self, scores: Tracked, allowed: Mask | None = None) -> Tracked:
        """The weights: each is moved by its own perturbation less the average of all."""
        p, relative, room, lost = self._weights(scores, allowed)
        average = (p * relative).sum(-1, keepdims=True)
        centred = p * (relative * (1 - p) + average - p * relative) / room
        summing, floor = self._summing(p)
        error = np.minimum(centred, 1.0) + summing * np.minimum(p * (1 + relative) / room, 1.0) + floor
        return scores.like(p, np.where(lost, np.inf, error))

    def weigh(self, scores: Tracked, value: Tracked, allowed: Mask | None) -> Tracked:
        """The average, its score errors in centred form: Σ p·ρ·(v−o)/Σ p(1+ρ) with |ρ| the relative ones."""
        p, relative, room, lost = self._weights(scores, allowed)
        out = p @ value.value
        spread = np.abs(value.value).max(-2, keepdims=True)
        moved = np.minimum(_centred(p, relative, value.value, out) / room, 2 * spread)
        reach = np.minimum(p * (1 + relative) / room, 1.0)
        summing, floor = self._summing(p)
        stored = self.precision.storage.unit if self.precision.rounds("probs") else 0.0
        error = (
            moved + reach @ value.error + (summing + self._gamma(_terms(p)) + stored) * (reach @ value.size)
        )
        error = error + floor * _terms(p) * value.size.max(-2, keepdims=True)
        return scores.like(out, np.where(lost.any(-1, keepdims=True), np.inf, error))

    def _weights(self, scores: Tracked, allowed: Mask | None) -> tuple[Floats, Floats, Floats, Mask]:
        """Weights, the relative error of each mass, the least the total may shrink to, and lost rows."""
        p = _plain.softmax(scores.value, allowed)
        gap = np.where(p > 0, np.abs(scores.value - self.shift(scores, allowed)), 0.0)
        seen = np.where(np.isfinite(scores.error), scores.error, _EXP_RANGE)
        seen = seen if allowed is None else np.where(allowed, seen, 0.0)
        # Three roundings for a scale folded with log2(e), one for the subtraction of the maximum.
        near = np.minimum(seen + self._unit * (3 * np.abs(scores.value) + gap), _EXP_RANGE)
        near = near + half_ulp(gap, self.precision.storage) * self.precision.rounds("shifted")
        own = self._library + 2 * gap * self._unit
        own = own + self.precision.storage.unit * self.precision.rounds("exps")
        relative = np.expm1(near) + own * np.exp(near)
        room = (p * np.exp(-near) * np.maximum(1 - own, 0.0)).sum(-1, keepdims=True)
        lost = np.broadcast_to(scores.error == np.inf, p.shape)
        return p, relative, np.maximum(room, 1e-300), lost

    def _summing(self, p: Floats) -> tuple[Floats, float]:
        """The relative error common to a row (its sum, the division, online rescaling) and the underflow."""
        terms = _terms(p)
        rescaled = (self.precision.library + 2) * np.ceil(terms / self.precision.block)
        stored = self.precision.storage.unit * self.precision.rounds("expsum")
        form = self.precision.storage if self.precision.rounds("probs") else self.precision.arithmetic
        return self._gamma(terms + 4 + rescaled) + stored, form.underflow

    def _product(self, a: Tracked, b: Tracked, extra: int) -> Tracked:
        magnitude = np.abs(a.value) @ np.abs(b.value)
        full = a.size @ b.size if a.error.any() or b.error.any() else magnitude
        inherited = np.abs(a.value) @ b.error + a.error @ b.size if full is not magnitude else 0.0
        terms = np.count_nonzero(a.size, axis=-1)[..., None] + extra
        own = self._gamma(terms) * full + terms * self.precision.arithmetic.underflow * (full > 0)
        return Tracked(a.value @ b.value, inherited + own, self.precision)

    def _prescaling(self, query: Tracked, key: Tracked, scale: Constant) -> Floats | float:
        """What it costs when query and key are stored after each took a share of the scale."""
        if not self.precision.rounds("prescale"):
            return 0.0
        form, factor = self.precision.storage, abs(float(scale))
        lost = form.underflow * max(1.0, factor)
        ones = np.ones_like(key.size), np.ones_like(query.size)
        error = lost * (query.size @ ones[0].swapaxes(-1, -2) + ones[1] @ key.size.swapaxes(-1, -2))
        if _root_is_short(scale):
            return error
        return error + (2 + form.unit) * form.unit * factor * (query.size @ key.size.swapaxes(-1, -2))

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


def _root_is_short(scale: Constant) -> bool:
    value = scale.rational
    return value is not None and value > 0 and Constant(Fraction(1), value).short


def _bounded(error: Floats, most: float) -> Floats:
    """The error where it is under an a-priori range; infinity, which permits NaN, stays."""
    return np.where(error < np.inf, np.minimum(error, most), np.inf)


def _terms(p: Floats) -> Floats:
    return np.asarray(np.count_nonzero(p, axis=-1)[..., None], np.float64)


def _centred(p: Floats, relative: Floats, value: Floats, out: Floats) -> Floats:
    """Σ p·ρ·|v−o| for every feature, or its bound by Cauchy and Schwarz where that sum is too long."""
    if p.size * value.shape[-1] <= _CENTRED_LIMIT:
        distance = np.abs(value[..., None, :, :] - out[..., :, None, :])
        return np.asarray(((p * relative)[..., None, :] @ distance)[..., 0, :])
    centre = value.mean(-2, keepdims=True)
    second = p @ (value - centre) ** 2
    variance = np.maximum(second - (out - centre) ** 2, 0.0) + 2.0**-46 * second
    return np.sqrt((p * relative**2).sum(-1, keepdims=True)) * np.sqrt(variance)
