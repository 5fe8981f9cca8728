"""VIII.4: leakage always flatters."""

import unicodedata
from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from math import comb
from types import MappingProxyType
from typing import Any

import numpy as np

from gnomon.spec.capacity import CAPACITY
from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition

DIGITS = 3  # after the point, to which numbers are rounded where rounded rows are alike
STEPS = ("scale", "impute", "select", "encode", "vocabulary")
CHANCE_ERROR = Fraction(1, 10**9)  # how often a protocol that guesses may be called a leak


def exact_key(row: Any) -> Hashable:
    """The row itself: two are alike if every entry is."""
    return tuple(np.atleast_1d(row).tolist())


def text_key(row: Any) -> Hashable:
    """The text in the compatible form of Unicode, without case, runs of white space as one space."""
    return " ".join(unicodedata.normalize("NFKC", str(row)).casefold().split())


def rounded_key(row: Any) -> Hashable:
    """The numbers, rounded to three digits after the point."""
    return tuple(np.round(np.atleast_1d(np.asarray(row, np.float64)), DIGITS).tolist())


# A declared equality of rows, by its key: rows are copies of one another if their keys are equal.
EQUALITIES: Mapping[str, Callable[[Any], Hashable]] = MappingProxyType(
    {"exact": exact_key, "text": text_key, "rounded": rounded_key}
)


def keys(rows: Any, equality: str) -> list[Hashable]:
    """The key of every row under an equality."""
    return [EQUALITIES[equality](row) for row in rows]


def shared(one: Any, other: Any) -> int:
    """How many values stand on both sides."""
    return len(set(one) & set(other))


def most_by_chance(items: int, error: Fraction = CHANCE_ERROR) -> int:
    """The largest number of fair coins, of so many, whose excess has at least this probability; an exact binomial."""
    budget, tail, most = error * 2**items, 0, items
    while tail + comb(items, most) <= budget:
        tail += comb(items, most)
        most -= 1
    return most


LEAKAGE = Proposition(
    number="VIII.4",
    slug="leakage",
    statement="Leakage, any route by which held-out data reach the model, always flatters.",
    formula=r"\theta = F(D_{\mathrm{train}}),\qquad D_{\mathrm{train}}\cap D_{\mathrm{held\ out}}=\varnothing",
    source="Foundations, gathered: chapter VIII; vocabulary: leakage",
    rests_on=(CAPACITY,),
)

PARTS_OVERLAP = Mistake(
    "parts-overlap",
    "where training begins and where held-out rows end are set in two places, and the ranges overlap",
    "a part of the held-out rows was trained on; the score rises with the overlap",
    seen=("a small public project (2026)",),
    bugs=("B239",),
)
COPIES_ACROSS = Mistake(
    "copies-across",
    "rows are dealt to the parts without a look at which are copies",
    "the held-out copy of a training row is answered by memory",
    seen=("huggingface/datasets#4261 (2022)",),
    bugs=("B237",),
)
EXACT_COPIES_ONLY = Mistake(
    "exact-copies-only",
    "copies are found by equal bytes whatever equality was declared",
    "a text in other case, or a number rounded elsewhere, stands on both sides",
)
WINDOWS_OVERLAP = Mistake(
    "windows-overlap",
    "windows of a series are dealt to the parts as if they were rows",
    "a held-out window shares all but one of its values with a training window",
)
NOTHING_SHARED = Clause(
    proposition=LEAKAGE,
    number="VIII.4.1",
    slug="nothing-shared",
    statement="The parts of a split share no row, no copy of one under the declared equality, and no value of "
    "overlapping windows.",
    formula=r"\{k(x): x\in D_{\mathrm{train}}\}\cap\{k(x): x\in D_{\mathrm{held\ out}}\}=\varnothing",
    kind=Kind.EXACT,
    level=(Level.DATA,),
    mistakes=(PARTS_OVERLAP, COPIES_ACROSS, EXACT_COPIES_ONLY, WINDOWS_OVERLAP),
)

