"""Rotary positions by Hugging Face's transformers: GPT-NeoX's for pairs in halves, Cohere's for neighbours."""

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when transformers is imported

import torch
from torch import Tensor
from transformers import CohereConfig, GPTNeoXConfig
from transformers.models.cohere import modeling_cohere
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.utils import logging

from gnomon.impl.declaration import Declaration
from gnomon.spec.configuration import Scaling
from gnomon.spec.precision import EVERYWHERE

logging.set_verbosity_error()

# Their name of each scaling, and their names of our fields.
BAND = {"original": "original_max_position_embeddings"}
SCALINGS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "linear": ("linear", {}),
    "dynamic-ntk": ("dynamic", {}),
    "llama3": ("llama3", BAND | {"low": "low_freq_factor", "high": "high_freq_factor"}),
    "yarn": ("yarn", BAND | {"low": "beta_slow", "high": "beta_fast", "attention_factor": "attention_factor"}),
}


def rope(
    x: Tensor,
    positions: Tensor,
    *,
    base: float = 10000.0,
    rotary_width: int | None = None,
    layout: str = "half",
    scaling: Scaling | None = None,
) -> Tensor:
    """What a query becomes beside a key."""
    share = (rotary_width or x.shape[-1]) / x.shape[-1]
    angles = module(layout, x.shape[-1], share, base, scaling)
    rows = positions.expand(x.shape[0], x.shape[2])
    with torch.no_grad():
        cosine, sine = angles(x, rows)
        home = modeling_gpt_neox if layout == "half" else modeling_cohere
        turned: Tensor = home.apply_rotary_pos_emb(x, x, cosine, sine)[0]
    return turned


def module(layout: str, width: int, share: float, base: float, scaling: Scaling | None) -> Any:
    """The library's table of angles; a dynamic one, which remembers the longest sequence, is made anew every time."""
    if scaling is not None and scaling.kind == "dynamic-ntk":
        return built.__wrapped__(layout, width, share, base, scaling)
    return built(layout, width, share, base, scaling)


@lru_cache(maxsize=64)
def built(layout: str, width: int, share: float, base: float, scaling: Scaling | None) -> Any:
    """The table for heads of this width."""
    parameters = {"rope_theta": base, "partial_rotary_factor": share} | named(scaling)
    sizes: dict[str, Any] = {
        "hidden_size": width,
        "num_attention_heads": 1,
        "max_position_embeddings": longest(scaling),
    }
    if layout == "half":
        return modeling_gpt_neox.GPTNeoXRotaryEmbedding(GPTNeoXConfig(**sizes, rope_parameters=parameters))
    if share != 1:
        raise NotImplementedError("Cohere in transformers turns whole heads only")
    return modeling_cohere.CohereRotaryEmbedding(CohereConfig(**sizes, rope_parameters=parameters))


def longest(scaling: Scaling | None) -> int:
    """The context that is declared: the stretched one, but for dynamic scalings the original."""
    if scaling is None or scaling.kind == "dynamic-ntk":
        return 2048 if scaling is None else scaling.original
    return int(scaling.original * scaling.factor)


def named(scaling: Scaling | None) -> dict[str, Any]:
    """The scaling as transformers says it."""
    if scaling is None:
        return {"rope_type": "default"}
    if scaling.kind not in SCALINGS:
        raise NotImplementedError(f"transformers has no scaling of the kind {scaling.kind}")
    kind, names = SCALINGS[scaling.kind]
    own = {theirs: getattr(scaling, ours) for ours, theirs in names.items()}
    return {"rope_type": kind, "factor": scaling.factor} | {n: value for n, value in own.items() if value is not None}


# Its angles are formed in float32 even for float64 arguments.
declaration = Declaration(framework="torch", dtypes=("float32", "bfloat16", "float16"), sites=EVERYWHERE, families=())
