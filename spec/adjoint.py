"""Adjoint bounds: how far a whole model may stray, without its intermediates.

Elementwise bounds that are carried through many layers grow far beyond any error that can occur. Here each operation
adds only the error that it makes itself, on exact arguments, and one reverse pass weighs these by how much they move
the output: for any functional w, |⟨w, got − exact⟩| ≤ Σ_k |∂⟨w, out⟩/∂r_k|·b_k over all results r_k with their
own bounds b_k. That is the first order in the roundoff; what is dropped is smaller by the roundoff times the
condition of the model, so in 16 bits, where that is no small number, nothing is decided this way.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gnomon.spec.bounds import Bounds, Tracked, allowed
from gnomon.spec.constants import Constant
from gnomon.spec.evaluators import Evaluator, Float64, Floats, Mask
from gnomon.spec.precision import Precision

Operation = Callable[..., Tracked]
Backward = Callable[[Floats], Iterable[Floats | None]]  # from the adjoint of a result to those of its arguments

_plain = Float64()


class Node:
    """A result: its value, the bound of the error made in computing it, and how an adjoint goes back through it."""

    __array_priority__ = 200
    __slots__ = ("E", "arguments", "backward", "error", "number", "value")

    def __init__(self, E: "Adjoint", own: Tracked, arguments: Sequence["Node"], backward: Backward):
        self.E, self.value, self.error = E, own.value, own.error
        self.arguments, self.backward, self.number = arguments, backward, len(E.tape)
        E.tape.append(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.value.shape

    @property
    def exact(self) -> Tracked:
        """The value without error, as the argument of the next operation."""
        return self.E.bounds.number(self.value)

    def __add__(self, other: Any) -> "Node":
        o = self.E.number(other)
        shapes = self.shape, o.shape
        return self.E.node(lambda a, b: a + b, (self, o), lambda g: (_summed(g, s) for s in shapes))

    def __neg__(self) -> "Node":
        return self.E.node(lambda a: -a, (self,), lambda g: (-g,))

    def __sub__(self, other: Any) -> "Node":
        return self + (-self.E.number(other))

    def __mul__(self, other: Any) -> "Node":
        o = self.E.number(other)
        return self.E.node(
            lambda a, b: a * b,
            (self, o),
            lambda g: (_summed(g * o.value, self.shape), _summed(g * self.value, o.shape)),
        )

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> "Node":
        o = self.E.number(other)
        quotient = self.value / o.value
        return self.E.node(
            lambda a, b: a / b,
            (self, o),
            lambda g: (_summed(g / o.value, self.shape), _summed(-g * quotient / o.value, o.shape)),
        )

    def __getitem__(self, index: Any) -> "Node":
        def backward(g: Floats) -> Iterable[Floats]:
            whole = np.zeros(self.shape)
            np.add.at(whole, index, g)
            return (whole,)

        return self.E.moved(lambda a: a[index], self, backward)

    def reshape(self, *shape: int) -> "Node":
        """The same numbers in another shape."""
        return self.E.moved(lambda a: a.reshape(*shape), self, lambda g: (g.reshape(self.shape),))

    def swapaxes(self, a: int, b: int) -> "Node":
        """The same numbers with two axes exchanged."""
        return self.E.moved(lambda x: x.swapaxes(a, b), self, lambda g: (g.swapaxes(a, b),))

    def take(self, indices: Any, axis: int) -> "Node":
        """The entries along an axis, in the order of the indices."""

        def backward(g: Floats) -> Iterable[Floats]:
            whole = np.zeros(self.shape)
            np.add.at(np.moveaxis(whole, axis, 0), indices, np.moveaxis(g, axis, 0))
            return (whole,)

        return self.E.moved(lambda a: a.take(indices, axis), self, backward)


class Adjoint(Evaluator):
    """The evaluator that records what was computed, with the error that each step makes on exact arguments."""

    def __init__(self, precision: Precision):
        self.bounds, self.tape = Bounds(precision), list[Node]()

    def node(self, operation: Operation, arguments: Sequence[Node], backward: Backward) -> Node:
        """The result of an operation on the arguments; its error is the one that it makes itself."""
        return Node(self, operation(*(a.exact for a in arguments)), arguments, backward)

    def moved(self, operation: Callable[[Any], Any], a: Node, backward: Backward) -> Node:
        """The same numbers elsewhere, which is exact."""
        value = operation(a.value)
        nothing = Tracked(value, np.zeros(np.shape(value)), self.bounds.precision)
        return Node(self, nothing, (a,), backward)

    def number(self, x: Any) -> Node:
        """The array without error; recorded numbers come back unchanged."""
        return x if isinstance(x, Node) else self._source(self.bounds.number(x))

    def constant(self, c: Constant) -> Node:
        """The constant, with the error that the precision allows it."""
        return self._source(self.bounds.constant(c))

    def added(self, parts: list[Node], site: str) -> Node:
        """The sum of several arrays in any order."""
        return self.node(lambda *a: self.bounds.added(list(a), site), parts, lambda g: [g] * len(parts))

    def computed(self, value: Floats, roundoffs: Floats) -> Node:
        """Numbers that an implementation works out itself."""
        return self._source(self.bounds.computed(value, roundoffs))

    def _source(self, own: Tracked) -> Node:
        return Node(self, own, (), lambda g: ())

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

    def rsqrt(self, a: Node) -> Node:
        """1/√a."""
        return self._elementwise(self.bounds.rsqrt, a, -0.5 * a.value**-1.5)

    def rectify(self, a: Node) -> Node:
        """The larger of a and zero; where a may lie on either side of the bend, what that changes is an error."""
        result = self._elementwise(self.bounds.rectify, a, (a.value > 0).astype(float))
        extra = np.zeros(a.shape)
        for index in self._near_the_bend(a):
            reach = self.bound(a, _unit(a.shape, index))
            extra[index] = reach if reach > abs(a.value[index]) else 0.0
        result.error = result.error + extra
        return result

    def _near_the_bend(self, a: Node) -> list[tuple[int, ...]]:
        """The entries whose error might reach zero: that of the nearest one, times their number, is more than any."""
        size = np.abs(a.value)
        nearest = tuple(int(i) for i in np.unravel_index(np.argmin(size), a.shape))
        reach = self.bound(a, _unit(a.shape, nearest)) * size.size
        return [tuple(int(i) for i in index) for index in np.argwhere(size < reach)]

    def _elementwise(self, operation: Callable[[Tracked], Tracked], a: Node, slope: Floats) -> Node:
        return self.node(operation, (a,), lambda g: (g * slope,))

    def select(self, mask: Mask | None, a: Node) -> Node:
        """`a` where the mask is true, an exact zero elsewhere."""
        if mask is None:
            return a
        return self.node(
            lambda x: self.bounds.select(mask, x), (a,), lambda g: (_summed(np.where(mask, g, 0.0), a.shape),)
        )

    def shift(self, scores: Node, allowed: Mask | None) -> Floats:
        """The largest allowed score, as a constant."""
        return _plain.shift(scores.value, allowed)

    def matmul(self, a: Node, b: Node) -> Node:
        """The product."""
        return self.node(self.bounds.matmul, (a, b), lambda g: _through_product(g, a, b))

    def affine(self, x: Node, weight: Node, bias: Node) -> Node:
        """x·weight + bias."""
        return self.node(
            self.bounds.affine,
            (x, weight, bias),
            lambda g: (*_through_product(g, x, weight), _summed(g, bias.shape)),
        )

    def scores(self, query: Node, key: Node, scale: Constant) -> Node:
        """scale·q·k for every pair."""

        def backward(g: Floats) -> Iterable[Floats]:
            g = g * float(scale)
            return _summed(g @ key.value, query.shape), _summed(g.swapaxes(-1, -2) @ query.value, key.shape)

        return self.node(lambda q, k: self.bounds.scores(q, k, scale), (query, key), backward)

    def total(self, a: Node) -> Node:
        """The sum over the last axis."""
        return self.node(self.bounds.total, (a,), lambda g: (np.broadcast_to(g, a.shape),))

    def concat(self, parts: list[Node], axis: int) -> Node:
        """The arrays one after another along an axis."""
        ends = np.cumsum([p.shape[axis] for p in parts])[:-1]
        return self.node(lambda *a: self.bounds.concat(list(a), axis), parts, lambda g: np.split(g, ends, axis))

    def store(self, a: Node, site: str) -> Node:
        """`a` after the rounding that the site permits; the same node where there is none."""
        if not self.bounds.precision.narrow:
            self._check_range(a, site)
            return a
        return self.node(lambda x: self.bounds.store(x, site), (a,), lambda g: (g,))

    def _check_range(self, a: Node, site: str) -> None:
        a.error = np.maximum(a.error, self.bounds.store(a.exact, site).error)

    def standardise(self, x: Node, epsilon: Constant, centred: bool) -> Node:
        """The standardised row."""
        width = x.shape[-1]
        kept = x.value - x.value.mean(-1, keepdims=True) if centred else x.value
        inverse = 1 / np.sqrt((kept * kept).mean(-1, keepdims=True) + float(epsilon))
        standard = kept * inverse

        def backward(g: Floats) -> Iterable[Floats]:
            flat = g - g.mean(-1, keepdims=True) if centred else g
            return (inverse * (flat - standard * (g * standard).sum(-1, keepdims=True) / width),)

        return self.node(lambda a: self.bounds.standardise(a, epsilon, centred), (x,), backward)

    def softmax(self, scores: Node, allowed: Mask | None = None) -> Node:
        """Weights over the last axis."""
        p = _plain.softmax(scores.value, allowed)
        return self.node(
            lambda s: self.bounds.softmax(s, allowed), (scores,), lambda g: (_through_softmax(g, p, scores.shape),)
        )

    def weigh(self, scores: Node, value: Node, allowed: Mask | None) -> Node:
        """The average of the values under the softmax of the scores."""
        p = _plain.softmax(scores.value, allowed)

        def backward(g: Floats) -> Iterable[Floats]:
            mass = g @ value.value.swapaxes(-1, -2)
            return _through_softmax(mass, p, scores.shape), _summed(p.swapaxes(-1, -2) @ g, value.shape)

        return self.node(lambda s, v: self.bounds.weigh(s, v, allowed), (scores, value), backward)

    def bound(self, out: Node, functional: Floats) -> float:
        """How far ⟨functional, out⟩ of a correct implementation may be from its exact value."""
        adjoints: dict[int, Floats] = {out.number: functional}
        total = 0.0
        for node in reversed(self.tape[: out.number + 1]):
            g = adjoints.pop(node.number, None)
            if g is None:
                continue
            total += float(np.where(g == 0, 0.0, np.abs(g) * np.where(g == 0, 0.0, node.error)).sum())
            for argument, back in zip(node.arguments, node.backward(g), strict=False):
                if back is not None and (argument.arguments or np.any(argument.error)):
                    held = adjoints.get(argument.number)
                    adjoints[argument.number] = back if held is None else held + back
        nothing = np.asarray(total)
        return float(allowed(Tracked(nothing, nothing, self.bounds.precision)))


def _unit(shape: tuple[int, ...], index: tuple[Any, ...]) -> Floats:
    """The functional that reads off one entry."""
    functional = np.zeros(shape)
    functional[index] = 1.0
    return functional


def _summed(g: Floats, shape: tuple[int, ...]) -> Floats:
    """The adjoint of an argument that was broadcast: summed over the axes that it did not have."""
    if g.shape == shape:
        return g
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    spread = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return g.sum(axis=spread, keepdims=True) if spread else g


def _through_product(g: Floats, a: Node, b: Node) -> tuple[Floats, Floats | None]:
    """The adjoints of both factors; that of a parameter, which nobody asks for, is left out."""
    first = _summed(g @ b.value.swapaxes(-1, -2), a.shape)
    fixed = not b.arguments
    return first, None if fixed else _summed(a.value.swapaxes(-1, -2) @ g, b.shape)


def _through_softmax(g: Floats, p: Floats, shape: tuple[int, ...]) -> Floats:
    return _summed(p * (g - (p * g).sum(-1, keepdims=True)), shape)
