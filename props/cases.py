"""Cases: Hypothesis draws the structure, NumPy fills in numbers that are exact in the dtype under test.

A case is a small frozen record that prints as one line and is read back from it, so that every failure replays.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from gnomon.spec.bounds import round_to
from gnomon.spec.configuration import CONFIGURATIONS, Configuration, Rotary, Scaling
from gnomon.spec.descent import CURVES, METHODS
from gnomon.spec.evaluators import Floats, Mask
from gnomon.spec.families import FAMILIES
from gnomon.spec.formats import LAYOUTS as BIT_LAYOUTS
from gnomon.spec.leakage import EQUALITIES, STEPS
from gnomon.spec.linear import ACTIVATIONS
from gnomon.spec.precision import Format

Rng = np.random.Generator
Ids = npt.NDArray[np.int64]
Strategy = st.SearchStrategy[Any]

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 13)
WIDTHS = (1, 2, 3, 4, 5, 8, 16, 64)
# Pairs of query and key-value heads: alone, equal, one shared, and between, also where h_kv is unlike h/h_kv.
HEADS = ((1, 1), (2, 2), (2, 1), (3, 3), (4, 2), (3, 1), (6, 2), (6, 3), (8, 2))
MASKS = ("none", "causal", "boolean", "additive", "bias")
SQUARE_HEADS = tuple((n, n) for n in (1, 2, 3, 4))
SEEDS = st.integers(0, 2**32 - 1)


class MalformedCase(ValueError):
    """The text names no case; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The structure of one case; `seed` and `regime` say what its numbers are."""

    regime: str = "ordinary"
    seed: int = 0

    def __str__(self) -> str:
        kind = type(self).__name__.removesuffix("Case").lower()
        told = (f for f in fields(self) if getattr(self, f.name) != f.default)
        return ",".join([kind, *(f"{f.name}={getattr(self, f.name)}" for f in told)])

    @classmethod
    def read(cls, parts: list[str]) -> Self:
        """The case of this kind with the given fields."""
        known = {f.name: f.type for f in fields(cls)}
        pairs = [part.partition("=") for part in parts]
        for name, _, _ in pairs:
            if name not in known:
                raise MalformedCase(f"{cls.__name__} has no field {name!r}; it has {', '.join(known)}")
        try:
            return cls(**{name: _field(name, getattr(cls(), name), value) for name, _, value in pairs})
        except (ValueError, KeyError) as error:
            raise MalformedCase(f"cannot read {','.join(parts)!r}: {error}") from error

    def plain(self) -> Self:
        """The case without what many implementations decline, to be asked where it was declined."""
        return self

    @property
    def rng(self) -> Rng:
        """The source of its numbers, the same at every use."""
        return np.random.default_rng(self.seed)


def _field(name: str, default: Any, text: str) -> Any:
    if isinstance(default, bool):
        return {"True": True, "False": False}[text]
    if isinstance(default, str):
        words = {
            "regime": REGIMES,
            "masked": MASKS,
            "activation": ACTIVATIONS,
            "name": ("", *CONFIGURATIONS),
            "family": FAMILIES,
            "format": tuple(BIT_LAYOUTS),
            "layout": LAYOUTS,
            "scaling": ("", *SCALINGS),
            "method": METHODS,
            "curve": CURVES,
            "equality": tuple(EQUALITIES),
            "step": STEPS,
        }
        known: tuple[str, ...] = tuple(words[name])
        if text not in known:
            raise ValueError(f"{name} is one of {', '.join(known)}")
        return text
    least = 0 if name in ("seed", "window", "widened", "spoilt") else 1
    if int(text) < least:
        raise ValueError(f"{name} is at least {least}")
    return int(text)


# Regimes: how the numbers of an array of that shape are drawn.


def _ordinary(rng: Rng, shape: tuple[int, ...]) -> Floats:
    return rng.standard_normal(shape)


def _tiny(rng: Rng, shape: tuple[int, ...]) -> Floats:
    return rng.standard_normal(shape) * 2.0**-10


def _sharp(rng: Rng, shape: tuple[int, ...]) -> Floats:
    return rng.standard_normal(shape) * 3


def _huge(rng: Rng, shape: tuple[int, ...]) -> Floats:
    return rng.standard_normal(shape) * 64


def _near_ties(rng: Rng, shape: tuple[int, ...]) -> Floats:
    return 1 + rng.standard_normal(shape) * 2.0**-6


def _large_mean(rng: Rng, shape: tuple[int, ...]) -> Floats:
    return 30 + rng.standard_normal(shape)


def _constant(rng: Rng, shape: tuple[int, ...]) -> Floats:
    return np.full(shape, rng.standard_normal())


def _heavy_tails(rng: Rng, shape: tuple[int, ...]) -> Floats:
    return np.clip(rng.standard_t(2, shape), -50, 50)


def _powers_of_two(rng: Rng, shape: tuple[int, ...]) -> Floats:
    return np.asarray(np.ldexp(rng.choice([-1.0, 1.0], shape), rng.integers(-4, 3, shape)))


def _cancelling(rng: Rng, shape: tuple[int, ...]) -> Floats:
    x = rng.standard_normal(shape)
    x[..., 1::2] = -x[..., : x.shape[-1] - x.shape[-1] % 2 : 2] * (1 + 2.0**-7)
    return x


REGIMES: Mapping[str, Callable[[Rng, tuple[int, ...]], Floats]] = MappingProxyType(
    {
        "ordinary": _ordinary,
        "tiny": _tiny,
        "sharp": _sharp,
        "huge": _huge,
        "near-ties": _near_ties,
        "large-mean": _large_mean,
        "constant": _constant,
        "heavy-tails": _heavy_tails,
        "powers-of-two": _powers_of_two,
        "cancelling": _cancelling,
    }
)


def filled(case: Case, rng: Rng, form: Format, *shape: int) -> Floats:
    """An array of the case's regime, exact in the format."""
    return round_to(REGIMES[case.regime](rng, shape), form)


