"""What gradients are due: the pull-back of an operation's equation under the subject's precision and conventions."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gnomon.props import expected
from gnomon.props.box import Box, Input, equation
from gnomon.props.expected import Expected, bounds
from gnomon.props.subject import Subject
from gnomon.spec import attention as attention_spec
from gnomon.spec import embedding as embedding_spec
from gnomon.spec import heads as heads_spec
from gnomon.spec import linear as linear_spec
from gnomon.spec import norms, rotary
from gnomon.spec.adjoint import Adjoint, Node
from gnomon.spec.bounds import Bounds, Tracked
from gnomon.spec.configuration import Rotary
from gnomon.spec.constants import exactly
from gnomon.spec.descent import global_norm
from gnomon.spec.evaluators import Evaluator, Floats, Quantity
from gnomon.spec.linear import ACTIVATIONS
from gnomon.spec.precision import declared
from gnomon.spec.reverse import jvp, vjp
from gnomon.spec.scale import declared_scale

_WIDE = Bounds(declared("float64"))
Arrays = tuple[Any, ...]
Equation = Callable[..., Quantity]  # of an evaluator and the arrays of the call


def _attention(subject: Subject, arrays: Arrays, *, scale: float | None = None, **masking: Any) -> Equation:
    permitted, bias = expected.permission(subject, *arrays[:2], **masking)
    width, conventions = arrays[0].shape[-1], subject.conventions
    factor = declared_scale(conventions.scale, width) if scale is None else exactly(scale)
    return partial(
        attention_spec.attention, allowed=permitted, bias=bias, scale=factor, mapping=conventions.head_mapping
    )


def _multi_head(
    subject: Subject, arrays: Arrays, *, heads: int, kv_heads: int | None = None, **masking: Any
) -> Equation:
    x, parameters = arrays
    time, conventions = np.zeros((x.shape[0], heads, x.shape[1], 1)), subject.conventions
    permitted, bias = expected.permission(subject, time, time, **masking)
    scale = declared_scale(conventions.scale, parameters["query_weight"].shape[0] // heads)
    return partial(
        heads_spec.multi_head_attention, heads=heads, kv_heads=kv_heads, allowed=permitted, bias=bias, scale=scale,
        mapping=conventions.head_mapping,
    )  # fmt: skip


def _rope(
    subject: Subject, arrays: Arrays, *, base: float = 10000.0, rotary_width: int = 0, layout: Any = None,
    scaling: Any = None,
) -> Equation:  # fmt: skip
    turned = Rotary(base=base, width=rotary_width, layout=layout or subject.conventions.rotary_layout, scaling=scaling)
    sign = -1 if subject.conventions.rotation == "backward" else 1
    return lambda E, x, positions: rotary.rope(E, x, sign * positions, turned)


def _activation(name: str) -> Callable[..., Equation]:
    return lambda subject, arrays: lambda E, x: linear_spec.activate(E, name, x)


_EQUATIONS: Mapping[str, Callable[..., Equation]] = {
    "attention": _attention,
    "multi_head_attention": _multi_head,
    "linear": lambda subject, arrays: linear_spec.linear,
    "feed_forward": lambda subject, arrays, **options: partial(linear_spec.feed_forward, **options),
    "softmax": lambda subject, arrays: attention_spec.softmax,
    "layer_norm": lambda subject, arrays, **options: partial(norms.layer_norm, **options),
    "rms_norm": lambda subject, arrays, **options: partial(norms.rms_norm, **options),
    "embedding": lambda subject, arrays: embedding_spec.embedding,
    "rope": _rope,
    **{name: _activation(name) for name in ACTIVATIONS},
}


def due(subject: Subject, operation: str, arrays: Arrays, upstream: Floats, options: Mapping[str, Any]) -> list[Any]:
    """The gradient that is due by each array, or by each of a mapping; none by whole numbers."""
    flat, equation = flattened(arrays), _EQUATIONS[operation](subject, arrays, **options)

    def run(E: Evaluator, taken: Mapping[str, Any]) -> Quantity:
        return equation(E, *restored(arrays, taken))

    found = vjp(bounds(subject), run, flat, upstream)[1]
    return restored(arrays, {name: expected.expected(g) for name, g in found.items()}, None)


def pushed(subject: Subject, operation: str, arrays: Arrays, directions: Arrays, options: Mapping[str, Any]) -> Tracked:
    """The change of the output for a small change of the arrays, and what float64 makes of it."""
    flat, along = flattened(arrays), flattened(directions)
    equation = _EQUATIONS[operation](subject, arrays, **options)

    def run(E: Evaluator, taken: Mapping[str, Any]) -> Quantity:
        return equation(E, *restored(arrays, taken))

    change: Tracked = jvp(_WIDE, run, flat, along)
    return change


def flattened(arrays: Arrays) -> dict[str, Floats]:
    """Every array of numbers by a name: its place, and in a mapping its own name."""
    flat: dict[str, Floats] = {}
    for i, a in enumerate(arrays):
        if isinstance(a, Mapping):
            flat |= {f"{i}.{name}": x for name, x in a.items()}
        elif a is not None and np.asarray(a).dtype.kind not in "biu":
            flat[str(i)] = a
    return flat


_AS_IT_IS = object()


def restored(arrays: Arrays, flat: Mapping[str, Any], whole: Any = _AS_IT_IS) -> list[Any]:
    """What stands under those names in the places of the arrays; whole numbers as they are, or as something else."""
    return [
        {name: flat[f"{i}.{name}"] for name in a} if isinstance(a, Mapping)
        else flat.get(str(i), a if whole is _AS_IT_IS else whole)
        for i, a in enumerate(arrays)
    ]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Slopes:
    """The exact gradient of a model by every parameter, and the bound of any functional of what is got instead."""

    E: Adjoint
    found: Mapping[str, Node]

    @property
    def values(self) -> dict[str, Floats]:
        """All exact gradients."""
        return {name: node.value for name, node in self.found.items()}

    @property
    def norm(self) -> float:
        """The norm of all of them together."""
        return global_norm(self.values)

    def value(self, name: str) -> Floats:
        """The exact gradient by one parameter."""
        return self.found[name].value

    def allowed(self, functionals: Mapping[str, Floats]) -> float:
        """How far the sum of ⟨functional, gradient⟩ over some parameters may be off."""
        return self.E.bound_of_sum([(self.found[name], f) for name, f in functionals.items()])


def slopes(box: Box, given: Input, upstream: Floats) -> Slopes:
    """What the gradients of ⟨upstream, output⟩ by the parameters of a model are."""
    E = Adjoint(box.subject.precision)
    found = vjp(E, equation(box, given), box.parameters, upstream)[1]
    return Slopes(E, found)


def like(arrays: Arrays, made: Callable[[Floats], Floats]) -> list[Any]:
    """Something of the shape of every array of numbers; none for whole numbers."""
    return restored(arrays, {name: made(x) for name, x in flattened(arrays).items()}, None)


def only(arrays: list[Any], which: int) -> Arrays:
    """All arrays zero but one, counted as they are named."""
    places = iter(range(len(list(by_name(arrays)))))

    def kept(x: Any) -> Any:
        return x if next(places) == which else np.zeros(x.shape)

    return tuple(
        {n: kept(x) for n, x in a.items()} if isinstance(a, Mapping) else a if a is None else kept(a) for a in arrays
    )


def named(arrays: Arrays, which: int) -> Floats:
    """The array that is counted so."""
    own: Floats = list(by_name(list(arrays)))[which][1]
    return own


def by_name(arrays: list[Any]) -> Iterator[tuple[str, Any]]:
    """Gradients with what to call them."""
    for i, a in enumerate(arrays):
        if isinstance(a, Mapping):
            yield from a.items()
        elif a is not None:
            yield f"argument {i + 1}", a


def paired(found: list[Any], due_of: list[Any]) -> Iterator[tuple[str, Floats, Expected]]:
    """Each gradient with what is due for it."""
    for (name, got), (_, want) in zip(by_name(found), by_name(due_of), strict=True):
        yield name, got, want
