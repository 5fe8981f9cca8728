"""VIII.5: a number is worth what its split makes it worth."""

from collections.abc import Callable, Sequence

import numpy as np

from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.embedding import EMBEDDING
from gnomon.spec.evaluators import Evaluator, Floats, Quantity

Predict = Callable[[np.ndarray[tuple[int, ...], np.dtype[np.int64]]], Floats]


def mean_loss(
    E: Evaluator, predict: Predict, documents: Sequence[np.ndarray[tuple[int], np.dtype[np.int64]]]
) -> Quantity:
    """The negative log-probability of every token but a document's first, each document alone, over their number.

    predict: ids `[rows, time]` to log-probabilities `[rows, time, vocabulary]` of each next token.
    """
    losses = [-predict(d[None, :-1])[0, np.arange(len(d) - 1), d[1:]] for d in documents]
    every = np.concatenate(losses)
    return E.total(E.number(every)) / E.number(float(len(every)))


EVALUATION = Proposition(
    number="VIII.5",
    slug="evaluation",
    statement="A number is worth exactly what its split makes it worth.",
    formula=r"\hat R = \frac1n\sum_{i\in\text{held out}} \ell_i",
    source="Foundations, gathered: laboratory 6, the last proposition",
    rests_on=(EMBEDDING,),
)

LAST_BATCH_FILLED = Mistake(
    "last-batch-filled",
    "the last batch is filled up with the first items again, which are then scored twice",
    "the score depends on the batch size, a little",
)
MEAN_OF_BATCH_MEANS = Mistake(
    "mean-of-batch-means",
    "the means of the batches are averaged, whatever each counted",
    "short documents and small last batches weigh more",
)
NEVER_SCORED_COUNTED = Mistake(
    "never-scored-counted",
    "the sum is divided by all tokens, the first of each document included, which nothing predicts",
    "every loss is too small, most for short texts",
)
PADDING_SCORED = Mistake(
    "padding-scored",
    "predictions of padding are summed and counted",
    "the score depends on which documents share a batch",
)
EACH_ONCE = Clause(
    proposition=EVALUATION,
    number="VIII.5.4",
    slug="each-once",
    statement="Each held-out item counts once and a mean divides by what was scored, so that a score depends "
    "neither on the batch size nor on the order nor on padding.",
    formula=r"\hat R = \frac{\sum_d\sum_{t>1} -\log p(x_t\mid x_{<t})}{\sum_d (|d|-1)}",
    kind=Kind.BOUND,
    level=(Level.DATA, Level.MODEL),
    mistakes=(LAST_BATCH_FILLED, MEAN_OF_BATCH_MEANS, NEVER_SCORED_COUNTED, PADDING_SCORED),
)
