"""A model under test: token ids in, exact logits out, and how far each number may be from its exact value."""

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from gnomon.impl.declaration import Held
from gnomon.props.expected import Expected, bounds, expected
from gnomon.props.fixed import ELSEWHERE, NARROWER, OVERFLOWS, OWN, TOO_COARSE, Learnt, stored
from gnomon.props.judge import Comparison, between, close, same
from gnomon.props.model_cases import ModelCase
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.props.subject import Call, Subject, guarded
from gnomon.spec.adjoint import Adjoint, Node
from gnomon.spec.blackbox import computed_narrower, unit_error
from gnomon.spec.block import block as block_spec
from gnomon.spec.block import score_scale
from gnomon.spec.bounds import Tracked
from gnomon.spec.configuration import Configuration
from gnomon.spec.evaluators import Evaluator, Floats, Mask, Quantity
from gnomon.spec.model import Tokens, layer_parameters, model, permitted
from gnomon.spec.scale import declared_scale

Comparisons = Iterator[Comparison]
Parameters = Mapping[str, Floats]
Trace = Mapping[str, Floats]

_NOTHING: Parameters = MappingProxyType({})
_KEPT = 32  # reckonings; a property asks for the same few again and again
_KEPT_OF_FIXED = 6  # those of a trained model are large


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """What a model is called with: ids `[batch, time]`, positions of the same shape, a mask of keys or of pairs."""

    tokens: Tokens
    positions: Any = None
    mask: Mask | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from other inputs."""
        parts = (self.tokens, self.positions, self.mask)
        return tuple(None if a is None else (np.shape(a), np.asarray(a).tobytes()) for a in parts)

    def options(self) -> dict[str, Any]:
        """The keywords of the call."""
        given = {"positions": self.positions, "mask": self.mask}
        return {name: np.asarray(value) for name, value in given.items() if value is not None}

    def part(self, start: int, stop: int) -> "Input":
        """Some of the tokens, with all the keys up to them."""
        positions = None if self.positions is None else self.positions[:, start:stop]
        mask = self.mask
        if mask is not None:
            mask = mask[:, :stop] if mask.ndim == 2 else mask[:, start:stop, :stop]
        return Input(self.tokens[:, start:stop], positions, mask)


@dataclass(frozen=True, slots=True, eq=False)
class Reckoning:
    """The exact output for one input, and the bound of any functional of what an implementation gives instead."""

    E: Adjoint
    out: Node

    @property
    def value(self) -> Floats:
        """The exact output."""
        return self.out.value

    def allowed(self, functional: Floats) -> float:
        """How far the functional of a correct implementation's output may be from that of the exact one."""
        return self.E.bound(self.out, functional)


