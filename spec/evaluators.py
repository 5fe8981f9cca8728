"""Evaluators: the equations are written once over this interface and run as floats, bounds, symbols or balls."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gnomon.spec.constants import Constant

# An array of the evaluator's own numbers, with + - * / [] reshape swapaxes repeat and shape.
Quantity = Any
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


class Evaluator(ABC):
    """The operations that the equations are made of; every array is `[..., rows, features]`."""

    @abstractmethod
    def number(self, x: Any) -> Quantity:
        """The array as the evaluator's numbers, exact; its own numbers come back unchanged."""

    def given(self, x: Any) -> Quantity:
        """The array as an implementation is given it: exact, and in storage already."""
        return self.number(x)

    @abstractmethod
    def constant(self, c: Constant) -> Quantity:
        """The constant, as exactly as the evaluator can say it."""

    @abstractmethod
    def exp(self, a: Quantity) -> Quantity:
        """e to the a."""

    @abstractmethod
    def tanh(self, a: Quantity) -> Quantity:
        """The hyperbolic tangent."""

    @abstractmethod
    def erf(self, a: Quantity) -> Quantity:
        """The error function."""

    @abstractmethod
    def sigmoid(self, a: Quantity) -> Quantity:
        """1/(1 + e^-a)."""

    @abstractmethod
    def cos(self, a: Quantity) -> Quantity:
        """The cosine."""

    @abstractmethod
    def sin(self, a: Quantity) -> Quantity:
        """The sine."""

    @abstractmethod
    def log(self, a: Quantity) -> Quantity:
        """The natural logarithm."""

    @abstractmethod
    def rsqrt(self, a: Quantity) -> Quantity:
        """1/√a."""

    @abstractmethod
    def rectify(self, a: Quantity) -> Quantity:
        """The larger of a and zero."""

    @abstractmethod
    def select(self, mask: Mask | None, a: Quantity) -> Quantity:
        """`a` where the mask is true and an exact zero elsewhere; never a product with zero."""

    @abstractmethod
    def shift(self, scores: Quantity, allowed: Mask | None) -> Quantity:
        """A number per row that keeps exponentials in range; any will do, since softmax cancels it."""

    def matmul(self, a: Quantity, b: Quantity) -> Quantity:
        """The product over the last axis of `a` and the last but one of `b`."""
        return a @ b

    def affine(self, x: Quantity, weight: Quantity, bias: Quantity) -> Quantity:
        """x·weight + bias, one sum a term longer."""
        return self.matmul(x, weight) + bias

    def scores(self, query: Quantity, key: Quantity, scale: Constant) -> Quantity:
        """scale·q·k for every pair; an implementation may scale before the product, after it or half each."""
        return self.matmul(query, key.swapaxes(-1, -2)) * self.constant(scale)

    def total(self, a: Quantity) -> Quantity:
        """The sum over the last axis, kept as an axis of length one."""
        return np.add.reduce(a, axis=-1, keepdims=True)

    def reduced(self, a: Quantity, shape: tuple[int, ...]) -> Quantity:
        """The array summed over every axis along which that shape is broadcast to its own."""
        a = np.add.reduce(a, axis=tuple(range(a.ndim - len(shape)))) if a.ndim > len(shape) else a
        spread = tuple(i for i, n in enumerate(shape) if n == 1 and a.shape[i] != 1)
        return np.add.reduce(a, axis=spread, keepdims=True) if spread else a

    def scattered(self, a: Quantity, index: Any, shape: tuple[int, ...]) -> Quantity:
        """Zeros of that shape, to which the entries are added at the places that the index names."""
        whole = np.array(np.broadcast_to(self.number(0), shape))
        np.add.at(whole, index, a)
        return whole

    def summed_products(self, pairs: Sequence[tuple[Quantity, Quantity]]) -> Quantity:
        """The sum of several products of matrices, as one sum or as several, of which each may be stored."""
        whole = self.matmul(*pairs[0])
        for pair in pairs[1:]:
            whole = whole + self.matmul(*pair)
        return whole

    def gate(self, a: Quantity, g: Quantity) -> Quantity:
        """`g` where `a` lies above zero and nothing where it lies below; at the bend itself it may be either."""
        return self.select(np.asarray(a) > 0, g)

    def added(self, parts: list[Quantity], site: str) -> Quantity:
        """The sum of several arrays in any order, which may be stored after every addition."""
        whole = parts[0]
        for part in parts[1:]:
            whole = self.store(whole + part, site)
        return whole

    def computed(self, value: Floats, roundoffs: Floats) -> Quantity:
        """Numbers that an implementation works out in its own arithmetic, off by so many roundoffs of themselves."""
        return self.number(value)

    def standardise(self, x: Quantity, epsilon: Constant, centred: bool) -> Quantity:
        """Each row, less its mean where centred, over the root of its mean square plus epsilon."""
        kept = x - self.total(x) / self.number(x.shape[-1]) if centred else x
        return kept * self.inverse_spread(kept, epsilon)

    def inverse_spread(self, kept: Quantity, epsilon: Constant) -> Quantity:
        """One over the root of each row's mean square plus epsilon."""
        return self.rsqrt(self.total(kept * kept) / self.number(kept.shape[-1]) + self.constant(epsilon))

    def row_spread(self, x: Quantity, kept: Quantity, epsilon: Constant) -> Quantity:
        """The same of rows x less their mean, for which a variance in one pass may have been taken."""
        return self.inverse_spread(kept, epsilon)

    def sqrt(self, a: Quantity) -> Quantity:
        """√a of an `a` that is not negative."""
        raise NotImplementedError(f"{type(self).__name__} takes no roots")

    def complement(self, base: Constant, times: int) -> Quantity:
        """1 − base^times of a fraction, which an implementation computes as a power and a difference."""
        return self.constant(Constant(1 - base.ratio**times))

    def either(self, one: Quantity, other: Quantity) -> Quantity:
        """One quantity by two ways, of which an implementation may go either."""
        return one

    def concat(self, parts: list[Quantity], axis: int) -> Quantity:
        """The arrays one after another along an axis."""
        return np.concatenate(parts, axis)

    def store(self, a: Quantity, site: str) -> Quantity:
        """`a`; an implementation of narrow storage may round it here."""
        return a

    def softmax(self, scores: Quantity, allowed: Mask | None = None) -> Quantity:
        """Weights over the last axis, zero where not allowed; a row with nothing allowed is all zero."""
        shifted = self.select(allowed, scores - self.shift(scores, allowed))
        mass = self.select(allowed, self.exp(shifted))
        empty = None if allowed is None else ~allowed.any(-1, keepdims=True)
        total = self.total(mass)
        return mass / (total if empty is None else total + self.number(empty.astype(float)))

    def log_softmax(self, logits: Quantity) -> Quantity:
        """The logarithm of the softmax over the last axis, its shift subtracted before the logarithm of the sum."""
        shifted = logits - self.shift(logits, None)
        return self.store(shifted - self.log(self.total(self.exp(shifted))), "logprobs")

    def recomputed(self, scores: Quantity, allowed: Mask | None) -> Quantity:
        """The weights as a backward pass may have them: kept, or e^(s − l) with the logarithm l of the row's total."""
        return self.weights(scores, allowed)

    def weigh(self, scores: Quantity, value: Quantity, allowed: Mask | None) -> Quantity:
        """The average of the values under the softmax of the scores."""
        return self.matmul(self.weights(scores, allowed), value)

    def weights(self, scores: Quantity, allowed: Mask | None) -> Quantity:
        """The softmax of the scores as the product with the values takes it."""
        return self.store(self.softmax(scores, allowed), "probs")


