"""`gnomon check-split` and `gnomon check-pipeline`: a split of the user's own, and what a pipeline learns."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import numpy as np
from rich.markup import escape

from gnomon.impl.loading import CannotLoad, Implementation, load_thing
from gnomon.props.laboratories import NotRunnable, columns
from gnomon.props.leakage_cases import Array, Pairs, PipelineCase, checked_pairs
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.props.report import console
from gnomon.props.subject import guarded
from gnomon.props.summary import Exit
from gnomon.props.test_leakage import part_alike
from gnomon.spec.card import Clause
from gnomon.spec.evaluation import GROUPS_WHOLE
from gnomon.spec.leakage import LATER, NOTHING_MOVES, NOTHING_SHARED

_SHOWN = 3  # groups, or parts of a state, that are named
_DEPTH = 12  # of what a fitted thing holds inside


# Splits.


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A file that was read: its rows, and a number for what is kept apart."""

    rows: Any
    count: int
    groups: Array | None = None
    names: Sequence[Any] = ()
    times: Array | None = None
    labels: Array | None = None
    copies: Array | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What one pair of sides shares: rows, groups by number, copies, and held-out rows that are not later."""

    train: int
    held: int
    rows: int
    groups: Array | None
    copies: int | None
    early: int | None


def read(path: Path, groups: str | None, time: str | None, labels: str | None, copies: str | None,
         compared: tuple[str, ...]) -> Table:  # fmt: skip
    """The table of a file with the columns that were named; what is wrong with it is a usage error."""
    try:
        from gnomon.impl.adapters import tables
    except ModuleNotFoundError as missing:
        raise click.UsageError(
            f"a table is read with {missing.name}, which is not installed: pip install 'gnomon[tables]'"
        ) from missing
    try:
        frame = tables.read_table(path)
        numbers, names = tables.group_codes(frame, groups) if groups else (None, ())
        return Table(
            rows=frame, count=len(frame), groups=numbers, names=names,
            times=tables.times(frame, time) if time else None,
            labels=np.asarray(tables.column(frame, labels).to_numpy()) if labels else None,
            copies=tables.copy_codes(frame, copies, compared) if copies else None,
        )  # fmt: skip
    except CannotLoad as reason:
        raise click.UsageError(str(reason)) from reason


def check_split(target: str, path: Path, *, groups: str | None, time: str | None, labels: str | None,
                copies: str | None, compared: tuple[str, ...], parts: int, seed: int) -> Exit:  # fmt: skip
    """Print what the sides of each split share, and by which clause that is wrong."""
    if compared and not copies:
        raise click.UsageError("--column says what copies are compared by: name an equality with --copies")
    splitter = _loaded(target)
    table = read(path, groups, time, labels, copies, compared)
    told = {"groups": groups, "times": time, "labels": labels}
    pairs = _pairs(target, splitter, table, parts, seed, told)
    seen = [side_by_side(table, train, held) for train, held in pairs]
    console.print(_table(seen))
    broken = [*_rows_shared(seen), *_copies_shared(seen, copies), *_too_early(seen), *_groups_torn(seen, table)]
    for clause, sentence in broken:
        console.print(f"[bold red]{clause.number} {clause.slug}[/] violated by {escape(target)}: {escape(sentence)}")
    held = [NOTHING_SHARED, *([GROUPS_WHOLE] if groups else []), *([LATER] if time else [])]
    for clause in held:
        if clause not in [c for c, _ in broken]:
            console.print(f"[green]{clause.number} {clause.slug}[/] holds in {len(seen)} of {len(seen)} splits")
    return Exit.VIOLATED if broken else Exit.CONFORMS


def _loaded(target: str) -> Any:
    try:
        return load_thing(target)
    except CannotLoad as reason:
        raise NotRunnable(str(reason)) from reason


def _pairs(target: str, splitter: Any, table: Table, parts: int, seed: int, told: Mapping[str, str | None]) -> Pairs:
    """The splits of the user's function, or of an object with a method `split` as scikit-learn has it."""
    try:
        if callable(getattr(splitter, "split", None)) and not isinstance(splitter, ModuleType):
            found = guarded(target, lambda: list(splitter.split(table.rows, table.labels, table.groups)), [], {})
        else:
            function = splitter.operations.get("split_rows") if isinstance(splitter, Implementation) else splitter
            if not callable(function):
                raise NotRunnable(f"{target} is no function, and has no method split: name one, as in {target}:split")
            rows = np.arange(table.count)[:, None] if isinstance(splitter, Implementation) else table.rows
            found = _called(target, function, rows, table, parts, seed, told)
        return checked_pairs(found, table.count, target)
    except (Declined, ImplementationFailed) as reason:
        raise NotRunnable(str(reason)) from reason


