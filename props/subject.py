"""The subject of a run: one implementation in one dtype, called with exact numbers and watched."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from operator import index
from typing import Any

import numpy as np

from gnomon.impl.declaration import Held
from gnomon.impl.frameworks import Framework, NotAnArray, framework
from gnomon.impl.loading import Implementation
from gnomon.props.outcome import LACKS, Declined, ImplementationFailed
from gnomon.spec.configuration import Configuration
from gnomon.spec.conventions import Conventions
from gnomon.spec.evaluators import Floats
from gnomon.spec.precision import FORMATS, Precision, declared

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it was made: arrays exact in the dtype, in our axes and polarity."""

    operation: str
    arrays: tuple[Any, ...]
    options: Mapping[str, Any]
    path: str | None = None
    view: str | None = None


@dataclass(eq=False)
class Subject:
    """An implementation bound to a dtype; every operation takes and returns exact float64 arrays.

    A call that the implementation does not offer raises `Declined`; one that it fails, `ImplementationFailed`.
    """

    implementation: Implementation
    dtype: str
    rounding: Precision | None = None  # in place of what the implementation declares
    calls: list[Call] = field(default_factory=list)
    measured: dict[str, str] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)  # operation to what the smoke test found
    like: Held | None = None  # the black box whose configuration and parameters it is given
    blind: dict[str, None] = field(default_factory=dict)  # why something could not be held against it
    elsewhere: dict[str, None] = field(default_factory=dict)  # why something is held against it in another dtype

    @property
    def fixed(self) -> Held | None:
        """The black box that it is, or stands in for."""
        own = self.implementation.declaration.fixed
        return self.like or (own if isinstance(own, Held) else None)

    @cached_property
    def precision(self) -> Precision:
        """What it is held to: its declared rounding, unless another is given."""
        return self.rounding or declared(self.dtype, self.implementation.declaration.sites)

    @cached_property
    def framework(self) -> Framework:
        """How arrays reach it."""
        return framework(self.implementation.declaration.framework)

    @property
    def conventions(self) -> Conventions:
        """What it declares."""
        return self.implementation.declaration.conventions

    def offers(self, operation: str, *options: str) -> bool:
        """Whether it has the operation, in working order, with these keywords."""
        if operation in self.broken or operation not in self.implementation.operations:
            return False
        return set(options) <= self.implementation.keywords(operation)

    @property
    def masks(self) -> tuple[str, ...]:
        """The forms in which its attention takes a mask."""
        given = ("boolean", "additive") if self.offers("attention", "mask") else ()
        return ("none", *given, *(("causal",) if self.offers("attention", "causal") else ()))

    def paths(self, operation: str) -> tuple[str, ...]:
        """The names of its other paths for the operation."""
        return tuple(self.implementation.paths.get(operation, ()))

    def require(self, operation: str, *options: str) -> None:
        """Decline unless it offers the operation with these keywords."""
        if operation in self.broken:
            raise ImplementationFailed(self.broken[operation])
        if operation not in self.implementation.operations:
            raise Declined(f"{LACKS} {operation}")
        missing = sorted(set(options) - self.implementation.keywords(operation))
        if missing:
            raise Declined(f"its {operation} has no keyword {', '.join(missing)}")

    def attention(self, query: Floats, key: Floats, value: Floats, **options: Any) -> Floats:
        """Its attention; output `[batch, heads, queries, value_width]`."""
        return self.call("attention", query, key, value, shape=(*query.shape[:-1], value.shape[-1]), **options)

    def multi_head(self, x: Floats, parameters: Mapping[str, Floats], **options: Any) -> Floats:
        """Its multi-head attention; output `[batch, time, width]`."""
        shape = (*x.shape[:-1], parameters["output_weight"].shape[0])
        return self.call("multi_head_attention", x, parameters, shape=shape, **options)

    def linear(self, x: Floats, weight: Floats, bias: Floats | None = None) -> Floats:
        """Its linear layer; output `[..., out]`."""
        arrays = (x, weight) if bias is None else (x, weight, bias)
        return self.call("linear", *arrays, shape=(*x.shape[:-1], weight.shape[0]))

    def norm(self, name: str, x: Floats, *gains: Floats, eps: float, path: str | None = None) -> Floats:
        """Its norm of that name, with gain and shift; output of the input's shape."""
        return self.call(name, x, *gains, shape=x.shape, eps=eps, path=path)

    def embedding(self, table: Floats, ids: Any, path: str | None = None) -> Floats:
        """Its look-up; output `[..., width]`."""
        return self.call("embedding", table, ids, shape=(*ids.shape, table.shape[-1]), path=path)

    def rope(self, x: Floats, positions: Any, *, layout: str | None = None, **options: Any) -> Floats:
        """Its rotation; output of the input's shape. The declared layout is not asked for where nobody can."""
        spoken = layout != self.conventions.rotary_layout or self.offers("rope", "layout")
        return self.call("rope", x, positions, shape=x.shape, layout=layout if spoken else None, **options)

    def sinusoidal_positions(self, positions: Any, width: int) -> Floats:
        """Its table; output `[..., width]`."""
        return self.call("sinusoidal_positions", positions, width, shape=(*positions.shape, width))

    def alibi_slopes(self, heads: int) -> Floats:
        """Its slopes; output `[heads]`."""
        return self.call("alibi_slopes", heads, shape=(heads,))

    def count(self, operation: str, configuration: Configuration | str | int, *lengths: int, **options: int) -> int:
        """A whole number that it computes of a configuration, of a layer of that name or of sizes."""
        self.require(operation, *options)
        result = guarded(operation, self.implementation.operations[operation], [configuration, *lengths], options)
        try:
            return index(result)
        except TypeError as error:
            raise ImplementationFailed(f"{operation} returned {result!r} where a whole number is due") from error

    def number(self, operation: str, *arguments: Any, **options: Any) -> float:
        """A real number that it computes of anything but arrays."""
        self.require(operation, *options)
        result = guarded(operation, self.implementation.operations[operation], list(arguments), options)
        try:
            return float(result)
        except (TypeError, ValueError) as error:
            raise ImplementationFailed(f"{operation} returned {result!r} where a number is due") from error

    def tensors(self, operation: str, *arguments: Any, **options: Any) -> dict[str, Floats]:
        """Arrays by name that it makes of anything but arrays, in whatever dtype."""
        self.require(operation, *options)
        result = guarded(operation, self.implementation.operations[operation], list(arguments), options)
        if not isinstance(result, Mapping):
            raise ImplementationFailed(
                f"{operation} returned a {type(result).__name__} where names with arrays are due"
            )
        return {name: self.framework.take(array)[0] for name, array in result.items()}

    def call(
        self,
        operation: str,
        *arrays: Any,
        shape: Shape,
        path: str | None = None,
        view: str | None = None,
        **options: Any,
    ) -> Floats:
        """The result of one call, checked for its kind, shape and dtype before any value is looked at."""
        given = {name: value for name, value in options.items() if value is not None and value is not False}
        self.require(operation, *given)
        self.calls.append(Call(operation, arrays, given, path, view))
        handed = [self.hand(a, view) for a in arrays]
        return self.invoke(operation, handed, {n: self.hand_option(n, v) for n, v in given.items()}, shape, path)

    def vjp(
        self, operation: str, *arrays: Any, upstream: Floats, path: str | None = None, view: str | None = None,
        handed: list[Any] | None = None, **options: Any,
    ) -> list[Any]:  # fmt: skip
        """The gradient of ⟨upstream, operation⟩ by every array, or by each of a mapping; none by whole numbers.

        By its own `vjp`, where it has one, and else by its framework's way of differentiating the operation. view: how
        the gradient above lies in memory. handed: the arrays and that gradient in the framework's hands already.
        """
        given = {name: value for name, value in options.items() if value is not None and value is not False}
        self.require(operation, *given)
        self.calls.append(Call(f"vjp of {operation}", (*arrays, upstream), given, path))
        *taken, above = handed or [*(self.hand(a) for a in arrays), self.hand(upstream, view)]
        if operation == "attention":
            self._require_groups(*taken[:2])
        renamed = self.implementation.declaration.keywords
        named = {renamed.get(n, n): self.hand_option(n, v) for n, v in given.items()}
        found = self._pulled(operation, path, taken, above, named)
        what = f"the gradient of {operation} by argument"
        return [self._gradient(f"{what} {i + 1}", found[i], a) for i, a in enumerate(arrays)]

    def _pulled(
        self, operation: str, path: str | None, handed: list[Any], above: Any, named: Mapping[str, Any]
    ) -> list[Any]:
        own, what = self.implementation.operations.get("vjp"), f"the gradient of {operation}"
        if own is not None and path is None:
            found = guarded(what, lambda *a, **k: own(operation, list(a[:-1]), a[-1], **k), [*handed, above], named)
            return _of_each(what, found, len(handed))
        differentiate, function = self.framework.vjp, partial(self.function(operation, path), **named)
        if own is not None or differentiate is None:
            raise Declined(f"{LACKS} vjp, and {self.framework.name} can not differentiate its {operation}")
        return list(guarded(what, lambda *a: differentiate(function, list(a[:-1]), a[-1]), [*handed, above], {}))

    def _gradient(self, what: str, found: Any, by: Any) -> Any:
        """A gradient as exact numbers, of the shape and dtype of what it is by."""
        if isinstance(by, Mapping):
            held = found if isinstance(found, Mapping) else {}
            absent = [name for name in by if name not in held]
            if absent:
                raise ImplementationFailed(f"{what} lacks {', '.join(absent)}: it is due by every name of a mapping")
            return {name: self._gradient(f"{what} by {name}", held[name], x) for name, x in by.items()}
        if np.asarray(by).dtype.kind in "biu":
            return None
        return self.taken(what, found, np.shape(by))

    def invoke(
        self, operation: str, arrays: list[Any], options: Mapping[str, Any], shape: Shape, path: str | None
    ) -> Floats:
        """The result for arrays already in the framework's hands."""
        if operation == "attention":
            self._require_groups(*arrays[:2])
        function = self.function(operation, path)
        renamed = self.implementation.declaration.keywords
        result = guarded(operation, function, arrays, {renamed.get(n, n): v for n, v in options.items()})
        return self.taken(operation, result, shape)

    def hand(self, x: Any, view: str | None = None) -> Any:
        """The array, or the arrays of a mapping, in the framework and dtype under test; a whole number as it is."""
        if isinstance(x, Mapping):
            return {name: self.hand(value, view) for name, value in x.items()}
        if isinstance(x, int):
            return x
        array = self.framework.give(np.asarray(x), self.dtype)
        return array if view is None or np.ndim(x) < 2 else self._arranged(array, view)

    def hand_option(self, name: str, value: Any) -> Any:
        """A keyword's value as the implementation wants it: a boolean mask in its polarity, numbers as they are."""
        if not isinstance(value, np.ndarray):
            return value
        flipped = name == "mask" and value.dtype == bool and self.conventions.polarity == "block"
        return self.hand(~value if flipped else value)

    def _require_groups(self, query: Any, key: Any) -> None:
        """Decline where key-value heads are shared and its attention raises whenever they are."""
        refusal = "" if query.shape[-3] == key.shape[-3] else _refuses_groups(self.implementation, self.dtype)
        if refusal:
            raise Declined(f"its attention takes no fewer key-value heads than query heads: {refusal}")

    def _arranged(self, array: Any, view: str) -> Any:
        if self.framework.arrange is None:
            raise Declined(f"{self.framework.name} arrays have no memory layout to vary")
        return self.framework.arrange(array, view)

    def function(self, operation: str, path: str | None) -> Callable[..., Any]:
        """The operation, or its other path of that name."""
        if path is None:
            return self.implementation.operations[operation]
        return self.implementation.paths[operation][path]

    def taken(self, operation: str, result: Any, shape: Shape) -> Floats:
        """The result as exact float64, after its kind, shape and dtype."""
        try:
            array, dtype = self.framework.take(result)
        except NotAnArray as error:
            raise ImplementationFailed(f"{operation} returned {error}") from error
        if array.shape != shape:
            raise ImplementationFailed(f"{operation} returned the shape {array.shape} where {shape} is due")
        if dtype != self.dtype and operation in _FREE:
            self._require_digits(operation, dtype)
        elif dtype != self.dtype:
            raise ImplementationFailed(f"{operation} returned {dtype} for {self.dtype} arguments: {_WIDENED}")
        return array

    def _require_digits(self, operation: str, dtype: str) -> None:
        """Decline a result that has fewer digits than are asked about, where no argument said how many are wanted."""
        if dtype not in FORMATS:
            raise ImplementationFailed(f"{operation} returned {dtype} where a floating type is due")
        if FORMATS[dtype].digits < self.precision.storage.digits:
            raise Declined(f"its {operation} gives {dtype} whatever is asked, which can not be held to {self.dtype}")