def _drawn(
    kind: Callable[..., Case], given: dict[str, Any], pairs: Sequence[tuple[int, int]] | None = None, **fields: Strategy
) -> Strategy:
    """Cases of a kind: regime, seed and the fields as they are drawn, unless a value or a strategy is given for one."""
    usual = {"regime": st.sampled_from(tuple(REGIMES)), "seed": SEEDS, **fields}
    drawn = usual | {n: v if isinstance(v, st.SearchStrategy) else st.just(v) for n, v in given.items()}
    if pairs is None:
        return st.builds(kind, **drawn)
    shared = st.sampled_from(tuple(pairs))
    return st.builds(lambda pair, **rest: kind(heads=pair[0], kv_heads=pair[1], **rest), shared, **drawn)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCase(Case):
    """Attention: its lengths, widths and heads, and how a mask is given."""

    batch: int = 1
    heads: int = 1
    kv_heads: int = 1
    queries: int = 1
    keys: int = 1
    width: int = 1
    value_width: int = 1
    masked: str = "none"  # one of MASKS
    window: int = 0

    def arrays(self, form: Format) -> tuple[Floats, Floats, Floats]:
        """Query, key and value."""
        rng = self.rng
        return (
            filled(self, rng, form, self.batch, self.heads, self.queries, self.width),
            filled(self, rng, form, self.batch, self.kv_heads, self.keys, self.width),
            filled(self, rng, form, self.batch, self.kv_heads, self.keys, self.value_width),
        )

    def plain(self) -> Self:
        """The case with a key-value head for every query head and one width for all."""
        return replace(self, kv_heads=self.heads, width=self.keys, value_width=self.keys)

    def permitted(self, *leading: int) -> Mask:
        """A random boolean mask `[*leading, queries, keys]` that leaves each query at least one key."""
        rng = np.random.default_rng((self.seed, 1))
        mask = rng.random((*leading, self.queries, self.keys)) < 0.6
        kept = rng.integers(0, self.keys, (*leading, self.queries, 1))
        return np.asarray(mask | (np.arange(self.keys) == kept))

    def options(self, form: Format) -> dict[str, Any]:
        """The keywords that say its mask and window."""
        window = {"window": self.window} if self.window else {}
        if self.masked == "none":
            return window
        if self.masked == "causal":
            return {"causal": True, **window}
        permitted = self.permitted(self.batch, 1)
        if self.masked == "boolean":
            return {"mask": permitted, **window}
        bias = self.rng.standard_normal(permitted.shape) if self.masked == "bias" else np.zeros(permitted.shape)
        return {"mask": np.where(permitted, round_to(bias, form), -np.inf), **window}