def _called(target: str, function: Callable[..., Any], rows: Any, table: Table, parts: int, seed: int,
            told: Mapping[str, str | None]) -> Any:  # fmt: skip
    """The function called with the rows and whichever keywords its signature has."""
    given = {"groups": table.groups, "times": table.times, "labels": table.labels, "parts": parts, "seed": seed}
    try:
        own = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise NotRunnable(f"{target} has no signature to read: wrap it in a function of your own") from error
    for name in told:
        if name in own and own[name].default is inspect.Parameter.empty and given[name] is None:
            option = {"times": "time"}.get(name, name)
            raise click.UsageError(f"{target} needs {name}: name their column with --{option}")
    takes_all = any(p.kind is p.VAR_KEYWORD for p in own.values())
    options = {n: v for n, v in given.items() if v is not None and (takes_all or n in own)}
    return guarded(target, function, [rows], options)


def side_by_side(table: Table, train: Array, held: Array) -> Seen:
    """What the two sides of one split share."""
    groups = None if table.groups is None else _on_both(table.groups, train, held)
    copies = None if table.copies is None else len(_on_both(table.copies, train, held))
    early = None if table.times is None else int((table.times[held] <= table.times[train].max()).sum())
    return Seen(len(train), len(held), len(_on_both(np.arange(table.count), train, held)), groups, copies, early)


def _on_both(codes: Array, train: Array, held: Array) -> Array:
    """The numbers that stand on both sides."""
    sides = np.zeros((2, int(codes.max()) + 1), bool)
    sides[0, codes[train]] = True
    sides[1, codes[held]] = True
    return np.flatnonzero(sides.all(0))


def _table(seen: Sequence[Seen]) -> Any:
    table = columns("split", "training rows", "held-out rows", "rows on both", "groups on both", "copies", "not later")
    for number, s in enumerate(seen):
        groups = None if s.groups is None else len(s.groups)
        cells = ("" if n is None else f"{n:,}" for n in (s.train, s.held, s.rows, groups, s.copies, s.early))
        table.add_row(str(number), *cells)
    return table


Broken = list[tuple[Clause, str]]


def _rows_shared(seen: Sequence[Seen]) -> Broken:
    worst = max(seen, key=lambda s: s.rows)
    told = f"{worst.rows:,} rows stand on both sides of split {seen.index(worst)}"
    return [(NOTHING_SHARED, told)] if worst.rows else []


def _copies_shared(seen: Sequence[Seen], equality: str | None) -> Broken:
    worst = max(seen, key=lambda s: s.copies or 0)
    told = f"{worst.copies or 0:,} rows have a copy on the other side of split {seen.index(worst)}, by the equality"
    return [(NOTHING_SHARED, f"{told} {equality}")] if worst.copies else []


def _too_early(seen: Sequence[Seen]) -> Broken:
    worst = max(seen, key=lambda s: s.early or 0)
    told = f"{worst.early or 0:,} held-out rows of split {seen.index(worst)} are no later than its last training row"
    return [(LATER, told)] if worst.early else []


def _groups_torn(seen: Sequence[Seen], table: Table) -> Broken:
    torn = [
        (len(s.groups), number, s.groups) for number, s in enumerate(seen) if s.groups is not None and len(s.groups)
    ]
    if not torn:
        return []
    count, number, groups = max(torn, key=lambda t: t[0])
    named = ", ".join(str(table.names[g]) for g in groups[:_SHOWN])
    return [(GROUPS_WHOLE, f"{count:,} groups stand on both sides of split {number}, among them {named}")]


# Pipelines.

Fit = Callable[[Any, Array, Array], Mapping[str, Any]]


