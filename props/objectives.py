"""`gnomon objective`: the worksheet of laboratory 7, written as a file of TOML and held to I.4.5."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from gnomon.impl.worksheet import NumpyWorksheet
from gnomon.props.report import console
from gnomon.props.running import writable
from gnomon.props.summary import Exit
from gnomon.spec.loss import WORKSHEET

BLANK = """\
# What is wanted, what is trained on, and what the second omits of the first (proposition I.4).
# Every term of the objective stands either among the terms of the loss or under [omitted], with a reason.

[objective]
statement = "What you want, in one sentence."
terms = ["a thing that you want", "another thing that you want"]

[loss]
statement = "What the optimiser is given, in one sentence."
terms = ["a thing that you want"]

[omitted]
"another thing that you want" = "Why the loss does not see it, and what will be watched in its place."
"""


@dataclass(frozen=True, slots=True)
class Worksheet:
    """An objective and a loss, each a sentence and its terms, and the reason for every term that is omitted."""

    objective: str
    loss: str
    wanted: tuple[str, ...]
    seen: tuple[str, ...]
    omitted: Mapping[str, str]

    @property
    def record(self) -> dict[str, Any]:
        """The terms alone, as an implementation takes them."""
        return {"objective": list(self.wanted), "loss": list(self.seen), "omitted": dict(self.omitted)}


class BadWorksheet(ValueError):
    """A file that is no worksheet, or one that hides an omission; the message is one sentence."""


def read_worksheet(path: Path) -> Worksheet:
    """The worksheet of a file, complete in form."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise BadWorksheet(f"cannot read {path}: {reason}") from error
    except tomllib.TOMLDecodeError as error:
        raise BadWorksheet(f"{path} is no TOML: {error}") from error
    return worksheet_of(found, str(path))


def worksheet_of(found: Mapping[str, Any], name: str) -> Worksheet:
    """The worksheet that tables of TOML spell."""
    unknown = sorted(set(found) - {"objective", "loss", "omitted"})
    if unknown:
        raise BadWorksheet(f"{name} has {', '.join(unknown)} beside objective, loss and omitted")
    (objective, wanted), (loss, seen) = (_side(found, part, name) for part in ("objective", "loss"))
    omitted = found.get("omitted", {})
    if not isinstance(omitted, Mapping) or not all(isinstance(reason, str) for reason in omitted.values()):
        raise BadWorksheet(f"omitted in {name} is a table of terms, each with its reason as a text")
    return Worksheet(objective, loss, wanted, seen, omitted)


def _side(found: Mapping[str, Any], part: str, name: str) -> tuple[str, tuple[str, ...]]:
    side = found.get(part)
    if not isinstance(side, Mapping):
        raise BadWorksheet(f"{name} has no table [{part}]: `gnomon objective init` writes one to fill in")
    unknown = sorted(set(side) - {"statement", "terms"})
    if unknown:
        raise BadWorksheet(f"[{part}] in {name} has {', '.join(unknown)} beside statement and terms")
    statement, terms = side.get("statement"), side.get("terms")
    if not isinstance(statement, str) or not statement.strip():
        raise BadWorksheet(f"[{part}] in {name} lacks its statement, a sentence")
    if not isinstance(terms, list) or not all(isinstance(term, str) and term.strip() for term in terms):
        raise BadWorksheet(f"the terms of [{part}] in {name} are a list of texts, none of them empty")
    return statement.strip(), tuple(terms)


def unfilled(worksheet: Worksheet) -> str:
    """A sentence that is still as `init` wrote it; nothing if all are one's own."""
    blank = worksheet_of(tomllib.loads(BLANK), "")
    own = {worksheet.objective, worksheet.loss, *worksheet.omitted.values()}
    return next((s for s in (blank.objective, blank.loss, *blank.omitted.values()) if s in own), "")


def omissions(worksheet: Worksheet) -> list[str]:
    """What the loss does not see; a worksheet that hides some of it is refused."""
    try:
        return NumpyWorksheet().worksheet(worksheet.record)
    except ValueError as error:
        raise BadWorksheet(str(error)) from error


def told(worksheet: Worksheet) -> Table:
    """Every term with where it went."""
    table = Table(box=None, pad_edge=False)
    for heading in ("the objective wants", "the loss sees it", "it is omitted because"):
        table.add_column(heading, overflow="fold")
    for term in worksheet.wanted:
        table.add_row(escape(term), "yes" if term in worksheet.seen else "", escape(worksheet.omitted.get(term, "")))
    for term in worksheet.seen:
        if term not in worksheet.wanted:
            table.add_row("", f"{escape(term)} (the loss's own)", "")
    return table


def conclusion(worksheet: Worksheet) -> str:
    """What follows, in one sentence."""
    left, all_terms = len(omissions(worksheet)), len(worksheet.wanted)
    if not left:
        return f"The loss sees all {all_terms} terms of the objective, as far as the objective is written down."
    return (
        f"The loss sees {all_terms - left} of {all_terms} terms of the objective and omits {left}: the failures that "
        "it can not show will come from there."
    )


def init_worksheet(path: Path) -> Exit:
    """Write a worksheet to fill in, over no file that is there."""
    if writable(path) is not None and path.exists():
        raise click.UsageError(f"{path} is there already: name another file, or remove it")
    try:
        path.write_text(BLANK, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror}") from error
    console.print(f"wrote {escape(str(path))}: fill it in, then `gnomon objective check {escape(str(path))}`")
    return Exit.CONFORMS


def check_worksheet(path: Path) -> Exit:
    """Print where every term of the objective went, or what the worksheet hides."""
    try:
        worksheet = read_worksheet(path)
    except BadWorksheet as reason:
        raise click.UsageError(str(reason)) from reason
    try:
        sentence = conclusion(worksheet)
    except BadWorksheet as reason:
        clause = f"[bold red]{WORKSHEET.number} {WORKSHEET.slug}[/]"
        console.print(f"{clause} violated by {escape(str(path))}: {escape(str(reason))}")
        return Exit.VIOLATED
    if blank := unfilled(worksheet):
        raise click.UsageError(f"{path} still has {blank!r} as it was written to fill in: put your own in its place")
    console.print(told(worksheet))
    console.print(escape(sentence))
    return Exit.CONFORMS
