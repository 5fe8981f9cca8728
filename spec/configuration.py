"""The shape of a model: one record that spans the families, and the models that have a name."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What fixes every parameter's shape; the defaults are those of a Llama block.

    vocabulary: rows of the token table. kv_heads: heads of keys and values. head_width need not be width/heads.
    gated: a third matrix in the feed-forward network. positions and segments: rows of learned tables, 0 for none.
    norms: how many a block has. tied: the unembedding is the token table. pooler: a square layer on the first token.
    """

    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    feed_forward: int
    gated: bool = True
    norm: Literal["rms", "layer"] = "rms"
    norms: int = 2
    final_norm: bool = True
    embedding_norm: bool = False
    positions: int = 0
    segments: int = 0
    qkv_bias: bool = False
    output_bias: bool = False
    feed_forward_bias: bool = False
    unembedding_bias: bool = False
    tied: bool = False
    pooler: bool = False


_LLAMA_2_7B = Configuration(
    vocabulary=32000, width=4096, layers=32, heads=32, kv_heads=32, head_width=128, feed_forward=11008
)
_LLAMA_3_8B = replace(_LLAMA_2_7B, vocabulary=128256, kv_heads=8, feed_forward=14336)
_BIASES = {"qkv_bias": True, "output_bias": True, "feed_forward_bias": True}


def _gpt2(width: int, layers: int, heads: int) -> Configuration:
    return Configuration(
        vocabulary=50257, width=width, layers=layers, heads=heads, kv_heads=heads, head_width=64,
        feed_forward=4 * width, gated=False, norm="layer", positions=1024, tied=True, **_BIASES,
    )  # fmt: skip


def _pythia(width: int, layers: int, heads: int) -> Configuration:
    return Configuration(
        vocabulary=50304, width=width, layers=layers, heads=heads, kv_heads=heads, head_width=width // heads,
        feed_forward=4 * width, gated=False, norm="layer", **_BIASES,
    )  # fmt: skip


CONFIGURATIONS: Mapping[str, Configuration] = MappingProxyType(
    {
        "gpt2": _gpt2(768, 12, 12),
        "gpt2-medium": _gpt2(1024, 24, 16),
        "gpt2-large": _gpt2(1280, 36, 20),
        "gpt2-xl": _gpt2(1600, 48, 25),
        "llama-2-7b": _LLAMA_2_7B,
        "llama-2-13b": replace(_LLAMA_2_7B, width=5120, layers=40, heads=40, kv_heads=40, feed_forward=13824),
        "llama-2-70b": replace(_LLAMA_2_7B, width=8192, layers=80, heads=64, kv_heads=8, feed_forward=28672),
        "llama-3-8b": _LLAMA_3_8B,
        "llama-3-70b": replace(_LLAMA_3_8B, width=8192, layers=80, heads=64, feed_forward=28672),
        "mistral-7b": replace(_LLAMA_3_8B, vocabulary=32000),
        "qwen2-7b": Configuration(
            vocabulary=152064, width=3584, layers=28, heads=28, kv_heads=4, head_width=128, feed_forward=18944,
            qkv_bias=True,
        ),
        "qwen2-0.5b": Configuration(
            vocabulary=151936, width=896, layers=24, heads=14, kv_heads=2, head_width=64, feed_forward=4864,
            qkv_bias=True, tied=True,
        ),
        "gemma-2b": Configuration(
            vocabulary=256000, width=2048, layers=18, heads=8, kv_heads=1, head_width=256, feed_forward=16384, tied=True
        ),
        "gemma-7b": Configuration(
            vocabulary=256000, width=3072, layers=28, heads=16, kv_heads=16, head_width=256, feed_forward=24576,
            tied=True,
        ),
        "pythia-70m": _pythia(512, 6, 8),
        "pythia-160m": _pythia(768, 12, 12),
        "pythia-410m": _pythia(1024, 24, 16),
        "pythia-1b": _pythia(2048, 16, 8),
        "phi-2": Configuration(
            vocabulary=51200, width=2560, layers=32, heads=32, kv_heads=32, head_width=80, feed_forward=10240,
            gated=False, norm="layer", norms=1, unembedding_bias=True, **_BIASES,
        ),
        "bert-base-uncased": Configuration(
            vocabulary=30522, width=768, layers=12, heads=12, kv_heads=12, head_width=64, feed_forward=3072,
            gated=False, norm="layer", positions=512, segments=2, embedding_norm=True, final_norm=False, tied=True,
            pooler=True, **_BIASES,
        ),
    }
)  # fmt: skip
