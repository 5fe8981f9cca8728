"""V.1 held to an implementation: the average, its weights, symmetries, limits and variants."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from gnomon.props import expected
from gnomon.props.cases import LENGTHS, WIDTHS, AttentionCase, Strategy, attention_cases, square
from gnomon.props.judge import Comparison, between, close
from gnomon.props.measure import weights
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import attention as spec
from gnomon.spec.bounds import round_to
from gnomon.spec.evaluators import Floats

Comparisons = Iterator[Comparison]


def _offered(subject: Subject) -> Strategy:
    return attention_cases(masked=st.sampled_from(subject.masks + ("bias",) * ("additive" in subject.masks)))


@checks(spec.EQUATION, _offered)
def equation(subject: Subject, case: AttentionCase) -> Comparisons:
    """The output is the specification's."""
    case = square(case) if case.masked == "causal" or case.seed % 2 else case
    form = subject.precision.storage
    arrays, options = case.arrays(form), case.options(form)
    yield close("output", subject.attention(*arrays, **options), *expected.attention(subject, *arrays, **options))


@checks(spec.WEIGHTS, attention_cases(value_width=1))
def weights_sum_to_one(subject: Subject, case: AttentionCase) -> Comparisons:
    """The weights are at least zero and sum to one over the keys."""
    query, key, _ = case.arrays(subject.precision.storage)
    got = weights(subject, query, key)
    _, allowed = expected.weights(subject, query, key)
    yield between("weight", got, 0.0, np.inf, allowed)
    yield close("sum of the weights", got.sum(-1), 1.0, allowed.sum(-1))


@checks(spec.HULL, attention_cases(value_width=st.sampled_from(WIDTHS[:4])))
def hull(subject: Subject, case: AttentionCase) -> Comparisons:
    """Outputs lie between the extremes of the values, and constant values come back."""
    query, key, value = case.arrays(subject.precision.storage)
    got, (_, allowed) = subject.attention(query, key, value), expected.attention(subject, query, key, value)
    low, high = (read_by_queries(f(value, axis=-2, keepdims=True), case, subject) for f in (np.min, np.max))
    yield between("output", got, low, high, allowed)
    constant = np.broadcast_to(value[..., :1, :], value.shape)
    got, (_, allowed) = subject.attention(query, key, constant), expected.attention(subject, query, key, constant)
    yield close("output for constant values", got, read_by_queries(value[..., :1, :], case, subject), allowed)


@checks(spec.SYMMETRY, attention_cases())
def symmetry(subject: Subject, case: AttentionCase) -> Comparisons:
    """Keys and values may be permuted together; permuted queries give permuted outputs."""
    query, key, value = case.arrays(subject.precision.storage)
    got, (_, allowed) = subject.attention(query, key, value), expected.attention(subject, query, key, value)
    order = case.rng.permutation(case.keys)
    permuted = subject.attention(query, key[..., order, :], value[..., order, :])
    yield close("output for permuted keys and values", permuted, got, 2 * allowed)
    order = case.rng.permutation(case.queries)
    permuted = subject.attention(query[..., order, :], key, value)
    yield close("output for permuted queries", permuted, got[..., order, :], 2 * allowed[..., order, :])


@checks(spec.SHIFT, attention_cases(width=st.sampled_from(WIDTHS[:7])))
def shift(subject: Subject, case: AttentionCase) -> Comparisons:
    """One vector added to every key changes nothing, and huge logits give numbers."""
    form = subject.precision.storage
    query, _, value = case.arrays(form)
    # Multiples of an eighth, so that keys and shifted keys are exact in every format.
    key = case.rng.integers(-16, 17, (case.batch, case.kv_heads, case.keys, case.width)) / 8
    moved = key + case.rng.integers(-32, 33, case.width) / 8
    yield _agree("output for shifted keys", subject, (query, key, value), (query, moved, value))
    steep = round_to(np.ldexp(np.sign(query) + (query == 0), 15), form)
    got = subject.attention(steep, key, value)
    yield close("output for huge logits", got, *expected.attention(subject, steep, key, value))


