"""Correct algorithms for each operation that differ in order, blocking, fusion and what they store."""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from losses import losses
from regimes import Case
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from gnomon.spec.attention import attention, softmax
from gnomon.spec.configuration import Rotary
from gnomon.spec.constants import ROOT_HALF, ROOT_TWO_OVER_PI, TANH_CUBIC, Constant, inverse_root
from gnomon.spec.evaluators import Evaluator, Quantity
from gnomon.spec.heads import multi_head_attention
from gnomon.spec.linear import activate, feed_forward, linear
from gnomon.spec.loss import cross_entropy
from gnomon.spec.norms import layer_norm, rms_norm
from gnomon.spec.order import alibi_slopes, sinusoidal_positions
from gnomon.spec.precision import EAGER, EVERYWHERE, FUSED, ONE_PASS, declared
from gnomon.spec.rotary import rope

Contraction = Callable[[Any, Any], Any]
_LOG2_E = 1 / math.log(2)


class Machine:
    """NumPy arithmetic of one declared precision: float32 between stores where storage is narrower."""

    def __init__(self, dtype: str, sites: frozenset[str]):
        self.dtype, self.precision = dtype, declared(dtype, sites)
        self.work: Any = np.float64 if dtype == "float64" else np.float32

    def load(self, a: Any) -> Any:
        return np.asarray(a).astype(self.work)

    def keep(self, a: Any, site: str) -> Any:
        rounds = self.precision.rounds(site)
        return a.astype(self.precision.storage.dtype).astype(self.work) if rounds else a

    def constant(self, c: Constant | float) -> Any:
        return self.keep(np.asarray(float(c)).astype(self.work), "constant")

    def tensor(self, a: Any) -> torch.Tensor:
        return torch.tensor(np.asarray(a)).to(getattr(torch, self.dtype))


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One way to compute an operation, and the intermediates that it stores; `None` where it does not apply."""

    name: str
    sites: frozenset[str]
    run: Callable[[Machine, Case], Any]


# Contractions of the last axis of `a` with the last but one of `b`.


def by_library(a: Any, b: Any) -> Any:
    return a @ b


def one_by_one(a: Any, b: Any) -> Any:
    total = a[..., :, :1] * b[..., :1, :]
    for i in range(1, a.shape[-1]):
        total = total + a[..., :, i : i + 1] * b[..., i : i + 1, :]
    return total


def permuted(a: Any, b: Any) -> Any:
    order = np.random.default_rng(a.shape[-1]).permutation(a.shape[-1])
    return np.ascontiguousarray(a[..., order]) @ np.ascontiguousarray(b[..., order, :])


def split(a: Any, b: Any) -> Any:
    """Five partial sums, added afterwards."""
    cuts = np.linspace(0, a.shape[-1], 6).astype(int)
    return sum(a[..., i:j] @ b[..., i:j, :] for i, j in itertools.pairwise(cuts))


def pairwise(a: Any, b: Any) -> Any:
    terms = a[..., :, :, None] * b[..., None, :, :]
    while terms.shape[-2] > 1:
        odd = terms[..., -1:, :] if terms.shape[-2] % 2 else terms[..., :0, :]
        paired = terms[..., 0 : terms.shape[-2] // 2 * 2, :]
        terms = np.concatenate([paired[..., 0::2, :] + paired[..., 1::2, :], odd], -2)
    return terms[..., 0, :]


# Linear layers.


def affine(m: Machine, x: Any, weight: Any, bias: Any, contract: Contraction) -> Any:
    """x·Wᵀ + b with the bias last; a site `prebias` stores the product first."""
    product = contract(x, weight.swapaxes(-1, -2))
    return m.keep(product if bias is None else m.keep(product, "prebias") + bias, "out")


def bias_first(m: Machine, x: Any, weight: Any, bias: Any) -> Any:
    total = np.zeros((), m.work) if bias is None else bias
    for i in range(x.shape[-1]):
        total = total + x[..., i : i + 1] * weight[:, i]
    return m.keep(total, "out")


def _loaded(m: Machine, case: Case, *names: str) -> list[Any]:
    return [m.load(case.arrays[n]) if n in case.arrays else None for n in names]


def numpy_linear(m: Machine, case: Case, contract: Contraction) -> Any:
    return affine(m, *_loaded(m, case, "x", "weight", "bias"), contract)


def bias_first_linear(m: Machine, case: Case) -> Any:
    return bias_first(m, *_loaded(m, case, "x", "weight", "bias"))


def _tensors(m: Machine, case: Case) -> dict[str, torch.Tensor]:
    return {name: m.tensor(a) for name, a in case.arrays.items()}


def torch_linear(m: Machine, case: Case) -> Any:
    t = _tensors(m, case)
    return functional.linear(t["x"], t["weight"], t.get("bias"))


def torch_product_then_bias(m: Machine, case: Case) -> Any:
    t = _tensors(m, case)
    product = torch.einsum("bti,oi->bto", t["x"], t["weight"])
    return product + t["bias"] if "bias" in t else product


LINEAR = (
    *(Algorithm(f.__name__, FUSED, partial(numpy_linear, contract=f)) for f in (by_library, split, pairwise)),
    *(Algorithm(f"{f.__name__}, stored", EAGER, partial(numpy_linear, contract=f)) for f in (one_by_one, permuted)),
    Algorithm("bias_first", FUSED, bias_first_linear),
    Algorithm("torch F.linear", EAGER, torch_linear),
    Algorithm("torch einsum", EAGER, torch_product_then_bias),
)


# Activations.

_erf, _erfc = (np.frompyfunc(f, 1, 1) for f in (math.erf, math.erfc))


def erf(m: Machine, x: Any) -> Any:
    return _erf(x.astype(float)).astype(float).astype(m.work)


def erfc(m: Machine, x: Any) -> Any:
    return _erfc(x.astype(float)).astype(float).astype(m.work)


def rational_erf(m: Machine, x: Any) -> Any:
    """Formula 7.1.26 of Abramowitz and Stegun, off by 1.5e-7: good enough for float32 only."""
    t = 1 / (1 + m.work(0.3275911) * np.abs(x))
    tail = np.zeros_like(t)
    for c in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail = (tail + m.work(c)) * t
    return np.copysign(1 - tail * np.exp(-x * x), x)


def gelu_by_erf(m: Machine, x: Any) -> Any:
    return x * ((1 + erf(m, x * m.constant(ROOT_HALF))) * m.work(0.5))


def gelu_by_erfc(m: Machine, x: Any) -> Any:
    return m.work(0.5) * x * erfc(m, -x / np.sqrt(m.work(2)))


def gelu_expanded(m: Machine, x: Any) -> Any:
    half = m.work(0.5) * x
    return half + half * erf(m, x * m.constant(ROOT_HALF))


def gelu_by_rational_erf(m: Machine, x: Any) -> Any:
    return None if m.dtype == "float64" else x * (1 + rational_erf(m, x * m.constant(ROOT_HALF))) / 2


def gelu_by_ndtr(m: Machine, x: Any) -> Any:
    return x * torch.special.ndtr(torch.tensor(x)).numpy()


def inner(m: Machine, x: Any) -> Any:
    return m.constant(ROOT_TWO_OVER_PI) * (x + m.constant(TANH_CUBIC) * x**3)


def inner_by_horner(m: Machine, x: Any) -> Any:
    return x * (m.constant(ROOT_TWO_OVER_PI) * (1 + m.constant(TANH_CUBIC) * (x * x)))


def gelu_by_tanh(m: Machine, x: Any) -> Any:
    return m.work(0.5) * x * (1 + np.tanh(inner(m, x)))


def gelu_by_tanh_horner(m: Machine, x: Any) -> Any:
    return x * ((np.tanh(inner_by_horner(m, x)) + 1) * m.work(0.5))


def gelu_by_tanh_from_exp(m: Machine, x: Any) -> Any:
    return m.work(0.5) * x * (1 + (1 - 2 / (np.exp(2 * inner(m, x)) + 1)))


def gelu_by_tanh_from_expm1(m: Machine, x: Any) -> Any:
    y = np.expm1(-2 * np.abs(inner(m, x)))
    return m.work(0.5) * x * (1 + np.copysign(y / (y + 2), x))


def gelu_by_sigmoid(m: Machine, x: Any) -> Any:
    return x / (1 + np.exp(-2 * inner(m, x)))


def silu_by_exp(m: Machine, x: Any) -> Any:
    return x / (1 + np.exp(-x))


def silu_by_branches(m: Machine, x: Any) -> Any:
    small = np.exp(-np.abs(x))
    return x * (np.where(x >= 0, m.work(1), small) / (1 + small))


def silu_by_growing_exp(m: Machine, x: Any) -> Any:
    growing = np.exp(np.minimum(x, m.work(80)))
    return x * (growing / (1 + growing))


def silu_by_expm1(m: Machine, x: Any) -> Any:
    return x * (1 / (2 + np.expm1(-x)))


def silu_by_exp2(m: Machine, x: Any) -> Any:
    return x * (1 / (1 + np.exp2(-x * m.work(_LOG2_E))))


def silu_by_torch_sigmoid(m: Machine, x: Any) -> Any:
    return x * torch.sigmoid(torch.tensor(x)).numpy()


def relu_by_maximum(m: Machine, x: Any) -> Any:
    return np.maximum(x, 0)


def relu_by_choice(m: Machine, x: Any) -> Any:
    return np.where(x > 0, x, 0)


def relu_by_half_sum(m: Machine, x: Any) -> Any:
    return (x + np.abs(x)) / 2


def relu_by_product(m: Machine, x: Any) -> Any:
    return x * (x > 0)


def relu_by_clip(m: Machine, x: Any) -> Any:
    return np.clip(x, 0, None)


FORMULAS: Mapping[str, tuple[Callable[[Machine, Any], Any], ...]] = {
    "relu": (relu_by_maximum, relu_by_choice, relu_by_half_sum, relu_by_product, relu_by_clip),
    "gelu": (gelu_by_erf, gelu_by_erfc, gelu_expanded, gelu_by_rational_erf, gelu_by_ndtr),
    "gelu_tanh": (
        gelu_by_tanh,
        gelu_by_tanh_horner,
        gelu_by_tanh_from_exp,
        gelu_by_tanh_from_expm1,
        gelu_by_sigmoid,
    ),
    "silu": (
        silu_by_exp,
        silu_by_branches,
        silu_by_growing_exp,
        silu_by_expm1,
        silu_by_exp2,
        silu_by_torch_sigmoid,
    ),
}
TORCH_ACTIVATIONS = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
}


def numpy_activation(m: Machine, case: Case, formula: Any) -> Any:
    result = formula(m, m.load(case.arrays["x"]))
    return None if result is None else m.keep(result, "out")


def torch_activation(m: Machine, case: Case, name: str) -> Any:
    return TORCH_ACTIVATIONS[name](m.tensor(case.arrays["x"]))


def activations(name: str) -> tuple[Algorithm, ...]:
    own = (Algorithm(f.__name__, FUSED, partial(numpy_activation, formula=f)) for f in FORMULAS[name])
    return (*own, Algorithm("torch", FUSED, partial(torch_activation, name=name)))


# The softmax, alone and with its values; a score of minus infinity is a masked one.


def masses(m: Machine, s: Any) -> tuple[Any, Any]:
    """The exponentials and their sum, stored wherever the machine's sites say so."""
    shifted = m.keep(s - s.max(-1, keepdims=True), "shifted")
    e = m.keep(np.exp(shifted), "exps")
    return e, m.keep(e.sum(-1, keepdims=True), "expsum")


