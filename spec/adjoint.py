"""Adjoint bounds: how far a whole model may stray, without its intermediates.

Elementwise bounds that are carried through many layers grow far beyond any error that can occur. Here each operation
adds only the error that it makes itself, on exact arguments, and one reverse pass weighs these by how much they move
the output: for any functional w, |⟨w, got − exact⟩| ≤ Σ_k |∂⟨w, out⟩/∂r_k|·b_k over all results r_k with their own
bounds b_k. Those are the derivatives at the exact arguments. At the erring ones they differ by a share that grows with
the departures of the arguments, measured in the lengths over which operations bend. The bound is widened by it, and
where it is no small share nothing is decided: for a rare model in float32, and for most in 16 bits.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate
from typing import Any

import numpy as np

from gnomon.spec.bounds import Bounds, Tracked, allowed
from gnomon.spec.constants import Constant
from gnomon.spec.evaluators import Evaluator, Float64, Floats, Mask
from gnomon.spec.precision import Precision

Operation = Callable[..., Tracked]
Adjoints = Any  # of a result, `[functionals, ...]`, real or complex
Pull = Callable[[Adjoints], Adjoints]  # from the adjoints of a result to those of one argument, before broadcasting

_plain = Float64()
_BOTH = 3  # ways to a result, as bits
# Where arguments are off by a small part of the length over which an operation bends, its derivatives are off by that
# part of the largest of them, times 2/√3 for a standardised row, less for others; doubled, for one draw may fall short.
STEEPNESS = 4 / 3**0.5


class Node:
    """A result: its value, the bound of the error made in computing it, and how adjoints go back through it.

    arguments: those that may err. lengths: how far one of them has to go until the derivatives are quite others.
    """

    __array_priority__ = 200

    def __init__(
        self, E: "Adjoint", own: Tracked, arguments: Sequence[tuple["Node", Pull]] = (), lengths: Sequence[Any] = ()
    ):
        self.E, self.value, self.error, self._own = E, own.value, own.error, own
        self._exact: Tracked | None = None
        self.fixed: bool
        self.lengths = [(a, length) for (a, _), length in zip(arguments, lengths, strict=False) if not a.fixed]
        self.arguments = [(a, pull) for a, pull in arguments if not a.fixed]
        self.number, self.errs = len(E.tape), bool(own.error.any())
        self.fixed = not (self.arguments or self.errs)
        if not self.fixed:
            E.tape.append(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.value.shape

    @property
    def exact(self) -> Tracked:
        """The value without error, as the argument of the next operation."""
        if self._exact is None:
            own = self._own
            self._exact = Tracked(own.value, np.zeros(self.shape), own.precision, own.stored) if self.errs else own
        return self._exact

    def __add__(self, other: Any) -> "Node":
        return self.E.node(lambda a, b: a + b, (self, _same), (self.E.number(other), _same))

    def __neg__(self) -> "Node":
        return self.E.moved(lambda a: -a, self, lambda g: -g)

    def __sub__(self, other: Any) -> "Node":
        return self + (-self.E.number(other))

    def __mul__(self, other: Any) -> "Node":
        o = self.E.number(other)
        return self.E.node(lambda a, b: a * b, (self, lambda g: g * o.value), (o, lambda g: g * self.value))

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> "Node":
        o = self.E.number(other)
        quotient = self.value / o.value
        pulls = (self, lambda g: g / o.value), (o, lambda g: -g * quotient / o.value)
        return self.E.node(lambda a, b: a / b, *pulls, lengths=(np.inf, np.abs(o.value)))

    def __getitem__(self, index: Any) -> "Node":
        def pull(g: Adjoints) -> Adjoints:
            whole = np.zeros((len(g), *self.shape), g.dtype)
            np.add.at(whole, (slice(None), *(index if isinstance(index, tuple) else (index,))), g)
            return whole

        return self.E.moved(lambda a: a[index], self, pull)

    def reshape(self, *shape: int) -> "Node":
        """The same numbers in another shape."""
        return self.E.moved(lambda a: a.reshape(*shape), self, lambda g: g.reshape(len(g), *self.shape))

    def swapaxes(self, a: int, b: int) -> "Node":
        """The same numbers with two axes exchanged."""
        one, other = (_from_behind(axis, self) for axis in (a, b))
        return self.E.moved(lambda x: x.swapaxes(one, other), self, lambda g: g.swapaxes(one, other))

    def take(self, indices: Any, axis: int) -> "Node":
        """The entries along an axis, in the order of the indices."""
        where = _from_behind(axis, self)

        def pull(g: Adjoints) -> Adjoints:
            whole = np.zeros((len(g), *self.shape), g.dtype)
            np.add.at(np.moveaxis(whole, where, 0), indices, np.moveaxis(g, where, 0))
            return whole

        return self.E.moved(lambda a: a.take(indices, where), self, pull)


class Adjoint(Evaluator):
    """The evaluator that records what was computed, with the error that each step makes on exact arguments."""

    def __init__(self, precision: Precision):
        self.bounds, self.tape = Bounds(precision), list[Node]()
        self._spread = (0, 0.0)

    def node(self, operation: Operation, *arguments: tuple[Node, Pull], lengths: Sequence[Any] = ()) -> Node:
        """The result of an operation on the arguments; its error is the one that it makes itself."""
        return Node(self, operation(*(a.exact for a, _ in arguments)), arguments, lengths)

    def moved(self, operation: Callable[[Any], Any], a: Node, pull: Pull) -> Node:
        """The same numbers elsewhere, which is exact."""
        return Node(self, self.bounds.number(operation(a.value)), ((a, pull),))

    def number(self, x: Any) -> Node:
        """The array without error; recorded numbers come back unchanged."""
        return x if isinstance(x, Node) else Node(self, self.bounds.number(x))

    def given(self, x: Any) -> Node:
        """The array without error, which storing leaves as it is."""
        return x if isinstance(x, Node) else Node(self, self.bounds.given(x))

    def constant(self, c: Constant) -> Node:
        """The constant, with the error that the precision allows it."""
        return Node(self, self.bounds.constant(c))

    def computed(self, value: Floats, roundoffs: Floats) -> Node:
        """Numbers that an implementation works out itself."""
        return Node(self, self.bounds.computed(value, roundoffs))

    def added(self, parts: list[Node], site: str) -> Node:
        """The sum of several arrays in any order."""
        return self.node(lambda *a: self.bounds.added(list(a), site), *((p, _same) for p in parts))

    def either(self, one: Node, other: Node) -> Node:
        """The first quantity, with both ways' errors: half an adjoint goes either way, so those on one count twice."""
        for node in self._on_one_way(one, other):
            node.error = 2 * node.error
        return Node(self, self.bounds.number(one.value), [(way, lambda g: g / 2) for way in (one, other)])

    def _on_one_way(self, one: Node, other: Node) -> Iterator[Node]:
        """The erring results that one of the two comes from and not the other, last first."""
        ways = {one.number: 1} if not one.fixed else {}
        ways |= {} if other.fixed else {other.number: 2 | ways.get(other.number, 0)}
        queue = [-number for number in ways]
        heapify(queue)
        while any(way != _BOTH for way in ways.values()):
            number = -heappop(queue)
            way, node = ways.pop(number), self.tape[number]
            if way != _BOTH:
                yield node
            for argument, _ in node.arguments:
                if argument.number not in ways:
                    heappush(queue, -argument.number)
                ways[argument.number] = way | ways.get(argument.number, 0)

    def exp(self, a: Node) -> Node:
        """e to the a."""
        return self._elementwise(self.bounds.exp, a, np.exp(a.value))

    def tanh(self, a: Node) -> Node:
        """The hyperbolic tangent."""
        return self._elementwise(self.bounds.tanh, a, 1 - np.tanh(a.value) ** 2)

    def erf(self, a: Node) -> Node:
        """The error function."""
        return self._elementwise(self.bounds.erf, a, 2 / np.sqrt(np.pi) * np.exp(-(a.value**2)))

    def sigmoid(self, a: Node) -> Node:
        """1/(1 + e^-a)."""
        return self._elementwise(self.bounds.sigmoid, a, _plain.sigmoid(a.value) * _plain.sigmoid(-a.value))

    def cos(self, a: Node) -> Node:
        """The cosine."""
        return self._elementwise(self.bounds.cos, a, -np.sin(a.value))

    def sin(self, a: Node) -> Node:
        """The sine."""
        return self._elementwise(self.bounds.sin, a, np.cos(a.value))

    def log(self, a: Node) -> Node:
        """The natural logarithm."""
        return self._elementwise(self.bounds.log, a, 1 / a.value, a.value)

    def rsqrt(self, a: Node) -> Node:
        """1/√a."""
        return self._elementwise(self.bounds.rsqrt, a, -0.5 * a.value**-1.5, a.value)

    def rectify(self, a: Node) -> Node:
        """The larger of a and zero; what it changes that an entry may lie beyond the bend is an error of the result."""
        own, slope = self.bounds.rectify(a.exact), (a.value > 0).astype(float)
        beyond = own.like(own.value, own.error + self._beyond_zero(a))
        return Node(self, beyond, ((a, lambda g: g * slope),))

    def _beyond_zero(self, a: Node) -> Floats:
        """How far each entry may lie on the other side of zero; most are too far from it."""
        far, size = np.zeros(a.shape), np.abs(a.value)
        near = np.nonzero(size <= self._farthest(a))
        functionals = np.zeros((len(near[0]), *a.shape))
        functionals[(np.arange(len(near[0])), *near)] = 1.0
        far[near] = np.maximum(self.bounds_of(a, functionals) - size[near], 0.0)
        return far

    def gate(self, a: Node, g: Node) -> Node:
        """`g` where `a` lies above zero; where an entry may lie on the other side, all of it is an error."""
        own, above = self.bounds.gate(a.exact, g.exact), a.value > 0
        unsure = (a.value == 0) | (self._beyond_zero(a) > 0)
        either = own.like(own.value, np.where(unsure, np.abs(g.value), own.error))
        return Node(self, either, ((g, lambda u: np.where(above, u, 0.0)),))

    def reduced(self, a: Node, shape: tuple[int, ...]) -> Node:
        """The array summed over the axes of a broadcast."""
        padded = (1,) * (a.value.ndim - len(shape)) + shape

        def pull(g: Adjoints) -> Adjoints:
            return np.broadcast_to(g.reshape(len(g), *padded), (len(g), *a.shape))

        return self.node(lambda x: self.bounds.reduced(x, shape), (a, pull))

    def scattered(self, a: Node, index: Any, shape: tuple[int, ...]) -> Node:
        """Zeros to which the entries are added."""
        where = (slice(None), *(index if isinstance(index, tuple) else (index,)))
        return self.node(lambda x: self.bounds.scattered(x, index, shape), (a, lambda g: g[where]))

    def summed_products(self, pairs: Sequence[tuple[Node, Node]]) -> Node:
        """The sum of several products."""

        def operation(*factors: Tracked) -> Tracked:
            return self.bounds.summed_products(list(zip(factors[::2], factors[1::2], strict=True)))

        return self.node(operation, *(pull for pair in pairs for pull in _through_product(*pair)))

    def _elementwise(self, operation: Operation, a: Node, slope: Floats, length: Any = 1.0) -> Node:
        return self.node(operation, (a, lambda g: g * slope), lengths=(length,))

    def select(self, mask: Mask | None, a: Node) -> Node:
        """`a` where the mask is true, an exact zero elsewhere."""
        if mask is None:
            return a
        return self.node(lambda x: self.bounds.select(mask, x), (a, lambda g: np.where(mask, g, 0.0)))

    def shift(self, scores: Node, allowed: Mask | None) -> Floats:
        """The largest allowed score, as a constant."""
        return _plain.shift(scores.value, allowed)

    def matmul(self, a: Node, b: Node) -> Node:
        """The product."""
        return self.node(self.bounds.matmul, *_through_product(a, b))

    def affine(self, x: Node, weight: Node, bias: Node) -> Node:
        """x·weight + bias."""
        return self.node(self.bounds.affine, *_through_product(x, weight), (bias, _same))

    def scores(self, query: Node, key: Node, scale: Constant) -> Node:
        """scale·q·k for every pair."""
        size = float(scale)
        pulls = (query, lambda g: g @ key.value * size), (key, lambda g: g.swapaxes(-1, -2) @ query.value * size)
        return self.node(lambda q, k: self.bounds.scores(q, k, scale), *pulls)

    def total(self, a: Node) -> Node:
        """The sum over the last axis."""
        return self.node(self.bounds.total, (a, lambda g: np.broadcast_to(g, (len(g), *a.shape))))

    def concat(self, parts: list[Node], axis: int) -> Node:
        """The arrays one after another along an axis."""
        where = _from_behind(axis, parts[0])
        ends = list(accumulate(p.shape[where] for p in parts))[:-1]

        def piece(i: int) -> Pull:
            return lambda g: np.split(g, ends, where)[i]

        whole = np.concatenate([p.value for p in parts], where)
        return Node(self, self.bounds.number(whole), [(p, piece(i)) for i, p in enumerate(parts)])

    def store(self, a: Node, site: str) -> Node:
        """`a` after the rounding that the site permits; the same node where there is none."""
        own = self.bounds.store(a.exact, site)
        return a if own is a.exact else Node(self, own, ((a, _same),))

    def standardise(self, x: Node, epsilon: Constant, centred: bool) -> Node:
        """The standardised row, which bends within its own length; epsilon keeps that from zero."""
        kept = x.value - x.value.mean(-1, keepdims=True) if centred else x.value
        spread = np.sqrt((kept * kept).mean(-1, keepdims=True) + float(epsilon))
        standard = kept / spread

        def pull(g: Adjoints) -> Adjoints:
            flat = g - g.mean(-1, keepdims=True) if centred else g
            return (flat - standard * (g * standard).mean(-1, keepdims=True)) / spread

        length = np.sqrt(x.shape[-1]) * spread
        return self.node(lambda a: self.bounds.standardise(a, epsilon, centred), (x, pull), lengths=(length,))

    def softmax(self, scores: Node, allowed: Mask | None = None) -> Node:
        """Weights over the last axis."""
        p = _plain.softmax(scores.value, allowed)
        own = self.bounds.softmax(scores.exact, allowed)
        return Node(self, own, ((scores, lambda g: _through_softmax(g, p)),), (_where_seen(allowed),))

    def recomputed(self, scores: Node, allowed: Mask | None = None) -> Node:
        """Weights as a backward pass may have them."""
        p = _plain.softmax(scores.value, allowed)
        own = self.bounds.recomputed(scores.exact, allowed)
        return Node(self, own, ((scores, lambda g: _through_softmax(g, p)),), (_where_seen(allowed),))

    def weigh(self, scores: Node, value: Node, allowed: Mask | None) -> Node:
        """The average of the values under the softmax of the scores."""
        p = _plain.softmax(scores.value, allowed)

        def pull(g: Adjoints) -> Adjoints:
            return _through_softmax(g @ value.value.swapaxes(-1, -2), p)

        pulls = (scores, pull), (value, lambda g: p.swapaxes(-1, -2) @ g)
        return self.node(lambda s, v: self.bounds.weigh(s, v, allowed), *pulls, lengths=(_where_seen(allowed),))

    # From the tape to the bounds.

    def bound(self, out: Node, functional: Floats) -> float:
        """How far ⟨functional, out⟩ of a correct implementation may be from its exact value."""
        return float(self.bounds_of(out, functional[None])[0])

    def bound_of_sum(self, functionals: Sequence[tuple[Node, Floats]]) -> float:
        """How far the sum of ⟨functional, result⟩ over several results may be from its exact value."""
        seeds = {out.number: functional[None] for out, functional in functionals if not out.fixed}
        return float(self._bounds(seeds, 1)[0])

    def bounds_of(self, out: Node, functionals: Floats) -> Floats:
        """The same for several functionals, `[functionals, ...]`."""
        return self._bounds({} if out.fixed else {out.number: functionals}, len(functionals))

    def _bounds(self, seeds: Mapping[int, Adjoints], count: int) -> Floats:
        straight = np.zeros(count)
        if count and seeds:
            straight += sum(_weighed(g, node).sum(1) for node, g in self._sweep(seeds))
        room = 1 - self.changed()
        widened = straight / room if room > 0 else np.where(straight > 0, np.inf, 0.0)
        return allowed(Tracked(straight, widened, self.bounds.precision))

    def changed(self) -> float:
        """By which share the derivatives of a whole model may be others at erring arguments: Σ hᵢ ≤ √n·√(Σ hᵢ²)."""
        return STEEPNESS * float(np.sqrt(len(self._bends()))) * self.departures()

    def departures(self) -> float:
        """How long the departures of all arguments are together, in the lengths over which operations bend.

        That is, the root of their mean square if all errors were as large as their bounds and of random signs.
        """
        if self._spread[0] != len(self.tape):
            self._spread = len(self.tape), float(np.sqrt(self._squares(self._bends())))
        return self._spread[1]

    def _bends(self) -> list[tuple[Node, Any]]:
        """The arguments along which operations bend, and over which lengths."""
        return [pair for node in self.tape for pair in node.lengths]

    def _farthest(self, a: Node) -> float:
        """More than any entry may err: Σ|g|·b ≤ √(n·Σ|g|²b²), doubled since the squares are those of one draw."""
        terms = sum(np.count_nonzero(node.error) for node in self.tape)
        return -1.0 if a.fixed else 2 * float(np.sqrt(terms * self._squares([(a, 1.0)])))

    def _squares(self, along: Sequence[tuple[Node, Any]]) -> float:
        """Σ|g|²·b² for the sum of all these departures in their lengths, each with a random phase.

        The mean over the phases is the sum of the squares of what every error does to every departure.
        """
        rng, seeds = np.random.default_rng(0), dict[int, Adjoints]()
        for a, length in along:
            phases = np.exp(2j * np.pi * rng.random((1, *a.shape))) / length
            seeds[a.number] = phases + seeds.get(a.number, 0.0)
        return float(sum((_weighed(g, node) ** 2).sum() for node, g in self._sweep(seeds)))

    def _sweep(self, seeds: Mapping[int, Adjoints]) -> Iterator[tuple[Node, Adjoints]]:
        """Every node that the functionals depend on, last first, with their derivatives by it."""
        held = dict(seeds)
        for node in reversed(self.tape[: max(held, default=-1) + 1]):
            g = held.pop(node.number, None)
            if g is None:
                continue
            yield node, g
            for argument, pull in node.arguments:
                back, before = _summed(pull(g), argument.shape), held.get(argument.number)
                held[argument.number] = back if before is None else before + back


