"""VIII.5: a number is worth what its split makes it worth."""

from collections.abc import Callable, Sequence

import numpy as np

from gnomon.spec.capacity import mean
from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.embedding import EMBEDDING
from gnomon.spec.evaluators import Evaluator, Floats, Quantity
from gnomon.spec.leakage import LEAKAGE

Ids = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
Predict = Callable[[Ids], Floats]
DATA = (Level.DATA,)


def mean_loss(
    E: Evaluator,
    predict: Predict,
    documents: Sequence[Ids],
    *,
    window: int = 0,
    stride: int = 0,
    start: int | None = None,
) -> Quantity:
    """The negative log-probability of every token but a document's first, each document alone, over their number.

    predict: ids `[rows, time]` to log-probabilities `[rows, time, vocabulary]` of each next token. window, stride: a
    longer document is seen in windows that begin `stride` tokens apart, fewer than `window`, and each token is scored
    in the first that reaches it. start: a token that stands before every document, which is read and not scored.
    """
    before = [] if start is None else [start]
    losses = []
    for document in (np.concatenate([np.array(before, np.int64), d]) for d in documents):
        for place in range(1, len(document)):
            seen = document[begin(place, window, stride) : place]
            losses.append(-predict(seen[None])[0, -1, document[place]])
    return mean(E, np.array(losses))


