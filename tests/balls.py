"""Balls: the equations in midpoint-radius arithmetic, whose every result encloses the exact one."""

from fractions import Fraction
from typing import Any

import flint
import numpy as np

from gnomon.spec.constants import Constant
from gnomon.spec.evaluators import Evaluator, Mask, Quantity

BITS = 160
OWN_SHARE = 0.5  # of the roundoffs that an equation allows for numbers worked out apart, those that float64 makes
flint.ctx.prec = BITS


def _ratio(value: Fraction) -> flint.arb:
    return flint.arb(flint.fmpq(value.numerator, value.denominator))


_number = np.frompyfunc(lambda x: x if isinstance(x, flint.arb) else flint.arb(float(x)), 1, 1)
_middle = np.frompyfunc(lambda x: float(x.mid()), 1, 1)
_exp = np.frompyfunc(flint.arb.exp, 1, 1)
_tanh = np.frompyfunc(flint.arb.tanh, 1, 1)
_erf = np.frompyfunc(flint.arb.erf, 1, 1)
_sigmoid = np.frompyfunc(lambda x: 1 / (1 + (-x).exp()), 1, 1)
_cos = np.frompyfunc(lambda x: _swayed(x.mid().cos(), x.mid().sin(), x.rad()), 1, 1)
_sin = np.frompyfunc(lambda x: _swayed(x.mid().sin(), x.mid().cos(), x.rad()), 1, 1)
_log = np.frompyfunc(flint.arb.log, 1, 1)
_rsqrt = np.frompyfunc(flint.arb.rsqrt, 1, 1)
_rectify = np.frompyfunc(lambda x: x.max(flint.arb(0)), 1, 1)


def _swayed(middle: flint.arb, slope: flint.arb, radius: flint.arb) -> flint.arb:
    """The middle give or take |slope|·r + r²/2, which is less than FLINT's own r where the slope is small."""
    return middle + (abs(slope) + radius / 2) * radius * flint.arb(0, 1)


def _objects(a: Any) -> Quantity:
    """The array itself where a ufunc over no axes gave a bare ball."""
    wrapped = np.empty((), object)
    wrapped[()] = a
    return a if isinstance(a, np.ndarray) else wrapped


class Balls(Evaluator):
    """Arrays of balls; constants enter exactly and nothing is ever rounded without being counted."""

    def number(self, x: Any) -> Quantity:
        return _objects(_number(np.asarray(x, None if isinstance(x, np.ndarray) else float)))

    def constant(self, c: Constant) -> Quantity:
        root = _ratio(c.root) / flint.arb.pi() if c.over_pi else _ratio(c.root)
        return _objects(_ratio(c.ratio) * root.sqrt())

    def exp(self, a: Quantity) -> Quantity:
        return _objects(_exp(a))

    def tanh(self, a: Quantity) -> Quantity:
        return _objects(_tanh(a))

    def erf(self, a: Quantity) -> Quantity:
        return _objects(_erf(a))

    def sigmoid(self, a: Quantity) -> Quantity:
        return _objects(_sigmoid(a))

    def cos(self, a: Quantity) -> Quantity:
        return _objects(_cos(a))

    def sin(self, a: Quantity) -> Quantity:
        return _objects(_sin(a))

    def log(self, a: Quantity) -> Quantity:
        return _objects(_log(a))

    def rsqrt(self, a: Quantity) -> Quantity:
        return _objects(_rsqrt(a))

    def computed(self, value: Any, roundoffs: Any) -> Quantity:
        """The float64 numbers are off themselves, by half of what is allowed them at most: tests certify that apart."""
        radius = np.abs(value) * np.asarray(roundoffs) * OWN_SHARE * 2.0**-53
        return _objects(np.frompyfunc(lambda v, r: flint.arb(v, r), 2, 1)(np.asarray(value, float), radius))

    def rectify(self, a: Quantity) -> Quantity:
        return _objects(_rectify(a))

    def select(self, mask: Mask | None, a: Quantity) -> Quantity:
        return a if mask is None else np.where(mask, a, flint.arb(0))

    def shift(self, scores: Quantity, allowed: Mask | None) -> Quantity:
        middle = _middle(scores).astype(float)
        top = (middle if allowed is None else np.where(allowed, middle, -np.inf)).max(-1, keepdims=True)
        return self.number(np.where(np.isfinite(top), top, 0.0))

    def matmul(self, a: Quantity, b: Quantity) -> Quantity:
        if a.ndim == 2 and b.ndim == 2:
            product = flint.arb_mat(a.tolist()) * flint.arb_mat(b.tolist())
            return np.array(product.entries(), object).reshape(a.shape[0], b.shape[1])
        leading = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (np.broadcast_to(x, (*leading, *x.shape[-2:])) for x in (a, b))
        result = np.empty((*leading, a.shape[-2], b.shape[-1]), object)
        for i in np.ndindex(*leading):
            result[i] = self.matmul(a[i], b[i])
        return result


def farthest(values: Any, balls: Quantity) -> Any:
    """The largest distance from each float to a point of its ball."""
    distance = np.frompyfunc(lambda v, ball: float(abs(flint.arb(v) - ball).upper()), 2, 1)
    return distance(np.asarray(values, float), balls).astype(float)


def nearest(values: Any, balls: Quantity) -> Any:
    """The smallest distance from each float to a point of its ball."""
    distance = np.frompyfunc(lambda v, ball: float(abs(flint.arb(v) - ball).lower()), 2, 1)
    return distance(np.asarray(values, float), balls).astype(float)
