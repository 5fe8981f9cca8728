"""IV.1 held to an implementation: which inputs reach which outputs, how far, how faintly, and wherever they stand."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gnomon.props import expected
from gnomon.props.cases import LENGTHS, AttentionCase, ReachCase, Strategy, attention_cases, filled, reach_cases, square
from gnomon.props.judge import Comparison, between, close, same
from gnomon.props.measure import weights
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import reach as spec
from gnomon.spec.bounds import round_to
from gnomon.spec.evaluators import Floats, Mask
from gnomon.spec.masks import causal

Comparisons = Iterator[Comparison]
Layers = list[tuple[Floats, Floats | None]]

KERNELS = st.integers(2, 5)
NARROW = st.sampled_from((1, 2, 4))


def impulses(time: int, width: int) -> Floats:
    """As many sequences as positions, each zero but for ones at a position of its own, `[time, time, width]`."""
    return np.eye(time)[:, :, None] * np.ones(width)


def convolved(subject: Subject, case: ReachCase, x: Floats, layers: Layers) -> Floats:
    """What its convolutions make of x, one after another."""
    for dilation, (weight, bias) in zip(case.dilations, layers, strict=True):
        arrays = (x, weight) if bias is None else (x, weight, bias)
        how = dilated(case, dilation)
        x = subject.call("convolution", *arrays, shape=(*x.shape[:-1], weight.shape[0]), **how)
    return x


def dilated(case: ReachCase, dilation: int) -> dict[str, Any]:
    """The keywords of a convolution; a dilation of one is none."""
    return ({"causal": True} if case.causal else {}) | ({"dilation": dilation} if dilation > 1 else {})


def without_cancelling(layers: Layers) -> Layers:
    """Layers of the same shapes whose weights are all one and that have no bias: what comes in goes out."""
    return [(np.ones_like(weight), None) for weight, _ in layers]


@checks(
    spec.CONVOLUTION,
    reach_cases(batch=1),
    needs=("convolution",),
    mistakes=tuple(m for m in spec.CONVOLUTION.mistakes if m is not spec.KERNEL_REVERSED),
)
def influence(subject: Subject, case: ReachCase) -> Comparisons:
    """An input changes the outputs of its influence set, all of them, and leaves every other bit as it is."""
    form, reach = subject.precision.storage, spec.extent(case.kernel, case.dilations)
    layers, time = [case.layer(form, n) for n in range(case.depth)], case.time + reach - 1
    reached = spec.influence(time, case.kernel, case.dilations, case.causal)
    answer = convolved(subject, case, impulses(time, case.width), without_cancelling(layers))
    seen = (answer != 0).any(-1)
    first = 0 if case.causal else reach // 2
    wide = time - seen.argmax(-1) - seen[:, ::-1].argmax(-1)
    yield same("width of the influence set", wide[first : first + case.time], reach)
    yield same("whether an input is seen by an output", seen, reached)
    x = filled(case, case.rng, form, time, case.width)
    before, after = (convolved(subject, case, a, layers) for a in changed_one_by_one(case, x, subject))
    yield close("output that an input does not reach", after, before, np.where(reached[..., None], np.inf, 0.0))


def changed_one_by_one(case: ReachCase | AttentionCase, x: Floats, subject: Subject) -> tuple[Floats, Floats]:
    """A sequence `[time, width]` once for every position, and the same with that position changed, alike in memory."""
    every = np.repeat(x[None], len(x), axis=0)
    other = round_to(64 * case.rng.standard_normal(x.shape), subject.precision.storage)
    return every, np.where(np.eye(len(x), dtype=bool)[:, :, None], other, every)


@checks(spec.CONVOLUTION, reach_cases(), needs=("convolution",), mistakes=(spec.KERNEL_REVERSED,))
def weighted_sums(subject: Subject, case: ReachCase) -> Comparisons:
    """The output is the specification's."""
    form = subject.precision.storage
    x, (weight, bias) = case.input(form), case.layer(form)
    due = expected.convolution(subject, x, weight, bias, **dilated(case, case.dilation))
    arrays = (x, weight) if bias is None else (x, weight, bias)
    shape = (*x.shape[:-1], case.outer)
    yield close("output", subject.call("convolution", *arrays, shape=shape, **dilated(case, case.dilation)), *due)


