"""From the `config.json` beside a checkpoint to a configuration: the same model in our words."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gnomon.spec.configuration import Configuration, Layout, Rotary, Scaling

Given = Mapping[str, Any]
Fields = dict[str, Any]  # of a configuration, by our names


class BadConfiguration(ValueError):
    """The file names no configuration that is known; the message says what is wrong with it."""


def read_configuration(path: Path) -> Configuration:
    """The configuration of a local `config.json`, or of the folder that holds one."""
    file = path / "config.json" if path.is_dir() else path
    try:
        given = json.loads(file.read_text())
    except FileNotFoundError:
        raise BadConfiguration(f"there is no {file}") from None
    except (OSError, ValueError) as error:
        raise BadConfiguration(f"{file} is not a JSON file: {error}") from error
    try:
        return configuration_of(given)
    except BadConfiguration as error:
        raise BadConfiguration(f"{file} {error}") from None


def configuration_of(given: Any) -> Configuration:
    """The configuration of what such a file holds."""
    name = given.get("model_type") if isinstance(given, dict) else None
    if not isinstance(name, str) or name not in FAMILIES:
        raise BadConfiguration(f"is of the family {name!r}; known are {', '.join(FAMILIES)}")
    family = FAMILIES[name]
    said = Said(name, given, {**_USUAL, **family.usual})
    said.require(family.fixed)
    read = _translated(said, family.fields)
    read |= {**family.traits, **family.more(said, read)}
    if read.get("position_kind", "rotary") == "rotary" and "rotary" not in read:
        read["rotary"] = _rotary(said, family, read["head_width"])
    if read["heads"] % read["kv_heads"]:
        raise BadConfiguration(f"has {read['kv_heads']} key-value heads, which do not divide its {read['heads']} heads")
    return Configuration(**read)


@dataclass(frozen=True, slots=True)
class Said:
    """What a file, or a part of one, says, and what its family takes where it says nothing.

    A key may have several names, the first of which is the family's own.
    """

    family: str
    given: Given
    usual: Given

    def value(self, *names: str) -> Any:
        """What stands under the first of the names that is there."""
        for name in names:
            if name in self.given:
                return self.given[name]
        if names[0] not in self.usual:
            raise BadConfiguration(f"lacks {names[0]!r}, which {self.family} needs")
        return self.usual[names[0]]

    def whole(self, *names: str, null: int | None = None, least: int = 1) -> int:
        """A whole number, or what a null stands for."""
        value = self.value(*names)
        if value is None and null is not None:
            return null
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.wrong(names[0], value, f"whole number {'above zero' if least else 'of zero or more'}")
        return value

    def number(self, *names: str, null: float | None = None) -> float:
        """A number above zero, or what a null stands for."""
        value = self.value(*names)
        if value is None and null is not None:
            return null
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= sys.float_info.max:
            raise self.wrong(names[0], value, "number above zero")
        return float(value)

    def flag(self, *names: str) -> bool:
        """True or false; a null is false."""
        value = self.value(*names)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(names[0], value, "true or false")
        return bool(value)

    def activation(self, *names: str) -> str:
        """The activation in our words."""
        value = self.value(*names)
        if not isinstance(value, str) or value not in _ACTIVATIONS:
            raise self.unsayable(names[0], value)
        return _ACTIVATIONS[value]

    def require(self, fixed: Given) -> None:
        """Nothing, if every one of these keys has the value beside it, where it is there."""
        for name, value in fixed.items():
            there = self.given.get(name, value)
            if (bool(there) if isinstance(value, bool) else there) != value:
                raise self.unsayable(name, there)

    def wrong(self, name: str, value: Any, due: str) -> BadConfiguration:
        """That a value is none of what is due."""
        return BadConfiguration(f"says that {name} is {value!r}, which is no {due}")

    def unsayable(self, name: str, value: Any) -> BadConfiguration:
        """That a value has no counterpart in a configuration of ours."""
        return BadConfiguration(f"says that {name} is {value!r}, which no configuration here can say")


def _nothing(said: Said, read: Fields) -> Fields:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How the files of a family are read.

    fields: our names, and the names of the key that says the same. traits: what all members have. usual: what the
    family takes where a key is left out. fixed: keys that mean what ours can not, but for this value. more: what is no
    translation of one key. layout: of rotary pairs. base, share: the keys of the rotary base, and of the share of a
    head that is rotated, "" where all of it is. scalable: rotary angles can be stretched.
    """

    fields: Mapping[str, str]
    traits: Given = field(default_factory=dict)
    usual: Given = field(default_factory=dict)
    fixed: Given = field(default_factory=dict)
    more: Callable[[Said, Fields], Fields] = _nothing
    layout: Layout = "half"
    base: str = "rope_theta"
    share: str = ""
    scalable: bool = True


_ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh", "silu": "silu", "swish": "silu",
}  # fmt: skip
_WHOLE = {"vocabulary", "layers", "positions", "segments"}
_NUMBERS = {"epsilon", "logit_scale", "score_divisor"}
_CAPS = {"score_cap", "logit_cap"}


def _translated(said: Said, names: Mapping[str, str]) -> Fields:
    """Our fields that each have a key; sizes that a null leaves open follow from the others."""
    width, heads = (said.whole(*names[ours].split()) for ours in ("width", "heads"))
    left_open = {"kv_heads": heads, "feed_forward": 4 * width, "window": 0}
    read = {"width": width, "heads": heads, "head_width": _head_width(said, names, width, heads)} | left_open
    for ours, theirs in names.items():
        if ours not in ("width", "heads", "head_width"):
            read[ours] = _field(said, ours, theirs.split(), left_open.get(ours))
    return read


def _field(said: Said, ours: str, names: list[str], null: int | None) -> Any:
    if ours in _WHOLE or null is not None:
        return said.whole(*names, null=None if names[0] == "intermediate_size" else null)
    if ours in _NUMBERS | _CAPS:
        return said.number(*names, null=0.0 if ours in _CAPS else None)
    return said.activation(*names) if ours == "activation" else said.flag(*names)


def _head_width(said: Said, names: Mapping[str, str], width: int, heads: int) -> int:
    own = said.value("head_dim") if "head_width" in names else None
    if own is None and width % heads:
        raise BadConfiguration(f"has {heads} heads, which do not divide the width of {width}")
    return width // heads if own is None else said.whole("head_dim")


# Rotary positions, as written before and since the fifth version of transformers.

# Of each kind of scaling, our word for it, and its numbers by our names and by theirs.
_SCALINGS: Mapping[str, tuple[Any, Mapping[str, str]]] = {
    "linear": ("linear", {"factor": "factor"}),
    "dynamic": ("dynamic-ntk", {"factor": "factor"}),
    "llama3": ("llama3", {"factor": "factor", "low": "low_freq_factor", "high": "high_freq_factor"}),
    "yarn": (
        "yarn",
        {"factor": "factor", "low": "beta_slow", "high": "beta_fast", "attention_factor": "attention_factor"},
    ),
}
_YARN = {"beta_slow": 1.0, "beta_fast": 32.0, "attention_factor": None}  # where they are left out
_ORIGINAL = "original_max_position_embeddings"
_ROPE = {"rope_type", "type", "rope_theta", "partial_rotary_factor", _ORIGINAL}


def _rotary(said: Said, family: Family, head_width: int) -> Rotary:
    """The rotation, as `rope_scaling` or else `rope_parameters` says it, and other keys what is left open there."""
    given = said.value("rope_scaling") or said.value("rope_parameters") or {}
    if not isinstance(given, dict):
        raise said.wrong("rope_parameters", given, "JSON object")
    share = said.number(family.share) if family.share else 1.0
    rope = Said(said.family, given, {"rope_theta": said.value(family.base), "partial_rotary_factor": share})
    width = int(head_width * rope.number("partial_rotary_factor"))
    if not 0 < width <= head_width or width % 2 or (width < head_width and not family.share):
        raise BadConfiguration(f"has {width} of the {head_width} features of a head rotated, which can not be")
    scaling = _scaling(said, rope)
    if scaling is not None and not family.scalable:
        raise said.unsayable("rope_type", scaling.kind)
    return Rotary(base=rope.number("rope_theta"), width=width, layout=family.layout, scaling=scaling)


