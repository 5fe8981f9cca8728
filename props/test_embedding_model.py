"""III.1 held to whole models: ids name rows, and rows of the unembedding make logits."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gnomon.props.box import Box, Input, Run, box, built, equals
from gnomon.props.cases import Strategy
from gnomon.props.fixed import OWN
from gnomon.props.judge import Comparison, close, same
from gnomon.props.model_cases import ModelCase, drawn_parameters, model_cases
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import embedding as spec
from gnomon.spec.configuration import Configuration
from gnomon.spec.evaluators import Floats
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


def _some_square(subject: Subject) -> Strategy:
    """Cases of one layer, every other with as many tokens as features."""
    drawn = model_cases(_logits, favour=(*TIED_LOGITS, "gemma2", "cohere"), layers=1)(subject)
    return drawn if subject.fixed is not None else drawn.map(_square)


def _square(case: ModelCase) -> ModelCase:
    return replace(case, vocabulary=case.configuration.width) if case.seed % 2 else case


@checks(spec.UNEMBEDDING, _some_square, needs=MODEL)
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


_BY_TOKEN = ("token_embedding", "unembedding_weight", "unembedding_bias")
_OF_MODELS = tuple(m for m in spec.PADDED_TABLE.mistakes if m.whole)
_LARGE = 64.0  # times an ordinary row, which would win if it were scored


@checks(spec.PADDED_TABLE, model_cases(_logits, favour=TIED_LOGITS, layers=1), needs=MODEL, mistakes=_OF_MODELS)
def padded_table_in_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """Padding rows have no probability and change nothing, whatever they hold, and every token has its own logit."""
    if subject.fixed is not None:
        raise Declined(OWN)
    c = replace(case.configuration, padding_rows=1 + case.seed % 3)
    given = Input(case.tokens())
    empty, full = (_padded(subject, case, c, times).run(given) for times in (0.0, _LARGE))
    for what, run in (("zeros", empty), ("large numbers", full)):
        beyond = f"probability of the ids past the vocabulary whose rows hold {what}"
        yield close(beyond, _mass_past(run.out, c.vocabulary), 0.0, 0.0)
    yield same("logits beside other padding rows", *(run.out[..., : c.vocabulary] for run in (full, empty)))
    yield from equals("logits", _without(full, c.vocabulary))


def _padded(subject: Subject, case: ModelCase, c: Configuration, times: float) -> Box:
    """The model with padding rows that hold so many times what was drawn for them."""
    drawn = drawn_parameters(c, case.seed, case.regime, subject.precision.storage)
    real = np.arange(c.rows) < c.vocabulary
    rows = {n: (np.where(real, drawn[n].T, drawn[n].T * times)).T for n in _BY_TOKEN if n in drawn}
    return built(subject, c, {**drawn, **rows})


def _mass_past(logits: Floats, vocabulary: int) -> Floats:
    """The share of each softmax that lies past the vocabulary."""
    mass = np.exp(logits - logits[..., :vocabulary].max(-1, keepdims=True))
    return np.asarray(mass[..., vocabulary:].sum(-1) / mass.sum(-1))


def _without(run: Run, vocabulary: int) -> Run:
    """The run with the logits of tokens alone."""
    trace = {n: v[..., :vocabulary] if n == "logits" else v for n, v in run.trace.items()}
    return Run(run.box, run.given, run.out[..., :vocabulary], trace)
