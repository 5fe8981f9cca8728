"""Backward passes written by hand, and torch's, that differ in formula, order, blocking and what they store."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import regimes
import torch
from algorithms import (
    RULES,
    Algorithm,
    Contraction,
    Machine,
    by_library,
    divided,
    equation,
    erf,
    inner,
    one_by_one,
    pairwise,
    permuted,
    split,
)
from numpy.random import Generator
from regimes import Case, fill, length
from torch.nn import functional

from gnomon.spec.attention import share_heads
from gnomon.spec.constants import ROOT_HALF, ROOT_TWO_OVER_PI, TANH_CUBIC, inverse_root
from gnomon.spec.embedding import embedding
from gnomon.spec.evaluators import Evaluator, Quantity
from gnomon.spec.linear import linear
from gnomon.spec.precision import EVERYWHERE, FUSED, ONE_PASS
from gnomon.spec.rotary import attention_factor, frequencies

Gradients = dict[str, Any]
ABOVE = ("ordinary", "heavy-tails", "near-equal", "constant", "cancelling", "tiny", "powers-of-two")
CONTRACTIONS = (by_library, one_by_one, permuted, split, pairwise)
OWN = FUSED | {"gradient"}


def with_upstream(rng: Generator, case: Case, shape: tuple[int, ...]) -> Case:
    """The case with a gradient for its result."""
    return replace(case, arrays={**case.arrays, "upstream": fill(rng, str(rng.choice(ABOVE)), shape)})


def loaded(m: Machine, case: Case, *names: str) -> list[Any]:
    return [m.load(case.arrays[n]) if n in case.arrays else None for n in (*names, "upstream")]


def kept(m: Machine, **gradients: Any) -> Gradients:
    """Gradients as they are given back, of the dtype."""
    return {name: m.keep(g, "out") for name, g in gradients.items() if g is not None}


def turned(a: Any) -> Any:
    return a.swapaxes(-1, -2)


def rows_of(a: Any) -> Any:
    """All rows of a batch one after another."""
    return a.reshape(-1, a.shape[-1])


# Linear layers: gradients by the weight of a batch are one sum, in any order.


def linear_case(rng: Generator, regime: str) -> Case:
    case = regimes.linear_case(rng, regime)
    x = case.arrays["x"]
    batch = int(rng.integers(1, 4))
    arrays = {**case.arrays, "x": fill(rng, regime, (batch, *x.shape[1:]))}
    return with_upstream(rng, replace(case, arrays=arrays), (batch, x.shape[1], case.arrays["weight"].shape[0]))


def flat_linear(m: Machine, case: Case, contract: Contraction) -> Gradients:
    x, weight, bias, g = loaded(m, case, "x", "weight", "bias")
    by_bias = None if bias is None else contract(np.ones((1, rows_of(g).shape[0]), m.work), rows_of(g))[0]
    return kept(m, x=contract(g, weight), weight=contract(turned(rows_of(g)), rows_of(x)), bias=by_bias)


def linear_by_row(m: Machine, case: Case) -> Gradients:
    """Outer products added one after another."""
    x, weight, bias, g = loaded(m, case, "x", "weight", "bias")
    by_weight, by_bias = np.zeros(weight.shape, m.work), np.zeros(weight.shape[0], m.work)
    for row, above in zip(rows_of(x), rows_of(g), strict=True):
        by_weight, by_bias = by_weight + above[:, None] * row, by_bias + above
    return kept(m, x=g @ weight, weight=by_weight, bias=None if bias is None else by_bias)


def linear_by_item(m: Machine, case: Case) -> Gradients:
    """One product for each item of the batch, added afterwards."""
    x, weight, bias, g = loaded(m, case, "x", "weight", "bias")
    by_bias = None if bias is None else g.sum(1).sum(0)
    return kept(m, x=g @ weight, weight=(turned(g) @ x).sum(0), bias=by_bias)


def by_autograd(m: Machine, case: Case, function: Callable[..., Any], names: tuple[str, ...] = ()) -> Gradients:
    """What torch gives."""
    taken = {n: m.tensor(a) for n, a in case.arrays.items()}
    above, own = taken.pop("upstream"), {n: t.requires_grad_() for n, t in taken.items() if not names or n in names}
    out = function(case, taken)
    found = torch.autograd.grad(out, list(own.values()), above)
    return {n: g.detach().double().numpy() for n, g in zip(own, found, strict=True)}


def torch_algorithm(name: str, sites: frozenset[str], function: Any, names: tuple[str, ...] = ()) -> Algorithm:
    return Algorithm(name, sites, partial(by_autograd, function=function, names=names))


def torch_linear(case: Case, t: Any) -> Any:
    return functional.linear(t["x"], t["weight"], t.get("bias"))


LINEAR = (
    *(Algorithm(f.__name__, FUSED, partial(flat_linear, contract=f)) for f in CONTRACTIONS),
    Algorithm("row by row", FUSED, linear_by_row),
    Algorithm("item by item", FUSED, linear_by_item),
    torch_algorithm("torch", FUSED, torch_linear),
)


# Three projections of one input.

PROJECTIONS = ("query", "key", "value")


def projections_case(rng: Generator, regime: str) -> Case:
    rows, width, outer = length(rng, 12), length(rng, 64), length(rng, 24)
    arrays = {"x": fill(rng, regime, (1, rows, width))}
    arrays |= {n: fill(rng, "ordinary", (outer, width), "right") for n in PROJECTIONS}
    case = Case(regime=regime, arrays=arrays, options={})
    return with_upstream(rng, case, (1, rows, 3 * outer))


def projections(E: Evaluator, a: Mapping[str, Any]) -> Quantity:
    x = E.number(a["x"])
    return E.concat([linear(E, x, a[n]) for n in PROJECTIONS], -1)


def as_one_product(m: Machine, case: Case, contract: Contraction) -> Gradients:
    x, *weights, g = loaded(m, case, "x", *PROJECTIONS)
    whole = np.concatenate(weights)
    by_weight = np.split(contract(turned(g), x)[0], 3)
    return kept(m, x=contract(g, whole), **dict(zip(PROJECTIONS, by_weight, strict=True)))


def one_after_another(m: Machine, case: Case, order: tuple[int, ...]) -> Gradients:
    x, *weights, g = loaded(m, case, "x", *PROJECTIONS)
    parts = np.split(g, 3, -1)
    back = [m.keep(part @ weight, "gradient") for part, weight in zip(parts, weights, strict=True)]
    total = back[order[0]]
    for i in order[1:]:
        total = m.keep(total + back[i], "gradient")
    return kept(m, x=total, **{n: turned(p)[0] @ x[0] for n, p in zip(PROJECTIONS, parts, strict=True)})


def torch_projections(case: Case, t: Any) -> Any:
    return torch.cat([functional.linear(t["x"], t[n]) for n in PROJECTIONS], -1)


PROJECTED = (
    *(Algorithm(f.__name__, FUSED, partial(as_one_product, contract=f)) for f in (by_library, pairwise)),
    *(Algorithm(f"one by one {o}", OWN, partial(one_after_another, order=o)) for o in ((0, 1, 2), (2, 0, 1))),
    torch_algorithm("torch", OWN, torch_projections),
)


# Softmax.


def softmax_case(rng: Generator, regime: str) -> Case:
    case = regimes.softmax_case(rng, regime)
    return with_upstream(rng, case, case.arrays["logits"].shape)


def less_the_mean(m: Machine, p: Any, g: Any) -> Any:
    return p * (g - (p * g).sum(-1, keepdims=True))


def product_less_product(m: Machine, p: Any, g: Any) -> Any:
    product = p * g
    return product - p * product.sum(-1, keepdims=True)


def by_jacobian(m: Machine, p: Any, g: Any) -> Any:
    """One entry after another, by the whole matrix of derivatives."""
    eye = np.eye(p.shape[-1], dtype=m.work)
    return ((p[..., None] * (eye - p[..., None, :])) * g[..., None]).sum(-2)


BACK = (less_the_mean, product_less_product)


def numpy_softmax(m: Machine, case: Case, rule: Any, back: Any, stored: bool = False) -> Gradients:
    logits, g = loaded(m, case, "logits")
    p = rule(m, logits)
    return kept(m, logits=back(m, m.keep(p, "out") if stored else p, g))


def torch_softmax(case: Case, t: Any) -> Any:
    return torch.softmax(t["logits"], -1)


SOFTMAX = (
    *(
        Algorithm(f"{r.__name__}, {b.__name__}", FUSED, partial(numpy_softmax, rule=r, back=b))
        for r in RULES
        for b in BACK
    ),
    Algorithm("by the Jacobian", FUSED, partial(numpy_softmax, rule=divided, back=by_jacobian)),
    *(
        Algorithm(f"stored, {b.__name__}", EVERYWHERE, partial(numpy_softmax, rule=divided, back=b, stored=True))
        for b in BACK
    ),
    torch_algorithm("torch", EVERYWHERE, torch_softmax),
)


# Attention.


def attention_case(rng: Generator, regime: str) -> Case:
    case = regimes.attention_case(rng, regime)
    arrays = {n: a for n, a in case.arrays.items() if n != "sink"}
    query, value = case.arrays["query"], case.arrays["value"]
    return with_upstream(rng, replace(case, arrays=arrays), (*query.shape[:-1], value.shape[-1]))


def read(m: Machine, case: Case) -> tuple[Any, ...]:
    """Queries, keys and values of every head, the gradient above, the scores, minus infinity where masked."""
    query, key, value, bias, g = loaded(m, case, "query", "key", "value", "bias")
    key, value = (share_heads(a, query.shape[-3], "grouped") for a in (key, value))
    scale = m.constant(case.options.get("scale") or inverse_root(query.shape[-1]))
    s = query @ turned(key) * scale
    s = s if bias is None else s + bias
    seen = case.options.get("allowed")
    return query, key, value, g, s if seen is None else np.where(seen, s, -np.inf), scale


def by_readers(m: Machine, case: Case, left: Any, right: Any, stored: bool) -> Any:
    """leftᵀ·right of every shared head: of all its readers at once, or one by one, stored."""
    shared = case.arrays["key"].shape[-3]
    each = left.shape[-3] // shared
    if stored:
        apart = m.keep(turned(left) @ right, "gradient").reshape(1, shared, each, left.shape[-1], right.shape[-1])
        total = apart[:, :, 0]
        for i in range(1, each):
            total = m.keep(total + apart[:, :, i], "gradient")
        return total
    one, other = (a.reshape(1, shared, each * a.shape[-2], a.shape[-1]) for a in (left, right))
    return turned(one) @ other


def seen_rows(s: Any) -> Any:
    """Rows that see something; the others take no part."""
    return np.isfinite(s).any(-1, keepdims=True)


def weights_of(m: Machine, s: Any, rule: Any) -> Any:
    some = seen_rows(s)
    return np.where(some, rule(m, np.where(some, s, 0)), 0)


def from_logarithm(m: Machine, s: Any) -> Any:
    """As a kernel has them that kept the logarithm of each row's total alone."""
    top = s.max(-1, keepdims=True)
    total = top + np.log(np.exp(s - top).sum(-1, keepdims=True))
    return np.exp(s - total)


