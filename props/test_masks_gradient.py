"""V.4 held to what attention gives back: nothing goes to what was masked, and an empty row spoils nothing."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gnomon.props import gradients
from gnomon.props.cases import AttentionCase, Case, attention_cases
from gnomon.props.judge import Comparison, close, same
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import masks as spec
from gnomon.spec.bounds import round_to
from gnomon.spec.evaluators import Floats

Comparisons = Iterator[Comparison]


def upstream_of(case: AttentionCase, subject: Subject) -> Floats:
    """A gradient for the output, exact in the dtype."""
    shape = (case.batch, case.heads, case.queries, case.value_width)
    drawn = np.random.default_rng((case.seed, 11)).standard_normal(shape)
    return round_to(drawn, subject.precision.storage)


def as_many_keys(case: Case) -> Case:
    """The case with a key for every query."""
    return replace(case, keys=case.queries) if isinstance(case, AttentionCase) else case


@checks(spec.NO_GRADIENT_AHEAD, attention_cases(masked="causal", window=0).map(as_many_keys), share=0.7)
def no_gradient_ahead(subject: Subject, case: AttentionCase) -> Comparisons:
    """What one query gives back to keys and values behind it."""
    place, upstream = case.seed % case.queries, np.zeros((case.batch, case.heads, case.queries, case.value_width))
    upstream[:, :, place] = upstream_of(case, subject)[:, :, place]
    arrays = case.arrays(subject.precision.storage)
    _, by_key, by_value = subject.vjp("attention", *arrays, upstream=upstream, causal=True)
    for name, got in (("key", by_key), ("value", by_value)):
        later = got[:, :, place + 1 :]
        yield same(f"gradient of query {place} by each later {name}", later, np.zeros(later.shape))


@checks(
    spec.EMPTY_ROW, attention_cases(masked="boolean", window=0), share=0.5, mistakes=(spec.EMPTY_ROW_GRADIENT_SPREADS,)
)
def empty_row_in_the_gradient(subject: Subject, case: AttentionCase) -> Comparisons:
    """A query that may attend to nothing, whose output nobody reads, changes no gradient of the others."""
    arrays, row = case.arrays(subject.precision.storage), case.seed % case.queries
    seen, upstream = case.permitted(1, 1), upstream_of(case, subject)
    upstream[:, :, row] = 0.0
    due = gradients.due(subject, "attention", arrays, upstream, {"mask": seen})
    empty = seen.copy()
    empty[..., row, :] = False
    got = subject.vjp("attention", *arrays, upstream=upstream, mask=empty)
    others = np.arange(case.queries) != row
    yield close("gradient by the other queries", got[0][:, :, others], *(a[:, :, others] for a in due[0]))
    for name, g, want in zip(("keys", "values"), got[1:], due[1:], strict=True):
        yield close(f"gradient by the {name}", g, *want)
