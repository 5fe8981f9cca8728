"""Faults of I.4: losses of other probabilities, of other targets, or over another number of them."""

from typing import Any

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference
from gnomon.spec.loss import (
    CLIPPED_PROBABILITY,
    IGNORED_IN_THE_DENOMINATOR,
    IGNORED_IN_THE_SUM,
    INVERSE_TEMPERATURE,
    MEAN_OF_ROW_MEANS,
    NO_MAXIMUM,
    NORMALISER_IN_STORAGE,
    NOTHING_OVER_NOTHING,
    SHIFT_OF_TWO,
    SHIFT_OF_ZERO,
    SHIFT_OVER_ROWS,
    SOFTMAX_TWICE,
    TEMPERATURE_AFTER_SOFTMAX,
)


@commits(SOFTMAX_TWICE)
class SoftmaxTwice(NumpyReference):
    """What arrives is taken for logits after it was made probabilities."""

    def token_losses(self, logits: Array, targets: Array) -> Array:
        return super().token_losses(np.exp(self.log_probabilities(logits)), targets)


@commits(CLIPPED_PROBABILITY)
class ClippedProbability(NumpyReference):
    """No probability is smaller than a ten-millionth."""

    def token_losses(self, logits: Array, targets: Array) -> Array:
        least = logits.dtype.type(10) ** -7
        return np.asarray(-np.log(np.maximum(np.exp(-super().token_losses(logits, targets)), least)))


@commits(NO_MAXIMUM)
class NoMaximum(NumpyReference):
    """The exponentials are those of the logits as they are."""

    def log_probabilities(self, logits: Array) -> Array:
        return logits - self.log_total(logits)


@commits(NORMALISER_IN_STORAGE)
class NormaliserInStorage(NumpyReference):
    """The normaliser has the digits of the logits."""

    storage: np.dtype[Any] = np.dtype(np.float64)

    def cross_entropy(self, logits: Array, targets: Array, **options: Any) -> Array:
        self.storage = logits.dtype
        return super().cross_entropy(logits, targets, **options)

    def log_probabilities(self, logits: Array) -> Array:
        top = logits.max(-1, keepdims=True)
        return np.asarray(logits - (top + self.log_total(logits - top)).astype(self.storage).astype(logits.dtype))


@commits(IGNORED_IN_THE_DENOMINATOR)
class IgnoredInTheDenominator(NumpyReference):
    """The mean is over every target there is."""

    def denominator(self, scored: Array) -> int:
        return scored.size


@commits(IGNORED_IN_THE_SUM)
class IgnoredInTheSum(NumpyReference):
    """An ignored target is scored as if it were the first word."""

    def kept_losses(self, losses: Array, scored: Array) -> Array:
        return losses


@commits(MEAN_OF_ROW_MEANS)
class MeanOfRowMeans(NumpyReference):
    """Every row weighs the same."""

    def mean_loss(self, losses: Array, scored: Array) -> Any:
        means = [self.per_target(row.sum(), int(own.sum())) for row, own in zip(losses, scored, strict=True)]
        return np.mean(means, dtype=losses.dtype)


@commits(NOTHING_OVER_NOTHING)
class NothingOverNothing(NumpyReference):
    """Zero targets give zero over zero."""

    def per_target(self, total: Any, count: int) -> Any:
        return total / total.dtype.type(count)


@commits(SHIFT_OF_ZERO)
class ShiftOfZero(NumpyReference):
    """Each position is scored against its own token."""

    def next_tokens(self, logits: Array, tokens: Array) -> tuple[Array, Array]:
        return logits, tokens


@commits(SHIFT_OF_TWO)
class ShiftOfTwo(NumpyReference):
    """The targets are shifted twice; where that leaves none, once."""

    def next_tokens(self, logits: Array, tokens: Array) -> tuple[Array, Array]:
        return super().next_tokens(*super().next_tokens(logits, tokens)) if tokens.shape[1] > 2 else (logits, tokens)


@commits(SHIFT_OVER_ROWS)
class ShiftOverRows(NumpyReference):
    """The shift runs on from one row into the next."""

    def next_tokens(self, logits: Array, tokens: Array) -> tuple[Array, Array]:
        return logits.reshape(-1, logits.shape[-1])[:-1], tokens.reshape(-1)[1:]


@commits(INVERSE_TEMPERATURE)
class InverseTemperature(NumpyReference):
    """What should divide multiplies."""

    def at_temperature(self, logits: Array, temperature: Any) -> Array:
        return super().at_temperature(logits, 1 / temperature)


@commits(TEMPERATURE_AFTER_SOFTMAX)
class TemperatureAfterSoftmax(NumpyReference):
    """The temperature divides probabilities, and what normalises them again takes it back."""

    def at_temperature(self, logits: Array, temperature: Any) -> Array:
        divided = np.exp(self.log_probabilities(logits)) / temperature
        return np.asarray(divided / divided.sum(-1, keepdims=True))
