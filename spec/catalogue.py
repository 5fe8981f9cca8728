"""The catalogue: every proposition and clause, in the order of their numbers."""

import re
from importlib import import_module

from gnomon.spec.card import Card, Clause, Mistake, Proposition, cards

# The rooms of the house; a proposition has the same address in spec/, props/, impl/faults/ and docs/.
TOPICS = (
    "function",
    "linear",
    "gradient",
    "attention",
    "scale",
    "heads",
    "masks",
    "memory",
    "parameters",
    "embedding",
    "order",
    "rotary",
    "block",
    "reach",
    "context",
    "capacity",
    "leakage",
    "evaluation",
    "formats",
    "loss",
    "descent",
    "adam",
)

for _topic in TOPICS:
    import_module(f"gnomon.spec.{_topic}")

_ROMAN = {"I": 1, "II": 2, "III": 3, "IV": 4, "V": 5, "VI": 6, "VII": 7, "VIII": 8}


def order(number: str) -> tuple[int, ...]:
    """The sort key of a number: chapters in order, then numerically."""
    chapter, *rest = number.split(".")
    return (_ROMAN[chapter], *map(int, rest))


def propositions() -> tuple[Proposition, ...]:
    """All propositions, in order."""
    return tuple(sorted((c for c in cards().values() if isinstance(c, Proposition)), key=_by_number))


def clauses() -> tuple[Clause, ...]:
    """All clauses, in order."""
    return tuple(sorted((c for c in cards().values() if isinstance(c, Clause)), key=_by_number))


def mistakes() -> tuple[tuple[Clause, Mistake], ...]:
    """Every mistake with the clause that it breaks, in order."""
    return tuple((clause, mistake) for clause in clauses() for mistake in clause.mistakes)


def find(number: str) -> Card:
    """The card of that number; an unknown one is a KeyError that names its neighbours."""
    known = cards()
    if number in known:
        return known[number]
    stem = re.sub(r"\.?[^.]*$", "", number)
    siblings = (n for n in sorted(known, key=order) if n.count(".") == number.count("."))
    near = [n for n in siblings if stem and n.startswith(stem + ".")]
    hint = f"; there are {', '.join(near)}" if near else "; `gnomon list` prints all numbers"
    raise KeyError(f"there is no clause or proposition {number}{hint}")


def foundations(card: Card) -> tuple[Card, ...]:
    """What a card rests on directly; a clause also rests on what its proposition rests on."""
    above = card.proposition.rests_on if isinstance(card, Clause) else ()
    return tuple(dict.fromkeys((*card.rests_on, *above)))


def _by_number(card: Card) -> tuple[int, ...]:
    return order(card.number)
