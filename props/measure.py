"""Conventions measured from outside: small inputs whose answer names the choice."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from gnomon.props.outcome import Declined
from gnomon.props.subject import Subject
from gnomon.props.training import after_end, clip_epsilon, first_rate
from gnomon.spec.bounds import round_to
from gnomon.spec.evaluators import Floats
from gnomon.spec.formats import E4M3FN, E5M2, LAYOUTS, Layout

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


def _turned(subject: Subject) -> Floats:
    """The first of four unit vectors at position 1, where only the partner in its pair gets a share of it."""
    one = np.zeros((1, 1, 1, 4))
    one[..., 0] = 1.0
    return np.asarray(subject.rope(one, np.array([1]))[0, 0, 0])


def rotary_layout(subject: Subject) -> str:
    """Which feature rotary positions pair with the first of four: the third, or the second."""
    partners = np.flatnonzero(_turned(subject)[1:]).tolist()
    return "half" if partners == [1] else "interleaved" if partners == [0] else OTHER


def rotation(subject: Subject) -> str:
    """Whether that partner's share is the sine of the angle, or less than nothing."""
    share = _turned(subject)[1:].sum()
    return "forward" if share > 0 else "backward" if share < 0 else OTHER


def base(subject: Subject) -> float:
    """The base of the frequencies, from the angle by which the slower of two pairs turns at position 1."""
    turned = []
    for feature in (1, 3):  # one of them is of that pair, in either layout; the other turns by one
        x = np.zeros((1, 1, 1, 4))
        x[..., feature] = 1.0
        turned.append(np.abs(np.delete(subject.rope(x, np.array([1]))[0, 0, 0], feature)).sum())
    with np.errstate(all="ignore"):
        return float(np.arcsin(min(turned)) ** -2.0)


def sinusoids(subject: Subject) -> str:
    """What follows the sine of 1 in the code of position 1 among four features: its cosine, or the next sine."""
    code = subject.sinusoidal_positions(np.array([1]), 4)[0]
    near = {"interleaved": np.cos(1.0), "concatenated": np.sin(0.01)}
    return min(near, key=lambda name: float(np.abs(code[1] - near[name])))


def all_ignored(subject: Subject) -> str:
    """The mean loss of a single target that is ignored."""
    loss = subject.call("cross_entropy", np.zeros((1, 2)), np.array([-100]), shape=(), ignore_index=-100)
    return "nan" if np.isnan(loss) else "zero" if loss == 0 else OTHER


def _cast(subject: Subject, x: float, layout: Layout) -> float:
    """One number in the format and back."""
    return float(subject.call("rounded", np.array([x]), shape=(1,), format=layout.name)[0])


def narrowing(subject: Subject) -> str:
    """Whether a number a little above a midpoint goes up in every format, or down in some by way of float32."""
    if subject.dtype != "float64":
        raise Declined(f"{subject.dtype} is not wider than float32")
    points = {f: 1 + 2.0 ** (-1 - f.fraction_bits) for f in LAYOUTS.values()}  # the lower neighbour is even
    up = [_cast(subject, point + 2.0**-40, f) > point for f, point in points.items()]
    return "once" if all(up) else "twice"


def subnormals(subject: Subject) -> str:
    """Whether the smallest number of every format that the dtype can hold comes back."""
    form = subject.precision.storage
    held = [f for f in LAYOUTS.values() if round_to(np.array(f.smallest), form) == f.smallest]
    seen = [_cast(subject, f.smallest, f) / f.smallest for f in held]
    return "kept" if set(seen) == {1.0} else "flushed" if set(seen) <= {0.0, 1.0} else OTHER


def e4m3fn_overflow(subject: Subject) -> str:
    """What becomes of 512, where 448 is the largest number."""
    seen = _cast(subject, 512.0, E4M3FN)
    return "nan" if np.isnan(seen) else "saturates" if seen == E4M3FN.largest else OTHER


def e5m2_overflow(subject: Subject) -> str:
    """What becomes of 63488, where 57344 is the largest number."""
    seen = _cast(subject, 63488.0, E5M2)
    return "infinity" if seen == np.inf else "saturates" if seen == E5M2.largest else OTHER


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
        "rotary_layout": rotary_layout,
        "rotation": rotation,
        "sinusoids": sinusoids,
        "all_ignored": all_ignored,
        "narrowing": narrowing,
        "subnormals": subnormals,
        "e4m3fn_overflow": e4m3fn_overflow,
        "e5m2_overflow": e5m2_overflow,
        "clip_epsilon": clip_epsilon,
        "first_rate": first_rate,
        "after_end": after_end,
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
