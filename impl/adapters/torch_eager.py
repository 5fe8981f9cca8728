"""Attention and its neighbours written out in the plain operations of PyTorch."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

from gnomon.impl.adapters import torch_formats, torch_losses, torch_positions, torch_training
from gnomon.impl.adapters.torch_paths import recorded_gradients
from gnomon.impl.declaration import Declaration
from gnomon.spec.conventions import Conventions
from gnomon.spec.precision import EAGER

rope = torch_positions.rope
sinusoidal_positions = torch_positions.sinusoidal_positions
alibi_slopes = torch_positions.alibi_slopes
cross_entropy = torch_losses.cross_entropy
next_token_loss = torch_losses.next_token_loss
tempered = torch_losses.tempered
optimiser = torch_training.optimiser
clip_by_global_norm = torch_training.clip_by_global_norm
rounded = torch_formats.rounded
total = torch_formats.total
dropout = torch_formats.dropout
checkpointed_dropout = torch_formats.checkpointed_dropout
loss_scaler = torch_formats.loss_scaler
master_step = torch_formats.master_step
share_under_floor = torch_formats.share_under_floor


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
    positions: Tensor | None = None,
) -> Tensor:
    """Attention between the projections of x, turned to their positions if any, its heads joined and projected back."""

    def project(name: str, count: int) -> Tensor:
        projected = linear(x, parameters[f"{name}_weight"], parameters.get(f"{name}_bias"))
        return projected.reshape(*x.shape[:2], count, -1).transpose(1, 2)

    if x.shape[-1] % heads:
        raise ValueError(f"{heads} heads do not divide a width of {x.shape[-1]}")
    shared = heads if kv_heads is None else kv_heads
    query, key, value = project("query", heads), project("key", shared), project("value", shared)
    if positions is not None:
        query, key = rope(query, positions), rope(key, positions)
    joined = attention(query, key, value, mask=mask, causal=causal).transpose(1, 2).flatten(-2)
    return linear(joined, parameters["output_weight"], parameters.get("output_bias"))


def convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, dilation: int = 1, causal: bool = False
) -> Tensor:
    """The kernel's weighted sums over time, zeros beyond its ends, all of them before it where causal."""
    span = (weight.shape[-1] - 1) * dilation
    before = span if causal else span // 2
    padded = functional.pad(x.transpose(1, 2), (before, span - before))
    return functional.conv1d(padded, weight, bias, dilation=dilation).transpose(1, 2)


def additive_attention(query: Tensor, key: Tensor, value: Tensor, parameters: Mapping[str, Tensor]) -> Tensor:
    """The mean of the values, weighted by the softmax of a linear map of the tanh of projected queries plus keys."""
    own, seen = linear(query, parameters["query_weight"]), linear(key, parameters["key_weight"])
    scores = torch.tanh(own.unsqueeze(-2) + seen.unsqueeze(-3)) @ parameters["score_weight"]
    return torch.softmax(scores, dim=-1) @ value


def feed_forward(x: Tensor, parameters: Mapping[str, Tensor], *, activation: str) -> Tensor:
    """Two linear maps with an activation between them, gated where there is a gate."""
    activate = {"relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu}[activation]
    up = linear(x, parameters["up_weight"], parameters.get("up_bias"))
    if "gate_weight" in parameters:
        hidden = activate(linear(x, parameters["gate_weight"], parameters.get("gate_bias"))) * up
    else:
        hidden = activate(up)
    return linear(hidden, parameters["down_weight"], parameters.get("down_bias"))


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, eps: float) -> Tensor:
    """Features less their mean, over the root of their variance plus epsilon, times the gain, plus the shift."""
    return functional.layer_norm(x, weight.shape, weight, bias, eps)


def layer_norm_module(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, eps: float) -> Tensor:
    """The same by an `nn.LayerNorm` that holds gain and shift."""
    module = torch.nn.LayerNorm(weight.shape, eps, bias=bias is not None, dtype=weight.dtype)
    return held(module, weight, bias)(x)


def layer_norm_steps(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, eps: float) -> Tensor:
    """The same written out, the normed row cast before it meets the gain."""
    inner = x if x.dtype == torch.float64 else x.float()
    normed = standardised(inner - inner.mean(-1, keepdim=True), eps).to(x.dtype)
    return normed * weight if bias is None else normed * weight + bias


def rms_norm(x: Tensor, weight: Tensor, *, eps: float) -> Tensor:
    """Features over the root of their mean square plus epsilon, times the gain."""
    return functional.rms_norm(x, weight.shape, weight, eps)


def rms_norm_module(x: Tensor, weight: Tensor, *, eps: float) -> Tensor:
    """The same by an `nn.RMSNorm` that holds the gain."""
    return held(torch.nn.RMSNorm(weight.shape, eps, dtype=weight.dtype), weight, None)(x)


def rms_norm_steps(x: Tensor, weight: Tensor, *, eps: float) -> Tensor:
    """The same written out, the normed row cast before it meets the gain."""
    inner = x if x.dtype == torch.float64 else x.float()
    return standardised(inner, eps).to(x.dtype) * weight


def standardised(x: Tensor, eps: float) -> Tensor:
    """Features over the root of their mean square plus epsilon."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


def embedding(table: Tensor, ids: Tensor) -> Tensor:
    """The rows that the ids name."""
    return functional.embedding(ids, table)


def embedding_module(table: Tensor, ids: Tensor) -> Tensor:
    """The same by an `nn.Embedding` that holds the table."""
    return held(torch.nn.Embedding(table.shape[0], table.shape[1], dtype=table.dtype), table, None)(ids)


def held(module: torch.nn.Module, weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    """The module with these weights, called without recording gradients."""
    module.load_state_dict({"weight": weight} if bias is None else {"weight": weight, "bias": bias})
    return torch.no_grad()(module)


declaration = Declaration(
    framework="torch",
    dtypes=("float64", "float32", "bfloat16", "float16"),
    # Its log-softmax keeps the sum of the exponentials in the format of the logits.
    sites=EAGER | {"normaliser"},
    memory="quadratic",
    conventions=Conventions(
        alignment="bottom-right",
        empty_row="nan",
        masked_key="blocked",
        masked_value="leaks",
        clip_epsilon="1e-6",
        all_ignored="nan",
        narrowing="twice",
        e4m3fn_overflow="saturates",
        e5m2_overflow="infinity",
    ),
    paths={
        "linear": {"nn.Linear": linear_module},
        "layer_norm": {"nn.LayerNorm": layer_norm_module, "written out": layer_norm_steps},
        "rms_norm": {"nn.RMSNorm": rms_norm_module, "written out": rms_norm_steps},
        "embedding": {"nn.Embedding": embedding_module},
        "attention": {"recorded gradients": recorded_gradients(attention)},
        "rope": {"complex numbers": torch_positions.rope_complex},
        "dropout": {"nn.Dropout": torch_formats.dropout_module},
        "checkpointed_dropout": {"reentrant": torch_formats.checkpointed_reentrant},
        "cross_entropy": {
            "nn.CrossEntropyLoss": torch_losses.cross_entropy_module,
            "written out": torch_losses.cross_entropy_steps,
        },
        **torch_training.PATHS,
    },
)
