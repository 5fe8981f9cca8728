"""Faults of VIII.5: scores that count items twice, or what was never scored."""

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference
from gnomon.spec.evaluation import LAST_BATCH_FILLED, MEAN_OF_BATCH_MEANS, NEVER_SCORED_COUNTED, PADDING_SCORED


@commits(LAST_BATCH_FILLED)
class LastBatchFilled(NumpyReference):
    """The first documents come again until the last batch is full."""

    def batches(self, documents: list[Array], size: int) -> list[list[Array]]:
        missing = -len(documents) % size
        return super().batches(documents + (documents * size)[:missing], size)


@commits(MEAN_OF_BATCH_MEANS)
class MeanOfBatchMeans(NumpyReference):
    """Each batch weighs the same."""

    def mean_of_scores(self, scored: list[tuple[float, int]]) -> float:
        return float(np.mean([loss / count for loss, count in scored]))


@commits(NEVER_SCORED_COUNTED)
class NeverScoredCounted(NumpyReference):
    """The first token of each document is counted."""

    def tokens_of(self, real: Array) -> int:
        return int(real.sum())


@commits(PADDING_SCORED)
class PaddingScored(NumpyReference):
    """Padding is text."""

    def counted(self, real: Array) -> Array:
        return np.ones_like(real[:, 1:])