def _agree(what: str, subject: Subject, one: tuple[Floats, ...], other: tuple[Floats, ...]) -> Comparison:
    """Two calls that are due the same are no further apart than their two bounds together."""
    got, reference = (subject.attention(*arrays) for arrays in (other, one))
    allowed = sum(expected.attention(subject, *arrays).allowed for arrays in (one, other))
    return close(what, got, reference, allowed)


@checks(spec.LIMITS, attention_cases(width=st.sampled_from(WIDTHS[:7]), keys=st.sampled_from(LENGTHS[1:])))
def limits(subject: Subject, case: AttentionCase) -> Comparisons:
    """One dominant logit returns its value; equal logits return the mean."""
    form = subject.precision.storage
    query, key, value = (np.zeros_like(a) for a in case.arrays(form))
    value = round_to(16 * case.rng.standard_normal(value.shape), form)
    value[..., 0, :] = round_to(value[..., 0, :] / 64, form)
    query[..., 0], key[..., 1:, 0] = 8.0, -round_to(np.sqrt(case.width) * case.rng.uniform(1, 3), form)
    due, allowed = expected.attention(subject, query, key, value)
    first = read_by_queries(value[..., :1, :], case, subject)
    yield close("output of one dominant logit", subject.attention(query, key, value), first, allowed + abs(due - first))
    key = np.zeros_like(key)
    mean = read_by_queries(value.mean(-2, keepdims=True), case, subject)
    _, allowed = expected.attention(subject, query, key, value)
    yield close("output of equal logits", subject.attention(query, key, value), mean, allowed)


def read_by_queries(a: Floats, case: AttentionCase, subject: Subject) -> Floats:
    """What each query head reads of an array per key-value head, for every query."""
    read = spec.share_heads(a, case.heads, subject.conventions.head_mapping)
    return np.broadcast_to(read, (case.batch, case.heads, case.queries, a.shape[-1]))


@checks(spec.WEAK_EVIDENCE, attention_cases(keys=3, value_width=st.sampled_from((1, 2)), regime="ordinary"))
def weak_evidence(subject: Subject, case: AttentionCase) -> Comparisons:
    """A third key whose value is the mean of two equally attended ones may take any weight, or be removed."""
    query, key, value = case.arrays(subject.precision.storage)
    key[..., 1, :] = key[..., 0, :]
    half = case.rng.integers(1, 9, value[..., 0, :].shape) / 4
    value = np.stack([1 + half, 1 - half, np.ones_like(half)], axis=-2)
    other = key.copy()
    other[..., 2, :] = -4 * round_to(query[:, : case.kv_heads, :1, :], subject.precision.storage)[..., 0, :]
    yield _agree("output under other weights", subject, (query, key, value), (query, other, value))
    if subject.offers("attention", "mask"):
        seen = np.array([[[[True, True, False]]]])
        got = subject.attention(query, key, value, mask=seen)
        _, allowed = expected.attention(subject, query, key, value, mask=seen)
        yield close("output without the third key", got, 1.0, allowed)
    spoiled = value + np.array([0.0, 0.0, 8.0])[:, None]
    yield from _moves(subject, (query, key, spoiled), (query, other, spoiled))


def _moves(subject: Subject, one: tuple[Floats, ...], other: tuple[Floats, ...]) -> Comparisons:
    """Where the specification says that outputs differ by more than rounding, they do."""
    got = np.abs(subject.attention(*one) - subject.attention(*other))
    first, second = (expected.attention(subject, *arrays) for arrays in (one, other))
    blur = first.allowed + second.allowed
    differs = np.abs(first.value - second.value) > 2 * blur
    yield between("distance of outputs that must differ", got, np.where(differs, blur, 0.0), np.inf, 0.0)


