"""The oracle is certified: float64 lies within its own bound of the exact value, which a ball encloses."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest
import regimes
from algorithms import equation
from balls import BITS, OWN_SHARE, Balls, farthest, nearest
from numpy.random import Generator
from regimes import REGIMES, SCALINGS, Case, fill

from gnomon.spec.bounds import Bounds
from gnomon.spec.configuration import Rotary, Scaling
from gnomon.spec.evaluators import Float64
from gnomon.spec.masks import causal
from gnomon.spec.order import LIBRARY, alibi_exponents
from gnomon.spec.precision import FLOAT64, FUSED, declared
from gnomon.spec.rotary import frequencies, yarn_band

REPEATS = 3


def small_attention(rng: Generator, regime: str, heads: int = 2, shared: int = 2) -> Case:
    """At most twelve keys of width sixteen, in two heads unless told."""
    queries, keys, width, value_width = (regimes.length(rng, n) for n in (8, 12, 16, 6))
    plain = "ordinary" if regime == "huge-scores" else regime
    arrays = {
        "query": fill(rng, regime, (1, heads, queries, width)),
        "key": fill(rng, regime, (1, shared, keys, width), "right"),
        "value": fill(rng, plain, (1, shared, keys, value_width)),
    }
    return Case(regime=regime, arrays=arrays, options={"allowed": None})


def with_mask(rng: Generator, regime: str) -> Case:
    case = small_attention(rng, regime)
    queries, keys = case.arrays["query"].shape[-2], case.arrays["key"].shape[-2]
    return replace(case, options={"allowed": causal(queries, keys)})  # with empty rows where queries outnumber keys


def with_groups(rng: Generator, regime: str) -> Case:
    return small_attention(rng, regime, heads=4, shared=2)


def with_softcap(rng: Generator, regime: str) -> Case:
    return replace(small_attention(rng, regime), options={"allowed": None, "softcap": 30.0})


def with_sink(rng: Generator, regime: str) -> Case:
    case = small_attention(rng, regime)
    return replace(case, arrays={**case.arrays, "sink": fill(rng, "ordinary", (2,))})


def with_bias(rng: Generator, regime: str) -> Case:
    case = small_attention(rng, regime)
    queries, keys = case.arrays["query"].shape[-2], case.arrays["key"].shape[-2]
    return replace(case, arrays={**case.arrays, "bias": fill(rng, "ordinary", (queries, keys))})


def small_activation(rng: Generator, regime: str) -> Case:
    return Case(regime=regime, arrays={"x": fill(rng, regime, (40,))}, options={})


DRAW: Mapping[str, tuple[str, Callable[[Generator, str], Case]]] = {
    "linear": ("linear", regimes.linear_case),
    **{name: (name, small_activation) for name in ("relu", "gelu", "gelu_tanh", "silu")},
    "softmax": ("softmax", regimes.softmax_case),
    "attention": ("attention", small_attention),
    "attention, causal": ("attention", with_mask),
    "attention, grouped": ("attention", with_groups),
    "attention, softcap": ("attention", with_softcap),
    "attention, sink": ("attention", with_sink),
    "attention, bias": ("attention", with_bias),
    "multi_head_attention": ("multi_head_attention", regimes.multi_head_case),
    "feed_forward": ("feed_forward", regimes.feed_forward_case),
    "layer_norm": ("layer_norm", regimes.layer_norm_case),
    "rms_norm": ("rms_norm", regimes.rms_norm_case),
    "rope": ("rope", regimes.rope_case),
    "sinusoidal_positions": ("sinusoidal_positions", regimes.sinusoidal_case),
    "alibi_slopes": ("alibi_slopes", regimes.slopes_case),
}


@dataclass(frozen=True, slots=True)
class Certificate:
    """For every entry of a result, whether its error is proven inside a bound, and whether proven outside."""

    inside: Any
    outside: Any

    @property
    def inconclusive(self) -> int:
        return int(np.count_nonzero(~self.inside & ~self.outside))


def certify(value: Any, exact: Any, error: Any) -> Certificate:
    return Certificate(farthest(value, exact) <= error, nearest(value, exact) > error)


def drawn(name: str) -> list[Case]:
    rng = np.random.default_rng([20260119, zlib.crc32(name.encode())])
    return [DRAW[name][1](rng, regime) for _ in range(REPEATS) for regime in REGIMES]


@pytest.mark.parametrize("name", DRAW)
def test_float64_lies_within_its_own_bound_of_the_ball(name: str) -> None:
    op, entries = DRAW[name][0], 0
    for case in drawn(name):
        exact, bound = equation(Balls(), op, case), equation(Bounds(declared("float64")), op, case)
        assert np.array_equal(bound.value, equation(Float64(), op, case)), "the bound belongs to another value"
        certificate = certify(bound.value, exact, bound.error)
        assert not certificate.outside.any(), (name, case.regime)
        assert certificate.inconclusive == 0, (name, case.regime)
        assert np.isfinite(bound.error).all()
        entries += certificate.inside.size
    print(f"\n{name}: {REPEATS * len(REGIMES)} cases, {entries} entries certified at {BITS} bits")
    assert entries >= REPEATS * len(REGIMES)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", DRAW)
def test_the_error_of_float64_is_the_share_of_the_bound_that_allowed_adds(name: str, dtype: str) -> None:
    """|float64 − exact| ≤ (unit64/unit)·bound, wherever no a-priori range cuts the bound off."""
    op, precision, tight = DRAW[name][0], declared(dtype, FUSED), 0.0
    share = FLOAT64.unit / precision.arithmetic.unit
    for case in drawn(name):
        if case.regime == "huge-scores":  # exponents err by more than one, and the bound is the range of the values
            continue
        exact, bound = equation(Balls(), op, case), equation(Bounds(precision), op, case)
        distance = farthest(bound.value, exact)
        assert (distance <= share * bound.error).all(), (name, case.regime)
        moved = distance > 0
        tight = max(tight, (distance[moved] / (share * bound.error[moved])).max(initial=0.0))
    print(f"\n{name}, {dtype}: float64 errs by at most {tight:.3f} of its share")


def powered(base: float, exponents: Any) -> Any:
    """base^(−exponent) in balls, the exponents exact fractions 2i/width."""
    return np.array([flint.arb(base) ** -flint.arb(flint.fmpq(e.numerator, e.denominator)) for e in exponents])


@pytest.mark.parametrize("width", [2, 4, 6, 10, 24, 64, 80, 96, 128, 256])
@pytest.mark.parametrize("base", [100.0, 10000.0, 500000.0, 1e6])
def test_float64_makes_half_the_error_that_is_allowed_the_frequencies(width: int, base: float) -> None:
    """What balls take for granted of numbers that are worked out apart."""
    values, roundoffs = frequencies(width, Rotary(base=base))
    exact = powered(base, [Fraction(2 * i, width) for i in range(width // 2)])
    assert (farthest(values, exact) <= OWN_SHARE * roundoffs * values * FLOAT64.unit).all()


@pytest.mark.parametrize("scaling", [s for s in SCALINGS if s is not None], ids=lambda s: s.kind)
@pytest.mark.parametrize("width", [4, 8, 64, 128])
def test_and_so_it_does_with_a_scaling(scaling: Scaling, width: int) -> None:
    for length in (1, 90, 1000, 2**17):
        values, roundoffs = frequencies(width, Rotary(scaling=scaling), length)
        exact = stretched(scaling, width, length)
        assert (farthest(values, exact) <= OWN_SHARE * roundoffs * values * FLOAT64.unit).all()


def stretched(s: Scaling, width: int, length: int) -> Any:
    """The frequencies of base 10000 under a scaling, in balls, from the definitions written out once more."""
    exponents, factor = [Fraction(2 * i, width) for i in range(width // 2)], flint.arb(s.factor)
    plain = powered(10000.0, exponents)
    if s.kind == "linear":
        return plain / factor
    if "ntk" in s.kind:
        ratio = factor if s.kind == "ntk" else factor * max(length, s.original) / s.original - (factor - 1)
        raised = ratio ** flint.arb(flint.fmpq(width, width - 2))
        return np.array(
            [
                f * raised ** -flint.arb(flint.fmpq(e.numerator, e.denominator))
                for f, e in zip(plain, exponents, strict=True)
            ]
        )
    if s.kind == "llama3":
        shares = [(s.original * f / (2 * flint.arb.pi()) - s.low) / (s.high - s.low) for f in plain]
    else:
        low, high = yarn_band(width, 10000.0, s)
        shares = [1 - flint.arb(flint.fmpq(i - low, max(high - low, 1))) for i in range(width // 2)]
    kept = [share.max(flint.arb(0)).min(flint.arb(1)) for share in shares]
    return np.array([f * k + f / factor * (1 - k) for f, k in zip(plain, kept, strict=True)])


@pytest.mark.parametrize("heads", [1, 3, 8, 12, 16, 31, 64, 112])
def test_float64_makes_half_the_error_that_is_allowed_the_slopes(heads: int) -> None:
    exponents, rank = alibi_exponents(heads)
    exact = [flint.arb(2) ** -flint.arb(flint.fmpq(*map(int, e.as_integer_ratio()))) for e in exponents]
    assert (
        farthest(2.0**-exponents, np.array(exact))
        <= OWN_SHARE * np.where(rank, LIBRARY + 2 * rank, 0) * 2.0**-exponents * FLOAT64.unit
    ).all()


def test_a_ball_is_narrower_than_any_bound() -> None:
    case = drawn("attention")[0]
    exact, bound = equation(Balls(), "attention", case), equation(Bounds(declared("float64")), "attention", case)
    assert (farthest(bound.value, exact) - nearest(bound.value, exact) <= bound.error * 2.0**-40).all()


def test_a_result_moved_by_twice_its_bound_is_certified_outside() -> None:
    case = drawn("attention")[0]
    exact, bound = equation(Balls(), "attention", case), equation(Bounds(declared("float64")), "attention", case)
    assert certify(bound.value + 2 * bound.error, exact, bound.error).outside.all()