def from_logarithm_in_base_two(m: Machine, s: Any) -> Any:
    log2_e = m.work(1.4426950408889634)
    top = s.max(-1, keepdims=True)
    total = top * log2_e + np.log2(np.exp2(s * log2_e - top * log2_e).sum(-1, keepdims=True))
    return np.exp2(s * log2_e - total)


def numpy_attention(
    m: Machine, case: Case, rule: Any = divided, back: Any = less_the_mean, by_output: bool = False,
    stored: bool = False, scaled_first: bool = False,
) -> Gradients:  # fmt: skip
    query, key, value, g, s, scale = read(m, case)
    p = weights_of(m, s, rule)
    cast = m.keep(p, "probs")
    moved = g @ turned(value)
    if by_output:
        mean = (g * m.keep(cast @ value, "out")).sum(-1, keepdims=True)
        ds = p * (moved - mean)
    else:
        ds = back(m, p, moved)
    ds = m.keep(ds, "probs")
    if scaled_first:
        ds = m.keep(ds * scale, "gradient")
    after = m.work(1) if scaled_first else scale
    by_key = by_readers(m, case, ds, query, stored) * after
    return kept(m, query=ds @ key * after, key=by_key, value=by_readers(m, case, cast, g, stored))


def tiled_attention(m: Machine, case: Case, rows: int, columns: int) -> Gradients:
    """A kernel's two loops: weights from the logarithms of totals, rowsum(dO·O), sums grown tile by tile."""
    query, key, value, g, s, scale = read(m, case)
    some = seen_rows(s)
    s = np.where(some, s, 0)
    top = s.max(-1, keepdims=True)
    total = top + np.log(np.exp(s - top).sum(-1, keepdims=True))
    out = m.keep(
        np.where(some, m.keep(np.exp(s - top), "probs") @ value / np.exp(s - top).sum(-1, keepdims=True), 0), "out"
    )
    delta = (g * out).sum(-1, keepdims=True)
    by_query, by_key, by_value = np.zeros_like(query), np.zeros_like(key), np.zeros_like(value)
    for j in range(0, key.shape[-2], columns):
        k, v = key[..., j : j + columns, :], value[..., j : j + columns, :]
        for i in range(0, query.shape[-2], rows):
            r, c = slice(i, i + rows), slice(j, j + columns)
            p = np.where(some[..., r, :], np.exp(s[..., r, c] - total[..., r, :]), 0)
            by_value[..., c, :] += turned(m.keep(p, "probs")) @ g[..., r, :]
            ds = m.keep(p * (g[..., r, :] @ turned(v) - delta[..., r, :]), "probs")
            by_key[..., c, :] += turned(ds) @ query[..., r, :] * scale
            by_query[..., r, :] += ds @ k * scale
    shared = case.arrays["key"].shape[-3]
    by_key, by_value = (a.reshape(1, shared, -1, *a.shape[-2:]).sum(2) for a in (by_key, by_value))
    return kept(m, query=by_query, key=by_key, value=by_value)


