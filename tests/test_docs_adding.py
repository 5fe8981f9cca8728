"""The worked examples of docs/adding.md do what the page says."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

from gnomon.impl import Declaration
from gnomon.props.requirements import read_requirement
from gnomon.spec.catalogue import clauses

PAGE = Path(__file__).parents[1] / "docs" / "adding.md"
COMMAND = "from gnomon.props.command import main; main(prog_name='gnomon')"
FAST = ("--dtype", "float32", "--workers", "1", "--cases", "8")


def blocks() -> dict[str, str]:
    """The named blocks of the page, by name."""
    found = re.findall(r"^```\w+ ([^\n]+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(dict(found)) == len(found), "a name is used twice"
    return dict(found)


def commands() -> list[str]:
    """The commands that the page says to type."""
    return re.findall(r"^\$ (.+)$", PAGE.read_text(encoding="utf-8"), re.M)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the page, and an installed distribution that offers them by name."""
    place = tmp_path_factory.mktemp("adding")
    for name, text in blocks().items():
        if "/" not in name and " " not in name:
            (place / name).write_text(text, encoding="utf-8")
    points = tomllib.loads(blocks()["pyproject.toml"])["project"]["entry-points"]["gnomon.implementations"]
    info = place / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n", encoding="utf-8")
    lines = ["[gnomon.implementations]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return place


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python in that folder, which it imports from first, with a cache of its own."""
    shown = os.environ | {"PYTHONPATH": str(place), "XDG_CACHE_HOME": str(place / "cache"), "COLUMNS": "200"}
    environment = {name: value for name, value in shown.items() if not name.startswith("PYTEST")}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)


def gnomon(place: Path, command: str, *more: str) -> subprocess.CompletedProcess[str]:
    """A command of the page, narrowed so that it is soon done."""
    assert command in commands()
    return run(place, "-c", COMMAND, *command.split()[1:], *more)


STATUSES = """
import json, sys
from gnomon.impl.loading import load
from gnomon.props.engine import Budget, examine
from gnomon.props.property import properties
from gnomon.props.subject import Subject
from gnomon.props.summary import statuses

for name, numbers in json.loads(sys.argv[1]).items():
    subject = Subject(load(name), "float32")
    found = [examine(p, subject, Budget()) for p in properties() if p.clause.number in numbers]
    print(json.dumps({"name": name, "found": statuses(found, numbers), "said": [v.message for v in found]}))
"""


def test_functions_a_declaration_and_an_object(folder):
    asked = {
        "./mine.py": ["V.1.1", "V.1.5"],
        "declared-by-me": ["I.1.8", "V.1.1", "V.4.2", "V.4.7", "V.4.12"],
        "layers:unscaled": ["V.1.1", "V.2.1"],
    }
    assert all(any(c.startswith(f"gnomon check {name} ") for c in commands()) for name in asked)
    done = run(folder, "-c", STATUSES, json.dumps(asked))
    assert done.returncode == 0, done.stderr
    for answer in map(json.loads, done.stdout.splitlines()):
        assert answer["found"] == dict.fromkeys(asked.pop(answer["name"]), "holds"), answer["said"]
    assert not asked


def test_every_field_of_the_declaration_is_told():
    assert all(f"\n| `{field.name}` |" in PAGE.read_text(encoding="utf-8") for field in fields(Declaration))


def test_one_line_in_pytest(folder):
    (command,) = (c for c in commands() if c.startswith("pytest test_mine.py"))
    done = run(folder, "-m", *command.split(), "-p", "no:cacheprovider")
    assert "1 of 1 clauses decided: 1 holds" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def test_a_waiver_excuses_what_it_names(folder):
    (command,) = (c for c in commands() if "--waivers" in c)
    done = gnomon(folder, command, *FAST)
    assert blocks()["printed by naive.py"] in done.stdout, done.stdout + done.stderr
    assert "1 of 1 clauses decided: 1 waived" in done.stdout
    assert done.returncode == 0


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the clause of the page appended to its three files."""
    place = tmp_path_factory.mktemp("clause")
    for room in ("spec", "impl", "props"):
        installed = Path(str(import_module(f"gnomon.{room}").__file__)).parent
        shutil.copytree(installed, place / "gnomon" / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in blocks().items():
        if "/" in name:
            path = place / "gnomon" / name
            path.write_text(f"{path.read_text(encoding='utf-8')}\n\n{text}", encoding="utf-8")
    (place / "try_it.py").write_text(blocks()["try_it.py"], encoding="utf-8")
    return place


def test_a_clause_holds_and_rejects_its_fault(extended):
    done = run(extended, "try_it.py")
    assert done.stdout == blocks()["printed by try_it.py"], done.stderr


def test_a_clause_is_about_twenty_lines():
    added = "".join(text for name, text in blocks().items() if "/" in name)
    assert sum(bool(line.strip()) for line in added.splitlines()) < 35


def test_the_requirement_sets_of_the_page_exist():
    named = [words.split()[0] for command in commands() for words in command.split("--require ")[1:]]
    assert named
    assert all(read_requirement(name).numbers for name in named)


def test_the_number_of_the_example_is_free():
    assert "V.1.11" not in {clause.number for clause in clauses()}
