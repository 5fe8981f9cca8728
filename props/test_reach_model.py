"""IV.1 held to whole models: how far back a stack of windows sees."""

from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from gnomon.props.box import Input, box, moves
from gnomon.props.judge import Comparison, same
from gnomon.props.model_cases import ModelCase, model_cases
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.props.test_masks_model import replaced
from gnomon.spec import reach as spec
from gnomon.spec.configuration import Configuration

Comparisons = Iterator[Comparison]

MODEL = ("model",)


def windowed_throughout(c: Configuration) -> bool:
    """Whether every layer has the window."""
    return c.window > 0 and c.window_every == 1 and c.causal


@checks(
    spec.ATTENDED,
    model_cases(
        windowed_throughout,
        time=st.sampled_from((8, 7)),
        layers=st.sampled_from((2, 3)),
        window=st.sampled_from((2, 3)),
    ),
    needs=MODEL,
    mistakes=(),
    share=0.5,
)
def attended_through_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """The first token reaches L(w − 1) places further, moves the output there, and no later one by a bit."""
    model, tokens = box(subject, case), case.tokens()
    c = case.configuration
    farthest = case.layers * (c.window - 1)
    usual, other = model.run(Input(tokens)), model.run(Input(replaced(tokens, 0, case)))
    yield same("outputs beyond the reach", other.out[:, farthest + 1 :], usual.out[:, farthest + 1 :])
    if farthest < case.time:
        yield from moves("distance at the end of the reach", usual, other, np.s_[:, farthest])
