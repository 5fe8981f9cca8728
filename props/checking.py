"""`gnomon check` and `gnomon smoke`: first whether it runs at all, then every clause, then what that makes."""

import json
from dataclasses import dataclass
from pathlib import Path

import click

from gnomon.impl.loading import MODEL, TOKENISER
from gnomon.props.outcome import Status
from gnomon.props.report import print_run, print_smoke, progress
from gnomon.props.requirements import Requirement, read_requirement
from gnomon.props.running import Recorder, examples_folder, run, writable, write_jsonl
from gnomon.props.smoke import LIMIT_SECONDS, Smoke, smoke
from gnomon.props.summary import DECIDED, Exit, exit_code, statuses
from gnomon.props.waivers import BadWaiver, Waiver, read_waivers, stale
from gnomon.spec.card import Clause, Proposition
from gnomon.spec.catalogue import clauses, find


def smoke_report(name: str, dtypes: tuple[str, ...], limit: float) -> Exit:
    """Print what the smoke test found."""
    found = smoke(name, dtypes, limit)
    print_smoke(name, found)
    if not found.passed:
        return Exit.NOT_RUNNABLE
    return Exit.NOT_RUNNABLE if found.broken else Exit.CONFORMS


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a check was asked for, read and found to make sense before anything runs."""

    name: str
    asked: list[str]
    excused: tuple[Waiver, ...]
    required: Requirement | None
    jsonl: Path | None
    seed: int | None
    cases: int


def check_implementation(
    name: str,
    *,
    numbers: tuple[str, ...],
    dtypes: tuple[str, ...],
    cases: int,
    seed: int | None,
    timeout: float,
    workers: int,
    case: str | None,
    waivers: Path | None,
    require: str | None,
    jsonl: Path | None,
    levels: tuple[str, ...] = (),
    model: bool = False,
    tokeniser: bool = False,
    untrained: bool = False,
) -> Exit:
    """Hold an implementation, a model or a tokeniser to the clauses asked for, and print what came of it."""
    whole = "model" if model else "tokeniser" if tokeniser else ""
    asked = _of_whole(numbers, whole) if whole else _of_levels(numbers, levels)
    numbers = tuple(asked) if levels or tokeniser else numbers
    plan = Plan(name=name, asked=asked, excused=_waivers(waivers), required=_requirement(require),
                jsonl=writable(jsonl), seed=seed, cases=cases)  # fmt: skip
    checked = _case(case, plan.asked)
    impl = {"model": MODEL, "tokeniser": TOKENISER, "": ""}[whole] + name
    found = smoke(impl, dtypes, min(timeout, LIMIT_SECONDS))
    if not found.passed:
        print_smoke(name, found)
        return Exit.NOT_RUNNABLE
    flags = ("--gnomon-untrained",) if untrained else ()
    given = {"--impl": impl, "--clause": numbers, "--dtype": dtypes, "--cases": cases, "--gnomon-seed": seed,
             "--waivers": waivers, "--case": checked, "--gnomon-broken": json.dumps(_by_dtype(found)),
             "--gnomon-examples": examples_folder()}  # fmt: skip
    options = {name: value for name, value in given.items() if value is not None}
    with progress(name) as seen:
        recorder = Recorder(name, timeout, seen)
        run(recorder, ("--pyargs", "gnomon.props", *flags), options, workers, timeout)
    if tokeniser and not checked:
        from gnomon.props.tokensheet import print_tokensheet

        print_tokensheet(impl)
    return _concluded(plan, recorder)


def _concluded(plan: Plan, recorder: Recorder) -> Exit:
    """Print, write and give the exit code of a finished run."""
    verdicts, found = recorder.verdicts, statuses(recorder.verdicts, plan.asked)
    complaints = _complaints(plan, recorder, found)
    code = Exit.SUITE_FAILED if recorder.broke_off else exit_code(verdicts, found)
    if code is Exit.CONFORMS and complaints:
        code = Exit.VIOLATED
    elif code is Exit.CONFORMS and set(found.values()).isdisjoint(DECIDED):
        code = Exit.NOT_RUNNABLE
        complaints.append("no clause was decided, so this run shows nothing")
    print_run(plan.name, verdicts, found, complaints, plan.seed)
    if plan.jsonl is not None:
        header = {"implementation": plan.name, "seed": plan.seed or 0, "cases": plan.cases}
        footer = {"clauses": {n: str(s) for n, s in found.items()}, "complaints": complaints, "exit": int(code)}
        write_jsonl(plan.jsonl, header, [{"kind": "verdict", **v.record()} for v in verdicts], footer)
    return code


def _complaints(plan: Plan, recorder: Recorder, found: dict[str, Status]) -> list[str]:
    """What fails a run beside its verdicts: our own failure, stale waivers, an unmet requirement."""
    complaints = [*recorder.complaints, *stale(plan.excused, recorder.verdicts)]
    if recorder.broke_off:
        complaints.append(f"gnomon itself failed: {recorder.broke_off}")
    return complaints + (plan.required.unmet(found) if plan.required is not None else [])


def _asked(numbers: tuple[str, ...]) -> list[str]:
    try:
        cards = [find(number) for number in numbers]
    except KeyError as error:
        raise click.UsageError(error.args[0]) from error
    own = [c.number for card in cards for c in (card.clauses if isinstance(card, Proposition) else (card,))]
    return own or [c.number for c in clauses()]


def _of_levels(numbers: tuple[str, ...], levels: tuple[str, ...]) -> list[str]:
    """The clauses asked for that are of one of the levels, of any where none is named."""
    asked = [n for n in _asked(numbers) if not levels or set(levels) & set(_levels(n))]
    if not asked:
        raise click.UsageError(f"no clause that was asked for is of the level {', '.join(levels)}")
    return asked


def _levels(number: str) -> tuple[str, ...]:
    card = find(number)
    return card.level if isinstance(card, Clause) else ()


def _of_whole(numbers: tuple[str, ...], operation: str) -> list[str]:
    """The clauses asked for that say something of a whole model, or of a tokeniser."""
    from gnomon.props.property import properties

    whole = {p.clause.number for p in properties() if p.needs == (operation,)}
    asked = [number for number in _asked(numbers) if number in whole]
    if not asked:
        what = "a whole model" if operation == "model" else f"a {operation}"
        raise click.UsageError(f"{', '.join(numbers)} says nothing of {what}")
    return asked


def _waivers(path: Path | None) -> tuple[Waiver, ...]:
    try:
        return () if path is None else read_waivers(path)
    except BadWaiver as error:
        raise click.UsageError(str(error)) from error


def _requirement(text: str | None) -> Requirement | None:
    try:
        return None if text is None else read_requirement(text)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _case(text: str | None, asked: list[str]) -> str | None:
    """The case to replay, refused here rather than in every process."""
    from gnomon.props.cases import MalformedCase
    from gnomon.props.property import properties

    if text is None:
        return None
    name, _, rest = text.partition(":")
    known = {p.name: p for p in properties() if not asked or p.clause.number in asked}
    if name not in known:
        raise click.UsageError(f"--case begins with a property's name: one of {', '.join(sorted(known))}")
    try:
        known[name].read_case(rest)
    except MalformedCase as error:
        raise click.UsageError(str(error)) from error
    return text


def _by_dtype(found: Smoke) -> dict[str, dict[str, str]]:
    broken: dict[str, dict[str, str]] = {}
    for (dtype, operation), sentence in found.broken.items():
        broken.setdefault(dtype, {})[operation] = sentence
    return broken