def _self_attention(subject: Subject) -> Strategy:
    lengths = st.sampled_from(LENGTHS[1:])
    return attention_cases(
        head_pairs=((1, 1),), batch=1, queries=lengths, width=NARROW, masked=st.sampled_from(subject.masks),
        regime=st.sampled_from(("ordinary", "near-ties", "powers-of-two", "cancelling")),
    )  # fmt: skip


@checks(spec.ATTENDED, _self_attention, share=0.5, mistakes=(spec.TAIL_UNREAD,))
def every_unmasked(subject: Subject, case: AttentionCase) -> Comparisons:
    """A key and its value change the outputs that may attend to them, all of them, and no bit of another."""
    case = square(case)
    permitted, options = _permission(case)
    x = impulses(case.keys, case.width)[:, None]
    answer = subject.attention(x, x, x, **options)[:, 0]
    yield same("whether a position is seen by an output", (answer != 0).any(-1), permitted.T)
    query, key, value = case.arrays(subject.precision.storage)
    every = np.repeat(query, case.keys, axis=0)
    plain, other = (changed_one_by_one(case, a[0, 0], subject) for a in (key, value))
    before, after = (subject.attention(every, plain[i][:, None], other[i][:, None], **options) for i in (0, 1))
    blur = expected.attention(subject, every, plain[1][:, None], other[1][:, None], **options).allowed
    loose = 2 * blur if subject.implementation.declaration.data_dependent else 0.0
    decided = ~permitted.T[:, None, :, None] & np.isfinite(blur)
    yield close("output that does not see a position", after, before, np.where(decided, loose, np.inf))


def _permission(case: AttentionCase) -> tuple[Mask, dict[str, Any]]:
    """Which query may attend to which key, and the keywords that say so."""
    if case.masked in ("none", "causal"):
        seen = causal(case.queries, case.keys) if case.masked == "causal" else np.ones((case.queries, case.keys), bool)
        return seen, {"causal": True} if case.masked == "causal" else {}
    permitted = case.permitted()
    mask = permitted if case.masked == "boolean" else np.where(permitted, 0.0, -np.inf)
    return permitted, {"mask": mask[None, None]}


@checks(
    spec.ATTENDED,
    reach_cases(batch=1, width=NARROW, window=st.integers(1, 6), causal=True),
    mistakes=(spec.EDGE_TILE_SKIPPED, spec.WINDOW_OF_THE_BLOCK),
)
def widened(subject: Subject, case: ReachCase) -> Comparisons:
    """Through one layer a window is seen, and through a stack as much more as its depth says."""
    subject.require("attention", "causal", "window")
    x = impulses(case.time, case.width)[:, None]
    for _ in range(case.depth):
        x = subject.attention(x, x, x, causal=True, window=case.window)
    own = case.window + (0 if subject.conventions.window == "including-self" else 1)
    wide = spec.widened(own, case.depth)
    behind = np.arange(case.time) - np.arange(case.time)[:, None]
    seen = (x[:, 0] != 0).any(-1)
    yield same("positions that the last output depends on", seen[:, -1].sum(), min(case.time, wide))
    yield same("whether a position is seen by an output", seen, (behind >= 0) & (behind < wide))


@checks(
    spec.PATHS, reach_cases(kernel=KERNELS, causal=True), needs=("path_length",),
    mistakes=(spec.KERNEL_AS_STRIDE, spec.ROUNDED_LOGARITHM),
)  # fmt: skip
def path_lengths(subject: Subject, case: ReachCase) -> Comparisons:
    """Every path, also over the last distance that a dilated stack reaches and the next, is that of its graph."""
    farthest = case.kernel**case.depth - 1
    for distance in (case.time, farthest, farthest + 1):
        for layer in spec.LAYERS:
            got = subject.count("path_length", layer, distance, kernel=case.kernel)
            due = spec.path_length(layer, distance, kernel=case.kernel)
            yield same(f"path of {layer} over {distance} positions with a kernel of {case.kernel} ", got, due)


@checks(
    spec.PATHS, reach_cases(kernel=KERNELS, causal=True), needs=("operation_count",),
    mistakes=(spec.CHANNELS_APART, spec.SECOND_PRODUCT_FORGOTTEN),
)  # fmt: skip
def operations(subject: Subject, case: ReachCase) -> Comparisons:
    """The multiplications of a layer are those of its graph, and grow with length and width as the paper says."""

    def count(layer: str, length: int, width: int) -> int:
        return subject.count("operation_count", layer, length, width, kernel=case.kernel)

    for layer, exponents in spec.EXPONENTS.items():
        due = spec.operation_count(layer, case.time, case.width, kernel=case.kernel)
        yield same(f"multiplications of {layer} ", count(layer, case.time, case.width), due)
        once, long, broad = (count(layer, *size) for size in ((64, 64), (128, 64), (64, 128)))
        grown = np.round(np.log2([max(n, 1) / max(once, 1) for n in (long, broad)]))
        yield same(f"exponents of length and width for {layer} ", grown, exponents)