def uncapped(run: Callable[[Machine, Case], Gradients]) -> Callable[[Machine, Case], Gradients | None]:
    """The algorithm where scores are not capped, which the others leave out."""
    return lambda m, case: None if "softcap" in case.options else run(m, case)


def torch_attention(case: Case, t: Any) -> Any:
    """Attention written out."""
    heads, seen = t["query"].shape[-3], case.options.get("allowed")
    key, value = (t[n].repeat_interleave(heads // t[n].shape[-3], -3) for n in ("key", "value"))
    s = t["query"] @ key.mT * float(case.options.get("scale") or inverse_root(t["query"].shape[-1]))
    cap = case.options.get("softcap")
    s = s if cap is None else torch.tanh(s / cap) * cap
    s = s if "bias" not in t else s + t["bias"]
    if seen is None:
        return torch.softmax(s, -1) @ value
    some = torch.tensor(np.broadcast_to(seen.any(-1, keepdims=True), s.shape))
    p = torch.softmax(s.masked_fill(torch.tensor(~seen) & some, -torch.inf), -1)
    return torch.where(some, p, 0) @ value


def torch_sdpa(case: Case, t: Any) -> Any:
    seen, bias = case.options.get("allowed"), t.get("bias")
    mask = bias if seen is None else torch.tensor(seen)
    if seen is not None and bias is not None:
        mask = bias.masked_fill(torch.tensor(~seen), -torch.inf)
    scale = float(case.options.get("scale") or inverse_root(t["query"].shape[-1]))
    shared = t["key"].shape[-3] != t["query"].shape[-3]
    return functional.scaled_dot_product_attention(
        t["query"], t["key"], t["value"], attn_mask=mask, scale=scale, enable_gqa=shared
    )


_BY = ("query", "key", "value")
ATTENTION = (
    *(Algorithm(f"{b.__name__}", FUSED, uncapped(partial(numpy_attention, back=b))) for b in BACK),
    Algorithm("by the output", FUSED, uncapped(partial(numpy_attention, by_output=True))),
    *(
        Algorithm(f.__name__, FUSED, uncapped(partial(numpy_attention, rule=f, by_output=b)))
        for f in (from_logarithm, from_logarithm_in_base_two)
        for b in (False, True)
    ),
    *(
        Algorithm(
            f"head by head, {b}, {f}", OWN, uncapped(partial(numpy_attention, by_output=b, stored=True, scaled_first=f))
        )
        for b in (False, True)
        for f in (False, True)
    ),
    *(
        Algorithm(f"tiles of {r} by {c}", FUSED, uncapped(partial(tiled_attention, rows=r, columns=c)))
        for r, c in ((4, 8), (16, 3))
    ),
    torch_algorithm("torch, step by step", EVERYWHERE, torch_attention, _BY),
    Algorithm("torch, fused", EVERYWHERE, uncapped(partial(by_autograd, function=torch_sdpa, names=_BY))),
)


# Multi-head attention: three projections, or one of all weights, attention, and the output's.


def multi_head_case(rng: Generator, regime: str) -> Case:
    case = regimes.multi_head_case(rng, regime)
    return with_upstream(rng, case, case.arrays["x"].shape)


def torch_heads(case: Case, t: Any, fused: bool, attend: Any) -> Any:
    """The heads of every projection, attention of any kind, and the heads merged."""
    heads, shared = case.options["heads"], case.options["kv_heads"]
    biases = [t.get(f"{n}_bias") for n in PROJECTIONS]
    if fused:
        bias = None if biases[0] is None else torch.cat(biases)
        whole = functional.linear(t["x"], torch.cat([t[f"{n}_weight"] for n in PROJECTIONS]), bias)
        parts = whole.split([t[f"{n}_weight"].shape[0] for n in PROJECTIONS], -1)
    else:
        parts = [functional.linear(t["x"], t[f"{n}_weight"], b) for n, b in zip(PROJECTIONS, biases, strict=True)]
    counts = (heads, shared, shared)
    apart = [p.unflatten(-1, (n, -1)).transpose(-2, -3) for p, n in zip(parts, counts, strict=True)]
    inside = Case(regime="", arrays={}, options={"allowed": case.options["allowed"]})
    mixed = attend(inside, dict(zip(PROJECTIONS, apart, strict=True)))
    return functional.linear(mixed.transpose(-2, -3).flatten(-2), t["output_weight"], t.get("output_bias"))


MULTI_HEAD = tuple(
    torch_algorithm(
        f"torch, {'one' if f else 'three'}, {a.__name__}", EVERYWHERE, partial(torch_heads, fused=f, attend=a)
    )
    for f in (False, True)
    for a in (torch_attention, torch_sdpa)
)


# Norms.


def norm_case(rng: Generator, regime: str, biased: bool) -> Case:
    case = regimes.layer_norm_case(rng, regime) if biased else regimes.rms_norm_case(rng, regime)
    return with_upstream(rng, case, case.arrays["x"].shape)


def statistics(m: Machine, x: Any, case: Case, centred: bool) -> tuple[Any, Any]:
    mean = x.mean(-1, keepdims=True) if centred else np.zeros((*x.shape[:-1], 1), m.work)
    square = ((x - mean) ** 2).mean(-1, keepdims=True)
    return mean, 1 / np.sqrt(square + m.work(case.options["eps"]))


def mean_of(a: Any) -> Any:
    return a.mean(-1, keepdims=True)


def projected(m: Machine, x: Any, g: Any, mean: Any, r: Any, centred: bool) -> Any:
    """r·(g − mean g − y·mean g·y)."""
    y = (x - mean) * r
    flat = g - mean_of(g) if centred else g
    return r * (flat - y * mean_of(g * y))


def projected_last(m: Machine, x: Any, g: Any, mean: Any, r: Any, centred: bool) -> Any:
    """(n·g − Σg − y·Σg·y)·r/n."""
    y, n = (x - mean) * r, m.work(x.shape[-1])
    flat = n * g - g.sum(-1, keepdims=True) if centred else n * g
    return (flat - y * (g * y).sum(-1, keepdims=True)) * (r / n)


def along_the_row(m: Machine, x: Any, g: Any, mean: Any, r: Any, centred: bool) -> Any:
    """r·g + a·x + b, with two numbers of the row."""
    n = m.work(x.shape[-1])
    along, whole = (g * x).sum(-1, keepdims=True), g.sum(-1, keepdims=True)
    slope = (whole * mean - along) * r**3 / n
    return r * g + slope * x + (-slope * mean - whole * r / n if centred else 0)


def step_by_step(m: Machine, x: Any, g: Any, mean: Any, r: Any, centred: bool) -> Any:
    """Through the root, the square and the mean one after another."""
    kept_row, n = x - mean, m.work(x.shape[-1])
    by_square = (g * kept_row).sum(-1, keepdims=True) * m.work(-0.5) * r**3
    back = g * r + by_square * 2 * kept_row / n
    return back - mean_of(back) if centred else back


def numpy_norm(m: Machine, case: Case, rule: Any, centred: bool, eager: bool = False) -> Gradients:
    x, weight, bias, g = loaded(m, case, "x", "weight", "bias")
    mean, r = statistics(m, x, case, centred)
    y = m.keep((x - mean) * r, "normed")
    scaled = m.keep(g * weight, "gradient")
    by_weight = m.keep(g * y, "gradient") if eager else g * y
    by_bias = None if bias is None else rows_of(g).sum(0)
    return kept(m, x=rule(m, x, scaled, mean, r, centred), weight=rows_of(by_weight).sum(0), bias=by_bias)


def torch_layer_norm(case: Case, t: Any) -> Any:
    return functional.layer_norm(t["x"], t["weight"].shape, t["weight"], t.get("bias"), case.options["eps"])


def torch_rms_norm(case: Case, t: Any) -> Any:
    return functional.rms_norm(t["x"], t["weight"].shape, t["weight"], case.options["eps"])


def torch_rms_norm_in_float32(case: Case, t: Any) -> Any:
    """As models write it."""
    x = t["x"] if t["x"].dtype == torch.float64 else t["x"].float()
    y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + case.options["eps"])
    return t["weight"] * y.to(t["x"].dtype)


FORMULAS = (projected, projected_last, along_the_row, step_by_step)


def norms(centred: bool) -> tuple[Algorithm, ...]:
    own = (Algorithm(f.__name__, FUSED, partial(numpy_norm, rule=f, centred=centred)) for f in FORMULAS)
    eager = partial(numpy_norm, rule=projected, centred=centred, eager=True)
    return *own, Algorithm("stored", EVERYWHERE, eager)


def layer_norm_by_torch(m: Machine, case: Case) -> Gradients | None:
    """In 16 bits it keeps mean and spread in 16 bits for the way back, which no site permits."""
    return None if m.precision.narrow else by_autograd(m, case, torch_layer_norm)


def statistics_in_storage(m: Machine, case: Case) -> Gradients:
    """A false one: the gradient of the gain by a mean and a spread of 16 bits."""
    x, g = loaded(m, case, "x")
    mean, r = (a.astype(m.precision.storage.dtype).astype(m.work) for a in statistics(m, x, case, True))
    return kept(m, weight=rows_of(g * (x - mean) * r).sum(0))


def in_one_pass(m: Machine, case: Case, rule: Any) -> Gradients:
    """With the mean of the squares less the square of the mean."""
    x, weight, bias, g = loaded(m, case, "x", "weight", "bias")
    mean = mean_of(x)
    r = 1 / np.sqrt(np.maximum(mean_of(x * x) - mean * mean, 0) + m.work(case.options["eps"]))
    by_bias = None if bias is None else rows_of(g).sum(0)
    by_weight = rows_of(g * (x - mean) * r).sum(0)
    return kept(m, x=rule(m, x, g * weight, mean, r, True), weight=by_weight, bias=by_bias)


IN_ONE_PASS = tuple(
    Algorithm(f"in one pass, {f.__name__}", FUSED | {ONE_PASS}, partial(in_one_pass, rule=f))
    for f in (projected, along_the_row)
)
LAYER_NORM = (*norms(True), *IN_ONE_PASS, Algorithm("torch", FUSED, layer_norm_by_torch))
RMS_NORM = (
    *norms(False),
    torch_algorithm("torch", EVERYWHERE, torch_rms_norm),
    torch_algorithm("torch, in float32", EVERYWHERE, torch_rms_norm_in_float32),
)


# Activations: their derivatives in closed form.


def activation_case(rng: Generator, regime: str) -> Case:
    case = regimes.activation_case(rng, regime)
    return with_upstream(rng, case, case.arrays["x"].shape)


def gelu_slope(m: Machine, x: Any) -> Any:
    density = np.exp(-x * x / 2) * m.work(0.3989422804014327)
    return m.work(0.5) * (1 + erf(m, x * m.constant(ROOT_HALF))) + x * density


def gelu_slope_by_ndtr(m: Machine, x: Any) -> Any:
    return torch.special.ndtr(torch.tensor(x)).numpy() + x * np.exp(m.work(-0.5) * x * x) / np.sqrt(m.work(2 * np.pi))


def gelu_tanh_slope(m: Machine, x: Any) -> Any:
    t = np.tanh(inner(m, x))
    steep = m.constant(ROOT_TWO_OVER_PI) * (1 + 3 * m.constant(TANH_CUBIC) * x * x)
    return m.work(0.5) * (1 + t) + m.work(0.5) * x * (1 - t * t) * steep


def gelu_tanh_slope_by_sigmoid(m: Machine, x: Any) -> Any:
    s = sigmoid(m, 2 * inner(m, x))
    steep = m.constant(ROOT_TWO_OVER_PI) * (1 + 3 * m.constant(TANH_CUBIC) * x * x)
    return s + 2 * x * s * (1 - s) * steep


def sigmoid(m: Machine, x: Any) -> Any:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, m.work(1), small) / (1 + small)