def divided(m: Machine, s: Any) -> Any:
    e, total = masses(m, s)
    return e / total


def times_reciprocal(m: Machine, s: Any) -> Any:
    e, total = masses(m, s)
    return e * (1 / total)


def base_two(m: Machine, s: Any) -> Any:
    """2^(s·log₂e − max·log₂e), with both products rounded."""
    folded = s * m.work(_LOG2_E)
    e = np.exp2(folded - folded.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def by_logarithm(m: Machine, s: Any) -> Any:
    """exp of the scores less their maximum less the logarithm of the sum."""
    shifted = s - s.max(-1, keepdims=True)
    return np.exp(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


def summed_in_turn(m: Machine, s: Any) -> Any:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / np.cumsum(e, -1)[..., -1:]


def online(m: Machine, s: Any) -> Any:
    """One pass over blocks of sixteen for the maximum and the sum, another for the weights."""
    top, total = np.full((*s.shape[:-1], 1), -np.inf, m.work), np.zeros((*s.shape[:-1], 1), m.work)
    for start in range(0, s.shape[-1], 16):
        block = s[..., start : start + 16]
        higher, rescale, e = _merged(top, block)
        total, top = total * rescale + e.sum(-1, keepdims=True), higher
    return np.exp(s - top) / total


def _merged(top: Any, block: Any) -> tuple[Any, Any, Any]:
    """The new maximum, the factor that it puts on the old sum, and the block's exponentials."""
    higher = np.maximum(top, block.max(-1, keepdims=True))
    safe = np.where(np.isfinite(higher), higher, 0)
    return higher, np.exp(top - safe), np.exp(block - safe)


def numpy_softmax(m: Machine, case: Case, rule: Callable[[Machine, Any], Any]) -> Any:
    return m.keep(rule(m, m.load(case.arrays["logits"])), "out")


def torch_softmax(m: Machine, case: Case) -> Any:
    return torch.softmax(m.tensor(case.arrays["logits"]), dim=-1)


def torch_softmax_steps(m: Machine, case: Case) -> Any:
    s = m.tensor(case.arrays["logits"])
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


RULES = (divided, times_reciprocal, base_two, by_logarithm, summed_in_turn, online)
SOFTMAX = (
    *(Algorithm(f.__name__, FUSED, partial(numpy_softmax, rule=f)) for f in RULES),
    Algorithm("all steps stored", EVERYWHERE, partial(numpy_softmax, rule=divided)),
    Algorithm("torch.softmax", FUSED, torch_softmax),
    Algorithm("torch, step by step", EVERYWHERE, torch_softmax_steps),
)


# Attention: scores, then weights, then values.


def scale_after(m: Machine, q: Any, k: Any, c: Constant, contract: Contraction) -> Any:
    return m.keep(m.keep(contract(q, k), "dot") * m.constant(c), "scores")


def scale_query(m: Machine, q: Any, k: Any, c: Constant, contract: Contraction) -> Any:
    return m.keep(contract(m.keep(q * m.constant(c), "prescale"), k), "scores")


def scale_key(m: Machine, q: Any, k: Any, c: Constant, contract: Contraction) -> Any:
    return m.keep(contract(q, m.keep(k * m.constant(c), "prescale")), "scores")


def scale_both(m: Machine, q: Any, k: Any, c: Constant, contract: Contraction) -> Any:
    root = m.constant(math.sqrt(float(c)))
    return m.keep(contract(m.keep(q * root, "prescale"), m.keep(k * root, "prescale")), "scores")


def divide_after(m: Machine, q: Any, k: Any, c: Constant, contract: Contraction) -> Any:
    return m.keep(m.keep(contract(q, k), "dot") / m.constant(1 / float(c)), "scores")


def weights_then_values(m: Machine, s: Any, v: Any, contract: Contraction, rule: Any = divided) -> Any:
    return contract(m.keep(rule(m, s), "probs"), v)


def divide_last(m: Machine, s: Any, v: Any, contract: Contraction) -> Any:
    e, total = masses(m, s)
    return contract(m.keep(e, "probs"), v) / total


def online_values(m: Machine, s: Any, v: Any, contract: Contraction) -> Any:
    """The sum and the output together over blocks of sixteen keys, rescaled when the maximum moves."""
    top, total = np.full((*s.shape[:-1], 1), -np.inf, m.work), np.zeros((*s.shape[:-1], 1), m.work)
    out = np.zeros((*s.shape[:-1], v.shape[-1]), m.work)
    for start in range(0, s.shape[-1], 16):
        top, rescale, e = _merged(top, s[..., start : start + 16])
        total = total * rescale + e.sum(-1, keepdims=True)
        out = out * rescale + contract(m.keep(e, "probs"), v[..., start : start + 16, :])
    return out * (1 / total)


def online_base_two(m: Machine, s: Any, v: Any, contract: Contraction) -> Any:
    """As FlashAttention 2 does it: exponents s·c − max·c, but the old sums rescaled by 2^((old − new)·c)."""
    c = m.work(_LOG2_E)
    top, total = np.full((*s.shape[:-1], 1), -np.inf, m.work), np.zeros((*s.shape[:-1], 1), m.work)
    out = np.zeros((*s.shape[:-1], v.shape[-1]), m.work)
    for start in range(0, s.shape[-1], 16):
        block = s[..., start : start + 16]
        higher = np.maximum(top, block.max(-1, keepdims=True))
        safe = np.where(np.isfinite(higher), higher, 0)
        rescale, e = np.exp2((top - safe) * c), np.exp2(block * c - safe * c)
        total, top = total * rescale + e.sum(-1, keepdims=True), higher
        out = out * rescale + contract(m.keep(e, "probs"), v[..., start : start + 16, :])
    return out / total


def capped(m: Machine, s: Any, cap: float) -> Any:
    return m.keep(np.tanh(s / m.work(cap)) * m.work(cap), "capped")


def numpy_attention(
    m: Machine, case: Case, scaling: Any = scale_after, contract: Contraction = by_library, weigh: Any = None
) -> Any:
    q, k, v = _loaded(m, case, "query", "key", "value")
    bias, sink = _loaded(m, case, "bias", "sink")
    k, v = (np.repeat(a, q.shape[-3] // a.shape[-3], -3) for a in (k, v))
    s = scaling(m, q, k.swapaxes(-1, -2), _scale(case, q.shape[-1]), contract)
    s = capped(m, s, case.options["softcap"]) if "softcap" in case.options else s
    s = s if bias is None else m.keep(s + bias, "biased")
    s = s if case.options["allowed"] is None else np.where(case.options["allowed"], s, m.work(-np.inf))
    if sink is not None:
        s = np.concatenate([s, np.broadcast_to(sink[:, None, None], (*s.shape[:-1], 1))], -1)
        v = np.concatenate([v, np.zeros_like(v[..., :1, :])], -2)
    return m.keep((weigh or weights_then_values)(m, s, v, contract), "out")


def _scale(case: Case, width: int) -> Constant:
    return case.options.get("scale") or inverse_root(width)


def torch_attention(m: Machine, case: Case, where: str) -> Any:
    t = _tensors(m, case)
    q, groups = t["query"], t["query"].shape[-3] // t["key"].shape[-3]
    k, v = (t[n].repeat_interleave(groups, dim=-3) for n in ("key", "value"))
    s = torch_scores(q, k, float(_scale(case, q.shape[-1])), where)
    if "softcap" in case.options:
        s = case.options["softcap"] * torch.tanh(s / case.options["softcap"])
    s = s + t["bias"] if "bias" in t else s
    if case.options["allowed"] is not None:
        s = s.masked_fill(~torch.tensor(case.options["allowed"]), -math.inf)
    if "sink" in t:
        s = torch.cat([s, t["sink"][:, None, None].expand(*s.shape[:-1], 1)], -1)
    return torch.softmax(s, -1)[..., : v.shape[-2]] @ v


def torch_scores(q: torch.Tensor, k: torch.Tensor, scale: float, where: str) -> torch.Tensor:
    if where == "after":
        return (q @ k.mT) * scale
    if where == "query":
        return (q * scale) @ k.mT
    return (q * math.sqrt(scale)) @ (k * math.sqrt(scale)).mT


def torch_sdpa(m: Machine, case: Case, backend: SDPBackend) -> Any:
    if "softcap" in case.options or "sink" in case.arrays:
        return None
    t = _tensors(m, case)
    q, k, v = t["query"], t["key"], t["value"]
    scale = float(_scale(case, q.shape[-1]))
    groups = q.shape[-3] // k.shape[-3]
    width = max(q.shape[-1], v.shape[-1])  # the flash kernel wants one width; zeros add nothing to a sum
    q, k, padded = (functional.pad(a, (0, width - a.shape[-1])) for a in (q, k, v))
    k, padded = (a.repeat_interleave(groups, dim=-3) for a in (k, padded))
    with sdpa_kernel(backend):
        out = functional.scaled_dot_product_attention(q, k, padded, _torch_mask(m, case, t), scale=scale)
    return out[..., : v.shape[-1]]


def _torch_mask(m: Machine, case: Case, t: dict[str, torch.Tensor]) -> torch.Tensor | None:
    seen = case.options["allowed"]
    if "bias" not in t:
        return None if seen is None else torch.tensor(seen)
    return t["bias"] if seen is None else t["bias"].masked_fill(~torch.tensor(seen), -math.inf)


def _numpy(name: str, sites: frozenset[str], *parts: Any) -> Algorithm:
    return Algorithm(
        name, sites, partial(numpy_attention, **dict(zip(("scaling", "contract", "weigh"), parts, strict=False)))
    )


ATTENTION = (
    _numpy("eager", EAGER),
    _numpy("eager, scaled query", EAGER, scale_query),
    _numpy("eager, scaled key", EAGER, scale_key, permuted),
    _numpy("eager, split roots", EAGER, scale_both, by_library),
    _numpy("all steps stored", EVERYWHERE, divide_after),
    _numpy("all steps stored, divided last", EVERYWHERE, scale_after, permuted, divide_last),
    _numpy("fused, one by one", FUSED, scale_query, one_by_one),
    _numpy("fused, reciprocal", FUSED, scale_both, permuted, partial(weights_then_values, rule=times_reciprocal)),
    _numpy("fused, pairwise, base two", FUSED, scale_key, pairwise, partial(weights_then_values, rule=base_two)),
    _numpy("fused, by logarithm", FUSED, scale_after, split, partial(weights_then_values, rule=by_logarithm)),
    _numpy("fused, divided last", FUSED, scale_after, by_library, divide_last),
    _numpy("online", FUSED, scale_after, by_library, online_values),
    _numpy("online, base two", FUSED, scale_query, by_library, online_base_two),
    *(Algorithm(f"torch eager, {w}", EAGER, partial(torch_attention, where=w)) for w in ("after", "query", "both")),
    Algorithm("torch flash", FUSED, partial(torch_sdpa, backend=SDPBackend.FLASH_ATTENTION)),
    Algorithm("torch math", EAGER, partial(torch_sdpa, backend=SDPBackend.MATH)),
)


# Compositions.

_ATTEND = {algorithm.name: algorithm.run for algorithm in ATTENTION}


def _heads(a: Any, heads: int) -> Any:
    return a.reshape(*a.shape[:-1], heads, a.shape[-1] // heads).swapaxes(-2, -3)


def _projected(m: Machine, case: Case, name: str, x: Any, contract: Contraction) -> Any:
    return affine(m, x, *_loaded(m, case, f"{name}_weight", f"{name}_bias"), contract)


def _mixed(m: Machine, case: Case, contract: Contraction, attend: Any) -> Any:
    x, counts = m.load(case.arrays["x"]), {"query": "heads", "key": "kv_heads", "value": "kv_heads"}
    arrays = {
        name: _heads(_projected(m, case, name, x, contract), case.options[count]) for name, count in counts.items()
    }
    return attend(m, Case(regime=case.regime, arrays=arrays, options={"allowed": case.options["allowed"]}))


def numpy_multi_head(m: Machine, case: Case, contract: Contraction, attend: Any) -> Any:
    mixed = _mixed(m, case, contract, attend).swapaxes(-2, -3)
    return _projected(m, case, "output", mixed.reshape(*mixed.shape[:-2], -1), contract)


def sum_over_heads(m: Machine, case: Case) -> Any:
    """Each head through its own slice of the output weight, added up at the end."""
    mixed = _mixed(m, case, by_library, numpy_attention)
    weight, bias = _loaded(m, case, "output_weight", "output_bias")
    slices = weight.reshape(weight.shape[0], case.options["heads"], -1).transpose(1, 2, 0)
    total = (mixed @ slices).sum(-3)
    return m.keep(total if bias is None else total + bias, "out")


def torch_multi_head(m: Machine, case: Case, attend: Any) -> Any:
    t = _tensors(m, case)

    def project(name: str, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, t[f"{name}_weight"], t.get(f"{name}_bias"))

    counts = {"query": "heads", "key": "kv_heads", "value": "kv_heads"}
    arrays = {
        n: project(n, t["x"]).unflatten(-1, (case.options[c], -1)).transpose(-2, -3).double().numpy()
        for n, c in counts.items()
    }
    inner_case = Case(regime=case.regime, arrays=arrays, options={"allowed": case.options["allowed"]})
    return project("output", attend(m, inner_case).transpose(-2, -3).flatten(-2))


MULTI_HEAD = (
    Algorithm("eager", EAGER, partial(numpy_multi_head, contract=by_library, attend=numpy_attention)),
    Algorithm("all stored", EVERYWHERE, partial(numpy_multi_head, contract=split, attend=_ATTEND["all steps stored"])),
    Algorithm("one by one", FUSED, partial(numpy_multi_head, contract=one_by_one, attend=_ATTEND["fused, one by one"])),
    Algorithm("online", FUSED, partial(numpy_multi_head, contract=permuted, attend=_ATTEND["online"])),
    Algorithm("sum over heads", EAGER, sum_over_heads),
    Algorithm("torch eager", EAGER, partial(torch_multi_head, attend=_ATTEND["torch eager, after"])),
    Algorithm("torch flash", EAGER, partial(torch_multi_head, attend=_ATTEND["torch flash"])),
    Algorithm("torch math", EAGER, partial(torch_multi_head, attend=_ATTEND["torch math"])),
)


def numpy_feed_forward(m: Machine, case: Case, contract: Contraction, which: int) -> Any:
    """The network with one of the formulas of its activation."""
    x = m.load(case.arrays["x"])
    up = _projected(m, case, "up", x, contract)
    gated = "gate_weight" in case.arrays
    formula = FORMULAS[case.options["activation"]][which]
    active = formula(m, _projected(m, case, "gate", x, contract) if gated else up)
    if active is None:
        return None
    active = m.keep(active, "out") if "hidden" in m.precision.sites else active
    return _projected(m, case, "down", m.keep(active * up, "hidden") if gated else active, contract)


def torch_feed_forward(m: Machine, case: Case) -> Any:
    t = _tensors(m, case)

    def project(name: str, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, t[f"{name}_weight"], t.get(f"{name}_bias"))

    up = project("up", t["x"])
    active = TORCH_ACTIVATIONS[case.options["activation"]](project("gate", t["x"]) if "gate_weight" in t else up)
    return project("down", active * up if "gate_weight" in t else active)


FEED_FORWARD = (
    Algorithm("library", EAGER, partial(numpy_feed_forward, contract=by_library, which=0)),
    Algorithm("one by one", FUSED, partial(numpy_feed_forward, contract=one_by_one, which=1)),
    Algorithm("permuted", EVERYWHERE, partial(numpy_feed_forward, contract=permuted, which=2)),
    Algorithm("pairwise", FUSED, partial(numpy_feed_forward, contract=pairwise, which=3)),
    Algorithm("split", EAGER, partial(numpy_feed_forward, contract=split, which=4)),
    Algorithm("torch", EAGER, torch_feed_forward),
)


# Norms; each rule gives what a row is centred by, its mean square about that, and how it is divided.


def sum_in_turn(a: Any) -> Any:
    return np.cumsum(a, -1)[..., -1:]


def sum_backwards(a: Any) -> Any:
    return np.cumsum(a[..., ::-1], -1)[..., -1:]


def sum_split(a: Any) -> Any:
    return np.add.reduce([a[..., i::4].sum(-1, keepdims=True) for i in range(4)])


def sum_by_product(a: Any) -> Any:
    return a @ np.ones((a.shape[-1], 1), a.dtype)


def sum_by_library(a: Any) -> Any:
    return a.sum(-1, keepdims=True)


def two_pass(m: Machine, x: Any, centred: bool, add: Any) -> tuple[Any, Any]:
    width = m.work(x.shape[-1])
    mean = add(x) / width if centred else m.work(0)
    return mean, add((x - mean) ** 2) / width


def times_inverse_width(m: Machine, x: Any, centred: bool, add: Any) -> tuple[Any, Any]:
    """Sums times one over the width, which is rounded."""
    share = m.work(1) / m.work(x.shape[-1])
    mean = add(x) * share if centred else m.work(0)
    return mean, add((x - mean) * (x - mean)) * share


def welford(m: Machine, x: Any, centred: bool, add: Any) -> tuple[Any, Any]:
    """Mean and sum of squares updated entry by entry."""
    if not centred:
        return two_pass(m, x, centred, add)
    mean, squares = x[..., :1], np.zeros_like(x[..., :1])
    for i in range(1, x.shape[-1]):
        step = x[..., i : i + 1] - mean
        mean = mean + step / m.work(i + 1)
        squares = squares + step * (x[..., i : i + 1] - mean)
    return mean, squares / m.work(x.shape[-1])


def welford_in_chunks(m: Machine, x: Any, centred: bool, add: Any) -> tuple[Any, Any]:
    """Chunks of eight with a mean and a sum of squares each, merged one after another (Chan, Golub and LeVeque)."""
    if not centred:
        return two_pass(m, x, centred, add)
    mean, squares, count = m.work(0), m.work(0), 0
    for start in range(0, x.shape[-1], 8):
        part = x[..., start : start + 8]
        size = part.shape[-1]
        own, spread = (a * m.work(1) for a in two_pass(m, part, True, add))
        step, share = own - mean, m.work(size / (count + size))
        squares = squares + spread * m.work(size) + step * step * share * m.work(count)
        mean, count = mean + step * share, count + size
    return mean, squares / m.work(x.shape[-1])


def one_pass(m: Machine, x: Any, centred: bool, add: Any) -> tuple[Any, Any]:
    """The mean of the squares less the square of the mean, never below zero."""
    width = m.work(x.shape[-1])
    mean = add(x) / width if centred else m.work(0)
    return mean, np.maximum(add(x * x) / width - mean * mean, 0)


def one_pass_unclipped(m: Machine, x: Any, centred: bool, add: Any) -> tuple[Any, Any]:
    """The same, left negative where it comes out so."""
    mean = add(x) / m.work(x.shape[-1]) if centred else m.work(0)
    return mean, (add(x * x) - mean * add(x)) / m.work(x.shape[-1])


def over_root(kept: Any, spread: Any, weight: Any) -> Any:
    return kept / np.sqrt(spread) * weight


def times_inverse_root(kept: Any, spread: Any, weight: Any) -> Any:
    return kept * (1 / np.sqrt(spread)) * weight


def gain_first(kept: Any, spread: Any, weight: Any) -> Any:
    return kept * (1 / np.sqrt(spread) * weight)


def numpy_norm(m: Machine, case: Case, centred: bool, rule: Any, add: Any, divide: Any) -> Any:
    x, weight, bias = _loaded(m, case, "x", "weight", "bias")
    mean, spread = rule(m, x, centred, add)
    spread = spread + m.work(case.options["eps"])
    if "normed" in m.precision.sites:
        scaled = m.keep(m.keep(divide(x - mean, spread, m.work(1)), "normed") * weight, "normed" if centred else "out")
    else:
        scaled = divide(x - mean, spread, weight)
    return m.keep(scaled if bias is None else scaled + bias, "out")


def torch_norm(m: Machine, case: Case, centred: bool) -> Any:
    t, width = _tensors(m, case), case.arrays["x"].shape[-1:]
    if centred:
        return functional.layer_norm(t["x"], width, t["weight"], t.get("bias"), case.options["eps"])
    return functional.rms_norm(t["x"], width, t["weight"], case.options["eps"])


def torch_norm_steps(m: Machine, case: Case, centred: bool) -> Any:
    """Statistics in float32 at least, the normed row cast before it meets the gain."""
    t = _tensors(m, case)
    x = t["x"] if m.dtype == "float64" else t["x"].float()
    kept = x - x.mean(-1, keepdim=True) if centred else x
    normed = (kept * torch.rsqrt(kept.pow(2).mean(-1, keepdim=True) + case.options["eps"])).to(t["x"].dtype)
    return normed * t["weight"] + t["bias"] if "bias" in t else normed * t["weight"]


def norms(centred: bool) -> tuple[Algorithm, ...]:
    kinds = (
        ("two pass", FUSED, two_pass, sum_by_library, over_root),
        ("two pass, in turn", FUSED, two_pass, sum_in_turn, times_inverse_root),
        ("two pass, backwards, stored", EAGER, two_pass, sum_backwards, over_root),
        ("two pass, by product, gain first", FUSED, times_inverse_width, sum_by_product, gain_first),
        ("two pass, split, stored", EVERYWHERE, times_inverse_width, sum_split, times_inverse_root),
        ("welford", FUSED, welford, sum_by_library, over_root),
        ("welford in chunks", FUSED, welford_in_chunks, sum_by_library, gain_first),
    )
    cancelling = (
        ("one pass", FUSED | {ONE_PASS}, one_pass, sum_by_library, over_root),
        ("one pass, in turn, stored", EAGER | {ONE_PASS}, one_pass, sum_in_turn, times_inverse_root),
        ("one pass, unclipped", FUSED | {ONE_PASS}, one_pass_unclipped, sum_split, gain_first),
    )
    return (
        *(
            Algorithm(name, sites, partial(numpy_norm, centred=centred, rule=rule, add=add, divide=divide))
            for name, sites, rule, add, divide in (*kinds, *(cancelling if centred else ()))
        ),
        Algorithm("torch", FUSED, partial(torch_norm, centred=centred)),
        Algorithm("torch, step by step", EAGER, partial(torch_norm_steps, centred=centred)),
    )


# Rotary, sinusoidal and linear-bias positions. A rate rule gives base^(−exponent) in the machine's arithmetic.


def rate_by_table(m: Machine, base: float, exponents: Any) -> Any:
    """Worked out in float64 and converted."""
    return np.asarray(base**-exponents).astype(m.work)


def rate_by_reciprocal(m: Machine, base: float, exponents: Any) -> Any:
    return 1 / np.power(m.work(base), exponents.astype(m.work))


def rate_by_exponential(m: Machine, base: float, exponents: Any) -> Any:
    return np.exp(-exponents.astype(m.work) * np.log(m.work(base)))


def rate_by_power_of_two(m: Machine, base: float, exponents: Any) -> Any:
    return 1 / np.exp2(exponents.astype(m.work) * np.log2(m.work(base)))


def rate_by_torch(m: Machine, base: float, exponents: Any) -> Any:
    """By a constant logarithm, as the encoder of 2017 is usually written."""
    return torch.exp(torch.tensor(exponents.astype(m.work)) * -math.log(base)).numpy()


def stretched(m: Machine, rotary: Rotary, width: int, length: int, rule: Any) -> Any:
    """The rates of all pairs under the declared scaling, in the machine's arithmetic throughout."""
    s, exponents = rotary.scaling, np.arange(0, width, 2) / width
    if s is not None and "ntk" in s.kind and width > 2:
        grown = m.work(s.factor) * m.work(length) / m.work(s.original) - (m.work(s.factor) - 1)
        ratio = m.work(s.factor) if s.kind == "ntk" else grown if length > s.original else m.work(1)
        return rule(m, float(m.work(rotary.base) * ratio ** m.work(width / (width - 2))), exponents)
    plain = rule(m, rotary.base, exponents)
    if s is None or "ntk" in s.kind:
        return plain
    if s.kind == "linear":
        return plain / m.work(s.factor)
    kept = kept_by_turns(m, plain, s) if s.kind == "llama3" else kept_by_index(m, rotary.base, width, s)
    return (1 - kept) * (plain / m.work(s.factor)) + kept * plain


def stretched_wavelengths(m: Machine, rotary: Rotary, width: int, length: int, rule: Any) -> Any:
    """The same by harmonic means of wavelengths."""
    s = rotary.scaling
    if s is None or s.kind not in ("llama3", "yarn"):
        return 1 / (1 / stretched(m, rotary, width, length, rule))
    plain = rule(m, rotary.base, np.arange(0, width, 2) / width)
    kept = kept_by_turns(m, plain, s) if s.kind == "llama3" else kept_by_index(m, rotary.base, width, s)
    short, long = 1 / plain, m.work(s.factor) / plain
    return 1 / (long * short / (long * kept + short * (1 - kept)))


def kept_by_turns(m: Machine, plain: Any, s: Any) -> Any:
    wavelength = m.work(2 * math.pi) / plain
    return np.clip((m.work(s.original) / wavelength - m.work(s.low)) / m.work(s.high - s.low), 0, 1)


def kept_by_index(m: Machine, base: float, width: int, s: Any) -> Any:
    pairs = [width * math.log(s.original / (n * 2 * math.pi)) / (2 * math.log(base)) for n in (s.high, s.low)]
    low, high = max(math.floor(pairs[0]), 0), min(math.ceil(pairs[1]), width - 1)
    index = np.arange(width // 2).astype(m.work)
    return 1 - np.clip((index - m.work(low)) / (m.work(high - low) if high > low else m.work(1)), 0, 1)


def attention_factor(rotary: Rotary) -> float:
    s = rotary.scaling
    if s is None or s.kind != "yarn":
        return 1.0
    return 0.1 * math.log(s.factor) + 1 if s.attention_factor is None else s.attention_factor


def circle(m: Machine, positions: Any, rates: Any, factor: Any, divide: bool = False) -> Any:
    """Cosines and sines times the factor, stored where the machine stores them."""
    where = positions.astype(m.work)[..., None]
    angles = where / (1 / rates) if divide else where * rates
    return (m.keep(f(angles) * factor, "angles") for f in (np.cos, np.sin))


def paired(a: Any, layout: str) -> Any:
    half = a.shape[-1] // 2
    return (a[..., :half], a[..., half:]) if layout == "half" else (a[..., ::2], a[..., 1::2])


def four_products(m: Machine, a: Any, b: Any, c: Any, s: Any) -> Any:
    ac, bs, bc, as_ = (m.keep(p, "turned") for p in (a * c, b * s, b * c, a * s))
    return ac - bs, as_ + bc


def complex_product(m: Machine, a: Any, b: Any, c: Any, s: Any) -> Any:
    product = (a + 1j * b) * (c + 1j * s)
    return product.real.astype(m.work), product.imag.astype(m.work)


def rounded_once(m: Machine, a: Any, b: Any, c: Any, s: Any) -> Any:
    """Each sum of two products is rounded only as a whole, as far as float64 can say."""
    a, b, c, s = (t.astype(float) for t in (a, b, c, s))
    return (a * c - b * s).astype(m.work), (b * c + a * s).astype(m.work)


def numpy_rope(
    m: Machine, case: Case, rule: Any, stretch: Any, product: Any, divide: bool = False, first: bool = False
) -> Any:
    """With quotients by wavelengths, or with the attention factor on the features first, where that is asked."""
    x, rotary, positions = m.load(case.arrays["x"]), case.options["rotary"], case.options["positions"]
    width = rotary.width or x.shape[-1]
    rates = stretch(m, rotary, width, int(positions.max()) + 1, rule)
    factor = m.work(attention_factor(rotary))
    own = m.keep(x[..., :width] * factor, "prescale") if first and factor != 1 else x[..., :width]
    cosine, sine = circle(m, positions, rates, m.work(1) if first else factor, divide)
    turned = product(m, *paired(own, rotary.layout), cosine, sine)
    joined = np.empty_like(x[..., :width])
    for member, part in zip(paired(joined, rotary.layout), turned, strict=True):
        member[...] = part
    return np.concatenate([m.keep(joined, "out"), x[..., width:]], -1)


def torch_rope(m: Machine, case: Case) -> Any:
    """As transformers writes it: tables of the whole width in the dtype, half of the features exchanged and negated."""
    x, rotary, positions = m.tensor(case.arrays["x"]), case.options["rotary"], case.options["positions"]
    width = rotary.width or x.shape[-1]
    rates = stretched(m, rotary, width, int(positions.max()) + 1, rate_by_reciprocal)
    tables = (torch.tensor(t).to(x.dtype) for t in circle(m, positions, rates, m.work(attention_factor(rotary))))
    cosine, sine = (torch.cat([t, t], -1) if rotary.layout == "half" else t.repeat_interleave(2, -1) for t in tables)
    own, rest = x[..., :width], x[..., width:]
    first, second = paired(own, rotary.layout)
    exchanged = torch.cat([-second, first], -1) if rotary.layout == "half" else torch.stack([-second, first], -1)
    return torch.cat([own * cosine + exchanged.reshape(own.shape) * sine, rest], -1)


def _rope(name: str, sites: frozenset[str], *parts: Any) -> Algorithm:
    names = ("rule", "stretch", "product", "divide", "first")
    return Algorithm(name, sites, partial(numpy_rope, **dict(zip(names, parts, strict=False))))


ROPE = (
    _rope("tables of float64", FUSED, rate_by_table, stretched, four_products),
    _rope("reciprocal powers, stored", EAGER, rate_by_reciprocal, stretched, four_products),
    _rope("exponentials, complex", FUSED, rate_by_exponential, stretched, complex_product),
    _rope("wavelengths", FUSED, rate_by_reciprocal, stretched_wavelengths, four_products, True),
    _rope("powers of two, rounded once", FUSED, rate_by_power_of_two, stretched_wavelengths, rounded_once),
    _rope("constant logarithm, stored", EVERYWHERE, rate_by_torch, stretched, four_products, False, True),
    Algorithm("torch, as in transformers", EAGER, torch_rope),
)


def numpy_sinusoids(m: Machine, case: Case, rule: Any) -> Any:
    positions, width, together = (case.options[n] for n in ("positions", "width", "arrangement"))
    angles = positions.astype(m.work)[..., None] * rule(m, 10000.0, np.arange(0, width, 2) / width)
    waves = np.sin(angles), np.cos(angles)
    table = np.concatenate(waves, -1) if together == "concatenated" else np.stack(waves, -1).reshape(-1, width)
    return m.keep(table, "out")


RATES = (rate_by_table, rate_by_reciprocal, rate_by_exponential, rate_by_power_of_two, rate_by_torch)
SINUSOIDS = tuple(Algorithm(rule.__name__, FUSED, partial(numpy_sinusoids, rule=rule)) for rule in RATES)


def slopes(m: Machine, case: Case, series: Any) -> Any:
    """The series for the power of two below, and every second term of the next."""
    heads = case.options["heads"]
    below = 2 ** math.floor(math.log2(heads))
    return m.keep(np.concatenate([series(m, below), series(m, 2 * below)[::2][: heads - below]]), "out")


def series_of_float64(m: Machine, heads: int) -> Any:
    start = 2 ** (-(2 ** -(math.log2(heads) - 3)))
    return np.array([start * start**i for i in range(heads)]).astype(m.work)


def series_of_powers(m: Machine, heads: int) -> Any:
    """The ratio rounded and raised, as BLOOM is usually run."""
    return np.power(m.work(2 ** (-8 / heads)), np.arange(1, heads + 1).astype(m.work))


def series_of_products(m: Machine, heads: int) -> Any:
    return np.cumprod(np.full(heads, 2 ** (-8 / heads)).astype(m.work))


def series_of_exponentials(m: Machine, heads: int) -> Any:
    return np.exp2(-m.work(8) * np.arange(1, heads + 1).astype(m.work) / m.work(heads))


def series_by_torch(m: Machine, heads: int) -> Any:
    ratio = torch.tensor(2.0 ** (-8 / heads), dtype=torch.float64 if m.work is np.float64 else torch.float32)
    return torch.pow(ratio, torch.arange(1, heads + 1, dtype=ratio.dtype)).numpy()


SERIES = (series_of_float64, series_of_powers, series_of_products, series_of_exponentials, series_by_torch)
SLOPES = tuple(Algorithm(own.__name__, FUSED, partial(slopes, series=own)) for own in SERIES)


ALGORITHMS: Mapping[str, tuple[Algorithm, ...]] = {
    "linear": LINEAR,
    "softmax": SOFTMAX,
    "attention": ATTENTION,
    **{name: activations(name) for name in FORMULAS},
    "multi_head_attention": MULTI_HEAD,
    "feed_forward": FEED_FORWARD,
    "layer_norm": norms(centred=True),
    "rms_norm": norms(centred=False),
    "rope": ROPE,
    "sinusoidal_positions": SINUSOIDS,
    "alibi_slopes": SLOPES,
    "cross_entropy": losses(Algorithm),
}


def _parameters(case: Case) -> Mapping[str, Any]:
    return {name: a for name, a in case.arrays.items() if name != "x"}


def equation(E: Evaluator, op: str, case: Case) -> Quantity:
    """What the specification says of the case."""
    if op == "linear":
        return linear(E, **case.arrays)
    if op == "softmax":
        return softmax(E, case.arrays["logits"])
    if op == "attention":
        return attention(E, **case.arrays, **case.options)
    if op == "multi_head_attention":
        return multi_head_attention(E, case.arrays["x"], _parameters(case), **case.options)
    if op == "feed_forward":
        return feed_forward(E, case.arrays["x"], _parameters(case), case.options["activation"])
    if op in ("layer_norm", "rms_norm"):
        return {"layer_norm": layer_norm, "rms_norm": rms_norm}[op](E, **case.arrays, **case.options)
    if op == "rope":
        return rope(E, case.arrays["x"], **case.options)
    if op in ("sinusoidal_positions", "alibi_slopes"):
        return {"sinusoidal_positions": sinusoidal_positions, "alibi_slopes": alibi_slopes}[op](E, **case.options)
    if op == "cross_entropy":
        return cross_entropy(E, case.arrays["logits"], **case.options)
    return activate(E, op, case.arrays["x"])


def as_float64(result: Any) -> Any:
    """What an algorithm returned, as float64."""
    return result.double().numpy() if isinstance(result, torch.Tensor) else np.asarray(result, np.float64)
