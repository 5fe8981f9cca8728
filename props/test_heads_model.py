"""V.3 and V.2 held to whole models: who shares a key-value head, and by what scores are divided."""

from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from gnomon.props.box import Input, agree, box, equals
from gnomon.props.judge import Comparison
from gnomon.props.model_cases import ModelCase, model_cases
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import heads as spec
from gnomon.spec import scale
from gnomon.spec.attention import share_heads
from gnomon.spec.configuration import Configuration
from gnomon.spec.evaluators import Floats

Comparisons = Iterator[Comparison]

MODEL = ("model",)
SHARED = ((4, 2), (6, 2), (6, 3), (8, 2))
SEVERAL = st.sampled_from((7, 5, 8, 4, 3, 2))


def shares(c: Configuration) -> bool:
    """Whether fewer heads hold keys and values than ask."""
    return c.kv_heads < c.heads


@checks(
    spec.GROUPS, model_cases(shares, pairs=SHARED, layers=1, time=SEVERAL), needs=MODEL, share=0.5,
    mistakes=(),
)  # fmt: skip
def groups_in_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """With the query heads of one group silent, that group's values move nothing."""
    model, given = box(subject, case), Input(case.tokens())
    group, c = case.seed % case.kv_heads, case.configuration
    members = share_heads(np.arange(c.kv_heads)[:, None, None], c.heads, subject.conventions.head_mapping)[:, 0, 0]
    silent = _without(model.parameters["layers.0.output_weight"], np.repeat(members == group, c.head_width))
    values = model.parameters["layers.0.value_weight"].copy()
    values[group * c.head_width : (group + 1) * c.head_width] *= -4.0
    one = box(subject, case, {"layers.0.output_weight": silent})
    other = box(subject, case, {"layers.0.output_weight": silent, "layers.0.value_weight": values})
    yield from agree("output after a change of silent values", other.run(given), one.run(given))


def _without(weight: Floats, columns: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
    return np.where(columns, 0.0, weight)


@checks(scale.MEASURED_SCALE, model_cases(layers=1, regime="sharp", time=SEVERAL), needs=MODEL, mistakes=(), share=0.5)
def scale_in_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """Sharp scores, which any other divisor would change, give the specification's output."""
    yield from equals("output", box(subject, case).run(Input(case.tokens())))
