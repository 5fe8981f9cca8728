"""V.2 held to an implementation: the scale measured, the variance it gives, entropy and saturation."""

from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from gnomon.props import expected
from gnomon.props.cases import WIDTHS, AttentionCase, MultiHeadCase, attention_cases, multi_head_cases
from gnomon.props.judge import Comparison, between, close
from gnomon.props.measure import weights
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import scale as spec
from gnomon.spec.attention import attention_weights
from gnomon.spec.bounds import round_to
from gnomon.spec.constants import ONE
from gnomon.spec.evaluators import Float64, Floats
from gnomon.spec.statistics import chi_square_tails

Comparisons = Iterator[Comparison]

ERROR_PROBABILITY = 1e-9  # of each statistical test: a millionth over a thousand of them


def log_ratio(low: Floats, high: Floats, allowed_low: Floats, allowed_high: Floats) -> tuple[Floats, Floats]:
    """ln(high/low) and how far errors of the two weights may move it."""
    with np.errstate(all="ignore"):
        value = np.log(high / low)
        blur = -np.log1p(-np.minimum(allowed_low / low, 1)) - np.log1p(-np.minimum(allowed_high / high, 1))
    return value, np.where(np.isnan(blur), np.inf, blur)


@checks(
    spec.MEASURED_SCALE,
    st.sampled_from((*WIDTHS, 128)).flatmap(
        lambda width: attention_cases(queries=1, keys=max(2, width), width=width, value_width=1, regime="ordinary")
    ),
)
def measured_scale(subject: Subject, case: AttentionCase) -> Comparisons:
    """Two keys whose products with the query differ by d: the log-ratio of their weights over d is the scale."""
    query, key, _ = (np.zeros_like(a) for a in case.arrays(subject.precision.storage))
    # A difference of about two to four in the scaled logit keeps both weights large and the ratio well conditioned.
    query[..., 0], key[..., 1, 0] = 2.0 ** round(np.log2(case.width) / 2), (2.0, 3.0, -2.0, -4.0)[case.seed % 4]
    got, (_, allowed) = weights(subject, query, key), expected.weights(subject, query, key)
    logits, blur = log_ratio(got[..., 0], got[..., 1], allowed[..., 0], allowed[..., 1])
    product = query[0, 0, 0, 0] * key[0, 0, 1, 0]
    wanted = _scale(subject, case.width)
    yield close(f"scale at head width {case.width} ", logits / product, wanted, blur / abs(product))


@checks(
    spec.MEASURED_SCALE,
    multi_head_cases(time=2, biased=False, causal=False, regime="ordinary", head_width=st.sampled_from((1, 2, 4, 16))),
    needs=("multi_head_attention",),
)
def measured_scale_of_heads(subject: Subject, case: MultiHeadCase) -> Comparisons:
    """The same through multi-head attention, from the share of a value of one in every head's output."""
    x, parameters, product = _two_tokens(case)
    options = case.options()
    got = subject.multi_head(x, parameters, **options)
    _, allowed = expected.multi_head(subject, x, parameters, **options)
    share, blur = (a[:, 1, :: case.head_width] for a in (got, allowed))
    logits, error = log_ratio(1 - share, share, blur, blur)
    wanted = _scale(subject, case.head_width)
    yield close(f"scale at head width {case.head_width} ", logits / product, wanted, error / product)


def _two_tokens(case: MultiHeadCase) -> tuple[Floats, dict[str, Floats], float]:
    """A token of zeros and one that queries it and itself in the first feature of every head, with its value one."""
    firsts = np.arange(0, case.width, case.head_width)
    x = np.zeros((case.batch, 2, case.width))
    x[:, 1, 0] = 1.0
    size = 2.0 ** round(np.log2(case.head_width) / 2)
    parameters = {"output_weight": np.eye(case.width)}
    for name, entry in (("query", size), ("key", 2.0), ("value", 1.0)):
        parameters[f"{name}_weight"] = np.zeros((case.width, case.width))
        parameters[f"{name}_weight"][firsts, 0] = entry
    return x, parameters, size * 2.0


