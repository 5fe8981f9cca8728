"""Scores that carry their split, and the differences of scores that mean something, in small steps."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.impl.numpy_operations import Array


@dataclass(frozen=True, slots=True)
class Score:
    """A number, the metric that it is of, and the fingerprint of the split that it was measured on."""

    value: float
    metric: str
    split: str

    def __sub__(self, other: "Score") -> float:
        """The difference of two scores of one metric on one split; any other is a ValueError with the reason."""
        if self.metric != other.metric:
            raise ValueError(f"{self.metric} and {other.metric} are different metrics: their difference means nothing")
        if self.split != other.split:
            raise ValueError(
                f"the scores are of different splits ({self.split[:8]} and {other.split[:8]}): score both models on one"
            )
        return self.value - other.value


class NumpyScores:
    """Records of scores, the generalisation gap, and the difference between two splits."""

    def score_record(self, value: float, *, metric: str, rows: Array, train: Array, held: Array) -> Score:
        """The score of what was trained on some rows of a table, on others of it."""
        return Score(float(value), metric, self.fingerprint(rows, train, held))

    def compare_scores(self, one: Score, other: Score) -> float:
        """The first less the second; a ValueError where they are of different splits or metrics."""
        return one - other

    def fingerprint(self, rows: Array, train: Array, held: Array) -> str:
        """What is the same for the same table and the same two sets of rows, and for nothing else."""
        digest = hashlib.sha256(content(rows))
        for indices in (train, held):
            digest.update(b"|" + np.asarray(self.listed(indices), np.int64).tobytes())
        return digest.hexdigest()

    def listed(self, indices: Array) -> Array:
        """The indices of a part, in one order."""
        return np.sort(indices)

    def gap(self, training: Array, held_out: Array, *, metrics: tuple[str, str]) -> tuple[float, float]:
        """Mean training less mean held-out performance, and its standard error; different metrics are a ValueError."""
        self.require_one_metric(metrics)
        return self.signed(float(training.mean() - held_out.mean())), self.standard_error(training, held_out)

    def require_one_metric(self, metrics: tuple[str, str]) -> None:
        """Refuse two different metrics."""
        if metrics[0] != metrics[1]:
            raise ValueError(f"a gap between {metrics[0]} and {metrics[1]} means nothing")

    def signed(self, gap: float) -> float:
        """The gap as it is reported."""
        return gap

    def standard_error(self, training: Array, held_out: Array) -> float:
        """The root of the sum of the squared errors of the two means."""
        return float(np.sqrt(self.squared_error(training) + self.squared_error(held_out)))

    def squared_error(self, values: Array) -> float:
        """The unbiased variance over the number."""
        return float(values.var(ddof=1) / len(values))

    def split_difference(self, random: Array, grouped: Array, groups: Array) -> tuple[float, float]:
        """Mean loss under the grouped split less that under the random one, and its standard error by groups."""
        apart = np.asarray(grouped - random)
        names, group = np.unique(groups, return_inverse=True)
        totals = np.bincount(group, apart - apart.mean(), len(names))
        squared = len(names) / (len(names) - 1) * (totals**2).sum() / len(apart) ** 2
        return float(apart.mean()), float(np.sqrt(squared))


def score(value: float, *, metric: str, rows: Any, train: Any, held: Any) -> Score:
    """The score of a model that was trained on some rows of a table, by their numbers, and scored on others of it.

    One score less another is the difference, and a ValueError with the reason where splits, tables or metrics differ.
    """
    sides = (np.asarray(side) for side in (train, held))
    indices = [np.flatnonzero(side) if side.dtype == bool else side for side in sides]
    return NumpyScores().score_record(value, metric=metric, rows=np.asarray(rows), train=indices[0], held=indices[1])


def content(rows: Array) -> bytes:
    """The rows as bytes, with their type and shape."""
    plain = rows.dtype.kind in "biufUS"
    body = np.ascontiguousarray(rows).tobytes() if plain else repr(rows.tolist()).encode()
    return f"{rows.dtype.str if plain else 'object'}{rows.shape}".encode() + body