def check_pipeline(target: str, path: Path | None, labels: str | None, kind: str) -> Exit:
    """Print whether anything that is fitted moves when what is held out changes."""
    if path is not None and labels is None:
        raise click.UsageError("name the column of the labels: --labels COLUMN")
    if path is None and labels is not None:
        raise click.UsageError("--labels names a column of a file: give the file too")
    fit = _fit(target, _loaded(target))
    rows, others, own, turned, train, held = _file(path, str(labels)) if path else _drawn(kind)
    try:
        due = fit([(rows, own, train)])
        if moved := _moved(fit([(rows, own, train)]), due):
            raise NotRunnable(f"{target} learns something else each time ({moved[0]}): give it a seed")
        found = {
            f"for other held-out rows ({number})": fit([(other, own, train)]) for number, other in enumerate(others, 1)
        }
        found["for other held-out labels"] = fit([(rows, turned, train)])
        found["after an earlier fit that the held-out rows were part of"] = fit(
            [(rows, own, np.union1d(held, train[: len(train) // 2])), (rows, own, train)]
        )
    except (Declined, ImplementationFailed) as reason:
        raise NotRunnable(str(reason)) from reason
    broken = {when: moved for when, state in found.items() if (moved := _moved(state, due))}
    for when, names in broken.items():
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        console.print(
            f"[bold red]{NOTHING_MOVES.number} {NOTHING_MOVES.slug}[/] violated by {escape(target)}: "
            f"{escape(', '.join(names[:_SHOWN]) + more)} moved {when}"
        )
    if not broken:
        console.print(
            f"[green]{NOTHING_MOVES.number} {NOTHING_MOVES.slug}[/] holds: {len(due)} parts of what {escape(target)} "
            f"learnt of {len(train)} rows are bit for bit the same, whatever the {len(held)} held-out rows are"
        )
    return Exit.VIOLATED if broken else Exit.CONFORMS


def _moved(got: Mapping[str, Any], due: Mapping[str, Any]) -> list[str]:
    """The names of what is not what it was."""
    common = sorted(set(got) & set(due))
    return sorted(set(got) ^ set(due)) + [n for n in common if not part_alike(n, got[n], due[n]).holds]


def _fit(target: str, thing: Any) -> Callable[[Sequence[tuple[Any, Array, Array]]], dict[str, Any]]:
    """From fits, one after the other, to everything that is held after the last of them."""
    if not callable(thing):
        raise NotRunnable(f"{target} is no function: name one that makes a pipeline, as in {target}:make")
    takes = len([p for p in inspect.signature(thing).parameters.values() if p.default is p.empty])

    def fits(cases: Sequence[tuple[Any, Array, Array]]) -> dict[str, Any]:
        if takes == 3:  # what learns, and not what makes a thing that learns
            held = [guarded(target, thing, [_copy(a) for a in case], {}) for case in cases][-1]
            return flat(held)
        pipeline = guarded(target, thing, [], {})
        if not callable(getattr(pipeline, "fit", None)):
            raise ImplementationFailed(f"{target} made a {type(pipeline).__name__}, which has no method fit")
        for rows, labels, train in cases:
            _fitted(f"fit of {target}", pipeline.fit, rows, labels, train)
        state = getattr(pipeline, "state", None)
        return flat(guarded(f"state of {target}", state, [], {}) if callable(state) else pipeline)

    return fits


def _fitted(name: str, fit: Callable[..., Any], rows: Any, labels: Array, train: Array) -> None:
    """Fit on the training rows, or on all with the numbers of the training rows where the method takes those."""
    own = inspect.signature(fit).parameters
    if "train" in own:
        guarded(name, fit, [_copy(rows), labels.copy(), train.copy()], {})
    else:
        taken = rows.iloc[train].reset_index(drop=True) if hasattr(rows, "iloc") else rows[train]
        guarded(name, fit, [_copy(taken), labels[train]], {})


def _copy(thing: Any) -> Any:
    return thing.copy()


def flat(thing: Any, name: str = "", seen: tuple[int, ...] = ()) -> dict[str, Any]:
    """Numbers, texts and arrays by name, out of attributes, mappings and lists, however deep."""
    if id(thing) in seen or len(seen) > _DEPTH:
        return {}
    deeper = (*seen, id(thing))
    if isinstance(thing, np.ndarray | np.generic | int | float | str | bytes):
        return {name or "result": np.asarray(thing)}
    if hasattr(thing, "toarray") or hasattr(thing, "to_numpy") or hasattr(thing, "detach"):
        return {name or "result": _array(thing)}
    if isinstance(thing, Mapping):
        inner = [(str(key), thing[key]) for key in sorted(thing, key=str)]
    elif isinstance(thing, set | frozenset):
        return {name or "result": np.array(sorted(map(repr, thing)))}
    elif isinstance(thing, list | tuple):
        inner = [(str(place), value) for place, value in enumerate(thing)]
    elif hasattr(thing, "__dict__") and not isinstance(thing, type) and not inspect.isroutine(thing):
        inner = [(key, value) for key, value in sorted(vars(thing).items()) if not _address(key)]
    else:
        return {}
    return {n: v for part, item in inner for n, v in flat(item, f"{name}.{part}".strip("."), deeper).items()}


def _array(thing: Any) -> Array:
    if hasattr(thing, "detach"):
        return np.asarray(thing.detach().cpu().numpy())
    return np.asarray(thing.toarray() if hasattr(thing, "toarray") else thing.to_numpy())


def _address(key: str) -> bool:
    """Whether an attribute is where something lies in memory."""
    return key.endswith("_id") and key.startswith("_")


Drawn = tuple[Any, list[Any], Array, Array, Array, Array]


def _drawn(kind: str) -> Drawn:
    """Rows of numbers or texts, other rows in place of those held out, the labels, other labels, and who trains."""
    case = PipelineCase(count=60, width=5, step="vocabulary" if kind == "text" else "scale")
    labels, turned = case.labels().astype(int), case.labels(1).astype(int)
    return case.rows(), [case.rows(1), case.rows(2)], labels, turned, case.train, case.held


def _file(path: Path, labels: str) -> Drawn:
    """The same of a file: a third of its rows is held out."""
    table = read(path, None, None, labels, None, ())
    from gnomon.impl.adapters.tables import altered

    if table.count < 6:
        raise click.UsageError(f"{path} has {table.count} rows, of which too few would train: six are the least")
    rows = table.rows.drop(columns=[labels])
    order = np.random.default_rng(table.count).permutation(table.count)
    cut = 2 * table.count // 3
    train, held = np.sort(order[:cut]), np.sort(order[cut:])
    own = np.asarray(table.labels)
    turned = own.copy()
    turned[held] = np.roll(np.unique(own), 1)[np.searchsorted(np.unique(own), own[held])]
    return rows, [altered(rows, held, 1), altered(rows, held, 2)], own, turned, train, held