SCALED_ON_EVERYTHING = Mistake(
    "scaled-on-everything",
    "mean and deviation are those of all rows",
    "held-out rows set the scale that they are judged by; small, and largest where the held-out rows differ most",
)
IMPUTED_FROM_EVERYTHING = Mistake(
    "imputed-from-everything",
    "missing values are filled with the mean of all rows",
    "training rows carry what was held out",
)
SELECTED_ON_EVERYTHING = Mistake(
    "selected-on-everything",
    "features are chosen by their correlation with the labels of all rows",
    "with many features a score far above chance on labels of pure noise",
)
ENCODED_WITH_HELD_OUT = Mistake(
    "encoded-with-held-out",
    "a category is replaced by the mean label of all its rows, held-out ones included",
    "rare categories spell out the held-out label",
)
VOCABULARY_OF_EVERYTHING = Mistake(
    "vocabulary-of-everything",
    "the vocabulary is that of all texts",
    "held-out words have a number where they should have been unknown",
)
CARRIED_OVER = Mistake(
    "carried-over",
    "fitting again begins with what was fitted before",
    "each fold knows the folds before it, among them the rows that it holds out",
)
NOTHING_MOVES = Clause(
    proposition=LEAKAGE,
    number="VIII.4.2",
    slug="nothing-moves",
    statement="Nothing that is fitted moves when held-out rows or labels change: the fitted pipeline is bit for bit "
    "the same.",
    formula=r"F(D_{\mathrm{train}}, D_{\mathrm{held\ out}}) = F(D_{\mathrm{train}}, D'_{\mathrm{held\ out}})",
    kind=Kind.EXACT,
    level=(Level.DATA,),
    mistakes=(
        SCALED_ON_EVERYTHING,
        IMPUTED_FROM_EVERYTHING,
        SELECTED_ON_EVERYTHING,
        ENCODED_WITH_HELD_OUT,
        VOCABULARY_OF_EVERYTHING,
        CARRIED_OVER,
    ),
)

CHOSEN_BEFORE_THE_SPLIT = Mistake(
    "chosen-before-the-split",
    "the features that go with the labels are chosen on all rows, then the rows are split",
    "noise is predicted; with enough features, nearly perfectly",
)
COPIED_BEFORE_THE_SPLIT = Mistake(
    "copied-before-the-split",
    "rows are copied, for more of them or for balanced labels, and then split",
    "held-out copies are recognised",
)
SELECTED_ON_THE_REPORTED = Mistake(
    "selected-on-the-reported",
    "of many models the one that does best on the held-out rows is kept, and that score is reported",
    "the best of many guesses is above chance",
    seen=("a small public project (2021)",),
    bugs=("B241",),
)
CHANCE_ON_NOISE = Clause(
    proposition=LEAKAGE,
    number="VIII.4.3",
    slug="chance-on-noise",
    statement="On labels of pure noise an honest protocol scores at chance: the right answers on held-out rows are a "
    "number of fair coins, which an exact binomial test with an error of one in a billion does not refuse.",
    formula=r"P(B(n,\tfrac12)\ge k)\ge 10^{-9}",
    kind=Kind.STAT,
    level=(Level.DATA,),
    rests_on=(NOTHING_MOVES,),
    mistakes=(CHOSEN_BEFORE_THE_SPLIT, COPIED_BEFORE_THE_SPLIT, SELECTED_ON_THE_REPORTED),
)

SHUFFLED_TIME = Mistake(
    "shuffled-time",
    "rows are shuffled before they are split, whatever time they are from",
    "the model is trained on the future of what it predicts",
)
ORDER_FOR_TIME = Mistake(
    "order-for-time",
    "rows are split where they stand, as if they were in the order of their times",
    "right for a sorted table; a table sorted by anything else is shuffled time",
)
TIES_ON_BOTH_SIDES = Mistake(
    "ties-on-both-sides",
    "sorted rows are cut between two of the same time",
    "what happened at that time is known on both sides",
)
LATER = Clause(
    proposition=LEAKAGE,
    number="VIII.4.4",
    slug="later",
    statement="Where time is declared, every held-out row is later than every training row.",
    formula=r"\max t(D_{\mathrm{train}}) < \min t(D_{\mathrm{held\ out}})",
    kind=Kind.EXACT,
    level=(Level.DATA,),
    mistakes=(SHUFFLED_TIME, ORDER_FOR_TIME, TIES_ON_BOTH_SIDES),
)
