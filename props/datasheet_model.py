"""More of the datasheet: norms and activations from single numbers, cache and model from a small member of a family."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np

from gnomon.props.box import Box, Input, box
from gnomon.props.measure import OTHER
from gnomon.props.model_cases import ModelCase
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.props.subject import Subject
from gnomon.spec.parameters import parameter_count

Measure = Callable[[Subject], str]

_TIME = 5


def nearest(seen: float, choices: Mapping[str, float]) -> str:
    """The choice whose number is nearest to what was seen, and `other` where none is within half the way to another."""
    ranked = sorted(choices, key=lambda name: abs(choices[name] - seen))
    gap = abs(choices[ranked[0]] - choices[ranked[1]])
    return ranked[0] if abs(choices[ranked[0]] - seen) < gap / 2 else OTHER


def variance(subject: Subject) -> str:
    """Over n or n − 1: of the row (−1, 1) without epsilon LayerNorm makes ±1, or ±0.707."""
    row = subject.norm("layer_norm", np.array([[[-1.0, 1.0]]]), np.ones(2), np.zeros(2), eps=0.0)
    return nearest(float(row[0, 0, 1]), {"biased": 1.0, "unbiased": math.sqrt(0.5)})


def epsilon(name: str, subject: Subject) -> str:
    """Of the row (−1, 1), at an epsilon of three, the norm makes a half, a quarter, or one."""
    gains = (np.ones(2), np.zeros(2)) if name == "layer_norm" else (np.ones(2),)
    row = subject.norm(name, np.array([[[-1.0, 1.0]]]), *gains, eps=3.0)
    return nearest(float(row[0, 0, 1]), {"inside the root": 0.5, "outside the root": 0.25, "ignored": 1.0})


def gelu_form(name: str, subject: Subject) -> str:
    """What it makes of −2.5, where the exact, the tanh and the logistic form differ most."""
    x = -2.5
    cubic = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    forms = {
        "exact": x * (1 + math.erf(x / math.sqrt(2))) / 2,
        "tanh": x * (1 + math.tanh(cubic)) / 2,
        "logistic": x / (1 + math.exp(-1.702 * x)),
    }
    seen = subject.call(name, np.full((1, 1, 1), x), shape=(1, 1, 1))
    return nearest(float(seen[0, 0, 0]), forms)


def _small(subject: Subject) -> tuple[ModelCase, Box]:
    """A small model of the first family that it declares."""
    family = subject.implementation.declaration.families[0]
    case = ModelCase(family=family, layers=2, heads=2, kv_heads=2, head_width=4, window=2, time=_TIME, seed=1)
    return case, box(subject, case)


def _takes(option: str, subject: Subject) -> str:
    """Whether a call with that keyword gives a result."""
    case, model = _small(subject)
    tokens = case.tokens()
    mask, positions = np.ones((1, _TIME), bool), np.arange(_TIME)[None] + 1
    pairs = np.broadcast_to(mask[:, None], (1, _TIME, _TIME))
    given = {"mask of keys": {"mask": mask}, "mask of pairs": {"mask": pairs}, "positions": {"positions": positions}}
    try:
        model(Input(tokens, **given[option]))
    except Declined as reason:
        return f"declined: {reason}"
    return "taken"


def sight(subject: Subject) -> str:
    """How many tokens the last output and the first one of a single layer depend on."""
    case, _ = _small(subject)
    one = ModelCase(**{n: getattr(case, n) for n in case.__slots__} | {"layers": 1})
    model, tokens = box(subject, one), one.tokens()
    usual = model(Input(tokens))

    def moved(place: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        other = tokens.copy()
        other[:, place] = (other[:, place] + 1) % one.vocabulary
        return np.asarray((model(Input(other)) != usual).any((0, 2)))

    seen = np.array([moved(place) for place in range(_TIME)])
    return f"the last {int(seen[:, -1].sum())} of {_TIME} tokens, the first output {int(seen[:, 0].sum())}"


def cache(subject: Subject) -> str:
    """What a cache can do, and where the position of the next token is."""
    case, model = _small(subject)
    if not hasattr(model.handle, "new_cache"):
        return "none"
    tokens, filled = case.tokens(), model.ask("new_cache")
    model(Input(tokens[:, :-1]), cache=filled)
    last = model(Input(tokens[:, -1:]), cache=filled)[0, 0]
    restart = Input(tokens, np.array([[*range(_TIME - 1), 0]]))
    distance = {"positions continue": np.abs(model(Input(tokens))[0, -1] - last).max()}
    try:
        distance["positions restart"] = np.abs(model(restart)[0, -1] - last).max()
    except (Declined, ImplementationFailed):
        distance["positions restart"] = np.inf
    methods = [m.removesuffix("_cache") for m in ("reorder_cache", "crop_cache") if hasattr(model.handle, m)]
    return ", ".join([min(distance, key=lambda name: distance[name]), *methods])


def past_the_table(subject: Subject) -> str:
    """What an id does that names no row."""
    case, model = _small(subject)
    try:
        model(Input(np.full((1, 1), case.vocabulary)))
    except ImplementationFailed:
        return "an error"
    return "a result"


def parameters(subject: Subject) -> str:
    """How many parameters it reports beside how many the configuration has."""
    case, model = _small(subject)
    held = sum(np.size(p) for p in model.noted(model.ask("parameters")).values())
    return f"{held} of {parameter_count(case.configuration)}"


def trace(subject: Subject) -> str:
    """How many named intermediates a call shows."""
    case, model = _small(subject)
    if not model.offers("trace"):
        return "none"
    shown: dict[str, object] = {}
    model(Input(case.tokens()), trace=shown)
    return f"{len(shown)} intermediates of {case.layers} layers"


MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        "variance of layer_norm": variance,
        "epsilon of layer_norm": partial(epsilon, "layer_norm"),
        "epsilon of rms_norm": partial(epsilon, "rms_norm"),
        "gelu": partial(gelu_form, "gelu"),
        "gelu_tanh": partial(gelu_form, "gelu_tanh"),
        "model: sees": sight,
        "model: cache": cache,
        "model: mask of keys": partial(_takes, "mask of keys"),
        "model: mask of pairs": partial(_takes, "mask of pairs"),
        "model: given positions": partial(_takes, "positions"),
        "model: an id past the table": past_the_table,
        "model: parameters reported": parameters,
        "model: trace": trace,
    }
)
DECLARED: Mapping[str, str] = MappingProxyType(
    {"gelu": "exact", "gelu_tanh": "tanh", "variance of layer_norm": "biased"}
)
