"""Rotary, sinusoidal and linear-bias positions written out in the plain operations of PyTorch."""

import math

import torch
from torch import Tensor

from gnomon.spec.configuration import Scaling


def rope(
    x: Tensor,
    positions: Tensor,
    *,
    base: float = 10000.0,
    rotary_width: int | None = None,
    layout: str = "half",
    scaling: Scaling | None = None,
) -> Tensor:
    """Pairs turned by four products, with cosines and sines cast to the dtype of x; its other features as they are."""
    width = rotary_width or x.shape[-1]
    cosine, sine = (table.to(x.dtype) for table in tables(x, positions, width, base, scaling))
    first, second = pairs(x[..., :width], layout)
    turned = joined(first * cosine - second * sine, second * cosine + first * sine, layout)
    return torch.cat([turned, x[..., width:]], -1)


def rope_complex(
    x: Tensor,
    positions: Tensor,
    *,
    base: float = 10000.0,
    rotary_width: int | None = None,
    layout: str = "half",
    scaling: Scaling | None = None,
) -> Tensor:
    """The same by products of complex numbers, cast to the dtype of x at the end."""
    width = rotary_width or x.shape[-1]
    members = (member.to(arithmetic(x)) for member in pairs(x[..., :width], layout))
    product = torch.complex(*members) * torch.complex(*tables(x, positions, width, base, scaling))
    return torch.cat([joined(product.real, product.imag, layout).to(x.dtype), x[..., width:]], -1)


def pairs(x: Tensor, layout: str) -> tuple[Tensor, Tensor]:
    """The first and second members of all pairs."""
    first, second = x.chunk(2, -1) if layout == "half" else (x[..., 0::2], x[..., 1::2])
    return first, second


def joined(first: Tensor, second: Tensor, layout: str) -> Tensor:
    """The members back in their places."""
    return torch.cat([first, second], -1) if layout == "half" else torch.stack([first, second], -1).flatten(-2)


def tables(x: Tensor, positions: Tensor, width: int, base: float, scaling: Scaling | None) -> tuple[Tensor, Tensor]:
    """Cosines and sines of all angles, `[..., 1, time, pairs]`, in float32 or, for float64, in that."""
    length = int(positions.max()) + 1
    angles = positions[..., None, :, None].to(arithmetic(x)) * frequencies(width, base, scaling, length, arithmetic(x))
    factor = attention_factor(scaling)
    return angles.cos() * factor, angles.sin() * factor


def arithmetic(x: Tensor) -> torch.dtype:
    """The dtype in which angles are formed."""
    return x.dtype if x.dtype == torch.float64 else torch.float32


def frequencies(width: int, base: float, scaling: Scaling | None, length: int, dtype: torch.dtype) -> Tensor:
    """The angle per position of every pair."""
    if scaling is not None and scaling.kind in ("ntk", "dynamic-ntk") and width > 2:
        base *= base_ratio(scaling, length) ** (width / (width - 2))
    plain = 1.0 / base ** (torch.arange(0, width, 2, dtype=dtype) / width)
    if scaling is None or scaling.kind in ("ntk", "dynamic-ntk"):
        return plain
    if scaling.kind == "linear":
        return plain / scaling.factor
    kept = kept_by_turns(plain, scaling) if scaling.kind == "llama3" else kept_by_index(plain, base, scaling)
    return (1 - kept) * plain / scaling.factor + kept * plain


def base_ratio(scaling: Scaling, length: int) -> float:
    """What the base is raised by: the factor, or as much of it as the length asks for."""
    if scaling.kind == "ntk":
        return scaling.factor
    return scaling.factor * max(length, scaling.original) / scaling.original - (scaling.factor - 1)


def kept_by_turns(plain: Tensor, scaling: Scaling) -> Tensor:
    """The share that is kept of each frequency, by how often it turns in the original context."""
    turns = scaling.original / (2 * math.pi / plain)
    return ((turns - scaling.low) / (scaling.high - scaling.low)).clamp(0, 1)


def kept_by_index(plain: Tensor, base: float, scaling: Scaling) -> Tensor:
    """The share that is kept of each frequency, by its place between the pairs of `high` and of `low` turns."""
    width = 2 * len(plain)
    turns = (scaling.high, scaling.low)
    first, last = (width * math.log(scaling.original / (2 * math.pi * n)) / (2 * math.log(base)) for n in turns)
    low, high = max(math.floor(first), 0), min(math.ceil(last), width - 1)
    return 1 - ((torch.arange(len(plain), dtype=plain.dtype) - low) / max(high - low, 1)).clamp(0, 1)


def attention_factor(scaling: Scaling | None) -> float:
    """What cosines and sines are multiplied by."""
    if scaling is None or scaling.kind != "yarn":
        return 1.0
    return 0.1 * math.log(scaling.factor) + 1 if scaling.attention_factor is None else scaling.attention_factor


def sinusoidal_positions(positions: Tensor, width: int) -> Tensor:
    """Sines and cosines in turn, in the default dtype."""
    powers = torch.exp(torch.arange(0, width, 2).to(torch.get_default_dtype()) * (-math.log(10000.0) / width))
    angles = positions[..., None] * powers
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


def alibi_slopes(heads: int) -> Tensor:
    """The series for the power of two at or below the number of heads, then every second term of the next one."""
    below = 2 ** math.floor(math.log2(heads))
    return torch.cat([series(below), series(2 * below)[::2][: heads - below]])


def series(heads: int) -> Tensor:
    """The powers of the ratio 2^(−8/heads), in the default dtype."""
    return torch.tensor(2 ** (-8 / heads)) ** torch.arange(1, heads + 1)
