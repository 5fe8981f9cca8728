"""The shape of a model: one record that spans the families, and the models that have a name."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

Norm = Literal["rms", "layer"]
# Where the norms of a block stand: before each sublayer; on the sum after it; before and after; on its result alone.
Placement = Literal["pre", "post", "sandwich", "after"]
PositionKind = Literal["rotary", "learned", "sinusoidal", "alibi", "none"]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
Layout = Literal["half", "interleaved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """How rotary angles are stretched for contexts longer than the `original` one.

    kind: linear divides every angle by `factor`; ntk raises the base; dynamic-ntk raises it with the length of the
    sequence, from the original one on; yarn and llama3 divide the low frequencies only.
    low, high: wavelengths longer than original/low are divided, shorter than original/high kept (llama3); turns in
    the original context below which a frequency is divided and above which it is kept (yarn).
    attention_factor: what yarn multiplies cosine and sine by; None means 0.1·ln(factor) + 1.
    """

    kind: Literal["linear", "ntk", "dynamic-ntk", "yarn", "llama3"]
    factor: float
    original: int = 32
    low: float = 1.0
    high: float = 4.0
    attention_factor: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotary:
    """The rotation of queries and keys: pair i of `width` features (0: all of a head) turns by base^(−2i/width)."""

    base: float = 10000.0
    width: int = 0
    layout: Layout = "half"
    scaling: Scaling | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What fixes a model up to its parameters; the defaults are those of a Llama.

    vocabulary: how many tokens there are. padding_rows: rows of the token table, and of an unembedding, that follow
    theirs and stand for no token. kv_heads: heads of keys and values. head_width need not be width/heads.
    gated: a third matrix in the feed-forward network. norms: how many a block has; placement: where they stand.
    parallel: attention and network read the same stream, through one norm each or one for both. norm_offset: gains
    are 1 + weight. norm_shift: LayerNorm has a shift. query_key_norm: an RMS norm of each head's query and key, or of
    all heads at once. positions and segments: rows of learned tables, 0 for none; position_offset: the row of
    position 0. window: keys that a query sees, itself included, 0 for all, in every window_every-th layer from the
    first. score_cap, logit_cap: c in c·tanh(x/c), 0 for none. score_divisor: scores are divided by its root, 0 means
    the head width. embedding_scaled: token vectors are multiplied by √width. tied: the unembedding is the token
    table. output: whether the model ends in logits or in its last stream. pooler: a square layer on the first token,
    which is counted and not run. decoder_layers: blocks of a decoder, causal, that attend to their own stream and then
    to what the `layers` make of another sequence; they, too, are counted and not run.
    """

    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    feed_forward: int
    causal: bool = True
    gated: bool = True
    activation: Activation = "silu"
    norm: Norm = "rms"
    norms: int = 2
    placement: Placement = "pre"
    parallel: bool = False
    epsilon: float = 2.0**-17
    norm_offset: bool = False
    norm_shift: bool = True
    final_norm: bool = True
    embedding_norm: bool = False
    query_key_norm: Literal["", "head", "width"] = ""
    position_kind: PositionKind = "rotary"
    rotary: Rotary = Rotary()
    positions: int = 0
    position_offset: int = 0
    segments: int = 0
    window: int = 0
    window_every: int = 1
    score_cap: float = 0.0
    logit_cap: float = 0.0
    score_divisor: float = 0.0
    embedding_scaled: bool = False
    logit_scale: float = 1.0
    qkv_bias: bool = False
    output_bias: bool = False
    feed_forward_bias: bool = False
    unembedding_bias: bool = False
    tied: bool = False
    output: Literal["logits", "stream"] = "logits"
    pooler: bool = False
    decoder_layers: int = 0
    padding_rows: int = 0

    def __post_init__(self) -> None:
        if (self.norms == 4) != (self.placement == "sandwich"):
            raise ValueError("a block has four norms where they stand before and after its sublayers, and only there")

    @property
    def rows(self) -> int:
        """Rows of the token table, and of an unembedding."""
        return self.vocabulary + self.padding_rows

    @property
    def rotated(self) -> int:
        """How many features of a head are rotated."""
        return 0 if self.position_kind != "rotary" else self.rotary.width or self.head_width

    def window_of(self, layer: int) -> int:
        """The window of a layer, 0 for none."""
        return self.window if layer % self.window_every == 0 else 0


_BIASES: dict[str, Any] = {"qkv_bias": True, "output_bias": True, "feed_forward_bias": True}


def _like_llama(
    vocabulary: int, width: int, layers: int, heads: tuple[int, int], feed_forward: int, *, base: float = 1e4,
    epsilon: float = 1e-5, head_width: int = 0, layout: Layout = "half", **more: Any,
) -> Configuration:  # fmt: skip
    """Gated, normed by the root mean square, rotary; heads of queries and of keys."""
    own, shared = heads
    return Configuration(
        vocabulary=vocabulary, width=width, layers=layers, heads=own, kv_heads=shared,
        head_width=head_width or width // own, feed_forward=feed_forward, epsilon=epsilon,
        rotary=Rotary(base=base, layout=layout), **more,
    )  # fmt: skip


def _gemma(width: int, layers: int, heads: tuple[int, int], feed_forward: int, **more: Any) -> Configuration:
    return _like_llama(
        256000, width, layers, heads, feed_forward, epsilon=1e-6, head_width=256, activation="gelu_tanh",
        norm_offset=True, embedding_scaled=True, tied=True, **more,
    )  # fmt: skip


