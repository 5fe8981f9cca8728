"""Cases of formats, loss scaling, master copies and dropout, of numbers that are exact wherever they go."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gnomon.props.cases import SEEDS, Case, Strategy
from gnomon.props.outcome import ImplementationFailed
from gnomon.props.subject import Subject, guarded
from gnomon.spec.bounds import round_to
from gnomon.spec.evaluators import Floats
from gnomon.spec.formats import LAYOUTS, Layout
from gnomon.spec.precision import Format

_GRAIN = 2.0**-26  # a quarter of the smallest number of half precision
_MANY = 2**20
_UNUSED = 0.1  # the share of gradients that are zero
_MOST = 16  # grains in a gradient: few enough that every sum of a case is exact in float32
CLIP = 2.0**-18  # above the norm of any gradient of a case, below that of any scaled one


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatCase(Case):
    """All numbers of one format."""

    format: str = "float16"

    @property
    def layout(self) -> Layout:
        """The format by its bits."""
        return LAYOUTS[self.format]


FORMAT_CASES = st.builds(FormatCase, format=st.sampled_from(tuple(LAYOUTS)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SumCase(Case):
    """A row of ones: how many, and how many more the first of them is worth."""

    length: int = 1
    first: int = 1

    @property
    def row(self) -> Floats:
        """`[length]`, the first entry a power of two."""
        ones = np.ones(self.length)
        ones[0] = 2.0 ** (self.first - 1)
        return ones


SUM_CASES = st.builds(
    SumCase, length=st.one_of(st.integers(1, 6000), st.sampled_from((300, 2100, 4099))), first=st.integers(1, 12)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalerCase(Case):
    """Some steps of plain descent on gradients around the floor of half precision, under a scale of 2^exponent.

    spoilt: which step overflows, 0 for none. notanumber: whether by NaN and not by infinity. clipped: whether the norm
    is limited, above what any of the gradients has.
    """

    exponent: int = 10
    steps: int = 1
    width: int = 1
    spoilt: int = 0
    notanumber: bool = False
    clipped: bool = False

    @property
    def rate(self) -> float:
        """A power of two."""
        return 2.0 ** -(self.seed % 3)

    def tensors(self, step: int) -> dict[str, Floats]:
        """Gradients, or for step 0 the parameters: a few quarters of the smallest number of half precision."""
        rng = np.random.default_rng((self.seed, step))
        drawn = rng.integers(1, _MOST + 1, (2, 2, self.width)) * rng.choice([-1, 1], (2, 2, self.width))
        weight, bias = drawn * _GRAIN
        return {"weight": weight, "bias": bias[0]}

    def spoil(self, gradients: dict[str, Floats]) -> dict[str, Floats]:
        """The gradients with one entry of the last tensor that is no finite number."""
        bias = gradients["bias"].copy()
        bias[-1] = np.nan if self.notanumber else np.inf
        return {**gradients, "bias": bias}


def scaler_cases(subject: Subject) -> Strategy:
    """Runs of a few steps, clipped ones only where the subject can clip."""
    clips = subject.offers("loss_scaler", "clip")
    built = st.builds(
        ScalerCase,
        seed=SEEDS,
        exponent=st.integers(12, 16),
        steps=st.integers(1, 4),
        width=st.integers(1, 3),
        spoilt=st.integers(0, 4),
        notanumber=st.booleans(),
        clipped=st.booleans() if clips else st.just(False),
    )
    return built.filter(lambda c: c.spoilt <= c.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterCase(Case):
    """A parameter of 16 bits and updates of an eighth of its spacing."""

    width: int = 1
    steps: int = 1

    def parameter(self, form: Format) -> Floats:
        """Numbers from one to one and a half with every digit of the format in use."""
        grid = 2.0 ** (form.digits - 1)
        return np.asarray(1 + self.rng.integers(0, int(min(grid / 2, _MANY)), self.width) / grid)

    def gradient(self, form: Format, narrow: bool) -> Floats:
        """What moves each number at a rate of one half by its spacing, or by an eighth where the format is narrow."""
        return np.full(self.width, -(2.0 ** (2 - form.digits)) / (8 if narrow else 1))


MASTER_CASES = st.builds(MasterCase, seed=SEEDS, width=st.integers(1, 4), steps=st.integers(1, 24))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderflowCase(Case):
    """Gradients of three tensors of unequal sizes around the floor of a format, some of them zero."""

    format: str = "float16"
    width: int = 1
    exponent: int = 1

    @property
    def layout(self) -> Layout:
        """The format by its bits."""
        return LAYOUTS[self.format]

    @property
    def scale(self) -> float:
        """A power of two."""
        return float(2.0**self.exponent)

    def gradients(self, form: Format) -> dict[str, Floats]:
        """Sizes from far below the floor of the format to far above it; a tenth is zero, and one tensor altogether."""

        def tensor(size: int) -> Floats:
            sizes = 2.0 ** self.rng.uniform(-self.exponent - 6, self.layout.fraction_bits + 6, size)
            drawn = round_to(sizes * self.layout.smallest * self.rng.choice([-1, 1], size), form)
            return np.where(self.rng.random(size) < _UNUSED, 0.0, drawn)

        return {"table": tensor(40 * self.width), "bias": tensor(3), "unused": np.zeros(5)}


UNDERFLOW_CASES = st.builds(
    UnderflowCase,
    seed=SEEDS,
    format=st.sampled_from(("float16", "float8_e4m3fn", "float8_e5m2")),
    width=st.integers(1, 8),
    exponent=st.integers(1, 8),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropoutCase(Case):
    """Entries to be dropped, a half of them or another share in eighths."""

    width: int = 64
    eighths: int = 4

    @property
    def share(self) -> float:
        """What is dropped."""
        return self.eighths / 8

    def arrays(self) -> tuple[Floats, Floats]:
        """Input and upstream gradient `[2, 8, width]`, nowhere zero, each of few digits."""
        drawn = self.rng.integers(1, 9, (2, 2, 8, self.width)) * self.rng.choice([-1, 1], (2, 2, 8, self.width))
        return drawn[0] / 4.0, drawn[1] / 4.0


# Of one shape and three shares, for each of which some frameworks compile anew.
DROPOUT_CASES = st.builds(DropoutCase, seed=SEEDS, eighths=st.sampled_from((1, 4, 7)))

FORMAT_KINDS: tuple[type[Case], ...] = (FormatCase, SumCase, ScalerCase, MasterCase, UnderflowCase, DropoutCase)


class Scaler:
    """The subject's loss scaler at work: gradients in the dtype, parameters in float32 or in a wider dtype."""

    def __init__(self, subject: Subject, parameters: Mapping[str, Floats], **options: Any):
        given = {name: value for name, value in options.items() if value is not None}
        subject.require("loss_scaler", *given)
        self.subject, self.wider = subject, "float32" if subject.precision.narrow else subject.dtype
        handed = {name: subject.framework.give(np.asarray(p), self.wider) for name, p in parameters.items()}
        renamed = subject.implementation.declaration.keywords
        keywords = {renamed.get(name, name): value for name, value in given.items()}
        self.inner = guarded("loss_scaler", subject.function("loss_scaler", None), [handed], keywords)

    @property
    def scale(self) -> float:
        """The scale that the next gradients have to carry."""
        return float(guarded("loss_scaler", lambda: float(self.inner.scale), [], {}))

    def step(self, gradients: Mapping[str, Floats]) -> dict[str, Floats]:
        """The parameters after a step, exact in float64."""
        handed = self.subject.hand(gradients)
        result = guarded("the step of loss_scaler", lambda g: self.inner.step(g), [handed], {})
        if not isinstance(result, Mapping) or set(result) != set(gradients):
            raise ImplementationFailed("the step of loss_scaler returned no parameters by their names")
        return {name: self._taken(result[name], gradients[name].shape) for name in sorted(gradients)}

    def _taken(self, parameter: Any, shape: tuple[int, ...]) -> Floats:
        array, dtype = self.subject.framework.take(parameter)
        if array.shape != shape or dtype != self.wider:
            due = f"{self.wider} of the shape {shape}"
            raise ImplementationFailed(f"loss_scaler returned {dtype} of the shape {array.shape} where {due} is due")
        return array