@checks(
    spec.ANY_LENGTHS,
    attention_cases(width=st.sampled_from(WIDTHS[:4])).filter(lambda c: c.queries != c.keys or c.width == 1),
)
def any_lengths(subject: Subject, case: AttentionCase) -> Comparisons:
    """More or fewer queries than keys, a single one, and features of width one."""
    arrays = case.arrays(subject.precision.storage)
    yield close("output", subject.attention(*arrays), *expected.attention(subject, *arrays))


@checks(
    spec.TILING,
    attention_cases(
        keys=st.sampled_from((2, 3, 5, 8, 13, 17, 33, 130, 257)),
        queries=st.sampled_from((1, 2, 3)),
        width=st.sampled_from((1, 4, 8)),
        value_width=st.sampled_from((1, 2)),
        head_pairs=((1, 1), (2, 1), (2, 2)),
        batch=1,
    ),
    share=0.5,
)
def tiling(subject: Subject, case: AttentionCase) -> Comparisons:
    """Tiles merged by their mass give the whole, with scores that rise along the keys."""
    form = subject.precision.storage
    query, key, value = case.arrays(form)
    # Rising scores move the running maximum at every tile.
    rise = np.linspace(-4, 4, case.keys)[:, None] * np.sqrt(case.width)
    query[..., 0], key[..., :1] = 1.0, round_to(np.broadcast_to(rise, key[..., :1].shape), form)
    whole, due = subject.attention(query, key, value), expected.attention(subject, query, key, value)
    yield close("output with rising scores", whole, *due)
    share, (_, share_allowed) = weights(subject, query, key), expected.weights(subject, query, key)
    merged, allowed = np.zeros_like(whole), due.allowed
    cuts = sorted({0, case.keys, *case.rng.integers(0, case.keys, 3).tolist()})
    for start, end in pairwise(cuts):
        tile = query, key[..., start:end, :], value[..., start:end, :]
        out, bound = subject.attention(*tile), expected.attention(subject, *tile).allowed
        mass, mass_allowed = (a[..., start:end].sum(-1, keepdims=True) for a in (share, share_allowed))
        merged = merged + mass * out
        allowed = allowed + np.abs(mass) * bound + mass_allowed * np.abs(out)
    yield close("output merged from tiles", whole, merged, allowed)


@checks(spec.VARIANTS, attention_cases(), mistakes=())
def value_width(subject: Subject, case: AttentionCase) -> Comparisons:
    """Values may be wider or narrower than keys."""
    case = replace(case, value_width=case.width + 1 if case.seed % 2 else 1)
    arrays = case.arrays(subject.precision.storage)
    yield close("output", subject.attention(*arrays), *expected.attention(subject, *arrays))


@checks(
    spec.VARIANTS,
    attention_cases(regime="sharp", masked=st.sampled_from(("none", "boolean", "causal"))),
    mistakes=(spec.CAP_IGNORED, spec.CAP_AFTER_MASK),
)
def softcap(subject: Subject, case: AttentionCase) -> Comparisons:
    """The cap c·tanh(s/c) comes before the mask."""
    subject.require("attention", "softcap")
    case = square(case) if case.masked == "causal" else case
    form = subject.precision.storage
    arrays, options = case.arrays(form), case.options(form) | {"softcap": (1.0, 2.5, 8.0)[case.seed % 3]}
    yield close(
        "capped output", subject.attention(*arrays, **options), *expected.attention(subject, *arrays, **options)
    )


@checks(spec.VARIANTS, attention_cases(regime="sharp"), mistakes=(spec.ADDED_ONE_NOT_SHIFTED,))
def sink(subject: Subject, case: AttentionCase) -> Comparisons:
    """A sink takes its share of the sum; a sink of zero is the added one."""
    subject.require("attention", "sink")
    form = subject.precision.storage
    arrays = case.arrays(form)
    drawn = np.zeros(case.heads) if case.seed % 2 else round_to(case.rng.standard_normal(case.heads), form)
    got, due = subject.attention(*arrays, sink=drawn), expected.attention(subject, *arrays, sink=drawn)
    yield close("output with a sink", got, *due)
