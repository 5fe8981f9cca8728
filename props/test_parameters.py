"""VII.2 held to an implementation that counts: blocks of every shape, and the totals published with real models."""

from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from gnomon.props.box import box
from gnomon.props.cases import CountCase, count_cases
from gnomon.props.judge import Comparison, same
from gnomon.props.model_cases import ModelCase, model_cases
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import parameters as spec
from gnomon.spec.configuration import CONFIGURATIONS
from gnomon.spec.families import BIASED, TIED_LOGITS

Comparisons = Iterator[Comparison]


@checks(
    spec.PER_BLOCK, count_cases(name=st.just("") | st.sampled_from(tuple(CONFIGURATIONS))),
    needs=("parameter_count",),
)  # fmt: skip
def per_block(subject: Subject, case: CountCase) -> Comparisons:
    """The total of a small model of any shape, or of a named one, is that of its blocks, tables, norms and head."""
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


@checks(spec.REPORTED, model_cases(favour=(*BIASED, *TIED_LOGITS)), needs=("model",), share=0.3)
def reported(subject: Subject, case: ModelCase) -> Comparisons:
    """What a model reports adds up to its configuration's total."""
    held = box(subject, case).ask("parameters").values()
    total = sum(np.size(subject.framework.take(p)[0]) for p in held)
    yield same("parameters that the model reports", total, spec.parameter_count(case.configuration))
