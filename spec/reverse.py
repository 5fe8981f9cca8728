"""Reverse mode: the vector–Jacobian product of any equation, itself written in the operations of an evaluator.

An equation that runs under `Reverse(E)` is computed under E and recorded; `pulled` then goes back through the record,
again in the operations of E. So the gradient of every equation is an equation too: a value under `Float64`, a value
with its error bound under `Bounds`, a functional's bound under `Adjoint`, an expression under `Symbolic`. A gradient
that is used twice is the sum of both uses; products of matrices are summed as one sum, in whatever order.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gnomon.spec.constants import ONE, TWO_OVER_ROOT_PI, Constant
from gnomon.spec.evaluators import Evaluator, Mask, Quantity

Product = tuple[Quantity, Quantity]
# What an argument is given back: a gradient, or the factors of one, so that several can be summed as one product.
Pull = Callable[[Quantity], Quantity | Product]


class Recorded:
    """A result under E, and how gradients go back through it; one that depends on no argument sends none."""

    __array_priority__ = 300

    def __init__(self, R: "Reverse", value: Quantity, arguments: Sequence[tuple["Recorded", Pull]] = ()):
        self.R, self.value = R, value
        self.kept = value  # as the way back may have it: stored, where the result was
        self.moves: bool
        self.arguments = [(a, pull) for a, pull in arguments if a.moves]
        self.moves, self.number = bool(self.arguments), len(R.tape)
        self.gathered: tuple[Recorded, Any] | None = None  # whose heads these are, and which of them
        if self.moves:
            R.tape.append(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return tuple(self.value.shape)

    def __add__(self, other: Any) -> "Recorded":
        o = self.R.number(other)
        return Recorded(self.R, self.value + o.value, ((self, _same), (o, _same)))

    def __neg__(self) -> "Recorded":
        return Recorded(self.R, -self.value, ((self, lambda g: -g),))

    def __sub__(self, other: Any) -> "Recorded":
        return self + (-self.R.number(other))

    def __mul__(self, other: Any) -> "Recorded":
        o = self.R.number(other)
        return Recorded(self.R, self.value * o.value, ((self, lambda g: g * o.value), (o, lambda g: g * self.value)))

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> "Recorded":
        o = self.R.number(other)
        pulls = (self, lambda g: g / o.value), (o, lambda g: -(g * quotient.kept / o.value))
        quotient: Recorded = Recorded(self.R, self.value / o.value, pulls)
        return quotient

    def __getitem__(self, index: Any) -> "Recorded":
        pull = (self, lambda g: self.R.E.scattered(g, index, self.shape))
        return Recorded(self.R, self.value[index], (pull,))

    def reshape(self, *shape: int) -> "Recorded":
        """The same numbers in another shape."""
        return Recorded(self.R, self.value.reshape(*shape), ((self, lambda g: g.reshape(*self.shape)),))

    def swapaxes(self, a: int, b: int) -> "Recorded":
        """The same numbers with two axes exchanged."""
        return Recorded(self.R, self.value.swapaxes(a, b), ((self, lambda g: g.swapaxes(a, b)),))

    def take(self, indices: Any, axis: int) -> "Recorded":
        """The entries along an axis, in the order of the indices."""
        behind = (slice(None),) * (-axis - 1)
        taken = Recorded(
            self.R, self.value.take(indices, axis),
            ((self, lambda g: self.R.E.scattered(g, (..., indices, *behind), self.shape)),),
        )  # fmt: skip
        taken.gathered = self, indices
        return taken


class Reverse(Evaluator):
    """The evaluator that records what E computes, so that gradients can be pulled back."""

    def __init__(self, E: Evaluator):
        self.E, self.tape = E, list[Recorded]()

    def argument(self, x: Any) -> Recorded:
        """The array as something by which gradients are asked."""
        leaf = Recorded(self, self.E.number(x))
        leaf.moves = True
        self.tape.append(leaf)
        return leaf

    def pulled(self, out: Recorded, upstream: Any, arguments: Sequence[Recorded]) -> list[Quantity]:
        """The gradient of ⟨upstream, out⟩ by each argument."""
        held: dict[int, list[Quantity | Product]] = {out.number: [self.E.given(upstream)]} if out.moves else {}
        wanted, found = {a.number for a in arguments}, dict[int, Quantity]()
        for node in reversed(self.tape[: out.number + 1]):
            if node.number not in held:
                continue
            g = self._summed(held.pop(node.number), node.shape)
            if node.number in wanted:
                found[node.number] = self.E.store(g, "out")
            for argument, pull in node.arguments:
                held.setdefault(argument.number, []).append(pull(self.E.store(g, "gradient")))
        return [found[a.number] if a.number in found else self.E.number(np.zeros(a.shape)) for a in arguments]

    def _summed(self, parts: Sequence[Quantity | Product], shape: tuple[int, ...]) -> Quantity:
        """The sum of all that an argument is given back, products of matrices as one, the others stored one by one."""
        others = [self._over_broadcast(part, shape) for part in parts if not isinstance(part, tuple)]
        alike: dict[Any, list[Product]] = {}
        for a, b in (_flat(part, shape) for part in parts if isinstance(part, tuple)):
            alike.setdefault((a.shape[:-1], b.shape[:-2]), []).append((a, b))
        others += [self.E.reduced(self.E.summed_products(products), shape) for products in alike.values()]
        if len(others) == 1:
            return others[0]
        return self.E.added([self.E.store(part, "gradient") for part in others], "gradient")

    def _over_broadcast(self, part: Quantity, shape: tuple[int, ...]) -> Quantity:
        """The gradient summed over the axes of a broadcast, before which it may be stored."""
        return part if tuple(part.shape) == shape else self.E.reduced(self.E.store(part, "gradient"), shape)

    def number(self, x: Any) -> Recorded:
        """The array as a constant; recorded numbers come back unchanged."""
        return x if isinstance(x, Recorded) else Recorded(self, self.E.number(x))

    def given(self, x: Any) -> Recorded:
        """The array as a constant that is in storage already."""
        return x if isinstance(x, Recorded) else Recorded(self, self.E.given(x))

    def constant(self, c: Constant) -> Recorded:
        """The constant."""
        return Recorded(self, self.E.constant(c))

    def computed(self, value: Any, roundoffs: Any) -> Recorded:
        """Numbers that an implementation works out itself, of no argument."""
        return Recorded(self, self.E.computed(value, roundoffs))

    def added(self, parts: list[Recorded], site: str) -> Recorded:
        """The sum of several arrays in any order."""
        return Recorded(self, self.E.added([p.value for p in parts], site), [(p, _same) for p in parts])

    def reduced(self, a: Recorded, shape: tuple[int, ...]) -> Recorded:
        """The array summed over the axes of a broadcast."""
        padded, nothing = (1,) * (len(a.shape) - len(shape)) + shape, np.zeros(a.shape)
        pull = (a, lambda g: g.reshape(*padded) + self.E.number(nothing))
        return Recorded(self, self.E.reduced(a.value, shape), (pull,))

    def scattered(self, a: Recorded, index: Any, shape: tuple[int, ...]) -> Recorded:
        """Zeros to which the entries are added."""
        return Recorded(self, self.E.scattered(a.value, index, shape), ((a, lambda g: g[index]),))

    def summed_products(self, pairs: Sequence[tuple[Recorded, Recorded]]) -> Recorded:
        """The sum of several products."""
        value = self.E.summed_products([(a.value, b.value) for a, b in pairs])
        return Recorded(self, value, [pull for pair in pairs for pull in _through_product(*pair)])

    def gate(self, a: Recorded, g: Recorded) -> Recorded:
        """`g` where `a` lies above zero."""
        return Recorded(self, self.E.gate(a.value, g.value), ((g, lambda u: self.E.gate(a.value, u)),))

    def either(self, one: Recorded, other: Recorded) -> Recorded:
        """One quantity by two ways; gradients go back the first."""
        return Recorded(self, self.E.either(one.value, other.value), ((one, _same),))

    def exp(self, a: Recorded) -> Recorded:
        """e to the a, which is its own derivative."""
        return self._by_result(self.E.exp(a.value), a, lambda g, y: g * y)

    def log(self, a: Recorded) -> Recorded:
        """The natural logarithm, of derivative 1/a."""
        return Recorded(self, self.E.log(a.value), ((a, lambda g: g / a.value),))

    def tanh(self, a: Recorded) -> Recorded:
        """The hyperbolic tangent y, of derivative 1 − y²."""
        return self._by_result(self.E.tanh(a.value), a, lambda g, y: g * (self.E.constant(ONE) - y * y))

    def erf(self, a: Recorded) -> Recorded:
        """The error function, of derivative 2/√π·e^(−a²)."""
        E = self.E
        return Recorded(
            self, E.erf(a.value), ((a, lambda g: g * E.exp(-(a.value * a.value)) * E.constant(TWO_OVER_ROOT_PI)),)
        )

    def sigmoid(self, a: Recorded) -> Recorded:
        """The sigmoid y, of derivative y(1 − y)."""
        return self._by_result(self.E.sigmoid(a.value), a, lambda g, y: g * (y * (self.E.constant(ONE) - y)))

    def cos(self, a: Recorded) -> Recorded:
        """The cosine, of derivative −sin a."""
        return Recorded(self, self.E.cos(a.value), ((a, lambda g: -(g * self.E.sin(a.value))),))

    def sin(self, a: Recorded) -> Recorded:
        """The sine, of derivative cos a."""
        return Recorded(self, self.E.sin(a.value), ((a, lambda g: g * self.E.cos(a.value)),))

    def rsqrt(self, a: Recorded) -> Recorded:
        """1/√a = y, of derivative −y/(2a)."""
        return self._by_result(self.E.rsqrt(a.value), a, lambda g, y: -(g * y / (a.value + a.value)))

    def rectify(self, a: Recorded) -> Recorded:
        """The larger of a and zero, whose gradient passes above zero alone."""
        return Recorded(self, self.E.rectify(a.value), ((a, lambda g: self.E.gate(a.value, g)),))

    def select(self, mask: Mask | None, a: Recorded) -> Recorded:
        """`a` where the mask is true; so is its gradient."""
        return Recorded(self, self.E.select(mask, a.value), ((a, lambda g: self.E.select(mask, g)),))

    def shift(self, scores: Recorded, allowed: Mask | None) -> Any:
        """A constant, since it cancels."""
        return self.E.shift(scores.value, allowed)

    def matmul(self, a: Recorded, b: Recorded) -> Recorded:
        """The product."""
        return Recorded(self, self.E.matmul(a.value, b.value), _through_product(a, b))

    def affine(self, x: Recorded, weight: Recorded, bias: Recorded) -> Recorded:
        """x·weight + bias."""
        value = self.E.affine(x.value, weight.value, bias.value)
        return Recorded(self, value, (*_through_product(x, weight), (bias, _same)))

    def scores(self, query: Recorded, key: Recorded, scale: Constant) -> Recorded:
        """scale·q·k; the scale meets a gradient before the product that it enters, its other factor, or the product.

        In 16 bits each of these may be stored. Elsewhere one rounding is as good as another, and the first is taken.
        """
        E = self.E
        value, factor = E.scores(query.value, key.value, scale), E.constant(scale)
        to_query = query, self._scaled(factor, key.value, E.matmul)
        source, _ = self._into(key, _same, lambda g: query.value)

        def to_key(g: Quantity, right: Quantity) -> Quantity:
            product = self._into(key, lambda _: g, lambda _: right)[1](g)
            return E.matmul(*product) if isinstance(product, tuple) else product

        return Recorded(self, value, (to_query, (source, self._scaled(factor, query.value, to_key))))

    def _scaled(self, factor: Quantity, other: Quantity, product: Callable[[Quantity, Quantity], Quantity]) -> Pull:
        """factor·g·other, wherever the factor enters."""
        E = self.E

        def pull(g: Quantity) -> Quantity:
            plain, before = product(g, other), product(E.store(g * factor, "gradient"), other)
            stored = E.store(plain, "gradient")
            if stored is plain:
                return before
            within = product(g, E.store(other * factor, "prescale"))
            return E.either(E.either(before, stored * factor), within)

        return pull

    def _into(
        self, a: Recorded, left: Callable[[Quantity], Quantity], right: Callable[[Quantity], Quantity]
    ) -> tuple[Recorded, Pull]:
        """What queries give back to keys or values, leftᵀ·right; to heads read by several, at once or head by head."""
        order = _readers(a)
        if order is None or a.gathered is None:
            return a, lambda g: (left(g).swapaxes(-1, -2), right(g))
        (source, index), E = a.gathered, self.E

        def regrouped(x: Quantity) -> Quantity:
            return x.take(order, axis=-3).reshape(*x.shape[:-3], source.shape[-3], -1, x.shape[-1])

        def pull(g: Quantity) -> Quantity:
            one, other = left(g), right(g)
            at_once = E.matmul(regrouped(one).swapaxes(-1, -2), regrouped(other))
            by_head = E.store(E.matmul(one.swapaxes(-1, -2), other), "gradient")
            return E.either(at_once, E.scattered(by_head, (..., index, slice(None), slice(None)), source.shape))

        return source, pull

    def total(self, a: Recorded) -> Recorded:
        """The sum over the last axis."""
        nothing = np.zeros(a.shape)
        return Recorded(self, self.E.total(a.value), ((a, lambda g: g + self.E.number(nothing)),))

    def concat(self, parts: list[Recorded], axis: int) -> Recorded:
        """The arrays one after another along a negative axis."""
        ends, behind = np.cumsum([p.shape[axis] for p in parts]), (slice(None),) * (-axis - 1)

        def piece(i: int) -> Pull:
            return lambda g: g[(..., slice(ends[i] - parts[i].shape[axis], ends[i]), *behind)]

        return Recorded(
            self, self.E.concat([p.value for p in parts], axis), [(p, piece(i)) for i, p in enumerate(parts)]
        )

    def store(self, a: Recorded, site: str) -> Recorded:
        """`a` as an implementation of narrow storage may round it."""
        value = self.E.store(a.value, site)
        if value is a.value:
            return a
        a.kept = value
        return Recorded(self, value, ((a, _same),))

    def _by_result(self, value: Quantity, a: Recorded, slope: Callable[[Quantity, Quantity], Quantity]) -> Recorded:
        """A result whose gradient is worked out from itself, which may have been stored by then."""
        result = Recorded(self, value, ((a, lambda g: slope(g, result.kept)),))
        return result

    def standardise(self, x: Recorded, epsilon: Constant, centred: bool) -> Recorded:
        """The standardised row y, of spread s: its gradient is (g − mean g − y·mean(g·y))/s, mean g where centred.

        Some compute the same as g/s + (x − mean)·a for the whole row at once, or even as g/s + x·a + b, which cancels
        where the mean is far from zero.
        """
        E, width = self.E, self.E.number(x.shape[-1])
        y = E.standardise(x.value, epsilon, centred)
        mean = E.total(x.value) / width
        inverse = E.row_spread(x.value, x.value - mean, epsilon) if centred else E.inverse_spread(x.value, epsilon)

        def pull(g: Quantity) -> Quantity:
            along = E.total(g * y) / width
            flat = g - E.total(g) / width if centred else g
            return E.either((flat - y * along) * inverse, uncentred(g)) if centred else (g - y * along) * inverse

        def uncentred(g: Quantity) -> Quantity:
            slope = (E.total(g) * mean - E.total(g * x.value)) * inverse * inverse * inverse / width
            rest = -(slope * mean) - E.total(g) * inverse / width
            return E.added([g * inverse, x.value * slope, rest + E.number(np.zeros(x.shape))], "steps")

        return Recorded(self, y, ((x, pull),))

    def softmax(self, scores: Recorded, allowed: Mask | None = None) -> Recorded:
        """The weights p, whose gradient is p·g − p·Σ p·g."""
        E = self.E
        return self._by_result(
            E.softmax(scores.value, allowed), scores, lambda g, p: _through_softmax(E, p, g, E.total(p * g))
        )

    def log_softmax(self, logits: Recorded) -> Recorded:
        """log p, whose gradient is g − p·Σ g, with weights that are kept, or e^(log p) of what was stored.

        It is rounded once more, for whoever takes one word's p − 1 times the gradient of its loss.
        """
        E = self.E
        out = E.log_softmax(logits.value)
        p = E.either(E.recomputed(logits.value, None), E.exp(out))
        return Recorded(self, out, ((logits, lambda g: (g - p * E.total(g)) * E.constant(ONE)),))

    def weigh(self, scores: Recorded, value: Recorded, allowed: Mask | None) -> Recorded:
        """The average o of the values; Σ p·(g·v) is g·o too, and either is computed."""
        E, p = self.E, self.E.recomputed(scores.value, allowed)
        out = E.weigh(scores.value, value.value, allowed)

        def pull(g: Quantity) -> Quantity:
            moved = E.matmul(g, value.value.swapaxes(-1, -2))
            mean = E.either(E.total(p * moved), E.total(g * E.store(out, "out")))
            return E.store(E.select(allowed, _through_softmax(E, p, moved, mean)), "probs")

        return Recorded(self, out, ((scores, pull), self._into(value, lambda g: p, _same)))


def vjp(
    E: Evaluator, equation: Callable[..., Any], arguments: Mapping[str, Any], upstream: Any
) -> tuple[Quantity, dict[str, Quantity]]:
    """The equation's result under E for arguments given by name, and the gradient of ⟨upstream, result⟩ by each.

    equation: takes an evaluator and the mapping of arguments. upstream: of the result's shape.
    """
    R = Reverse(E)
    leaves = {name: R.argument(x) for name, x in arguments.items()}
    out = R.number(equation(R, leaves))
    return out.value, dict(zip(leaves, R.pulled(out, upstream, list(leaves.values())), strict=True))


def jvp(
    E: Evaluator, equation: Callable[..., Any], arguments: Mapping[str, Any], directions: Mapping[str, Any]
) -> Quantity:
    """The change of the equation's result for a small change of its arguments along the directions.

    A gradient is linear in what is pulled back: that map, pulled back itself from the directions, is the change.
    """
    outer = Reverse(E)
    inner = Reverse(outer)
    leaves = {name: inner.argument(x) for name, x in arguments.items()}
    out = inner.number(equation(inner, leaves))
    above, paired = outer.argument(np.zeros(out.shape)), outer.number(np.zeros((1, 1)))
    for name, g in zip(leaves, inner.pulled(out, above, list(leaves.values())), strict=True):
        paired = paired + outer.total((g * directions[name]).reshape(1, -1))
    return outer.pulled(paired, np.ones((1, 1)), [above])[0]


def _same(g: Quantity) -> Quantity:
    return g


def _through_product(a: Recorded, b: Recorded) -> tuple[tuple[Recorded, Pull], tuple[Recorded, Pull]]:
    """What a product of matrices gives back: products again."""
    return (a, lambda g: (g, b.value.swapaxes(-1, -2))), (b, lambda g: (a.value.swapaxes(-1, -2), g))


def _through_softmax(E: Evaluator, p: Quantity, g: Quantity, mean: Quantity) -> Quantity:
    """p·g − p·mean, as it errs most."""
    return p * g - p * mean


def _flat(pair: Product, shape: tuple[int, ...]) -> Product:
    """The factors of a gradient; of a matrix that met a whole batch, all rows of the batch one after another."""
    a, b = pair
    if len(shape) > 2 or len(a.shape) == 2:
        return pair
    rows = int(np.prod(a.shape[:-2])) * a.shape[-1]
    return a.swapaxes(-1, -2).reshape(rows, a.shape[-2]).swapaxes(-1, -2), b.reshape(rows, b.shape[-1])


def _readers(a: Recorded) -> Any:
    """The heads of the queries, those that read one key head one after another; nothing where each is read alone."""
    if a.gathered is None:
        return None
    source, index = a.gathered
    readers = np.bincount(index, minlength=source.shape[-3])
    return np.argsort(index, kind="stable") if len(set(readers)) == 1 else None
