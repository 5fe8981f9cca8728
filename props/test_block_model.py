"""VII.1 held to blocks and whole models: the definition, the identity path, the stream, the whole plate."""

import math
from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from gnomon.props.box import Box, Input, Run, block, box, equals, rebased
from gnomon.props.expected import bounds, expected
from gnomon.props.fixed import OWN
from gnomon.props.judge import Comparison, between, close, same
from gnomon.props.model_cases import ModelCase, model_cases
from gnomon.props.outcome import Declined
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.props.test_masks_model import SEVERAL, replaced
from gnomon.spec import block as spec
from gnomon.spec.configuration import Configuration
from gnomon.spec.evaluators import Floats
from gnomon.spec.families import OFFSET, PARALLEL, SCALED
from gnomon.spec.shapes import parameter_shapes
from gnomon.spec.statistics import chi_square_tails

Comparisons = Iterator[Comparison]

BLOCK, MODEL = ("block",), ("model",)


def pre_norm(c: Configuration) -> bool:
    """Whether norms stand before the sublayers and nowhere else."""
    return c.placement == "pre"


def identity_path(c: Configuration) -> bool:
    """Whether no norm stands on the stream itself."""
    return c.placement != "post"


def silenced(case: ModelCase, parameters: dict[str, Floats], *ends: str) -> dict[str, Floats]:
    """Zeros for the parameters whose names end so, biases and what a norm adds after them included."""
    names = parameter_shapes(case.configuration)
    return {n: np.zeros_like(parameters[n]) for n in names if n.endswith(ends)}


@checks(spec.DEFINITION, model_cases(favour=(*OFFSET, *PARALLEL)), needs=BLOCK)
def block_definition(subject: Subject, case: ModelCase) -> Comparisons:
    """One block gives the specification's stream."""
    _, got, due = block(subject, case)
    yield close("stream after the block", got, *due)


@checks(spec.DEFINITION, model_cases(layers=1, favour=(*OFFSET, *PARALLEL)), needs=MODEL, share=0.5)
def definition_in_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """A model of one layer gives the specification's output."""
    yield from equals("output", box(subject, case).run(Input(case.tokens())))


@checks(spec.IDENTITY_PATH, model_cases(identity_path), needs=BLOCK, share=0.5)
def identity_block(subject: Subject, case: ModelCase) -> Comparisons:
    """With silent sublayers the stream comes out of a block as it went in."""
    parameters = case.parameters(subject.precision.storage)
    silent = silenced(case, parameters, *_OUTPUTS)
    own = {n.removeprefix("layers.0."): p for n, p in silent.items() if n.startswith("layers.0.")}
    x, got, _ = block(subject, case, own)
    yield same("stream after a silent block", got, x)


_OUTPUTS = ("output_weight", "output_bias", "down_weight", "down_bias")


@checks(spec.IDENTITY_PATH, model_cases(identity_path), needs=MODEL, share=0.5)
def identity_path_in_a_model(subject: Subject, case: ModelCase) -> Comparisons:
    """With silent sublayers no other parameter of a block matters, bit for bit."""
    model = box(subject, case)
    silent = silenced(case, dict(model.parameters), *_OUTPUTS)
    kept = ("norm_weight", "norm_bias", *_OUTPUTS)  # a shift after a sublayer would be added
    others = {n: -p for n, p in model.parameters.items() if n.startswith("layers.") and not n.endswith(kept)}
    given = Input(case.tokens())
    one, other = box(subject, case, silent), box(subject, case, silent | others)
    yield same("output with other weights in silent blocks", other(given), one(given))
    yield from equals("output of silent blocks", one.run(given))


def _traced(model: Box, given: Input) -> Run:
    if model.unknown:
        raise Declined(OWN)
    if not model.offers("trace"):
        raise Declined("its model shows no trace")
    trace: dict[str, object] = {}
    out = model(given, trace=trace)
    return Run(model, given, out, model.noted(trace))


@checks(spec.SUM_OF_CONTRIBUTIONS, model_cases(pre_norm), needs=MODEL, share=0.5)
def sum_of_contributions(subject: Subject, case: ModelCase) -> Comparisons:
    """The last stream in a trace is the first one plus what every sublayer gave."""
    trace, layers, E = _traced(box(subject, case), Input(case.tokens())).trace, range(case.layers), bounds(subject)
    names = [f"layers.{i}.{part}" for i in layers for part in ("attention_output", "feed_forward_output")]
    last = f"layers.{case.layers - 1}.stream"
    missing = [n for n in ("embedding", *names, last) if n not in trace]
    if missing:
        raise Declined(f"its trace shows no {missing[0]}")
    due = E.number(trace["embedding"])
    for attended, network in zip(names[::2], names[1::2], strict=True):
        both = [E.number(trace[n]) for n in (attended, network)]
        due = E.added([due, *both], "stream")
    yield close("last stream", trace[last], *expected(due))