def attention_cases(*, head_pairs: Sequence[tuple[int, int]] = HEADS, **given: Any) -> Strategy:
    """Attention cases; a keyword fixes a field, by a value or a strategy."""
    return _drawn(
        AttentionCase,
        given,
        head_pairs,
        batch=st.sampled_from((1, 2, 3)),
        queries=st.sampled_from(LENGTHS),
        keys=st.sampled_from(LENGTHS),
        width=st.sampled_from(WIDTHS),
        value_width=st.sampled_from(WIDTHS[:6]),
    )


def square(case: AttentionCase) -> AttentionCase:
    """The case with as many keys as queries."""
    return replace(case, keys=case.queries)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearCase(Case):
    """A linear layer or a stack of them."""

    batch: int = 1
    time: int = 1
    inner: int = 1
    outer: int = 1
    depth: int = 2
    biased: bool = False

    def layer(self, form: Format, index: int = 0) -> tuple[Floats, Floats | None]:
        """Weight and bias of one layer; those past the first are square in the outer width."""
        rng = np.random.default_rng((self.seed, 2 + index))
        width = self.inner if index == 0 else self.outer
        weight = round_to(rng.standard_normal((self.outer, width)) / np.sqrt(width), form)
        return weight, filled(self, rng, form, self.outer) if self.biased else None

    def input(self, form: Format) -> Floats:
        """`[batch, time, inner]`."""
        return filled(self, self.rng, form, self.batch, self.time, self.inner)