def silu_slope(m: Machine, x: Any) -> Any:
    s = sigmoid(m, x)
    return s * (1 + x * (1 - s))


def silu_slope_by_output(m: Machine, x: Any) -> Any:
    s = sigmoid(m, x)
    y = x * s
    return y + s * (1 - y)


def silu_slope_by_sums(m: Machine, x: Any) -> Any:
    s = sigmoid(m, x)
    return s + x * (s - s * s)


def relu_slope(m: Machine, x: Any) -> Any:
    return (x > 0).astype(m.work)


SLOPES: Mapping[str, tuple[Any, ...]] = {
    "relu": (relu_slope,),
    "gelu": (gelu_slope, gelu_slope_by_ndtr),
    "gelu_tanh": (gelu_tanh_slope, gelu_tanh_slope_by_sigmoid),
    "silu": (silu_slope, silu_slope_by_output, silu_slope_by_sums),
}
TORCH = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
}


STEPS: Mapping[str, Any] = {
    "gelu": lambda case, t: t["x"] * ((1 + torch.erf(t["x"] * float(ROOT_HALF))) * 0.5),
    "gelu_tanh": lambda case, t: (
        t["x"]
        * ((1 + torch.tanh((t["x"] + t["x"] * t["x"] * t["x"] * float(TANH_CUBIC)) * float(ROOT_TWO_OVER_PI))) * 0.5)
    ),
    "silu": lambda case, t: t["x"] * torch.sigmoid(t["x"]),
}


