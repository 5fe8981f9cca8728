"""The datasheet of an implementation: its conventions as declared and as measured from outside."""

import json
from dataclasses import fields

import click
import numpy as np
from rich.markup import escape
from rich.table import Table

from gnomon.impl.loading import CannotLoad, load
from gnomon.props.measure import MEASUREMENTS, OTHER, log_ratio, measured
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.props.report import console, print_smoke
from gnomon.props.smoke import smoke
from gnomon.props.subject import Subject
from gnomon.props.summary import Exit
from gnomon.spec.conventions import Conventions

Row = dict[str, str]


def print_datasheet(name: str, dtypes: tuple[str, ...], as_json: bool) -> Exit:
    """Print every axis with what was declared and what was measured in each dtype."""
    ready = smoke(name, dtypes)
    if not ready.passed:
        print_smoke(name, ready)
        return Exit.NOT_RUNNABLE
    rows = datasheet(name, dtypes)
    if as_json:
        click.echo(json.dumps({"implementation": name, "rows": rows}))
    else:
        console.print(_table(name, rows))
    return Exit.VIOLATED if any(row["agrees"] == "no" for row in rows) else Exit.CONFORMS


def datasheet(name: str, dtypes: tuple[str, ...] = ()) -> list[Row]:
    """One row per axis and dtype: what was declared, what was measured, and whether they agree."""
    try:
        implementation = load(name)
    except CannotLoad as error:
        raise click.UsageError(str(error)) from error
    rows: list[Row] = []
    for dtype in dtypes or implementation.declaration.dtypes:
        subject = Subject(implementation, dtype)
        rows += [_convention(subject, field.name) for field in fields(Conventions)]
        rows += [_row("scale at width 64", dtype, "", _attempt(lambda s=subject: f"{log_ratio(s, 64):.6g}"))]
        rows += [_row("arithmetic", dtype, subject.precision.arithmetic.name, _arithmetic(subject))]
    return rows


def _convention(subject: Subject, axis: str) -> Row:
    declared = getattr(subject.conventions, axis)
    assert axis in MEASUREMENTS
    return _row(axis, subject.dtype, declared or "not declared", _attempt(lambda: measured(subject, axis)))


def _row(axis: str, dtype: str, declared: str, seen: str) -> Row:
    comparable = declared not in ("", "not declared") and not seen.startswith("not measured")
    agrees = ("yes" if seen.split(" ")[0] == declared else "no") if comparable else ""
    return {"axis": axis, "dtype": dtype, "declared": declared, "measured": seen, "agrees": agrees}


def _attempt(measure: object) -> str:
    try:
        return str(measure())  # type: ignore[operator]
    except (Declined, ImplementationFailed) as reason:
        return f"not measured: {reason}"


def _arithmetic(subject: Subject) -> str:
    """The format in which sums behave: the narrowest that explains a product and a long sum."""
    if not subject.offers("linear"):
        return "not measured: it has no function linear"
    return _attempt(lambda: _explained(subject))


def _explained(subject: Subject) -> str:
    declared = subject.precision.arithmetic
    # A sum of ones stalls where one more no longer fits: at 256 in bfloat16, at 2048 in half precision.
    length = 4096
    total = subject.linear(np.ones((1, 1, length)), np.ones((1, length)))[0, 0, 0]
    if total != length:
        return f"16-bit sums ({length} ones give {total:g})"
    if subject.dtype not in ("float64", "float32"):
        return declared.name
    # A factor with its last bit set survives a product with one only if products read all bits.
    exact = 1.0 + 2.0 ** (1 - declared.digits)
    product = subject.linear(np.full((1, 1, 1), exact), np.ones((1, 1)))[0, 0, 0]
    return declared.name if product == exact else f"{OTHER} (a product reads fewer than {declared.digits} bits)"


def _table(name: str, rows: list[Row]) -> Table:
    table = Table(title=f"datasheet of {escape(name)}", box=None, pad_edge=False, title_justify="left")
    for heading in ("axis", "dtype", "declared", "measured", "agrees"):
        table.add_column(heading)
    merged: dict[tuple[str, str, str, str], list[str]] = {}
    for row in rows:
        key = row["axis"], row["declared"], row["measured"], row["agrees"]
        merged.setdefault(key, []).append(row["dtype"])
    for (axis, declared, seen, agrees), dtypes in merged.items():
        colour = {"no": "bold red", "yes": "green"}.get(agrees, "")
        mark = f"[{colour}]{agrees}[/]" if colour else agrees
        table.add_row(axis, " ".join(dtypes), declared, escape(seen), mark)
    return table
