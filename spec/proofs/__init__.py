"""Proofs: for every clause that says so, a symbolic derivation that a computer can run again."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any, TypeVar

from gnomon.spec import catalogue  # whose `order` a topic of that name would hide
from gnomon.spec.card import CardError, Clause

# Imported by `proofs()` alone: they bring SymPy, which a command that proves nothing should not wait for.
TOPICS = (
    "linear",
    "attention",
    "scale",
    "heads",
    "masks",
    "parameters",
    "order",
    "rotary",
    "embedding",
    "block",
    "reach",
    "loss",
    "gradient",
    "descent",
    "adam",
    "capacity",
)

Equation = Callable[..., Any]
Run = Callable[..., bool]
F = TypeVar("F", bound=Run)
_proofs: list["Proof"] = []


class Scope(StrEnum):
    """How far a proof reaches."""

    GENERAL = "general"  # for all sizes and all numbers
    SIZES = "for stated sizes"  # for all numbers at the sizes it names
    WITNESS = "witness"  # one exact example, for a statement that something exists


@dataclass(frozen=True, slots=True, eq=False)
class Proof:
    """A derivation of a clause: true when every difference it forms is exactly zero.

    run takes no argument; the equation under proof is its keyword with a default, so that a false one can be
    put in its place and the proof seen to fail.
    """

    clause: Clause
    scope: Scope
    sizes: str
    argument: str
    run: Run

    def __post_init__(self) -> None:
        if bool(self.sizes) != (self.scope is Scope.SIZES):
            raise CardError(f"the proof {self.name} of {self.clause.number} must name sizes where it has them")

    @property
    def name(self) -> str:
        """The name of its function."""
        return self.run.__name__

    @property
    def label(self) -> str:
        """Its scope, with the sizes where it has them."""
        return f"{self.scope}: {self.sizes}" if self.sizes else str(self.scope)


def proves(clause: Clause, scope: Scope, *, argument: str, sizes: str = "") -> Callable[[F], F]:
    """Enters the function as a proof of the clause; the argument says in a sentence or two how it goes."""

    def enter(run: F) -> F:
        _proofs.append(Proof(clause, scope, sizes, argument, run))
        return run

    return enter


def proofs(clause: Clause | None = None) -> tuple[Proof, ...]:
    """The proofs of a clause, or all of them, in the order of the clauses' numbers."""
    for topic in TOPICS:
        import_module(f"gnomon.spec.proofs.{topic}")
    chosen = (p for p in _proofs if clause is None or p.clause is clause)
    return tuple(sorted(chosen, key=lambda p: catalogue.order(p.clause.number)))
