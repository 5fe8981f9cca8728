"""The parts of the bounds, each against something simpler that is right for another reason."""

from fractions import Fraction
from typing import Any

import flint
import ml_dtypes
import numpy as np
import pytest
from balls import BITS, Balls

from gnomon.spec.attention import attention, softmax
from gnomon.spec.bounds import Bounds, Tracked, allowed, half_ulp, round_to
from gnomon.spec.constants import (
    HALF,
    ONE,
    ROOT_HALF,
    ROOT_TWO_OVER_PI,
    TANH_CUBIC,
    Constant,
    exactly,
    inverse_root,
    rational,
)
from gnomon.spec.evaluators import Float64
from gnomon.spec.linear import activate, feed_forward, linear
from gnomon.spec.precision import BFLOAT16, EAGER, FLOAT16, FLOAT32, FLOAT64, FORMATS, FUSED, Format, declared

SIXTEEN = (BFLOAT16, FLOAT16)


def patterns(form: Format) -> Any:
    """Every finite number of a 16-bit format as float64, in increasing order, zero once."""
    with np.errstate(invalid="ignore"):  # a signalling NaN says so when it is cast
        every = np.arange(2**16, dtype=np.uint16).view(form.dtype).astype(np.float64)
    return np.unique(every[np.isfinite(every)])


# round_to


@pytest.mark.parametrize("form", SIXTEEN, ids=lambda f: f.name)
def test_every_number_of_the_format_rounds_to_itself(form: Format) -> None:
    numbers = patterns(form)
    assert numbers.size > 63_000
    assert np.array_equal(round_to(numbers, form), numbers)


@pytest.mark.parametrize("form", SIXTEEN, ids=lambda f: f.name)
def test_ties_go_to_even_and_anything_else_to_the_nearer(form: Format) -> None:
    """In one rounding: an excess of one part in 2^52 over a tie, which a detour by float32 would lose, decides."""
    numbers = patterns(form)
    low, high = numbers[:-1], numbers[1:]
    middle = (low + high) / 2
    even = low.astype(form.dtype).view(np.uint16) % 2 == 0
    assert np.array_equal(round_to(middle, form), np.where(even, low, high))
    assert np.array_equal(round_to(np.nextafter(middle, -np.inf), form), low)
    assert np.array_equal(round_to(np.nextafter(middle, np.inf), form), high)


@pytest.mark.parametrize("form", [FLOAT32, FLOAT16], ids=lambda f: f.name)
def test_rounding_is_the_cast_of_numpy(form: Format) -> None:
    rng = np.random.default_rng(20260121)
    x = rng.standard_normal(200_000) * 2.0 ** rng.integers(-160, 140, 200_000)
    x = np.concatenate([x, [0.0, -0.0, np.inf, -np.inf], 65_520 + np.arange(-2.0, 3), [3.5e38, -3.5e38]])
    with np.errstate(over="ignore"):
        cast = x.astype(form.dtype).astype(np.float64)
    assert np.array_equal(round_to(x, form), cast)
    assert np.array_equal(np.signbit(round_to(x, form)), np.signbit(cast))


def test_rounding_to_bfloat16_is_the_cast_of_ml_dtypes_from_float32() -> None:
    rng = np.random.default_rng(20260122)
    x = (rng.standard_normal(200_000) * 2.0 ** rng.integers(-130, 126, 200_000)).astype(np.float32)
    cast = x.astype(ml_dtypes.bfloat16).astype(np.float64)
    assert np.array_equal(round_to(x.astype(np.float64), BFLOAT16), cast)


@pytest.mark.parametrize("form", FORMATS.values(), ids=lambda f: f.name)
def test_nan_stays_nan(form: Format) -> None:
    assert np.isnan(round_to(np.array([np.nan]), form)).all()


# half_ulp


@pytest.mark.parametrize("form", SIXTEEN, ids=lambda f: f.name)
def test_half_ulp_is_half_the_gap_above_every_number(form: Format) -> None:
    numbers = patterns(form)
    positive = numbers[numbers > 0]
    gap = np.diff(positive) / 2
    assert np.array_equal(half_ulp(positive[:-1], form), np.maximum(gap, form.underflow))


@pytest.mark.parametrize("form", FORMATS.values(), ids=lambda f: f.name)
def test_rounding_moves_by_at_most_half_an_ulp(form: Format) -> None:
    rng = np.random.default_rng(20260123)
    x = rng.standard_normal(100_000) * 2.0 ** rng.integers(-30, 12, 100_000)
    assert (np.abs(round_to(x, form) - x) <= half_ulp(x, form)).all()
    assert half_ulp(np.array(0.0), form) == 0
    assert half_ulp(np.array(1.0), form) == form.unit


# Constants

