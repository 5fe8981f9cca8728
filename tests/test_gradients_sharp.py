"""Bounds of gradients are sharp: an adversary who may choose every rounding on the way back comes close to them."""

import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import test_bounds_sharp as sharp
from attack import reached
from backward import arguments, forward
from numpy.random import Generator
from regimes import Case

from gnomon.spec.bounds import Bounds, allowed
from gnomon.spec.precision import EAGER, FORMATS, FUSED, Precision, declared
from gnomon.spec.reverse import vjp

CASES = 4  # of each kind of data
PROFILES = {"fused": FUSED, "eager": EAGER}
KINDS = ("float64", "float32", "fused", "eager")
# The median of bound over attack that is claimed, per dtype, for 16 bits per profile; the tests of the forward pass say
# why float64 doubles. A weight of a softmax enters its gradient twice, p·g and p·Σ p·g, and its errors are bounded in
# both as if they had nothing in common. Those of e^(s − l) have nothing in common, which one set of scores cannot use:
# a backward pass that computes them again in another order may. A sigmoid y errs less where y(1 − y) is small.
STATED: dict[str, tuple[float, ...]] = {
    "linear": (1.1, 1.1, 1.1, 1.1),
    "softmax": (8.8, 6.0, 2.3, 2.3),
    "attention": (8.8, 3.1, 1.9, 7.1),
    "layer_norm": (3.5, 2.2, 1.1, 1.1),
    "rms_norm": (2.3, 1.2, 1.1, 1.1),
    "gelu": (2.1, 1.1, 1.1, 1.3),
    "gelu_tanh": (2.5, 1.2, 1.1, 1.1),
    "silu": (7.0, 3.8, 1.1, 1.1),
    "feed_forward": (2.2, 1.1, 1.1, 1.1),
    "rope": (2.3, 1.2, 1.1, 1.4),
    "cross_entropy": (2.8, 1.4, 1.3, 1.3),
}


def drawn(op: str, rng: Generator, fill: Any, dtype: str) -> Case:
    """A small case with a gradient for its result."""
    case = sharp.DRAW[op](rng, fill)
    shape = forward(op, case)(Bounds(declared("float64")), arguments(op, case)).shape
    return Case(regime=case.regime, arrays={**case.arrays, "upstream": fill(rng, *shape)}, options=case.options).stored(
        dtype
    )


def pulled(op: str, case: Case, name: str) -> Callable[[Any], Any]:
    """The gradient by one argument, as something to run under any evaluator."""
    taken = arguments(op, case)
    return lambda E: vjp(E, forward(op, case), taken, case.arrays["upstream"])[1][name]


@cache
def shares(op: str, dtype: str, profile: str) -> tuple[float, ...]:
    """Bound over what the adversary reached, one entry of one argument of one case each."""
    precision = declared(dtype, PROFILES[profile])
    rng = np.random.default_rng([20260504, zlib.crc32(op.encode()), FORMATS[dtype].digits])
    return tuple(
        share(op, dtype, precision, rng, fill) for fill in (sharp.normal, sharp.positive) for _ in range(CASES)
    )


def share(op: str, dtype: str, precision: Precision, rng: Generator, fill: Any) -> float:
    case = drawn(op, rng, fill, dtype)
    name = str(rng.choice(sorted(arguments(op, case))))
    run = pulled(op, case, name)
    bound = run(Bounds(precision))
    index = int(rng.integers(bound.value.size))
    error = reached(run, precision, bound.value, index)
    least = float(allowed(bound).ravel()[index])
    return 1.0 if least == error == 0 else least / error if error else np.inf


def columns() -> list[tuple[str, str]]:
    return [(d, p) for d in FORMATS for p in PROFILES if p == "fused" or declared(d).narrow]


def stated(op: str, dtype: str, profile: str) -> float:
    return STATED[op][KINDS.index(profile if declared(dtype).narrow else dtype)]


@pytest.mark.parametrize(("dtype", "profile"), columns())
@pytest.mark.parametrize("op", STATED)
def test_an_adversary_comes_within_the_stated_factor_of_the_bound(op: str, dtype: str, profile: str) -> None:
    found = shares(op, dtype, profile)
    print(f"\n{op}, {dtype}, {profile}: least {min(found):.3f}, median {np.median(found):.2f}, most {max(found):.2f}")
    assert min(found) >= 1, "the adversary is outside"
    assert np.median(found) <= stated(op, dtype, profile)


@pytest.mark.parametrize("op", STATED)
def test_a_bound_twice_as_wide_is_not_within_the_stated_factor(op: str) -> None:
    for dtype, profile in columns()[:3]:
        assert 2 * np.median(shares(op, dtype, profile)) > stated(op, dtype, profile), (dtype, profile)
