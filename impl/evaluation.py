"""Scores of held-out text in NumPy, in small steps that a fault can replace."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gnomon.impl.numpy_operations import Array

Predict = Callable[[Array], Array]
Encode = Callable[[str], list[int]]


@dataclass(frozen=True, eq=False)
class Piece:
    """Tokens that are seen together, of which the first `known` are not scored; `first` of its document or not."""

    tokens: Array
    known: int
    first: bool


class NumpyEvaluation:
    """The mean negative log-probability of every token but the first, batch by batch."""

    def evaluate(
        self,
        predict: Predict,
        documents: Sequence[Array],
        *,
        batch_size: int,
        window: int | None = None,
        stride: int | None = None,
        start: int | None = None,
    ) -> float:
        """The score of the documents under log-probabilities `[rows, time, vocabulary]` of each next token."""
        begun = [self.begun(document, start) for document in documents]
        pieces = [piece for d in begun for piece in self.pieces(d, window or len(d), stride or 1)]
        scored = [self.score(predict, batch) for batch in self.batches(pieces, batch_size)]
        return self.mean_of_scores(scored)

    def begun(self, document: Array, start: int | None) -> Array:
        """The document, after the token that stands before it."""
        return document if start is None else np.concatenate([[start], document])

    def pieces(self, document: Array, window: int, stride: int) -> list[Piece]:
        """The windows of a document, each of which scores what those before it did not."""
        found, reached = list[Piece](), 1
        for begin in range(0, len(document), stride):
            end = min(begin + window, len(document))
            found.append(Piece(document[begin:end], reached - begin, begin == 0))
            reached = end
            if end == len(document):
                break
        return found

    def batches(self, pieces: list[Piece], size: int) -> list[list[Piece]]:
        """So many pieces at a time, fewer at the end."""
        return [pieces[start : start + size] for start in range(0, len(pieces), size)]

    def score(self, predict: Predict, batch: list[Piece]) -> tuple[float, int]:
        """The summed loss of a padded batch, and of how many tokens."""
        tokens, real = self.filled_up([piece.tokens for piece in batch])
        log_probabilities = predict(self.shown(tokens[:, :-1]))
        losses = -np.take_along_axis(log_probabilities, tokens[:, 1:, None], axis=-1)[..., 0]
        counted = self.counted(real, np.array([piece.known for piece in batch]))
        return self.weighed(float(losses[counted].sum()), self.tokens_of(real, counted), batch)

    def shown(self, tokens: Array) -> Array:
        """What the model sees of the tokens."""
        return tokens

    def weighed(self, loss: float, count: int, batch: list[Piece]) -> tuple[float, int]:
        """The loss of a batch with its weight."""
        return loss, count

    def filled_up(self, rows: list[Array]) -> tuple[Array, Array]:
        """The rows filled up with token 0 to the longest, and where they are real."""
        time = max(len(row) for row in rows)
        padded = [np.pad(row, (0, time - len(row))) for row in rows]
        return np.stack(padded), np.stack([np.arange(time) < len(row) for row in rows])

    def counted(self, real: Array, known: Array) -> Array:
        """Which predictions are scored."""
        return np.asarray(real[:, 1:] & (np.arange(1, real.shape[1]) >= known[:, None]))

    def tokens_of(self, real: Array, counted: Array) -> int:
        """How many tokens the sum is of."""
        return int(counted.sum())

    def mean_of_scores(self, scored: list[tuple[float, int]]) -> float:
        """The loss per scored token."""
        return sum(loss for loss, _ in scored) / sum(count for _, count in scored)

    # A continuation.

    def continuation_score(self, predict: Predict, encode: Encode, context: str, continuation: str) -> float:
        """The log-probability of the continuation's tokens after those of the context."""
        tokens, first = self.continued(encode, context, continuation)
        log_probabilities = predict(np.array(tokens[:-1], np.int64)[None])[0]
        return float(sum(log_probabilities[place - 1, tokens[place]] for place in range(first, len(tokens))))

    def continued(self, encode: Encode, context: str, continuation: str) -> tuple[list[int], int]:
        """All tokens, and the place of the first that is scored."""
        before = list(encode(context))
        return before + list(encode(continuation)), len(before)

    # Windows of a file.

    def token_windows(self, read: Callable[[int, int], bytes], size: int, *, length: int, width: int) -> "Windows":
        """The windows of `length` tokens and the next one, in a file of `size` bytes, `width` of them a token."""
        return Windows(self, read, size, length, width)

    def windows_of(self, tokens: int, length: int) -> int:
        """How many windows that many tokens have."""
        return max(0, tokens - length)

    def offset(self, index: int, width: int) -> int:
        """Where the token of that index lies in the file."""
        return index * width


@dataclass(eq=False)
class Windows:
    """A sequence of windows that is read from a file as it is asked for."""

    operations: NumpyEvaluation
    read: Callable[[int, int], bytes]
    size: int
    length: int
    width: int

    def __len__(self) -> int:
        """The number of windows."""
        return self.operations.windows_of(self.size // self.width, self.length)

    def __getitem__(self, index: int) -> Array:
        """The window that begins at the token of that index."""
        raw = self.read(self.operations.offset(index, self.width), (self.length + 1) * self.width)
        return np.frombuffer(raw, f"<u{self.width}").astype(np.int64)
