"""An adversary among roundings: the equations with every elementary operation disturbed as far as it may be.

Each operation and each store carries a disturbance between −1 and 1 of the largest admissible error. A first
pass finds which way each moves the target, the next sets all of them to that sign, and signs are chosen anew
where the disturbed equations bend. Whatever is reached is reachable, so a bound below it is wrong and a bound
far above it is lazy.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnomon.spec.bounds import half_ulp
from gnomon.spec.constants import Constant
from gnomon.spec.evaluators import Evaluator, Mask
from gnomon.spec.precision import FLOAT64, Precision

ROUNDS = 4


class Disturbed:
    """A tensor whose every operation is disturbed by the attack that it belongs to."""

    def __init__(self, tensor: Tensor, attack: "Attack", stored: bool = False):
        self.tensor, self.attack, self.stored = tensor, attack, stored

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    def like(self, tensor: Tensor) -> "Disturbed":
        return Disturbed(tensor, self.attack)

    def __add__(self, other: "Disturbed") -> "Disturbed":
        return self.like(self.attack.rounded(self.tensor + other.tensor, _apart(self.tensor, other.tensor)))

    def __sub__(self, other: "Disturbed") -> "Disturbed":
        return self.like(self.attack.rounded(self.tensor - other.tensor, _apart(self.tensor, other.tensor)))

    def __neg__(self) -> "Disturbed":
        return Disturbed(-self.tensor, self.attack, self.stored)

    def __mul__(self, other: "Disturbed") -> "Disturbed":
        return self.like(self.attack.rounded(self.tensor * other.tensor))

    def __truediv__(self, other: "Disturbed") -> "Disturbed":
        return self.like(self.attack.rounded(self.tensor / other.tensor, times=2))

    def __getitem__(self, index: Any) -> "Disturbed":
        return Disturbed(self.tensor[index], self.attack, self.stored)

    def swapaxes(self, a: int, b: int) -> "Disturbed":
        return self.like(self.tensor.swapaxes(a, b))

    def reshape(self, *shape: int) -> "Disturbed":
        return self.like(self.tensor.reshape(*shape))


def _apart(a: Tensor, b: Tensor) -> Tensor:
    """One where neither is zero: a sum with an exact zero does not round."""
    return ((a != 0) & (b != 0)).to(torch.float64)


class Attack(Evaluator):
    """Float64 in which disturbances stand for the roundings of a declared precision."""

    def __init__(self, precision: Precision, chosen: list[Tensor] | None = None, scaled_first: bool = False):
        self.precision, self.unit = precision, precision.arithmetic.unit
        self.disturbances: list[Tensor] = []
        self._chosen = None if chosen is None else iter(chosen)
        self._scaled_first = scaled_first

    def disturb(self, x: Tensor, most: Tensor) -> Tensor:
        """x moved by at most `most`, by the chosen share of it or by none yet."""
        share = torch.zeros_like(x) if self._chosen is None else next(self._chosen).clone()
        self.disturbances.append(share.requires_grad_())
        return x + share * most.detach()

    def rounded(self, x: Tensor, times: float | Tensor = 1.0) -> Tensor:
        return self.disturb(x, times * self.unit * x.abs())

    def number(self, x: Any) -> Disturbed:
        return x if isinstance(x, Disturbed) else Disturbed(torch.tensor(np.asarray(x, float)), self)

    def given(self, x: Any) -> Disturbed:
        return x if isinstance(x, Disturbed) else Disturbed(self.number(x).tensor, self, stored=True)

    def constant(self, c: Constant) -> Disturbed:
        value = torch.tensor(float(c), dtype=torch.float64)
        stored = self.precision.rounds("constant")
        times = self.precision.storage.unit / self.unit if stored else 2.0
        return Disturbed(value if c.short else self.rounded(value, times), self)

    def exp(self, a: Disturbed) -> Disturbed:
        argument = self.disturb(a.tensor, 2 * self.unit * a.tensor.abs())
        return a.like(self.rounded(torch.exp(argument), self.precision.library))

    def tanh(self, a: Disturbed) -> Disturbed:
        value = torch.tanh(a.tensor)
        return a.like(self.disturb(value, torch.full_like(value, self.precision.library * self.unit)))

    def erf(self, a: Disturbed) -> Disturbed:
        value = torch.erf(a.tensor)
        return a.like(self.disturb(value, torch.full_like(value, self.precision.erf * self.unit)))

    def sigmoid(self, a: Disturbed) -> Disturbed:
        one = self.number(1.0)
        power = self.store(self.exp(a.like(-a.tensor)), "steps")
        return one / self.store(one + power, "steps")

    def computed(self, value: Any, roundoffs: Any) -> Disturbed:
        exact, times = (torch.tensor(np.asarray(a, float)) for a in (value, roundoffs))
        return Disturbed(self.disturb(exact, times * self.unit * exact.abs()), self)

    def cos(self, a: Disturbed) -> Disturbed:
        return a.like(self._by_library(torch.cos(a.tensor), a))

    def sin(self, a: Disturbed) -> Disturbed:
        return a.like(self._by_library(torch.sin(a.tensor), a))

    def _by_library(self, value: Tensor, a: Disturbed) -> Tensor:
        """The value with the absolute error of a library, exact at zero."""
        return self.disturb(value, torch.where(a.tensor == 0, 0.0, self.precision.library * self.unit))

    def log(self, a: Disturbed) -> Disturbed:
        return a.like(self.rounded(torch.log(a.tensor), self.precision.library))

    def rsqrt(self, a: Disturbed) -> Disturbed:
        return a.like(self.rounded(torch.rsqrt(a.tensor), self.precision.library))

    def sqrt(self, a: Disturbed) -> Disturbed:
        return a.like(self.rounded(torch.sqrt(a.tensor), self.precision.library))

    def complement(self, base: Constant, times: int) -> Disturbed:
        value = torch.tensor(float(1 - base.ratio**times), dtype=torch.float64)
        cast = self.precision.storage.unit / self.unit if self.precision.rounds("constant") else 2.0
        return Disturbed(self.rounded(value, cast), self)

    def either(self, one: Disturbed, other: Disturbed) -> Disturbed:
        return other if self._scaled_first else one

    def concat(self, parts: list[Disturbed], axis: int) -> Disturbed:
        return parts[0].like(torch.cat([p.tensor for p in parts], axis))

    def rectify(self, a: Disturbed) -> Disturbed:
        return Disturbed(torch.relu(a.tensor), self, a.stored)

    def select(self, mask: Mask | None, a: Disturbed) -> Disturbed:
        return a if mask is None else a.like(torch.where(torch.tensor(mask), a.tensor, 0.0))

    def shift(self, scores: Disturbed, allowed: Mask | None) -> Disturbed:
        return self.number(scores.tensor.detach().max(-1, keepdim=True).values.numpy())

    def total(self, a: Disturbed) -> Disturbed:
        return a.like(self._in_turn(a.tensor)[..., None])

    def reduced(self, a: Disturbed, shape: tuple[int, ...]) -> Disturbed:
        extra = a.tensor.ndim - len(shape)
        over = [*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1 and a.shape[i + extra] != 1)]
        if not over:
            return a
        kept = [i for i in range(a.tensor.ndim) if i not in over]
        terms = a.tensor.permute(*kept, *over).flatten(len(kept))
        return a.like(self._in_turn(terms).reshape(shape))

    def scattered(self, a: Disturbed, index: Any, shape: tuple[int, ...]) -> Disturbed:
        """Every entry to a place of its own."""
        places = torch.arange(int(np.prod(shape))).reshape(shape).numpy()[index]
        assert len(set(places.ravel())) == places.size
        whole = torch.zeros(int(np.prod(shape)), dtype=torch.float64)
        return a.like(whole.index_put((torch.tensor(places.ravel()),), a.tensor.reshape(-1)).reshape(shape))

    def gate(self, a: Disturbed, g: Disturbed) -> Disturbed:
        return g.like(torch.where(a.tensor > 0, g.tensor, 0.0))

    def matmul(self, a: Disturbed, b: Disturbed) -> Disturbed:
        return a.like(self._in_turn(self._products(a.tensor, b.tensor)))

    def affine(self, x: Disturbed, weight: Disturbed, bias: Disturbed) -> Disturbed:
        if self.precision.rounds("prebias"):
            return self.store(self.matmul(x, weight), "prebias") + bias
        products = self._products(x.tensor, weight.tensor)
        start = bias.tensor[:, None].expand(*products.shape[:-1], 1)
        return x.like(self._in_turn(torch.cat([start, products], -1)))

    def scores(self, query: Disturbed, key: Disturbed, scale: Constant) -> Disturbed:
        keys = key.swapaxes(-1, -2)
        if not self._scaled_first:
            return self.store(self.store(self.matmul(query, keys), "dot") * self.constant(scale), "scores")
        half = query.like(torch.tensor(float(scale), dtype=torch.float64).sqrt())
        query, keys = (self.store(a * self._root(half), "prescale") for a in (query, keys))
        return self.store(self.matmul(query, keys), "scores")

    def softmax(self, scores: Disturbed, allowed: Mask | None = None) -> Disturbed:
        folded = scores.like(self.rounded(scores.tensor))
        shifted = self.store(folded - self.shift(folded, allowed), "shifted")
        mass = self.store(self.exp(shifted), "exps")
        return mass / self.store(self.total(mass), "expsum")

    def recomputed(self, scores: Disturbed, allowed: Mask | None) -> Disturbed:
        """The weights that were kept, or exponentials of the scores less the logarithm of their total."""
        if not self._scaled_first:
            return self.weights(scores, allowed)
        folded = scores.like(self.rounded(scores.tensor))
        top = self.shift(folded, None)
        logarithm = self.log(self.total(self.exp(folded - top))) + top
        return self.store(self.exp(folded - logarithm), "probs")

    def log_softmax(self, logits: Disturbed) -> Disturbed:
        if self._scaled_first and not self.precision.narrow:
            return logits - self._chained(logits)
        top = self.shift(logits, None)
        shifted = self.store(logits - top, "shifted")
        mass = self.store(self.exp(shifted), "exps")
        summed = self.store(self.log(self.store(self.total(mass), "normaliser")), "normaliser")
        apart = shifted - summed if not self._scaled_first else logits - (top + summed)
        return self.store(apart, "logprobs")

    def _chained(self, logits: Disturbed) -> Disturbed:
        """log Σe^z by log(e^a + e^b), the largest first, each rounded."""
        first, *others = logits.tensor.sort(-1, descending=True).values.unbind(-1)
        for other in others:
            first = self.rounded(torch.logaddexp(first, other))
        return logits.like(first[..., None])

    def store(self, a: Disturbed, site: str) -> Disturbed:
        if a.stored or not self.precision.rounds(site):
            return a
        most = torch.tensor(half_ulp(a.tensor.detach().numpy(), self.precision.storage))
        return Disturbed(self.disturb(a.tensor, most), self, stored=True)

    def _root(self, root: Disturbed) -> Disturbed:
        stored = self.precision.rounds("constant")
        return root.like(self.rounded(root.tensor, self.precision.storage.unit / self.unit if stored else 1.0))

    def _products(self, a: Tensor, b: Tensor) -> Tensor:
        return self.rounded(a[..., :, None, :] * b.swapaxes(-1, -2)[..., None, :, :])

    def _in_turn(self, terms: Tensor) -> Tensor:
        """The sum over the last axis, one after another, those of the heavier sign first and largest first."""
        sign = torch.sign(terms.detach().sum(-1, keepdim=True))
        order = torch.argsort(torch.where(sign == 0, 1.0, sign) * terms.detach(), -1, descending=True)
        first, *others = terms.gather(-1, order).unbind(-1)
        for term in others:
            first = self.rounded(first + term)
        return first


def reached(run: Callable[[Evaluator], Any], precision: Precision, exact: Any, index: int) -> float:
    """How far the adversary drives one entry of the flattened result from the exact one."""
    return max(_driven(run, precision, exact, index, first) for first in (False, True))


def _driven(run: Callable[[Evaluator], Any], precision: Precision, exact: Any, index: int, scaled_first: bool) -> float:
    best = 0.0
    for target, slopes, signs in _passes(run, precision, index, scaled_first):
        if precision.arithmetic is FLOAT64:  # too small to see against float64 itself, so to first order
            return sum(float(g.abs().sum()) for g in slopes)
        best = max(best, abs(target - float(exact.ravel()[index]))) if signs else best
    return best


def _passes(
    run: Callable[[Evaluator], Any], precision: Precision, index: int, scaled_first: bool
) -> Iterator[tuple[float, list[Tensor], bool]]:
    """The target, its slopes along the disturbances, and whether any was chosen; upwards, then downwards."""
    for direction in (1, -1):
        chosen = None
        for _ in range(ROUNDS):
            attack = Attack(precision, chosen, scaled_first)
            target = run(attack).tensor.reshape(-1)[index]
            if not target.requires_grad:
                return
            slopes = torch.autograd.grad(target, attack.disturbances, allow_unused=True, materialize_grads=True)
            yield target.item(), list(slopes), chosen is not None
            chosen = [direction * torch.sign(g) for g in slopes]