CONSTANTS = (
    *(HALF, ONE, ROOT_HALF, ROOT_TWO_OVER_PI, TANH_CUBIC),
    *(inverse_root(n) for n in range(1, 200)),
    *(exactly(x) for x in (0.1, -30.0, 1e-30, 1e-300, 5e-324, 1e300, 0.0)),
    *(rational(a, b) for a, b in ((1, 3), (-2, 7), (9, 64))),
    *(Constant(Fraction(-1), Fraction(1, 3)), Constant(Fraction(1, 10**30), Fraction(2))),
)


@pytest.mark.parametrize("constant", CONSTANTS, ids=str)
def test_a_constant_as_float_is_within_a_rounding_of_its_ball(constant: Constant) -> None:
    """Correctly rounded but where π is divided by, which costs two roundings more and `constant` allows for."""
    exact, value = Balls().constant(constant)[()], float(constant)
    roundings = 2 if constant.over_pi else 1
    error = abs(flint.arb(value) - exact)
    assert error <= flint.arb(roundings * half_ulp(np.array(value), FLOAT64).item())
    assert constant.rational is None or Fraction(value) == Fraction(float(constant.rational))


def test_a_square_root_that_is_a_fraction_is_seen_as_one() -> None:
    assert inverse_root(64).rational == Fraction(1, 8)
    assert inverse_root(2).rational is None
    assert Constant(Fraction(-3), Fraction(4, 9)).rational == -2
    assert ROOT_TWO_OVER_PI.rational is None


@pytest.mark.parametrize("form", SIXTEEN, ids=lambda f: f.name)
def test_a_short_constant_is_held_by_every_format(form: Format) -> None:
    short = [c for c in (*CONSTANTS, *(rational(n, 2**k) for n in range(600) for k in range(9))) if c.short]
    assert len(short) > 1000
    for constant in short:
        assert round_to(np.array(float(constant)), form) == float(constant), constant


def test_what_needs_nine_bits_or_no_end_of_them_is_not_short() -> None:
    assert [c.short for c in (rational(255), rational(256), rational(257), rational(1, 3), inverse_root(2))] == [
        *(True, True, False, False, False)
    ]
    assert not exactly(0.1).short


# Bounds at their edges


def test_an_exact_zero_stays_exact() -> None:
    bounds = Bounds(declared("bfloat16"))
    zero, one = bounds.number(np.zeros(3)), bounds.number(np.ones(3))
    third = bounds.number(np.full(3, 1 / 3))
    for result in (zero + zero, bounds.store(zero, "out"), bounds.rectify(-one)):
        assert (result.value == 0).all()
        assert (result.error == 0).all()
    assert ((third + zero).error == 0).all()
    product = bounds.matmul(bounds.number(np.zeros((2, 3))), bounds.number(np.ones((3, 2))))
    assert (product.error == 0).all()


def test_terms_that_are_exactly_zero_are_not_counted() -> None:
    bounds = Bounds(declared("float32"))
    row, column = np.array([[1.0, 0, 0, 0]]), np.ones((4, 1))
    sparse = bounds.matmul(bounds.number(row), bounds.number(column)).error
    assert sparse == bounds.matmul(bounds.number(row[:, :1]), bounds.number(column[:1])).error


def test_storing_what_is_stored_is_exact() -> None:
    bounds = Bounds(declared("float16"))
    once = bounds.store(bounds.number(np.array([1 / 3])), "out")
    assert np.array_equal(bounds.store(once, "hidden").error, once.error)
    assert (bounds.store(once + once, "hidden").error > 2 * once.error).all()


def test_a_number_beyond_the_format_has_an_infinite_bound() -> None:
    bounds = Bounds(declared("float16"))
    assert bounds.store(bounds.number(np.array([65_504.0, 65_520.0])), "out").error[1] == np.inf
    assert np.isfinite(bounds.store(bounds.number(np.array([60_000.0])), "out").error).all()


def test_a_sum_that_some_order_overflows_has_an_infinite_bound() -> None:
    bounds = Bounds(declared("float32"))
    x, ones = np.array([[2e38, 2e38, -2e38, -2e38]]), np.ones((4, 1))
    assert bounds.matmul(bounds.number(x), bounds.number(ones)).error == np.inf


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu"])
def test_no_function_hides_an_overflow(name: str) -> None:
    bounds = Bounds(declared("float16"))
    lost = bounds.store(bounds.number(np.array([1e5, -1e5])), "out")
    assert (allowed(activate(bounds, name, lost)) == np.inf).all()


def test_no_clamp_hides_an_overflow_of_the_scores() -> None:
    q = np.full((1, 1, 1, 64), 40.0)
    options = {"softcap": 30.0}
    eager, fused = (Bounds(declared("float16", sites)) for sites in (EAGER, FUSED))
    assert (allowed(attention(eager, q, q, q)) == np.inf).all()
    assert (allowed(attention(eager, q, q, q, **options)) == np.inf).all()
    assert np.isfinite(allowed(attention(fused, q, q, q))).all()


