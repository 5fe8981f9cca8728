"""I.1 held to whole models: a function of the token ids and the parameters, the same on every path."""

from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from gnomon.props.box import Box, Input, Run, agree, box, built, handle, joined, moves
from gnomon.props.judge import Comparison, close, same
from gnomon.props.model_cases import ModelCase, model_cases
from gnomon.props.outcome import Declined
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import function as spec
from gnomon.spec.families import BIASED, GATED, TIED, WINDOWED
from gnomon.spec.shapes import parameter_shapes

Comparisons = Iterator[Comparison]

MODEL = ("model",)
SEVERAL_ROWS = st.sampled_from((2, 3))


def longer_input(case: ModelCase) -> Input:
    """More and longer rows of other tokens, within any table of positions."""
    rng = np.random.default_rng((case.seed, 8))
    return Input(rng.integers(0, case.vocabulary, (case.batch + 1, 2 * case.time + 3)))


@checks(spec.REPEATABLE, model_cases(), needs=MODEL, share=0.5)
def repeatable_model(subject: Subject, case: ModelCase) -> Comparisons:
    """Three calls, another one between them, give the same bits."""
    model, given = box(subject, case), Input(case.tokens())
    first = model(given)
    yield same("second output", model(given), first)
    model(Input((given.tokens + 1) % case.vocabulary))
    yield same("output after another call", model(given), first)


@checks(spec.PURE, model_cases(), needs=MODEL, share=0.5)
def pure_model(subject: Subject, case: ModelCase) -> Comparisons:
    """Ids and parameters are after the call what they were before it."""
    if subject.fixed is not None:
        yield from _pure_as_it_is(box(subject, case), Input(case.tokens()))
        return
    parameters, c = case.parameters(subject.precision.storage), case.configuration
    handed, ids = subject.hand(parameters), subject.hand(case.tokens())
    model = Box(subject, c, parameters, handle(subject, c, handed))
    model.call(ids, {}, case.tokens().shape)
    yield same("token ids after the call", subject.framework.take(ids)[0], case.tokens())
    for name, held in handed.items():
        yield same(f"{name} after the call", subject.framework.take(held)[0], parameters[name])


def _pure_as_it_is(model: Box, given: Input) -> Comparisons:
    """The same of a black box, whose parameters are those that it shows, if it does."""
    shows = hasattr(model.handle, "parameters")
    ids, before = model.subject.hand(given.tokens), model.noted(model.ask("parameters")) if shows else {}
    model.call(ids, {}, given.tokens.shape)
    yield same("token ids after the call", model.subject.framework.take(ids)[0], given.tokens)
    for name, held in (model.noted(model.ask("parameters")) if shows else {}).items():
        if not np.array_equal(held, before[name], equal_nan=True):  # which takes no memory, however many they are
            yield same(f"{name} after the call", held, before[name])


@checks(spec.PARAMETERS_DETERMINE, model_cases(favour=TIED), needs=MODEL, share=0.5)
def parameters_determine(subject: Subject, case: ModelCase) -> Comparisons:
    """What a model that has been used exports, loaded into a fresh one, gives the same bits for another input."""
    model, given = box(subject, case), Input(case.tokens())
    model(Input(given.tokens[:, :1]))
    exported = model.noted(model.ask("parameters"))
    missing = [n for n in parameter_shapes(case.configuration) if n not in exported]
    yield same(f"parameters that are not exported ({', '.join(missing[:3])})", len(missing), 0)
    fresh = built(subject, case.configuration, exported)
    yield same("output of a fresh model with the exported parameters", fresh(given), model(given))


@checks(spec.EVERY_PARAMETER_LIVES, model_cases(regime="ordinary", favour=(*BIASED, *GATED)), needs=MODEL)
def every_parameter_lives(subject: Subject, case: ModelCase) -> Comparisons:
    """Names and shapes are the configuration's, and one tensor changed moves the output as far as it should."""
    shapes, given = parameter_shapes(case.configuration), Input(case.tokens())
    model = box(subject, case)
    yield from _names(model, shapes)
    name = sorted(shapes)[case.seed % len(shapes)]
    changed = box(subject, case, {name: -model.parameters[name]})
    yield from moves(f"distance after {name} changed its sign", model.run(given), changed.run(given))


