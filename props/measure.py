"""Conventions measured from outside: small inputs whose answer names the choice."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from gnomon.props.outcome import Declined
from gnomon.props.subject import Subject
from gnomon.spec.evaluators import Floats

OTHER = "other"  # none of the choices: what was seen fits no convention


def convention(subject: Subject, axis: str) -> str:
    """The declared choice on an axis, or the measured one where none is declared."""
    declared = getattr(subject.conventions, axis)
    return declared if declared is not None else measured(subject, axis)


def measured(subject: Subject, axis: str) -> str:
    """The choice that the implementation shows, measured once."""
    if axis not in subject.measured:
        calls = len(subject.calls)
        subject.measured[axis] = MEASUREMENTS[axis](subject)
        del subject.calls[calls:]
    return subject.measured[axis]


def weights(subject: Subject, query: Floats, key: Floats, **options: Any) -> Floats:
    """Its weights, read off by giving the identity as values."""
    keys = key.shape[-2]
    identity = np.broadcast_to(np.eye(keys), (*key.shape[:-2], keys, keys))
    return subject.attention(query, key, identity, **options)


def _ones(queries: int, keys: int) -> tuple[Floats, Floats]:
    """Queries and keys that are all alike, as wide as there are keys so that identity values have their width."""
    return np.ones((1, 1, queries, keys)), np.ones((1, 1, keys, keys))


def alignment(subject: Subject) -> str:
    """Where the causal triangle starts: one query against three equal keys sees all of them, or one."""
    seen = int(np.count_nonzero(weights(subject, *_ones(1, 3), causal=True)))
    return {3: "bottom-right", 1: "top-left"}.get(seen, OTHER)


def empty_row(subject: Subject) -> str:
    """What a query returns that may attend to neither of two values."""
    query, key = _ones(2, 2)
    mask = np.array([[False, False], [True, True]])
    row = subject.attention(query, key, np.array([[[[1.0, 1.0], [3.0, 3.0]]]]), mask=mask)[0, 0, 0, 0]
    return "nan" if np.isnan(row) else {0.0: "zeros", 2.0: "mean"}.get(float(row), OTHER)


def _behind_the_mask(subject: Subject, where: str) -> str:
    query, key = _ones(1, 2)
    value = np.array([[[[1.0, 1.0], [3.0, 3.0]]]])
    (key if where == "key" else value)[..., 1, :] = np.nan
    out = subject.attention(query, key, value, mask=np.array([[True, False]]))
    return "leaks" if np.isnan(out).any() else "blocked" if out[0, 0, 0, 0] == 1 else OTHER


def masked_key(subject: Subject) -> str:
    """Whether NaN in a masked key reaches the output."""
    return _behind_the_mask(subject, "key")


def masked_value(subject: Subject) -> str:
    """Whether NaN in a masked value reaches the output."""
    return _behind_the_mask(subject, "value")


def polarity(subject: Subject) -> str:
    """What true in a boolean mask does to a key, whatever was declared."""
    query, key = _ones(1, 2)
    seen = weights(subject, query, key, mask=np.array([[True, False]]))[0, 0, 0]
    kept = bool(seen[0] > seen[1])
    declared = subject.conventions.polarity
    return declared if kept else {"keep": "block", "block": "keep"}[declared]


def window(subject: Subject) -> str:
    """Whether a window of two counts the query's own key: of four equal keys it leaves two, or three."""
    seen = int(np.count_nonzero(weights(subject, *_ones(4, 4), causal=True, window=2)[0, 0, -1]))
    return {2: "including-self", 3: "excluding-self"}.get(seen, OTHER)


def head_mapping(subject: Subject) -> str:
    """Which key-value head each of four query heads reads, of two."""
    value = np.array([1.0, 2.0]).reshape(1, 2, 1, 1)
    ones = np.ones((1, 4, 1, 1)), np.ones((1, 2, 1, 1))
    read = tuple(subject.attention(*ones, value)[0, :, 0, 0])
    return {(1.0, 1.0, 2.0, 2.0): "grouped", (1.0, 2.0, 1.0, 2.0): "tiled"}.get(read, OTHER)


def log_ratio(subject: Subject, width: int) -> float:
    """The scale, measured as half the log-ratio of the weights of two keys whose products differ by two."""
    query, key = np.zeros((1, 1, 1, width)), np.zeros((1, 1, width, width))
    query[..., 0], key[0, 0, 1, 0] = 2.0, 1.0
    low, high = weights(subject, query, key)[0, 0, 0, :2]
    with np.errstate(all="ignore"):
        return float(np.log(high / low) / 2.0)


def scale(subject: Subject) -> str:
    """The convention whose factor is nearest to the measured one at widths 4 and 16."""
    seen = np.array([log_ratio(subject, width) for width in (4, 16)])
    choices = {"1/sqrt(head_width)": (0.5, 0.25), "1": (1.0, 1.0), "1/head_width": (0.25, 0.0625)}
    if not np.isfinite(seen).all():
        return OTHER
    return min(choices, key=lambda name: float(np.abs(np.log(seen / choices[name])).sum()))


MEASUREMENTS: Mapping[str, Callable[[Subject], str]] = MappingProxyType(
    {
        "scale": scale,
        "head_mapping": head_mapping,
        "polarity": polarity,
        "window": window,
        "alignment": alignment,
        "empty_row": empty_row,
        "masked_key": masked_key,
        "masked_value": masked_value,
    }
)


def every(subject: Subject) -> dict[str, str]:
    """Each axis with what was measured, or why it could not be."""

    def attempt(axis: str) -> str:
        try:
            return measured(subject, axis)
        except Declined as reason:
            return f"not measured: {reason}"

    return {axis: attempt(axis) for axis in MEASUREMENTS}
