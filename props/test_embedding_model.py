"""III.1 held to whole models: ids name rows, and rows of the unembedding make logits."""

from collections.abc import Iterator

import numpy as np

from gnomon.props.box import Box, Input, box, equals
from gnomon.props.judge import Comparison, close, same
from gnomon.props.model_cases import ModelCase, model_cases
from gnomon.props.outcome import ImplementationFailed
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import embedding as spec
from gnomon.spec.configuration import Configuration
from gnomon.spec.families import TIED_LOGITS

Comparisons = Iterator[Comparison]

MODEL = ("model",)
_NO_TABLE = 2**31 - 1  # an id past every table, for a model that does not say how many rows its own has


@checks(spec.LOOK_UP, model_cases(), needs=MODEL, share=0.5)
def look_up_in_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """The rows of ids that do not occur change nothing, bit for bit, and an id that names no row is an error."""
    model, tokens = box(subject, case), case.tokens()
    if subject.fixed is not None:
        past = subject.fixed.vocabulary or _NO_TABLE
        for id_ in (past, -1):
            refused = model.refuses(Input(np.full((1, 1), id_)))
            yield close(f"a result for the id {id_} past the table", float(not refused), 0.0, 0.0)
        return
    table = model.parameters["token_embedding"]
    unused = ~np.isin(np.arange(case.vocabulary), tokens)
    other = box(subject, case, {"token_embedding": np.where(unused[:, None], -table, table)})
    kept = ~unused if _logits(case.configuration) and case.configuration.tied else np.ones(model.width, bool)
    yield same("outputs for other rows of unused ids", other(Input(tokens))[..., kept], model(Input(tokens))[..., kept])
    yield close("a result for an id past the table", _returns(model, case.vocabulary), 0.0, 0.0)


def _returns(model: Box, id_: int) -> float:
    """One if the model gives a result for the id, zero if it raises."""
    try:
        model(Input(np.full((1, 1), id_)))
    except ImplementationFailed:
        return 0.0
    return 1.0


def _logits(c: Configuration) -> bool:
    return c.output == "logits"


@checks(spec.UNEMBEDDING, model_cases(_logits, favour=(*TIED_LOGITS, "gemma2", "cohere"), layers=1), needs=MODEL)
def unembedding(subject: Subject, case: ModelCase) -> Comparisons:
    """One row changed moves its own logit as it should, and no other by a bit."""
    model, tokens = box(subject, case), case.tokens()
    name = "token_embedding" if case.configuration.tied else "unembedding_weight"
    row = case.seed % case.vocabulary
    given = Input(np.where(tokens == row, (row + 1) % case.vocabulary, tokens))
    table = model.parameters[name].copy()
    table[row] *= -4.0
    one, other = model.run(given), box(subject, case, {name: table}).run(given)
    rest = np.arange(case.vocabulary) != row
    yield same("logits of other rows", other.out[..., rest], one.out[..., rest])
    yield from equals("logits", other)
