"""PyTorch's `nn.MultiheadAttention` holding given weights, on each of its internal paths."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gnomon.impl.declaration import Declaration
from gnomon.spec.conventions import Conventions
from gnomon.spec.precision import EAGER

PROJECTIONS = ("query", "key", "value")


def layer(parameters: Mapping[str, Tensor], width: int, heads: int) -> torch.nn.MultiheadAttention:
    """An evaluating layer with these weights; a bias that is not given is zero beside one that is."""
    if any(weight.shape != (width, width) for name, weight in parameters.items() if name.endswith("_weight")):
        raise NotImplementedError("nn.MultiheadAttention projects to its own width and shares no key heads")
    biased = any(f"{name}_bias" in parameters for name in (*PROJECTIONS, "output"))
    dtype = parameters["query_weight"].dtype
    module = torch.nn.MultiheadAttention(width, heads, bias=biased, batch_first=True, dtype=dtype)
    state = {
        "in_proj_weight": torch.cat([parameters[f"{name}_weight"] for name in PROJECTIONS]),
        "out_proj.weight": parameters["output_weight"],
    }
    if biased:
        zero = torch.zeros(width, dtype=dtype)
        state["in_proj_bias"] = torch.cat([parameters.get(f"{name}_bias", zero) for name in PROJECTIONS])
        state["out_proj.bias"] = parameters.get("output_bias", zero)
    module.load_state_dict(state)
    return module.eval()


def masks(mask: Tensor | None, causal: bool, heads: int, batch: int, queries: int, keys: int) -> dict[str, Any]:
    """The layer's arguments: a mask of keys alone pads, any other is given per query or per head."""
    future: dict[str, Any] = {}
    if causal:
        future = {"attn_mask": torch.ones(queries, keys, dtype=torch.bool).triu(1), "is_causal": True}
    if mask is None:
        return future
    if mask.ndim == 4 and mask.shape[1:3] == (1, 1):
        if causal and mask.dtype != torch.bool:
            future["attn_mask"] = torch.full((queries, keys), -torch.inf, dtype=mask.dtype).triu(1)
        return future | {"key_padding_mask": mask[:, 0, 0].expand(batch, keys)}
    if causal:
        raise NotImplementedError("the attn_mask of a causal nn.MultiheadAttention is the causal mask itself")
    if mask.ndim == 2:
        return {"attn_mask": mask.expand(queries, keys)}
    return {"attn_mask": mask.expand(batch, heads, queries, keys).flatten(0, 1)}


def output(
    module: torch.nn.MultiheadAttention, rows: tuple[Tensor, Tensor, Tensor], weights: bool, **given: Any
) -> Tensor:
    """The first of the layer's two outputs."""
    result: Tensor = module(*rows, need_weights=weights, **given)[0]
    return result.detach()


def multi_head_attention(
    x: Tensor,
    parameters: Mapping[str, Tensor],
    *,
    heads: int,
    mask: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """The output of the layer in inference, where it may take its fast path."""
    module = layer(parameters, x.shape[-1], heads)
    given = masks(mask, causal, heads, x.shape[0], x.shape[1], x.shape[1])
    with torch.no_grad():
        return output(module, (x, x, x), False, **given)


def slow_path(
    x: Tensor,
    parameters: Mapping[str, Tensor],
    *,
    heads: int,
    mask: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """The output of the layer in training, without dropout."""
    module = layer(parameters, x.shape[-1], heads).train()
    given = masks(mask, causal, heads, x.shape[0], x.shape[1], x.shape[1])
    return output(module, (x, x, x), False, **given)


def weights_returned(
    x: Tensor,
    parameters: Mapping[str, Tensor],
    *,
    heads: int,
    mask: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """The output of the layer in training where it also returns the weights, which it then writes out."""
    module = layer(parameters, x.shape[-1], heads).train()
    given = masks(mask, causal, heads, x.shape[0], x.shape[1], x.shape[1])
    return output(module, (x, x, x), True, **given)


def joined(heads: Tensor) -> Tensor:
    """The heads side by side, `[batch, time, heads·head_width]`."""
    rows = heads.transpose(1, 2).flatten(-2)
    # Multiplied by an identity matrix, one NaN or infinity fills its row, and the layer would be blamed.
    if not (rows.isfinite() | rows.isnan().all(-1, keepdim=True)).all():
        raise NotImplementedError("identity projections spread a non-finite entry over its position")
    return rows


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """The attention of a layer whose four projections are the identity."""
    if key.shape[1] != query.shape[1] or value.shape[-1] != query.shape[-1]:
        raise NotImplementedError("nn.MultiheadAttention has one width per head and as many key as query heads")
    batch, heads, queries, head_width = query.shape
    width = heads * head_width
    identity = torch.eye(width, dtype=query.dtype)
    module = layer({f"{name}_weight": identity for name in (*PROJECTIONS, "output")}, width, heads)
    given = masks(mask, causal, heads, batch, queries, key.shape[-2])
    with torch.no_grad():
        rows = output(module, (joined(query), joined(key), joined(value)), False, **given)
    return rows.reshape(batch, queries, heads, head_width).transpose(1, 2)


declaration = Declaration(
    framework="torch",
    dtypes=("float64", "float32", "bfloat16", "float16"),
    sites=EAGER,
    memory="linear",
    conventions=Conventions(
        polarity="block", alignment="top-left", empty_row="zeros", masked_key="leaks", masked_value="leaks"
    ),
    paths={"multi_head_attention": {"slow path": slow_path, "weights returned": weights_returned}},
)
