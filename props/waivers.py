"""Waivers: violations that are known and excused, each with a reason, and refused once they are stale."""

import tomllib
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from gnomon.props.outcome import Status, Verdict
from gnomon.spec.catalogue import find


class BadWaiver(ValueError):
    """The waiver file cannot be used; the message says which entry and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """One excuse: a clause of one implementation, in one dtype or in all, for a reason, until a day."""

    clause: str
    implementation: str
    reason: str
    dtype: str = ""
    issue: str = ""
    expires: date | None = field(default=None)

    def covers(self, verdict: Verdict) -> bool:
        """Whether the verdict is one that it speaks of."""
        own = (self.clause, self.implementation) == (verdict.clause, verdict.implementation)
        return own and self.dtype in ("", verdict.dtype)

    def __str__(self) -> str:
        return f"{self.clause} of {self.implementation}{f' in {self.dtype}' if self.dtype else ''}"


def read_waivers(path: Path) -> tuple[Waiver, ...]:
    """The waivers of a TOML file: a list of tables named `waiver`."""
    try:
        found = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise BadWaiver(f"there is no waiver file {path}") from None
    except OSError as error:
        raise BadWaiver(f"cannot read {path}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise BadWaiver(f"{path} is not TOML: {error}") from error
    entries = found.pop("waiver", [])
    if found or not isinstance(entries, list):
        raise BadWaiver(f"{path} holds something other than tables that begin with [[waiver]]")
    return tuple(_waiver(path, index, entry) for index, entry in enumerate(entries, 1))


def _waiver(path: Path, index: int, entry: dict[str, Any]) -> Waiver:
    where = f"waiver {index} of {path}"
    try:
        waiver = Waiver(**entry)
        find(waiver.clause)
    except TypeError as error:
        raise BadWaiver(
            f"{where} needs clause, implementation and reason, and may have dtype, issue, expires: {error}"
        ) from error
    except KeyError as error:
        raise BadWaiver(f"{where}: {error.args[0]}") from error
    if not str(waiver.reason).strip():
        raise BadWaiver(f"{where} gives no reason")
    if waiver.expires is not None and type(waiver.expires) is not date:  # a datetime is one, and compares with none
        raise BadWaiver(f"{where}: expires has to be a date such as 2027-01-31, without quotes")
    return waiver


def apply(waivers: tuple[Waiver, ...], verdict: Verdict, today: date) -> tuple[Status, str]:
    """The status after waivers, and what to say of it."""
    for waiver in waivers:
        if not waiver.covers(verdict) or verdict.status not in (Status.VIOLATED, Status.ERROR):
            continue
        if waiver.expires is not None and waiver.expires < today:
            return verdict.status, f"{verdict.message}\n  the waiver of {waiver} expired on {waiver.expires}"
        known = f" ({waiver.issue})" if waiver.issue else ""
        return Status.WAIVED, f"{verdict.message}\n  waived: {waiver.reason}{known}"
    return verdict.status, verdict.message


def stale(waivers: tuple[Waiver, ...], verdicts: list[Verdict]) -> list[str]:
    """What is wrong with waivers that excuse nothing: the clause holds now, or nothing was matched."""
    complaints = []
    for waiver in waivers:
        covered = [v for v in verdicts if waiver.covers(v)]
        if not covered:
            complaints.append(f"the waiver of {waiver} matches nothing in this run: remove it or mend it")
        elif not any(v.status in (Status.WAIVED, Status.VIOLATED, Status.ERROR) for v in covered):
            complaints.append(f"the waiver of {waiver} is stale: nothing it excuses is violated any more")
    return complaints