def begin(place: int, window: int, stride: int) -> int:
    """Where the first window that reaches a place begins: 0 where a document is seen whole."""
    return max(0, -(-(place - window + 1) // stride)) * stride if window else 0


def split_difference(E: Evaluator, random: Floats, grouped: Floats) -> Quantity:
    """The mean loss under the grouped split minus that under the random one, every row held out once in each."""
    return mean(E, grouped - random)


def squared_error(E: Evaluator, random: Floats, grouped: Floats, groups: Ids) -> Quantity:
    """The square of its standard error, with groups for units: G/(G − 1)·Σ_g (Σ_{i∈g}(d_i − D))²/n²."""
    apart = E.number(grouped - random)
    departures = apart - split_difference(E, random, grouped)
    totals = [E.total(departures[groups == g]) for g in np.unique(groups)]
    n, number = float(len(groups)), float(len(totals))
    summed = totals[0] * totals[0]
    for total in totals[1:]:
        summed = summed + total * total
    return summed * E.number(number / (number - 1)) / E.number(n * n)


EVALUATION = Proposition(
    number="VIII.5",
    slug="evaluation",
    statement="A number is worth exactly what its split makes it worth.",
    formula=r"\hat R = \frac1n\sum_{i\in\text{held out}} \ell_i",
    source="Foundations, gathered: laboratory 6, the last proposition",
    rests_on=(EMBEDDING, LEAKAGE),
)

GROUPS_IGNORED = Mistake(
    "groups-ignored",
    "rows are split at random, whatever group they belong to",
    "a patient, a site or an author stands on both sides; the held-out score may pass the training score",
    seen=("a small public project (2025)",),
    bugs=("B227",),
)
GROUPED_BY_ROW_INDEX = Mistake(
    "grouped-by-row-index",
    "blocks of neighbouring rows are held out as if they were the groups",
    "right for a table that is sorted by group",
)
REBALANCED_BY_LABEL = Mistake(
    "rebalanced-by-label",
    "after the groups are dealt, single rows move to the other side until the labels are balanced",
    "a few groups are torn apart, the more the rarer the label",
    needs=("split_rows.labels",),
)
GROUPS_WHOLE = Clause(
    proposition=EVALUATION,
    number="VIII.5.1",
    slug="groups-whole",
    statement="A grouped split puts no group on two sides.",
    formula=r"g(D_{\mathrm{train}})\cap g(D_{\mathrm{held\ out}}) = \varnothing",
    kind=Kind.EXACT,
    level=DATA,
    mistakes=(GROUPS_IGNORED, GROUPED_BY_ROW_INDEX, REBALANCED_BY_LABEL),
)

ROWS_FOR_GROUPS = Mistake(
    "rows-for-groups",
    "the standard error counts rows as if each were a sample of its own",
    "an interval too narrow by the root of the rows a group, and a difference that the next groups do not show",
)
DIFFERENCE_OF_GROUP_MEANS = Mistake(
    "difference-of-group-means",
    "the difference is the mean of the groups' means, beside scores that are means over rows",
    "the two scores and their difference do not agree where groups differ in size",
)
SPLIT_DIFFERENCE = Clause(
    proposition=EVALUATION,
    number="VIII.5.2",
    slug="split-difference",
    statement="The same model under a random and a grouped split gives two scores, and their difference has an "
    "interval that counts groups and not rows.",
    formula=r"D = \frac1n\sum_i d_i,\qquad "
    r"\mathrm{se}^2 = \frac{G}{G-1}\,\frac1{n^2}\sum_g\Big(\sum_{i\in g}(d_i-D)\Big)^2",
    kind=Kind.TOOL,
    level=DATA,
    rests_on=(GROUPS_WHOLE,),
    mistakes=(ROWS_FOR_GROUPS, DIFFERENCE_OF_GROUP_MEANS),
)

SILENT_COMPARISON = Mistake(
    "silent-comparison",
    "two scores are subtracted whatever they were measured on",
    "a model seems better that was scored on easier rows",
)
FINGERPRINT_OF_SIZES = Mistake(
    "fingerprint-of-sizes",
    "a split is known by how many rows its parts have",
    "two folds of the same size count as one split",
)
INDICES_WITHOUT_DATA = Mistake(
    "indices-without-data",
    "a split is known by its indices alone, whatever table they point into",
    "a score on last year's table is compared with one on this year's",
)
METRIC_FORGOTTEN = Mistake(
    "metric-forgotten",
    "scores of different metrics on one split are subtracted",
    "an accuracy less a loss",
)
ORDER_IN_FINGERPRINT = Mistake(
    "order-in-fingerprint",
    "the fingerprint depends on the order in which held-out rows are listed",
    "the same split is refused after a shuffle, until nobody heeds the refusal",
)
SCORE_CARRIES_SPLIT = Clause(
    proposition=EVALUATION,
    number="VIII.5.3",
    slug="score-carries-split",
    statement="A score carries its metric and its split; scores of one split compare, and a comparison of scores of "
    "different splits, tables or metrics is refused.",
    formula=r"a - b\ \text{is defined} \iff \mathrm{split}(a)=\mathrm{split}(b)",
    kind=Kind.EXACT,
    level=DATA,
    mistakes=(
        SILENT_COMPARISON,
        FINGERPRINT_OF_SIZES,
        INDICES_WITHOUT_DATA,
        METRIC_FORGOTTEN,
        ORDER_IN_FINGERPRINT,
    ),
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
    seen=("keras-team/keras-hub#2958 (2026)",),
    bugs=("B229",),
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
SHORT_WINDOW_WEIGHS_THE_SAME = Mistake(
    "short-window-weighs-the-same",
    "the means of overlapping windows are averaged, the short last one like the others",
    "a perplexity that is off in the second digit, more for short texts",
    seen=("huggingface/transformers#34138 (2024)",),
    bugs=("B230",),
    needs=("evaluate.window",),
)
WINDOW_TARGETS_MISCOUNTED = Mistake(
    "window-targets-miscounted",
    "each window's mean is weighed by its new tokens, of which the first window scores one less",
    "the first window of every text weighs too much",
    seen=("huggingface/transformers#22411 (2023)",),
    bugs=("B231",),
    needs=("evaluate.window",),
)
START_TOKEN_HIDDEN = Mistake(
    "start-token-hidden",
    "the token before each document is padding to the model, while its predictions are scored",
    "first tokens are predicted from nothing; perplexity is far too high on short texts",
    seen=("huggingface/datasets#4258 (2022)",),
    bugs=("B233",),
    needs=("evaluate.start",),
)
EACH_ONCE = Clause(
    proposition=EVALUATION,
    number="VIII.5.4",
    slug="each-once",
    statement="Each held-out item counts once and a mean divides by what was scored, so that a score depends "
    "neither on the batch size nor on the order nor on padding; a text longer than the window is scored in the "
    "declared windows, each token in one.",
    formula=r"\hat R = \frac{\sum_d\sum_{t>1} -\log p(x_t\mid x_{<t})}{\sum_d (|d|-1)}",
    kind=Kind.BOUND,
    level=(Level.DATA, Level.MODEL),
    mistakes=(
        LAST_BATCH_FILLED,
        MEAN_OF_BATCH_MEANS,
        NEVER_SCORED_COUNTED,
        PADDING_SCORED,
        SHORT_WINDOW_WEIGHS_THE_SAME,
        WINDOW_TARGETS_MISCOUNTED,
        START_TOKEN_HIDDEN,
    ),
)

OFFSET_WRAPPED = Mistake(
    "offset-wrapped",
    "the offset into the file is kept in 32 signed bits",
    "windows beyond two gigabytes come from somewhere else, or not at all",
    seen=("karpathy/llm.c#828 (2025)",),
    bugs=("B224",),
)
LAST_WINDOW_LOST = Mistake(
    "last-window-lost",
    "the number of windows is one too small",
    "the last window is never used; a text of one window has none",
    seen=("karpathy/minGPT#31 (2020)",),
    bugs=("B225",),
)
EVERY_WINDOW = Clause(
    proposition=EVALUATION,
    number="VIII.5.5",
    slug="every-window",
    statement="A data set of token windows has every window of the file once, and hands out at each index what lies "
    "there, beyond two gigabytes too.",
    formula=r"|W| = n - \ell,\qquad W_i = (x_i,\ldots,x_{i+\ell})",
    kind=Kind.EXACT,
    level=DATA,
    mistakes=(OFFSET_WRAPPED, LAST_WINDOW_LOST),
)

CONTEXT_COUNTED = Mistake(
    "context-counted",
    "the last token of the context is scored with the continuation",
    "the choice between continuations of one length goes to another",
    seen=("a small public project (2026)",),
    bugs=("B235",),
)
CUT_AT_CONTEXT_LENGTH = Mistake(
    "cut-at-context-length",
    "context and continuation are encoded together and cut where the context's own tokens end",
    "a token that spans the join is lost to the score, at times the whole continuation",
    seen=("EleutherAI/lm-evaluation-harness#4055 (2026)",),
    bugs=("B236",),
)
CONTINUATION = Clause(
    proposition=EVALUATION,
    number="VIII.5.6",
    slug="continuation",
    statement="The score of a continuation is the log-probability of its own tokens after those of the context, all of "
    "them and no other.",
    formula=r"s(c\mid x) = \sum_{t=1}^{|e(c)|}\log p\big(e(c)_t \mid e(x), e(c)_{<t}\big)",
    kind=Kind.BOUND,
    level=DATA,
    mistakes=(CONTEXT_COUNTED, CUT_AT_CONTEXT_LENGTH),
)
