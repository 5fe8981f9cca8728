"""II.2.2 where the forward pass is run again for the gradient: the same draw of the dropout, entry by entry."""

from collections.abc import Iterator

import numpy as np

from gnomon.props.format_cases import DROPOUT_CASES, DropoutCase, checkpointed
from gnomon.props.judge import Comparison, close, same
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.props.test_function_dropout import kept, scaled
from gnomon.spec import gradient as spec

Comparisons = Iterator[Comparison]


@checks(
    spec.DERIVATIVE,
    DROPOUT_CASES,
    needs=("checkpointed_dropout",),
    mistakes=(spec.REPLAYED_ANEW, spec.DROPOUT_PULLED_BY_SHARE),
)
def recomputed_dropout(subject: Subject, case: DropoutCase) -> Comparisons:
    """The gradient reaches what the output kept and nothing else, scaled as the output is."""
    x, upstream = case.arrays()
    for path in (None, *subject.paths("checkpointed_dropout")):
        output, gradient = checkpointed(subject, case, path)
        yield kept("output", subject, output, x, case.share)
        yield same("whether the gradient reaches an entry", gradient != 0, output != 0)
        want, blur = scaled(subject, upstream, case.share)
        yield close("gradient", gradient, np.where(output == 0, 0, want), np.where(output == 0, 0, blur))
