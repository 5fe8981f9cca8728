"""The README is true: its example prints what it shows, its counts are those of the catalogue, its links resolve."""

import re
from pathlib import Path

import pytest
from commanding import gnomon

from gnomon.spec.catalogue import clauses, mistakes

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def block(info: str) -> str:
    found = re.search(rf"^```{re.escape(info)}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert found, f"README.md has no block {info!r}"
    return found.group(1)


def test_the_example_prints_what_is_shown(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(block("python mine.py"))
    typed = re.search(r"^`gnomon (check ./mine.py .*?)` says:", README, re.MULTILINE)
    assert typed
    ran = gnomon(*typed.group(1).split(), cwd=tmp_path)
    assert ran.code == 1
    assert ran.out.startswith(block("text"))


def test_there_are_two_commands_that_make_their_own_environment() -> None:
    commands = [line for line in README.splitlines() if line.startswith("python3 -m venv")]
    assert len(commands) == 2
    assert commands[0].endswith(".venv/bin/gnomon check numpy")
    assert commands[1].endswith(".venv/bin/pytest -n 2")


def test_the_counts_are_those_of_the_catalogue() -> None:
    assert f"{len(clauses())} of them, with {len(mistakes())} faulty implementations" in README


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))))
def test_links_resolve(target: str) -> None:
    assert (ROOT / target).exists()
