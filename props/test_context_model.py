"""VIII.3 held to whole models: what does not fit is refused, or cut off as declared."""

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from gnomon.props.box import Box, Input, box
from gnomon.props.judge import Comparison, close, same
from gnomon.props.model_cases import ModelCase, model_cases
from gnomon.props.outcome import Declined
from gnomon.props.property import checks
from gnomon.props.subject import Subject, guarded
from gnomon.spec import context as spec
from gnomon.spec.configuration import Configuration
from gnomon.spec.model import Tokens

Comparisons = Iterator[Comparison]

MODEL = ("model",)
LONGEST = 4096  # tokens; score matrices of more would not fit everywhere


def bounded(c: Configuration) -> bool:
    """Whether there is an end to what the model takes."""
    return spec.context_length(c) > 0


@checks(spec.PAST_THE_CONTEXT, model_cases(bounded, layers=1, deep=True, batch=1, time=1), needs=MODEL, share=0.1)
def past_the_context(subject: Subject, case: ModelCase) -> Comparisons:
    """As many tokens as there is room for are answered, and one more is not, unless it is declared what is cut off."""
    model, room = box(subject, case), spec.context_length(case.configuration)
    if room > LONGEST:
        raise Declined(f"its context of {room} tokens is too long to be filled here")
    tokens = np.random.default_rng((case.seed, 17)).integers(0, case.vocabulary, (1, room + 1))
    full, truncates = Input(tokens[:, :room]), subject.implementation.declaration.truncates
    if model.offers("positions") and not truncates:
        yield from _position_after(model, tokens[:, :1], room)  # first, for it costs least
    yield close("finite numbers in the output for a full context", np.isfinite(model(full)).mean(), 1.0, 0.0)
    if truncates:
        yield from _cut(model, tokens, room)
        return
    yield _refused("one token more than the context holds", model.refuses(Input(tokens)))
    if case.configuration.causal and hasattr(model.handle, "new_cache"):
        cache = model.ask("new_cache")
        model(full, cache=cache)
        yield _refused("one token more on a full cache", model.refuses(Input(tokens[:, room:]), cache=cache))


def _position_after(model: Box, token: Tokens, last: int) -> Comparisons:
    """No token stands after the last position; nothing is said where positions can not be given."""
    with suppress(Declined):
        refused = model.refuses(Input(token, np.array([[last]])))
        yield _refused("the position after the last", refused)


def _refused(what: str, refused: bool) -> Comparison:
    return close(f"a result for {what}", float(not refused), 0.0, 0.0)


def _cut(model: Box, tokens: Tokens, room: int) -> Comparisons:
    """The output for too many tokens is, bit for bit, that for those which are declared to be kept."""
    first = model.subject.implementation.declaration.truncates == "first"
    kept = Input(tokens[:, :room] if first else tokens[:, -room:])
    given = model.subject.hand(tokens)
    out = model.subject.taken("model", guarded("model", model.handle, [given], {}), (1, room, model.width))
    yield same(f"output for one token more than the context holds, the {'last' if first else 'first'} cut off", out,
               model(kept))  # fmt: skip