@checks(
    spec.UNIT_VARIANCE,
    attention_cases(
        batch=1, queries=1, keys=257, width=st.sampled_from((4, 16, 64, 128)), head_pairs=((8, 8),),
        regime="ordinary", value_width=1,
    ),
    share=0.1,
)  # fmt: skip
def unit_variance(subject: Subject, case: AttentionCase) -> Comparisons:
    """Given the query, logits of Gaussian keys are normal: their sum of squares lies inside the tails of χ²."""
    query, key, _ = case.arrays(subject.precision.storage)
    key[..., 0, :] = 0.0  # a key of logit zero, to read the others against
    got, (_, allowed) = weights(subject, query, key), expected.weights(subject, query, key)
    logits, blur = log_ratio(got[..., :1], got[..., 1:], allowed[..., :1], allowed[..., 1:])
    spread = np.linalg.norm(query, axis=-1)[..., None] * _scale(subject, case.width)
    logits, blur = logits / spread, blur / spread
    low, high = chi_square_tails(logits.size, ERROR_PROBABILITY)
    moved = ((2 * np.abs(logits) + blur) * blur).sum()
    yield between("sum of squared logits over their variance", (logits**2).sum(), low, high, moved)


def _scale(subject: Subject, width: int) -> float:
    return float(spec.declared_scale(subject.conventions.scale, width))


def entropy(p: Floats) -> Floats:
    """−Σ p ln p over the last axis."""
    return np.asarray(-(p * np.log(np.where(p > 0, p, 1.0))).sum(-1))


def entropy_blur(allowed: Floats) -> Floats:
    """How far the entropy may move: |h(p)−h(q)| ≤ h(|p−q|) for h(t) = −t ln t and |p−q| up to 1/e."""
    step = np.minimum(allowed, np.exp(-1.0))
    return np.asarray(-(step * np.log(np.where(step > 0, step, 1.0))).sum(-1))


@checks(
    spec.ENTROPY,
    attention_cases(width=st.sampled_from((2, 4, 16, 64)), regime=st.sampled_from(("ordinary", "sharp"))),
)
def entropy_grows(subject: Subject, case: AttentionCase) -> Comparisons:
    """The entropy is the definition's, and at least that of the scores without their divisor."""
    query, key, _ = case.arrays(subject.precision.storage)
    bare = attention_weights(Float64(), query, key, scale=ONE, mapping=subject.conventions.head_mapping)
    due = expected.weights(subject, query, key)
    got, blur = entropy(np.maximum(weights(subject, query, key), 0.0)), entropy_blur(due.allowed)
    if _scale(subject, case.width) <= 1:
        yield between("entropy", got, entropy(bare), np.inf, blur)
    yield close("entropy", got, entropy(due.value), blur)


@checks(
    spec.SATURATION,
    attention_cases(
        queries=1, keys=st.sampled_from((2, 3, 5)), width=st.sampled_from(WIDTHS[:7]), regime="ordinary",
        head_pairs=((1, 1), (2, 2)), value_width=1,
    ),
)  # fmt: skip
def saturation(subject: Subject, case: AttentionCase) -> Comparisons:
    """Weights that are nearly all on one key answer to a change of the logits by no more than the Jacobian allows."""
    form = subject.precision.storage
    query, key, _ = (np.zeros_like(a) for a in case.arrays(form))
    root = np.sqrt(case.width)
    query[..., 0] = 1.0
    key[..., 1:, 0] = -round_to(root * np.broadcast_to(case.rng.uniform(1, 3), key[..., 1:, 0].shape), form)
    step = 0.25
    moved = key.copy()
    moved[..., 0, 0] = round_to(-step * root, form)
    moved[..., 1:, 0] = round_to(key[..., 1:, 0] + step * root, form)
    before, after = (_weights_and_bounds(subject, query, k) for k in (key, moved))
    logit = _scale(subject, case.width) * np.abs(moved - key)[..., 0].max()
    slope = 2 * np.expm1(2 * logit)
    rest = before[0][..., 1:].sum(-1)
    change = np.abs(after[0] - before[0]).sum(-1)
    blur = (before[1] + after[1]).sum(-1) + slope * before[1][..., 1:].sum(-1)
    yield between("change of the weights", change, 0.0, slope * rest, blur)
    yield from _answers_unsaturated(subject, query, key, step * root, change)


def _weights_and_bounds(subject: Subject, query: Floats, key: Floats) -> tuple[Floats, Floats]:
    return weights(subject, query, key), expected.weights(subject, query, key).allowed


def _answers_unsaturated(subject: Subject, query: Floats, key: Floats, step: Floats, saturated: Floats) -> Comparisons:
    """The control: from equal logits the same change moves the weights further than it did in saturation."""
    even = np.zeros_like(key)
    uneven = even.copy()
    uneven[..., 0, 0] = -round_to(np.asarray(step), subject.precision.storage)
    before, after = (_weights_and_bounds(subject, query, k) for k in (even, uneven))
    change, blur = np.abs(after[0] - before[0]).sum(-1), (before[1] + after[1]).sum(-1)
    yield between("change of even weights", change, blur, np.inf, 0.0)
