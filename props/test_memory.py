"""V.5 held to an implementation that counts: score matrices, the length at which they pass the weights, the cache."""

from collections.abc import Iterator

from hypothesis import strategies as st

from gnomon.props.cases import CountCase, count_cases
from gnomon.props.judge import Comparison, same
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import memory as spec
from gnomon.spec.configuration import CONFIGURATIONS

Comparisons = Iterator[Comparison]


@checks(spec.SCORE_MATRIX, count_cases(), needs=("score_bytes",))
def score_matrix(subject: Subject, case: CountCase) -> Comparisons:
    """The bytes are those of batch times heads square matrices."""
    c, sizes = case.configuration, {"batch": case.batch, "item": case.item}
    got = subject.count("score_bytes", c, case.length, **sizes)
    yield same("bytes of the scores", got, spec.score_bytes(c, case.length, **sizes))


@checks(
    spec.SCORE_MATRIX,
    count_cases(name=st.sampled_from(("", *CONFIGURATIONS))),
    needs=("crossing_length",),
)
def crossing(subject: Subject, case: CountCase) -> Comparisons:
    """The crossing is the first length at which the scores take more than the weights."""
    c = case.configuration
    got = subject.count("crossing_length", c, batch=case.batch)
    yield same("length at which the scores pass the weights", got, spec.crossing_length(c, batch=case.batch))


@checks(spec.CACHE, count_cases(), needs=("cache_bytes",))
def cache(subject: Subject, case: CountCase) -> Comparisons:
    """The bytes are those of keys and values of every layer and key-value head."""
    c, sizes = case.configuration, {"batch": case.batch, "item": case.item}
    got = subject.count("cache_bytes", c, case.length, **sizes)
    yield same("bytes of the cache", got, spec.cache_bytes(c, case.length, **sizes))


@checks(
    spec.CACHE, st.sampled_from(tuple(spec.CACHE_PER_TOKEN)).map(lambda n: CountCase(name=n)),
    needs=("cache_bytes",), mistakes=(),
)  # fmt: skip
def published_cache(subject: Subject, case: CountCase) -> Comparisons:
    """The bytes a token are the published ones."""
    got = subject.count("cache_bytes", case.configuration, 1)
    yield same(f"bytes a token of {case.name} ", got, spec.CACHE_PER_TOKEN[case.name])
