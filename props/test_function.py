"""I.1 held to every operation that an implementation offers: a function, and nothing but a function."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gnomon.impl.frameworks import LAYOUTS
from gnomon.props import expected
from gnomon.props.cases import (
    AttentionCase,
    Case,
    FeedForwardCase,
    LinearCase,
    MultiHeadCase,
    RotaryCase,
    Strategy,
    attention_cases,
    feed_forward_cases,
    linear_cases,
    multi_head_cases,
    rotary_cases,
)
from gnomon.props.expected import Expected
from gnomon.props.judge import Comparison, close, same
from gnomon.props.outcome import Declined
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import function as spec
from gnomon.spec.evaluators import Floats
from gnomon.spec.linear import ACTIVATIONS

Comparisons = Iterator[Comparison]


@dataclass(frozen=True, slots=True)
class Request:
    """One call of an operation: arrays, keywords and the shape that is due."""

    operation: str
    arrays: tuple[Any, ...]
    options: dict[str, Any]
    shape: tuple[int, ...]

    def of(self, subject: Subject, **how: Any) -> Floats:
        """What the implementation gives."""
        return subject.call(self.operation, *self.arrays, shape=self.shape, **self.options, **how)

    def due(self, subject: Subject) -> Expected:
        """What the specification says."""
        due: Expected = _DUE[self.operation](subject, *self.arrays, **self.options)
        return due


_DUE: Mapping[str, Any] = {
    "attention": expected.attention,
    "multi_head_attention": expected.multi_head,
    "linear": expected.linear,
    "feed_forward": expected.feed_forward,
    "softmax": expected.softmax,
    "rope": expected.rope_as_asked,
} | {name: (lambda subject, x, name=name: expected.activation(subject, name, x)) for name in ACTIVATIONS}


def request(subject: Subject, case: Case) -> Request:
    """The call that a case stands for."""
    form = subject.precision.storage
    match case:
        case AttentionCase():
            arrays, options = case.arrays(form), case.options(form)
            return Request("attention", arrays, options, (*arrays[0].shape[:-1], case.value_width))
        case MultiHeadCase():
            x = case.input(form)
            return Request("multi_head_attention", (x, case.parameters(form)), case.options(), x.shape)
        case FeedForwardCase(gated=False, hidden=1):
            x = case.input(form)
            return Request(_elementwise(subject, case), (x,), {}, x.shape)
        case FeedForwardCase():
            x, options = case.input(form), {"activation": case.activation}
            return Request("feed_forward", (x, case.parameters(form)), options, x.shape)
        case LinearCase():
            x, (weight, bias) = case.input(form), case.layer(form)
            layer = (weight,) if bias is None else (weight, bias)
            return Request("linear", (x, *layer), {}, (*x.shape[:-1], case.outer))
        case RotaryCase():
            x, _ = case.arrays(form)
            return Request("rope", (x, case.positions), case.options(), x.shape)
    raise TypeError(f"no operation takes a {type(case).__name__}")


def _elementwise(subject: Subject, case: FeedForwardCase) -> str:
    """The activation of the case, or softmax, whichever of them is offered."""
    names = (case.activation, "softmax", *ACTIVATIONS)
    turned = names if case.seed % 2 else (*names[1:], names[0])
    return next((n for n in turned if subject.offers(n)), "softmax")


def _attention_cases(subject: Subject) -> Strategy:
    return attention_cases(masked=st.sampled_from(subject.masks), width=st.sampled_from((1, 2, 4, 8))).map(
        lambda case: replace(case, keys=case.queries) if case.masked == "causal" else case
    )


def by_operation(subject: Subject) -> dict[str, Strategy]:
    """The cases of each operation that the subject offers; the elementwise ones count as one."""
    heads = multi_head_cases() if subject.offers(*_CAUSAL) else multi_head_cases(causal=False)
    cases = {
        "attention": _attention_cases(subject),
        "multi_head_attention": heads,
        "linear": linear_cases(),
        "feed_forward": feed_forward_cases(),
    }
    offered = {operation: strategy for operation, strategy in cases.items() if subject.offers(operation)}
    if any(subject.offers(n) for n in (*ACTIVATIONS, "softmax")):
        offered["elementwise"] = feed_forward_cases(hidden=1, gated=False)
    return offered


def calls(subject: Subject) -> Strategy:
    """Cases of every operation that the subject offers, most of them of attention, which has most ways to go wrong."""
    offered = by_operation(subject)
    return st.one_of(*offered.values(), *2 * [offered.get("attention", attention_cases())])


def forked_calls(subject: Subject) -> Strategy:
    """Cases of the operations that can be had by more than one path or in more than one form."""
    forms = {"attention"} if subject.offers("attention", "causal", "mask") else set()
    offered = by_operation(subject) | ({"rope": rotary_cases(by_row=False)} if subject.paths("rope") else {})
    forked = [cases for operation, cases in offered.items() if subject.paths(operation) or operation in forms]
    return st.one_of(*forked) if forked else calls(subject)


_CAUSAL = ("multi_head_attention", "causal")


@checks(spec.REPEATABLE, calls, needs=())
def repeatable(subject: Subject, case: Case) -> Comparisons:
    """Three calls, another one between them, give the same bits."""
    asked = request(subject, case)
    first, second = asked.of(subject), asked.of(subject)
    yield same(f"second {asked.operation}", second, first)
    request(subject, replace(case, seed=case.seed + 1, regime="huge")).of(subject)
    yield same(f"{asked.operation} after another call", asked.of(subject), first)


@checks(spec.PURE, calls, needs=())
def pure(subject: Subject, case: Case) -> Comparisons:
    """Arguments are after the call what they were before it."""
    asked = request(subject, case)
    subject.require(asked.operation, *asked.options)
    arrays = [subject.hand(a) for a in asked.arrays]
    options = {n: subject.hand_option(n, v) for n, v in asked.options.items()}
    before = _taken(subject, arrays, options)
    subject.invoke(asked.operation, arrays, options, asked.shape, None)
    for name, held in _taken(subject, arrays, options).items():
        yield same(f"{name} of {asked.operation} after the call", held, before[name])
    yield from _pure_with_causal_mask(subject, asked)


def _pure_with_causal_mask(subject: Subject, asked: Request) -> Comparisons:
    """A mask that is given beside the causal flag is left alone as well."""
    if asked.operation != "attention" or not subject.offers("attention", "mask", "causal"):
        return
    query, key, value = asked.arrays
    mask = subject.hand_option("mask", np.ones((1, 1, query.shape[-2], key.shape[-2]), bool))
    before = subject.framework.take(mask)[0].copy()
    try:
        shape = (*query.shape[:-1], value.shape[-1])
        subject.invoke(
            "attention", [subject.hand(a) for a in asked.arrays], {"mask": mask, "causal": True}, shape, None
        )
    except Declined:
        return
    yield same("mask after the call", subject.framework.take(mask)[0], before)


def _taken(subject: Subject, arrays: list[Any], options: dict[str, Any]) -> dict[str, Floats]:
    """Copies of all arrays of a call, by name."""
    named: dict[str, Any] = {}
    for index, array in enumerate(arrays):
        named |= dict(array) if isinstance(array, Mapping) else {f"argument {index}": array}
    named |= {n: v for n, v in options.items() if hasattr(v, "shape")}
    return {n: subject.framework.take(v)[0].copy() for n, v in named.items()}


def _batched(case: Case) -> bool:
    return getattr(case, "batch", 1) > 1


@checks(spec.ROWS_APART, lambda subject: calls(subject).filter(_batched), needs=())
def rows_apart(subject: Subject, case: Case) -> Comparisons:
    """A row alone, and rows in another order, give what they gave together."""
    asked = request(subject, case)
    whole, allowed = asked.of(subject), asked.due(subject).allowed
    row = case.seed % whole.shape[0]
    alone = _rows(asked, [row])
    yield close(f"row {row} alone ", alone.of(subject), whole[row : row + 1], 2 * allowed[row : row + 1])
    order = np.roll(np.arange(whole.shape[0]), 1).tolist()
    yield close("rows in another order", _rows(asked, order).of(subject), whole[order], 2 * allowed[order])


def _rows(asked: Request, rows: list[int]) -> Request:
    """The request for some rows of its batch; parameters and masks without a batch stay."""
    batch = asked.shape[0]

    def pick(x: Any, index: int = 0) -> Any:
        batched = isinstance(x, np.ndarray) and x.ndim >= 3 and x.shape[0] == batch
        return x[rows] if batched else x

    arrays = tuple(pick(a) for a in asked.arrays)
    options = {n: pick(v) for n, v in asked.options.items()}
    return replace(asked, arrays=arrays, options=options, shape=(len(rows), *asked.shape[1:]))


def _wider(case: Case) -> Case:
    """The case of attention with heads wide enough for a fast path, every fourth time."""
    return replace(case, width=64) if isinstance(case, AttentionCase) and case.seed % 4 == 1 else case


@checks(spec.ANY_LAYOUT, lambda subject: calls(subject).map(_wider), needs=())
def any_layout(subject: Subject, case: Case) -> Comparisons:
    """Views of every layout give what contiguous copies give."""
    layout = LAYOUTS[case.seed % len(LAYOUTS)]
    asked = request(subject, case)
    if layout == "broadcast":
        asked = replace(asked, arrays=tuple(_repeated_rows(a) for a in asked.arrays))
    allowed = asked.due(subject).allowed
    yield close(f"output for {layout} views", asked.of(subject, view=layout), asked.of(subject), 2 * allowed)


def _repeated_rows(a: Any) -> Any:
    """The array with its first entry in place of all, which a broadcast view can stand for."""
    if isinstance(a, Mapping):
        return {name: _repeated_rows(value) for name, value in a.items()}
    return np.broadcast_to(a[:1], a.shape) if np.ndim(a) > 1 else a


@checks(spec.EVERY_PATH, forked_calls, needs=())
def every_path(subject: Subject, case: Case) -> Comparisons:
    """Every path, and the causal mask said in every form, gives what the usual call gives."""
    asked = request(subject, case)
    if not subject.paths(asked.operation) and "causal" not in asked.options:
        raise Declined("it declares no other path")
    usual = Expected(asked.of(subject), 2 * asked.due(subject).allowed)
    for path in subject.paths(asked.operation):
        yield close(f"{asked.operation} by {path!r} ", asked.of(subject, path=path), *usual)
    if isinstance(case, AttentionCase) and case.masked == "causal":
        yield from _other_forms(subject, asked, usual)


def _other_forms(subject: Subject, asked: Request, usual: Expected) -> Comparisons:
    """The causal flag said as a boolean and as an additive mask, by every path."""
    if not subject.offers("attention", "mask"):
        return
    time = asked.shape[-2]
    triangle = np.tri(time, dtype=bool)[None, None]
    for mask in (triangle, np.where(triangle, 0.0, -np.inf)):
        for path in (None, *subject.paths("attention")):
            got = replace(asked, options={"mask": mask}).of(subject, path=path)
            yield close(f"attention by {path or 'default'!r} with a {mask.dtype} mask", got, *usual)


@checks(spec.NO_MEMORY, calls, needs=())
def no_memory(subject: Subject, case: Case) -> Comparisons:
    """Short, long, short: the short calls agree bit for bit, with memory full of NaN in between."""
    asked = request(subject, case)
    first = asked.of(subject)
    request(subject, _longer(case)).of(subject)
    _litter(first.size)
    yield same(f"{asked.operation} after a longer call", asked.of(subject), first)


def _longer(case: Case) -> Case:
    """The same case with every length about three times as long."""
    names = {f.name for f in fields(case)}
    longer = {n: 3 * getattr(case, n) + 1 for n in ("queries", "keys", "time") if n in names}
    if getattr(case, "masked", "") == "causal":
        longer["keys"] = longer["queries"]
    return replace(case, seed=case.seed + 1, **longer)


def _litter(size: int) -> None:
    """Leave freed blocks of about that size full of NaN for the next allocation to find."""
    blocks = [np.full(max(1, size * k), np.nan, dtype) for k in (1, 2, 4) for dtype in (np.float32, np.float64)]
    del blocks
