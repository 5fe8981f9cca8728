"""What judging a whole model costs: seconds a case, and how that grows beside what the implementation itself does."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gnomon.impl.loading import load
from gnomon.props.box import Box, Input, Run, _evaluated, box, equals, rebased
from gnomon.props.model_cases import ModelCase
from gnomon.props.subject import Subject
from gnomon.spec.adjoint import Adjoint

FAMILIES = ("llama", "gpt2", "opt", "gemma2")
USUAL: dict[str, int] = {
    "layers": 2,
    "heads": 4,
    "kv_heads": 4,
    "head_width": 4,
    "feed_forward": 16,
    "batch": 2,
    "time": 7,
}
# Large enough that the numbers, and not the number of steps, take the time.
LARGE: dict[str, int] = {"layers": 2, "heads": 4, "kv_heads": 4, "head_width": 16, "feed_forward": 128, "time": 32}
TWICE: dict[str, dict[str, int]] = {
    "depth": {"layers": 4},
    "width": {"head_width": 32, "feed_forward": 256},
    "length": {"time": 64},
}
ROUNDS = 7


def made(family: str, dtype: str, sizes: dict[str, int]) -> tuple[Box, Input]:
    case = ModelCase(family=family, seed=5, regime="ordinary", vocabulary=11, window=3, **sizes)
    return box(Subject(load("numpy"), dtype), case), Input(case.tokens())


def judged(own: Box, given: Input) -> None:
    trace: dict[str, Any] = {}
    run = Run(own, given, own(given, trace=trace), own.noted(trace))
    assert all(c.holds for c in rebased("a traced call", run))


def reckoned(own: Box, given: Input) -> Any:
    """The exact output, the departures on the way, and the bounds of two functionals of it."""
    E = Adjoint(own.subject.precision)
    out = _evaluated(E, own, given)
    return E.bounds_of(out, np.ones((2, *out.shape)))


@pytest.mark.benchmark(group="a model")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("work", [Box.__call__, judged, reckoned], ids=["called", "traced and judged", "reckoned"])
def test_cost_of_a_model(benchmark: Any, family: str, work: Callable[..., Any]) -> None:
    own, given = made(family, "float32", USUAL)
    benchmark(lambda: work(own, given))


@pytest.mark.benchmark(group="a model")
@pytest.mark.parametrize("family", FAMILIES)
def test_cost_of_a_case(benchmark: Any, family: str) -> None:
    """All that one case of a property costs: parameters drawn, the model built and called, its output judged."""
    seeds = iter(range(10**9))

    def case() -> None:
        own = ModelCase(family=family, seed=next(seeds), regime="ordinary", vocabulary=11, window=3, **USUAL)
        model = box(Subject(load("numpy"), "float32"), own)
        assert all(c.holds for c in equals("output", model.run(Input(own.tokens()))))

    benchmark(case)


def least(work: Callable[..., Any], own: Box, given: Input) -> float:
    """Seconds of processor time, the least of several rounds."""
    found = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work(own, given)
        found.append(time.process_time() - start)
    return min(found)


@pytest.mark.benchmark(group="growth")
@pytest.mark.parametrize("what", TWICE)
@pytest.mark.parametrize("work", [judged, reckoned])
def test_cost_grows_as_that_of_the_model_does(benchmark: Any, work: Callable[..., Any], what: str) -> None:
    small, large = made("llama", "float32", LARGE), made("llama", "float32", LARGE | TWICE[what])
    own, model = (least(f, *large) / least(f, *small) for f in (work, Box.__call__))
    benchmark.extra_info |= {"growth": own, "growth of the model": model}
    print(f"\ntwice the {what}: {work.__name__} takes {own:.1f} times as long, the model {model:.1f} times")
    benchmark.pedantic(work, large, rounds=3)
    assert own < 2 * model
