"""Numbers never move, and cards, properties, faults and reports of bugs are joined without a gap."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from gnomon.impl.faults import all_controls, commits, faults
from gnomon.impl.loading import load
from gnomon.impl.reference import NumpyReference
from gnomon.props.engine import Budget, examine
from gnomon.props.property import properties
from gnomon.props.requirements import FOLDER
from gnomon.props.subject import Subject
from gnomon.spec import card
from gnomon.spec.card import CardError, Clause, Kind, Mistake, Proposition
from gnomon.spec.catalogue import clauses, find, mistakes, order, propositions
from gnomon.spec.masks import MASKS

HERE = Path(__file__).parent
NUMBERS = (HERE / "numbers.txt").read_text().split()
BUGS = [line.split("\t") for line in (HERE / "open_bugs.txt").read_text().splitlines()]


@pytest.fixture
def registry(monkeypatch):
    """A registry of cards that forgets what the test enters."""
    monkeypatch.setattr(card, "_cards", dict(card._cards))


def by_clause(clause):
    return [p for p in properties() if p.clause is clause]


# Numbers.


def test_every_frozen_number_exists():
    assert [n for n in NUMBERS if find(n).number != n] == []


def test_every_number_is_frozen_once_and_in_order():
    own = sorted([c.number for c in (*propositions(), *clauses())], key=order)
    assert own == sorted(NUMBERS, key=order)
    assert len(NUMBERS) == len(set(NUMBERS))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda p: p.stem)
def test_a_frozen_set_names_clauses(path):
    assert [n for n in path.read_text().split() if not isinstance(find(n), Clause)] == []


def test_slugs_are_unique():
    for cards in (propositions(), clauses(), [m for _, m in mistakes()]):
        slugs = [c.slug for c in cards]
        assert sorted(slugs) == sorted(set(slugs))


# Joined by object.


@pytest.mark.parametrize("clause", clauses(), ids=lambda c: c.number)
def test_a_clause_has_properties_whose_mistakes_are_its_own(clause):
    own = by_clause(clause)
    assert own
    assert {m for p in own for m in p.mistakes} == set(clause.mistakes)
    assert clause.mistakes or clause.control


def test_names_of_properties_are_unique():
    names = [p.name for p in properties()]
    assert sorted(names) == sorted(set(names))


def test_faults_and_mistakes_are_equal_sets():
    assert {f.mistake for f in faults()} == {m for _, m in mistakes()}
    assert all(f.mistake in f.clause.mistakes for f in faults())


def test_a_mistake_has_one_fault():
    taken = faults()[0].mistake
    with pytest.raises(ValueError, match=f"the mistake {taken.slug} has a fault already"):
        commits(taken)(NumpyReference)


def test_a_mistake_is_argued_away_with_a_reason_and_not_everywhere():
    for _, mistake in mistakes():
        assert set(mistake.unseen) < set(NumpyReference.declaration.dtypes)
        assert all(mistake.unseen.values())


def test_controls_have_a_reason_and_a_number_of_their_own():
    numbers = [c.number for c in all_controls()]
    assert sorted(numbers) == sorted(set(numbers))
    assert all(c.reason for c in all_controls())


def test_every_declared_clause_is_emitted_and_every_emitted_one_declared():
    subject = Subject(load("numpy"), "float32")
    budget = Budget(cases=1, shrink=False, sensitivity=False)
    emitted = {examine(p, subject, budget).clause for p in properties()}
    assert emitted == {c.number for c in clauses()}


# Public bugs.


def test_every_open_bug_of_an_operation_is_some_mistake():
    rejected = {b for _, m in mistakes() for b in m.bugs}
    assert [" ".join(b) for b in BUGS if b[0] not in rejected] == []


def test_the_bugs_that_a_mistake_names_have_numbers():
    assert [b for _, m in mistakes() for b in m.bugs if not re.fullmatch(r"B\d{3}", b)] == []


def test_a_mistake_that_was_seen_publicly_names_the_source_of_its_bugs():
    sources = {number: f"{source} ({year})" for number, source, year in BUGS}
    lacking = [
        (m.slug, b, sources[b]) for _, m in mistakes() for b in m.bugs if b in sources and sources[b] not in m.seen
    ]
    assert lacking == []


# Cards that are refused.

PARTS = {"slug": "a-slug", "statement": "It is so.", "formula": "x = x"}


@pytest.mark.parametrize("part", PARTS)
def test_a_card_without_a_part_is_refused(registry, part):
    with pytest.raises(CardError, match=r"^the card V\.99 lacks slug, statement or formula$"):
        Proposition(number="V.99", source="nowhere", **(PARTS | {part: ""}))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, "the card V.4.99 names neither a mistake nor a control"),
        ({"number": "V.3.99", "control": "c"}, "the card V.3.99 does not belong to V.4"),
        ({"number": "V.4.1", "control": "c"}, "the card V.4.1 is declared twice"),
        ({"number": "V.4.x", "control": "c"}, "the card V.4.x has a malformed number"),
        ({"slug": "", "control": "c"}, "the card V.4.99 lacks slug, statement or formula"),
    ],
    ids=["no mistake", "elsewhere", "taken", "malformed", "no slug"],
)
def test_a_clause_that_is_no_clause_is_refused(registry, change, told):
    with pytest.raises(CardError) as refused:
        Clause(**({"proposition": MASKS, "number": "V.4.99", "kind": Kind.EXACT} | PARTS | change))
    assert str(refused.value) == told


def test_a_mistake_belongs_to_one_clause(registry):
    shared = mistakes()[0][1]
    with pytest.raises(CardError, match=f"^the card V.4.99 shares the mistake '{shared.slug}'$"):
        Clause(proposition=MASKS, number="V.4.99", kind=Kind.EXACT, mistakes=(shared,), **PARTS)


def test_a_refused_card_is_not_entered(registry):
    before = dict(card.cards())
    with pytest.raises(CardError):
        replace(find("V.4"), number="V", slug="other")
    assert dict(card.cards()) == before
    assert Mistake("s", "w", "e") not in [m for _, m in mistakes()]
