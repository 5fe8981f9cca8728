"""V.4 held to an implementation: exact zeros, the past untouched, alignment, polarity, empty rows and windows."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gnomon.props import expected
from gnomon.props.cases import LENGTHS, AttentionCase, MultiHeadCase, attention_cases, multi_head_cases, square
from gnomon.props.judge import Comparison, between, close
from gnomon.props.measure import OTHER, convention, measured, polarity, weights
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import masks as spec
from gnomon.spec.evaluators import Floats, Mask
from gnomon.spec.precision import Format

Comparisons = Iterator[Comparison]

MASK_FORMS = st.sampled_from(("boolean", "additive", "causal"))
MODERATE = st.sampled_from(("ordinary", "near-ties", "powers-of-two", "cancelling"))


def masking(subject: Subject, case: AttentionCase, permitted: Mask) -> dict[str, Any]:
    """The keyword that says a given boolean mask, in the case's form."""
    additive = np.where(permitted, 0.0, -np.inf)
    return {"mask": additive if case.masked == "additive" else permitted}


def causal_form(subject: Subject, case: AttentionCase, queries: int, keys: int) -> dict[str, Any]:
    """A bottom-right causal mask: by the flag where that means the same, otherwise as a mask of the case's form."""
    flagged = case.masked == "causal" and subject.offers("attention", "causal")
    if flagged and (queries == keys or convention(subject, "alignment") == "bottom-right"):
        return {"causal": True}
    return masking(subject, case, spec.causal(queries, keys)[None, None])


def largest(form: Format) -> tuple[float, float]:
    """A huge key and a huge value whose products with ordinary queries stay in the format's range."""
    if form.name == "float16":
        return 2.0**9, 2.0**15
    return (2.0**500, 2.0**1000) if form.name == "float64" else (2.0**63, 2.0**126)


@checks(spec.ZERO_WEIGHT, attention_cases(masked=MASK_FORMS, value_width=1, keys=st.sampled_from(LENGTHS[1:])))
def zero_weight(subject: Subject, case: AttentionCase) -> Comparisons:
    """Masked weights are zero on ordinary scores, and where the masked ones are larger by far than the rest."""
    case = square(case)
    query, key, _ = case.arrays(subject.precision.storage)
    permitted = spec.causal(case.queries, case.keys) if case.masked == "causal" else _key_padding(case)
    permitted = np.broadcast_to(permitted, (case.batch, case.heads, case.queries, case.keys))
    options = {"causal": True} if case.masked == "causal" else masking(subject, case, permitted[:, :1, :1])
    yield _masked_weights("masked weight", subject, query, key, permitted, options)
    size = 2.0 ** (14 if subject.dtype == "float16" else 18)
    steep = np.full_like(query, size)
    # The last key is masked for every query but, under a causal mask, the last.
    uneven = np.where(permitted[:, : case.kv_heads, :1].swapaxes(-1, -2), -size, size) * np.ones_like(key)
    yield _masked_weights("masked weight of a huge score", subject, steep, uneven, permitted, options)


def _key_padding(case: AttentionCase) -> Mask:
    """Which keys of each row are real: `[batch, 1, 1, keys]`, at least the first."""
    lengths = case.rng.integers(1, case.keys + 1, case.batch)
    return (np.arange(case.keys) < lengths[:, None])[:, None, None, :]


def _masked_weights(
    what: str, subject: Subject, query: Floats, key: Floats, permitted: Mask, options: dict[str, Any]
) -> Comparison:
    due = expected.weights(subject, query, key, **options)
    got = weights(subject, query, key, **options)
    exact = np.where(np.isinf(due.allowed), np.inf, np.where(permitted, np.inf, 0.0))
    return close(what, got, np.where(permitted, got, 0.0), exact)


