"""The pytest plugin: properties are collected as items, one per implementation and dtype, and carry verdicts."""

import json
import os
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gnomon.impl.loading import Implementation
    from gnomon.props.engine import Budget
    from gnomon.props.outcome import Verdict
    from gnomon.props.property import Property

DEFAULT_CASES = 60
_HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of a conformance run."""
    group = parser.getgroup("gnomon", "conformance to the specification of the transformer")
    group.addoption("--impl", metavar="NAME", help="the implementation: an installed name, a module, a file")
    group.addoption("--clause", action="append", default=[], metavar="V.4.2", help="only this clause or proposition")
    group.addoption("--dtype", action="append", default=[], help="only this dtype")
    group.addoption("--cases", type=int, default=DEFAULT_CASES, help="cases per property and dtype")
    group.addoption("--case", metavar="TEXT", help="judge one case, as a failure printed it")
    group.addoption("--gnomon-seed", type=int, help="the seed from which cases are drawn: 0, and fresh for experiments")
    group.addoption("--waivers", metavar="FILE", help="a TOML file of excused violations")
    group.addoption("--gnomon-examples", metavar="FOLDER", help=_hidden("where found cases are kept"))
    group.addoption("--gnomon-broken", default="{}", help=_hidden("what the smoke test found"))
    group.addoption("--gnomon-quiet", action="store_true", help=_hidden("workers write nothing to the terminal"))
    group.addoption("--gnomon-untrained", action="store_true", help=_hidden("clauses that train are left out"))
    group.addoption("--gnomon-matrix", action="store_true", help=_hidden("faults against all clauses"))


def _hidden(text: str) -> str:
    return f"{text} (set by the gnomon command)"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """What implementations print in a worker of the command goes nowhere, from before pytest captures anything."""
    if early_config.known_args_namespace.gnomon_quiet and "PYTEST_XDIST_WORKER" in os.environ:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """A run of the command leaves nothing in the folder where it was typed."""
    if config.getoption("--gnomon-quiet") and hasattr(config, "workerinput"):
        from hypothesis.configuration import set_hypothesis_home_dir

        from gnomon.props.running import examples_folder

        set_hypothesis_home_dir(examples_folder().with_name("hypothesis"))


class OwnModule(pytest.Module):
    """One of our modules, under its one name: pytest would import it again as `props.…`, and put our folder first."""

    def _getobj(self) -> Any:
        return import_module(f"gnomon.props.{self.path.stem}")


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Our folder is a plain one, since pytest imports a package by a name of its own."""
    return pytest.Dir.from_parent(parent, path=path) if path == _HERE else None


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """A module of ours is imported by us."""
    return OwnModule.from_parent(parent, path=module_path) if module_path.parent == _HERE else None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module, name: str, obj: object
) -> list[pytest.Item | pytest.Collector] | None:
    """Items for a property, for a conformance line in a user's module, and for the matrix of faults."""
    kind = type(obj).__name__ if type(obj).__module__.startswith("gnomon.props.") else ""
    if kind == "Property":
        return list(_items(collector, [obj], _named(collector.config)))  # type: ignore[list-item]
    if kind == "Conformance":
        from gnomon.props.property import properties

        return list(_items(collector, properties(), obj.implementation))  # type: ignore[attr-defined]
    if kind == "FaultRun":
        from gnomon.props.killing import fault_items

        return list(fault_items(collector))
    return None


def _named(config: pytest.Config) -> str:
    name = config.getoption("--impl")
    if name is None:
        raise pytest.UsageError("name the implementation to check: --impl numpy, --impl mypkg.kernels")
    return str(name)


def _items(collector: Any, found: Iterable["Property"], name: str) -> Iterator["ClauseItem"]:
    config = collector.config
    implementation = loaded(config, name)
    only = chosen(config)
    case, _, text = (config.getoption("--case") or "").partition(":")
    label, fixed = implementation.name, implementation.declaration.fixed is not None
    for prop in found:
        if fixed and prop.needs != ("model",):
            continue
        if only is not None and prop.clause.number not in only:
            continue
        if text and prop.name != case:
            continue
        dtypes = config.getoption("--dtype") or implementation.declaration.dtypes
        for dtype in prop.dtypes(dtypes):
            item = f"{prop.id}[{label}-{dtype}]"
            # An id that is parsed from its text is the one that `--lf` will read back.
            yield ClauseItem.from_parent(collector, name=item, nodeid=f"{collector.nodeid}::{item}",
                                         prop=prop, implementation=implementation, dtype=dtype)  # fmt: skip


def loaded(config: pytest.Config, name: str) -> "Implementation":
    """The implementation, loaded once per process."""
    from gnomon.impl.loading import CannotLoad, load

    cache = config.stash.setdefault(_LOADED, {})
    if name not in cache:
        try:
            cache[name] = load(name)
        except CannotLoad as reason:
            raise pytest.UsageError(str(reason)) from reason
    return cache[name]


