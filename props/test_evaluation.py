"""VIII.5 held to an implementation that scores: the same number for every batch size and order."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gnomon.props.cases import SEEDS, EvaluationCase
from gnomon.props.expected import expected
from gnomon.props.judge import Comparison, close
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import evaluation as spec
from gnomon.spec.bounds import Bounds
from gnomon.spec.evaluators import Floats
from gnomon.spec.precision import declared

Comparisons = Iterator[Comparison]
Ids = Any

CASES = st.builds(
    EvaluationCase, seed=SEEDS, batch=st.sampled_from((3, 2, 4, 1, 7)), time=st.sampled_from((5, 8, 3, 2))
)


def predictor(case: EvaluationCase) -> spec.Predict:
    """A model of its own kind: the next token's log-probabilities, by the last token and how many came before."""
    table = np.random.default_rng((case.seed, 17)).standard_normal((case.vocabulary, case.vocabulary))
    table = table - np.log(np.exp(table).sum(-1, keepdims=True))

    def predict(tokens: Ids) -> Floats:
        return np.asarray(table[(tokens + np.arange(tokens.shape[1])) % case.vocabulary])

    return predict


def documents(case: EvaluationCase) -> list[Ids]:
    """Documents of two tokens and more, all of other lengths where there is room."""
    rng = np.random.default_rng((case.seed, 18))
    return [rng.integers(0, case.vocabulary, 2 + i % case.time) for i in range(case.batch)]


@checks(spec.EACH_ONCE, CASES, needs=("evaluate",))
def each_once(subject: Subject, case: EvaluationCase) -> Comparisons:
    """The mean loss per scored token, whatever the batch size and the order."""
    predict, held_out = predictor(case), documents(case)
    due = expected(spec.mean_loss(Bounds(declared("float64")), predict, held_out))
    for size in (1, 2, 3, case.batch + 2):
        for order in (held_out, held_out[::-1]):
            got = _score(subject, predict, order, size)
            yield close(f"score in batches of {size}", got, *(float(a[0]) for a in due))


def _score(subject: Subject, predict: spec.Predict, held_out: Sequence[Ids], size: int) -> float:
    return subject.number("evaluate", predict, list(held_out), batch_size=size)