def through(m: Machine, name: str, x: Any, g: Any) -> Any:
    """What an activation gives back; nothing of a dead unit, whatever lies above it."""
    return np.where(x > 0, g, 0) if name == "relu" else g * SLOPES[name][0](m, x)


def numpy_activation(m: Machine, case: Case, slope: Any) -> Gradients:
    x, g = loaded(m, case, "x")
    return kept(m, x=g * slope(m, x))


def activations(name: str) -> tuple[Algorithm, ...]:
    own = (Algorithm(f.__name__, FUSED, partial(numpy_activation, slope=f)) for f in SLOPES[name])
    steps = [torch_algorithm("torch, step by step", EVERYWHERE, STEPS[name])] if name in STEPS else []
    return *own, torch_algorithm("torch", FUSED, lambda case, t: TORCH[name](t["x"])), *steps


# Feed-forward networks.


def feed_forward_case(rng: Generator, regime: str) -> Case:
    case = regimes.feed_forward_case(rng, regime)
    return with_upstream(rng, case, case.arrays["x"].shape)


def torch_feed_forward(case: Case, t: Any) -> Any:
    def project(name: str, x: Any) -> Any:
        return functional.linear(x, t[f"{name}_weight"], t.get(f"{name}_bias"))

    act, up = TORCH[case.options["activation"]], project("up", t["x"])
    return project("down", act(project("gate", t["x"])) * up if "gate_weight" in t else act(up))