@checks(spec.PAST_UNCHANGED, attention_cases(masked=MASK_FORMS, regime=MODERATE, queries=st.sampled_from(LENGTHS[1:])))
def past_unchanged(subject: Subject, case: AttentionCase) -> Comparisons:
    """Other and huge keys and values in the future leave the past as it is, bit for bit."""
    case = square(case)
    form = subject.precision.storage
    query, key, value = case.arrays(form)
    options = causal_form(subject, case, case.queries, case.keys)
    now = case.seed % (case.queries - 1)
    before = subject.attention(query, key, value, **options)
    huge_key, huge_value = largest(form)
    signs = case.rng.choice([-1.0, 1.0], case.width)
    for what, new_key, new_value in (
        ("past under another future", -key, -value),
        ("past under a huge future", huge_key * signs * np.ones_like(key), huge_value * np.ones_like(value)),
    ):
        later = [_future(old, new, now) for old, new in ((key, new_key), (value, new_value))]
        after = subject.attention(query, *later, **options)
        _, allowed = expected.attention(subject, query, *later, **options)
        yield _past(what, subject, before, after, allowed, now)


def _future(old: Floats, new: Floats, now: int) -> Floats:
    return np.concatenate([old[..., : now + 1, :], new[..., now + 1 :, :]], axis=-2)


def _past(what: str, subject: Subject, before: Floats, after: Floats, allowed: Floats, now: int) -> Comparison:
    """Equal bits up to now, or two bounds where the kernel declares that its blocking depends on the data."""
    kept, blur = after[..., : now + 1, :], allowed[..., : now + 1, :]
    loose = 2 * blur if subject.implementation.declaration.data_dependent else np.zeros_like(blur)
    return close(what, kept, before[..., : now + 1, :], np.where(np.isinf(blur), np.inf, loose))


@checks(spec.RENORMALISED, attention_cases(masked=MASK_FORMS, value_width=1))
def renormalised(subject: Subject, case: AttentionCase) -> Comparisons:
    """The weights that the mask leaves sum to one."""
    case = square(case) if case.masked == "causal" else case
    query, key, _ = case.arrays(subject.precision.storage)
    options = case.options(subject.precision.storage)
    got, (_, allowed) = weights(subject, query, key, **options), expected.weights(subject, query, key, **options)
    yield close("sum of the weights", got.sum(-1), 1.0, allowed.sum(-1))
    yield from _sums_below_a_masked_peak(subject, case)


def _sums_below_a_masked_peak(subject: Subject, case: AttentionCase) -> Comparisons:
    """The sum again where a masked key would have all the weight."""
    steep, key = np.full((case.batch, case.heads, case.queries, case.width), 64.0), _key_of_peaks(case)
    options = case.options(subject.precision.storage)
    got, (_, allowed) = weights(subject, steep, key, **options), expected.weights(subject, steep, key, **options)
    yield close("sum of the weights below a masked peak", got.sum(-1), 1.0, allowed.sum(-1))


def _key_of_peaks(case: AttentionCase) -> Floats:
    """Keys of which the last, the one most often masked, has a score far above the rest."""
    key = np.zeros((case.batch, case.kv_heads, case.keys, case.width))
    key[..., -1, :] = 16.0
    return key


@checks(spec.SEES_ITSELF, attention_cases(masked=MASK_FORMS, regime=MODERATE, width=st.sampled_from((1, 2, 4, 8))))
def sees_itself(subject: Subject, case: AttentionCase) -> Comparisons:
    """The first output is the first value, and every position has weight on itself."""
    case = square(case)
    query, key, value = case.arrays(subject.precision.storage)
    options = causal_form(subject, case, case.queries, case.keys)
    got, due = (
        subject.attention(query, key, value, **options),
        expected.attention(subject, query, key, value, **options),
    )
    yield close("first output", got[..., 0, :], due.value[..., 0, :], due.allowed[..., 0, :])
    own, due = weights(subject, query, key, **options), expected.weights(subject, query, key, **options)
    own, least, blur = (np.diagonal(a, axis1=-2, axis2=-1) for a in (own, due.value, due.allowed))
    yield between("own weight", own, least, np.inf, blur)


