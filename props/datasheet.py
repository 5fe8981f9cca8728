"""The datasheet of an implementation: its conventions as declared and as measured from outside."""

import json
from collections.abc import Callable
from dataclasses import fields
from functools import partial

import click
import numpy as np
from rich.markup import escape
from rich.table import Table

from gnomon.impl.loading import CannotLoad, load
from gnomon.props.datasheet_model import DECLARED, MEASURES
from gnomon.props.measure import OTHER, base, log_ratio, measured
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.props.report import console, print_smoke
from gnomon.props.smoke import smoke
from gnomon.props.subject import Subject
from gnomon.props.summary import Exit
from gnomon.spec.conventions import Conventions

Row = dict[str, str]

_LONG = 4096
_UNMEASURED = "not measured"
_UNDECLARED = "not declared"


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
        _print(name, rows)
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
        rows.append(_row("scale at width 64", dtype, "", _attempt(partial(_scale, subject))))
        rows.append(_row("rotary base", dtype, "", _attempt(partial(_base, subject))))
        arithmetic = _attempt(partial(_arithmetic, subject))
        rows.append(_row("arithmetic", dtype, subject.precision.arithmetic.name, arithmetic))
        rows += [_measured(subject, axis) for axis in MEASURES]
    return rows


def _convention(subject: Subject, axis: str) -> Row:
    declared = getattr(subject.conventions, axis)
    return _row(axis, subject.dtype, declared or _UNDECLARED, _attempt(partial(measured, subject, axis)))


def _measured(subject: Subject, axis: str) -> Row:
    return _row(axis, subject.dtype, DECLARED.get(axis, ""), _attempt(partial(MEASURES[axis], subject)))


def _row(axis: str, dtype: str, declared: str, seen: str) -> Row:
    comparable = declared not in ("", _UNDECLARED) and not seen.startswith(_UNMEASURED)
    agrees = ("yes" if seen.split(" ")[0] == declared else "no") if comparable else ""
    return {"axis": axis, "dtype": dtype, "declared": declared, "measured": seen, "agrees": agrees}


def _attempt(measure: Callable[[], str]) -> str:
    try:
        return measure()
    except (Declined, ImplementationFailed) as reason:
        return f"{_UNMEASURED}: {reason}"


def _scale(subject: Subject) -> str:
    return f"{log_ratio(subject, 64):.4g}"


def _base(subject: Subject) -> str:
    return f"{base(subject):.4g}"


def _arithmetic(subject: Subject) -> str:
    """The format in which sums behave: that of the declared arithmetic, or what a long sum and a product show."""
    declared = subject.precision.arithmetic
    share = _sum_of_ones(subject, _LONG) / _LONG
    if share != 1:
        return f"{OTHER} (a sum of {_LONG} ones gives {share * _LONG:g})"
    exact = 1.0 + 2.0 ** (1 - declared.digits)
    # A factor with its last bit set survives a product with one only if the product reads all bits.
    if not subject.precision.narrow and _product_with_one(subject, exact) != exact:
        return f"{OTHER} (a product reads fewer than {declared.digits} bits)"
    return declared.name


def _sum_of_ones(subject: Subject, length: int) -> float:
    """A sum that stalls where one more no longer fits: at 256 in bfloat16, at 2048 in half precision."""
    if subject.offers("linear"):
        return float(subject.linear(np.ones((1, 1, length)), np.ones((1, length)))[0, 0, 0])
    even = np.zeros((1, 1, length, 1))
    return float(subject.attention(even[:, :, :1], even, even + 1)[0, 0, 0, 0]) * length


def _product_with_one(subject: Subject, factor: float) -> float:
    if subject.offers("linear"):
        return float(subject.linear(np.full((1, 1, 1), factor), np.ones((1, 1)))[0, 0, 0])
    alone = np.zeros((1, 1, 1, 1))
    return float(subject.attention(alone, alone, alone + factor)[0, 0, 0, 0])


def _print(name: str, rows: list[Row]) -> None:
    """The table of what was measured, and below it why the rest was not."""
    merged: dict[tuple[str, str, str, str], list[str]] = {}
    for row in rows:
        merged.setdefault((row["axis"], row["declared"], row["measured"], row["agrees"]), []).append(row["dtype"])
    table = Table(title=f"datasheet of {escape(name)}", box=None, pad_edge=False, title_justify="left")
    for heading in ("axis", "declared", "measured", "agrees"):
        table.add_column(heading, no_wrap=True)
    table.add_column("dtype")
    missing: dict[str, dict[str, None]] = {}
    for (axis, declared, seen, agrees), dtypes in merged.items():
        if seen.startswith(_UNMEASURED):
            missing.setdefault(seen, {})[axis] = None
        else:
            colour = {"no": "bold red", "yes": "green"}.get(agrees, "default")
            table.add_row(axis, declared, escape(seen), f"[{colour}]{agrees}[/]", " ".join(dtypes))
    console.print(table)
    for reason, axes in missing.items():
        console.print(f"{', '.join(axes)} {escape(reason)}")