def linear_cases(**given: Any) -> Strategy:
    """Linear cases; a keyword fixes a field, by a value or a strategy."""
    return _drawn(
        LinearCase,
        given,
        batch=st.sampled_from((1, 2, 3)),
        time=st.sampled_from(LENGTHS),
        inner=st.sampled_from(WIDTHS),
        outer=st.sampled_from(WIDTHS),
        depth=st.integers(2, 4),
        biased=st.booleans(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedForwardCase(Case):
    """An activation, alone or in a feed-forward network."""

    batch: int = 1
    time: int = 1
    width: int = 1
    hidden: int = 1
    activation: str = "relu"
    gated: bool = False
    biased: bool = False

    def parameters(self, form: Format) -> dict[str, Floats]:
        """Its weights and biases by name."""
        rng = np.random.default_rng((self.seed, 3))
        shapes = {"up": (self.hidden, self.width), "down": (self.width, self.hidden)}
        shapes |= {"gate": (self.hidden, self.width)} if self.gated else {}
        return _parameters(rng, form, shapes, self.biased)

    def input(self, form: Format) -> Floats:
        """`[batch, time, width]`."""
        return filled(self, self.rng, form, self.batch, self.time, self.width)


def feed_forward_cases(**given: Any) -> Strategy:
    """Feed-forward cases; a keyword fixes a field, by a value or a strategy."""
    return _drawn(
        FeedForwardCase,
        given,
        batch=st.sampled_from((1, 2)),
        time=st.sampled_from(LENGTHS[:5]),
        width=st.sampled_from(WIDTHS[:6]),
        hidden=st.sampled_from(WIDTHS[:7]),
        activation=st.sampled_from(ACTIVATIONS),
        gated=st.booleans(),
        biased=st.booleans(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiHeadCase(Case):
    """Multi-head attention with its parameters."""

    batch: int = 1
    time: int = 1
    heads: int = 1
    kv_heads: int = 1
    head_width: int = 1
    biased: bool = False
    causal: bool = False

    @property
    def width(self) -> int:
        """The model width, which the heads divide."""
        return self.heads * self.head_width

    def options(self) -> dict[str, Any]:
        """The keywords that say its heads and its mask."""
        shared = {} if self.kv_heads == self.heads else {"kv_heads": self.kv_heads}
        return {"heads": self.heads, **shared, **({"causal": True} if self.causal else {})}

    def parameters(self, form: Format) -> dict[str, Floats]:
        """Its weights and biases by name."""
        shared = self.kv_heads * self.head_width
        shapes = {"query": self.width, "key": shared, "value": shared, "output": self.width}
        rng = np.random.default_rng((self.seed, 4))
        return _parameters(rng, form, {n: (rows, self.width) for n, rows in shapes.items()}, self.biased)

    def input(self, form: Format) -> Floats:
        """`[batch, time, width]`."""
        return filled(self, self.rng, form, self.batch, self.time, self.width)


def multi_head_cases(*, head_pairs: Sequence[tuple[int, int]] = SQUARE_HEADS, **given: Any) -> Strategy:
    """Multi-head cases; a keyword fixes a field, by a value or a strategy."""
    return _drawn(
        MultiHeadCase,
        {"regime": st.sampled_from(("ordinary", "near-ties", "heavy-tails", "powers-of-two")), **given},
        head_pairs,
        batch=st.sampled_from((1, 2, 3)),
        time=st.sampled_from(LENGTHS[:6]),
        head_width=st.sampled_from((1, 2, 3, 4, 8)),
        biased=st.booleans(),
        causal=st.booleans(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NormCase(Case):
    """A norm with its gain, a shift where it is biased, and ε = 2^−epsilon, which every format holds."""

    batch: int = 1
    time: int = 1
    width: int = 1
    epsilon: int = 10
    biased: bool = False

    @property
    def eps(self) -> float:
        """What is added under the root."""
        return 2.0**-self.epsilon

    @property
    def stretch(self) -> float:
        """What the numbers of the regime are multiplied by, so that some squares leave the range of float16."""
        return (1.0, 2.0**7, 2.0**-7)[self.seed % 3]

    def arrays(self, form: Format) -> tuple[Floats, ...]:
        """Input `[batch, time, width]`, gain and, if there is one, shift."""
        gains = np.random.default_rng((self.seed, 6)).standard_normal((2 if self.biased else 1, self.width))
        x = filled(self, self.rng, form, self.batch, self.time, self.width) * self.stretch
        return (round_to(x, form), *round_to(gains, form))


def norm_cases(**given: Any) -> Strategy:
    """Norm cases; a keyword fixes a field, by a value or a strategy."""
    return _drawn(
        NormCase,
        given,
        batch=st.sampled_from((1, 2, 3)),
        time=st.sampled_from(LENGTHS[:6]),
        width=st.sampled_from(WIDTHS),
        epsilon=st.sampled_from((6, 10, 16, 20)),
        biased=st.booleans(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingCase(Case):
    """A table and ids that name rows of it."""

    batch: int = 1
    time: int = 1
    vocabulary: int = 1
    width: int = 1

    def table(self, form: Format) -> Floats:
        """`[vocabulary, width]`."""
        return filled(self, self.rng, form, self.vocabulary, self.width)

    @property
    def ids(self) -> Ids:
        """`[batch, time]`, the last id of the vocabulary among them and, beside another, the first."""
        drawn = np.random.default_rng((self.seed, 7)).integers(0, self.vocabulary, (self.batch, self.time))
        drawn.flat[0], drawn.flat[-1] = 0, self.vocabulary - 1
        return drawn


def embedding_cases(**given: Any) -> Strategy:
    """Embedding cases; a keyword fixes a field, by a value or a strategy."""
    return _drawn(
        EmbeddingCase,
        given,
        batch=st.sampled_from((1, 2, 3)),
        time=st.sampled_from(LENGTHS),
        vocabulary=st.sampled_from((1, 2, 3, 7, 16, 61)),
        width=st.sampled_from(WIDTHS),
    )


# Scalings of rotary angles, each with frequencies on both sides of its band and none within rounding of an edge.
SCALINGS: Mapping[str, Scaling] = MappingProxyType(
    {
        "linear": Scaling(kind="linear", factor=4.0),
        "linear-3": Scaling(kind="linear", factor=3.0),
        "ntk": Scaling(kind="ntk", factor=4.0),
        "dynamic-ntk": Scaling(kind="dynamic-ntk", factor=3.0, original=64),
        "yarn": Scaling(kind="yarn", factor=4.0, original=128, low=1.0, high=32.0),
        "yarn-long": Scaling(kind="yarn", factor=16.0, original=4096, low=1.0, high=32.0, attention_factor=0.75),
        "llama3": Scaling(kind="llama3", factor=8.0, original=64, low=1.0, high=4.0),
    }
)
LAYOUTS = ("", "half", "interleaved")  # the first: the declared one
REACHES = (7, 1, 64, 300, 3000, 20000, 2**17)  # beyond what 16 bits tell apart, in one format and in the other


@dataclass(frozen=True, slots=True, kw_only=True)
class RotaryCase(Case):
    """Heads at positions up to `reach`, of whose features one in `share` is turned."""

    batch: int = 1
    heads: int = 1
    time: int = 1
    head_width: int = 2
    share: int = 1
    layout: str = ""  # one of LAYOUTS
    base: int = 10000
    scaling: str = ""  # one of SCALINGS, or none
    reach: int = 1
    by_row: bool = False

    @property
    def width(self) -> int:
        """How many features are turned."""
        return max(2, self.head_width // self.share // 2 * 2)

    def arrays(self, form: Format) -> tuple[Floats, Floats]:
        """A query and a key, `[batch, heads, time, head_width]`."""
        rng, shape = self.rng, (self.batch, self.heads, self.time, self.head_width)
        return filled(self, rng, form, *shape), filled(self, rng, form, *shape)

    @property
    def positions(self) -> Ids:
        """`[time]`, or `[batch, time]` by row, in any order; the last is the farthest."""
        shape = (self.batch, self.time) if self.by_row else (self.time,)
        drawn = np.random.default_rng((self.seed, 8)).integers(0, self.reach + 1, shape)
        drawn[..., -1] = self.reach
        return drawn

    def rotary(self, layout: str) -> Rotary:
        """The rotation, in the layout that is meant where the case asks for none."""
        own: Any = self.layout or layout
        return Rotary(base=float(self.base), width=self.width, layout=own, scaling=SCALINGS.get(self.scaling))

    def options(self) -> dict[str, Any]:
        """The keywords that say its rotation, where that is not the usual one."""
        said = {
            "base": None if self.base == 10000 else float(self.base),
            "rotary_width": None if self.width == self.head_width else self.width,
            "layout": self.layout or None,
            "scaling": SCALINGS.get(self.scaling),
        }
        return {name: value for name, value in said.items() if value is not None}

    def plain(self) -> Self:
        """The case with the usual rotation, of one row of positions."""
        return replace(self, share=1, layout="", base=10000, scaling="", by_row=False)


def rotary_cases(**given: Any) -> Strategy:
    """Rotary cases; a keyword fixes a field, by a value or a strategy."""
    return _drawn(
        RotaryCase,
        given,
        batch=st.sampled_from((1, 2, 3)),
        heads=st.sampled_from((1, 2, 3)),
        time=st.sampled_from(LENGTHS),
        head_width=st.sampled_from((8, 2, 4, 6, 16, 64)),
        share=st.sampled_from((1, 2)),
        layout=st.sampled_from(LAYOUTS),
        base=st.sampled_from((10000, 100, 500000)),
        reach=st.sampled_from(REACHES),
        by_row=st.booleans(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderCase(Case):
    """Positions alone, up to `reach`, for vectors of a width; and a number of heads."""

    heads: int = 1
    time: int = 1
    width: int = 2
    reach: int = 1

    @property
    def positions(self) -> Ids:
        """`[time]`, in any order; the last is the farthest."""
        drawn = np.random.default_rng((self.seed, 8)).integers(0, self.reach + 1, self.time)
        drawn[-1] = self.reach
        return drawn


def order_cases(**given: Any) -> Strategy:
    """Order cases; a keyword fixes a field, by a value or a strategy."""
    return _drawn(
        OrderCase,
        {"regime": "ordinary", **given},
        heads=st.sampled_from((3, 1, 2, 4, 5, 6, 7, 8, 12, 16, 20, 32, 40, 71, 112)),
        time=st.sampled_from(LENGTHS),
        width=st.sampled_from((8, 2, 4, 6, 16, 64, 512)),
        reach=st.sampled_from(REACHES),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CountCase(Case):
    """A configuration to count: a named model, or one of its own shape; and a length, a batch and bytes a number."""

    name: str = ""
    layers: int = 1
    heads: int = 1
    kv_heads: int = 1
    head_width: int = 1
    gated: bool = False
    layer_norm: bool = False
    biased: bool = False
    tied: bool = False
    length: int = 1
    batch: int = 1
    item: int = 2

    @property
    def configuration(self) -> Configuration:
        """The named model, or a small one whose width its heads need not fill."""
        if self.name:
            return CONFIGURATIONS[self.name]
        width = 3 + self.heads * self.head_width
        return Configuration(
            vocabulary=11 * width, width=width, layers=self.layers, heads=self.heads, kv_heads=self.kv_heads,
            head_width=self.head_width, feed_forward=4 * width, gated=self.gated, tied=self.tied,
            norm="layer" if self.layer_norm else "rms", positions=7 * self.layer_norm, qkv_bias=self.biased,
            output_bias=self.biased, feed_forward_bias=self.biased,
        )  # fmt: skip


def count_cases(**given: Any) -> Strategy:
    """Configurations of every kind; a keyword fixes a field, by a value or a strategy."""
    return _drawn(
        CountCase,
        given,
        HEADS,
        layers=st.integers(1, 6),
        head_width=st.sampled_from(WIDTHS),
        gated=st.booleans(),
        layer_norm=st.booleans(),
        biased=st.booleans(),
        tied=st.booleans(),
        length=st.integers(1, 4096),
        batch=st.integers(1, 8),
        item=st.sampled_from((1, 2, 4, 8)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachCase(Case):
    """A layer that mixes positions, or a stack of them; the n-th convolution has the dilation to the n."""

    batch: int = 1
    time: int = 1
    width: int = 1
    outer: int = 1
    kernel: int = 1
    dilation: int = 1
    depth: int = 1
    window: int = 1
    causal: bool = False
    biased: bool = False

    @property
    def dilations(self) -> tuple[int, ...]:
        """The dilation of each convolution of the stack."""
        return tuple(self.dilation**n for n in range(self.depth))

    def layer(self, form: Format, index: int = 0) -> tuple[Floats, Floats | None]:
        """Weight `[outer, in, kernel]` and bias of one convolution; those past the first are square in `outer`."""
        rng, inner = np.random.default_rng((self.seed, 11 + index)), self.width if index == 0 else self.outer
        weight = round_to(rng.standard_normal((self.outer, inner, self.kernel)) / np.sqrt(inner * self.kernel), form)
        return weight, filled(self, rng, form, self.outer) if self.biased else None

    def input(self, form: Format) -> Floats:
        """`[batch, time, width]`."""
        return filled(self, self.rng, form, self.batch, self.time, self.width)


def reach_cases(**given: Any) -> Strategy:
    """Layers that mix positions; a keyword fixes a field. A kernel is odd unless it is causal."""
    drawn = _drawn(
        ReachCase,
        given,
        batch=st.sampled_from((1, 2)),
        time=st.sampled_from((*LENGTHS, 21)),
        width=st.sampled_from(WIDTHS[:5]),
        outer=st.sampled_from(WIDTHS[:5]),
        kernel=st.integers(1, 5),
        dilation=st.integers(1, 3),
        depth=st.integers(1, 3),
        causal=st.booleans(),
        biased=st.booleans(),
    )
    return drawn.map(lambda c: c if c.causal else replace(c, kernel=c.kernel - 1 + c.kernel % 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationCase(Case):
    """Documents to be scored: how many, how long at most, over how many words."""

    batch: int = 1
    time: int = 1
    vocabulary: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentCase(Case):
    """An experiment, of which nothing is drawn but the seed."""


EXPERIMENTS = st.builds(ExperimentCase, seed=SEEDS)

KINDS: tuple[type[Case], ...] = (
    ExperimentCase,
    EvaluationCase,
    AttentionCase,
    LinearCase,
    FeedForwardCase,
    MultiHeadCase,
    CountCase,
    NormCase,
    EmbeddingCase,
    RotaryCase,
    OrderCase,
    ReachCase,
)


def kinds() -> dict[str, type[Case]]:
    """Every kind of case, by the word that it prints first."""
    from gnomon.props.format_cases import FORMAT_KINDS
    from gnomon.props.leakage_cases import TABLE_KINDS
    from gnomon.props.loss_cases import LossCase
    from gnomon.props.model_cases import FixedCase, ModelCase
    from gnomon.props.stepping_cases import TRAINING_KINDS
    from gnomon.props.tokenising import BytePairCase, TextCase

    more = (*TRAINING_KINDS, *FORMAT_KINDS, *TABLE_KINDS, LossCase, ModelCase, FixedCase, TextCase, BytePairCase)
    return {c.__name__.removesuffix("Case").lower(): c for c in (*KINDS, *more)}


def read_case(text: str) -> Case:
    """The case that prints as `text`: its kind, then its fields."""
    known = kinds()
    kind, *parts = text.split(",")
    if kind not in known:
        raise MalformedCase(f"a case begins with one of {', '.join(known)}, not with {kind!r}")
    return known[kind].read(parts)


def _parameters(rng: Rng, form: Format, shapes: Mapping[str, tuple[int, int]], biased: bool) -> dict[str, Floats]:
    """Weights of order one over the root of their inputs, biases off zero."""
    weights = {
        f"{n}_weight": round_to(rng.standard_normal(shape) / np.sqrt(shape[1]), form) for n, shape in shapes.items()
    }
    biases = {f"{n}_bias": round_to(rng.standard_normal(shape[0]), form) for n, shape in shapes.items()}
    return weights | biases if biased else weights
