"""Faults of I.1.6, I.2.5 and I.2.6: training steps that weigh, clip, keep or change what they should not."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference
from gnomon.impl.training import Gradients, targets
from gnomon.spec.configuration import Configuration
from gnomon.spec.descent import (
    CLIPPED_EACH_MICRO_BATCH,
    CLIPPED_TOO_EARLY,
    MEAN_OF_MEANS,
    NEVER_CLEARED,
    PER_SENTENCE,
    SUM_OF_MEANS,
)
from gnomon.spec.function import CALLER_UPDATED, FROZEN_MOVES, POSITIONS_TRAINED


@commits(MEAN_OF_MEANS)
class MeanOfMeans(NumpyReference):
    """Every micro-batch weighs the same."""

    def loss_divisor(self, tokens: Array, batches: Sequence[Array]) -> float:
        return float(targets(tokens) * len(batches))


@commits(SUM_OF_MEANS)
class SumOfMeans(NumpyReference):
    """Every micro-batch has a mean of its own."""

    def loss_divisor(self, tokens: Array, batches: Sequence[Array]) -> float:
        return float(targets(tokens))


@commits(PER_SENTENCE)
class PerSentence(NumpyReference):
    """Rows are counted."""

    def loss_divisor(self, tokens: Array, batches: Sequence[Array]) -> float:
        return float(sum(len(t) for t in batches))


@commits(CLIPPED_EACH_MICRO_BATCH)
class ClippedEachMicroBatch(NumpyReference):
    """What was gathered is clipped at every micro-batch."""

    def micro_batch_added(self, total: Gradients, own: Gradients, limit: float | None) -> Gradients:
        return super().micro_batch_added(total, self.limited(own, limit), limit)


@commits(CLIPPED_TOO_EARLY)
class ClippedTooEarly(NumpyReference):
    """Only what is there before the first micro-batch is clipped."""

    def limited(self, total: Gradients, limit: float | None) -> Gradients:
        return total


@commits(NEVER_CLEARED)
class NeverCleared(NumpyReference):
    """Gradients stay in their buffers."""

    def left_over(self, gradients: Gradients) -> Gradients:
        return gradients


@commits(FROZEN_MOVES)
class FrozenMoves(NumpyReference):
    """All are trained."""

    def moving(self, name: str, frozen: Collection[str]) -> bool:
        return True


@commits(POSITIONS_TRAINED)
class PositionsTrained(NumpyReference):
    """The base of rotary positions grows with the steps."""

    def trained_model(self, configuration: Configuration, held: Gradients, steps: int) -> Any:
        rotary = replace(configuration.rotary, base=configuration.rotary.base * 1.5**steps)
        return super().trained_model(replace(configuration, rotary=rotary), held, steps)


@commits(CALLER_UPDATED)
class CallerUpdated(NumpyReference):
    """The parameters are those of the caller."""

    def kept_parameters(self, parameters: Mapping[str, Array]) -> Gradients:
        return dict(parameters)