def _gemma_2(width: int, layers: int, heads: tuple[int, int], feed_forward: int) -> Configuration:
    return _gemma(
        width, layers, heads, feed_forward, placement="sandwich", norms=4, window=4096, window_every=2,
        score_cap=50.0, logit_cap=30.0, score_divisor=256.0,
    )  # fmt: skip


def _plain(
    vocabulary: int, width: int, layers: int, heads: int, *, kv_heads: int = 0, epsilon: float = 1e-5, **more: Any
) -> Configuration:
    """Two matrices, LayerNorm, and four times the width inside."""
    return Configuration(
        vocabulary=vocabulary, width=width, layers=layers, heads=heads, kv_heads=kv_heads or heads,
        head_width=width // heads, feed_forward=4 * width, gated=False, norm="layer", epsilon=epsilon, **more,
    )  # fmt: skip


def _gpt2(width: int, layers: int, heads: int) -> Configuration:
    return _plain(
        50257, width, layers, heads, activation="gelu_tanh", position_kind="learned", positions=1024, tied=True,
        **_BIASES,
    )  # fmt: skip


def _neox(
    width: int, layers: int, heads: int, *, vocabulary: int = 50304, activation: Activation = "gelu"
) -> Configuration:
    return _plain(
        vocabulary, width, layers, heads, activation=activation, parallel=True,
        rotary=Rotary(width=width // heads // 4), **_BIASES,
    )  # fmt: skip


# As the models were released: sizes, and all else that a forward pass depends on.
CONFIGURATIONS: Mapping[str, Configuration] = MappingProxyType(
    {
        "gpt2": _gpt2(768, 12, 12),
        "gpt2-medium": _gpt2(1024, 24, 16),
        "gpt2-large": _gpt2(1280, 36, 20),
        "gpt2-xl": _gpt2(1600, 48, 25),
        "llama-2-7b": _like_llama(32000, 4096, 32, (32, 32), 11008),
        "llama-2-13b": _like_llama(32000, 5120, 40, (40, 40), 13824),
        "llama-2-70b": _like_llama(32000, 8192, 80, (64, 8), 28672),
        "llama-3-8b": _like_llama(128256, 4096, 32, (32, 8), 14336, base=5e5),
        "llama-3-70b": _like_llama(128256, 8192, 80, (64, 8), 28672, base=5e5),
        "mistral-7b": _like_llama(32000, 4096, 32, (32, 8), 14336, window=4096),
        "qwen2-7b": _like_llama(152064, 3584, 28, (28, 4), 18944, base=1e6, epsilon=1e-6, qkv_bias=True),
        "qwen2-0.5b": _like_llama(151936, 896, 24, (14, 2), 4864, base=1e6, epsilon=1e-6, qkv_bias=True, tied=True),
        "qwen3-0.6b": _like_llama(
            151936, 1024, 28, (16, 8), 3072, base=1e6, epsilon=1e-6, head_width=128, query_key_norm="head", tied=True
        ),
        "qwen3-8b": _like_llama(151936, 4096, 36, (32, 8), 12288, base=1e6, epsilon=1e-6, query_key_norm="head"),
        "gemma-2b": _gemma(2048, 18, (8, 1), 16384),
        "gemma-7b": _gemma(3072, 28, (16, 16), 24576),
        "gemma-2-2b": _gemma_2(2304, 26, (8, 4), 9216),
        "gemma-2-9b": _gemma_2(3584, 42, (16, 8), 14336),
        "phi-2": _plain(
            51200, 2560, 32, 32, activation="gelu_tanh", norms=1, parallel=True, rotary=Rotary(width=32),
            unembedding_bias=True, **_BIASES,
        ),
        "phi-3-mini": _like_llama(32064, 3072, 32, (32, 32), 8192, window=2047),
        "olmo-2-7b": _like_llama(
            100352, 4096, 32, (32, 32), 11008, base=5e5, epsilon=1e-6, placement="after", query_key_norm="width"
        ),
        "command-r": _like_llama(
            256000, 8192, 40, (64, 64), 22528, base=8e6, layout="interleaved", norm="layer", norm_shift=False, norms=1,
            parallel=True, logit_scale=0.0625, tied=True,
        ),
        "falcon-7b": _plain(65024, 4544, 32, 71, kv_heads=1, activation="gelu", norms=1, parallel=True, tied=True),
        "pythia-70m": _neox(512, 6, 8),
        "pythia-160m": _neox(768, 12, 12),
        "pythia-410m": _neox(1024, 24, 16),
        "pythia-1b": _neox(2048, 16, 8),
        "gpt-neox-20b": _neox(6144, 44, 64, vocabulary=50432, activation="gelu_tanh"),
        "bert-base-uncased": _plain(
            30522, 768, 12, 12, epsilon=1e-12, activation="gelu", causal=False, position_kind="learned", positions=512,
            segments=2, placement="post", embedding_norm=True, final_norm=False, tied=True, output="stream",
            pooler=True, **_BIASES,
        ),
        # The base model of the paper, which says "about 37000" and no epsilon: that is its authors' code's.
        "2017": _plain(
            37000, 512, 6, 8, epsilon=1e-6, activation="relu", causal=False, position_kind="sinusoidal",
            placement="post", embedding_scaled=True, final_norm=False, tied=True, feed_forward_bias=True,
            decoder_layers=6,
        ),
    }
)  # fmt: skip
