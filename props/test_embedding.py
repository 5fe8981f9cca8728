"""III.1 held to an implementation: a look-up, and nothing where nothing is named."""

from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from gnomon.props import expected
from gnomon.props.cases import EmbeddingCase, Ids, embedding_cases
from gnomon.props.judge import Comparison, close, same
from gnomon.props.outcome import ImplementationFailed
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import embedding as spec
from gnomon.spec.evaluators import Floats

Comparisons = Iterator[Comparison]

NEEDED = ("embedding",)
OTHER_ROWS = (spec.PADDING_ROW_ZEROED, spec.ROWS_SCALED)
PAST = (spec.CLAMPED_IDS, spec.ZEROS_PAST_THE_TABLE, spec.WRAPPED_IDS)
SEVERAL_ROWS = embedding_cases(vocabulary=st.sampled_from((2, 3, 7, 16, 61)))


@checks(spec.LOOK_UP, embedding_cases(), needs=NEEDED, mistakes=OTHER_ROWS)
def rows(subject: Subject, case: EmbeddingCase) -> Comparisons:
    """Rows come back bit for bit, by every path."""
    table, ids = case.table(subject.precision.storage), case.ids
    for path in (None, *subject.paths("embedding")):
        by = "" if path is None else f" by the path {path!r} "
        yield same(f"rows{by}", subject.embedding(table, ids, path), expected.embedding(subject, table, ids).value)


@checks(spec.LOOK_UP, embedding_cases(), needs=("embedding", "linear"), mistakes=OTHER_ROWS)
def one_hot(subject: Subject, case: EmbeddingCase) -> Comparisons:
    """One-hot vectors through its linear layer give the same rows."""
    table, ids = case.table(subject.precision.storage), case.ids
    vectors = np.eye(case.vocabulary)[ids]
    blur = expected.linear(subject, vectors, table.T).allowed
    yield close("rows", subject.embedding(table, ids), subject.linear(vectors, table.T), blur)


@checks(spec.LOOK_UP, embedding_cases(), needs=NEEDED, mistakes=(spec.PADDING_ROW_ZEROED,))
def relabelled(subject: Subject, case: EmbeddingCase) -> Comparisons:
    """Rows in another order, named by where they have gone, come back as before."""
    table, ids = case.table(subject.precision.storage), case.ids
    order = case.rng.permutation(case.vocabulary)
    gone_to = np.argsort(order)
    yield same("rows relabelled", subject.embedding(table[order], gone_to[ids]), subject.embedding(table, ids))


@checks(spec.LOOK_UP, SEVERAL_ROWS, needs=NEEDED, mistakes=PAST)
def past_the_table(subject: Subject, case: EmbeddingCase) -> Comparisons:
    """An id that the table ends before is an error."""
    for wrong in (case.vocabulary, case.vocabulary + case.seed % case.vocabulary):
        yield _no_row(subject, case, wrong)


@checks(spec.LOOK_UP, SEVERAL_ROWS, needs=NEEDED, mistakes=(spec.NEGATIVE_IDS,))
def below_zero(subject: Subject, case: EmbeddingCase) -> Comparisons:
    """A negative id is an error, also where counting from the end would find a row."""
    for wrong in (-1, -1 - case.seed % (2 * case.vocabulary)):
        yield _no_row(subject, case, wrong)


def _no_row(subject: Subject, case: EmbeddingCase, wrong: int) -> Comparison:
    """What comes back for one wrong id among right ones, where nothing should."""
    table, ids, where = case.table(subject.precision.storage), case.ids, case.seed % case.ids.size
    ids.flat[where] = wrong
    return same(f"row of the id {wrong} among {case.vocabulary} ", _returned(subject, table, ids)[where], np.nan)


def _returned(subject: Subject, table: Floats, ids: Ids) -> Floats:
    """The rows that come back, one an id, where NaN is none; NaN alone where the implementation raises."""
    try:
        return np.nan_to_num(subject.embedding(table, ids)).reshape(ids.size, -1)
    except ImplementationFailed:
        return np.full((ids.size, table.shape[-1]), np.nan)
