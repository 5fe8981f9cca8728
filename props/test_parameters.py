"""VII.2 held to an implementation that counts: blocks of every shape, and the totals published with real models."""

from collections.abc import Iterator

from hypothesis import strategies as st

from gnomon.props.cases import CountCase, count_cases
from gnomon.props.judge import Comparison, same
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import parameters as spec

Comparisons = Iterator[Comparison]


@checks(spec.PER_BLOCK, count_cases(), needs=("parameter_count",))
def per_block(subject: Subject, case: CountCase) -> Comparisons:
    """The total of a small model of any shape is that of its blocks, tables, norms and head."""
    c = case.configuration
    yield same("parameters", subject.count("parameter_count", c), spec.parameter_count(c))


@checks(
    spec.PUBLISHED_TOTALS, st.sampled_from(tuple(spec.PUBLISHED)).map(lambda n: CountCase(name=n)),
    needs=("parameter_count",),
)  # fmt: skip
def published_totals(subject: Subject, case: CountCase) -> Comparisons:
    """The total is the published one."""
    got = subject.count("parameter_count", case.configuration)
    yield same(f"parameters of {case.name} ", got, spec.PUBLISHED[case.name])