@checks(
    spec.DECODES_AS_PREFILL, attention_cases(masked=MASK_FORMS), mistakes=(spec.TOP_LEFT, spec.TILES_BY_QUERIES)
)  # fmt: skip
def decodes_as_prefill(subject: Subject, case: AttentionCase) -> Comparisons:
    """Chunks of queries against the keys up to their end give the rows of the whole pass."""
    case = square(case)
    query, key, value = case.arrays(subject.precision.storage)
    window = 1 + case.seed % 3 if case.seed % 2 and subject.offers("attention", "window") else None
    whole, due = _causal_pass(subject, case, (query, key, value), window)
    cuts = _cuts(case)
    for start, end in pairwise(cuts):
        chunk = query[..., start:end, :], key[..., :end, :], value[..., :end, :]
        got, bound = _causal_pass(subject, case, chunk, window)
        yield close(
            f"output of queries {start} to {end} ", got, whole[..., start:end, :], bound + due[..., start:end, :]
        )


def _cuts(case: AttentionCase) -> list[int]:
    """Where the queries are cut: after each, or at random places."""
    if case.seed % 3 == 0:
        return list(range(case.queries + 1))
    return sorted({0, case.queries, *case.rng.integers(0, case.queries, 2).tolist()})


def _causal_pass(
    subject: Subject, case: AttentionCase, arrays: tuple[Floats, ...], window: int | None
) -> tuple[Floats, Floats]:
    """The causal output and its bound, the window on top where there is one."""
    queries, keys = arrays[0].shape[-2], arrays[1].shape[-2]
    options = causal_form(subject, case, queries, keys)
    if window is not None and "causal" in options:
        options["window"] = window
    elif window is not None:  # a window is aligned like the flag, which is not in use
        extra = 0 if subject.conventions.window == "including-self" else 1
        seen = spec.causal(queries, keys) & spec.window(queries, keys, window + extra)
        options = masking(subject, case, seen[None, None])
    got = subject.attention(*arrays, **options)
    return got, expected.attention(subject, *arrays, **options).allowed


@checks(
    spec.DECODES_AS_PREFILL, attention_cases(masked="causal"), mistakes=(spec.TOP_LEFT, spec.ALIGNMENT_SWITCHES)
)  # fmt: skip
def alignment(subject: Subject, case: AttentionCase) -> Comparisons:
    """The causal flag means one corner, the declared or the measured one, for more keys and for more queries."""
    subject.require("attention", "causal")
    query, key, value = case.arrays(subject.precision.storage)
    yield _declared("causal alignment", subject, "alignment")
    got, due = (
        subject.attention(query, key, value, causal=True),
        expected.attention(subject, query, key, value, causal=True),
    )
    yield close("output", got, *due)


def _declared(what: str, subject: Subject, axis: str) -> Comparison:
    """A declared convention is the one that is measured; an undeclared one is some known choice."""
    declared, seen = getattr(subject.conventions, axis), measured(subject, axis)
    miss = seen == OTHER if declared is None else seen != declared
    return close(f"{what} declared {declared}, measured {seen}: miss", float(miss), 0.0, 0.0)


@checks(spec.ONE_MEANING, attention_cases())
def one_meaning(subject: Subject, case: AttentionCase) -> Comparisons:
    """A boolean mask, and the additive mask that says the same, give the specification's output."""
    subject.require("attention", "mask")
    arrays, permitted = case.arrays(subject.precision.storage), case.permitted(case.batch, 1)
    due = expected.attention(subject, *arrays, mask=permitted)
    yield close("output under a boolean mask", subject.attention(*arrays, mask=permitted), *due)
    additive = np.where(permitted, 0.0, -np.inf)
    yield close("output under an additive mask", subject.attention(*arrays, mask=additive), *due)


