"""Recall against distance in NumPy: a few tokens and what followed them, far back, and the same few tokens again."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Rng = np.random.Generator
Logits = Callable[[Array], Array]  # ids [batch, time] to [batch, time, vocabulary]

CUE = 4  # tokens of the question
NEAREST = CUE + 1  # the answer stands directly before the question
_TOKENS = 8192  # in one call


class NumpyRecall:
    """Random tokens of which the answer occurs once, after the cue that is repeated at the end."""

    def recall(self, model: Logits, *, vocabulary: int, distance: int, asked: int, seed: int) -> int:
        """How many answers are the model's first choice, so many tokens after they stood there."""
        rng, right = np.random.default_rng((seed, distance)), 0
        rows = max(1, _TOKENS // (distance + CUE))
        for start in range(0, asked, rows):
            drawn = [self.question(rng, vocabulary, distance) for _ in range(min(rows, asked - start))]
            tokens, answers = (np.array(a) for a in zip(*drawn, strict=True))
            right += int((model(tokens)[:, -1, :vocabulary].argmax(-1) == answers).sum())
        return right

    def question(self, rng: Rng, vocabulary: int, distance: int) -> tuple[list[int], int]:
        """Tokens that end in the cue, and the answer that followed it `distance` tokens before the end."""
        own = rng.choice(vocabulary, NEAREST, replace=False)
        filler = rng.integers(0, vocabulary - NEAREST, distance - NEAREST)
        for token in np.sort(own):
            filler += filler >= token  # neither cue nor answer
        return self.laid_out(list(own[:CUE]), int(own[CUE]), list(filler)), int(own[CUE])

    def laid_out(self, cue: Sequence[int], answer: int, filler: Sequence[int]) -> list[int]:
        """Cue, answer and filler, and the cue again."""
        return [*cue, answer, *filler, *cue]
