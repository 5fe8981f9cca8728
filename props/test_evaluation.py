"""VIII.5 held to splits and scores: groups whole, scores with their split, every item once."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gnomon.props.cases import SEEDS, EvaluationCase, Strategy
from gnomon.props.expected import expected
from gnomon.props.judge import Comparison, close, same
from gnomon.props.leakage_cases import SCORES, ScoreCase, SplitCase, asked, split_cases, split_of
from gnomon.props.outcome import ImplementationFailed
from gnomon.props.property import checks
from gnomon.props.subject import Subject, guarded
from gnomon.props.test_capacity import number, pair_of_numbers, refused, root
from gnomon.spec import evaluation as spec
from gnomon.spec.bounds import Bounds
from gnomon.spec.evaluators import Floats
from gnomon.spec.leakage import shared
from gnomon.spec.precision import declared

Comparisons = Iterator[Comparison]
Ids = Any

CASES = st.builds(
    EvaluationCase, seed=SEEDS, batch=st.sampled_from((3, 2, 4, 1, 7)), time=st.sampled_from((5, 8, 3, 2))
)
UNWINDOWED = (spec.LAST_BATCH_FILLED, spec.MEAN_OF_BATCH_MEANS, spec.NEVER_SCORED_COUNTED, spec.PADDING_SCORED)


# Groups.


@checks(
    spec.GROUPS_WHOLE, split_cases(balanced=False), needs=("split_rows",),
    mistakes=(spec.GROUPS_IGNORED, spec.GROUPED_BY_ROW_INDEX),
)  # fmt: skip
def groups_whole(subject: Subject, case: SplitCase) -> Comparisons:
    """No group stands on both sides."""
    groups, labels = case.group, case.labels if case.balanced else None
    pairs = split_of(subject, case, groups=groups, labels=labels)
    for place, (train, held) in enumerate(pairs):
        yield same(f"groups on both sides of split {place}", shared(groups[train].tolist(), groups[held].tolist()), 0)


@checks(spec.GROUPS_WHOLE, split_cases(balanced=True), needs=("split_rows",), mistakes=(spec.REBALANCED_BY_LABEL,))
def groups_whole_with_labels(subject: Subject, case: SplitCase) -> Comparisons:
    """The same where labels are given too, so that the parts can be alike in them."""
    yield from groups_whole.check(subject, case)


@checks(spec.SPLIT_DIFFERENCE, SCORES, needs=("split_difference",))
def split_difference(subject: Subject, case: ScoreCase) -> Comparisons:
    """The difference of two scores, and its standard error by groups."""
    random, grouped = case.rows.T
    got, error = pair_of_numbers(asked(subject, "split_difference", random, grouped, case.group), "split_difference")
    E = Bounds(declared("float64"))
    yield close("difference", got, *number(expected(spec.split_difference(E, random, grouped))))
    squared = number(expected(spec.squared_error(E, random, grouped, case.group)))
    yield root("standard error of the difference", error, *squared)


# Scores that carry their split.


@checks(spec.SCORE_CARRIES_SPLIT, SCORES, needs=("score_record", "compare_scores"))
def score_carries_split(subject: Subject, case: ScoreCase) -> Comparisons:
    """Scores of one split compare, whatever the order of its rows; of another split, table or metric they do not."""
    rows, (train, held) = case.rows, case.parts

    def score(value: float, metric: str = "accuracy", **other: Any) -> Any:
        told = {"rows": rows, "train": train, "held": held, **other}
        return asked(subject, "score_record", value, metric=metric, **told)

    one = score(0.75)
    same_split = score(0.5, train=train[::-1].copy(), held=np.sort(held))
    yield same("refusal of one split in another order", refused(subject, "compare_scores", one, same_split), False)
    yield same("difference on one split", _difference(subject, one, same_split), 0.25)
    exchanged = np.append(train[1:], held[0]), np.append(held[1:], train[0])
    others = {
        "another split of the same sizes": score(0.5, train=exchanged[0], held=exchanged[1]),
        "a smaller held-out part": score(0.5, held=held[1:]),
        "another table": score(0.5, rows=rows + 1),
        "another metric": score(0.5, metric="loss"),
    }
    for what, other in others.items():
        yield same(f"refusal of {what}", refused(subject, "compare_scores", one, other), True)


def _difference(subject: Subject, one: Any, other: Any) -> float:
    found = asked(subject, "compare_scores", one, other)
    try:
        return float(found)
    except (TypeError, ValueError) as error:
        raise ImplementationFailed(f"compare_scores returned {found!r} where a number is due") from error


# Every item once.


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


@checks(spec.EACH_ONCE, CASES, needs=("evaluate",), mistakes=UNWINDOWED)
def each_once(subject: Subject, case: EvaluationCase) -> Comparisons:
    """The mean loss per scored token, whatever the batch size and the order."""
    yield from _scores(subject, case)


@checks(
    spec.EACH_ONCE, CASES, needs=("evaluate",), share=0.4,
    mistakes=(spec.SHORT_WINDOW_WEIGHS_THE_SAME, spec.WINDOW_TARGETS_MISCOUNTED),
)  # fmt: skip
def each_once_in_windows(subject: Subject, case: EvaluationCase) -> Comparisons:
    """The same for documents longer than the window, which is moved on by each stride below its length."""
    for window, stride in ((3, 1), (3, 2), (2, 1), (4, 3)):
        yield from _scores(subject, case, window=window, stride=stride)


@checks(spec.EACH_ONCE, CASES, needs=("evaluate",), mistakes=(spec.START_TOKEN_HIDDEN,), share=0.4)
def each_once_after_a_start(subject: Subject, case: EvaluationCase) -> Comparisons:
    """The same with a token before every document, which is read and not scored."""
    yield from _scores(subject, case, start=1 + case.seed % (case.vocabulary - 1))


def _scores(subject: Subject, case: EvaluationCase, **options: int) -> Comparisons:
    predict, held_out = predictor(case), documents(case)
    due = number(expected(spec.mean_loss(Bounds(declared("float64")), predict, held_out, **options)))
    told = "".join(f", {name} {value}" for name, value in options.items())
    for size in (1, 2, 3, case.batch + 2):
        for order in (held_out, held_out[::-1]):
            got = _score(subject, predict, order, size, options)
            yield close(f"score in batches of {size}{told}", got, *due)


def _score(
    subject: Subject, predict: spec.Predict, held_out: Sequence[Ids], size: int, options: dict[str, int]
) -> float:
    return subject.number("evaluate", predict, list(held_out), batch_size=size, **options)


# Windows of a file.


@checks(spec.EVERY_WINDOW, CASES, needs=("token_windows",))
def every_window(subject: Subject, case: EvaluationCase) -> Comparisons:
    """As many windows as there are, the first, the last and one of each size of offset what lies there."""
    length, width = case.time, 2
    for tokens in (length + 1, length + case.batch, 2**31 + 7 + case.batch, length):
        found = asked(subject, "token_windows", _file, tokens * width + case.seed % width, length=length, width=width)
        yield same(f"windows of {length} and the next in {tokens} tokens", _length(found), tokens - length)
        last = tokens - length - 1
        for index in {0, last, *(2**k for k in (29, 30, 31) if 2**k <= last)} if last >= 0 else ():
            got = guarded("the window", found.__getitem__, [index], {})
            yield same(f"window {index} of {tokens} tokens", *_of_one_shape(got, _tokens(index, length + 1)))


def _length(found: Any) -> int:
    return int(guarded("len of the windows", len, [found], {}))


def _of_one_shape(got: Any, due: Ids) -> tuple[Ids, Ids]:
    window = np.asarray(got)
    if window.shape != due.shape or window.dtype.kind not in "iu":
        raise ImplementationFailed(
            f"a window of token_windows is {window.shape} of {window.dtype} where {due.shape} integers are due"
        )
    return window, due


def _tokens(first: int, count: int) -> Ids:
    """The tokens of a file that is not there: each follows from its place."""
    places = np.arange(first, first + count, dtype=np.uint64)
    return np.asarray((places * np.uint64(2654435761) >> np.uint64(33)).astype("<u2"))


def _file(offset: int, size: int) -> bytes:
    """So many bytes of it from an offset on; none before its beginning."""
    if offset < 0 or size < 0:
        raise ValueError(f"no bytes lie at {offset}")
    first = offset // 2
    raw: bytes = _tokens(first, size // 2 + 2).tobytes()
    return raw[offset - 2 * first : offset - 2 * first + size]


# Continuations.

PIECES = ("abc", "ab", "bc", "ca", "a", "b", "c")


def encode(text: str) -> list[int]:
    """The longest piece at every place, so that a piece may span what was joined."""
    found, place = [], 0
    while place < len(text):
        piece = next(p for p in PIECES if text.startswith(p, place))
        found.append(PIECES.index(piece))
        place += len(piece)
    return found


@checks(spec.CONTINUATION, lambda _: continuations(), needs=("continuation_score",))
def continuation(subject: Subject, case: EvaluationCase) -> Comparisons:
    """The log-probability of the continuation's own tokens, all of them."""
    predict = predictor(case)
    context, after = text_of(case, 0, case.batch), text_of(case, 1, case.time)
    tokens, before = encode(context) + encode(after), len(encode(context))
    E = Bounds(declared("float64"))
    scored = [predict(np.array(tokens[:place])[None])[0, -1, tokens[place]] for place in range(before, len(tokens))]
    got = subject.number("continuation_score", predict, encode, context, after)
    yield close(f"score of {after!r} after {context!r}", got, *number(expected(E.total(E.number(np.array(scored))))))


def continuations() -> Strategy:
    """Texts of some letters before and after, over as many tokens as there are pieces."""
    lengths = st.integers(1, 6)
    return st.builds(EvaluationCase, seed=SEEDS, batch=lengths, time=lengths, vocabulary=st.just(len(PIECES)))


def text_of(case: EvaluationCase, which: int, length: int) -> str:
    """Letters that the case makes."""
    return "".join(np.random.default_rng((case.seed, 40 + which)).choice(list("abc"), length))
