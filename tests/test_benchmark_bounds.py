"""What a bound costs: the ratio of the two means is read off the benchmark's table, at most fifteen is aimed at."""

from typing import Any

import numpy as np
import pytest

from gnomon.spec.attention import attention
from gnomon.spec.bounds import Bounds, allowed
from gnomon.spec.evaluators import Float64
from gnomon.spec.masks import causal
from gnomon.spec.precision import declared

TIME, WIDTH, HEADS, SHARED = 32, 64, 8, 2


@pytest.fixture(name="arguments")
def _arguments() -> dict[str, Any]:
    rng = np.random.default_rng(20260120)
    shapes = {"query": (1, HEADS, TIME, WIDTH)} | dict.fromkeys(("key", "value"), (1, SHARED, TIME, WIDTH))
    arrays = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    return {**arrays, "allowed": causal(TIME, TIME)}


@pytest.mark.benchmark(group="attention")
def test_attention_in_float64(benchmark: Any, arguments: dict[str, Any]) -> None:
    assert np.isfinite(benchmark(lambda: attention(Float64(), **arguments))).all()


@pytest.mark.benchmark(group="attention")
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_attention_with_its_bound(benchmark: Any, arguments: dict[str, Any], dtype: str) -> None:
    evaluator = Bounds(declared(dtype))
    assert np.isfinite(allowed(benchmark(lambda: attention(evaluator, **arguments)))).all()