def _same(g: Adjoints) -> Adjoints:
    return g


def _from_behind(axis: int, a: Node) -> int:
    """The axis as a negative number, which an axis of functionals in front does not move."""
    return axis % a.value.ndim - a.value.ndim


def _where_seen(allowed: Mask | None) -> Any:
    """A length of one for every score that matters."""
    return 1.0 if allowed is None else np.where(allowed, 1.0, np.inf)


def _weighed(g: Adjoints, node: Node) -> Floats:
    """|g|·error, `[functionals, entries]`; what a functional does not see may have any error."""
    if not node.errs:
        return np.zeros((len(g), 1))
    size = np.abs(g)
    return np.asarray(size * np.where(size == 0, 0.0, node.error)).reshape(len(g), -1)


def _summed(g: Adjoints, shape: tuple[int, ...]) -> Adjoints:
    """The adjoints of an argument that was broadcast: summed over the axes that it did not have."""
    if g.shape[1:] == shape:
        return g
    g = g.sum(axis=tuple(range(1, g.ndim - len(shape))))
    spread = tuple(i + 1 for i, n in enumerate(shape) if n == 1 and g.shape[i + 1] != 1)
    return g.sum(axis=spread, keepdims=True) if spread else g


def _through_product(a: Node, b: Node) -> tuple[tuple[Node, Pull], tuple[Node, Pull]]:
    """How adjoints go back through a product of matrices."""
    return (a, lambda g: g @ b.value.swapaxes(-1, -2)), (b, lambda g: a.value.swapaxes(-1, -2) @ g)


def _through_softmax(g: Adjoints, p: Floats) -> Adjoints:
    return p * (g - (p * g).sum(-1, keepdims=True))
