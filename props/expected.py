"""What is due: the specification's value and bound for a subject's precision and conventions."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gnomon.props.measure import convention
from gnomon.props.subject import Subject
from gnomon.spec import attention as attention_spec
from gnomon.spec import heads as heads_spec
from gnomon.spec import linear as linear_spec
from gnomon.spec import masks
from gnomon.spec.bounds import Bounds, Tracked, allowed
from gnomon.spec.constants import Constant, exactly
from gnomon.spec.evaluators import Floats, Mask
from gnomon.spec.scale import declared_scale


class Expected(NamedTuple):
    """The exact value, and how far a correct implementation may be from it."""

    value: Floats
    allowed: Floats


def bounds(subject: Subject) -> Bounds:
    """The evaluator of the subject's declared precision."""
    return Bounds(subject.precision)


def expected(result: Tracked) -> Expected:
    """A tracked result as value and bound."""
    return Expected(result.value, allowed(result))


def attention(
    subject: Subject,
    query: Floats,
    key: Floats,
    value: Floats,
    *,
    scale: float | None = None,
    softcap: float | None = None,
    sink: Floats | None = None,
    **masking: Any,
) -> Expected:
    """What attention is due under the subject's conventions."""
    permitted, bias = permission(subject, query, key, **masking)
    factor = _scale(subject, query.shape[-1], scale)
    mapping = subject.conventions.head_mapping
    result = attention_spec.attention(
        bounds(subject), query, key, value,
        allowed=permitted, bias=bias, scale=factor, softcap=softcap, sink=sink, mapping=mapping,
    )  # fmt: skip
    if permitted is None or sink is not None:
        return expected(result)
    empty = np.asarray(~permitted.any(-1, keepdims=True))
    if not empty.any():
        return expected(result)
    return _with_empty_rows(subject, expected(result), empty, (query, key, value))


def weights(subject: Subject, query: Floats, key: Floats, **masking: Any) -> Expected:
    """What the weights are due, read off through identity values; every query may attend to something."""
    permitted, bias = permission(subject, query, key, **masking)
    factor = _scale(subject, query.shape[-1], None)
    mapping = subject.conventions.head_mapping
    E = bounds(subject)
    return expected(
        attention_spec.attention_weights(E, query, key, allowed=permitted, bias=bias, scale=factor, mapping=mapping)
    )


def permission(
    subject: Subject,
    query: Floats,
    key: Floats,
    *,
    mask: Any = None,
    causal: bool = False,
    window: int | None = None,
) -> tuple[Mask | None, Floats | None]:
    """Where queries may attend when every mask is joined to the others, and the finite bias on their scores."""
    queries, keys = query.shape[-2], key.shape[-2]
    full = np.ones((*query.shape[:-1], keys), bool)
    permitted, bias = full, None
    if mask is not None:
        seen, bias = (mask, None) if mask.dtype == bool else masks.split_additive(mask)
        permitted = permitted & seen
    # Both corners are one where there are as many queries as keys.
    aligned = queries == keys or not (causal or window is not None)
    corner = "bottom-right" if aligned else convention(subject, "alignment")
    if causal:
        permitted = permitted & masks.causal(queries, keys, corner)
    if window is not None:
        extra = 0 if subject.conventions.window == "including-self" else 1
        permitted = permitted & masks.window(queries, keys, window + extra, corner)
    return (None if permitted is full else permitted), bias


def _scale(subject: Subject, width: int, scale: float | None) -> Constant:
    return declared_scale(subject.conventions.scale, width) if scale is None else exactly(scale)


def _with_empty_rows(subject: Subject, usual: Expected, empty: Mask, arrays: tuple[Floats, Floats, Floats]) -> Expected:
    """The expectation with the declared result in rows that may attend to nothing."""
    policy = convention(subject, "empty_row")
    if policy == "mean":
        query, key, value = arrays
        mean = attention_spec.attention(
            bounds(subject), np.zeros_like(query), key, value, mapping=subject.conventions.head_mapping
        )
        return Expected(*(np.where(empty, m, u) for m, u in zip(expected(mean), usual, strict=True)))
    if policy == "zeros":
        return Expected(np.where(empty, 0.0, usual.value), np.where(empty, 0.0, usual.allowed))
    return Expected(np.where(empty, np.nan, usual.value), np.where(empty, 0.0, usual.allowed))


def multi_head(
    subject: Subject, x: Floats, parameters: Mapping[str, Floats], *, heads: int, kv_heads: int | None = None,
    **masking: Any,
) -> Expected:  # fmt: skip
    """What multi-head attention is due."""
    time = np.zeros((x.shape[0], heads, x.shape[1], 1))
    permitted, bias = permission(subject, time, time, **masking)
    result = expected(
        heads_spec.multi_head_attention(
            bounds(subject), x, parameters, heads=heads, kv_heads=kv_heads, allowed=permitted, bias=bias,
            scale=declared_scale(subject.conventions.scale, parameters["query_weight"].shape[0] // heads),
            mapping=subject.conventions.head_mapping,
        )
    )  # fmt: skip
    if permitted is None or permitted.any(-1).all():
        return result
    return _with_empty_positions(subject, result, np.asarray(~permitted.any(-1))[:, 0, :, None])


def _with_empty_positions(subject: Subject, usual: Expected, empty: Mask) -> Expected:
    """The projected output where a position may attend to nothing, alike in every head: of zeros, NaN, or left open."""
    policy = convention(subject, "empty_row")
    if policy == "nan":
        return Expected(np.where(empty, np.nan, usual.value), np.where(empty, 0.0, usual.allowed))
    return usual if policy == "zeros" else Expected(usual.value, np.where(empty, np.inf, usual.allowed))


def linear(subject: Subject, x: Floats, weight: Floats, bias: Floats | None = None) -> Expected:
    """What a linear layer is due."""
    return expected(linear_spec.linear(bounds(subject), x, weight, bias))


def activation(subject: Subject, name: str, x: Floats) -> Expected:
    """What an activation is due."""
    E = bounds(subject)
    return expected(linear_spec.activate(E, name, E.number(x)))


def softmax(subject: Subject, logits: Floats) -> Expected:
    """What a softmax is due."""
    return expected(attention_spec.softmax(bounds(subject), logits))


def feed_forward(subject: Subject, x: Floats, parameters: Mapping[str, Floats], *, activation: str) -> Expected:
    """What a feed-forward network is due."""
    return expected(linear_spec.feed_forward(bounds(subject), x, parameters, activation))