@checks(spec.ONLY_ATTENTION_MIXES, model_cases(time=SEVERAL), needs=MODEL)
def only_attention_mixes(subject: Subject, case: ModelCase) -> Comparisons:
    """Without attention's output another token at one place moves the outputs at that place alone."""
    model = box(subject, case)
    silent = box(subject, case, silenced(case, dict(model.parameters), "output_weight"))
    tokens, place = case.tokens(), case.seed % case.time
    rest = np.arange(case.time) != place
    usual, other = silent(Input(tokens)), silent(Input(replaced(tokens, place, case)))
    yield same("outputs at other places", other[:, rest], usual[:, rest])


def plain_logits(c: Configuration) -> bool:
    """Whether logits are linear in what the last norm gives, and its gain in the stored weight."""
    return c.final_norm and c.output == "logits" and not (c.norm_offset or c.logit_cap or c.unembedding_bias)


@checks(spec.FINAL_NORM, model_cases(plain_logits), needs=MODEL, share=0.5)
def final_norm(subject: Subject, case: ModelCase) -> Comparisons:
    """Twice the gain and the shift of the last norm give twice the logits, exactly but for underflow."""
    model, given = box(subject, case), Input(case.tokens())
    doubled = {n: 2 * p for n, p in model.parameters.items() if n.startswith("final_norm")}
    table = model.parameters["token_embedding" if case.configuration.tied else "unembedding_weight"]
    lost = 4 * subject.precision.storage.underflow * (1 + np.abs(table).sum(-1))
    yield close("logits for twice the gain", box(subject, case, doubled)(given), 2 * model(given), lost)


@checks(spec.WHOLE_PLATE, model_cases(favour=SCALED), needs=MODEL, share=1.5)
def whole_plate(subject: Subject, case: ModelCase) -> Comparisons:
    """Every step of the trace, where there is one, and the output are the specification's."""
    model, given = box(subject, case), Input(case.tokens())
    if model.offers("trace") and not model.unknown:
        yield from rebased("a traced call", _traced(model, given))
    yield from equals("output", model.run(given))


@checks(spec.WHOLE_PLATE, model_cases(favour=SCALED, batch=2, time=SEVERAL), needs=MODEL, share=0.5)
def whole_plate_at_positions(subject: Subject, case: ModelCase) -> Comparisons:
    """The same for positions that the caller gives, other ones in every row."""
    held = subject.fixed
    room = 16 if held is None or not held.context else min(16, held.context - case.time + 1)
    starts = np.random.default_rng((case.seed, 13)).integers(0, room, (case.batch, 1))
    given = Input(case.tokens(), starts + np.arange(case.time))
    yield from equals("output at given positions", box(subject, case).run(given))


ERROR_PROBABILITY = 2.0**-30  # for each sum of each case, about one in a billion


@checks(
    spec.INITIALISATION,
    model_cases(pairs=((4, 4),), head_width=64, feed_forward=16, layers=st.sampled_from((4, 8))),
    needs=("initial_parameters",), share=0.1,
    mistakes=(spec.DEPTH_FACTOR_MISSING, spec.ROWS_ZEROED_BY_ACCIDENT),
)  # fmt: skip
def initialisation(subject: Subject, case: ModelCase) -> Comparisons:
    """Sums of squares lie inside the tails of χ², in tables row by row; gains are one, shifts and biases zero."""
    c, deviation = case.configuration, 0.02
    drawn = subject.tensors("initial_parameters", c, deviation=deviation, depth_scaled=True, seed=case.seed)
    for name, shape in parameter_shapes(c).items():
        yield same(f"numbers in {name}", np.size(drawn.get(name, ())), math.prod(shape))
        if len(shape) == 1:
            one = name.endswith("norm_weight") and not c.norm_offset
            yield same(name, drawn[name], np.full(shape, float(one)))
            continue
        into_the_stream = name.endswith(("output_weight", "down_weight"))
        spread = deviation / (2 * c.layers) ** 0.5 if into_the_stream else deviation
        rows = drawn[name] if name.endswith("embedding") else drawn[name].reshape(1, -1)
        low, high = chi_square_tails(rows.shape[1], ERROR_PROBABILITY)
        yield between(f"squares over the variance in {name}", ((rows / spread) ** 2).sum(1), low, high, 0.0)


@checks(spec.INITIALISATION, model_cases(), needs=MODEL, share=0.3)
def loaded_is_not_touched(subject: Subject, case: ModelCase) -> Comparisons:
    """A model that was given parameters reports these, bit for bit."""
    model = box(subject, case)
    for name, held in model.noted(model.ask("parameters")).items():
        yield same(name, held, model.parameters[name])