@cache
def _refuses_groups(implementation: Implementation, dtype: str) -> str:
    """What attention says when four query heads share two of keys and values; nothing if it takes them."""
    subject = Subject(implementation, dtype)
    query, shared = subject.hand(np.ones((1, 4, 2, 2))), subject.hand(np.ones((1, 2, 2, 2)))
    try:
        guarded("attention", implementation.operations["attention"], [query, shared, shared], {})
    except (Declined, ImplementationFailed) as reason:
        return str(reason)
    return ""


def _of_each(what: str, found: Any, count: int) -> list[Any]:
    """The gradients, one for each argument."""
    if not isinstance(found, list | tuple):
        raise ImplementationFailed(f"{what} is a {type(found).__name__} where a list of {count} is due")
    if len(found) != count:
        raise ImplementationFailed(f"{what} is a list of {len(found)} where {count} are due, one for each array")
    return list(found)


# Without an array whose dtype the result could have, or of a sum that is better kept in more digits.
_FREE = ("sinusoidal_positions", "alibi_slopes", "cross_entropy", "next_token_loss")
_WIDENED = "convert the result, or find what widened it (np.sqrt of an integer is float64; math.sqrt is not)"


def guarded(operation: str, function: Callable[..., Any], arrays: list[Any], options: Mapping[str, Any]) -> Any:
    """The result of the user's code; what it raises becomes one sentence, and its warnings are not ours."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return function(*arrays, **options)
    except NotImplementedError as reason:
        raise Declined(str(reason) or f"{operation} declines") from reason
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # SystemExit too: a user's function must not end the run
        message = " ".join(str(error).split())[:300]
        raise ImplementationFailed(
            f"{operation} raised {type(error).__name__}{': ' if message else ''}{message} "
            f"for {_described(arrays, options)}"
        ) from error


def _kind(argument: Any) -> str:
    if isinstance(argument, Mapping):
        return f"{len(argument)} parameters"
    return str(tuple(argument.shape)) if hasattr(argument, "shape") else str(argument)


def _described(arrays: list[Any], options: Mapping[str, Any]) -> str:
    shapes = [_kind(a) for a in arrays]
    words = [f"{n}={tuple(v.shape) if hasattr(v, 'shape') else v}" for n, v in options.items()]
    return ", ".join([*shapes, *words])