def _names(model: Box, shapes: dict[str, tuple[int, ...]]) -> Comparisons:
    if hasattr(model.handle, "parameters"):
        held = {n: p.shape for n, p in model.noted(model.ask("parameters")).items()}
        wrong = sorted(n for n in shapes | held if shapes.get(n) != held.get(n))
        yield same(f"parameters of another name or shape ({', '.join(wrong[:3])})", len(wrong), 0)


@checks(spec.ROWS_APART, model_cases(batch=SEVERAL_ROWS), needs=MODEL, share=0.5)
def rows_apart_model(subject: Subject, case: ModelCase) -> Comparisons:
    """A row alone, and rows in another order, give what they gave together; so do reordered rows of a cache.

    Beside other rows of the same length it gives the same bits.
    """
    model, tokens = box(subject, case), case.tokens()
    if not subject.implementation.declaration.data_dependent:
        others = Input(np.concatenate([tokens[:1], (tokens[1:] + 1) % case.vocabulary]))
        yield same("the first row beside other rows", model(others)[0], model(Input(tokens))[0])
    whole, order = model.run(Input(tokens)), np.roll(np.arange(case.batch), 1)
    turned = model.run(Input(tokens[order]))
    yield from agree("rows in another order", turned, whole, ..., order)
    yield from agree("the first row alone", model.run(Input(tokens[:1])), whole, ..., slice(0, 1))
    if case.configuration.causal and case.time > 1 and hasattr(model.handle, "reorder_cache"):
        yield from _reordered(model, turned, order)


def _reordered(model: Box, turned: Run, order: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Comparisons:
    """Decoding goes on from a cache whose rows were put in another order as from rows that had that order."""
    cache, given, time = model.ask("new_cache"), turned.given, turned.given.tokens.shape[1]
    before = Input(np.empty_like(given.tokens))
    before.tokens[order] = given.tokens
    first = model.run(before.part(0, time - 1), cache)
    model.ask("reorder_cache", cache, model.subject.hand(order))
    last = model.run(given.part(time - 1, time), cache)
    early = Run(model, first.given, first.out[order], {n: v[order] for n, v in first.trace.items()})
    yield from agree("tokens decoded on a reordered cache", joined(model, given, [early, last]), turned)


@checks(spec.EVERY_PATH, model_cases(favour=WINDOWED), needs=MODEL, share=0.5)
def every_path_of_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """Every declared path of the model, and its traced call, give what the usual call gives."""
    model, given = box(subject, case), Input(case.tokens())
    usual, paths = Run(model, given, model(given), {}), subject.paths("model")
    if not paths and not model.offers("trace"):
        raise Declined("its model declares no other path")
    for path in paths:
        yield from agree(f"model by {path!r}", box(subject, case, path=path).run(given), usual)
    if model.offers("trace"):
        traced: dict[str, object] = {}
        out = model(given, trace=traced)
        yield from agree("a traced call", Run(model, given, out, model.noted(traced)), usual)


@checks(spec.NO_MEMORY, model_cases(), needs=MODEL, share=0.5)
def no_memory_model(subject: Subject, case: ModelCase) -> Comparisons:
    """Short, long, short: the short calls agree bit for bit; and another model is not answered from this one's."""
    model, given = box(subject, case), Input(case.tokens())
    first = model(given)
    yield close("finite numbers in a longer call's output", np.isfinite(model(longer_input(case))).mean(), 1.0, 0.0)
    yield same("output after a longer call", model(given), first)
    if subject.fixed is None:
        negated = {name: -p for name, p in model.parameters.items() if name.endswith("value_weight")}
        other = box(subject, case, negated).run(given)
        yield from moves("distance to a model of other value weights", model.run(given), other)
