"""Faults of VIII.4: parts that share rows, pipelines that saw what was held out, time that runs backwards."""

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference
from gnomon.impl.splitting import Pair, State, correlations
from gnomon.spec.leakage import (
    CARRIED_OVER,
    CHOSEN_BEFORE_THE_SPLIT,
    COPIED_BEFORE_THE_SPLIT,
    COPIES_ACROSS,
    ENCODED_WITH_HELD_OUT,
    EXACT_COPIES_ONLY,
    IMPUTED_FROM_EVERYTHING,
    ORDER_FOR_TIME,
    PARTS_OVERLAP,
    SCALED_ON_EVERYTHING,
    SELECTED_ON_EVERYTHING,
    SELECTED_ON_THE_REPORTED,
    SHUFFLED_TIME,
    TIES_ON_BOTH_SIDES,
    VOCABULARY_OF_EVERYTHING,
    WINDOWS_OVERLAP,
)


@commits(PARTS_OVERLAP)
class PartsOverlap(NumpyReference):
    """Training begins one row before the held-out rows end."""

    def pair(self, held: Array) -> Pair:
        train, out = super().pair(held)
        return np.union1d(train, out[-1:]), out


@commits(COPIES_ACROSS)
class CopiesAcross(NumpyReference):
    """No row is a copy of another."""

    def copies(self, rows: Array, equality: str) -> Array:
        return np.arange(len(rows))


@commits(EXACT_COPIES_ONLY)
class ExactCopiesOnly(NumpyReference):
    """Copies are equal byte by byte."""

    def copies(self, rows: Array, equality: str) -> Array:
        return super().copies(rows, "exact")


@commits(WINDOWS_OVERLAP)
class WindowsOverlap(NumpyReference):
    """Windows are rows."""

    def margin(self, window: int) -> int:
        return super().margin(1)


class OnEverything(NumpyReference):
    """One step is fitted on all rows."""

    leaking = ""

    def fitted_on(self, step: str, train: Array, count: int) -> Array:
        return np.arange(count) if step == self.leaking else super().fitted_on(step, train, count)


@commits(SCALED_ON_EVERYTHING)
class ScaledOnEverything(OnEverything):
    """Mean and deviation of all rows."""

    leaking = "scale"


@commits(IMPUTED_FROM_EVERYTHING)
class ImputedFromEverything(OnEverything):
    """Missing values become the mean of all rows."""

    leaking = "impute"


@commits(SELECTED_ON_EVERYTHING)
class SelectedOnEverything(OnEverything):
    """Features are chosen on all rows."""

    leaking = "select"


@commits(ENCODED_WITH_HELD_OUT)
class EncodedWithHeldOut(OnEverything):
    """A category is the mean label of all its rows."""

    leaking = "encode"


@commits(VOCABULARY_OF_EVERYTHING)
class VocabularyOfEverything(OnEverything):
    """The words of all texts."""

    leaking = "vocabulary"


@commits(CARRIED_OVER)
class CarriedOver(NumpyReference):
    """Numbers of an earlier fit are averaged with the new ones, and its words stay."""

    def kept_state(self, before: State, after: State) -> State:
        alike = {n: v for n, v in before.items() if v.dtype.kind == "f" and v.shape == after[n].shape}
        words = {n: np.union1d(v, after[n]) for n, v in before.items() if n == "words"}
        return after | words | {name: (value + after[name]) / 2 for name, value in alike.items()}


@commits(CHOSEN_BEFORE_THE_SPLIT)
class ChosenBeforeTheSplit(NumpyReference):
    """Features are chosen by the labels of all rows."""

    def chosen(self, rows: Array, labels: Array, train: Array) -> Array:
        return super().chosen(rows, labels, np.arange(len(rows)))


@commits(COPIED_BEFORE_THE_SPLIT)
class CopiedBeforeTheSplit(NumpyReference):
    """Every row is there twice."""

    def protocol(self, rows: Array, labels: Array, *, seed: int = 0) -> tuple[int, int]:
        return super().protocol(np.concatenate([rows, rows]), np.concatenate([labels, labels]), seed=seed)


@commits(SELECTED_ON_THE_REPORTED)
class SelectedOnTheReported(NumpyReference):
    """The best of fifty single features, by the held-out rows that are reported."""

    def answered(self, rows: Array, labels: Array, train: Array, held: Array) -> tuple[int, int]:
        best = np.argsort(-correlations(rows[train], labels[train]))[:50]
        return max(self.right(rows[:, [feature]], labels, train, held) for feature in best), len(held)


@commits(SHUFFLED_TIME)
class ShuffledTime(NumpyReference):
    """Times are dealt anew."""

    def ranks(self, times: Array) -> Array:
        return np.asarray(np.random.default_rng(len(times)).permutation(super().ranks(times)))


@commits(ORDER_FOR_TIME)
class OrderForTime(NumpyReference):
    """The order of the rows is time."""

    def ranks(self, times: Array) -> Array:
        return np.arange(len(times))


@commits(TIES_ON_BOTH_SIDES)
class TiesOnBothSides(NumpyReference):
    """Every row has a place of its own."""

    def ranks(self, times: Array) -> Array:
        return np.asarray(np.argsort(np.argsort(times, kind="stable"), kind="stable"))
