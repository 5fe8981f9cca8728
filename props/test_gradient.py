"""II.2 held to every operation that an implementation can differentiate."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gnomon.props import gradients
from gnomon.props.cases import (
    EXPERIMENTS,
    AttentionCase,
    Case,
    EmbeddingCase,
    ExperimentCase,
    FeedForwardCase,
    NormCase,
    Strategy,
    attention_cases,
    embedding_cases,
    feed_forward_cases,
    norm_cases,
    rotary_cases,
)
from gnomon.props.gradients import by_name, paired
from gnomon.props.judge import Comparison, between, close, same
from gnomon.props.outcome import LACKS, Declined
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.props.test_function import Request, by_operation, request
from gnomon.spec import gradient as spec
from gnomon.spec.bounds import round_to
from gnomon.spec.evaluators import Floats
from gnomon.spec.statistics import chi_square_tails

Comparisons = Iterator[Comparison]
ERROR = 1e-9  # of the one test here that is one
_UPSTREAM, _DIRECTION = 11, 12  # beside the case's own seed


def differentiated(subject: Subject) -> Strategy:
    """Cases of every operation that can be differentiated: those of I.1, norms, look-ups and rotations."""
    if "vjp" in subject.broken:
        subject.require("vjp")
    if not subject.offers("vjp") and subject.framework.vjp is None:
        raise Declined(f"{LACKS} vjp, and {subject.framework.name} differentiates none")
    offered = by_operation(subject)
    more = {"layer_norm": norm_cases(), "rms_norm": norm_cases(biased=False), "embedding": embedding_cases()}
    offered |= {name: cases for name, cases in more.items() if subject.offers(name)}
    offered |= {"rope": rotary_cases(by_row=False)} if subject.offers("rope") else {}
    if not offered:
        raise Declined("it has no operation whose gradient is known here")
    return st.one_of(*offered.values(), *2 * [offered[n] for n in _RICH if n in offered])


_RICH = ("attention", "feed_forward", "elementwise", "rope")  # those with most to get wrong


def asked(subject: Subject, case: Case) -> Request:
    """The call whose gradient a case asks for."""
    form = subject.precision.storage
    match case:
        case NormCase():
            arrays = case.arrays(form)
            name = "layer_norm" if len(arrays) == 3 or not subject.offers("rms_norm") else "rms_norm"
            return Request(name, arrays, {"eps": case.eps}, arrays[0].shape)
        case EmbeddingCase():
            table, ids = case.table(form), case.ids
            return Request("embedding", (table, ids), {}, (*ids.shape, case.width))
    return request(subject, case)


def drawn(case: Case, which: int, subject: Subject, shape: tuple[int, ...]) -> Floats:
    """Numbers of order one, exact in the dtype."""
    return round_to(np.random.default_rng((case.seed, which)).standard_normal(shape), subject.precision.storage)


def pulled(subject: Subject, call: Request, upstream: Floats, **how: Any) -> list[Any]:
    """The gradient that the implementation gives for the call."""
    return subject.vjp(call.operation, *call.arrays, upstream=upstream, **call.options, **how)


@checks(spec.PAIRING, differentiated, needs=())
def pairing(subject: Subject, case: Case) -> Comparisons:
    """Each argument is moved along a direction of ones and minus ones."""
    call = asked(subject, case)
    upstream = drawn(case, _UPSTREAM, subject, call.shape)
    got = pulled(subject, call, upstream)
    due = gradients.due(subject, call.operation, call.arrays, upstream, call.options)
    signs = gradients.like(call.arrays, lambda x: np.sign(drawn(case, _DIRECTION, subject, x.shape)) + (x.size == 0))
    for i, (name, g, want) in enumerate(paired(got, due)):
        along = gradients.only(signs, i)
        change = gradients.pushed(subject, call.operation, call.arrays, along, call.options)
        blur = want.allowed.sum() + (np.abs(upstream) * change.error).sum()
        inward, outward = _exact_sum(g * gradients.named(along, i)), _exact_sum(upstream * change.value)
        yield close(f"⟨gradient of {call.operation} by {name}, v⟩", inward, outward, blur)


def _exact_sum(x: Floats) -> float:
    return math.fsum(x.ravel()) if np.isfinite(x).all() else float(x.sum())


@checks(spec.DERIVATIVE, differentiated, needs=(), mistakes=spec.DERIVATIVE.mistakes[:2])
def derivative(subject: Subject, case: Case) -> Comparisons:
    """Every entry, for every argument."""
    call = asked(subject, case)
    upstream = drawn(case, _UPSTREAM, subject, call.shape)
    due = gradients.due(subject, call.operation, call.arrays, upstream, call.options)
    for name, got, want in paired(pulled(subject, call, upstream), due):
        yield close(f"gradient of {call.operation} by {name}", got, *want)


@checks(spec.ZERO_FACTOR, differentiated, needs=(), mistakes=())
def zero_above(subject: Subject, case: Case) -> Comparisons:
    """A gradient of zeros gives zeros."""
    call = asked(subject, case)
    for name, got in by_name(pulled(subject, call, np.zeros(call.shape))):
        yield same(f"gradient of {call.operation} by {name}", got, np.zeros(got.shape))


@checks(
    spec.ZERO_FACTOR, attention_cases(masked="boolean", window=0), needs=("attention",),
    mistakes=(spec.LEAK_THROUGH_MASK,),
)  # fmt: skip
def behind_a_mask(subject: Subject, case: AttentionCase) -> Comparisons:
    """What one query gives back to keys and values that it may not see."""
    form = subject.precision.storage
    mask = case.permitted(1, 1)
    query, key, value = case.arrays(form)
    upstream = np.zeros((*query.shape[:-1], case.value_width))
    row = case.seed % case.queries
    upstream[..., row, :] = drawn(case, _UPSTREAM, subject, upstream[..., row, :].shape)
    _, by_key, by_value = subject.vjp("attention", query, key, value, upstream=upstream, mask=mask)
    hidden = ~mask[0, 0, row]
    for name, got in (("key", by_key), ("value", by_value)):
        yield same(f"gradient of query {row} by each masked {name}", got[..., hidden, :], 0.0 * got[..., hidden, :])


@checks(
    spec.ZERO_FACTOR, feed_forward_cases(activation="relu", gated=False, hidden=st.sampled_from((2, 3, 8))),
    needs=("relu",), mistakes=(spec.STRAIGHT_THROUGH,),
)  # fmt: skip
def dead_unit(subject: Subject, case: FeedForwardCase) -> Comparisons:
    """A rectifier gives nothing back where its argument lies below zero."""
    x = case.input(subject.precision.storage)
    (got,) = subject.vjp("relu", x, upstream=drawn(case, _UPSTREAM, subject, x.shape))
    yield same("gradient of relu by arguments below zero", got[x < 0], 0.0 * got[x < 0])


@checks(
    spec.SUM_OF_USES, attention_cases(head_pairs=((2, 1), (4, 2), (6, 2), (3, 1)), masked="none", window=0),
    needs=("attention",), plain=False,
)  # fmt: skip
def shared_heads(subject: Subject, case: AttentionCase) -> Comparisons:
    """Keys and values that several query heads read."""
    arrays = case.arrays(subject.precision.storage)
    upstream = drawn(case, _UPSTREAM, subject, (*arrays[0].shape[:-1], case.value_width))
    due = gradients.due(subject, "attention", arrays, upstream, {})
    got = subject.vjp("attention", *arrays, upstream=upstream)
    for name, g, want in list(paired(got, due))[1:]:
        yield close(f"gradient of attention by {name}", g, *want)


@checks(spec.LEAVES_ITS_INPUTS, differentiated, needs=())
def leaves_its_inputs(subject: Subject, case: Case) -> Comparisons:
    """The arrays and the gradient above are as they were; and a gradient above that lies otherwise gives the same."""
    call = asked(subject, case)
    upstream = drawn(case, _UPSTREAM, subject, call.shape)
    handed = [subject.hand(a) for a in (*call.arrays, upstream)]
    pulled(subject, call, upstream, handed=handed)
    for name, before, after in zip(_names(call), (*call.arrays, upstream), handed, strict=True):
        yield from _unchanged(subject, name, before, after)
    layout = ("strided", "transposed")[case.seed % 2]
    if subject.framework.arrange is not None and upstream.ndim > 1:
        due = gradients.due(subject, call.operation, call.arrays, upstream, call.options)
        for name, got, want in paired(pulled(subject, call, upstream, view=layout), due):
            yield close(f"gradient of {call.operation} by {name}, the one above {layout}", got, *want)


def _names(call: Request) -> list[str]:
    return [*(f"argument {i + 1}" for i in range(len(call.arrays))), "the gradient above"]


def _unchanged(subject: Subject, name: str, before: Any, after: Any) -> Comparisons:
    if isinstance(before, Mapping):
        for own, x in before.items():
            yield from _unchanged(subject, own, x, after[own])
    else:
        yield same(f"{name} after the backward pass", subject.framework.take(after)[0], before)


_DEPTH, _WIDTH, _LOG_SCALES = 8, 256, (-1, 0, 1)  # the deviation of the weights is 2^s/√width


@checks(spec.GEOMETRIC, EXPERIMENTS, needs=("linear",), experiment=True)
def geometric(subject: Subject, case: ExperimentCase) -> Comparisons:
    """Through a plain stack of fresh weights, layer by layer, and through one of signed permutations."""
    rng, form = case.rng, subject.precision.storage
    low, high = (t / _WIDTH for t in chi_square_tails(_WIDTH, ERROR / (_DEPTH * len(_LOG_SCALES))))
    for log_scale in _LOG_SCALES:
        g = round_to(rng.standard_normal((1, 1, _WIDTH)), form)
        for layer in range(_DEPTH):
            weight = round_to(rng.standard_normal((_WIDTH, _WIDTH)) * 2.0**log_scale / np.sqrt(_WIDTH), form)
            above, (g, _) = g, subject.vjp("linear", np.zeros((1, 1, _WIDTH)), weight, upstream=g)
            ratio = (g * g).sum() / (above * above).sum() / 4.0**log_scale
            yield between(f"squared norm below layer {layer} over that above and σ²", ratio, low, high, 0.0)
            g = round_to(g / np.sqrt((g * g).sum()), form)
    yield from _orthogonal(subject, rng)


def _orthogonal(subject: Subject, rng: np.random.Generator) -> Comparisons:
    g = start = round_to(rng.standard_normal((1, 1, _WIDTH)), subject.precision.storage)
    for _ in range(_DEPTH):
        weight = np.eye(_WIDTH)[rng.permutation(_WIDTH)] * rng.choice((-1.0, 1.0), _WIDTH)
        g = subject.vjp("linear", np.zeros((1, 1, _WIDTH)), weight, upstream=g)[0]
    yield same("sizes below a stack of signed permutations", np.sort(np.abs(g)), np.sort(np.abs(start)))
