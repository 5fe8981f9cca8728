"""The kill matrix: each fault against the clause that has to reject it, each control against all of them."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gnomon.impl.faults import Control, Fault, all_controls, faults
from gnomon.props.engine import Budget, examine, finds
from gnomon.props.outcome import Status, Verdict
from gnomon.props.plugin import chosen
from gnomon.props.property import Property, properties
from gnomon.props.subject import Subject

USUAL_DTYPE = "float32"  # in which controls are tried where none is asked for: every clause is, which takes a while
REJECTED, SURVIVED, ARGUED = "rejected", "survived", "argued"


class FaultRun:
    """A place in a module that stands for the whole matrix."""


def hunters(fault: Fault) -> list[Property]:
    """The properties that have to reject the fault."""
    return [p for p in properties() if fault.mistake in p.mistakes]


def fate(fault: Fault, dtype: str, budget: Budget) -> str:
    """What became of a fault in a dtype: rejected through its own clause, survived, or argued to be unseen there."""
    if dtype in fault.mistake.unseen:
        return ARGUED
    return REJECTED if any(finds(p, Subject(fault.implementation, dtype), budget) for p in hunters(fault)) else SURVIVED


def killers(fault: Fault, dtype: str, budget: Budget) -> list[str]:
    """Every clause that rejects the fault."""
    found = {p.clause.number: None for p in properties() if finds(p, Subject(fault.implementation, dtype), budget)}
    return list(found)


def alarms(control: Control, dtype: str, budget: Budget) -> list[Verdict]:
    """The verdicts on a control that should have held; experiments have controls of their own inside."""
    subject = Subject(control.implementation, dtype)
    verdicts = (examine(p, subject, budget) for p in properties() if not p.experiment)
    return [v for v in verdicts if v.status in (Status.VIOLATED, Status.ERROR)]


def fewer(budget: Budget) -> Budget:
    """A quarter of the cases, for the clauses that need not reject the fault."""
    return replace(budget, cases=max(1, budget.cases // 4))


def fault_items(collector: Any) -> Iterator[pytest.Item]:
    """An item per fault and dtype, and one per control and dtype."""
    only, dtypes = chosen(collector.config), collector.config.getoption("--dtype")
    for fault in faults():
        if only is not None and fault.clause.number not in only:
            continue
        asked = dtypes or fault.implementation.declaration.dtypes
        own = {d for p in hunters(fault) for d in p.dtypes(asked)}
        for dtype in (d for d in asked if d in own):
            label = f"{fault.clause.number}-{fault.mistake.slug}[{dtype}]"
            yield FateItem.from_parent(collector, name=label, fault=fault, dtype=dtype)
    for control in all_controls() if only is None else ():
        for dtype in dtypes or (USUAL_DTYPE,):
            label = f"{control.number}-control[{dtype}]"
            yield ControlItem.from_parent(collector, name=label, control=control, dtype=dtype)


class FateItem(pytest.Item):
    """One fault in one dtype."""

    def __init__(self, *, fault: Fault, dtype: str, **rest: Any):
        super().__init__(**rest)
        self.fault, self.dtype = fault, dtype

    def runtest(self) -> None:
        """Record what became of it."""
        budget = Budget(cases=self.config.getoption("--cases"), shrink=False, sensitivity=False)
        end = fate(self.fault, self.dtype, budget)
        every = self.config.getoption("--gnomon-matrix")
        record = {
            "fault": self.fault.mistake.slug,
            "clause": self.fault.clause.number,
            "dtype": self.dtype,
            "fate": end,
            "reason": self.fault.mistake.unseen.get(self.dtype, ""),
            "killers": killers(self.fault, self.dtype, fewer(budget)) if every else [],
        }
        self.user_properties.append(("gnomon-fault", record))
        assert end != SURVIVED, f"{self.fault.mistake.slug} survives {self.fault.clause.number} in {self.dtype}"


class ControlItem(pytest.Item):
    """One control in one dtype."""

    def __init__(self, *, control: Control, dtype: str, **rest: Any):
        super().__init__(**rest)
        self.control, self.dtype = control, dtype

    def runtest(self) -> None:
        """Record every alarm, each of which is false."""
        budget = Budget(cases=max(1, self.config.getoption("--cases") // 8), shrink=True, sensitivity=False)
        false = [v.message for v in alarms(self.control, self.dtype, budget)]
        record = {"control": self.control.number, "dtype": self.dtype, "alarms": false}
        self.user_properties.append(("gnomon-control", record))
        assert not false, "\n".join(false)


if "pytest" in sys.modules:  # collected by name: `pytest --pyargs gnomon.props.killing`
    matrix = FaultRun()
