"""II.2 held to whole models: the gradient of the output by every parameter."""

from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from gnomon.props.box import Box, Input, box
from gnomon.props.gradients import Slopes, slopes
from gnomon.props.judge import Comparison, close, same
from gnomon.props.model_cases import ModelCase, model_cases
from gnomon.props.outcome import Declined
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import embedding as embedding_spec
from gnomon.spec import gradient as spec
from gnomon.spec import masks as masks_spec
from gnomon.spec.bounds import round_to
from gnomon.spec.configuration import Configuration
from gnomon.spec.evaluators import Floats
from gnomon.spec.families import TIED_LOGITS

Comparisons = Iterator[Comparison]

MODEL = ("model",)
SMALL = st.sampled_from((4, 3, 5, 2))
_UPSTREAM, _DIRECTION = 11, 12  # beside the case's own seed


def drawn(model: Box, case: ModelCase, which: int, shape: tuple[int, ...]) -> Floats:
    """Numbers of order one, exact in the dtype."""
    rng = np.random.default_rng((case.seed, which))
    return round_to(rng.standard_normal(shape), model.subject.precision.storage)


def above(model: Box, case: ModelCase) -> Floats:
    """A gradient for the output."""
    return drawn(model, case, _UPSTREAM, (case.batch, case.time, model.width))


def farthest(name: str, got: Floats, due: Slopes) -> Comparison:
    """The entry that is farthest off, and its bound."""
    want, allowed = due.value(name), np.full(got.shape, np.inf)
    error = np.abs(np.nan_to_num(got - want, nan=np.inf))
    worst = np.unravel_index(np.argmax(error), error.shape)
    functional = np.zeros(got.shape)
    functional[worst] = 1.0
    allowed[worst] = due.allowed({name: functional})
    return close(f"gradient by {name}", got, want, allowed)


def wide_enough(subject: Subject) -> None:
    """Decline 16 bits: the gradient of a whole model has no trace by which it could be judged there."""
    if subject.precision.narrow:
        raise Declined("the gradient of a whole model is judged in float32 and float64")


@checks(spec.PAIRING, model_cases(time=SMALL), needs=MODEL, share=0.4, mistakes=())
def pairing_in_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """All parameters moved at once along their errors: the sum over all of them is bounded as one."""
    wide_enough(subject)
    model, given = box(subject, case), Input(case.tokens())
    got = model.gradients(given, above(model, case))
    due = slopes(model, given, above(model, case))
    signs = {n: np.sign(drawn(model, case, _DIRECTION, g.shape)) for n, g in got.items()}
    inward, outward = (sum(float((g * signs[n]).sum()) for n, g in gs.items()) for gs in (got, due.values))
    yield close("⟨gradient by all parameters, v⟩", inward, outward, due.allowed(signs))


@checks(spec.DERIVATIVE, model_cases(time=SMALL), needs=MODEL, share=0.6, mistakes=())
def derivative_in_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """The parameter whose gradient is farthest off, and one at random."""
    wide_enough(subject)
    model, given = box(subject, case), Input(case.tokens())
    got = model.gradients(given, above(model, case))
    due = slopes(model, given, above(model, case))
    worst = max(got, key=lambda n: _share(got[n], due.value(n)))
    yield farthest(worst, got[worst], due)
    other = sorted(got)[case.seed % len(got)]
    yield farthest(other, got[other], due)


def _share(got: Floats, want: Floats) -> float:
    size = np.abs(want).max()
    return float(np.abs(np.nan_to_num(got - want, nan=np.inf)).max() / (size or 1.0))


@checks(spec.ZERO_FACTOR, model_cases(time=SMALL), needs=MODEL, share=0.2, mistakes=())
def zero_above_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """A gradient of zeros gives zeros by every parameter."""
    model = box(subject, case)
    for name, got in model.gradients(Input(case.tokens()), np.zeros((case.batch, case.time, model.width))).items():
        yield same(f"gradient by {name}", got, np.zeros(got.shape))


def tied(c: Configuration) -> bool:
    """Whether the token table is read at both ends."""
    return c.tied and c.output == "logits"


@checks(spec.SUM_OF_USES, model_cases(tied, favour=TIED_LOGITS, time=SMALL, layers=1), needs=MODEL, share=0.3)
def tied_table(subject: Subject, case: ModelCase) -> Comparisons:
    """The table that is read as look-up and as unembedding."""
    wide_enough(subject)
    model, given = box(subject, case), Input(case.tokens())
    got = model.gradients(given, above(model, case))["token_embedding"]
    yield farthest("token_embedding", got, slopes(model, given, above(model, case)))


def looked_up_alone(c: Configuration) -> bool:
    """Whether later tokens are hidden and the token table is read by the look-up alone."""
    return c.causal and not tied(c)


@checks(masks_spec.NO_GRADIENT_AHEAD, model_cases(looked_up_alone, time=SMALL), needs=MODEL, share=0.3)
def no_gradient_ahead_in_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """What one position gives back to tokens, and to learned positions, that only stand behind it."""
    model, tokens, place = box(subject, case), case.tokens(), case.seed % case.time
    upstream = np.zeros((case.batch, case.time, model.width))
    upstream[:, place] = above(model, case)[:, place]
    got = model.gradients(Input(tokens), upstream)
    ahead = np.setdiff1d(np.arange(case.vocabulary), tokens[:, : place + 1])
    yield same("gradient by tokens that come later", got["token_embedding"][ahead], 0.0 * got["token_embedding"][ahead])
    if "position_embedding" in got:
        later = got["position_embedding"][place + 1 + model.configuration.position_offset :]
        yield same("gradient by later positions", later, np.zeros(later.shape))


@checks(
    embedding_spec.LOOKED_UP_ROWS, model_cases(lambda c: not tied(c), time=SMALL), needs=MODEL, share=0.2, mistakes=()
)
def looked_up_rows_in_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """Rows of tokens that do not occur."""
    model, tokens = box(subject, case), case.tokens()
    got = model.gradients(Input(tokens), above(model, case))["token_embedding"]
    unused = np.setdiff1d(np.arange(len(got)), tokens)
    yield same("gradient by tokens that do not occur", got[unused], np.zeros(got[unused].shape))
