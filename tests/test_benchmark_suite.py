"""What the suite costs: seconds per case of typical properties, and the start of the command."""

import pytest
from commanding import gnomon

from gnomon.impl.loading import load
from gnomon.props.engine import Budget, examine
from gnomon.props.property import properties
from gnomon.props.subject import Subject

CASES = 20
TYPICAL = ("equation", "weights_sum_to_one", "affine", "multi_head", "past_unchanged", "decodes_as_prefill")


@pytest.mark.parametrize("sensitivity", [False, True], ids=["judging", "with the faults"])
@pytest.mark.parametrize("name", TYPICAL)
def test_cost_of_cases(benchmark, name, sensitivity):
    prop = next(p for p in properties() if p.name == name)
    budget = Budget(cases=CASES, shrink=False, sensitivity=sensitivity)
    implementation = load("numpy")
    verdict = benchmark(lambda: examine(prop, Subject(implementation, "float32"), budget))
    benchmark.extra_info["cases"] = verdict.cases
    assert verdict.cases > 0


def test_start_of_the_command(benchmark):
    assert benchmark.pedantic(gnomon, args=("list",), rounds=5).code == 0
