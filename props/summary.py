"""From verdicts to what a run says as a whole: clause by clause, in numbers, and as an exit code."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from enum import IntEnum

from gnomon.props.outcome import WORST_FIRST, Status, Verdict
from gnomon.spec.catalogue import clauses, order

DECIDED = (Status.HOLDS, Status.VIOLATED, Status.WAIVED)


class Exit(IntEnum):
    """The exit codes of the command."""

    CONFORMS = 0
    VIOLATED = 1
    USAGE = 2
    NOT_RUNNABLE = 3
    SUITE_FAILED = 4


def by_clause(verdicts: Iterable[Verdict]) -> dict[str, list[Verdict]]:
    """The verdicts of each clause, in the order of the numbers."""
    found: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        found[verdict.clause].append(verdict)
    return {number: found[number] for number in sorted(found, key=order)}


def combined(verdicts: Iterable[Verdict]) -> Status:
    """What several properties and dtypes make of one clause: the worst, though what is not offered is no blemish."""
    statuses = {v.status for v in verdicts}
    return next((s for s in WORST_FIRST if s in statuses), Status.NOT_RUN)


def statuses(verdicts: Iterable[Verdict], asked: Iterable[str] | None = None) -> dict[str, Status]:
    """The status of each clause that was asked for; one without a verdict was not run."""
    seen = {number: combined(found) for number, found in by_clause(verdicts).items()}
    wanted = [c.number for c in clauses()] if asked is None else asked
    return {number: seen.get(number, Status.NOT_RUN) for number in sorted(wanted, key=order)}


def headline(verdicts: list[Verdict], asked: Iterable[str] | None = None) -> str:
    """How many clauses of how many were decided, and how."""
    numbers = list(by_clause(verdicts)) if asked is None else asked
    found = statuses(verdicts, numbers)
    counts = Counter(found.values())
    decided = sum(counts[s] for s in DECIDED)
    parts = [f"{counts[s]} {s}" for s in Status if counts[s]]
    return f"{decided} of {len(found)} clauses decided: {', '.join(parts)}"


def exit_code(verdicts: list[Verdict], found: dict[str, Status]) -> Exit:
    """The code of a run: our fault before theirs, a violation before what could not be run."""
    left_out = {v.clause for v in verdicts if v.status is Status.NOT_RUN}  # on purpose; what got lost has no verdict
    present = {s for n, s in found.items() if n not in left_out or s is not Status.NOT_RUN}
    if Status.SUITE_ERROR in present:
        return Exit.SUITE_FAILED
    if any(v.status is Status.VIOLATED for v in verdicts):
        return Exit.VIOLATED
    if present & {Status.ERROR, Status.NOT_RUN}:
        return Exit.NOT_RUNNABLE
    return Exit.CONFORMS