def checkpointed(subject: Subject, case: DropoutCase, path: str | None) -> tuple[Floats, Floats]:
    """Output and gradient of the subject's recomputed dropout."""
    subject.require("checkpointed_dropout")
    handed = [subject.hand(a) for a in case.arrays()]
    function = subject.function("checkpointed_dropout", path)
    pair = guarded("checkpointed_dropout", function, handed, {"share": case.share, "seed": case.seed % 2**31})
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise ImplementationFailed("checkpointed_dropout returned no pair of an output and a gradient")
    output, gradient = (subject.taken("checkpointed_dropout", a, case.arrays()[0].shape) for a in pair)
    return output, gradient


def storable(x: Floats, form: Format) -> Floats:
    """The numbers that the format under test holds, NaN among them."""
    return np.asarray(x[(round_to(x, form) == x) | np.isnan(x)])


def try_out(subject: Subject, operation: str) -> None:
    """A small case of what takes or gives more than arrays."""
    if operation == "checkpointed_dropout":
        checkpointed(subject, DropoutCase(width=2), None)
    elif operation == "loss_scaler":
        case = ScalerCase()
        Scaler(subject, case.tensors(0), rate=case.rate, scale=1024.0).step(case.tensors(1))
    else:
        subject.number(operation, subject.hand({"weight": np.ones((2, 2))}), format="float16", scale=1.0)
