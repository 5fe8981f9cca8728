"""VIII.3 held to what measures recall: models that look back so far, and one that copies."""

from collections.abc import Callable, Iterator

import numpy as np

from gnomon.props.cases import EXPERIMENTS, ExperimentCase
from gnomon.props.experiments import recalled
from gnomon.props.judge import Comparison, same
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import context as spec
from gnomon.spec.evaluators import Floats
from gnomon.spec.model import Tokens

Comparisons = Iterator[Comparison]

VOCABULARY, ASKED, LOOKS_BACK = 50, 20, (9, 33)


def looking_back(reach: int) -> Callable[[Tokens], Floats]:
    """A model that repeats what followed its last token before, not further back than so many tokens."""

    def model(tokens: Tokens) -> Floats:
        rows, time = tokens.shape
        seen = np.arange(time - 1) >= time - 1 - reach
        earlier = (tokens[:, :-1] == tokens[:, -1:]) & seen
        last = time - 2 - earlier[:, ::-1].argmax(-1)
        said = np.where(earlier.any(-1), tokens[np.arange(rows), last + 1], tokens[:, -1])
        return np.repeat((said[:, None] == np.arange(VOCABULARY)).astype(float)[:, None], time, axis=1)

    return model


@checks(spec.FAR_END, EXPERIMENTS, needs=("recall",), experiment=True)
def far_end(subject: Subject, case: ExperimentCase) -> Comparisons:
    """What looks back so far recalls to there and not a token further; what copies its last token recalls nothing."""
    for reach in LOOKS_BACK:
        for distance, due in ((5, ASKED), (reach, ASKED), (reach + 1, 0), (4 * reach, 0)):
            got = recalled(subject, looking_back(reach), VOCABULARY, distance, ASKED, case.seed)
            yield same(f"recalled {distance} tokens back by what looks back {reach} ", got, due)
    copied = recalled(subject, looking_back(0), VOCABULARY, 10, ASKED, case.seed)
    yield same("recalled by what copies its last token", copied, 0)
