"""Attention and its neighbours written out in the plain operations of PyTorch."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from gnomon.impl.adapters.torch_paths import recorded_gradients
from gnomon.impl.declaration import Declaration
from gnomon.spec.conventions import Conventions
from gnomon.spec.precision import EAGER


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The affine map x·Wᵀ + b."""
    return functional.linear(x, weight, bias)


def linear_module(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The same map by an `nn.Linear` that holds the weights."""
    width_out, width_in = weight.shape
    module = torch.nn.Linear(width_in, width_out, bias is not None, dtype=weight.dtype)
    module.load_state_dict({"weight": weight} if bias is None else {"weight": weight, "bias": bias})
    with torch.no_grad():
        output: Tensor = module(x)
    return output


def relu(x: Tensor) -> Tensor:
    """The positive part."""
    return functional.relu(x)


def gelu(x: Tensor) -> Tensor:
    """x·Φ(x)."""
    return functional.gelu(x)


def gelu_tanh(x: Tensor) -> Tensor:
    """The approximation of x·Φ(x) by the hyperbolic tangent."""
    return functional.gelu(x, approximate="tanh")


def silu(x: Tensor) -> Tensor:
    """x·σ(x)."""
    return functional.silu(x)


def softmax(logits: Tensor) -> Tensor:
    """The exponentials along the last axis, divided by their sum."""
    return torch.softmax(logits, dim=-1)


def visible(queries: int, keys: int, causal: bool, window: int | None) -> Tensor | None:
    """Where position alone lets a query attend, the last query standing at the last key."""
    if not causal and window is None:
        return None
    ahead = torch.arange(keys) - (torch.arange(queries) + keys - queries)[:, None]
    seen = ahead <= 0 if causal else torch.ones(queries, keys, dtype=torch.bool)
    return seen if window is None else seen & (ahead.abs() < window)


def masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Scores that are -∞ where a boolean mask is false, or raised by an additive one."""
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask


def probabilities(scores: Tensor, sink: Tensor | None) -> Tensor:
    """The softmax over the keys, and over one more logit per head where there is a sink."""
    if sink is None:
        return torch.softmax(scores, dim=-1)
    column = sink[:, None, None].expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)[..., :-1]


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: Tensor | None = None,
) -> Tensor:
    """The mean of the values, weighted by the softmax of the scores."""
    heads, kv_heads = query.shape[1], key.shape[1]
    shared = torch.arange(heads) * kv_heads // heads
    # Scaled before the product, whose terms in float16 might overflow otherwise.
    scaled = query * (query.shape[-1] ** -0.5 if scale is None else scale)
    scores = scaled @ key[:, shared].mT
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    scores = masked(masked(scores, mask), visible(query.shape[-2], key.shape[-2], causal, window))
    return probabilities(scores, sink) @ value[:, shared]


def multi_head_attention(
    x: Tensor,
    parameters: Mapping[str, Tensor],
    *,
    heads: int,
    kv_heads: int | None = None,
    mask: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """Attention between the projections of x, its heads joined and projected back."""

    def project(name: str, count: int) -> Tensor:
        projected = linear(x, parameters[f"{name}_weight"], parameters.get(f"{name}_bias"))
        return projected.reshape(*x.shape[:2], count, -1).transpose(1, 2)

    if x.shape[-1] % heads:
        raise ValueError(f"{heads} heads do not divide a width of {x.shape[-1]}")
    shared = heads if kv_heads is None else kv_heads
    query, key, value = project("query", heads), project("key", shared), project("value", shared)
    joined = attention(query, key, value, mask=mask, causal=causal).transpose(1, 2).flatten(-2)
    return linear(joined, parameters["output_weight"], parameters.get("output_bias"))


def feed_forward(x: Tensor, parameters: Mapping[str, Tensor], *, activation: str) -> Tensor:
    """Two linear maps with an activation between them, gated where there is a gate."""
    activate = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu}[activation]
    up = linear(x, parameters["up_weight"], parameters.get("up_bias"))
    if "gate_weight" in parameters:
        hidden = activate(linear(x, parameters["gate_weight"], parameters.get("gate_bias"))) * up
    else:
        hidden = activate(up)
    return linear(hidden, parameters["down_weight"], parameters.get("down_bias"))


declaration = Declaration(
    framework="torch",
    dtypes=("float64", "float32", "bfloat16", "float16"),
    sites=EAGER,
    conventions=Conventions(alignment="bottom-right", empty_row="nan", masked_key="blocked", masked_value="leaks"),
    paths={
        "linear": {"nn.Linear": linear_module},
        "attention": {"recorded gradients": recorded_gradients(attention)},
    },
)
