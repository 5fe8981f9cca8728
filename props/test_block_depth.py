"""VII.1.7 held to an implementation: what depth makes of gradients at initialisation.

Each statement is a sign test: in every one of twenty independent trials the sign has to be the due one. Where that were
so in no more than half of them, all twenty would agree once in 2²⁰ runs.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from gnomon.props.box import Input, built
from gnomon.props.cases import EXPERIMENTS, ExperimentCase, Rng
from gnomon.props.judge import Comparison, same
from gnomon.props.outcome import Declined
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import block as spec
from gnomon.spec.bounds import round_to
from gnomon.spec.configuration import Configuration
from gnomon.spec.evaluators import Floats, Mask
from gnomon.spec.families import FAMILIES, PRE_SEQUENTIAL, member
from gnomon.spec.shapes import parameter_shapes

Comparisons = Iterator[Comparison]

TRIALS, DRAWS = 20, 3  # the means of so many draws of the logarithm of a ratio
SHALLOW, DEEP = 1, 12
FALLS, STAYS = -0.4, -0.6  # between −1.0 and 0, their means for the two placements, four times their deviation off each
POST = tuple(f for f in FAMILIES if FAMILIES[f].traits.get("placement") == "post")


def initial(c: Configuration, rng: Rng, subject: Subject) -> dict[str, Floats]:
    """Normal weights of variance one over their inputs, gains of one, no biases."""

    def drawn(name: str, shape: tuple[int, ...]) -> Floats:
        if name.endswith("bias"):
            return np.zeros(shape)
        if len(shape) == 1:
            return np.full(shape, 0.0 if c.norm_offset else 1.0)
        size = 1.0 if name.endswith("embedding") else shape[1] ** -0.5
        return round_to(rng.standard_normal(shape) * size, subject.precision.storage)

    return {name: drawn(name, shape) for name, shape in parameter_shapes(c).items()}


def last_layer(subject: Subject, family: str, layers: int, rng: Rng) -> float:
    """The size of the gradient by the last layer's last matrix."""
    c = member(
        family, vocabulary=32, layers=layers, heads=2, kv_heads=2, head_width=32, feed_forward=64, base=10000.0,
        window=4, widened=0,
    )  # fmt: skip
    model = built(subject, c, initial(c, rng, subject))
    tokens = rng.integers(0, c.vocabulary, (4, 4))
    upstream = round_to(rng.standard_normal((4, 4, model.width)), subject.precision.storage)
    return size(model.gradients(Input(tokens), upstream)[f"layers.{layers - 1}.down_weight"])


def size(x: Floats) -> float:
    """The root of the sum of the squares."""
    return float(np.sqrt((x * x).sum()))


def trials(ratio: Sequence[float]) -> Floats:
    """The logarithms of ratios, several to a trial."""
    means: Floats = np.log(np.asarray(ratio)).reshape(TRIALS, DRAWS).mean(1)
    return means


def unanimous(what: str, agreeing: Mask) -> Comparison:
    """All trials agree."""
    return same(f"trials of {TRIALS} in which {what}", int(agreeing.sum()), TRIALS)


@checks(spec.DEPTH_GRADIENTS, EXPERIMENTS, needs=("model",), experiment=True)
def last_layer_gradients(subject: Subject, case: ExperimentCase) -> Comparisons:
    """The same family shallow and deep, one of each placement that is offered."""
    if subject.fixed is not None:
        raise Declined("it has parameters of its own, and this is about initial ones")
    rng, offered = case.rng, subject.implementation.declaration.families
    for families, falls in ((PRE_SEQUENTIAL, True), (POST, False)):
        family = next((f for f in families if f in offered), None)
        if family is not None:
            pairs = [[last_layer(subject, family, n, rng) for n in (DEEP, SHALLOW)] for _ in range(TRIALS * DRAWS)]
            found = trials([deep / shallow for deep, shallow in pairs])
            what = f"the last gradient of {family} {'falls' if falls else 'does not fall'} with depth"
            yield unanimous(what, found < FALLS if falls else found > STAYS)


_WIDTH, _LAYERS, _LOST = 32, 12, -1.0


@checks(spec.DEPTH_GRADIENTS, EXPERIMENTS, needs=("feed_forward",), experiment=True)
def input_gradients(subject: Subject, case: ExperimentCase) -> Comparisons:
    """Feed-forward networks one on another, with additions around them and without."""
    ratios = [
        [through(subject, np.random.default_rng((case.seed, i)), added) for added in (True, False)]
        for i in range(TRIALS * DRAWS)
    ]
    with_additions, plain = (trials([r[i] for r in ratios]) for i in (0, 1))
    yield unanimous("the gradient survives additions", with_additions > _LOST)
    yield unanimous("the gradient is lost without them", plain < _LOST)


def through(subject: Subject, rng: Rng, added: bool) -> float:
    """The size of the gradient below the stack over that above it."""
    form = subject.precision.storage
    x, layers, shape = rng.standard_normal((1, 2, _WIDTH)), [], (1, 2, _WIDTH)
    for _ in range(_LAYERS):
        weights = {n: round_to(rng.standard_normal((_WIDTH, _WIDTH)) / _WIDTH**0.5, form) for n in _MATRICES}
        layers.append((round_to(x, form), weights))
        out = subject.call("feed_forward", layers[-1][0], weights, shape=shape, activation="relu")
        x = out + x if added else out
    above = g = round_to(rng.standard_normal(shape), form)
    for inner, weights in reversed(layers):
        back = subject.vjp("feed_forward", inner, weights, upstream=round_to(g, form), activation="relu")[0]
        g = back + g if added else back
    return size(g) / size(above)


_MATRICES = ("up_weight", "down_weight")