@dataclass(eq=False)
class Box:
    """A model of a subject; calls are watched, results are exact float64 arrays."""

    subject: Subject
    configuration: Configuration
    parameters: Parameters
    handle: Any

    @property
    def narrow(self) -> bool:
        """Whether its numbers are stored in fewer bits than they are computed in: then only a trace decides."""
        return self.subject.precision.narrow

    @property
    def unknown(self) -> bool:
        """Whether nobody knows its parameters, so that its outputs can be held against each other only."""
        return self.subject.fixed is not None and self.subject.fixed.parameters is None

    @cached_property
    def identity(self) -> int:
        """What tells its parameters from others."""
        if self.subject.fixed is not None:
            return id(self.subject.fixed)
        return hash(tuple(p.tobytes() for p in self.parameters.values()))

    @property
    def width(self) -> int:
        """How many numbers it gives for a token."""
        return self.configuration.vocabulary if self.configuration.output == "logits" else self.configuration.width

    def __call__(self, given: Input, *, cache: Any = None, trace: dict[str, Any] | None = None) -> Floats:
        """Its output `[batch, time, vocabulary]`, or the last stream where that is what the configuration gives."""
        options: dict[str, Any] = {n: self.subject.hand(v) for n, v in given.options().items()}
        options |= {n: v for n, v in (("cache", cache), ("trace", trace)) if v is not None}
        held = self.subject.fixed is not None
        known = (given.tokens,) if held else (self.configuration, dict(self.parameters), given.tokens)
        self.subject.calls.append(Call("model", known, given.options(), None if cache is None else "a cache"))
        try:
            return self.call(self.subject.hand(given.tokens), options, given.tokens.shape)
        except ImplementationFailed as failure:
            if self.unknown and given.mask is not None and given.mask.ndim == 3:
                raise Declined(f"its model takes no mask of pairs: {failure}") from failure
            raise

    def call(self, ids: Any, options: Mapping[str, Any], shape: tuple[int, ...]) -> Floats:
        """The output for ids already in the framework's hands."""
        missing = sorted(set(options) - _keywords(self.handle))
        if missing:
            raise Declined(f"its model takes no {', '.join(missing)}")
        out = guarded("model", self.handle, [ids], options)
        return self.subject.taken("model", out, (*shape, self._columns(out)))

    def _columns(self, out: Any) -> int:
        """How many numbers are due for a token: with those of padding rows where it gives them as well."""
        c = self.configuration
        scored = c.padding_rows and c.output == "logits" and tuple(np.shape(out))[-1:] == (c.rows,)
        return c.rows if scored else self.width

    def offers(self, *options: str) -> bool:
        """Whether its calls take these keywords."""
        return set(options) <= _keywords(self.handle)

    def refuses(self, given: Input, *, cache: Any = None) -> bool:
        """Whether a call raises instead of returning anything at all, of whatever shape."""
        options: dict[str, Any] = {n: self.subject.hand(v) for n, v in given.options().items()}
        options |= {} if cache is None else {"cache": cache}
        try:
            guarded("model", self.handle, [self.subject.hand(given.tokens)], options)
        except ImplementationFailed:
            return True
        return False

    def ask(self, method: str, *arguments: Any) -> Any:
        """The result of another method of the model, `new_cache` say."""
        if not hasattr(self.handle, method):
            raise Declined(f"its model has no {method}")
        return guarded(f"model.{method}", getattr(self.handle, method), list(arguments), {})

    def run(self, given: Input, cache: Any = None) -> "Run":
        """A call and what came of it, with its trace where nothing else decides."""
        trace: dict[str, Any] | None = {} if self.narrow and not self.unknown and self.offers("trace") else None
        out = self(given, cache=cache, trace=trace)
        return Run(self, given, out, self.noted(trace or {}))

    def noted(self, trace: Mapping[str, Any]) -> Trace:
        """The trace as exact numbers."""
        return {name: self.subject.framework.take(value)[0] for name, value in trace.items()}

    def gradients(self, given: Input, upstream: Floats) -> dict[str, Floats]:
        """The gradient of ⟨upstream, output⟩ by every parameter."""
        if not hasattr(self.handle, "vjp"):
            raise Declined("its model has no vjp")
        options = {n: self.subject.hand(v) for n, v in given.options().items()}
        arrays = [self.subject.hand(given.tokens), self.subject.hand(upstream)]
        found = guarded("model.vjp", self.handle.vjp, arrays, options)
        missing = sorted(set(self.parameters) - set(found if isinstance(found, Mapping) else {}))
        if missing:
            raise ImplementationFailed(f"model.vjp gives no gradient by {', '.join(missing)}")
        return {n: self.subject.taken(f"the gradient by {n}", found[n], p.shape) for n, p in self.parameters.items()}

    def decode(self, given: Input, chunks: Sequence[int]) -> "Run":
        """The same tokens through a cache, so many at a time; outputs and traces put together again."""
        cache, ends = self.ask("new_cache"), np.cumsum(chunks)
        parts = [self.run(given.part(end - size, end), cache) for size, end in zip(chunks, ends, strict=True)]
        return joined(self, given, parts)


@dataclass(eq=False)
class Run:
    """What a model gave for an input."""

    box: Box
    given: Input
    out: Floats
    trace: Trace

    @cached_property
    def due(self) -> Reckoning | Learnt:
        """What is due for the input."""
        return learnt(self.box, self.given) if self.box.unknown else reckoned(self.box, self.given)


def joined(box: Box, given: Input, parts: Sequence[Run]) -> Run:
    """The run that several runs over consecutive tokens make."""
    names = parts[0].trace if all(p.trace.keys() == parts[0].trace.keys() for p in parts) else ()
    trace = {n: np.concatenate([p.trace[n] for p in parts], axis=-2) for n in names}
    return Run(box, given, np.concatenate([p.out for p in parts], axis=1), trace)


