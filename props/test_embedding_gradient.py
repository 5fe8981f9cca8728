"""III.1.8 held to a look-up: what it gives back to the table."""

from collections.abc import Iterator

import numpy as np

from gnomon.props import gradients
from gnomon.props.cases import EmbeddingCase, embedding_cases
from gnomon.props.judge import Comparison, close, same
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import embedding as spec
from gnomon.spec.bounds import round_to


@checks(spec.LOOKED_UP_ROWS, embedding_cases(), needs=("embedding",))
def looked_up_rows(subject: Subject, case: EmbeddingCase) -> Iterator[Comparison]:
    """Rows that no id names get zeros, the others the sum over the ids that name them."""
    form = subject.precision.storage
    table, ids = case.table(form), case.ids
    upstream = round_to(np.random.default_rng((case.seed, 11)).standard_normal((*ids.shape, case.width)), form)
    got = subject.vjp("embedding", table, ids, upstream=upstream)[0]
    unused = np.setdiff1d(np.arange(case.vocabulary), ids)
    yield same("gradient by rows that were not looked up", got[unused], np.zeros(got[unused].shape))
    due = gradients.due(subject, "embedding", (table, ids), upstream, {})[0]
    yield close("gradient by the table", got, *due)
