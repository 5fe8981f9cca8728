"""The score of held-out documents in NumPy, in small steps that a fault can replace."""

from collections.abc import Callable, Sequence

import numpy as np

from gnomon.impl.numpy_operations import Array

Predict = Callable[[Array], Array]


class NumpyEvaluation:
    """The mean negative log-probability of every token but the first, batch by batch."""

    def evaluate(self, predict: Predict, documents: Sequence[Array], *, batch_size: int) -> float:
        """The score of the documents under log-probabilities `[rows, time, vocabulary]` of each next token."""
        scored = [self.score(predict, batch) for batch in self.batches(list(documents), batch_size)]
        return self.mean_of_scores(scored)

    def batches(self, documents: list[Array], size: int) -> list[list[Array]]:
        """So many documents at a time, fewer at the end."""
        return [documents[start : start + size] for start in range(0, len(documents), size)]

    def score(self, predict: Predict, batch: list[Array]) -> tuple[float, int]:
        """The summed loss of a padded batch, and of how many tokens."""
        tokens, real = self.filled_up(batch)
        log_probabilities = predict(tokens[:, :-1])
        losses = -np.take_along_axis(log_probabilities, tokens[:, 1:, None], axis=-1)[..., 0]
        counted = self.counted(real)
        return float(losses[counted].sum()), self.tokens_of(real)

    def filled_up(self, batch: list[Array]) -> tuple[Array, Array]:
        """The rows filled up with token 0 to the longest, and where they are real."""
        time = max(len(document) for document in batch)
        rows = [np.pad(document, (0, time - len(document))) for document in batch]
        return np.stack(rows), np.stack([np.arange(time) < len(document) for document in batch])

    def counted(self, real: Array) -> Array:
        """Which predictions are scored."""
        return np.asarray(real[:, 1:])

    def tokens_of(self, real: Array) -> int:
        """How many tokens the sum is of."""
        return int(self.counted(real).sum())

    def mean_of_scores(self, scored: list[tuple[float, int]]) -> float:
        """The loss per scored token."""
        return sum(loss for loss, _ in scored) / sum(count for _, count in scored)
