"""V.4 held to whole models: the past, caches, padding, packed documents, windows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gnomon.props.box import Box, Input, Run, agree, box, joined, moves
from gnomon.props.judge import Comparison, same
from gnomon.props.model_cases import ModelCase, model_cases
from gnomon.props.outcome import Declined
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import masks as spec
from gnomon.spec.configuration import Configuration
from gnomon.spec.evaluators import Mask
from gnomon.spec.families import LEARNED
from gnomon.spec.model import Tokens

Comparisons = Iterator[Comparison]

MODEL = ("model",)
SEVERAL = st.sampled_from((7, 5, 8, 4, 3, 2))
LONGEST_REACH = 1024


def causal(c: Configuration) -> bool:
    """Whether later tokens are hidden from earlier ones."""
    return c.causal


def windowed(c: Configuration) -> bool:
    """Whether some layer has a window."""
    return c.window > 0


def replaced(tokens: Tokens, where: Any, case: ModelCase) -> Tokens:
    """The tokens with others at the places named, each another than it was."""
    changed = tokens.copy()
    steps = np.random.default_rng((case.seed, 10)).integers(1, case.vocabulary, tokens.shape)
    changed[:, where] = ((tokens + steps) % case.vocabulary)[:, where]
    return changed


@checks(spec.PAST_UNCHANGED, model_cases(causal, time=SEVERAL), needs=MODEL, share=0.5)
def past_unchanged_in_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """Other tokens after a place leave the outputs up to it as they were, bit for bit."""
    model, tokens, place = box(subject, case), case.tokens(), case.seed % case.time
    one = model.run(Input(tokens))
    other = model.run(Input(replaced(tokens, slice(place + 1, None), case)))
    if subject.implementation.declaration.data_dependent:
        yield from agree("outputs of the past", one, other, np.s_[:, : place + 1], np.s_[:, : place + 1])
    else:
        yield same("outputs of the past", other.out[:, : place + 1], one.out[:, : place + 1])


@checks(spec.SEES_ITSELF, model_cases(causal, time=SEVERAL, layers=1, deep=True), needs=MODEL, share=0.3)
def sees_itself_in_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """The first position gives what it gives alone, and each output moves with its own token."""
    model, tokens = box(subject, case), case.tokens()
    whole, place = model.run(Input(tokens)), case.seed % case.time
    yield from agree("the first position", whole, model.run(Input(tokens[:, :1])), np.s_[:, :1], ...)
    changed = model.run(Input(replaced(tokens, place, case)))
    yield from moves("distance at the place of another token", whole, changed, np.s_[:, place])


@checks(spec.DECODES_AS_PREFILL, model_cases(causal, time=SEVERAL, favour=LEARNED), needs=MODEL, share=1.5)
def decodes_as_prefill_in_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """Token by token, in chunks, or after the cache was cropped, decoding gives what the whole pass gives."""
    model, given = box(subject, case), Input(case.tokens())
    whole, first = model.run(given), 1 + case.seed % (case.time - 1)
    if subject.fixed is not None:
        yield from agree("outputs of a prefix", model.run(given.part(0, first)), whole, ..., np.s_[:, :first])
        if not hasattr(model.handle, "new_cache"):
            return
    yield from agree("outputs token by token", model.decode(given, [1] * case.time), whole)
    yield from agree("outputs in two chunks", model.decode(given, [first, case.time - first]), whole)
    if hasattr(model.handle, "crop_cache"):
        yield from agree("outputs after the cache was cropped", _cropped(model, given, first, case), whole)


def _cropped(model: Box, given: Input, kept: int, case: ModelCase) -> Run:
    """A run that went on with other tokens, was taken back to the first `kept`, and went on with the right ones."""
    cache = model.ask("new_cache")
    before = model.run(given.part(0, kept), cache)
    model(Input(replaced(given.tokens, slice(kept, None), case)).part(kept, case.time), cache=cache)
    model.ask("crop_cache", cache, kept)
    return joined(model, given, [before, model.run(given.part(kept, case.time), cache)])


@checks(spec.EMPTY_ROW, model_cases(batch=st.sampled_from((2, 3))), needs=MODEL, share=0.3)
def empty_row_in_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """A row that is all padding leaves the other rows as they were, bit for bit."""
    model, tokens = box(subject, case), case.tokens()
    whole = np.ones(tokens.shape, bool)
    rest = whole.copy()
    rest[0] = False
    usual, beside = model.run(Input(tokens, mask=whole)), model.run(Input(tokens, mask=rest))
    if subject.implementation.declaration.data_dependent:  # padding may be cut out before the products
        yield from agree("rows beside one of padding", beside, usual, np.s_[1:], np.s_[1:])
    else:
        yield same("rows beside one of padding", beside.out[1:], usual.out[1:])


def padded(case: ModelCase, left: bool, placed: bool = True) -> tuple[Input, list[slice], Tokens]:
    """The rows with padding of their own amounts on one side, where their tokens are, and all tokens.

    placed: whether positions are said, which on the right are those that the model would count.
    """
    rng = np.random.default_rng((case.seed, 11))
    amounts = rng.permutation(np.arange(1, case.batch + 1))
    time = case.time + case.batch
    places = [slice(n, n + case.time) if left else slice(0, case.time) for n in amounts]
    tokens, mask = rng.integers(0, case.vocabulary, (case.batch, time)), np.zeros((case.batch, time), bool)
    for row, place in enumerate(places):
        tokens[row, place], mask[row, place] = case.tokens()[row], True
    starts = np.array([place.start for place in places])[:, None]
    positions = np.maximum(np.arange(time) - starts, 0) if placed else None
    return Input(tokens, positions, mask), places, tokens


@checks(spec.PADDING, model_cases(time=SEVERAL, favour=LEARNED), needs=MODEL)
def padding(subject: Subject, case: ModelCase) -> Comparisons:
    """Padded rows give what each gives alone, and nothing depends on what the padding holds."""
    model, left = box(subject, case), bool(case.seed % 2)
    placed = subject.fixed is None or model.offers("positions")
    left = left and placed
    given, places, tokens = padded(case, left, placed)
    together, row = model.run(given), case.seed % case.batch
    alone = model.run(Input(case.tokens()[row : row + 1]))
    here = np.s_[row : row + 1, places[row]]
    yield from agree(f"row {row} with padding on its {'left' if left else 'right'}", together, alone, here)
    real = np.asarray(given.mask)
    other = Input(np.where(real, tokens, (tokens + 1) % case.vocabulary), given.positions, real)
    yield same("outputs beside other padding", model(other)[here], together.out[here])
    if left and case.configuration.causal:
        decoded = model.decode(given, [given.tokens.shape[1] - 1, 1])
        yield from agree(f"row {row} decoded after padding", decoded, alone, here)


def documents(case: ModelCase) -> tuple[Mask, Any, int]:
    """A mask of pairs for two documents in a row, their positions, and where the second begins."""
    start = 1 + case.seed % (case.time - 1)
    which = np.arange(case.time) >= start
    positions = np.arange(case.time) - np.where(which, start, 0)
    mask = np.broadcast_to(which[:, None] == which, (case.batch, case.time, case.time))
    return mask, np.broadcast_to(positions, (case.batch, case.time)), start


@checks(spec.PACKED, model_cases(time=SEVERAL), needs=MODEL, share=0.5)
def packed(subject: Subject, case: ModelCase) -> Comparisons:
    """Other tokens in one document leave the outputs of the other as they were, bit for bit."""
    model, tokens = box(subject, case), case.tokens()
    mask, positions, start = documents(case)
    if subject.fixed is not None and not model.offers("positions"):
        positions = None
    usual = model(Input(tokens, positions, mask))
    for what, own, rest in (("first", slice(start), slice(start, None)), ("second", slice(start, None), slice(start))):
        changed = model(Input(replaced(tokens, rest, case), positions, mask))
        yield same(f"outputs of the {what} document", changed[:, own], usual[:, own])


def reach(c: Configuration) -> int:
    """How many tokens an output may depend on, its own included, 0 for all."""
    windows = [c.window_of(layer) for layer in range(c.layers)]
    return 1 + sum(w - 1 for w in windows) if all(windows) else 0


@checks(spec.WINDOW, model_cases(windowed, time=SEVERAL, layers=1, deep=True), needs=MODEL)
def window_in_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """One layer with a window of w sees the last w tokens, and no more; of several each adds w − 1."""
    model, w = box(subject, case), reach(case.configuration)
    tokens = case.tokens() if subject.fixed is None else _past_the_reach(case, w, subject.fixed.context)
    usual, last = model.run(Input(tokens)), tokens.shape[1] - 1
    beyond = model(Input(replaced(tokens, slice(max(0, last - w + 1)), case)))
    yield same("the last output after a change beyond the window", beyond[:, last], usual.out[:, last])
    if last - w + 1 >= 0:
        changed = model.run(Input(replaced(tokens, last - w + 1, case)))
        yield from moves("distance after a change at the edge of the window", usual, changed, np.s_[:, last])


def _past_the_reach(case: ModelCase, w: int, context: int) -> Tokens:
    """Tokens that are a few more than one output of a black box may depend on."""
    if not w:
        raise Declined("some of its layers see everything")
    if w > LONGEST_REACH or 0 < context < w + case.time:
        raise Declined(f"the {w} tokens that its layers see together are too many to be passed")
    return np.random.default_rng((case.seed, 18)).integers(0, case.vocabulary, (case.batch, w + case.time))


@checks(spec.COMBINED, model_cases(time=SEVERAL), needs=MODEL, share=0.3)
def combined_in_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """A mask of keys equals the mask of pairs that says the same."""
    model, tokens = box(subject, case), case.tokens()
    mask = np.random.default_rng((case.seed, 12)).random(tokens.shape) < 0.7
    mask[:, 0] = True
    pairs = np.broadcast_to(mask[:, None], (case.batch, case.time, case.time))
    one, other = model.run(Input(tokens, mask=mask)), model.run(Input(tokens, mask=pairs))
    yield from agree("outputs for a mask of keys and one of pairs", one, other)