def _scaling(said: Said, rope: Said) -> Scaling | None:
    """How the angles are stretched; by default they are not."""
    kind = rope.given.get("rope_type", rope.given.get("type", "default"))
    if kind == "default":
        return None
    if not isinstance(kind, str) or kind not in _SCALINGS:
        raise said.unsayable("rope_type", kind)
    ours, names = _SCALINGS[kind]
    stated = {name: value for name, value in rope.given.items() if value is not None}
    for name in stated.keys() - _ROPE - set(names.values()):
        raise said.unsayable(f"{name} of rope_type {kind}", stated[name])
    own = Said(said.family, stated, _YARN if kind == "yarn" else {})
    terms = {n: own.number(theirs) for n, theirs in names.items() if own.value(theirs) is not None}
    whole = {} if kind == "linear" else {"original": _original(said, own)}
    return Scaling(**{"kind": ours, **terms, **whole})


def _original(said: Said, rope: Said) -> int:
    """The context before it was stretched: all of it, where nothing else is said."""
    return rope.whole(_ORIGINAL) if _ORIGINAL in rope.given else said.whole("max_position_embeddings")


# Windows.

_KINDS = ["sliding_attention", "full_attention"]


def _late(said: Said, read: Fields) -> Fields:
    """Windows in the layers that are listed or, where none are, from some layer on."""
    window = said.whole("sliding_window", null=0) if said.flag("use_sliding_window") else 0
    first = said.whole("max_window_layers", least=0)
    return _windows(said, window, [i >= first for i in range(read["layers"])])


def _alternating(said: Said, read: Fields) -> Fields:
    """Windows in the layers that are listed or, where none are, in every second one from the first."""
    window = said.whole("sliding_window", null=0)
    return _windows(said, window, [i % 2 == 0 for i in range(read["layers"])])


def _windows(said: Said, window: int, usual: list[bool]) -> Fields:
    kinds = said.value("layer_types")
    known = isinstance(kinds, list) and len(kinds) == len(usual) and all(kind in _KINDS for kind in kinds)
    if kinds is not None and not known:
        raise said.wrong("layer_types", kinds, f"list of {len(usual)} words for full or sliding attention")
    marked = usual if kinds is None else [kind == "sliding_attention" for kind in kinds]
    if not window or not any(marked):
        return {"window": 0}
    every = [n for n in range(1, len(marked) + 1) if marked == [i % n == 0 for i in range(len(marked))]]
    if not every:
        raise BadConfiguration("has windows elsewhere than in every n-th layer, which no configuration here can say")
    return {"window": window, "window_every": every[0]}


# What is no translation of one key.


def _gemma(said: Said, read: Fields) -> Fields:
    """The tanh form of GELU, which is meant where the files say gelu."""
    return {"activation": "gelu_tanh"} if read["activation"] == "gelu" else {}


def _falcon(said: Said, read: Fields) -> Fields:
    """Heads and norms of the two architectures; the new one is always parallel and shares keys among groups."""
    new, several = said.flag("new_decoder_architecture"), not said.flag("multi_query")
    parallel = new or said.flag("parallel_attn")
    norms = said.whole("num_ln_in_parallel_attn", null=2 if new else 1) if parallel else 2
    if norms > 2:
        raise said.unsayable("num_ln_in_parallel_attn", norms)
    return {"kv_heads": read["kv_heads"] if new or several else 1, "parallel": parallel, "norms": norms}


def _gptj(said: Said, read: Fields) -> Fields:
    """Rotary positions at the one base, of so many features."""
    return {"rotary": Rotary(width=said.whole("rotary_dim"), layout="interleaved")}


def _opt(said: Said, read: Fields) -> Fields:
    """A table with two rows more than there are positions, and the epsilon that is PyTorch's own."""
    if said.whole("word_embed_proj_dim", null=read["width"]) != read["width"]:
        raise said.unsayable("word_embed_proj_dim", said.value("word_embed_proj_dim"))
    return {"positions": read["positions"] + 2, "position_offset": 2}