VALUES = {
    "relu": lambda m, x: np.maximum(x, 0),
    "gelu": lambda m, x: m.work(0.5) * x * (1 + erf(m, x * m.constant(ROOT_HALF))),
    "gelu_tanh": lambda m, x: m.work(0.5) * x * (1 + np.tanh(inner(m, x))),
    "silu": lambda m, x: x * sigmoid(m, x),
}


def numpy_feed_forward(m: Machine, case: Case, contract: Contraction, replayed: bool) -> Gradients:
    """Every product by one order of summation; what is below the last matrix stored, or computed again in float32."""
    a, name = {n: m.load(x) for n, x in case.arrays.items()}, case.options["activation"]

    def held(x: Any) -> Any:
        return x if replayed else m.keep(x, "hidden")

    def project(n: str) -> Any:
        out = contract(a["x"], turned(a[f"{n}_weight"]))
        return held(out + a[f"{n}_bias"] if f"{n}_bias" in a else out)

    def back(n: str, g: Any, x: Any) -> Gradients:
        bias = {f"{n}_bias": rows_of(g).sum(0)} if f"{n}_bias" in a else {}
        return {f"{n}_weight": contract(turned(rows_of(g)), rows_of(x)), **bias}

    g, up = a["upstream"], project("up")
    below = m.keep(contract(g, a["down_weight"]), "gradient")
    if "gate_weight" in a:
        gate = project("gate")
        acted = held(VALUES[name](m, gate))
        middle = held(acted * up)
        by_up = m.keep(below * acted, "gradient")
        by_gate = m.keep(through(m, name, gate, m.keep(below * up, "gradient")), "gradient")
        both = np.concatenate([by_up, by_gate], -1)
        whole = np.concatenate([a["up_weight"], a["gate_weight"]])
        found = back("up", by_up, a["x"]) | back("gate", by_gate, a["x"]) | {"x": contract(both, whole)}
    else:
        middle = held(VALUES[name](m, up))
        by_up = m.keep(through(m, name, up, below), "gradient")
        found = back("up", by_up, a["x"]) | {"x": contract(by_up, a["up_weight"])}
    return kept(m, **found, **back("down", g, middle))


