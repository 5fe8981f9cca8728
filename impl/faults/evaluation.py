"""Faults of VIII.5: groups torn apart, scores without their split, items counted twice or not at all."""

import numpy as np

from gnomon.impl.evaluation import Encode, Piece
from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference
from gnomon.impl.scores import Score
from gnomon.spec.evaluation import (
    CONTEXT_COUNTED,
    CUT_AT_CONTEXT_LENGTH,
    DIFFERENCE_OF_GROUP_MEANS,
    FINGERPRINT_OF_SIZES,
    GROUPED_BY_ROW_INDEX,
    GROUPS_IGNORED,
    INDICES_WITHOUT_DATA,
    LAST_BATCH_FILLED,
    LAST_WINDOW_LOST,
    MEAN_OF_BATCH_MEANS,
    METRIC_FORGOTTEN,
    NEVER_SCORED_COUNTED,
    OFFSET_WRAPPED,
    ORDER_IN_FINGERPRINT,
    PADDING_SCORED,
    REBALANCED_BY_LABEL,
    ROWS_FOR_GROUPS,
    SHORT_WINDOW_WEIGHS_THE_SAME,
    SILENT_COMPARISON,
    START_TOKEN_HIDDEN,
    WINDOW_TARGETS_MISCOUNTED,
)


@commits(LAST_BATCH_FILLED)
class LastBatchFilled(NumpyReference):
    """The first documents come again until the last batch is full."""

    def batches(self, pieces: list[Piece], size: int) -> list[list[Piece]]:
        missing = -len(pieces) % size
        return super().batches(pieces + (pieces * size)[:missing], size)


@commits(MEAN_OF_BATCH_MEANS)
class MeanOfBatchMeans(NumpyReference):
    """Each batch weighs the same."""

    def mean_of_scores(self, scored: list[tuple[float, int]]) -> float:
        return float(np.mean([loss / count for loss, count in scored]))


@commits(NEVER_SCORED_COUNTED)
class NeverScoredCounted(NumpyReference):
    """The first token of each document is counted."""

    def tokens_of(self, real: Array, counted: Array) -> int:
        return int(real.sum())


@commits(PADDING_SCORED)
class PaddingScored(NumpyReference):
    """Padding is text."""

    def counted(self, real: Array, known: Array) -> Array:
        return super().counted(np.ones_like(real), known)


@commits(SHORT_WINDOW_WEIGHS_THE_SAME)
class ShortWindowWeighsTheSame(NumpyReference):
    """Each window weighs the same."""

    def batches(self, pieces: list[Piece], size: int) -> list[list[Piece]]:
        return super().batches(pieces, 1)

    def mean_of_scores(self, scored: list[tuple[float, int]]) -> float:
        return float(np.mean([loss / count for loss, count in scored]))


@commits(WINDOW_TARGETS_MISCOUNTED)
class WindowTargetsMiscounted(NumpyReference):
    """The first window of a document weighs as if its first token were scored."""

    def batches(self, pieces: list[Piece], size: int) -> list[list[Piece]]:
        return super().batches(pieces, 1)

    def weighed(self, loss: float, count: int, batch: list[Piece]) -> tuple[float, int]:
        weight = count + sum(piece.first for piece in batch)
        return loss / count * weight, weight


@commits(START_TOKEN_HIDDEN)
class StartTokenHidden(NumpyReference):
    """The token before a document is padding to the model."""

    start: int | None = None

    def begun(self, document: Array, start: int | None) -> Array:
        self.start = start
        return super().begun(document, start)

    def shown(self, tokens: Array) -> Array:
        hidden = (tokens == self.start) & (np.arange(tokens.shape[1]) == 0)
        return np.where(hidden, 0, tokens)


@commits(OFFSET_WRAPPED)
class OffsetWrapped(NumpyReference):
    """Offsets are 32 bits wide, and those past the middle come round from the beginning."""

    def offset(self, index: int, width: int) -> int:
        return index * width % 2**31


