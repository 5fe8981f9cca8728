"""The families of models: what fixes each one's shape beside its sizes, for small members of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from gnomon.spec.configuration import Configuration, Rotary


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family: its traits, and which sizes its members may choose freely.

    shares: fewer key-value heads than query heads. free: a head width other than width over heads. windowed: a
    window. rotary: which share of a head's features is rotated, and in which layout.
    """

    traits: Mapping[str, Any] = field(default_factory=dict)
    shares: bool = False
    free: bool = False
    windowed: bool = False
    rotated_share: int = 1  # one in so many
    layout: str = "half"


_BIASES = {"qkv_bias": True, "output_bias": True, "feed_forward_bias": True}
_FINER = 2.0**-20
_PLAIN = {"gated": False, "norm": "layer"}  # two matrices and LayerNorm

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "llama": Family(shares=True, free=True),
        "mistral": Family(shares=True, free=True, windowed=True),
        "qwen2": Family(traits={"qkv_bias": True, "epsilon": _FINER}, shares=True),
        "qwen3": Family(traits={"query_key_norm": "head", "epsilon": _FINER}, shares=True, free=True),
        "gemma": Family(
            traits={"activation": "gelu_tanh", "norm_offset": True, "embedding_scaled": True, "tied": True,
                    "epsilon": _FINER},
            shares=True, free=True,
        ),
        "gemma2": Family(
            traits={"activation": "gelu_tanh", "norm_offset": True, "embedding_scaled": True, "tied": True,
                    "epsilon": _FINER, "placement": "sandwich", "norms": 4, "window_every": 2, "score_cap": 3.0,
                    "logit_cap": 4.0, "score_divisor": 10.0},
            shares=True, free=True, windowed=True,
        ),
        "phi3": Family(shares=True),
        "olmo2": Family(traits={"placement": "after", "query_key_norm": "width"}, shares=True),
        "cohere": Family(
            traits={"norm": "layer", "norm_shift": False, "norms": 1, "parallel": True, "tied": True,
                    "logit_scale": 0.0625},
            shares=True, layout="interleaved",
        ),
        "falcon": Family(
            traits={**_PLAIN, "norms": 1, "parallel": True, "activation": "gelu", "tied": True}, shares=True
        ),
        "gpt2": Family(
            traits={**_PLAIN, **_BIASES, "activation": "gelu_tanh", "position_kind": "learned", "positions": 32,
                    "tied": True}
        ),
        "gpt-neox": Family(
            traits={**_PLAIN, **_BIASES, "activation": "gelu", "parallel": True}, rotated_share=2
        ),
        "gptj": Family(
            traits={**_PLAIN, "activation": "gelu_tanh", "parallel": True, "norms": 1, "feed_forward_bias": True,
                    "unembedding_bias": True},
            rotated_share=2, layout="interleaved",
        ),
        "opt": Family(
            traits={**_PLAIN, **_BIASES, "activation": "relu", "position_kind": "learned", "positions": 34,
                    "position_offset": 2, "tied": True}
        ),
        "bloom": Family(
            traits={**_PLAIN, **_BIASES, "activation": "gelu_tanh", "position_kind": "alibi", "embedding_norm": True,
                    "tied": True}
        ),
        "bert": Family(
            traits={**_PLAIN, **_BIASES, "activation": "gelu", "causal": False, "position_kind": "learned",
                    "positions": 32, "segments": 2, "placement": "post", "embedding_norm": True, "final_norm": False,
                    "tied": True, "output": "stream"}
        ),
        # The encoder of 2017: sinusoidal positions on scaled embeddings, norms after the sums, ReLU.
        "encoder-2017": Family(
            traits={**_PLAIN, **_BIASES, "activation": "relu", "causal": False, "position_kind": "sinusoidal",
                    "placement": "post", "embedding_scaled": True, "final_norm": False, "tied": True,
                    "output": "stream"}
        ),
        # Without positions: what claims about order are about, with and without a causal mask.
        "orderless": Family(traits={"causal": False, "position_kind": "none"}, shares=True, free=True),
        "nope": Family(traits={"position_kind": "none"}, shares=True, free=True),
    }
)  # fmt: skip


def _with(**traits: Any) -> tuple[str, ...]:
    """The families whose members have these traits."""
    members = {f: _plain(f) for f in FAMILIES}
    return tuple(f for f, c in members.items() if all(getattr(c, n) == v for n, v in traits.items()))


def _plain(family: str) -> Configuration:
    return member(family, vocabulary=1, layers=1, heads=1, kv_heads=1, head_width=2, feed_forward=1, window=1)


def member(
    family: str, *, vocabulary: int, layers: int, heads: int, kv_heads: int, head_width: int, feed_forward: int,
    base: float = 10000.0, window: int = 0, widened: int = 0,
) -> Configuration:  # fmt: skip
    """A member of the family; what the family does not let choose is as it has to be.

    widened: by how much the width exceeds heads·head_width, where the family allows it.
    """
    kind = FAMILIES[family]
    width = heads * head_width + (widened if kind.free else 0)
    plain = Configuration(
        vocabulary=vocabulary, width=width, layers=layers, heads=heads, kv_heads=kv_heads if kind.shares else heads,
        head_width=head_width, feed_forward=feed_forward, window=window if kind.windowed else 0,
        rotary=Rotary(base=base, width=_rotated(head_width, kind.rotated_share), layout=kind.layout),  # type: ignore[arg-type]
    )  # fmt: skip
    return replace(plain, **kind.traits)


def _rotated(head_width: int, share: int) -> int:
    """The even number of features next to that share of a head."""
    return max(2, head_width // share // 2 * 2)


# Where a mistake can be made that needs what not every model has.
ROTARY = _with(position_kind="rotary")
LEARNED = _with(position_kind="learned")
ALIBI = _with(position_kind="alibi")
POSITIONED = tuple(f for f in FAMILIES if f not in _with(position_kind="none"))
CAUSAL = _with(causal=True)
CAUSAL_POSITIONED = tuple(f for f in CAUSAL if f in POSITIONED)
ROTARY_CAUSAL = tuple(f for f in CAUSAL if f in ROTARY)
LEARNED_CAUSAL = tuple(f for f in CAUSAL if f in LEARNED)
WINDOWED = _with(window=1)
GATED = _with(gated=True)
TIED = _with(tied=True)
LOGITS = _with(output="logits")
TIED_LOGITS = _with(tied=True, output="logits")
UNTIED = _with(tied=False, output="logits")
SCALED = _with(embedding_scaled=True)
OFFSET = _with(norm_offset=True)
PRE_NORM = _with(placement="pre")
SEQUENTIAL = _with(parallel=False)
PARALLEL = _with(parallel=True)
PRE_SEQUENTIAL = _with(parallel=False, placement="pre")
ANY_FINAL = _with(final_norm=True)
FINAL = _with(final_norm=True, output="logits", norm_offset=False, logit_cap=0.0)
IDENTITY = tuple(f for f in FAMILIES if f not in _with(placement="post"))
NO_EXACT_GELU = tuple(f for f in FAMILIES if f not in _with(activation="gelu"))
BIASED = _with(output_bias=True)
SHARING = tuple(f for f, kind in FAMILIES.items() if kind.shares)
