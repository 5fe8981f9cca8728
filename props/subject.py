"""The subject of a run: one implementation in one dtype, called with exact numbers and watched."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from operator import index
from typing import Any

import numpy as np

from gnomon.impl.frameworks import Framework, NotAnArray, framework
from gnomon.impl.loading import Implementation
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.spec.configuration import Configuration
from gnomon.spec.conventions import Conventions
from gnomon.spec.evaluators import Floats
from gnomon.spec.precision import Precision, declared

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it was made: arrays exact in the dtype, in our axes and polarity."""

    operation: str
    arrays: tuple[Any, ...]
    options: Mapping[str, Any]
    path: str | None = None
    layout: str | None = None


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
            raise Declined(f"it has no function {operation}")
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

    def count(self, operation: str, configuration: Configuration, *lengths: int, **options: int) -> int:
        """A whole number that it computes of a configuration."""
        self.require(operation, *options)
        result = _guarded(operation, self.implementation.operations[operation], [configuration, *lengths], options)
        try:
            return index(result)
        except TypeError as error:
            raise ImplementationFailed(f"{operation} returned {result!r} where a whole number is due") from error

    def call(
        self,
        operation: str,
        *arrays: Any,
        shape: Shape,
        path: str | None = None,
        layout: str | None = None,
        **options: Any,
    ) -> Floats:
        """The result of one call, checked for its kind, shape and dtype before any value is looked at."""
        given = {name: value for name, value in options.items() if value is not None and value is not False}
        self.require(operation, *given)
        self.calls.append(Call(operation, arrays, given, path, layout))
        handed = [self.hand(a, layout) for a in arrays]
        return self.invoke(operation, handed, {n: self.hand_option(n, v) for n, v in given.items()}, shape, path)

    def invoke(
        self, operation: str, arrays: list[Any], options: Mapping[str, Any], shape: Shape, path: str | None
    ) -> Floats:
        """The result for arrays already in the framework's hands."""
        if operation == "attention":
            self._require_groups(*arrays[:2])
        function = self._function(operation, path)
        renamed = self.implementation.declaration.keywords
        result = _guarded(operation, function, arrays, {renamed.get(n, n): v for n, v in options.items()})
        return self._taken(operation, result, shape)

    def hand(self, x: Any, layout: str | None = None) -> Any:
        """The array, or the arrays of a mapping, in the framework and dtype under test."""
        if isinstance(x, Mapping):
            return {name: self.hand(value, layout) for name, value in x.items()}
        array = self.framework.give(np.asarray(x), self.dtype)
        return array if layout is None or np.ndim(x) < 2 else self._arranged(array, layout)

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

    def _arranged(self, array: Any, layout: str) -> Any:
        if self.framework.arrange is None:
            raise Declined(f"{self.framework.name} arrays have no memory layout to vary")
        return self.framework.arrange(array, layout)

    def _function(self, operation: str, path: str | None) -> Callable[..., Any]:
        if path is None:
            return self.implementation.operations[operation]
        return self.implementation.paths[operation][path]

    def _taken(self, operation: str, result: Any, shape: Shape) -> Floats:
        try:
            array, dtype = self.framework.take(result)
        except NotAnArray as error:
            raise ImplementationFailed(f"{operation} returned {error}") from error
        if array.shape != shape:
            raise ImplementationFailed(f"{operation} returned the shape {array.shape} where {shape} is due")
        if dtype != self.dtype:
            raise ImplementationFailed(f"{operation} returned {dtype} for {self.dtype} arguments: {_WIDENED}")
        return array


@cache
def _refuses_groups(implementation: Implementation, dtype: str) -> str:
    """What attention says when four query heads share two of keys and values; nothing if it takes them."""
    subject = Subject(implementation, dtype)
    query, shared = subject.hand(np.ones((1, 4, 2, 2))), subject.hand(np.ones((1, 2, 2, 2)))
    try:
        _guarded("attention", implementation.operations["attention"], [query, shared, shared], {})
    except (Declined, ImplementationFailed) as reason:
        return str(reason)
    return ""


_WIDENED = "convert the result, or find what widened it (np.sqrt of an integer is float64; math.sqrt is not)"


def _guarded(operation: str, function: Callable[..., Any], arrays: list[Any], options: Mapping[str, Any]) -> Any:
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
