"""Cases of splits, pipelines and scores: tables with groups, times, labels and copies, and what is done with them."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gnomon.props.cases import SEEDS, Case, Rng, Strategy
from gnomon.props.outcome import ImplementationFailed
from gnomon.props.subject import Subject, guarded
from gnomon.spec.evaluators import Floats
from gnomon.spec.leakage import EQUALITIES

Array = np.ndarray[Any, np.dtype[Any]]
Pairs = list[tuple[Array, Array]]

WORDS = ("fine", "Fine", "FINE", "mask", "Mask", "token", "straße", "strasse", "e\u0301")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCase(Case):
    """A table that is split into parts, under one declared equality of rows."""

    count: int = 12
    groups: int = 6
    parts: int = 3
    width: int = 2
    window: int = 1
    equality: str = "exact"  # one of EQUALITIES
    named: bool = False  # whether groups have names and not numbers
    tied: bool = False  # whether rows share their times
    balanced: bool = False  # whether the labels are given

    @property
    def size(self) -> int:
        """How many rows: at least three a group and enough for every part."""
        return max(self.count, 3 * self.members)

    @property
    def members(self) -> int:
        """How many groups there are: at least one a part and one more."""
        return max(self.groups, self.parts + 1)

    @property
    def rows(self) -> Floats:
        """`[rows, width]`, all different."""
        return np.asarray(self._rng(0).permutation(self.size * self.width).reshape(self.size, self.width) / 4.0)

    @property
    def group(self) -> Array:
        """The group of each row, of every size, in no order."""
        rng = self._rng(1)
        of = np.concatenate([np.arange(self.members), rng.integers(0, self.members, self.size - self.members)])
        numbers = rng.permutation(of) * 7 - 11
        return np.array([f"site {n}" for n in numbers]) if self.named else numbers

    @property
    def labels(self) -> Array:
        """A label of 0 or 1 for each row, the group's own for most of them; as many of each as there are parts."""
        rng = self._rng(2)
        own = np.unique(self.group, return_inverse=True)[1] % 2
        labels = np.asarray(np.where(rng.random(self.size) < 0.2, 1 - own, own))
        labels[rng.permutation(self.size)[: 2 * self.parts]] = np.arange(2 * self.parts) % 2
        return labels

    @property
    def times(self) -> Array:
        """The time of each row, in no order; in a third of them at the time of another where they are tied."""
        rng = self._rng(3)
        order = rng.permutation(self.size)
        return np.asarray(order % max(self.parts + 1, self.size // 3) if self.tied else order) * 3 + 100

    @property
    def copied(self) -> Array:
        """Rows of which several are alike under the declared equality: texts, or numbers `[rows, width]`."""
        rng, kinds = self._rng(4), max(self.parts + 1, self.size // 3)
        of = np.concatenate([np.arange(kinds), rng.integers(0, kinds, self.size - kinds)])
        rng.shuffle(of)
        if self.equality == "text":
            return np.array([_spelled(rng, f"{WORDS[k % 2 * 3]} {k}") for k in of])
        rows = np.asarray(of[:, None] + np.arange(self.width) / 8.0)
        if self.equality == "rounded":
            rows = rows + rng.integers(-3, 4, rows.shape) / 8192.0  # a tenth of what is rounded away
        return rows

    def _rng(self, which: int) -> Rng:
        return np.random.default_rng((self.seed, which))


def _spelled(rng: Rng, text: str) -> str:
    """The text in some case, with some spaces, or with a ligature."""
    form = (str, str.upper, str.title, lambda t: t.replace("fi", "ﬁ"))[rng.integers(4)]
    return (" ", "", "  ")[rng.integers(3)] + (" ", "  ", "\t")[rng.integers(3)].join(form(text).split())


def split_cases(**given: Any) -> Strategy:
    """Tables of every kind; a keyword fixes a field."""
    drawn = {
        "seed": SEEDS,
        "count": st.sampled_from((12, 9, 20, 31, 40)),
        "groups": st.integers(2, 9),
        "parts": st.integers(2, 5),
        "width": st.integers(1, 3),
        "window": st.integers(1, 4),
        "named": st.booleans(),
        "tied": st.booleans(),
        "balanced": st.booleans(),
    } | {name: value if isinstance(value, st.SearchStrategy) else st.just(value) for name, value in given.items()}
    return st.builds(SplitCase, **drawn)


def copied_cases() -> Strategy:
    """Tables with copies under every equality."""
    return split_cases(equality=st.sampled_from(tuple(EQUALITIES)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineCase(Case):
    """Rows of which some are held out, and a step that is fitted on the others."""

    count: int = 12
    width: int = 3
    step: str = "scale"  # one of STEPS

    @property
    def train(self) -> Array:
        """The rows that may be fitted on: some two thirds of them, in order."""
        return np.sort(self._rng(0).permutation(self.count)[: -(-2 * self.count // 3)])

    @property
    def held(self) -> Array:
        """The others."""
        return np.setdiff1d(np.arange(self.count), self.train)

    def rows(self, change: int = 0) -> Array:
        """The rows, of the kind that the step takes; a change writes other ones in place of those held out."""
        rows = self._filled(self._rng(1))
        if change:
            other = self._filled(self._rng(1 + change), strange=change)
            rows[self.held] = other[self.held]
        return rows

    def labels(self, change: int = 0) -> Floats:
        """0 or 1 for each row, of both kinds among the training rows; a change turns those held out."""
        labels = self._rng(9).integers(0, 2, self.count).astype(np.float64)
        labels[self.train[:2]] = 0.0, 1.0
        labels[self.held] = (labels[self.held] + change) % 2
        return labels

    def _filled(self, rng: Rng, strange: int = 0) -> Array:
        if self.step == "encode":
            return np.array([f"category {k}" for k in rng.integers(0, 3 + 2 * strange, self.count)], dtype="U20")
        if self.step == "vocabulary":
            words = [*WORDS, *(f"new{k}" for k in range(3 * strange))]
            return np.array([" ".join(rng.choice(words, 3)) for _ in range(self.count)], dtype="U60")
        rows = rng.standard_normal((self.count, self.width)) * 10.0 ** (2 * strange) + 7 * strange
        if self.step == "impute":
            missing = rng.random(rows.shape) < 0.3
            missing[self.train[:1]] = False  # every column has a number to learn from
            rows[missing] = np.nan
        return np.asarray(rows)

    def _rng(self, which: int) -> Rng:
        return np.random.default_rng((self.seed, 20 + which))


def pipelines(step: str) -> Strategy:
    """Cases of one step."""
    count, width = st.sampled_from((12, 9, 24)), st.integers(3, 6)
    return st.builds(PipelineCase, seed=SEEDS, count=count, width=width, step=st.just(step))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreCase(Case):
    """A table with two splits of it, or two samples of scores."""

    count: int = 8
    other: int = 8
    groups: int = 3

    @property
    def rows(self) -> Floats:
        """`[rows, 2]`."""
        return np.asarray(np.random.default_rng((self.seed, 30)).integers(-9, 9, (self.count, 2)) / 2.0)

    @property
    def parts(self) -> tuple[Array, Array]:
        """Training and held-out rows, in some order; two at least on each side."""
        order = np.random.default_rng((self.seed, 31)).permutation(self.count)
        cut = 2 + self.seed % (self.count - 3)
        return order[:cut], order[cut:]

    @property
    def samples(self) -> tuple[Floats, Floats]:
        """The performance on each training and each held-out item."""
        rng = np.random.default_rng((self.seed, 32))
        return tuple(rng.integers(-8, 9, n) / 8.0 + rng.standard_normal() for n in (self.count, self.other))  # type: ignore[return-value]

    @property
    def group(self) -> Array:
        """The group of each row, every group there."""
        rng = np.random.default_rng((self.seed, 33))
        number = min(self.groups, self.count)
        return rng.permutation(np.concatenate([np.arange(number), rng.integers(0, number, self.count - number)]))


SCORES = st.builds(
    ScoreCase,
    seed=SEEDS,
    count=st.sampled_from((8, 4, 5, 13, 30)),
    other=st.sampled_from((8, 2, 3, 21)),
    groups=st.integers(2, 6),
)


NAMES = ("right", "right answer", "answer", "fast", "not too fast", "short", "safe", "fair")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorksheetCase(Case):
    """An objective of some terms, of which the loss sees some and the others are omitted for a reason."""

    terms: int = 2
    seen: int = 1

    @property
    def record(self) -> dict[str, Any]:
        """The complete record."""
        names = [str(n) for n in np.random.default_rng(self.seed).permutation(NAMES)[: max(self.terms, self.seen + 1)]]
        omitted = {name: f"nobody measures {name}" for name in names[self.seen :]}
        return {"objective": names[::-1], "loss": [*names[: self.seen], "weight decay"], "omitted": omitted}


WORKSHEETS = st.builds(WorksheetCase, seed=SEEDS, terms=st.integers(2, len(NAMES)), seen=st.integers(1, 4))

TABLE_KINDS: tuple[type[Case], ...] = (SplitCase, PipelineCase, ScoreCase, WorksheetCase)

# What an implementation gave, looked at before it is judged.


def asked(subject: Subject, operation: str, *arguments: Any, **options: Any) -> Any:
    """What an operation on tables gives; keywords by the names that it has declared."""
    given = {name: value for name, value in options.items() if value is not None}
    subject.require(operation, *given)
    renamed = subject.implementation.declaration.keywords
    own = {renamed.get(name, name): value for name, value in given.items()}
    return guarded(operation, subject.implementation.operations[operation], list(arguments), own)


def split_of(subject: Subject, case: SplitCase, rows: Array | None = None, **options: Any) -> Pairs:
    """Its pairs of training and held-out indices; `parts` and `seed` only where it takes them.

    What it takes and can not do without is given to it, whatever is asked.
    """
    table = case.rows if rows is None else rows
    usual = {"groups": case.group, "times": case.times, "labels": case.labels, "window": case.window}
    given = {name: usual[name] for name in required(subject) & set(usual)} | options
    given |= {n: v for n, v in (("parts", case.parts), ("seed", case.seed)) if subject.offers("split_rows", n)}
    return checked_pairs(asked(subject, "split_rows", table, **given), len(table), "split_rows")


def required(subject: Subject) -> set[str]:
    """Our names of the keywords without which it splits nothing."""
    subject.require("split_rows")
    own = inspect.signature(subject.implementation.operations["split_rows"]).parameters.values()
    back = {theirs: ours for ours, theirs in subject.implementation.declaration.keywords.items()}
    return {back.get(p.name, p.name) for p in own if p.default is p.empty and p.kind is p.KEYWORD_ONLY}


def checked_pairs(found: Any, count: int, name: str) -> Pairs:
    """The pairs as arrays of indices, neither side empty; anything else is a failure in one sentence."""
    try:
        pairs = list(found)
    except TypeError as error:
        raise ImplementationFailed(f"{name} returned {_kind(found)} where pairs of indices are due") from error
    if not pairs:
        raise ImplementationFailed(f"{name} returned no pair of training and held-out indices")
    return [_pair(pair, count, f"{name}, split {number},") for number, pair in enumerate(pairs)]


def _pair(pair: Any, count: int, name: str) -> tuple[Array, Array]:
    if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
        raise ImplementationFailed(f"{name} is {_kind(pair)} where a pair of training and held-out indices is due")
    train, held = (
        _indices(side, count, f"{name} {word}") for side, word in zip(pair, ("training", "held-out"), strict=True)
    )
    return train, held


def _indices(side: Any, count: int, name: str) -> Array:
    indices = np.asarray(side)
    if indices.size == 0:
        raise ImplementationFailed(f"{name} rows: there are none")
    if indices.dtype == bool and indices.shape == (count,):
        return np.flatnonzero(indices)
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise ImplementationFailed(f"{name} rows are {_kind(side)} where integers are due, the numbers of rows")
    if indices.min() < 0 or indices.max() >= count:
        wrong = indices[(indices < 0) | (indices >= count)][0]
        raise ImplementationFailed(f"{name} rows name row {wrong} of a table with rows 0 to {count - 1}")
    return indices


def _kind(thing: Any) -> str:
    if isinstance(thing, np.ndarray):
        return f"an array of {thing.dtype} of the shape {thing.shape}"
    return f"a {type(thing).__name__}"


def try_out(subject: Subject, operation: str) -> None:
    """One small call of an operation on tables."""
    score, pipeline = ScoreCase(), PipelineCase()
    seeded = {"seed": 0} if subject.offers("protocol", "seed") else {}
    calls: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        "pipeline": ((pipeline.step,), {}),
        "protocol": ((pipeline.rows(), pipeline.labels().astype(int)), seeded),
        "gap": (score.samples, {"metrics": ("accuracy", "accuracy")}),
        "split_difference": ((*score.rows.T, score.group), {}),
        "token_windows": ((lambda offset, size: bytes(size), 8), {"length": 2, "width": 2}),
        "worksheet": (({"objective": ["a"], "loss": ["a"], "omitted": {}},), {}),
    }
    even = np.log(np.full((1, 2, 3), 1 / 3))
    parts = dict(zip(("train", "held"), score.parts, strict=True))
    if operation == "split_rows":
        split_of(subject, SplitCase())
    elif operation in ("score_record", "compare_scores"):
        one = asked(subject, "score_record", 0.5, metric="accuracy", rows=score.rows, **parts)
        if operation == "compare_scores":
            asked(subject, operation, one, one)
    elif operation == "continuation_score":
        subject.number(operation, lambda tokens: even, lambda text: [0] * len(text), "aa", "a")
    else:
        arguments, options = calls[operation]
        asked(subject, operation, *arguments, **options)
