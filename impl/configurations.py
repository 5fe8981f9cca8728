"""From the `config.json` beside a checkpoint to a configuration: the same shape in our words."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gnomon.spec.configuration import Configuration

Given = Mapping[str, Any]


class BadConfiguration(ValueError):
    """The file names no configuration that is known; the message says what is wrong with it."""


def read_configuration(path: Path) -> Configuration:
    """The configuration of a local `config.json`, or of the folder that holds one."""
    file = path / "config.json" if path.is_dir() else path
    try:
        given = json.loads(file.read_text())
    except FileNotFoundError:
        raise BadConfiguration(f"there is no {file}") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise BadConfiguration(f"{file} is not a JSON file: {error}") from error
    family = given.get("model_type") if isinstance(given, dict) else None
    if not isinstance(family, str) or family not in FAMILIES:
        raise BadConfiguration(f"{file} is of the family {family!r}; known are {', '.join(FAMILIES)}")
    try:
        return FAMILIES[family](given)
    except KeyError as error:
        raise BadConfiguration(f"{file} lacks {error.args[0]!r}, which {family} needs") from error
    except (TypeError, ZeroDivisionError) as error:
        raise BadConfiguration(f"{file} has a size that is no whole number above zero: {error}") from error


def _whole(given: Given, name: str, usual: int | None = None) -> int:
    """A size, the usual one where the file leaves it out or gives null."""
    value = given.get(name)
    value = usual if value is None else value
    if value is None:
        raise KeyError(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise TypeError(f"{name} is {value!r}")
    return value


def _shape(given: Given) -> dict[str, Any]:
    """The sizes that most families give under the same names."""
    width, heads = _whole(given, "hidden_size"), _whole(given, "num_attention_heads")
    return {
        "vocabulary": _whole(given, "vocab_size"),
        "width": width,
        "layers": _whole(given, "num_hidden_layers"),
        "heads": heads,
        "kv_heads": _whole(given, "num_key_value_heads", heads),
        "head_width": _whole(given, "head_dim", width // heads),
        "feed_forward": _whole(given, "intermediate_size"),
    }


def _biases(value: bool = True) -> dict[str, Any]:
    return dict.fromkeys(("qkv_bias", "output_bias", "feed_forward_bias"), value)


def _llama(given: Given) -> Configuration:
    attention, network = bool(given.get("attention_bias")), bool(given.get("mlp_bias"))
    tied = bool(given.get("tie_word_embeddings", False))
    return Configuration(
        **_shape(given), qkv_bias=attention, output_bias=attention, feed_forward_bias=network, tied=tied
    )


def _qwen2(given: Given) -> Configuration:
    return Configuration(**_shape(given), qkv_bias=True, tied=bool(given.get("tie_word_embeddings", False)))


def _gemma(given: Given) -> Configuration:
    return Configuration(**_shape(given), tied=bool(given.get("tie_word_embeddings", True)))


def _gpt2(given: Given) -> Configuration:
    width, heads = _whole(given, "n_embd"), _whole(given, "n_head")
    return Configuration(
        vocabulary=_whole(given, "vocab_size"), width=width, layers=_whole(given, "n_layer"), heads=heads,
        kv_heads=heads, head_width=width // heads, feed_forward=_whole(given, "n_inner", 4 * width), gated=False,
        norm="layer", positions=_whole(given, "n_positions"), tied=bool(given.get("tie_word_embeddings", True)),
        **_biases(),
    )  # fmt: skip


def _gpt_neox(given: Given) -> Configuration:
    tied = bool(given.get("tie_word_embeddings", False))
    biases = _biases() | {name: bool(given.get("attention_bias", True)) for name in ("qkv_bias", "output_bias")}
    return Configuration(**_shape(given), gated=False, norm="layer", tied=tied, **biases)


def _phi(given: Given) -> Configuration:
    tied = bool(given.get("tie_word_embeddings", False))
    return Configuration(
        **_shape(given), gated=False, norm="layer", norms=1, tied=tied, unembedding_bias=True, **_biases()
    )


def _bert(given: Given) -> Configuration:
    return Configuration(
        **_shape(given), gated=False, norm="layer", positions=_whole(given, "max_position_embeddings"),
        segments=_whole(given, "type_vocab_size", 2), embedding_norm=True, final_norm=False, tied=True, pooler=True,
        **_biases(),
    )  # fmt: skip


FAMILIES: Mapping[str, Callable[[Given], Configuration]] = MappingProxyType(
    {
        "bert": _bert,
        "gemma": _gemma,
        "gpt2": _gpt2,
        "gpt_neox": _gpt_neox,
        "llama": _llama,
        "mistral": _llama,
        "phi": _phi,
        "qwen2": _qwen2,
    }
)
