"""The pages are current, every clause has an anchor, links lead somewhere, and what is told is what there is."""

import importlib.util
import re
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import get_args, get_type_hints

import pytest

from gnomon.impl.loading import OPERATIONS
from gnomon.props.measure import MEASUREMENTS
from gnomon.props.outcome import Status, Verdict
from gnomon.props.summary import Exit
from gnomon.spec.catalogue import clauses, mistakes, propositions
from gnomon.spec.conventions import Conventions
from gnomon.spec.precision import EVERYWHERE

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")


def build() -> ModuleType:
    """The script that makes the pages."""
    spec = importlib.util.spec_from_file_location("docs_build", DOCS / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def prose(page: str) -> str:
    """A page without its code."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", page, flags=re.S)


def anchors(page: str) -> set[str]:
    """What a link to the page may end in: explicit anchors, and headings as they are usually rendered."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.M)
    slugs = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', page))


def test_the_pages_are_current():
    assert build().stale() == [], "python docs/build.py writes them"


def test_a_page_that_is_not_current_is_named(tmp_path, monkeypatch, capsys):
    made = build()
    old = tmp_path / "docs" / "propositions" / "masks.md"
    monkeypatch.setattr(made, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(made, "FOLDER", old.parent)
    monkeypatch.setattr(made, "pages", lambda: {old: "new\n"})
    monkeypatch.setattr("sys.argv", ["build.py", "--check"])
    assert made.main() == 1
    assert capsys.readouterr().out == "docs/propositions/masks.md is not current: python docs/build.py writes it\n"
    old.parent.mkdir(parents=True)
    old.write_text("new\n", encoding="utf-8")
    assert made.main() == 0


def test_a_table_says_under_which_conditions_it_was_measured(monkeypatch):
    made = build()
    number = clauses()[0].number
    table = made.conditions() | {"date": "2026-01-31", "implementations": {"one": {number: "holds"}, "two": {}}}
    said = made.measured_how(table | {"not run": {}})
    assert all(word in said for word in ("float32", "2026-01-31", "one, two", table["gnomon"]))
    assert made.held_by(clauses()[0], table) == "holds: one; not-run: two."
    assert f"| {made.link(clauses()[0], 'propositions/')} | holds | not-run |" in "".join(
        made.matrix(table | {"not run": {}})
    )


def test_every_card_has_an_anchor_and_is_listed():
    made = build()
    for card in (*propositions(), *clauses()):
        page, _, anchor = made.address(card).partition("#")
        assert text(f"propositions/{page}").count(f'<a id="{anchor}"></a>') == 1
        assert f"]({made.address(card, 'propositions/')})" in text("index.md")


def test_every_mistake_is_told_with_its_fault():
    pages = [text(f"propositions/{path.name}") for path in (DOCS / "propositions").glob("*.md")]
    told = sum(page.count("\n#### Mistake ") for page in pages)
    folded = sum(page.count("<details><summary>The fault <code>") for page in pages)
    assert told == folded == len(mistakes())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_links_lead_somewhere(page):
    for target in LINK.findall(prose(page.read_text(encoding="utf-8"))):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.is_relative_to(ROOT), target
        assert goal.exists(), target
        assert not anchor or anchor in anchors(goal.read_text(encoding="utf-8")), target


@pytest.mark.parametrize(
    "words",
    [
        OPERATIONS,
        tuple(Status),
        [f.name for f in fields(Verdict)],
        [f.name for f in fields(Conventions)],
        [c for hint in get_type_hints(Conventions).values() for a in (hint, *get_args(hint)) for c in get_args(a)
         if isinstance(c, str)],
    ],
    ids=["operations", "statuses", "verdict", "conventions", "choices"],
)  # fmt: skip
def test_the_interface_is_told_in_full(words):
    page = text("interface.md")
    assert [w for w in words if not re.search(rf"`{re.escape(w)}[`(]", page)] == []


def test_every_exit_code_is_told():
    page = text("interface.md")
    assert all(f"\n| {code.value} |" in page for code in Exit)


def test_every_convention_is_measured_and_every_site_told():
    assert set(MEASUREMENTS) == {f.name for f in fields(Conventions)}
    assert [site for site in sorted(EVERYWHERE) if f"`{site}`" not in text("numerics.md")] == []
