"""One run of pytest on behalf of the command, shielded from the caller's own pytest, with our reporter."""

import io
import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from gnomon.props.outcome import Status, Verdict, read

SCHEMA = 1
INI = Path(__file__).with_name("pytest.ini")
# One thread a process: two pools of two on two cores wait for each other.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_PLUGINS = ("xdist.plugin", "pytest_timeout", "gnomon.props.plugin")

Seen = Callable[[Verdict, int, int], None]


@dataclass(eq=False)
class Recorder:
    """A pytest plugin that keeps every verdict, and makes one where a process died or hung."""

    implementation: str
    timeout: float
    seen: Seen
    verdicts: list[Verdict] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
    broken: str = ""
    planned: tuple[str, ...] = ()
    started: dict[str, float] = field(default_factory=dict)
    broke_off: str = ""  # what pytest said if it gave up, which is our fault

    @property
    def complaints(self) -> list[str]:
        """What went wrong beside the verdicts, as sentences."""
        broken = [f"the run broke off, which is a fault of gnomon:\n{self.broken}"] if self.broken else []
        return [*self.trouble, *broken]

    def pytest_plugin_registered(self, plugin_name: str, manager: Any) -> None:
        """Report in place of pytest, in this process alone: in a worker pytest-timeout needs its terminal."""
        if plugin_name == "terminalreporter":
            manager.unregister(name=plugin_name)

    def pytest_internalerror(self, excrepr: Any) -> bool:
        """A run that breaks off is our fault."""
        self.broken = str(excrepr)
        return True

    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Every worker plans the same items."""
        self.planned = tuple(ids)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Remember when an item was begun, to tell a hang from a crash."""
        self.started[nodeid] = time.monotonic()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the verdict of an item, or say what became of its process."""
        record = dict(report.user_properties).get("gnomon") if report.when != "setup" else None
        if record is not None and report.when == "call":
            self._keep(read(record))
        elif report.when == "???":
            self._keep(self._lost(report.nodeid))

    def pytest_collectreport(self, report: Any) -> None:
        """What could not be collected is said once."""
        if report.failed:
            self.trouble.append(str(report.longrepr).strip().splitlines()[-1])

    def _keep(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)
        self.seen(verdict, len(self.verdicts), len(self.planned))

    def _lost(self, nodeid: str) -> Verdict:
        """The verdict of an item whose process is gone: item names carry clause, slug and dtype."""
        name = nodeid.rpartition("::")[2]
        label, _, rest = name.partition("[")
        clause, _, slug = label.partition("-")
        dtype = rest.rstrip("]").rpartition("-")[2]
        hung = time.monotonic() - self.started.get(nodeid, time.monotonic()) >= self.timeout
        what = f"did not return within {self.timeout:g} seconds" if hung else "ended its process or crashed it"
        message = f"{label}: {self.implementation} {what} in {dtype}; the run went on in a new process"
        return Verdict(clause=clause, slug=slug, property=label, implementation=self.implementation, dtype=dtype,
                       status=Status.ERROR, message=message)  # fmt: skip


def run(recorder: Recorder, target: Sequence[str], options: Mapping[str, Any], workers: int, timeout: float) -> None:
    """Run pytest on the target; the recorder has the verdicts, in the order in which they came."""
    import pytest

    arguments = [*target, "-c", str(INI), "--noconftest", "-p", "no:cacheprovider", f"--rootdir={INI.parent}"]
    arguments += [a for plugin in _PLUGINS for a in ("-p", plugin)]
    arguments += [f"--numprocesses={workers}", "--max-worker-restart=1000", "--dist=worksteal"]
    arguments += [f"--timeout={timeout:g}", "--timeout-method=thread", "--gnomon-quiet"]
    for name, value in options.items():
        arguments += [f"{name}={v}" for v in value] if isinstance(value, tuple) else [f"{name}={value}"]
    shield = {
        "PYTHONSAFEPATH": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "",
        "PYTEST_PLUGINS": "",
        **ONE_THREAD,
    }
    os.environ.update(shield)
    said = io.StringIO()
    with redirect_stdout(said):
        code = pytest.main(arguments, plugins=[recorder])
    if code in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR):
        recorder.broke_off = said.getvalue().strip() or "pytest gave up without a word"


def examples_folder() -> Path:
    """Where found cases are kept between runs: the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gnomon" / "examples"


def writable(path: Path | None) -> Path | None:
    """The path; one that can not be written is refused before the run and not after it."""
    if path is not None and not path.parent.is_dir():
        raise click.UsageError(f"cannot write {path}: there is no folder {path.parent}")
    if path is not None and path.is_dir():
        raise click.UsageError(f"cannot write {path}: it is a folder")
    return path


def write_jsonl(
    path: Path, header: Mapping[str, Any], records: Sequence[Mapping[str, Any]], footer: Mapping[str, Any]
) -> None:
    """The run as lines of JSON, as `schema.json` says: one that opens it, one per record, one that sums up."""
    made = {"schema": SCHEMA, "gnomon": version("gnomon"), "date": date.today().isoformat(),
            "python": platform.python_version()}  # fmt: skip
    lines = [{"kind": "run", **made, **header}, *records, {"kind": "summary", **footer}]
    try:
        path.write_text("".join(json.dumps(line, allow_nan=False) + "\n" for line in lines))
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror}") from error