@checks(
    spec.PATHS, reach_cases(kernel=KERNELS, time=st.sampled_from(LENGTHS[1:]), causal=True), needs=(), mistakes=()
)  # fmt: skip
def layers_between(subject: Subject, case: ReachCase) -> Comparisons:
    """The last position depends on the first after as many of its layers as the path is long, and not before."""
    if not any(map(subject.offers, ("convolution", "recurrence", "attention"))):
        subject.require("convolution")
    if subject.offers("convolution"):
        yield from _convolutions_between(subject, case, "convolution", 1)
        yield from _convolutions_between(subject, case, "dilated", case.kernel)
    first = impulses(case.time, 1)[:1]
    if subject.offers("attention"):
        x = first[:, None]
        yield same("whether one attention connects them", subject.attention(x, x, x)[0, 0, -1] != 0, True)
    if subject.offers("recurrence"):
        effect = subject.call("recurrence", first, np.full((1, 1), 0.5), shape=first.shape)[0, -1, 0]
        yield same("halvings between them", effect, 0.5 ** (case.time - 1))


def _convolutions_between(subject: Subject, case: ReachCase, layer: str, dilation: int) -> Comparisons:
    """After each layer of the stack, whether the last position depends on the first."""
    path = spec.path_length(layer, case.time - 1, kernel=case.kernel)
    x, seen = impulses(case.time, 1)[:1], []
    for n in range(path):
        how = dilated(case, dilation**n)
        x = subject.call("convolution", x, np.full((1, 1, case.kernel), 0.5), shape=x.shape, **how)
        seen.append(x[0, -1, 0] != 0)
    yield same(f"whether the last position is reached after each {layer} ", seen, np.arange(1, path + 1) == path)


WHOLE = st.sampled_from((1, 2, 4, 8))


@checks(
    spec.DECAY, reach_cases(width=WHOLE, regime="ordinary", time=st.sampled_from(LENGTHS[2:])), needs=("recurrence",),
    mistakes=(spec.STATE_NOT_CARRIED, spec.INPUT_THROUGH_THE_WEIGHT),
)  # fmt: skip
def decay(subject: Subject, case: ReachCase) -> Comparisons:
    """Along an eigenvector every step multiplies an effect by the eigenvalue, and none outgrows the spectral radius."""
    values, vectors = spectrum(case)
    weight = (vectors * values) @ vectors.T / case.width
    time = np.arange(case.time)
    x = np.where(time[:, None] == 0, vectors.T[:, None, :], 0.0)
    want = values[:, None, None] ** time[:, None] * vectors.T[:, None, :]
    due = expected.recurrence(subject, x, weight)
    got = subject.call("recurrence", x, weight, shape=x.shape)
    yield close("effect along an eigenvector", got, want, due.allowed + np.abs(due.value - want))
    x = x[:1] * filled(case, case.rng, subject.precision.storage, case.width)
    got = subject.call("recurrence", x, weight, shape=x.shape)
    most = np.abs(values).max() ** time * np.linalg.norm(x[0, 0])
    blur = np.linalg.norm(expected.recurrence(subject, x, weight).allowed, axis=-1) + np.spacing(most) * case.width
    yield between("size of an effect", np.linalg.norm(got, axis=-1), 0.0, most, blur)


def spectrum(case: ReachCase) -> tuple[Floats, Floats]:
    """Eigenvalues in eighths, sometimes one among them, and orthogonal eigenvectors of ones and minus ones."""
    values = case.rng.integers(-8, 9, case.width) / 8
    if case.seed % 3 == 0:
        values[case.seed % case.width] = 1.0
    vectors = np.ones((1, 1))
    while len(vectors) < case.width:
        vectors = np.kron(vectors, np.array([[1.0, 1.0], [1.0, -1.0]]))
    return values, vectors