_erf = np.frompyfunc(math.erf, 1, 1)


class Float64(Evaluator):
    """Values, in NumPy's float64."""

    def number(self, x: Any) -> Floats:
        """The array in float64."""
        return np.asarray(x, np.float64)

    def constant(self, c: Constant) -> Floats:
        """The nearest float64."""
        return np.asarray(float(c))

    def exp(self, a: Floats) -> Floats:
        """e to the a."""
        return np.asarray(np.exp(a))

    def tanh(self, a: Floats) -> Floats:
        """The hyperbolic tangent."""
        return np.asarray(np.tanh(a))

    def erf(self, a: Floats) -> Floats:
        """The error function."""
        return np.asarray(_erf(a), np.float64)

    def sigmoid(self, a: Floats) -> Floats:
        """1/(1 + e^-a), by the branch that does not overflow."""
        small = np.exp(-np.abs(a))
        return np.asarray(np.where(a >= 0, 1.0, small) / (1.0 + small))

    def cos(self, a: Floats) -> Floats:
        """The cosine."""
        return np.asarray(np.cos(a))

    def sin(self, a: Floats) -> Floats:
        """The sine."""
        return np.asarray(np.sin(a))

    def log(self, a: Floats) -> Floats:
        """The natural logarithm."""
        return np.asarray(np.log(a))

    def rsqrt(self, a: Floats) -> Floats:
        """1/√a."""
        return np.asarray(1 / np.sqrt(a))

    def sqrt(self, a: Floats) -> Floats:
        """√a."""
        return np.asarray(np.sqrt(a))

    def rectify(self, a: Floats) -> Floats:
        """The larger of a and zero."""
        return np.maximum(a, 0.0)

    def select(self, mask: Mask | None, a: Floats) -> Floats:
        """`a` where the mask is true, zero elsewhere."""
        return a if mask is None else np.where(mask, a, 0.0)

    def shift(self, scores: Floats, allowed: Mask | None) -> Floats:
        """The largest allowed score of each row, zero for a row with none."""
        top = (scores if allowed is None else np.where(allowed, scores, -np.inf)).max(-1, keepdims=True)
        return np.where(np.isfinite(top), top, 0.0)
