"""Gradients in NumPy: arrays that remember what they were computed from, and the way back.

The operations of the NumPy implementation run on `Taped` arrays as they run on plain ones, so that each has a gradient
without a line of its own. What a ufunc gives back to its arguments stands in `_RULES`; one without a rule, a comparison
for instance, gives a plain array, of which there is no gradient.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

Array = Any  # plain or taped
Pull = Callable[[Any], Any]

erf = np.frompyfunc(math.erf, 1, 1)
_clock = count()


class Taped(NDArrayOperatorsMixin):
    """An array with the arrays that it was computed from, and what each of them gets of its gradient."""

    def __init__(self, value: Any, arguments: Sequence[tuple[Any, Pull]] = ()):
        self.value = np.asarray(value)
        self.arguments = [(a, pull) for a, pull in arguments if isinstance(a, Taped)]
        self.born = next(_clock)

    shape = property(lambda self: self.value.shape)
    dtype = property(lambda self: self.value.dtype)
    ndim = property(lambda self: self.value.ndim)
    size = property(lambda self: self.value.size)

    def __len__(self) -> int:
        return len(self.value)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a taped array would lose its gradient: use gnomon.impl.tape.asarray")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        values = [plain(x) for x in inputs]
        out = ufunc(*values)
        rule = _RULES.get(ufunc)
        return out if rule is None else Taped(out, list(zip(inputs, rule(out, *values), strict=True)))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _FUNCTIONS[function](*args, **kwargs) if function in _FUNCTIONS else NotImplemented

    def __getitem__(self, index: Any) -> "Taped":
        def pull(g: Any) -> Any:
            whole = np.zeros(self.shape, g.dtype)
            np.add.at(whole, index, g)
            return whole

        return Taped(self.value[index], [(self, pull)])

    def astype(self, dtype: Any) -> "Taped":
        """The same numbers in another dtype; what comes back is not rounded."""
        return Taped(self.value.astype(dtype), [(self, _same)])

    def reshape(self, *shape: int) -> "Taped":
        """The same numbers in another shape."""
        return Taped(self.value.reshape(*shape), [(self, lambda g: g.reshape(self.shape))])

    def swapaxes(self, a: int, b: int) -> "Taped":
        """The same numbers with two axes exchanged."""
        return Taped(self.value.swapaxes(a, b), [(self, lambda g: g.swapaxes(a, b))])

    def take(self, indices: Any, axis: int) -> "Taped":
        """The entries along an axis, in the order of the indices."""
        return self[(slice(None),) * (axis % self.ndim) + (indices,)]

    def sum(self, axis: int, keepdims: bool = False) -> "Taped":
        """The sum over an axis."""

        def pull(g: Any) -> Any:
            return np.broadcast_to(g if keepdims else np.expand_dims(g, axis), self.shape)

        return Taped(self.value.sum(axis, keepdims=keepdims), [(self, pull)])

    def mean(self, axis: int, keepdims: bool = False) -> "Taped":
        """The mean over an axis."""
        total: Taped = self.sum(axis, keepdims) / self.dtype.type(self.shape[axis])
        return total

    def max(self, *args: Any, **options: Any) -> Any:
        """The largest entries, as plain numbers: what is found so is a shift, which cancels."""
        return self.value.max(*args, **options)


def plain(x: Array) -> Any:
    """The numbers alone: no gradient goes through them."""
    return x.value if isinstance(x, Taped) else x


def asarray(x: Array, dtype: Any = None) -> np.ndarray[Any, np.dtype[Any]]:
    """The array in that dtype, still taped if it was."""
    if not isinstance(x, Taped):
        return np.asarray(x, dtype)
    return _as_array(x if dtype is None or x.dtype == dtype else x.astype(dtype))


def straight(value: Array, through: Array) -> np.ndarray[Any, np.dtype[Any]]:
    """The first array's numbers with the second one's gradient: what a backward pass of its own amounts to."""
    return _as_array(Taped(plain(value), [(through, _same)]) if isinstance(through, Taped) else plain(value))


def _as_array(x: Array) -> np.ndarray[Any, np.dtype[Any]]:
    """The array as those see it who do not know whether it is taped."""
    return cast("np.ndarray[Any, np.dtype[Any]]", x)


def recorded(x: Any) -> Any:
    """The array, or every array of a mapping, as something by which gradients are asked; whole numbers as they are."""
    if isinstance(x, Mapping):
        return {name: recorded(value) for name, value in x.items()}
    return x if np.asarray(x).dtype.kind in "biu" else Taped(x)


def pull(out: Array, upstream: Any) -> dict[int, Any]:
    """The gradient of ⟨upstream, out⟩ by everything that it was computed from, by when that was made."""
    held: dict[int, Any] = {out.born: upstream} if isinstance(out, Taped) else {}
    found = dict[int, Any]()
    for node in sorted(_behind(out), key=lambda n: n.born, reverse=True):
        if node.born not in held:
            continue
        found[node.born] = g = _reduced(held.pop(node.born), node)
        for argument, back in node.arguments:
            part = _reduced(back(g), argument)
            held[argument.born] = part if argument.born not in held else held[argument.born] + part
    return found


def gradient(x: Any, found: Mapping[int, Any]) -> Any:
    """The gradient by what was recorded, of its shape, zero where nothing depends on it."""
    if isinstance(x, Mapping):
        return {name: gradient(value, found) for name, value in x.items()}
    if not isinstance(x, Taped):
        return None
    return found.get(x.born, np.zeros(x.shape, x.dtype)).astype(x.dtype)


def _behind(out: Array) -> Iterator[Taped]:
    seen, todo = set[int](), [out] if isinstance(out, Taped) else []
    while todo:
        node = todo.pop()
        if node.born not in seen:
            seen.add(node.born)
            todo.extend(a for a, _ in node.arguments)
            yield node


def _reduced(g: Any, node: Taped) -> Any:
    """A gradient summed over the axes along which its array was broadcast; that of 16-bit numbers in float32."""
    g = g.sum(axis=tuple(range(g.ndim - node.ndim))) if g.ndim > node.ndim else g
    spread = tuple(i for i, n in enumerate(node.shape) if n == 1 and g.shape[i] != 1)
    g = g.sum(axis=spread, keepdims=True) if spread else g
    return g if node.dtype.kind == "O" else g.astype(np.float32 if node.dtype.itemsize == 2 else node.dtype)


def _same(g: Any) -> Any:
    return g


# What each argument gets, from the result and the arguments.
_RULES: dict[Any, Callable[..., Sequence[Pull]]] = {
    np.add: lambda y, a, b: (_same, _same),
    np.subtract: lambda y, a, b: (_same, lambda g: -g),
    np.multiply: lambda y, a, b: (lambda g: g * b, lambda g: g * a),
    np.divide: lambda y, a, b: (lambda g: g / b, lambda g: -g * y / b),
    np.negative: lambda y, a: (lambda g: -g,),
    np.exp: lambda y, a: (lambda g: g * y,),
    np.exp2: lambda y, a: (lambda g: g * y * y.dtype.type(math.log(2)),),
    np.log: lambda y, a: (lambda g: g / a,),
    np.sqrt: lambda y, a: (lambda g: g / (y + y),),
    np.tanh: lambda y, a: (lambda g: g * (1 - y * y),),
    np.absolute: lambda y, a: (lambda g: g * np.sign(a),),
    np.cos: lambda y, a: (lambda g: -g * np.sin(a),),
    np.sin: lambda y, a: (lambda g: g * np.cos(a),),
    np.maximum: lambda y, a, b: (lambda g: np.where(a > b, g, 0), lambda g: np.where(a > b, 0, g)),
    np.minimum: lambda y, a, b: (lambda g: np.where(a < b, g, 0), lambda g: np.where(a < b, 0, g)),
    np.matmul: lambda y, a, b: (lambda g: g @ b.swapaxes(-1, -2), lambda g: a.swapaxes(-1, -2) @ g),
    erf: lambda y, a: (lambda g: g * a.dtype.type(2 / math.sqrt(math.pi)) * np.exp(-a * a),),
}


def _where(condition: Any, one: Array, other: Array) -> Taped:
    seen = plain(condition)
    pulls = (one, lambda g: np.where(seen, g, 0)), (other, lambda g: np.where(seen, 0, g))
    return Taped(np.where(seen, plain(one), plain(other)), pulls)


def _concatenate(parts: Sequence[Array], axis: int = 0) -> Taped:
    ends = np.cumsum([p.shape[axis] for p in parts])[:-1]

    def piece(i: int) -> Pull:
        return lambda g: np.split(g, ends, axis)[i]

    return Taped(np.concatenate([plain(p) for p in parts], axis), [(p, piece(i)) for i, p in enumerate(parts)])


def _stack(parts: Sequence[Array], axis: int = 0) -> Taped:
    def piece(i: int) -> Pull:
        return lambda g: np.take(g, i, axis)

    return Taped(np.stack([plain(p) for p in parts], axis), [(p, piece(i)) for i, p in enumerate(parts)])


def _roll(x: Taped, shift: int, axis: int) -> Taped:
    return Taped(np.roll(x.value, shift, axis), [(x, lambda g: np.roll(g, -shift, axis))])


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.roll: _roll,
    np.where: _where,
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.isneginf: lambda x: np.isneginf(x.value),
    np.zeros_like: lambda x: np.zeros_like(x.value),
    np.ones_like: lambda x: np.ones_like(x.value),
    np.full_like: lambda x, value: np.full_like(x.value, value),
    np.broadcast_to: lambda x, shape: Taped(np.broadcast_to(x.value, shape), [(x, _same)]),
}