@commits(LAST_WINDOW_LOST)
class LastWindowLost(NumpyReference):
    """One window too few."""

    def windows_of(self, tokens: int, length: int) -> int:
        return max(0, tokens - length - 1)


@commits(CONTEXT_COUNTED)
class ContextCounted(NumpyReference):
    """The score begins one token early."""

    def continued(self, encode: Encode, context: str, continuation: str) -> tuple[list[int], int]:
        tokens, first = super().continued(encode, context, continuation)
        return tokens, max(1, first - 1)


@commits(CUT_AT_CONTEXT_LENGTH)
class CutAtContextLength(NumpyReference):
    """The text is encoded as one."""

    def continued(self, encode: Encode, context: str, continuation: str) -> tuple[list[int], int]:
        return list(encode(context + continuation)), len(encode(context))


# Groups.


@commits(GROUPS_IGNORED)
class GroupsIgnored(NumpyReference):
    """Every row is a group of its own."""

    def units(self, rows: Array, groups: Array | None, equality: str | None) -> Array:
        return np.arange(len(rows)) if groups is not None else super().units(rows, groups, equality)


@commits(GROUPED_BY_ROW_INDEX)
class GroupedByRowIndex(NumpyReference):
    """As many neighbouring rows as a group has on average are a group."""

    def units(self, rows: Array, groups: Array | None, equality: str | None) -> Array:
        if groups is None:
            return super().units(rows, groups, equality)
        return np.asarray(np.arange(len(rows)) * len(np.unique(groups)) // len(rows))


@commits(REBALANCED_BY_LABEL)
class RebalancedByLabel(NumpyReference):
    """One held-out row of the label that is held out too often trains."""

    def balanced(self, train: Array, held: Array, labels: Array | None) -> tuple[Array, Array]:
        if labels is None or len(held) < 2:
            return train, held
        often = max(set(labels[held].tolist()), key=labels[held].tolist().count)
        moved = held[labels[held] == often][:1]
        return np.union1d(train, moved), np.setdiff1d(held, moved)


@commits(ROWS_FOR_GROUPS)
class RowsForGroups(NumpyReference):
    """Every row is a sample of its own."""

    def split_difference(self, random: Array, grouped: Array, groups: Array) -> tuple[float, float]:
        return super().split_difference(random, grouped, np.arange(len(groups)))


@commits(DIFFERENCE_OF_GROUP_MEANS)
class DifferenceOfGroupMeans(NumpyReference):
    """Every group weighs the same."""

    def split_difference(self, random: Array, grouped: Array, groups: Array) -> tuple[float, float]:
        _, error = super().split_difference(random, grouped, groups)
        return float(np.mean([(grouped - random)[groups == g].mean() for g in np.unique(groups)])), error


# Scores that carry their split.


@commits(SILENT_COMPARISON)
class SilentComparison(NumpyReference):
    """The difference of two numbers."""

    def compare_scores(self, one: Score, other: Score) -> float:
        return one.value - other.value


@commits(METRIC_FORGOTTEN)
class MetricForgotten(NumpyReference):
    """Any two numbers of one split compare."""

    def score_record(self, value: float, *, metric: str, rows: Array, train: Array, held: Array) -> Score:
        return super().score_record(value, metric="", rows=rows, train=train, held=held)


@commits(FINGERPRINT_OF_SIZES)
class FingerprintOfSizes(NumpyReference):
    """The fingerprint is two numbers."""

    def fingerprint(self, rows: Array, train: Array, held: Array) -> str:
        return f"{len(train)}/{len(held)}"


@commits(INDICES_WITHOUT_DATA)
class IndicesWithoutData(NumpyReference):
    """The fingerprint is that of the indices."""

    def fingerprint(self, rows: Array, train: Array, held: Array) -> str:
        return super().fingerprint(np.zeros(len(rows)), train, held)


@commits(ORDER_IN_FINGERPRINT)
class OrderInFingerprint(NumpyReference):
    """The indices enter as they are listed."""

    def listed(self, indices: Array) -> Array:
        return np.asarray(indices)
