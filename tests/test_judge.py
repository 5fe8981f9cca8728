"""The judge: worst element first, no average, NaN and infinity as values, and failures that can be read aloud."""

import numpy as np
import pytest

from gnomon.impl.faults import faults
from gnomon.impl.loading import described
from gnomon.impl.reference import NumpyReference
from gnomon.props.cases import read_case
from gnomon.props.engine import judge, replay
from gnomon.props.judge import Comparison, Violation, between, close, same
from gnomon.props.outcome import Status
from gnomon.props.property import properties
from gnomon.props.subject import Subject
from gnomon.spec.scale import MEASURED_SCALE

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("got", "want", "allowed", "margin"),
    [
        (1.0, 1.0, 0.0, 0.0),
        (1.5, 1.0, 1.0, 0.5),
        (2.0, 1.0, 1.0, 1.0),
        (3.0, 1.0, 1.0, 2.0),
        (1.0, 2.0, 0.0, INF),
        (NAN, 1.0, 1.0, INF),
        (1.0, NAN, 1.0, INF),
        (NAN, NAN, 0.0, 0.0),
        (INF, 1.0, 1.0, INF),
        (INF, INF, 0.0, 0.0),
        (-INF, INF, 1.0, INF),
        (NAN, 1.0, INF, 0.0),
        (5.0, 1.0, INF, 0.0),
    ],
)
def test_the_margin_is_the_error_over_its_bound(got, want, allowed, margin):
    seen = close("x", got, want, allowed)
    assert (seen.margin, seen.holds) == (margin, margin <= 1)


def test_minus_zero_is_zero():
    assert same("x", -0.0, 0.0).holds


def test_an_allowance_that_is_nan_excuses_nothing():
    assert close("x", 1.0, 2.0, NAN).margin == INF


def test_the_worst_element_is_told_and_not_an_average():
    seen = close("x", [[0.0, 3.0], [2.0, 0.0]], 0.0, [[1.0, 2.0], [1.0, 1.0]])
    assert (seen.worst, seen.margin) == ((1, 0), 2.0)
    assert str(seen) == "x[1, 0]: got 2, wanted 0 ± 1"


def test_nan_is_worse_than_any_number():
    assert str(close("x", [9.0, NAN], 0.0, 1.0)) == "x[1]: got nan, wanted 0 ± 1"


def test_a_number_without_an_axis_has_no_index():
    assert str(close("x", 2.0, 1.0, 0.25)) == "x: got 2, wanted 1 ± 0.25"


def test_where_anything_is_permitted_nothing_is_decided():
    assert not close("x", [1.0, 2.0], 0.0, INF).decides
    assert close("x", [1.0, 2.0], 0.0, [INF, 1.0]).decides


def test_no_elements_decide_nothing_and_hold():
    empty = close("x", np.zeros((0, 3)), 0.0, np.zeros((0, 3)))
    assert (empty.holds, empty.decides) == (True, False)


@pytest.mark.parametrize(("got", "holds"), [(0.5, True), (-0.25, True), (1.25, True), (1.5, False), (NAN, False)])
def test_between_is_an_interval_and_its_blur(got, holds):
    assert between("x", got, 0.0, 1.0, 0.25).holds == holds


def test_between_may_be_open():
    assert between("x", 5.0, 0.0, INF, 0.0).holds


def test_a_smaller_array_is_broadcast_and_another_shape_refused():
    assert close("x", np.ones((2, 3)), 1.0, 0.0).got.shape == (2, 3)
    with pytest.raises(ValueError, match="broadcast"):
        close("x", np.ones(2), np.ones(3), 0.0)


CASE = "attention,regime=ordinary,seed=0,batch=1,heads=1,kv_heads=1,queries=1,keys=4,width=4,value_width=2"


def named(name):
    return next(p for p in properties() if p.name == name)


def subject(slug):
    return Subject(next(f.implementation for f in faults() if f.mistake.slug == slug), "float32")


def test_a_failure_can_be_read_aloud():
    case = read_case(CASE)
    found = replay(named("measured_scale"), subject("no-scale"), case)
    assert (found.status, found.margin > 1) == (Status.VIOLATED, True)
    got, _, allowed = found.message.split("got ")[1].partition("\n")[0].partition(", wanted 0.5 ± ")
    assert (round(float(got), 4), 0 < float(allowed) < float(got) - 0.5) == (1.0, True)
    assert found.message == (
        "V.2.1 measured-scale violated by fault:no-scale in float32\n"
        f"  {MEASURED_SCALE.statement}\n"
        f"  scale at head width 4 [0, 0, 0]: got {got}, wanted 0.5 ± {allowed}\n"
        f"  case: {str(case).replace(',', ', ').replace('=', ' ')}\n"
        "  looks like: no-scale (V.2.1): the scores are not divided at all\n"
        "  replay: gnomon check fault:no-scale --clause V.2.1 --dtype float32 "
        f"--case 'measured_scale:{case}'"
    )


@pytest.mark.parametrize("slug", ["no-scale", "scale-by-width", "model-width-scale", "scale-inverted"])
def test_a_violation_looks_like_the_mistake_that_it_is(slug):
    case = read_case(CASE.replace("heads=1,kv_heads=1", "heads=3,kv_heads=3"))
    assert f"\n  looks like: {slug} (V.2.1): " in replay(named("measured_scale"), subject(slug), case).message


class Odd(NumpyReference):
    """The scores are multiplied by three tenths."""

    def scale(self, width, heads):
        return 0.3


def test_a_miss_that_no_fault_makes_looks_like_nothing():
    found = replay(named("measured_scale"), Subject(described("odd", Odd(), "odd"), "float32"), read_case(CASE))
    assert (found.status, "looks like" in found.message) == (Status.VIOLATED, False)


def test_the_first_comparison_that_misses_is_raised():
    with pytest.raises(Violation) as raised:
        judge(named("measured_scale"), subject("no-scale"), read_case(CASE))
    assert isinstance(raised.value.comparison, Comparison)
    assert str(raised.value) == str(raised.value.comparison)
