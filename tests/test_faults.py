"""Each fault is rejected by its own clause in every precision, no control is, and without its check it survives."""

from dataclasses import replace

import pytest

from gnomon.impl.faults import all_controls, faults
from gnomon.props import killing
from gnomon.props.engine import Budget
from gnomon.props.judge import close
from gnomon.props.killing import ARGUED, REJECTED, SURVIVED, alarms, fate, hunters
from gnomon.props.property import properties

USUAL = Budget(cases=60, shrink=False, sensitivity=False)
FEW = Budget(cases=2, shrink=False, sensitivity=False, trained=False)  # what trains is held to controls by MANY
MANY = Budget(cases=40, shrink=True, sensitivity=False)
DEFAULT = ("float32", "bfloat16")


def fates(dtypes):
    return [
        pytest.param(f, d, id=f"{f.clause.number}-{f.mistake.slug}[{d}]")
        for f in faults()
        for d in f.implementation.declaration.dtypes
        if d in dtypes
    ]


@pytest.mark.parametrize(("fault", "dtype"), fates(DEFAULT))
def test_a_fault_is_rejected(fault, dtype):
    assert fate(fault, dtype, USUAL) == (ARGUED if dtype in fault.mistake.unseen else REJECTED)


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "dtype"), fates(("float64", "float16")))
def test_a_fault_is_rejected_in_the_other_precisions(fault, dtype):
    assert fate(fault, dtype, USUAL) == (ARGUED if dtype in fault.mistake.unseen else REJECTED)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("dtype", DEFAULT)
@pytest.mark.parametrize("fault", faults(), ids=lambda f: f"{f.clause.number}-{f.mistake.slug}")
def test_a_fault_is_rejected_whatever_the_seed(fault, dtype, seed):
    assert fate(fault, dtype, replace(USUAL, seed=seed)) != SURVIVED


@pytest.mark.parametrize("control", all_controls(), ids=lambda c: c.number)
def test_a_control_holds(control):
    assert [v.message for v in alarms(control, "float32", FEW)] == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("control", all_controls(), ids=lambda c: c.number)
def test_a_control_holds_over_many_cases(control, dtype):
    assert [v.message for v in alarms(control, dtype, MANY)] == []


# A property whose assertion is deleted is noticed.


def silent(subject, case):
    return iter(())


def lenient(check):
    """The same check with every expectation replaced by what was got."""
    return lambda subject, case: (close(c.what, c.got, c.got, c.allowed) for c in check(subject, case))


@pytest.fixture
def without_check(monkeypatch):
    """Replace the check of every property for the kill matrix."""

    def replaced(make):
        changed = tuple(replace(p, check=make(p.check)) for p in properties())
        monkeypatch.setattr(killing, "properties", lambda: changed)

    return replaced


def one_of_each_clause():
    """The first fault of each clause."""
    return {f.clause: f for f in reversed(faults()) if "float32" not in f.mistake.unseen}.values()


@pytest.mark.parametrize("make", [lambda _: silent, lenient], ids=["no comparison", "always true"])
@pytest.mark.parametrize("fault", one_of_each_clause(), ids=lambda f: f.clause.number)
def test_without_its_check_a_fault_survives(without_check, make, fault):
    without_check(make)
    assert hunters(fault)
    assert fate(fault, "float32", FEW) == SURVIVED


def test_a_crash_of_a_fault_is_no_kill(monkeypatch):
    fault = faults()[0]

    def crash(*arrays, **options):
        raise MemoryError

    crashing = replace(fault.implementation, operations=dict.fromkeys(fault.implementation.operations, crash))
    assert fate(replace(fault, implementation=crashing), "float32", FEW) == SURVIVED
