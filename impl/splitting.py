"""Splits, fitted pipelines and a protocol in NumPy, in small steps that a fault can replace."""

import unicodedata
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from gnomon.impl.numpy_operations import Array

Pair = tuple[Array, Array]
State = dict[str, Array]
_CHOSEN = 10  # features, of many


class NumpySplitting:
    """Splits of rows into training and held-out indices, and what is fitted on the training side alone."""

    # Splits.

    def split_rows(
        self,
        rows: Array,
        *,
        groups: Array | None = None,
        times: Array | None = None,
        labels: Array | None = None,
        equality: str | None = None,
        window: int | None = None,
        parts: int = 5,
        seed: int = 0,
    ) -> list[Pair]:
        """`parts` pairs of training and held-out indices, which keep apart what the keywords declare."""
        whole = [name for name, given in (("groups", groups), ("equality", equality)) if given is not None]
        if whole and (times is not None or window):
            raise NotImplementedError(f"{' and '.join(whole)} can not be kept whole in a split by time or windows")
        if times is not None:
            return self.by_time(self.ranks(times), parts)
        if window:
            return self.by_window(len(rows), window, parts)
        part = self.dealt(self.units(rows, groups, equality), labels, parts, np.random.default_rng(seed))
        return [self.balanced(*self.pair(part == number), labels) for number in range(parts)]

    def pair(self, held: Array) -> Pair:
        """The two sides of a split, by index."""
        return np.flatnonzero(~held), np.flatnonzero(held)

    def balanced(self, train: Array, held: Array, labels: Array | None) -> Pair:
        """The two sides after any change for the sake of the labels: none."""
        return train, held

    def units(self, rows: Array, groups: Array | None, equality: str | None) -> Array:
        """The number of the unit that each row belongs to: those of one group, and those that are alike, stay whole."""
        unit = np.arange(len(rows))
        given = [np.unique(groups, return_inverse=True)[1]] if groups is not None else []
        given += [self.copies(rows, equality)] if equality is not None else []
        while given and any((self.least_of(unit, names) != unit).any() for names in given):
            for names in given:
                unit = self.least_of(unit, names)
        return unit

    def least_of(self, unit: Array, names: Array) -> Array:
        """The smallest unit among all rows of one name."""
        least = np.full(names.max() + 1, len(unit))
        np.minimum.at(least, names, unit)
        return np.asarray(least[names])

    def copies(self, rows: Array, equality: str) -> Array:
        """A number for each row, the same for rows that are alike."""
        numbers: dict[Any, int] = {}
        return np.array([numbers.setdefault(self.key(row, equality), len(numbers)) for row in rows])

    def key(self, row: Any, equality: str) -> Any:
        """What two rows have in common that are copies of one another."""
        if equality == "text":
            return " ".join(unicodedata.normalize("NFKC", row).casefold().split())
        values = np.atleast_1d(row)
        return tuple((values if equality == "exact" else np.round(values, 3)).tolist())

    def dealt(self, unit: Array, labels: Array | None, parts: int, rng: np.random.Generator) -> Array:
        """The part of each row: units at random, or in the order of their mean labels so that these are spread."""
        names, place = np.unique(unit, return_inverse=True)
        if len(names) < parts:
            raise ValueError(f"{len(names)} groups of rows can not be dealt to {parts} parts")
        means = np.zeros(len(names)) if labels is None else np.bincount(place, labels) / np.bincount(place)
        order = np.lexsort((rng.random(len(names)), means))
        part = np.empty(len(names), int)
        part[order] = np.arange(len(names)) % parts
        return np.asarray(part[place])

    def ranks(self, times: Array) -> Array:
        """The place of each row in time; rows of one time have one place."""
        return np.asarray(np.unique(times, return_inverse=True)[1])

    def by_time(self, rank: Array, parts: int) -> list[Pair]:
        """All that came before, and the next stretch of time."""
        last = int(rank.max()) + 1
        if last <= parts:
            raise ValueError(f"{last} times can not be cut into {parts + 1} stretches")
        edges = [last * number // (parts + 1) for number in range(1, parts + 2)]
        return [
            (np.flatnonzero(rank < low), np.flatnonzero((rank >= low) & (rank < high))) for low, high in pairwise(edges)
        ]

    def by_window(self, count: int, window: int, parts: int) -> list[Pair]:
        """Stretches of windows, and of all others those that share no value with them."""
        pairs, margin, place = [], self.margin(window), np.arange(count)
        for number in range(parts):
            low, high = count * number // parts, count * (number + 1) // parts
            pairs.append((np.flatnonzero((place <= low - margin) | (place >= high - 1 + margin)), place[low:high]))
        return pairs

    def margin(self, window: int) -> int:
        """How many steps apart two windows share nothing."""
        return window

    # Pipelines.

    def pipeline(self, step: str) -> "Step":
        """A step that is fitted: scale, impute, select, encode or vocabulary."""
        return Step(self, step)

    def fitted_on(self, step: str, train: Array, count: int) -> Array:
        """The rows that a step is fitted on."""
        return train

    def kept_state(self, before: State, after: State) -> State:
        """What a step holds after it was fitted again."""
        return after

    def fitted(self, step: str, rows: Array, labels: Array) -> State:
        """What a step learns of rows with their labels."""
        if step == "scale":
            return {"mean": rows.mean(0), "deviation": rows.std(0)}
        if step == "impute":
            return {"mean": np.nanmean(rows, 0)}
        if step == "select":
            strength = correlations(rows, labels)
            return {"features": np.argsort(-strength, kind="stable")[:2], "strength": strength}
        if step == "encode":
            names, place = np.unique(rows, return_inverse=True)
            return {"categories": names, "means": np.bincount(place, labels) / np.bincount(place)}
        return {"words": np.unique([word for text in rows for word in text.split()])}

    # A protocol.

    def protocol(self, rows: Array, labels: Array, *, seed: int = 0) -> tuple[int, int]:
        """Right answers and answers on held-out rows, each the label of the training row that is nearest by features
        chosen for their correlation with the training labels."""
        order = np.random.default_rng(seed).permutation(len(rows))
        return self.answered(rows, labels, order[: len(rows) // 2], order[len(rows) // 2 :])

    def answered(self, rows: Array, labels: Array, train: Array, held: Array) -> tuple[int, int]:
        """The right answers of one split, and how many answers there are."""
        features = self.chosen(rows, labels, train)
        return self.right(rows[:, features], labels, train, held), len(held)

    def chosen(self, rows: Array, labels: Array, train: Array) -> Array:
        """The features that go with the training labels."""
        return np.argsort(-correlations(rows[train], labels[train]))[:_CHOSEN]

    def right(self, rows: Array, labels: Array, train: Array, held: Array) -> int:
        """How many held-out rows have the label of their nearest training row."""
        distances = ((rows[held][:, None] - rows[train][None]) ** 2).sum(-1)
        return int((labels[train][distances.argmin(1)] == labels[held]).sum())


def correlations(rows: Array, labels: Array) -> Array:
    """How strongly each column goes with the labels, without a sign."""
    centred, signs = rows - rows.mean(0), labels - labels.mean()
    spread = np.sqrt((centred**2).sum(0) * (signs**2).sum())
    return np.asarray(np.abs(signs @ centred) / np.where(spread == 0, 1, spread))


@dataclass(eq=False)
class Step:
    """A step of a pipeline, which sees all rows and is told which of them it may be fitted on."""

    operations: NumpySplitting
    step: str
    held: State = field(default_factory=dict)

    def fit(self, rows: Array, labels: Array, train: Array) -> None:
        """Learn what it holds from the training rows."""
        own = self.operations.fitted_on(self.step, train, len(rows))
        self.held = self.operations.kept_state(self.held, self.operations.fitted(self.step, rows[own], labels[own]))

    def state(self) -> State:
        """Everything that was fitted, by name."""
        return self.held
