"""What people see: progress while a run goes on, a verdict by chapter after it, failures that can be read aloud."""

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gnomon.props.outcome import LACKS, Status, Verdict
from gnomon.props.smoke import Smoke
from gnomon.props.summary import headline
from gnomon.spec.catalogue import find, order, propositions

# A pipe has no width of its own, and the eighty columns that are assumed then would cut tables.
_WIDTH = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 200
console = Console(highlight=False, soft_wrap=True, width=_WIDTH, emoji=False)  # :llama: is a name
COLOURS = {
    Status.HOLDS: "green",
    Status.VIOLATED: "bold red",
    Status.ERROR: "red",
    Status.SUITE_ERROR: "bold magenta",
    Status.INSENSITIVE: "yellow",
    Status.WAIVED: "yellow",
    Status.UNSUPPORTED: "dim",
    Status.NOT_RUN: "yellow",
}
_FAILURES = (Status.VIOLATED, Status.ERROR, Status.SUITE_ERROR, Status.WAIVED)


@contextmanager
def progress(name: str) -> Iterator[Callable[[Verdict, int, int], None]]:
    """A bar on the error stream that each verdict moves on; nothing where that is no terminal."""
    columns = TextColumn(f"checking {escape(name)}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    terminal = Console(stderr=True)
    bar = Progress(*columns, TextColumn("{task.description}"), console=terminal, transient=True,
                   disable=not terminal.is_terminal)  # fmt: skip
    with bar:
        task = bar.add_task("", total=None)

        def seen(verdict: Verdict, done: int, planned: int) -> None:
            bar.update(task, completed=done, total=planned, description=verdict.clause)

        yield seen


def print_run(
    name: str, verdicts: list[Verdict], found: dict[str, Status], complaints: list[str], seed: int | None
) -> None:
    """Failures first, then one line per clause that did not simply hold, then the table by chapter."""
    _print_cause(verdicts)
    for text, times in _failures(verdicts).items():
        console.print(escape(text) + (f"\n  (and {times - 1} more of the same)" if times > 1 else ""))
        console.print()
    _print_undecided(verdicts, found)
    console.print(_chapters(found))
    console.print(f"{escape(name)}: {headline(verdicts, found)} (seed {seed or 0})")
    for complaint in complaints:
        console.print(f"[bold red]{escape(complaint)}[/]")


def _failures(verdicts: list[Verdict]) -> dict[str, int]:
    """What failed, causes first: one text per property, the other dtypes beside it; sentences that repeat counted."""
    counts: dict[str, int] = Counter()
    for found in _causes_first(verdicts):
        first, *rest = found
        code = _indented(first.snippet) if first.status is Status.VIOLATED else ""
        also = f"\n  also in {', '.join(v.dtype for v in rest)}" if rest else ""
        counts[first.message + also + code] += 1
    return counts


def _causes_first(verdicts: list[Verdict]) -> list[list[Verdict]]:
    """The failed verdicts of each property, nearest to the mistake that most of them look like first."""
    failed: dict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.status in _FAILURES and not _unjudged(verdict):
            failed[verdict.property, str(verdict.status)].append(verdict)
    suspects = [number for number, _ in _suspects(verdicts)]

    def nearness(own: list[Verdict]) -> tuple[bool, bool, tuple[int, ...]]:
        related = {s.rpartition(".")[0] for s in suspects[:1]}
        number = own[0].clause
        return number not in suspects, number.rpartition(".")[0] not in related, order(number)

    return sorted(failed.values(), key=nearness)


def _suspects(verdicts: list[Verdict]) -> list[tuple[str, int]]:
    """The clauses whose mistakes the violations look like, and how many do, most first."""
    return Counter(v.suspect for v in verdicts if v.status is Status.VIOLATED and v.suspect).most_common()


def _print_cause(verdicts: list[Verdict]) -> None:
    """One line before many violations: which clause they go back to."""
    violated = sum(v.status is Status.VIOLATED for v in verdicts)
    if violated > 1 and (suspects := _suspects(verdicts)):
        number, times = suspects[0]
        slug = find(number).slug
        console.print(
            f"[bold red]most likely cause: {number} {slug}[/], which {times} of {violated} violations look like"
        )
        console.print()


def _unjudged(verdict: Verdict) -> bool:
    """Whether an operation was broken before any case was tried, or the process was lost."""
    return verdict.status is Status.ERROR and not verdict.replay


def _indented(snippet: str) -> str:
    return "\n  by hand:\n" + "\n".join(f"    {line}" for line in snippet.splitlines()) if snippet else ""


def _print_undecided(verdicts: list[Verdict], found: dict[str, Status]) -> None:
    """Why clauses were not decided, once for all that share a reason."""
    shared: dict[tuple[str, str], dict[str, dict[str, None]]] = defaultdict(lambda: defaultdict(dict))
    asked = {v.clause for v in verdicts if not v.message.startswith(LACKS)}
    for verdict in verdicts:
        label = _undecided(verdict, found.get(verdict.clause))
        # That an operation is not there is no news where another one says more of the clause.
        if label and not (verdict.message.startswith(LACKS) and verdict.clause in asked):
            shared[label, verdict.message][verdict.clause][verdict.dtype] = None
    dtypes = {v.dtype for v in verdicts}
    for (label, reason), numbers in shared.items():
        named = [
            n + (f" in {', '.join(numbers[n])}" if set(numbers[n]) != dtypes else "")
            for n in sorted(numbers, key=order)
        ]
        console.print(f"{label} {'; '.join(named)}: {escape(reason)}")
    left_out = {v.clause for v in verdicts if v.status is Status.NOT_RUN}
    missing = [n for n, s in found.items() if s is Status.NOT_RUN and n not in left_out]
    if missing:
        console.print(f"[{COLOURS[Status.NOT_RUN]}]not-run[/] {', '.join(missing)}")


def _undecided(verdict: Verdict, overall: Status | None) -> str:
    """What is said of a verdict that decides nothing, nothing for the others: a clause may hold in part only."""
    if verdict.status is Status.UNSUPPORTED and overall is Status.HOLDS:
        return f"[{COLOURS[Status.UNSUPPORTED]}]holds in part[/]"
    quiet = verdict.status in (Status.UNSUPPORTED, Status.INSENSITIVE, Status.NOT_RUN) and overall is verdict.status
    return f"[{COLOURS[verdict.status]}]{verdict.status}[/]" if quiet or _unjudged(verdict) else ""


def _chapters(found: dict[str, Status]) -> Table:
    """A row per proposition: its statement's slug and how many clauses ended how."""
    table = Table(box=None, pad_edge=False)
    present = [s for s in Status if s in found.values()]
    table.add_column("proposition")
    table.add_column("")
    for status in present:
        table.add_column(str(status), justify="right", style=COLOURS[status])
    for proposition in propositions():
        own = Counter(found[c.number] for c in proposition.clauses if c.number in found)
        if own:
            cells = (str(own[s]) if own[s] else "" for s in present)
            table.add_row(proposition.number, proposition.slug, *cells)
    return table


def print_smoke(name: str, found: Smoke) -> None:
    """What can be run and what can not, and why."""
    if found.fatal:
        console.print(f"[bold red]cannot run[/] {escape(found.fatal)}")
    for (dtype, operation), sentence in found.broken.items():
        console.print(f"[bold red]broken[/] {operation} in {dtype}: {escape(sentence)}")
    works: dict[str, list[str]] = defaultdict(list)
    for dtype, operation in found.works:
        works[operation].append(dtype)
    for operation, dtypes in works.items():
        console.print(f"[green]works[/] {operation} in {', '.join(dtypes)}")
    verdict = "can be checked" if found.passed else "cannot be checked: mend the above first"
    console.print(f"{escape(name)} {verdict}")
