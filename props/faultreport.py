"""`gnomon faults`: what became of each fault and each control."""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from gnomon.props.killing import ARGUED, REJECTED, SURVIVED
from gnomon.props.report import console, progress
from gnomon.props.running import Recorder, run, writable, write_jsonl
from gnomon.props.summary import Exit
from gnomon.spec.catalogue import find, order


@dataclass(eq=False)
class Fates(Recorder):
    """A recorder of what became of faults and controls."""

    faults: list[dict[str, Any]] = field(default_factory=list)
    controls: list[dict[str, Any]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the record of an item; one without a record is our fault."""
        if report.when == "setup" or report.when == "teardown":
            return
        kept = dict(report.user_properties)
        if "gnomon-fault" in kept:
            self.faults.append(kept["gnomon-fault"])
        elif "gnomon-control" in kept:
            self.controls.append(kept["gnomon-control"])
        else:
            self.lost.append(f"{report.nodeid}: {report.longrepr}")


def run_faults(
    *, numbers: tuple[str, ...], dtypes: tuple[str, ...], workers: int, matrix: bool, cases: int, jsonl: Path | None
) -> Exit:
    """Try every fault, print its fate and how many of how many were rejected."""
    for number in numbers:
        try:
            find(number)
        except KeyError as error:
            raise click.UsageError(error.args[0]) from error
    writable(jsonl)
    options: dict[str, Any] = {"--clause": numbers, "--dtype": dtypes, "--cases": cases}
    with progress("the faults") as seen:
        fates = Fates("faults", 600.0, seen)
        target = ["--pyargs", "gnomon.props.killing", *(["--gnomon-matrix"] if matrix else [])]
        run(fates, target, options, workers, 600.0)
    _print(fates, matrix)
    code = _exit(fates)
    if jsonl is not None:
        _write(jsonl, fates, cases, code)
    return code


def _exit(fates: Fates) -> Exit:
    """The code of a run: what was lost is our fault; a survivor or a false alarm fails it."""
    if fates.complaints or fates.lost or not fates.faults:
        return Exit.SUITE_FAILED
    alarmed = any(c["alarms"] for c in fates.controls)
    return Exit.VIOLATED if _count(fates, SURVIVED) or alarmed else Exit.CONFORMS


def _write(path: Path, fates: Fates, cases: int, code: Exit) -> None:
    records = [{"kind": "fault", **f} for f in fates.faults] + [{"kind": "control", **c} for c in fates.controls]
    counts = {end: _count(fates, end) for end in (REJECTED, ARGUED, SURVIVED)}
    footer = counts | {"alarms": sum(len(c["alarms"]) for c in fates.controls), "exit": int(code)}
    write_jsonl(path, {"cases": cases}, records, footer)


def _by_fault(fates: Fates) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = defaultdict(dict)
    for record in fates.faults:
        found[record["clause"], record["fault"]][record["dtype"]] = record
    return dict(sorted(found.items(), key=lambda item: (order(item[0][0]), item[0][1])))


def _count(fates: Fates, end: str) -> int:
    return sum(f["fate"] == end for f in fates.faults)


def _print(fates: Fates, matrix: bool) -> None:
    faults = _by_fault(fates)
    console.print(_table(faults, matrix))
    for (clause, slug), ends in faults.items():
        for dtype, record in ends.items():
            if record["fate"] == ARGUED:
                console.print(f"[dim]{clause} {slug} is not asked for in {dtype}: {record['reason']}[/]")
    for trouble in (*fates.complaints, *fates.lost):
        console.print(f"[bold magenta]suite-error[/] {trouble}")
    whole = [k for k, ends in faults.items() if all(r["fate"] != SURVIVED for r in ends.values())]
    console.print(
        f"{len(whole)} of {len(faults)} faults rejected by their own clause "
        f"({_count(fates, REJECTED)} in a dtype, {_count(fates, ARGUED)} argued, {_count(fates, SURVIVED)} survived)"
    )
    alarms = [(c, a) for c in fates.controls for a in c["alarms"]]
    for control, alarm in alarms:
        console.print(f"[bold red]false alarm[/] on {control['control']} in {control['dtype']}: {alarm}")
    if not fates.controls:
        return
    held = {c["control"] for c in fates.controls} - {c["control"] for c, _ in alarms}
    console.print(f"{len(held)} of {len({c['control'] for c in fates.controls})} controls hold")


_MARKS = {REJECTED: "[green]x[/]", SURVIVED: "[bold red]survives[/]", ARGUED: "[dim]-[/]"}


def _table(faults: dict[tuple[str, str], dict[str, dict[str, Any]]], matrix: bool) -> Table:
    dtypes = list(dict.fromkeys(d for ends in faults.values() for d in ends))
    table = Table(box=None, pad_edge=False)
    for heading in ("clause", "fault", *dtypes, *(["rejected by"] if matrix else [])):
        table.add_column(heading)
    for (clause, slug), ends in faults.items():
        cells = [_MARKS[ends[d]["fate"]] if d in ends else "" for d in dtypes]
        killers = sorted({k for r in ends.values() for k in r["killers"]}, key=order)
        table.add_row(clause, slug, *cells, *([" ".join(killers)] if matrix else []))
    return table