@checks(spec.ONE_MEANING, attention_cases(), share=0.1, mistakes=(spec.INVERTED_BOOLEAN,))
def declared_polarity(subject: Subject, case: AttentionCase) -> Comparisons:
    """True says of a key what was declared."""
    subject.require("attention", "mask")
    wrong = polarity(subject) != subject.conventions.polarity
    yield close("polarity other than declared", float(wrong), 0.0, 0.0)


@checks(
    spec.EMPTY_ROW, attention_cases(regime=MODERATE, masked=st.sampled_from(("boolean", "additive"))),
    mistakes=(spec.NAN_FOR_EMPTY_ROW, spec.EMPTY_ROW_SPREADS, spec.SMALLEST_NUMBER_OVERFLOWS),
)  # fmt: skip
def empty_row(subject: Subject, case: AttentionCase) -> Comparisons:
    """Rows that may attend to nothing give the declared result, and the others what they would have given."""
    subject.require("attention", "mask")
    arrays, permitted = case.arrays(subject.precision.storage), case.permitted(case.batch, 1)
    yield _declared("fully masked row", subject, "empty_row")
    chosen = case.rng.random((case.batch, 1, case.queries, 1)) < 0.4
    chosen[0, 0, case.seed % case.queries] = True
    options = masking(subject, case, permitted & ~chosen)
    due = expected.attention(subject, *arrays, **options)
    for path in (None, *subject.paths("attention")):
        yield close(f"output{_by(path)}", subject.attention(*arrays, path=path, **options), *due)
    # Scores well below zero, which a large penalty would push past the smallest number of half precision.
    query, key, value = np.full_like(arrays[0], 8.0), np.full_like(arrays[1], -8.0), arrays[2]
    got, due = (
        subject.attention(query, key, value, **options),
        expected.attention(subject, query, key, value, **options),
    )
    yield close("output for scores far below zero", got, *due)


@checks(
    spec.EMPTY_ROW,
    multi_head_cases(head_pairs=((2, 2), (3, 3), (1, 1)), causal=False, biased=True),
    needs=("multi_head_attention",),
    mistakes=(),
)
def empty_row_of_heads(subject: Subject, case: MultiHeadCase) -> Comparisons:
    """The same through multi-head attention with biases, by every path."""
    subject.require("multi_head_attention", "mask")
    form = subject.precision.storage
    x, parameters, options = case.input(form), case.parameters(form), case.options()
    permitted = np.ones((case.time, case.time), bool)
    permitted[case.seed % case.time] = False
    for mask in (permitted, np.where(permitted, 0.0, -np.inf)):
        due = expected.multi_head(subject, x, parameters, mask=mask, **options)
        for path in (None, *subject.paths("multi_head_attention")):
            got = subject.multi_head(x, parameters, mask=mask, path=path, **options)
            yield close(f"output under a {mask.dtype} mask{_by(path)}", got, *due)


def _by(path: str | None) -> str:
    return "" if path is None else f" by the path {path!r} "


@checks(
    spec.WINDOW,
    attention_cases(queries=st.sampled_from(LENGTHS[2:]), regime=MODERATE, window=st.integers(1, 6), value_width=1,
                    width=st.sampled_from((1, 2, 4)), masked=st.sampled_from(("causal", "none"))),
)  # fmt: skip
def window(subject: Subject, case: AttentionCase) -> Comparisons:
    """Weight lies on the keys of the window and nowhere else."""
    subject.require("attention", "window")
    case = square(case)
    query, key, _ = case.arrays(subject.precision.storage)
    options: dict[str, Any] = {"window": case.window} | ({"causal": True} if case.masked == "causal" else {})
    got, due = weights(subject, query, key, **options), expected.weights(subject, query, key, **options)
    permitted = np.asarray(expected.permission(subject, query, key, **options)[0])
    # A weight that the precision may round to zero says nothing of the window.
    certain = np.where(~permitted | (due.value > due.allowed), 0.0, np.inf)
    yield close("key with weight", got != 0, permitted, certain)


