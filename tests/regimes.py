"""Data on which rounding errors differ in kind, and the cases of each operation that are drawn from them."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.random import Generator

from gnomon.spec.bounds import round_to
from gnomon.spec.configuration import Rotary, Scaling
from gnomon.spec.constants import Constant
from gnomon.spec.masks import causal
from gnomon.spec.precision import FORMATS

REGIMES = (
    "ordinary",
    "large-logits",
    "near-equal",
    "offset",
    "constant",
    "heavy-tails",
    "tiny",
    "powers-of-two",
    "cancelling",
    "huge-scores",
)


def fill(rng: Generator, regime: str, shape: tuple[int, ...], side: str = "left") -> Any:
    """Numbers of a regime; the two sides of a cancelling product are opposite and equal pairs."""
    normal = rng.standard_normal(shape)
    if regime == "cancelling":
        pairs = normal.copy()
        even, odd = pairs[..., 0::2], pairs[..., 1::2]
        odd[...] = (-1 if side == "left" else 1) * even[..., : odd.shape[-1]]
        return pairs
    return {
        "ordinary": lambda: normal,
        "large-logits": lambda: normal * 3,
        "near-equal": lambda: 1 + normal * 1e-3,
        "offset": lambda: 100 + normal * 1e-2,
        "constant": lambda: np.full(shape, rng.standard_normal() * 3),
        "heavy-tails": lambda: rng.standard_t(2, shape),
        "tiny": lambda: normal * 1e-4,
        "powers-of-two": lambda: np.sign(normal) * 2.0 ** rng.integers(-6, 6, shape),
        "huge-scores": lambda: normal * rng.choice([30.0, 300.0, 3000.0]),
    }[regime]()


def length(rng: Generator, longest: int, rarely: int | None = None) -> int:
    """A whole number from one on, of uniform logarithm."""
    top = rarely if rarely is not None and rng.random() < 0.02 else longest
    return int(2.0 ** rng.uniform(0, np.log2(top + 1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The arguments of one operation."""

    regime: str
    arrays: Mapping[str, Any]
    options: Mapping[str, Any]

    def stored(self, dtype: str) -> "Case":
        """The case with its numbers rounded, once, to a storage format."""
        arrays = {name: round_to(a, FORMATS[dtype]) for name, a in self.arrays.items()}
        return Case(regime=self.regime, arrays=arrays, options=self.options)


def linear_case(rng: Generator, regime: str) -> Case:
    rows, inner, outer = length(rng, 16), length(rng, 128, 512), length(rng, 32)
    arrays = {"x": fill(rng, regime, (1, rows, inner)), "weight": fill(rng, regime, (outer, inner), "right")}
    if rng.random() < 0.7:
        arrays["bias"] = fill(rng, regime, (outer,))
    return Case(regime=regime, arrays=arrays, options={})


def softmax_case(rng: Generator, regime: str) -> Case:
    shape = length(rng, 16), length(rng, 64, 256)
    return Case(regime=regime, arrays={"logits": fill(rng, regime, shape)}, options={})


def activation_case(rng: Generator, regime: str) -> Case:
    return Case(regime=regime, arrays={"x": fill(rng, regime, (length(rng, 256),))}, options={})


def draw_mask(rng: Generator, queries: int, keys: int) -> Any:
    """No mask, a causal one, or a random one that leaves each query a key."""
    kind = rng.choice(["none", "causal", "random"])
    if kind == "none":
        return None
    if kind == "causal":
        return causal(queries, keys)
    mask = rng.random((queries, keys)) < rng.uniform(0.1, 1)
    mask[np.arange(queries), rng.integers(keys, size=queries)] = True
    return mask


def attention_case(rng: Generator, regime: str) -> Case:
    keys = length(rng, 64, 256)
    queries = keys if rng.random() < 0.6 and keys <= 64 else length(rng, min(keys, 16))
    width, value_width = length(rng, 64, 128), length(rng, 32)
    shared = int(rng.integers(1, 3))
    heads = shared * int(rng.integers(1, 3)) if keys <= 32 else shared
    plain = "ordinary" if regime == "huge-scores" else regime
    arrays = {
        "query": fill(rng, regime, (1, heads, queries, width)),
        "key": fill(rng, regime, (1, shared, keys, width), "right"),
        "value": fill(rng, plain, (1, shared, keys, value_width)),
    }
    options: dict[str, Any] = {"allowed": draw_mask(rng, queries, keys)}
    if rng.random() < 0.2:
        arrays["bias"] = fill(rng, plain, (queries, keys))
    if rng.random() < 0.15:
        options["softcap"] = float(rng.choice([2.0, 30.0, 50.0]))
    if rng.random() < 0.15:
        arrays["sink"] = fill(rng, plain, (heads,))
    if rng.random() < 0.3:
        options["scale"] = Constant(Fraction(rng.choice(["1", "9/64", "1/10", "3/4"])))
    return Case(regime=regime, arrays=arrays, options=options)


