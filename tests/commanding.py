"""How the tests type the command, and what came of it."""

import json
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MINIATURES = Path(__file__).with_name("miniatures")
COMMAND = str(Path(sysconfig.get_path("scripts")) / "gnomon")
LONGEST_SECONDS = 100.0


@dataclass(frozen=True)
class Ran:
    """A finished command: its exit code, both streams, the lines of JSON that it wrote, and how long it took."""

    code: int
    out: str
    err: str
    lines: tuple[dict[str, Any], ...]
    seconds: float

    @property
    def verdicts(self) -> list[dict[str, Any]]:
        """The verdict of every property and dtype."""
        return [line for line in self.lines if line["kind"] == "verdict"]

    @property
    def statuses(self) -> dict[str, str]:
        """The status of every clause that was asked for."""
        return next(line["clauses"] for line in self.lines if line["kind"] == "summary")


def gnomon(*arguments: str, **where: Any) -> Ran:
    """What came of the installed command."""
    return ran((COMMAND, *arguments), **where)


def python(*arguments: str, **where: Any) -> Ran:
    """What came of Python with these arguments."""
    return ran((sys.executable, *arguments), **where)


def ran(
    command: Sequence[str],
    *,
    cwd: Path = MINIATURES,
    jsonl: Path | None = None,
    environment: dict[str, str] | None = None,
) -> Ran:
    """What came of a command in a folder, the lines of JSON that it wrote included."""
    surroundings = {**os.environ, "COLUMNS": "200", "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})}
    started = time.monotonic()
    done = subprocess.run(
        command, cwd=cwd, env=surroundings, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False
    )
    found = jsonl.read_text().splitlines() if jsonl is not None and jsonl.exists() else []
    lines = tuple(json.loads(line) for line in found)
    return Ran(done.returncode, done.stdout, done.stderr, lines, time.monotonic() - started)