@checks(
    spec.BEHIND_THE_MASK,
    attention_cases(
        keys=st.sampled_from(LENGTHS[1:]), regime=MODERATE, masked=st.sampled_from(("boolean", "additive"))
    ),
    mistakes=(spec.HUGE_LEAKS,),
)
def huge_behind_the_mask(subject: Subject, case: AttentionCase) -> Comparisons:
    """Huge finite keys and values of masked positions leave the output as it is, bit for bit."""
    subject.require("attention", "mask")
    query, key, value = case.arrays(subject.precision.storage)
    permitted = np.broadcast_to(_key_padding(case), (case.batch, 1, case.queries, case.keys))
    options = masking(subject, case, permitted)
    hidden = ~permitted[:, :, :1].swapaxes(-1, -2)
    huge_key, huge_value = largest(subject.precision.storage)
    spoiled = np.where(hidden, huge_key, key), np.where(hidden, huge_value, value)
    before, after = subject.attention(query, key, value, **options), subject.attention(query, *spoiled, **options)
    abstains = np.isinf(expected.attention(subject, query, *spoiled, **options).allowed)
    yield close("output", after, before, np.where(abstains, np.inf, 0.0))


@checks(spec.BEHIND_THE_MASK, attention_cases(regime="ordinary"), mistakes=(spec.NAN_LEAKS,), share=0.2)
def nan_behind_the_mask(subject: Subject, case: AttentionCase) -> Comparisons:
    """NaN in a masked key or value does what was declared."""
    subject.require("attention", "mask")
    yield _declared("NaN in a masked key", subject, "masked_key")
    yield _declared("NaN in a masked value", subject, "masked_value")


@checks(spec.COMBINED, attention_cases(regime=MODERATE), mistakes=(spec.FOLDED_IN_OTHER_ORDER,))
def broadcast_masks(subject: Subject, case: AttentionCase) -> Comparisons:
    """A mask over fewer axes equals its expanded form."""
    subject.require("attention", "mask")
    arrays = case.arrays(subject.precision.storage)
    full = (case.batch, case.heads, case.queries, case.keys)
    leading = ((1, 1), (case.batch, 1), (1, case.heads), (case.batch, case.heads))[case.seed % 4]
    permitted = _key_padding(case) if case.seed % 5 == 0 else case.permitted(*leading)
    got = subject.attention(*arrays, mask=permitted)
    due = expected.attention(subject, *arrays, mask=permitted)
    yield close("output under a mask that broadcasts", got, *due)
    expanded = subject.attention(*arrays, mask=np.broadcast_to(permitted, full))
    yield close("output under the expanded mask", expanded, got, 2 * due.allowed)


@checks(
    spec.COMBINED,
    attention_cases(regime=MODERATE, masked=st.sampled_from(("boolean", "additive"))),
    mistakes=(spec.MASK_REPLACES_MASK, spec.TWO_PENALTIES),
)
def combined(subject: Subject, case: AttentionCase) -> Comparisons:
    """A given mask and the causal flag, or a window, permit what both permit, and an empty row stays one."""
    subject.require("attention", "mask")
    joins = [o for o in ({"causal": True}, {"causal": True, "window": 2}) if subject.offers("attention", *o)]
    if not joins:
        subject.require("attention", "causal")
    case = square(case)
    arrays, permitted = case.arrays(subject.precision.storage), case.permitted(case.batch, 1)
    if case.seed % 3 == 0:
        permitted = _key_padding(case)  # a mask that broadcasts over the queries, on which the flag then acts
    options = masking(subject, case, permitted) | joins[case.seed % len(joins)]
    got, due = subject.attention(*arrays, **options), expected.attention(subject, *arrays, **options)
    yield close("output under joined masks", got, *due)