def multi_head_case(rng: Generator, regime: str) -> Case:
    time, head_width, shared = length(rng, 32), length(rng, 16), int(rng.integers(1, 3))
    heads, width = shared * int(rng.integers(1, 3)), length(rng, 64)
    sizes = {"query": heads * head_width, "key": shared * head_width, "value": shared * head_width}
    arrays = {"x": fill(rng, regime, (1, time, width))}
    for name, size in sizes.items():
        arrays[f"{name}_weight"] = fill(rng, "ordinary", (size, width), "right") / np.sqrt(width)
    arrays["output_weight"] = fill(rng, "ordinary", (width, sizes["query"])) / np.sqrt(sizes["query"])
    if rng.random() < 0.5:
        arrays |= {f"{name}_bias": fill(rng, "ordinary", (size,)) for name, size in sizes.items()}
        arrays["output_bias"] = fill(rng, "ordinary", (width,))
    options = {"heads": heads, "kv_heads": shared, "allowed": draw_mask(rng, time, time)}
    return Case(regime=regime, arrays=arrays, options=options)


def feed_forward_case(rng: Generator, regime: str) -> Case:
    rows, width, hidden = length(rng, 16), length(rng, 64), length(rng, 64)
    names = ["up", "gate"] if rng.random() < 0.5 else ["up"]
    arrays = {"x": fill(rng, regime, (1, rows, width))}
    for name in names:
        arrays[f"{name}_weight"] = fill(rng, "ordinary", (hidden, width), "right") / np.sqrt(width)
    arrays["down_weight"] = fill(rng, "ordinary", (width, hidden)) / np.sqrt(hidden)
    if rng.random() < 0.5:
        arrays |= {f"{name}_bias": fill(rng, "ordinary", (hidden,)) for name in names}
        arrays["down_bias"] = fill(rng, "ordinary", (width,))
    activation = str(rng.choice(["relu", "gelu", "gelu_tanh", "silu"]))
    return Case(regime=regime, arrays=arrays, options={"activation": activation})


def layer_norm_case(rng: Generator, regime: str) -> Case:
    """Rows down to where epsilon outweighs their variance, some of them far from zero."""
    width = length(rng, 128, 512)
    x = fill(rng, regime, (1, length(rng, 8), width))
    if rng.random() < 0.3:
        x = x * 2.0 ** -int(rng.integers(1, 14))
    if rng.random() < 0.2:
        x = x + 2.0 ** int(rng.integers(0, 12))
    arrays = {"x": x, "weight": fill(rng, "ordinary", (width,))}
    if rng.random() < 0.5:
        arrays["bias"] = fill(rng, "ordinary", (width,))
    return Case(regime=regime, arrays=arrays, options={"eps": 2.0 ** -int(rng.integers(6, 25))})


def rms_norm_case(rng: Generator, regime: str) -> Case:
    case = layer_norm_case(rng, regime)
    return Case(regime=regime, arrays={n: a for n, a in case.arrays.items() if n != "bias"}, options=case.options)


SCALINGS = (
    None,
    Scaling(kind="linear", factor=3.0),
    Scaling(kind="ntk", factor=4.0),
    Scaling(kind="dynamic-ntk", factor=4.0, original=100),
    Scaling(kind="yarn", factor=4.0, original=128, high=32.0),
    Scaling(kind="yarn", factor=16.0, original=4096, high=32.0, attention_factor=0.75),
    Scaling(kind="llama3", factor=8.0, original=64),
)


def positions(rng: Generator, time: int) -> Any:
    """Whole numbers up to 2^17, of uniform logarithm, with the first among them."""
    return np.concatenate([[0], 2.0 ** rng.uniform(0, 17, time)]).astype(np.int64)


def rope_case(rng: Generator, regime: str) -> Case:
    pairs, time = length(rng, 32, 64), length(rng, 12)
    width = 2 * int(rng.integers(1, pairs + 1)) if rng.random() < 0.3 else 0
    own = Rotary(
        base=float(rng.choice([100.0, 10000.0, 500000.0, 1e6])),
        width=width,
        layout="half" if rng.random() < 0.5 else "interleaved",
        scaling=SCALINGS[int(rng.integers(len(SCALINGS)))] if rng.random() < 0.6 else None,
    )
    x = fill(rng, regime, (1, int(rng.integers(1, 3)), time + 1, 2 * pairs))
    return Case(regime=regime, arrays={"x": x}, options={"positions": positions(rng, time), "rotary": own})


def sinusoidal_case(rng: Generator, regime: str) -> Case:
    arrangement = "interleaved" if rng.random() < 0.5 else "concatenated"
    options = {"positions": positions(rng, length(rng, 12)), "width": 2 * length(rng, 128), "arrangement": arrangement}
    return Case(regime=regime, arrays={}, options=options)


def slopes_case(rng: Generator, regime: str) -> Case:
    return Case(regime=regime, arrays={}, options={"heads": length(rng, 160)})