def chosen(config: pytest.Config) -> set[str] | None:
    """The numbers of the clauses that were asked for, all if none was; an unknown one is a usage error."""
    from gnomon.spec.card import Proposition
    from gnomon.spec.catalogue import find

    asked: list[str] = config.getoption("--clause")
    try:
        cards = [find(number) for number in asked]
    except KeyError as error:
        raise pytest.UsageError(error.args[0]) from error
    numbers = {c.number for card in cards for c in (card.clauses if isinstance(card, Proposition) else [card])}
    return numbers if asked else None


class ClauseFailed(AssertionError):
    """A verdict that fails the run; its text is the verdict's own."""


class ClauseItem(pytest.Item):
    """One property on one implementation in one dtype."""

    def __init__(self, *, prop: "Property", implementation: "Implementation", dtype: str, **rest: Any):
        super().__init__(**rest)
        self.prop, self.implementation, self.dtype = prop, implementation, dtype

    def runtest(self) -> None:
        """Judge, record the verdict, and let pytest know how it went."""
        verdict = self._waived(self._verdict())
        self.user_properties.append(("gnomon", verdict.record()))
        conclude(verdict)

    def _verdict(self) -> "Verdict":
        from gnomon.props.engine import examine, replay
        from gnomon.props.subject import Subject

        broken = json.loads(self.config.getoption("--gnomon-broken")).get(self.dtype, {})
        subject = Subject(self.implementation, self.dtype, broken=broken)
        text = self.config.getoption("--case")
        try:
            if text:
                return replay(self.prop, subject, self.prop.read_case(text.partition(":")[2]))
            looking = budget(self.config)
            return declared_gap(self.prop, subject, examine(self.prop, subject, looking))
        except Exception as error:
            return suite_error(self.prop, self.implementation.name, self.dtype, error)

    def _waived(self, verdict: "Verdict") -> "Verdict":
        from gnomon.props.waivers import apply, read_waivers

        path = self.config.getoption("--waivers")
        waivers = read_waivers(Path(path)) if path else ()
        status, message = apply(waivers, verdict, date.today())
        return replace(verdict, status=status, message=message)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The verdict's text without a traceback, which would only show the suite."""
        if isinstance(excinfo.value, ClauseFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where pytest says that it is."""
        return self.path, None, self.name


_LOADED = pytest.StashKey[dict[str, "Implementation"]]()


def budget(config: pytest.Config) -> "Budget":
    """How long to look, and where cases that broke something are kept, from the options."""
    from gnomon.props.engine import Budget
    from gnomon.props.found import Found

    folder = config.getoption("--gnomon-examples")
    found, seed = Found(Path(folder)) if folder else None, config.getoption("--gnomon-seed")
    trained = not config.getoption("--gnomon-untrained")
    return Budget(cases=config.getoption("--cases"), seed=seed or 0, experiments=seed, found=found, trained=trained)


def declared_gap(prop: "Property", subject: Any, verdict: "Verdict") -> "Verdict":
    """A clause declared as a gap is unsupported for the declared reason; one that holds after all says so."""
    from gnomon.props.outcome import Status

    reason = subject.implementation.declaration.gaps.get(prop.clause.number)
    if reason is None:
        return verdict
    if verdict.status is Status.HOLDS:
        reason = f"declared as a gap ({reason}), yet it holds: remove the declaration"
    return replace(verdict, status=Status.UNSUPPORTED, message=reason)


def suite_error(prop: "Property", implementation: str, dtype: str, error: BaseException) -> "Verdict":
    """What is recorded when our own code failed."""
    from gnomon.props.outcome import Status, Verdict

    text = "".join(traceback.format_exception(error))
    return Verdict(
        clause=prop.clause.number,
        slug=prop.clause.slug,
        property=prop.id,
        implementation=implementation,
        dtype=dtype,
        status=Status.SUITE_ERROR,
        message=f"{prop.id} failed to judge {implementation} in {dtype}, which is a fault of gnomon:\n{text}",
    )


def conclude(verdict: "Verdict") -> None:
    """Pass, fail or skip as the status says; nothing but `holds` passes."""
    from gnomon.props.outcome import Status

    if verdict.status in (Status.VIOLATED, Status.ERROR, Status.SUITE_ERROR):
        snippet = f"\n\n{verdict.snippet}" if verdict.snippet else ""
        raise ClauseFailed(verdict.message + snippet)
    if verdict.status is Status.WAIVED:
        pytest.xfail(verdict.message)
    if verdict.status is not Status.HOLDS:
        pytest.skip(f"{verdict.status}: {verdict.message}")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """In plain pytest: how many clauses were decided, so that a skip can not look green."""
    from gnomon.props.outcome import read

    records = [dict(r.user_properties)["gnomon"] for rs in terminalreporter.stats.values() for r in rs
               if "gnomon" in dict(getattr(r, "user_properties", ()))]  # fmt: skip
    if not records:
        return
    from gnomon.props.summary import headline

    terminalreporter.write_sep("=", "gnomon")
    terminalreporter.write_line(headline([read(r) for r in records]))