def test_an_overflow_reaches_the_end_of_a_network() -> None:
    parameters = {"up_weight": np.full((2, 2), 300.0), "down_weight": np.ones((2, 2))}
    result = feed_forward(Bounds(declared("float16")), np.full((1, 2), 200.0), parameters, "gelu")
    assert (allowed(result) == np.inf).all()


def test_nan_is_permitted_where_the_exact_value_is_nan_and_nowhere_else() -> None:
    bounds = Bounds(declared("float32"))
    x, weight = np.array([[np.nan, 1.0], [1.0, 2.0]]), np.eye(2)
    result = linear(bounds, x, weight)
    assert (allowed(result)[0] == np.inf).all()
    assert np.isfinite(allowed(result)[1]).all()
    assert np.isnan(result.value[0]).all()


def test_an_error_without_information_is_no_licence_for_nan() -> None:
    huge = Tracked(np.zeros(2), np.array([1e300, np.inf]), declared("float32"))
    assert np.isfinite(huge.error[0])
    assert huge.error[1] == np.inf


def test_a_row_that_may_attend_to_nothing_is_exactly_zero() -> None:
    rng = np.random.default_rng(20260124)
    q, seen = rng.standard_normal((1, 1, 3, 4)), np.array([[True, True, False], [False, False, False], [True] * 3])
    for dtype in FORMATS:
        result = attention(Bounds(declared(dtype)), q, q, q, allowed=seen)
        assert (result.value[..., 1, :] == 0).all()
        assert (result.error[..., 1, :] == 0).all()
        assert (result.error[..., [0, 2], :] > 0).all()


def test_a_masked_key_does_not_widen_the_bound() -> None:
    """However large its finite value is: a leak of any part of it must be seen."""
    rng = np.random.default_rng(20260125)
    for keys, width in ((3, 4), (64, 64)):
        q, v = rng.standard_normal((2, 1, 2, keys, width))
        seen = np.tri(keys, dtype=bool)
        large = v.copy()
        large[..., -1, :] = 1e38
        bounds = [attention(Bounds(declared("float32")), q, q, x, allowed=seen).error for x in (v, large)]
        assert np.array_equal(*(b[..., :-1, :] for b in bounds))


def test_far_scores_of_large_error_may_exchange_their_order() -> None:
    """At 2^20 a stored score errs by up to 2^12, so weights that have underflowed may become one."""
    logits = np.array([[2.0**20, 2.0**20 - 3000.0]])
    bounds = Bounds(declared("bfloat16", EAGER))
    stored = bounds.store(bounds.number(logits), "scores")
    result = bounds.weigh(stored, bounds.number(np.array([[1.0], [-1.0]])), None)
    assert result.value == 1
    assert result.error >= 2
    assert (bounds.softmax(stored).error >= 1).all()
    near = bounds.weigh(bounds.number(logits), bounds.number(np.array([[1.0], [-1.0]])), None)
    assert near.error < 1


# Powers of two


@pytest.mark.parametrize("dtype", FORMATS)
def test_a_power_of_two_scales_value_and_bound_alike(dtype: str) -> None:
    rng = np.random.default_rng(20260126)
    x, weight, bias = (round_to(rng.standard_normal(s), FORMATS[dtype]) for s in ((3, 8), (5, 8), (5,)))
    bounds = Bounds(declared(dtype))
    plain, scaled = (linear(bounds, k * x, weight, k * bias) for k in (1.0, 4.0))
    assert np.array_equal(4 * plain.value, scaled.value)
    drift = np.abs(4 * allowed(plain) - allowed(scaled))
    assert (drift <= 4 * 8 * bounds.precision.storage.underflow + half_ulp(allowed(scaled), FLOAT64)).all()


@pytest.mark.parametrize("dtype", FORMATS)
def test_exact_powers_of_two_give_the_exact_value(dtype: str) -> None:
    x = 2.0 ** np.arange(-4, 4)[None, :]
    assert np.array_equal(linear(Bounds(declared(dtype)), x, np.eye(8)).value, x)
    result = softmax(Bounds(declared(dtype)), np.zeros((1, 8)))
    assert np.array_equal(result.value, np.full((1, 8), 0.125))


def test_the_evaluators_agree_on_the_value() -> None:
    rng = np.random.default_rng(20260127)
    q, k, v = rng.standard_normal((3, 1, 2, 5, 4))
    seen = np.tri(5, dtype=bool)
    plain = attention(Float64(), q, k, v, allowed=seen)
    for dtype in FORMATS:
        assert np.array_equal(attention(Bounds(declared(dtype)), q, k, v, allowed=seen).value, plain)


def test_the_balls_have_the_bits_they_say() -> None:
    third = Balls().constant(rational(1, 3))[()]
    assert third.rel_accuracy_bits() >= BITS - 2