def _keywords(handle: Any) -> frozenset[str]:
    said = getattr(handle, "keywords", None)
    if isinstance(said, frozenset):
        return said
    own = inspect.signature(type(handle).__call__).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in own):
        return frozenset({"positions", "mask", "cache"})
    return frozenset(p.name for p in own)


def box(subject: Subject, case: ModelCase, changed: Parameters = _NOTHING, *, path: str | None = None) -> Box:
    """The case's model as the subject builds it, some parameters replaced; a black box as it is."""
    if subject.fixed is not None:
        return _fixed(subject, subject.fixed, changed, path)
    parameters = {**case.parameters(subject.precision.storage), **changed}
    return built(subject, case.configuration, parameters, path)


def built(subject: Subject, c: Configuration, parameters: Parameters, path: str | None = None) -> Box:
    """The model of the configuration with these parameters, as the subject builds it."""
    if subject.fixed is not None:
        raise Declined(OWN)
    return Box(subject, c, parameters, handle(subject, c, subject.hand(parameters), path))


def _fixed(subject: Subject, held: Held, changed: Parameters, path: str | None) -> Box:
    """The black box itself, or what stands in for it with the same parameters."""
    if changed:
        raise Declined(OWN)
    parameters = stored(held, subject.precision.storage)
    itself = subject.implementation.declaration.fixed is held
    handed = {"": np.zeros(0)} if itself else parameters  # an empty array says the dtype
    return Box(subject, held.shape, parameters, handle(subject, held.shape, subject.hand(handed), path))


def handle(subject: Subject, c: Configuration, handed: Any, path: str | None = None) -> Any:
    """The subject's own object for parameters already in its framework's hands."""
    subject.require("model")
    return guarded("model", subject.function("model", path), [c, handed], {})


def block(
    subject: Subject, case: ModelCase, changed: Parameters = _NOTHING, *, mask: Mask | None = None
) -> tuple[Floats, Floats, Expected]:
    """A stream, what the subject's first block makes of it, and what is due."""
    form, c = subject.precision.storage, case.configuration
    parameters = {**layer_parameters(case.parameters(form), 0), **changed}
    x, positions = case.stream(form), np.arange(case.time)
    due = block_spec(
        bounds(subject), c, x, parameters, positions=positions, allowed=permitted(c, 0, case.time, mask),
        **_conventions(subject, c),
    )  # fmt: skip
    got = subject.call("block", x, parameters, shape=x.shape, configuration=c, positions=positions, mask=mask)
    return x, got, expected(due)


def _conventions(subject: Subject, c: Configuration) -> dict[str, Any]:
    scale = score_scale(c) or declared_scale(subject.conventions.scale, c.head_width)
    return {"scale": scale, "mapping": subject.conventions.head_mapping}


_reckonings: OrderedDict[tuple[Any, ...], Reckoning] = OrderedDict()


def reckoned(box: Box, given: Input) -> Reckoning:
    """What is due under the subject's precision and conventions; the last few are kept."""
    precision, conventions = box.subject.precision, box.subject.conventions
    key = (box.configuration, box.identity, given.key, precision, conventions.scale, conventions.head_mapping)
    if key not in _reckonings:
        E = Adjoint(precision)
        _reckonings[key] = Reckoning(E, _evaluated(E, box, given))
        while len(_reckonings) > (_KEPT if box.subject.fixed is None else _KEPT_OF_FIXED):
            _reckonings.popitem(last=False)
    return _reckonings[key]


def equation(box: Box, given: Input, **mark: Any) -> Callable[[Evaluator, Mapping[str, Any]], Quantity]:
    """The model's output for an input, as an equation in its parameters."""

    def run(E: Evaluator, parameters: Mapping[str, Any]) -> Quantity:
        return model(
            E, box.configuration, parameters, given.tokens, positions=given.positions, mask=given.mask,
            **_conventions(box.subject, box.configuration), **mark,
        )  # fmt: skip

    return run


def _evaluated(E: Evaluator, box: Box, given: Input, **mark: Any) -> Quantity:
    parameters, tokens = _read(box, given.tokens)
    return equation(box, replace(given, tokens=tokens), **mark)(E, parameters)


