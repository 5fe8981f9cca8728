"""What a run may be required to show: a number of clauses that hold, or a frozen set that later releases keep."""

from dataclasses import dataclass
from pathlib import Path

from gnomon.props.outcome import Status
from gnomon.spec.catalogue import order

FOLDER = Path(__file__).with_name("sets")


@dataclass(frozen=True, slots=True)
class Requirement:
    """At least so many clauses hold, or every clause of the named set does."""

    least: int = 0
    name: str = ""
    numbers: frozenset[str] = frozenset()

    def unmet(self, found: dict[str, Status]) -> list[str]:
        """What is missing, as sentences."""
        held = {number for number, status in found.items() if status is Status.HOLDS}
        if self.numbers:
            missing = sorted(self.numbers - held, key=order)
            return [f"required set {self.name}: {', '.join(missing)} did not hold"] if missing else []
        return [f"{len(held)} clauses hold where {self.least} are required"] if len(held) < self.least else []


def read_requirement(text: str) -> Requirement:
    """The requirement that `--require` names."""
    if text.isdecimal():
        return Requirement(least=int(text))
    path = FOLDER / f"{text}.txt"
    known = sorted(p.stem for p in FOLDER.glob("*.txt"))
    if text not in known:
        raise ValueError(f"--require takes a number or one of {', '.join(known)}, not {text!r}")
    return Requirement(name=text, numbers=frozenset(path.read_text().split()))