FEED_FORWARD = (
    *(
        Algorithm(f"{f.__name__}, {r}", EVERYWHERE, partial(numpy_feed_forward, contract=f, replayed=r))
        for f in (by_library, pairwise)
        for r in (False, True)
    ),
    torch_algorithm("torch", EVERYWHERE, torch_feed_forward),
)


# Rotations.


def rope_case(rng: Generator, regime: str) -> Case:
    case = regimes.rope_case(rng, regime)
    return with_upstream(rng, case, case.arrays["x"].shape)


def tables(m: Machine, case: Case) -> tuple[Any, Any, Any]:
    rotary, where = case.options["rotary"], case.options["positions"]
    width = rotary.width or case.arrays["x"].shape[-1]
    rates = frequencies(width, rotary, int(where.max()) + 1)[0].astype(m.work)
    angles = where[:, None].astype(m.work) * rates
    return np.cos(angles), np.sin(angles), width


def turned_back(m: Machine, case: Case, complex_numbers: bool, stored: bool) -> Gradients:
    (g,) = loaded(m, case)
    cosine, sine, width = tables(m, case)
    half, rotary = width // 2, case.options["rotary"]
    if stored:
        cosine, sine = m.keep(cosine, "angles"), m.keep(sine, "angles")
    factor = attention_factor(rotary.scaling)[0]
    if factor != 1:
        cosine, sine = (m.keep(a * m.work(factor), "angles") if stored else a * m.work(factor) for a in (cosine, sine))
    part = g[..., :width]
    one, other = (part[..., :half], part[..., half:]) if rotary.layout == "half" else (part[..., ::2], part[..., 1::2])
    if complex_numbers:
        whole = (one + 1j * other) * (cosine - 1j * sine)
        first, second = whole.real.astype(m.work), whole.imag.astype(m.work)
    else:
        terms = one * cosine, other * sine, other * cosine, one * sine
        a, b, c, d = (m.keep(t, "turned") for t in terms) if stored else terms
        first, second = a + b, c - d
    back = (
        np.concatenate([first, second], -1)
        if rotary.layout == "half"
        else np.stack([first, second], -1).reshape(part.shape)
    )
    return kept(m, x=np.concatenate([back, g[..., width:]], -1))


ROPE = (
    Algorithm("turned back", FUSED, partial(turned_back, complex_numbers=False, stored=False)),
    Algorithm("as complex numbers", FUSED, partial(turned_back, complex_numbers=True, stored=False)),
    Algorithm("stored", EVERYWHERE, partial(turned_back, complex_numbers=False, stored=True)),
)


# Look-ups.


def embedding_case(rng: Generator, regime: str) -> Case:
    rows, width, count = length(rng, 12), length(rng, 16), length(rng, 48)
    ids = rng.integers(0, rows, (1, count))
    case = Case(regime=regime, arrays={"table": fill(rng, regime, (rows, width))}, options={"ids": ids})
    return with_upstream(rng, case, (1, count, width))


