"""What is due: the specification's value and bound for a subject's precision and conventions."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gnomon.props.measure import convention
from gnomon.props.subject import Subject
from gnomon.spec import attention as attention_spec
from gnomon.spec import embedding as embedding_spec
from gnomon.spec import heads as heads_spec
from gnomon.spec import linear as linear_spec
from gnomon.spec import loss as loss_spec
from gnomon.spec import masks, norms
from gnomon.spec import order as order_spec
from gnomon.spec import reach as reach_spec
from gnomon.spec import rotary as rotary_spec
from gnomon.spec.bounds import Bounds, Tracked, allowed
from gnomon.spec.configuration import Rotary, Scaling
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
    positions: Any = None, **masking: Any,
) -> Expected:  # fmt: skip
    """What multi-head attention is due, its queries and keys turned to their positions if there are any."""
    time = np.zeros((x.shape[0], heads, x.shape[1], 1))
    permitted, bias = permission(subject, time, time, **masking)
    usual = Rotary(layout=subject.conventions.rotary_layout)
    placed = None if positions is None else partial(rope, subject, positions=positions, rotary=usual)
    result = expected(
        heads_spec.multi_head_attention(
            bounds(subject), x, parameters, heads=heads, kv_heads=kv_heads, allowed=permitted, bias=bias,
            scale=declared_scale(subject.conventions.scale, parameters["query_weight"].shape[0] // heads),
            mapping=subject.conventions.head_mapping, placed=placed,
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


def layer_norm(subject: Subject, x: Floats, weight: Floats, bias: Floats | None = None, *, eps: float) -> Expected:
    """What a LayerNorm is due."""
    return expected(norms.layer_norm(bounds(subject), x, weight, bias, eps=eps))


def rms_norm(subject: Subject, x: Floats, weight: Floats, *, eps: float) -> Expected:
    """What an RMSNorm is due."""
    return expected(norms.rms_norm(bounds(subject), x, weight, eps=eps))


def embedding(subject: Subject, table: Floats, ids: Any) -> Expected:
    """What a look-up is due: no error at all."""
    return expected(embedding_spec.embedding(bounds(subject), table, ids))


def rope(subject: Subject, x: Any, positions: Any, rotary: Rotary) -> Tracked:
    """What a rotation is due, with its bound and before the oracle's share of it, so that more can be made of it."""
    backward = subject.conventions.rotation == "backward"
    turned: Tracked = rotary_spec.rope(bounds(subject), x, -positions if backward else positions, rotary)
    return turned


def rope_as_asked(
    subject: Subject, x: Floats, positions: Any, *, base: float | None = None, rotary_width: int | None = None,
    layout: Any = None, scaling: Scaling | None = None,
) -> Expected:  # fmt: skip
    """What a rotation is due, said by the keywords of the call."""
    own = layout or subject.conventions.rotary_layout
    rotary = Rotary(base=base or 10000.0, width=rotary_width or 0, layout=own, scaling=scaling)
    return expected(rope(subject, x, positions, rotary))


def sinusoidal_positions(subject: Subject, positions: Any, width: int) -> Expected:
    """What a table of sinusoidal positions is due."""
    arrangement = subject.conventions.sinusoids
    return expected(order_spec.sinusoidal_positions(bounds(subject), positions, width, arrangement))


def alibi_slopes(subject: Subject, heads: int) -> Expected:
    """What the slopes of a linear bias are due."""
    return expected(order_spec.alibi_slopes(bounds(subject), heads))


def convolution(subject: Subject, x: Floats, weight: Floats, bias: Floats | None = None, **how: Any) -> Expected:
    """What a convolution is due."""
    return expected(reach_spec.convolution(bounds(subject), x, weight, bias, **how))


def additive_attention(
    subject: Subject, query: Floats, key: Floats, value: Floats, parameters: Mapping[str, Floats]
) -> Expected:
    """What additive attention is due."""
    return expected(reach_spec.additive_attention(bounds(subject), query, key, value, parameters))


def recurrence(subject: Subject, x: Floats, weight: Floats) -> Expected:
    """What a linear recurrence is due."""
    return expected(reach_spec.recurrence(bounds(subject), x, weight))


def cross_entropy(subject: Subject, logits: Floats, targets: Any, **options: Any) -> Expected:
    """What a cross-entropy is due."""
    return expected(loss_spec.cross_entropy(bounds(subject), logits, targets, **options))


def next_token_loss(subject: Subject, logits: Floats, tokens: Any, **options: Any) -> Expected:
    """What the loss of next tokens is due."""
    return expected(loss_spec.next_token_loss(bounds(subject), logits, tokens, **options))


def tempered(subject: Subject, logits: Floats, temperature: float) -> Expected:
    """What tempered probabilities are due."""
    return expected(loss_spec.tempered(bounds(subject), logits, temperature))
