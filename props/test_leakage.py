"""VIII.4 held to splits, pipelines and protocols: nothing shared, nothing moved, chance on noise, the future last."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from gnomon.props.cases import EXPERIMENTS, ExperimentCase
from gnomon.props.judge import Comparison, between, same
from gnomon.props.leakage_cases import (
    Array,
    PipelineCase,
    SplitCase,
    asked,
    copied_cases,
    pipelines,
    split_cases,
    split_of,
)
from gnomon.props.outcome import ImplementationFailed
from gnomon.props.property import checks
from gnomon.props.subject import Subject, guarded
from gnomon.spec import leakage as spec

Comparisons = Iterator[Comparison]

NOISES, NOISE_ROWS, NOISE_FEATURES = 40, 60, 400


@checks(spec.NOTHING_SHARED, split_cases(), needs=("split_rows",), mistakes=(spec.PARTS_OVERLAP,))
def sides_apart(subject: Subject, case: SplitCase) -> Comparisons:
    """No row stands on both sides of a split."""
    for number, (train, held) in enumerate(split_of(subject, case)):
        yield same(f"rows on both sides of split {number}", spec.shared(train.tolist(), held.tolist()), 0)


@checks(
    spec.NOTHING_SHARED, copied_cases(), needs=("split_rows",), mistakes=(spec.COPIES_ACROSS, spec.EXACT_COPIES_ONLY)
)
def copies_apart(subject: Subject, case: SplitCase) -> Comparisons:
    """No row has a copy on the other side, under the declared equality."""
    keys = spec.keys(case.copied, case.equality)
    pairs = split_of(subject, case, case.copied, equality=case.equality)
    for number, (train, held) in enumerate(pairs):
        found = spec.shared((keys[i] for i in train), (keys[i] for i in held))
        yield same(f"rows with a copy on the other side of split {number}", found, 0)


@checks(spec.NOTHING_SHARED, split_cases(count=40), needs=("split_rows",), mistakes=(spec.WINDOWS_OVERLAP,))
def windows_apart(subject: Subject, case: SplitCase) -> Comparisons:
    """Windows of a series, one for each row, share no value across a split."""
    pairs = split_of(subject, case, window=case.window)
    for number, (train, held) in enumerate(pairs):
        nearest = np.abs(train[:, None] - held[None]).min()
        yield between(
            f"steps from a training window to a held-out one in split {number}", nearest, case.window, np.inf, 0
        )


# Pipelines.


def unmoved(subject: Subject, case: PipelineCase) -> Comparisons:
    """What was fitted is the same for other held-out rows, other held-out labels, and after an earlier fit."""
    train = case.train
    due = _fitted(subject, case, [(case.rows(), case.labels(), train)])
    for change in (1, 2):
        moved = _fitted(subject, case, [(case.rows(change), case.labels(change), train)])
        yield from states_alike(f"after other held-out rows ({change})", moved, due)
    turned = _fitted(subject, case, [(case.rows(), case.labels(1), train)])
    yield from states_alike("after other held-out labels", turned, due)
    again = _fitted(subject, case, [(case.rows(), case.labels(), _enough(case)), (case.rows(), case.labels(), train)])
    yield from states_alike("after an earlier fit on other rows", again, due)


@checks(
    spec.NOTHING_MOVES, pipelines("scale"), needs=("pipeline",),
    mistakes=(spec.SCALED_ON_EVERYTHING, spec.CARRIED_OVER),
)  # fmt: skip
def scale_unmoved(subject: Subject, case: PipelineCase) -> Comparisons:
    """A scale does not move with held-out rows, nor with an earlier fit."""
    yield from unmoved(subject, case)


@checks(
    spec.NOTHING_MOVES, pipelines("impute"), needs=("pipeline",), mistakes=(spec.IMPUTED_FROM_EVERYTHING,)
)  # fmt: skip
def imputation_unmoved(subject: Subject, case: PipelineCase) -> Comparisons:
    """Nor does what missing values are filled with."""
    yield from unmoved(subject, case)


@checks(spec.NOTHING_MOVES, pipelines("select"), needs=("pipeline",), mistakes=(spec.SELECTED_ON_EVERYTHING,))
def selection_unmoved(subject: Subject, case: PipelineCase) -> Comparisons:
    """Nor do the features that are chosen."""
    yield from unmoved(subject, case)


@checks(spec.NOTHING_MOVES, pipelines("encode"), needs=("pipeline",), mistakes=(spec.ENCODED_WITH_HELD_OUT,))
def encoding_unmoved(subject: Subject, case: PipelineCase) -> Comparisons:
    """Nor does what a category stands for."""
    yield from unmoved(subject, case)


@checks(
    spec.NOTHING_MOVES,
    pipelines("vocabulary"),
    needs=("pipeline",),
    mistakes=(spec.VOCABULARY_OF_EVERYTHING, spec.CARRIED_OVER),
)
def vocabulary_unmoved(subject: Subject, case: PipelineCase) -> Comparisons:
    """Nor does a vocabulary."""
    yield from unmoved(subject, case)


def _enough(case: PipelineCase) -> Array:
    """Other rows to fit on: those held out, and the first two that train, which have both labels."""
    return np.sort(np.concatenate([case.held, case.train[:2]]))


def _fitted(subject: Subject, case: PipelineCase, fits: list[tuple[Array, Array, Array]]) -> Mapping[str, Any]:
    step = asked(subject, "pipeline", case.step)
    for rows, labels, train in fits:
        guarded("fit of the pipeline", step.fit, [rows.copy(), labels.copy(), train.copy()], {})
    found = guarded("state of the pipeline", step.state, [], {})
    if not isinstance(found, Mapping) or not found:
        raise ImplementationFailed(f"state returned a {type(found).__name__} where names with what was fitted are due")
    return {str(name): value for name, value in found.items()}


def states_alike(when: str, got: Mapping[str, Any], due: Mapping[str, Any]) -> Comparisons:
    """Two states are the same, name by name and bit for bit."""
    yield same(f"parts of the state {when}", len(set(got) ^ set(due)), 0)
    for name in sorted(set(got) & set(due)):
        yield part_alike(f"{name} {when}", got[name], due[name])


def part_alike(what: str, got: Any, due: Any) -> Comparison:
    """One part of a state: number by number where both are numbers of one shape, else by how many entries differ."""
    one, other = np.asarray(got), np.asarray(due)
    if one.dtype == other.dtype and one.shape == other.shape and one.dtype.kind in "biuf":
        return same(what, one, other)
    return same(f"entries of {what} that are not what they were", _apart(one, other), 0)


def _apart(one: Array, other: Array) -> int:
    """In how many entries two arrays differ: by place where they have one shape, else by what only one of them has."""
    if one.shape == other.shape:
        return int(np.sum([a != b for a, b in zip(one.ravel().tolist(), other.ravel().tolist(), strict=True)]))
    return len(set(map(repr, one.ravel().tolist())) ^ set(map(repr, other.ravel().tolist()))) or 1


# Chance.


@checks(spec.CHANCE_ON_NOISE, EXPERIMENTS, needs=("protocol",), experiment=True)
def chance_on_noise(subject: Subject, case: ExperimentCase) -> Comparisons:
    """Right answers on labels of pure noise are as many as fair coins show heads."""
    right, answers = noise_score(lambda rows, labels, seed: answered(subject, rows, labels, seed), case.seed)
    most = spec.most_by_chance(answers, spec.CHANCE_ERROR / 2)
    yield between(f"right answers of {answers} on labels of noise", right, answers - most, most, 0)


Protocol = Callable[[Array, Array, int], tuple[int, int]]


def noise_score(protocol: Protocol, seed: int) -> tuple[int, int]:
    """All right answers and all answers over some tables of noise, each with labels of its own."""
    right = answers = 0
    for number in range(NOISES):
        rng = np.random.default_rng((seed, number))
        rows = rng.standard_normal((NOISE_ROWS, NOISE_FEATURES))
        got, of = protocol(rows, rng.integers(0, 2, NOISE_ROWS), number)
        right, answers = right + got, answers + of
    return right, answers


def answered(subject: Subject, rows: Array, labels: Array, seed: int) -> tuple[int, int]:
    """The right answers and the answers of its protocol."""
    seeded = {"seed": seed} if subject.offers("protocol", "seed") else {}
    return counts_of(asked(subject, "protocol", rows, labels, **seeded))


def counts_of(found: Any) -> tuple[int, int]:
    """Two whole numbers, the first no larger than the second; anything else is a failure in one sentence."""
    try:
        right, answers = (int(n) for n in found)
        whole = all(int(n) == n for n in found)
    except (TypeError, ValueError):
        whole, right, answers = False, 0, 0
    if not whole or not 0 <= right <= answers or not answers:
        raise ImplementationFailed(
            f"protocol returned {found!r} where two whole numbers are due: right answers on held-out rows, and answers"
        )
    return right, answers


# Time.


@checks(spec.LATER, split_cases(tied=False), needs=("split_rows",), mistakes=(spec.SHUFFLED_TIME, spec.ORDER_FOR_TIME))
def later(subject: Subject, case: SplitCase) -> Comparisons:
    """Every held-out row is later than every training row."""
    times = case.times
    for number, (train, held) in enumerate(split_of(subject, case, times=times)):
        early = int((times[held] <= times[train].max()).sum())
        yield same(f"held-out rows no later than the last training row in split {number}", early, 0)


@checks(spec.LATER, split_cases(tied=True), needs=("split_rows",), mistakes=(spec.TIES_ON_BOTH_SIDES,))
def later_among_ties(subject: Subject, case: SplitCase) -> Comparisons:
    """The same where rows share their times."""
    yield from later.check(subject, case)
