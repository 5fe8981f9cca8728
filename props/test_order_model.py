"""VI.1 held to whole models: no order without positions, and order with them."""

from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from gnomon.props.box import Box, Input, agree, box, equals, moves, unsettled
from gnomon.props.judge import Comparison, between
from gnomon.props.model_cases import ModelCase, model_cases
from gnomon.props.outcome import Declined
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.props.test_masks_model import padded
from gnomon.spec import order as spec
from gnomon.spec.blackbox import moved
from gnomon.spec.configuration import Configuration
from gnomon.spec.families import ALIBI, LEARNED
from gnomon.spec.model import Tokens

Comparisons = Iterator[Comparison]

MODEL = ("model",)
SEVERAL = st.sampled_from((7, 5, 8, 4, 3))


def positioned(c: Configuration) -> bool:
    """Whether tokens have positions."""
    return c.position_kind != "none"


def orderless(c: Configuration) -> bool:
    """Whether neither positions nor a mask tell tokens apart."""
    return not c.causal and c.position_kind == "none"


def masked_only(c: Configuration) -> bool:
    """Whether a causal mask is all that tells tokens apart."""
    return c.causal and c.position_kind == "none"


def distinct(case: ModelCase) -> Tokens:
    """Rows whose first tokens all differ as far as the vocabulary goes, so that exchanging any two changes the row."""
    rng = np.random.default_rng((case.seed, 14))
    return np.stack([np.resize(rng.permutation(case.vocabulary), case.time) for _ in range(case.batch)])


def exchanged(tokens: Tokens, first: int) -> Tokens:
    """The tokens with two neighbours exchanged."""
    turned = tokens.copy()
    turned[:, [first, first + 1]] = tokens[:, [first + 1, first]]
    return turned


@checks(spec.EQUIVARIANT, model_cases(orderless, time=SEVERAL), needs=MODEL, mistakes=(), share=0.5)
def equivariant_model(subject: Subject, case: ModelCase) -> Comparisons:
    """Without positions and mask, permuted tokens give permuted outputs."""
    model, tokens = box(subject, case), case.tokens()
    order = np.random.default_rng((case.seed, 15)).permutation(case.time)
    one, other = model.run(Input(tokens)), model.run(Input(tokens[:, order]))
    yield from agree("outputs for permuted tokens", other, one, ..., np.s_[:, order])


@checks(spec.ORDER_MATTERS, model_cases(positioned, time=SEVERAL, layers=1, deep=True), needs=MODEL)
def order_matters(subject: Subject, case: ModelCase) -> Comparisons:
    """In one layer, where no mask hides anything from the last position, exchanging two tokens before it moves it."""
    model, tokens = box(subject, case), distinct(case)
    if model.unknown:
        yield from _order_seen(model, tokens, (tokens + 1) % case.vocabulary)
        return
    once = exchanged(tokens, case.seed % (case.time - 2))
    one, other = model.run(Input(tokens)), model.run(Input(once if subject.fixed is None else turned_round(tokens)))
    yield from moves("distance at the last position", one, other, np.s_[:, -1])


def turned_round(tokens: Tokens) -> Tokens:
    """The tokens with all but the last in reverse, which tells more of several layers than one exchange."""
    return np.concatenate([tokens[:, -2::-1], tokens[:, -1:]], 1)


def _order_seen(model: Box, tokens: Tokens, others: Tokens) -> Comparisons:
    """A model that reads earlier tokens tells them from the same ones the other way round."""
    turned, replaced = turned_round(tokens), np.concatenate([others[:, :-1], tokens[:, -1:]], 1)
    usual, *rest = (model.run(Input(t)) for t in (tokens, turned, replaced))
    if unsettled(usual, *rest):
        return
    order, content = (float(np.abs(run.out - usual.out)[:, -1].max()) for run in rest)
    errors = [run.due.allowed(np.ones(1)) for run in (usual, *rest)]
    if content > errors[0] + errors[2]:
        least = moved(errors[0] + errors[1])
        yield between("distance at the last position, earlier tokens turned round", order, least, np.inf, 0.0)


@checks(spec.MASK_ORDERS, model_cases(masked_only, time=SEVERAL, layers=st.sampled_from((2, 1, 3))), needs=MODEL)
def mask_orders(subject: Subject, case: ModelCase) -> Comparisons:
    """Two earlier tokens exchanged move the last output, and with one layer do not."""
    model, tokens = box(subject, case), distinct(case)
    if model.unknown:
        raise Declined("how many layers it has is not known")
    one, other = model.run(Input(tokens)), model.run(Input(exchanged(tokens, case.seed % (case.time - 2))))
    if case.layers == 1:
        yield from agree("the last output of one layer", other, one, np.s_[:, -1], np.s_[:, -1])
    else:
        yield from moves("distance at the last position", one, other, np.s_[:, -1])


def tabled(c: Configuration) -> bool:
    """Whether positions are rows of a table, a fixed curve or a slope."""
    return c.position_kind in ("learned", "sinusoidal", "alibi")


@checks(spec.POSITION_TABLES, model_cases(tabled, layers=1, favour=(*LEARNED, *ALIBI)), needs=MODEL)
def position_tables_in_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """At positions that the caller gives, beside padding too, learned rows, sinusoids and slopes are those declared."""
    model = box(subject, case)
    if case.seed % 2 and model.offers("positions", "mask"):
        given, *_ = padded(case, left=True)
        yield from equals("output beside padding on the left", model.run(given), np.asarray(given.mask))
        return
    start = np.random.default_rng((case.seed, 16)).integers(0, 8, (case.batch, 1))
    yield from equals("output", model.run(Input(case.tokens(), start + np.arange(case.time))))
