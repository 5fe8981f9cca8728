"""What a proposition is: numbered, sourced, joined by object, and never moved."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Union

Card = Union["Proposition", "Clause"]
_NUMBER = re.compile(r"[IV]+\.\d+(\.\d+)?")
_cards: dict[str, Card] = {}


class CardError(ValueError):
    """A card that lacks a part or clashes with another; raised when its module is imported."""


class Kind(StrEnum):
    """How a clause is decided."""

    EXACT = "exact"  # bit for bit
    BOUND = "bound"  # within a rounding-error bound
    STAT = "stat"  # by a test of stated error probability
    TRAINED = "trained"  # by a small training run of stated error probability
    PROOF = "proof"  # symbolically only
    COUNT = "count"  # in integers
    TOOL = "tool"  # a capability that users run


class Level(StrEnum):
    """The smallest thing that shows a clause."""

    OP = "op"
    BLOCK = "block"
    MODEL = "model"
    TRAIN = "train"
    TOKENISER = "tok"
    DATA = "data"
    COUNT = "count"


@dataclass(frozen=True, slots=True, eq=False)
class Mistake:
    """One usual way to get a clause wrong; a faulty implementation commits it and the clause rejects that.

    seen: public reports. bugs: their numbers in the project's list of open bugs. unseen: dtype to the reason
    why the mistake cannot be told from rounding there. needs: the keywords without which nobody can make it, of
    attention or, as `rope.base`, of another operation. families: the families of models in which it can be made,
    where that is not all. whole: it is made in a block or a whole model; no single operation shows it.
    """

    slug: str
    wrong: str
    effect: str
    seen: tuple[str, ...] = ()
    bugs: tuple[str, ...] = ()
    unseen: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Proposition:
    """A numbered statement that its clauses take apart."""

    number: str
    slug: str
    statement: str
    formula: str
    source: str
    rests_on: tuple["Proposition", ...] = ()
    said: str = ""
    so: str = ""

    def __post_init__(self) -> None:
        _require(self, self.number.count(".") == 1, "is not numbered like V.4")
        _enter(self)

    @property
    def clauses(self) -> tuple["Clause", ...]:
        """Its clauses, in the order of their numbers."""
        own = (c for c in _cards.values() if isinstance(c, Clause) and c.proposition is self)
        return tuple(sorted(own, key=lambda c: int(c.number.rsplit(".", 1)[1])))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Clause:
    """What one property checks: a statement that holds of every correct implementation.

    control: what stands in for a mistake where the catalogue asks for none. conventions: the axes of
    `Conventions` that the clause reads. proven: whether `gnomon.spec.proofs` also carries a proof of it.
    """

    proposition: Proposition
    number: str
    slug: str
    statement: str
    formula: str
    kind: Kind
    level: tuple[Level, ...] = (Level.OP,)
    rests_on: tuple[Card, ...] = ()
    conventions: tuple[str, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    control: str = ""
    proven: bool = False
    since: str = "0.1"

    def __post_init__(self) -> None:
        prefix = self.proposition.number + "."
        _require(self, self.number.startswith(prefix), f"does not belong to {self.proposition.number}")
        _require(self, bool(self.mistakes or self.control), "names neither a mistake nor a control")
        for mistake in self.mistakes:
            taken = owner_of(mistake)
            _require(self, taken is None, f"shares the mistake {mistake.slug!r}")
        _enter(self)

    @property
    def of_no_dtype(self) -> bool:
        """Whether it is decided in whole numbers, texts or rows alone, so that no dtype enters."""
        return set(self.level) <= {Level.COUNT, Level.TOKENISER, Level.DATA}

    def __repr__(self) -> str:
        return f"<{self.number} {self.slug}>"


def _require(card: Card, condition: bool, fault: str) -> None:
    if not condition:
        raise CardError(f"the card {card.number} {fault}")


def _enter(card: Card) -> None:
    _require(card, _NUMBER.fullmatch(card.number) is not None, "has a malformed number")
    _require(card, card.number not in _cards, "is declared twice")
    _require(card, bool(card.slug and card.statement and card.formula), "lacks slug, statement or formula")
    _cards[card.number] = card


def owner_of(mistake: Mistake) -> Clause | None:
    """The clause that the mistake breaks."""
    return next((c for c in _cards.values() if isinstance(c, Clause) and mistake in c.mistakes), None)


def cards() -> Mapping[str, Card]:
    """Every card entered so far, by number."""
    return MappingProxyType(_cards)