_COMMON = {
    "vocabulary": "vocab_size", "width": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads",
    "tied": "tie_word_embeddings",
}  # fmt: skip
_SMALL_NAMES = {
    **_COMMON, "width": "n_embd hidden_size", "layers": "n_layer num_hidden_layers",
    "heads": "n_head num_attention_heads", "feed_forward": "n_inner", "activation": "activation_function",
    "epsilon": "layer_norm_epsilon",
}  # fmt: skip
_INNER = {"feed_forward": "intermediate_size", "activation": "hidden_act"}
_GATED = {
    **_COMMON, **_INNER, "kv_heads": "num_key_value_heads", "head_width": "head_dim", "epsilon": "rms_norm_eps",
}  # fmt: skip
_BIASED = {"qkv_bias": "attention_bias", "output_bias": "attention_bias"}
_CAPPED = {
    "score_cap": "attn_logit_softcapping", "logit_cap": "final_logit_softcapping",
    "score_divisor": "query_pre_attn_scalar",
}  # fmt: skip
_PLAIN = {"gated": False, "norm": "layer"}
_BIASES = {"qkv_bias": True, "output_bias": True, "feed_forward_bias": True}
_SCALED_EMBEDDING = {"norm_offset": True, "embedding_scaled": True}

_USUAL: Given = {
    "tie_word_embeddings": False, "num_key_value_heads": None, "head_dim": None, "n_inner": None,
    "hidden_act": "silu", "rms_norm_eps": 1e-6, "layer_norm_eps": 1e-5, "layer_norm_epsilon": 1e-5,
    "attention_bias": False, "mlp_bias": False, "rope_scaling": None, "rope_parameters": None, "rope_theta": 10000.0,
    "sliding_window": None, "use_sliding_window": False, "max_window_layers": 28, "layer_types": None,
}  # fmt: skip
_TIED = {"tie_word_embeddings": True}
_GEMMA = {**_TIED, "head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh"}
_LATE = {"num_key_value_heads": 32, "sliding_window": 4096}

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "bert": Family(
            fields={**_COMMON, **_INNER, "epsilon": "layer_norm_eps", "positions": "max_position_embeddings",
                    "segments": "type_vocab_size"},
            traits={**_PLAIN, **_BIASES, "causal": False, "position_kind": "learned", "placement": "post",
                    "embedding_norm": True, "final_norm": False, "output": "stream", "pooler": True},
            usual={**_TIED, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2},
            fixed={"is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute"},
        ),
        "bloom": Family(
            fields={**_COMMON, "width": "hidden_size n_embed", "layers": "n_layer num_hidden_layers",
                    "heads": "n_head num_attention_heads", "epsilon": "layer_norm_epsilon"},
            traits={**_PLAIN, **_BIASES, "activation": "gelu_tanh", "position_kind": "alibi", "embedding_norm": True},
            usual=_TIED, fixed={"apply_residual_connection_post_layernorm": False},
        ),
        "cohere": Family(
            fields={**_GATED, **_BIASED, "epsilon": "layer_norm_eps", "logit_scale": "logit_scale"},
            traits={"norm": "layer", "norm_shift": False, "norms": 1, "parallel": True},
            usual={**_TIED, "logit_scale": 0.0625, "rope_theta": 500000.0},
            fixed={"use_qk_norm": False}, layout="interleaved",
        ),
        "falcon": Family(
            fields={**_COMMON, "width": "hidden_size n_embed", "feed_forward": "ffn_hidden_size",
                    "kv_heads": "num_kv_heads", "activation": "activation", "epsilon": "layer_norm_epsilon",
                    "qkv_bias": "bias", "output_bias": "bias", "feed_forward_bias": "bias"},
            traits=_PLAIN,
            usual={**_TIED, "ffn_hidden_size": None, "num_kv_heads": None, "activation": "gelu", "bias": False,
                   "new_decoder_architecture": False, "multi_query": True, "parallel_attn": True,
                   "num_ln_in_parallel_attn": None},
            fixed={"alibi": False}, more=_falcon,
        ),
        "gemma": Family(
            fields={**_GATED, **_BIASED}, traits=_SCALED_EMBEDDING, usual={**_GEMMA, "num_key_value_heads": 16},
            fixed={"use_bidirectional_attention": False}, more=_gemma,
        ),
        "gemma2": Family(
            fields={**_GATED, **_BIASED, **_CAPPED, "activation": "hidden_activation"},
            traits={**_SCALED_EMBEDDING, "placement": "sandwich", "norms": 4},
            usual={**_GEMMA, "num_key_value_heads": 4, "sliding_window": 4096, "attn_logit_softcapping": 50.0,
                   "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 256},
            fixed={"use_bidirectional_attention": False}, more=_alternating,
        ),
        "gpt2": Family(
            fields={**_SMALL_NAMES, "positions": "n_positions max_position_embeddings"},
            traits={**_PLAIN, **_BIASES, "position_kind": "learned"},
            usual={**_TIED, "activation_function": "gelu_new"},
            fixed={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False},
        ),
        "gpt_neox": Family(
            fields={**_COMMON, **_INNER, **_BIASED, "epsilon": "layer_norm_eps", "parallel": "use_parallel_residual"},
            traits={**_PLAIN, "feed_forward_bias": True},
            usual={"hidden_act": "gelu", "attention_bias": True, "use_parallel_residual": True,
                   "rotary_emb_base": 10000.0, "rotary_pct": 0.25},
            base="rotary_emb_base", share="rotary_pct",
        ),
        "gptj": Family(
            fields=_SMALL_NAMES,
            traits={**_PLAIN, "parallel": True, "norms": 1, "feed_forward_bias": True, "unembedding_bias": True},
            usual={"activation_function": "gelu_new", "rotary_dim": 64}, more=_gptj,
        ),
        "llama": Family(fields={**_GATED, **_BIASED, "feed_forward_bias": "mlp_bias"}),
        "mistral": Family(
            fields={**_GATED, "window": "sliding_window"}, usual={"num_key_value_heads": 8, "sliding_window": 4096}
        ),
        "olmo2": Family(
            fields={**_GATED, **_BIASED}, traits={"placement": "after", "query_key_norm": "width"},
            usual={"rms_norm_eps": 1e-5},
        ),
        "opt": Family(
            fields={**_COMMON, "feed_forward": "ffn_dim", "activation": "activation_function",
                    "positions": "max_position_embeddings", "qkv_bias": "enable_bias", "output_bias": "enable_bias",
                    "feed_forward_bias": "enable_bias"},
            traits={**_PLAIN, "epsilon": 1e-5, "position_kind": "learned"},
            usual={**_TIED, "activation_function": "relu", "enable_bias": True, "word_embed_proj_dim": None},
            fixed={"do_layer_norm_before": True, "_remove_final_layer_norm": False,
                   "layer_norm_elementwise_affine": True},
            more=_opt,
        ),
        "phi": Family(
            fields={**_COMMON, **_INNER, "kv_heads": "num_key_value_heads", "head_width": "head_dim",
                    "epsilon": "layer_norm_eps"},
            traits={**_PLAIN, **_BIASES, "norms": 1, "parallel": True, "unembedding_bias": True},
            usual={"hidden_act": "gelu_new", "partial_rotary_factor": 0.5},
            fixed={"qk_layernorm": False}, share="partial_rotary_factor",
        ),
        "phi3": Family(
            fields={**_GATED, "window": "sliding_window"},
            usual={"rms_norm_eps": 1e-5, "partial_rotary_factor": 1.0}, share="partial_rotary_factor", scalable=False,
        ),
        "qwen2": Family(fields=_GATED, traits={"qkv_bias": True}, usual=_LATE, more=_late),
        "qwen3": Family(
            fields={**_GATED, **_BIASED}, traits={"query_key_norm": "head"}, usual={**_LATE, "head_dim": 128},
            more=_late,
        ),
    }
)  # fmt: skip