def scattered(m: Machine, case: Case, order: str) -> Gradients:
    """Rows added in turn, each sum stored or not, backwards, or as a product with the one-hot matrix."""
    table, g = loaded(m, case, "table")
    ids, rows = case.options["ids"].ravel(), rows_of(g)
    if order == "product":
        hot = (ids[:, None] == np.arange(len(table))).astype(m.work)
        return kept(m, table=turned(hot) @ rows)
    whole = np.zeros(table.shape, m.work)
    for i in range(len(ids))[:: -1 if order == "backwards" else 1]:
        whole[ids[i]] = m.keep(whole[ids[i]] + rows[i], "gradient") if order == "stored" else whole[ids[i]] + rows[i]
    return kept(m, table=whole)


def torch_embedding(case: Case, t: Any) -> Any:
    return functional.embedding(torch.tensor(case.options["ids"]), t["table"])


EMBEDDING = (
    *(
        Algorithm(o, OWN if o == "stored" else FUSED, partial(scattered, order=o))
        for o in ("turn", "backwards", "product", "stored")
    ),
    torch_algorithm("torch", OWN, torch_embedding),
)


# Cross-entropy.


def loss_case(rng: Generator, regime: str) -> Case:
    rows, words = length(rng, 12), length(rng, 64, 256)
    options = {"targets": rng.integers(0, words, (1, rows)), "reduction": "none"}
    case = Case(regime=regime, arrays={"logits": fill(rng, regime, (1, rows, words))}, options=options)
    return with_upstream(rng, case, (1, rows))


def weights_less_one(m: Machine, case: Case, rule: Any) -> Gradients:
    logits, g = loaded(m, case, "logits")
    hot = (case.options["targets"][..., None] == np.arange(logits.shape[-1])).astype(m.work)
    return kept(m, logits=(rule(m, logits) - hot) * g[..., None])


def weights_from_loss(m: Machine, case: Case, stored: bool) -> Gradients:
    """e^(log p) of the log-probabilities that were kept."""
    logits, g = loaded(m, case, "logits")
    top = logits.max(-1, keepdims=True)
    logarithm = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    hot = (case.options["targets"][..., None] == np.arange(logits.shape[-1])).astype(m.work)
    logarithm = m.keep(logarithm, "logprobs") if stored else logarithm
    return kept(m, logits=-hot * g[..., None] + np.exp(logarithm) * g[..., None])


def torch_loss(case: Case, t: Any) -> Any:
    logits, targets = t["logits"], torch.tensor(case.options["targets"])
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").reshape(targets.shape)


LOSS = (
    *(Algorithm(r.__name__, FUSED, partial(weights_less_one, rule=r)) for r in RULES),
    Algorithm("from the logarithm", FUSED, partial(weights_from_loss, stored=False)),
    Algorithm("from the stored logarithm", EVERYWHERE, partial(weights_from_loss, stored=True)),
    torch_algorithm("torch", EVERYWHERE, torch_loss),
)


ALGORITHMS: Mapping[str, tuple[Algorithm, ...]] = {
    "linear": LINEAR,
    "projections": PROJECTED,
    "softmax": SOFTMAX,
    "attention": ATTENTION,
    "multi_head_attention": MULTI_HEAD,
    "layer_norm": LAYER_NORM,
    "rms_norm": RMS_NORM,
    **{name: activations(name) for name in SLOPES},
    "feed_forward": FEED_FORWARD,
    "rope": ROPE,
    "embedding": EMBEDDING,
    "cross_entropy": LOSS,
}
DRAW: Mapping[str, Callable[[Generator, str], Case]] = {
    "linear": linear_case,
    "projections": projections_case,
    "softmax": softmax_case,
    "attention": attention_case,
    "multi_head_attention": multi_head_case,
    "layer_norm": partial(norm_case, biased=True),
    "rms_norm": partial(norm_case, biased=False),
    **dict.fromkeys(SLOPES, activation_case),
    "feed_forward": feed_forward_case,
    "rope": rope_case,
    "embedding": embedding_case,
    "cross_entropy": loss_case,
}


def forward(op: str, case: Case) -> Callable[[Evaluator, Mapping[str, Any]], Quantity]:
    """The equation of the case, of what gradients are asked by."""
    still = {n: a for n, a in case.arrays.items() if n == "bias" and op == "attention"}

    def run(E: Evaluator, taken: Mapping[str, Any]) -> Quantity:
        if op == "projections":
            return projections(E, taken)
        if op == "embedding":
            return embedding(E, taken["table"], case.options["ids"])
        return equation(E, op, replace(case, arrays={**taken, **still}))

    return run


def arguments(op: str, case: Case) -> dict[str, Any]:
    """By what gradients are asked."""
    apart = {"upstream", *(("bias",) if op == "attention" else ())}
    return {n: a for n, a in case.arrays.items() if n not in apart}
