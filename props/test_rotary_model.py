"""VI.2 held to whole models: the layout that was declared, and nothing but distances."""

from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from gnomon.props.box import Input, agree, box, equals
from gnomon.props.judge import Comparison
from gnomon.props.model_cases import ModelCase, model_cases
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import rotary as spec
from gnomon.spec.configuration import Configuration

Comparisons = Iterator[Comparison]

MODEL = ("model",)
SEVERAL = st.sampled_from((7, 5, 8, 4, 3, 2))


def rotary(c: Configuration) -> bool:
    """Whether positions are rotary."""
    return c.position_kind == "rotary"


def rotary_and_causal(c: Configuration) -> bool:
    """Whether positions are rotary and tokens can be decoded one by one."""
    return rotary(c) and c.causal


@checks(
    spec.LAYOUTS, model_cases(rotary, time=SEVERAL, layers=1, head_width=st.sampled_from((4, 8))), needs=MODEL,
    mistakes=(), share=0.5,
)  # fmt: skip
def layouts_in_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """Weights in the declared layout give the specification's output."""
    yield from equals("output", box(subject, case).run(Input(case.tokens())))


@checks(spec.ONLY_DISTANCES, model_cases(rotary_and_causal, time=SEVERAL), needs=MODEL)
def only_distances(subject: Subject, case: ModelCase) -> Comparisons:
    """All positions shifted give what they gave, in one call and token by token."""
    model, tokens = box(subject, case), case.tokens()
    shift = (1, 5, 40)[case.seed % 3]
    if subject.fixed is not None and subject.fixed.context:
        shift = min(shift, subject.fixed.context - case.time)
    shifted = Input(tokens, np.broadcast_to(shift + np.arange(case.time), tokens.shape))
    usual = model.run(Input(tokens))
    yield from agree(f"outputs at positions {shift} further on", model.run(shifted), usual)
    if hasattr(model.handle, "new_cache"):
        yield from agree("outputs there, token by token", model.decode(shifted, [1] * case.time), usual)
