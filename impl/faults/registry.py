"""How a fault is joined to the mistake that it commits, and a control to why it is none."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from gnomon.impl.loading import Implementation, described
from gnomon.impl.reference import NumpyReference
from gnomon.spec.card import Clause, Mistake, owner_of

_faults: dict[Mistake, type[NumpyReference]] = {}
_controls: "list[Control]" = []


@dataclass(frozen=True, slots=True, eq=False)
class Fault:
    """A faulty implementation, the mistake that it commits and the clause that has to reject it."""

    mistake: Mistake
    clause: Clause
    implementation: Implementation


@dataclass(frozen=True, slots=True, eq=False)
class Control:
    """A correct implementation that was once reported as a bug: every clause has to let it hold."""

    number: str
    reason: str
    implementation: Implementation


def commits(mistake: Mistake) -> Callable[[type[NumpyReference]], type[NumpyReference]]:
    """Declare that the class commits the mistake; a mistake has one fault."""

    def register(fault: type[NumpyReference]) -> type[NumpyReference]:
        if mistake in _faults:
            raise ValueError(f"the mistake {mistake.slug} has a fault already: {_faults[mistake].__name__}")
        _faults[mistake] = fault
        return fault

    return register


def control(number: str, reason: str) -> Callable[[type[NumpyReference]], type[NumpyReference]]:
    """Declare that the class is correct although it was reported, and why."""

    def register(sound: type[NumpyReference]) -> type[NumpyReference]:
        implementation = described(f"control:{number}", sound(), f"{sound.__module__}:{sound.__name__}")
        _controls.append(Control(number, reason, implementation))
        return sound

    return register


def all_controls() -> tuple[Control, ...]:
    """Every control."""
    import_module("gnomon.impl.faults.controls")
    return tuple(_controls)


@cache
def faults() -> tuple[Fault, ...]:
    """Every fault of the modules beside this one."""
    for path in sorted(Path(__file__).parent.glob("*.py")):
        import_module(f"gnomon.impl.faults.{path.stem}")
    return tuple(_fault(mistake, fault) for mistake, fault in _faults.items())


def faults_of(clause: Clause) -> tuple[Fault, ...]:
    """The faults that the clause has to reject."""
    return tuple(f for f in faults() if f.clause is clause)


def _fault(mistake: Mistake, fault: type[NumpyReference]) -> Fault:
    clause = owner_of(mistake)
    if clause is None:
        raise ValueError(f"the mistake {mistake.slug} belongs to no clause")
    home = f"{fault.__module__}:{fault.__name__}"
    return Fault(mistake, clause, described(f"fault:{mistake.slug}", fault(), home))
