"""Rotary positions by the kernel of MLX on the CPU, with the scalings of mlx-lm; arrays are NumPy's outside."""

from functools import lru_cache
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.rope_utils import initialize_rope

from gnomon.impl.adapters.mlx_model import Array, given, taken
from gnomon.impl.declaration import Declaration
from gnomon.spec.configuration import Scaling
from gnomon.spec.precision import EVERYWHERE


def rope(
    x: Array,
    positions: Array,
    *,
    base: float = 10000.0,
    rotary_width: int | None = None,
    layout: str = "half",
    scaling: Scaling | None = None,
) -> Array:
    """Each position as a sequence of one token that starts there."""
    batch, heads, time, width = x.shape
    single = x.swapaxes(1, 2).reshape(batch * time, heads, 1, width)
    offsets = mx.array(np.broadcast_to(positions, (batch, time)).reshape(-1).astype(np.int32))
    turn = module(rotary_width or width, base, layout == "interleaved", scaling)
    turned = taken(turn(given(np.ascontiguousarray(single)), offset=offsets))
    return np.asarray(turned.reshape(batch, time, heads, width).swapaxes(1, 2))


@lru_cache(maxsize=64)
def module(width: int, base: float, neighbours: bool, scaling: Scaling | None) -> Any:
    """The library's rotation of so many features."""
    return initialize_rope(width, base, neighbours, named(scaling), 2048)


def named(scaling: Scaling | None) -> dict[str, Any] | None:
    """The scaling as mlx-lm says it."""
    if scaling is None:
        return None
    said: dict[str, Any] = {"rope_type": scaling.kind, "factor": scaling.factor}
    if scaling.kind == "llama3":
        said |= {"low_freq_factor": scaling.low, "high_freq_factor": scaling.high}
    elif scaling.kind == "yarn" and scaling.attention_factor is None:
        said |= {"beta_slow": scaling.low, "beta_fast": scaling.high}
    elif scaling.kind != "linear":
        raise NotImplementedError(f"mlx-lm can not be told of such a scaling for single tokens: {scaling.kind}")
    return said | {"original_max_position_embeddings": scaling.original}


declaration = Declaration(dtypes=("float32", "bfloat16", "float16"), sites=EVERYWHERE, families=())
