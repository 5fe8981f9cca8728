"""The bounds are sound: whatever the order, blocking, fusion and storage, no correct algorithm is outside."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import regimes
from algorithms import ALGORITHMS, Algorithm, Machine, as_float64, equation
from losses import loss_case
from numpy.random import Generator
from regimes import REGIMES, Case

from gnomon.spec.bounds import Bounds, allowed
from gnomon.spec.precision import FORMATS, declared

DRAW: dict[str, Callable[[Generator, str], Case]] = {
    "linear": regimes.linear_case,
    "softmax": regimes.softmax_case,
    "attention": regimes.attention_case,
    "multi_head_attention": regimes.multi_head_case,
    "feed_forward": regimes.feed_forward_case,
    "layer_norm": regimes.layer_norm_case,
    "rms_norm": regimes.rms_norm_case,
    "rope": regimes.rope_case,
    "sinusoidal_positions": regimes.sinusoidal_case,
    "alibi_slopes": regimes.slopes_case,
    "cross_entropy": loss_case,
}
# How many comparisons each operation promises per chunk; a comparison is one case, one algorithm, one dtype.
PROMISED = {
    "linear": 700,
    "softmax": 700,
    "relu": 200,
    "gelu": 500,
    "gelu_tanh": 500,
    "silu": 500,
    "attention": 1200,
    "multi_head_attention": 500,
    "feed_forward": 400,
    "layer_norm": 900,
    "rms_norm": 700,
    "rope": 900,
    "sinusoidal_positions": 400,
    "alibi_slopes": 200,
    "cross_entropy": 1500,
}
MOST_ABSTAIN = 0.05  # nearly all in float16, where products of huge scores overflow
IN_ONE_PASS = {"layer_norm": 0.1}  # a variance in one pass may come out negative, and its root be no number
LONG_CHUNKS = range(1, 11)


@dataclass(slots=True)
class Tally:
    """How many comparisons were made, how many had an infinite bound, and the worst error per dtype."""

    compared: int = 0
    abstained: int = 0
    worst: dict[str, float] = field(default_factory=dict)
    outside: list[str] = field(default_factory=list)

    def add(self, out: Any, wanted: Any, allow: Any, dtype: str, label: str) -> None:
        ratio = largest_ratio(out, wanted, allow)
        self.compared += 1
        self.abstained += not np.isfinite(allow).all()
        self.worst[dtype] = max(self.worst.get(dtype, 0.0), ratio)
        if not ratio <= 1:
            self.outside.append(f"{label}: {ratio:.4g}")

    def __str__(self) -> str:
        worst = ", ".join(f"{dtype} {ratio:.3f}" for dtype, ratio in self.worst.items())
        return f"{self.compared} comparisons, {self.abstained} abstentions, worst error/bound {worst}"


def largest_ratio(out: Any, wanted: Any, allow: Any) -> float:
    """The largest share of a bound that an error uses; infinite for NaN or for an error where none is allowed."""
    with np.errstate(invalid="ignore"):  # infinity less infinity, where an infinite bound allows it
        error = np.abs(out - wanted)
    share = np.where(error == 0, 0.0, error / np.where((allow == 0) | (allow == np.inf), np.nan, allow))
    share = np.where(allow == np.inf, 0.0, np.where(np.isnan(share), np.inf, share))
    return float(share.max(initial=0.0))


def cases(op: str, chunk: int) -> Iterator[Case]:
    rng = np.random.default_rng([20260117, zlib.crc32(op.encode()), chunk])
    draw = DRAW.get(op, regimes.activation_case)
    while True:
        yield from (draw(rng, regime) for regime in REGIMES)


def compare(op: str, case: Case, dtype: str, algorithms: tuple[Algorithm, ...], tally: Tally) -> None:
    stored, bounds = case.stored(dtype), {}
    for algorithm in algorithms:
        with np.errstate(all="ignore"):  # an implementation may overflow, the bound must not
            result = algorithm.run(Machine(dtype, algorithm.sites), stored)
        if result is None:
            continue
        if algorithm.sites not in bounds:
            bounds[algorithm.sites] = equation(Bounds(declared(dtype, algorithm.sites)), op, stored)
        bound = bounds[algorithm.sites]
        shapes = {name: a.shape for name, a in case.arrays.items()}
        label = f"{op}, {algorithm.name}, {dtype}, {case.regime}, {shapes}, {sorted(case.options)}"
        tally.add(as_float64(result), bound.value, allowed(bound), dtype, label)


def survey(op: str, chunk: int) -> Tally:
    """As many cases as it takes to keep the promise."""
    tally = Tally()
    for case in cases(op, chunk):
        for dtype in FORMATS:
            compare(op, case, dtype, ALGORITHMS[op], tally)
        if tally.compared >= PROMISED[op]:
            return tally
    raise AssertionError("the cases never end")


def test_the_promises_add_up() -> None:
    assert sum(PROMISED.values()) >= 5_000
    assert sum(PROMISED.values()) * len(LONG_CHUNKS) >= 50_000


def test_each_operation_has_five_algorithms_that_apply_to_every_dtype() -> None:
    for op, algorithms in ALGORITHMS.items():
        case = next(cases(op, 0))
        for dtype in FORMATS:
            stored = case.stored(dtype)
            results = [a.run(Machine(dtype, a.sites), stored) for a in algorithms]
            assert sum(r is not None for r in results) >= 5, (op, dtype)


def test_a_comparison_sees_nan_and_an_error_where_none_is_allowed() -> None:
    assert largest_ratio(np.array([np.nan]), np.array([1.0]), np.array([1.0])) == np.inf
    assert largest_ratio(np.array([1.5]), np.array([1.0]), np.array([0.0])) == np.inf
    assert largest_ratio(np.array([1.5]), np.array([1.0]), np.array([0.25])) == 2
    assert largest_ratio(np.array([np.nan]), np.array([1.0]), np.array([np.inf])) == 0


def check(op: str, chunk: int) -> None:
    tally = survey(op, chunk)
    print(f"\n{op}: {tally}")
    assert tally.outside == []
    assert tally.compared >= PROMISED[op]
    assert tally.abstained <= IN_ONE_PASS.get(op, MOST_ABSTAIN) * tally.compared


@pytest.mark.parametrize("op", PROMISED)
def test_no_correct_algorithm_is_outside_its_bound(op: str) -> None:
    check(op, 0)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", LONG_CHUNKS)
@pytest.mark.parametrize("op", PROMISED)
def test_no_correct_algorithm_is_outside_its_bound_in_the_long_run(op: str, chunk: int) -> None:
    check(op, chunk)
