"""The one line with which a test module of the user asks for a conformance run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Conformance:
    """A place in a test module that stands for every property on one implementation."""

    implementation: str


def conformance(implementation: str) -> Conformance:
    """Assigned to a name in a test module, it makes pytest check that implementation there."""
    return Conformance(implementation)