def _read(box: Box, tokens: Tokens) -> tuple[Parameters, Tokens]:
    """The parameters with the rows of the token table that are read, and the tokens as numbers of those rows."""
    c = box.configuration
    if c.output == "logits" and c.tied:
        return box.parameters, tokens
    used, numbers = np.unique(tokens, return_inverse=True)
    rows = {"token_embedding": box.parameters["token_embedding"][used]}
    return {**box.parameters, **rows}, numbers.reshape(tokens.shape)


_learnt: OrderedDict[tuple[Any, ...], Learnt] = OrderedDict()


def learnt(box: Box, given: Input) -> Learnt:
    """What the model gives in float64 and in float32 for an input, and so what float32 costs; the last few are kept."""
    key = box.identity, given.key
    if key not in _learnt:
        one, other = (_in_dtype(box, dtype) for dtype in ("float32", "float64"))
        narrow, wide = one(given), other(given)
        real = np.broadcast_to(~_padding(given, wide.ndim), wide.shape)
        last = 0 if given.positions is None else int(np.max(given.positions))
        error, useless = unit_error(narrow[real], wide[real]), ""
        if (np.isfinite(narrow) & ~np.isfinite(wide))[real].any():
            useless = OVERFLOWS
        elif computed_narrower(narrow[real], wide[real]) or "float32" in _products(other, given):
            useless = NARROWER
        _learnt[key] = Learnt(error, last if last >= given.tokens.shape[1] else 0, useless)
        while len(_learnt) > _KEPT:
            _learnt.popitem(last=False)
    return _learnt[key]


def _products(box: Box, given: Input) -> frozenset[str]:
    """The dtypes in which the model computes products, as far as its framework shows."""
    watch, held = box.subject.framework.products, box.subject.fixed
    if watch is None:
        return frozenset()
    if held not in _watched:
        _watched[held] = watch(lambda: box(given))
    return _watched[held]


_watched: dict[Held | None, frozenset[str]] = {}


def unsettled(*runs: "Run") -> bool:
    """Whether what rounding may do between the runs is not known; why not is noted with the subject."""
    box = runs[0].box
    if not box.unknown:
        return False
    subject, held = box.subject, box.subject.fixed
    if held is not None and held.alone:
        subject.blind[held.alone] = None
    elif subject.dtype != "float64":
        subject.elsewhere[ELSEWHERE] = None
    else:
        dues = [run.due for run in runs]
        useless = [due.useless for due in dues if isinstance(due, Learnt) and due.useless]
        subject.blind |= dict.fromkeys(useless)
        return bool(useless)
    return True


def _in_dtype(box: Box, dtype: str) -> Box:
    """The same black box in another dtype."""
    held = box.subject.fixed
    assert held is not None
    return box if dtype == box.subject.dtype else _fixed(Subject(box.subject.implementation, dtype), held, {}, None)


def rebased(what: str, run: Run) -> Comparisons:
    """Every step that the trace shows is what follows from the steps before it, as the implementation had them."""
    if run.box.unknown:
        raise Declined(OWN)
    E, seen = bounds(run.box.subject), list[Comparison]()

    def mark(name: str, value: Tracked) -> Tracked:
        if name not in run.trace:
            return value
        got = run.trace[name]
        if got.shape != value.shape:
            raise ImplementationFailed(f"its trace has {name} of shape {got.shape} where {value.shape} is due")
        ignored = _padding(run.given, got.ndim)
        want = expected(value)
        seen.append(close(f"{name} of {what}", got, want.value, np.where(ignored, np.inf, want.allowed)))
        return E.number(np.where(ignored, 0.0, got))

    due = expected(_evaluated(E, run.box, run.given, mark=mark))
    yield from seen
    ignored = _padding(run.given, run.out.ndim)
    yield close(what, run.out, due.value, np.where(ignored, np.inf, due.allowed))


def _padding(given: Input, dimensions: int) -> Mask:
    """Where an array `[batch, …, time, features]` holds what was computed of padding, which nobody reads."""
    if given.mask is None or given.mask.ndim == 3:
        return np.zeros((1,) * dimensions, bool)
    batch, time = given.mask.shape
    return ~given.mask.reshape(batch, *(1,) * (dimensions - 3), time, 1)


