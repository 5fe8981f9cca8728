"""Verdicts are types: every status a clause can end in, and the exceptions that lead there."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from math import inf, isfinite
from typing import Any


class Status(StrEnum):
    """What a run says of a clause."""

    HOLDS = "holds"
    VIOLATED = "violated"
    INSENSITIVE = "insensitive"  # it held, and could not have told its own faults apart: no pass
    UNSUPPORTED = "unsupported"  # not offered, for a reason
    WAIVED = "waived"  # violated or failed, and excused in the waiver file
    ERROR = "error"  # the implementation raised, hung, crashed or returned nonsense
    SUITE_ERROR = "suite-error"  # our own fault
    NOT_RUN = "not-run"


# From the one that decides a clause over several properties and dtypes to the one that matters least.
WORST_FIRST = (
    Status.SUITE_ERROR,
    Status.VIOLATED,
    Status.ERROR,
    Status.WAIVED,
    Status.NOT_RUN,
    Status.INSENSITIVE,
    Status.HOLDS,
    Status.UNSUPPORTED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one property found about one implementation in one dtype.

    cases: how many were judged. declined: how many the implementation does not offer. margin: the worst error
    over its bound among the cases judged. undetected: the mistakes that these cases could not have shown. suspect:
    the clause that owns the mistake which this violation looks like, often a cause that lies deeper.
    """

    clause: str
    slug: str
    property: str
    implementation: str
    dtype: str
    status: Status
    message: str = ""
    cases: int = 0
    declined: int = 0
    margin: float = 0.0
    undetected: tuple[str, ...] = ()
    replay: str = ""
    snippet: str = ""
    suspect: str = ""
    seconds: float = 0.0

    def record(self) -> dict[str, Any]:
        """The verdict as plain JSON, which has no infinity: an exact miss has no margin."""
        margin = self.margin if isfinite(self.margin) else None
        return {**asdict(self), "status": str(self.status), "undetected": list(self.undetected), "margin": margin}


def read(record: dict[str, Any]) -> Verdict:
    """The verdict that a record came from."""
    margin = inf if record["margin"] is None else record["margin"]
    fields = {"status": Status(record["status"]), "undetected": tuple(record["undetected"]), "margin": margin}
    return Verdict(**{**record, **fields})


LACKS = "it has no function"  # how the reason begins where an operation is not offered


class Declined(Exception):
    """The implementation does not offer what the case needs; the message says what."""


class ImplementationFailed(Exception):
    """The implementation raised or returned nonsense; the message is one clear sentence."""
