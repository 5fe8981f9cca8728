"""Cases of losses: logits, targets of which some are ignored, and a temperature."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gnomon.props.cases import LENGTHS, REGIMES, SEEDS, Case, Ids, Strategy, filled
from gnomon.spec.evaluators import Floats, Mask
from gnomon.spec.precision import Format

VOCABULARIES = (2, 3, 5, 8, 17, 64)
TENTHS = (20, 5, 40, 7, 13, 80)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCase(Case):
    """Logits over a vocabulary at every position of a batch; ignored: which id does not count, 1 for −100, else two
    more than it; tenths of the temperature."""

    batch: int = 1
    time: int = 1
    vocabulary: int = 2
    ignored: int = 1
    tenths: int = 20

    def logits(self, form: Format) -> Floats:
        """`[batch, time, vocabulary]`."""
        return filled(self, self.rng, form, self.batch, self.time, self.vocabulary)

    @property
    def targets(self) -> Ids:
        """Ids `[batch, time]`, all of the vocabulary."""
        return np.random.default_rng((self.seed, 21)).integers(0, self.vocabulary, (self.batch, self.time))

    @property
    def ignore_index(self) -> int:
        """The id of a target that does not count: an ordinary word, or one that is no word."""
        return self.ignored - 2 if self.ignored > 1 else -100

    @property
    def counted(self) -> Mask:
        """Which targets count: at least one of all, and as a rule more in one row than in another."""
        rng = np.random.default_rng((self.seed, 22))
        share = rng.choice([0.2, 0.5, 0.9], (self.batch, 1))
        counted = rng.random((self.batch, self.time)) < share
        counted.flat[self.seed % counted.size] = True
        return counted

    @property
    def partly_ignored(self) -> Ids:
        """The targets with the ignored id where they do not count; those that count are of another id."""
        own = np.where(self.targets == self.ignore_index, (self.ignore_index + 1) % self.vocabulary, self.targets)
        return np.where(self.counted, own, self.ignore_index)

    @property
    def temperature(self) -> float:
        """The temperature."""
        return self.tenths / 10


def loss_cases(**given: Any) -> Strategy:
    """Loss cases; a keyword fixes a field, by a value or a strategy."""
    usual: dict[str, Strategy] = {
        "regime": st.sampled_from(tuple(REGIMES)),
        "seed": SEEDS,
        "batch": st.sampled_from((1, 2, 3)),
        "time": st.sampled_from(LENGTHS),
        "vocabulary": st.sampled_from(VOCABULARIES),
        "ignored": st.sampled_from((1, 2, 3)),
        "tenths": st.sampled_from(TENTHS),
    }
    drawn = usual | {n: v if isinstance(v, st.SearchStrategy) else st.just(v) for n, v in given.items()}
    return st.builds(LossCase, **drawn)