def equals(what: str, run: Run, where: Any = ...) -> Comparisons:
    """The output is the exact one within what rounding may do: at the entry that is farthest off, and along all errors.

    where: an index of the entries that are compared. The functionals are chosen after the errors were seen, which a
    bound that holds for all of them allows.
    """
    if run.box.unknown:
        raise Declined(OWN)
    if run.box.narrow:
        yield from _narrow(what, run)
        return
    error = np.zeros(run.out.shape)
    error[where] = (run.out - run.due.value)[where]
    if not np.isfinite(error).all():
        yield close(what, np.where(np.isfinite(error), run.due.value, run.out), run.due.value, 0.0)
        return
    yield _at_worst(what, run.out, run.due.value, error, lambda functional: noted_bound(run, functional))
    size = float(np.sqrt((error * error).sum()))
    if size:
        yield close(f"{what}: the size of all errors together", size, 0.0, noted_bound(run, error / size))


def _narrow(what: str, *runs: Run) -> Comparisons:
    """In 16 bits: every step of each run by its trace, and nothing where there is none."""
    for run in runs:
        if run.trace:
            yield from rebased(what, run)
        else:
            yield close(what, 0.0, 0.0, np.inf)


def _at_worst(what: str, got: Floats, want: Floats, error: Floats, allowed_of: Any) -> Comparison:
    worst = np.unravel_index(np.argmax(np.abs(error)), error.shape)
    functional, allowed = np.zeros(error.shape), np.full(error.shape, np.inf)
    functional[worst] = 1.0
    allowed[worst] = allowed_of(functional)
    return close(what, got, want, allowed)


def agree(what: str, one: Run, other: Run, here: Any = ..., there: Any = ...) -> Comparisons:
    """Two runs gave the same numbers: |a − b| ≤ e_a + e_b at the entry where they are farthest apart.

    here, there: which parts of the two outputs are compared.
    """
    if one.box.narrow and not one.box.unknown:
        yield from _narrow(what, one, other)
        return
    got, want = one.out[here], other.out[there]
    if not got.size:
        return
    if np.array_equal(got, want):  # within any bound, so that it need not be reckoned
        yield same(what, got, want)
        return
    if unsettled(one, other):
        return
    if not np.isfinite(got).all():
        yield close(what, got, want, np.where(np.isfinite(got), np.inf, 0.0))
        return

    def allowed_of(functional: Floats) -> float:
        parts = ((one, here), (other, there))
        return sum(noted_bound(run, _placed(functional, run, where)) for run, where in parts)

    yield _at_worst(what, got, want, got - want, allowed_of)


def noted_bound(run: Run, functional: Floats) -> float:
    """The bound of a functional; of a trained model an infinite one is noted where float64 has a finite one."""
    bound = run.due.allowed(functional)
    subject = run.box.subject
    if subject.fixed is not None and np.isinf(bound) and subject.dtype != "float64":
        finer = "float64" in subject.implementation.declaration.dtypes
        subject.elsewhere |= {TOO_COARSE: None} if finer else {}
    return bound


def _placed(functional: Floats, run: Run, where: Any) -> Floats:
    """The functional of a part as one of the whole output."""
    whole = np.zeros(run.out.shape)
    whole[where] = functional
    return whole


def moves(what: str, one: Run, other: Run, where: Any = ...) -> Comparisons:
    """Where the exact outputs differ by more than twice what rounding may do, so do these, by what that leaves.

    Of a model whose parameters nobody knows nothing is due.
    """
    if one.box.unknown:
        return
    if one.box.narrow:
        yield from _narrow(what, one, other)
        return
    distance = np.zeros(one.out.shape)
    distance[where] = np.abs(one.due.value - other.due.value)[where]
    farthest = np.unravel_index(np.argmax(distance), distance.shape)
    functional = np.zeros(distance.shape)
    functional[farthest] = 1.0
    blur = noted_bound(one, functional) + noted_bound(other, functional)
    if distance[farthest] > 2 * blur:
        seen = float(np.abs(one.out - other.out)[farthest])
        yield between(what, seen, distance[farthest] - blur, distance[farthest] + blur, 0.0)
