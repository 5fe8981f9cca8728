"""The parameters that Hugging Face's transformers gives a published model, by where they stand, without any memory."""

import os
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when transformers is imported

import torch
import transformers

from gnomon.impl.adapters import transformers_models
from gnomon.spec.configuration import Configuration

# The module that builds the family of a named model, by the first of these that its name begins with.
FAMILIES: Mapping[str, str] = {
    "gpt2": "gpt2",
    "gpt-neox": "gpt_neox",
    "pythia": "gpt_neox",
    "llama": "llama",
    "mistral": "mistral",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma-2-": "gemma2",
    "gemma": "gemma",
    "phi-3": "phi3",
    "phi": "phi",
    "olmo-2": "olmo2",
    "command-r": "cohere",
    "falcon": "falcon",
    "bert": "bert",
}
# Where a parameter stands, by the first pattern that its name contains; the rest are heads and poolers.
PARTS: Mapping[str, str] = {
    "norms": r"\bln_|norm",
    "attention": r"attn|attention",
    "feed-forward": r"\bmlp\b|\bintermediate\b|\boutput\.dense\b",
    "embedding": r"\bwte\b|\bwpe\b|embed",
}


def sizes(name: str, configuration: Configuration) -> dict[str, int]:
    """The parameters of each part of the model of that name, tied ones once."""
    found: Counter[str] = Counter()
    for parameter, tensor in built(name, configuration).named_parameters():
        part = next((p for p, pattern in PARTS.items() if re.search(pattern, parameter.lower())), "other")
        found[part] += tensor.numel()
    return dict(found)


def built(name: str, c: Configuration) -> Any:
    """The model as transformers builds it, on the device that holds no numbers."""
    family = next((family for start, family in FAMILIES.items() if name.startswith(start)), None)
    if family is None:
        raise NotImplementedError(f"no family of transformers is known for {name}")
    hugging = _phi(c) if family == "phi" else getattr(transformers_models, family).configured(c)
    network = transformers.AutoModel if c.output == "stream" else transformers.AutoModelForCausalLM
    with torch.device("meta"):
        return network.from_config(hugging)


def _phi(c: Configuration) -> Any:
    """Their configuration of a family that is only counted."""
    rope = {"rope_type": "default", "rope_theta": c.rotary.base, "partial_rotary_factor": c.rotated / c.head_width}
    return transformers.PhiConfig(
        vocab_size=c.vocabulary, hidden_size=c.width, num_hidden_layers=c.layers, num_attention_heads=c.heads,
        intermediate_size=c.feed_forward, tie_word_embeddings=c.tied, layer_norm_eps=c.epsilon, rope_parameters=rope,
    )  # fmt: skip