@checks(spec.DECAY, reach_cases(), needs=("recurrence",), mistakes=(spec.STEP_TRANSPOSED,))
def states(subject: Subject, case: ReachCase) -> Comparisons:
    """The states are the specification's, for any weight."""
    form = subject.precision.storage
    x = case.input(form)
    weight = round_to(case.rng.standard_normal((case.width, case.width)) / np.sqrt(case.width), form)
    yield close("state", subject.call("recurrence", x, weight, shape=x.shape), *expected.recurrence(subject, x, weight))


def _near_or_far(subject: Subject) -> Strategy:
    forms = [form for form in subject.masks if form in ("none", "causal")]
    return attention_cases(masked=st.sampled_from(forms), keys=st.sampled_from(LENGTHS[1:]))


@checks(spec.DECAY, _near_or_far, mistakes=(spec.RECENCY_BIAS,))
def at_every_distance(subject: Subject, case: AttentionCase) -> Comparisons:
    """Behind equal keys the effect of every value is one over their number, however far it stands."""
    case = replace(case, queries=case.keys)
    query, key, _ = case.arrays(subject.precision.storage)
    key = np.broadcast_to(key[..., :1, :], key.shape)
    seen, options = _permission(case)
    got, (_, allowed) = weights(subject, query, key, **options), expected.weights(subject, query, key, **options)
    yield close("effect of a value", got, seen / seen.sum(-1, keepdims=True), allowed)


@checks(spec.SYMMETRIES, reach_cases(depth=1), needs=("convolution",), mistakes=(spec.POSITION_IN_CONVOLUTION,))
def translation(subject: Subject, case: ReachCase) -> Comparisons:
    """A convolution of a later sequence is as much later, wherever its kernel lies within both."""
    form, move, span = subject.precision.storage, 1 + case.seed % 4, (case.kernel - 1) * case.dilation
    x = filled(case, case.rng, form, case.batch, case.time + span + move, case.width)
    moved = np.concatenate([x[:, -move:], x[:, :-move]], axis=1)
    weight, bias = case.layer(form)
    layer, how = (weight,) if bias is None else (weight, bias), dilated(case, case.dilation)
    shape = (*x.shape[:-1], case.outer)
    got, late = (subject.call("convolution", a, *layer, shape=shape, **how) for a in (x, moved))
    blur, blurred = (expected.convolution(subject, a, weight, bias, **how).allowed for a in (x, moved))
    first = span if case.causal else span // 2
    here, there = slice(first, first + case.time), slice(first + move, first + move + case.time)
    yield close("output for a moved input", late[:, there], got[:, here], blurred[:, there] + blur[:, here])


@checks(spec.SYMMETRIES, attention_cases(queries=st.sampled_from(LENGTHS[1:])), mistakes=(spec.POSITION_IN_VALUES,))
def permutation(subject: Subject, case: AttentionCase) -> Comparisons:
    """Attention over positions in another order gives its outputs in that order."""
    case = square(case)
    arrays = case.arrays(subject.precision.storage)
    order = case.rng.permutation(case.keys)
    permuted = [a[..., order, :] for a in arrays]
    (_, blur), (_, blurred) = expected.attention(subject, *arrays), expected.attention(subject, *permuted)
    got, turned = subject.attention(*arrays), subject.attention(*permuted)
    yield close("output for permuted positions", turned, got[..., order, :], blurred + blur[..., order, :])


@checks(
    spec.SYMMETRIES, reach_cases(time=st.sampled_from(LENGTHS[3:]), regime="ordinary"), needs=("linear",), mistakes=()
)  # fmt: skip
def neither(subject: Subject, case: ReachCase) -> Comparisons:
    """A dense layer over the positions departs from both symmetries, wherever its weight does by more than rounding."""
    form = subject.precision.storage
    x = case.input(form).swapaxes(-1, -2)
    weight = round_to(case.rng.standard_normal((case.time, case.time)), form)
    plain, due = subject.linear(x, weight), expected.linear(subject, x, weight)
    later, reverse = np.roll(np.arange(case.time), 1), np.arange(case.time)[::-1]
    for what, order in (("departure from translation", later), ("departure from permutation", reverse)):
        moved = expected.linear(subject, x[..., order], weight)
        blur = moved.allowed + due.allowed[..., order]
        departs = np.abs(moved.value - due.value[..., order]) > 2 * blur
        seen = np.abs(subject.linear(x[..., order], weight) - plain[..., order])
        certain = np.where(departs, 0.0, np.inf)
        yield close(what, seen[..., 1:], np.maximum(seen, blur)[..., 1:], certain[..., 1:])
