"""Cases of training: parameters, gradients and what an optimiser is told; quadratics; schedules; norms to clip."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gnomon.props.cases import REGIMES, SEEDS, Case, Strategy, filled
from gnomon.spec.bounds import round_to
from gnomon.spec.descent import CURVES, METHODS, Curve, Method, Rule, Schedule
from gnomon.spec.evaluators import Floats
from gnomon.spec.precision import Format

Named = dict[str, Floats]

RATES = (0.125, 0.1, 0.5, 2.0**-7, 0.01, 1.0)
BETAS = ((0.9, 0.999), (0.9, 0.95), (0.5, 0.75), (0.75, 0.75))
EPSILONS = (1e-8, 0.0625, 0.5, 2.0**-17)
DECAYS = (0.25, 0.1, 0.5)
MOMENTA = (0.9, 0.5)
# By how many powers of two gradients are scaled; the squares of small ones fall through the floor of float16.
SCALES, SCALES_OF_FLOAT16 = (0, -8, -4, 4, -12, 8), (0, 1, 2, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCase(Case):
    """Parameters in some tensors, gradients for some steps, and a rule."""

    method: str = "sgd"  # one of METHODS
    tensors: int = 1
    width: int = 1
    steps: int = 1
    momentum: bool = False
    decaying: bool = False
    varied: bool = False

    @property
    def rule(self) -> Rule:
        """What the optimiser is told."""
        chosen = np.random.default_rng((self.seed, 31))
        kind: Any = self.method
        betas = BETAS[int(chosen.integers(len(BETAS)))]
        return Rule(
            kind=kind, rate=_one(chosen, RATES), momentum=_one(chosen, MOMENTA) if self.momentum else 0.0,
            betas=betas, epsilon=_one(chosen, EPSILONS), weight_decay=_one(chosen, DECAYS) if self.decaying else 0.0,
        )  # fmt: skip

    @property
    def rates(self) -> tuple[float | None, ...]:
        """The rate given at each step, none where it is that of the rule; never that at the first one alone."""
        given = [0.25, None, 0.1, 0.75]
        return tuple(given[(self.seed + i) % 4] if self.varied else None for i in range(self.steps))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """A vector, a matrix, and so on in turn."""
        return {f"w{i}": (2, self.width) if i % 2 else (self.width,) for i in range(self.tensors)}

    def parameters(self, form: Format) -> Named:
        """Numbers of the regime."""
        rng = np.random.default_rng((self.seed, 32))
        return {name: filled(self, rng, form, *shape) for name, shape in self.shapes.items()}

    def gradients(self, form: Format) -> list[Named]:
        """For each step numbers of one scale for every tensor, with the exact zeros of unused rows."""
        rng = np.random.default_rng((self.seed, 33))
        scales = SCALES_OF_FLOAT16 if form.name == "float16" else SCALES
        each = {name: 2.0 ** _one(rng, scales) for name in self.shapes}
        drawn = [{n: rng.standard_normal(s) * each[n] for n, s in self.shapes.items()} for _ in range(self.steps)]
        return [{n: round_to(np.where(rng.random(g.shape) < 0.1, 0.0, g), form) for n, g in d.items()} for d in drawn]

    def few_bits(self, form: Format) -> list[Named]:
        """For each step gradients of one sign an entry over all steps, of five bits, between one half and four."""
        rng = np.random.default_rng((self.seed, 34))
        signs = {n: rng.choice([-1.0, 1.0], s) for n, s in self.shapes.items()}
        return [{n: signs[n] * rng.integers(4, 32, s) / 8.0 for n, s in self.shapes.items()} for _ in range(self.steps)]

    def zeros(self) -> Named:
        """Parameters of zero."""
        return {name: np.zeros(shape) for name, shape in self.shapes.items()}


def _one(rng: np.random.Generator, choices: tuple[Any, ...]) -> Any:
    return choices[int(rng.integers(len(choices)))]


def step_cases(*methods: Method, **given: Any) -> Strategy:
    """Steps of these methods, of all where none is named; a keyword fixes a field, by a value or a strategy."""
    usual = {
        "regime": st.sampled_from(tuple(REGIMES)),
        "seed": SEEDS,
        "method": st.sampled_from(methods or METHODS),
        "tensors": st.integers(1, 3),
        "width": st.integers(1, 5),
        "steps": st.integers(1, 4),
        "momentum": st.just(False),
        "decaying": st.booleans(),
        "varied": st.booleans(),
    }
    return st.builds(StepCase, **_given(usual, given))


def _given(usual: dict[str, Strategy], given: dict[str, Any]) -> dict[str, Strategy]:
    return usual | {n: v if isinstance(v, st.SearchStrategy) else st.just(v) for n, v in given.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuadraticCase(Case):
    """A quadratic of two to the power `mixed` coordinates whose axes are Walsh functions, and a rate.

    above: whether the rate is above two over the curvature.
    """

    mixed: int = 1
    steps: int = 1
    above: bool = False

    @property
    def size(self) -> int:
        """How many coordinates there are."""
        return int(2**self.mixed)

    @property
    def axes(self) -> Floats:
        """The orthogonal directions, each of entries ±1 and so of squared length `size`."""
        walsh = np.ones((1, 1))
        for _ in range(self.mixed):
            walsh = np.block([[walsh, walsh], [walsh, -walsh]])
        return walsh

    @property
    def curvatures(self) -> Floats:
        """The curvature along every axis, largest along the first."""
        rng = np.random.default_rng((self.seed, 35))
        below = rng.choice([0.5, 0.25, 0.75, 0.125, 1.0], self.size)
        below[0] = 1.0
        return below * 2.0 ** int(rng.integers(-2, 3))

    @property
    def top(self) -> float:
        """The largest curvature."""
        return float(self.curvatures[0])

    @property
    def rate(self) -> float:
        """A rate in the stated relation to the curvature."""
        shares = (2.25, 2.5, 3.0) if self.above else (1.5, 1.75, 0.5, 1.0)
        return shares[self.seed % len(shares)] / self.top

    @property
    def start(self) -> Floats:
        """Where descent starts: along the axes at whole numbers, none of them zero."""
        along = np.random.default_rng((self.seed, 36)).integers(1, 8, self.size) * (-1.0) ** np.arange(self.size)
        return np.asarray(self.axes @ along)

    @property
    def at_start(self) -> Mapping[str, Floats]:
        """The same, by name."""
        return {"x": self.start}

    def exact_gradient(self, x: Floats) -> list[Fraction]:
        """The gradient, without rounding."""
        along = [sum((Fraction(v) * int(s) for v, s in zip(x, row, strict=True)), Fraction(0)) for row in self.axes]
        pulled = [Fraction(float(c)) * a / self.size for c, a in zip(self.curvatures, along, strict=True)]
        return [sum((p * int(s) for p, s in zip(pulled, row, strict=True)), Fraction(0)) for row in self.axes]

    def loss(self, x: Floats) -> Fraction:
        """Half of xᵀAx, without rounding."""
        return sum((Fraction(v) * g for v, g in zip(x, self.exact_gradient(x), strict=True)), Fraction(0)) / 2


def quadratic_cases(**given: Any) -> Strategy:
    """Quadratics; a keyword fixes a field, by a value or a strategy."""
    usual = {"seed": SEEDS, "mixed": st.integers(1, 2), "steps": st.integers(1, 3)}
    return st.builds(QuadraticCase, **_given(usual, given))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCase(Case):
    """A schedule with its lengths."""

    curve: str = "linear"  # one of CURVES
    warmup: int = 1
    fall: int = 1
    raised: bool = False

    @property
    def schedule(self) -> Schedule:
        """The schedule; without a warm-up where the case says one step of it."""
        rng = np.random.default_rng((self.seed, 37))
        kind: Curve = CURVES[CURVES.index(self.curve)]
        warmup, peak = self.warmup - 1, _one(rng, (1.0, 0.01, 0.3, 2.0))
        return Schedule(
            kind=kind, peak=peak, warmup=warmup, total=warmup + self.fall, minimum=peak / 8 if self.raised else 0.0
        )

    @property
    def steps(self) -> tuple[int, ...]:
        """The ends, what lies beside them, the middle, and some steps past the end."""
        s = self.schedule
        seen = {
            0,
            1,
            s.warmup - 1,
            s.warmup,
            s.warmup + 1,
            (s.warmup + s.total) // 2,
            s.total - 1,
            s.total,
            s.total + 3,
        }
        return tuple(sorted(step for step in seen if step >= 0))


def schedule_cases(**given: Any) -> Strategy:
    """Schedules; a keyword fixes a field, by a value or a strategy."""
    usual = {
        "seed": SEEDS, "curve": st.sampled_from(CURVES), "warmup": st.integers(1, 9), "fall": st.integers(2, 40),
        "raised": st.booleans(),
    }  # fmt: skip
    return st.builds(ScheduleCase, **_given(usual, given))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipCase(Case):
    """Gradients in some tensors, and a limit as a share of their norm; above: whether that is above it."""

    tensors: int = 1
    width: int = 1
    above: bool = False
    scaled: bool = False

    @property
    def scale(self) -> float | None:
        """By what the loss was multiplied."""
        return (64.0, 0.125, 16.0)[self.seed % 3] if self.scaled else None

    def gradients(self, form: Format) -> Named:
        """Numbers of another size in every tensor."""
        rng = np.random.default_rng((self.seed, 38))
        shapes = [(2, self.width) if i % 2 else (self.width,) for i in range(self.tensors)]
        return {f"w{i}": round_to(rng.standard_normal(s) * 2.0 ** (i - 1), form) for i, s in enumerate(shapes)}

    @property
    def share(self) -> float:
        """The limit over the norm."""
        return (1.5, 8.0, 2.0)[self.seed % 3] if self.above else (0.5, 0.1, 0.75, 0.01)[self.seed % 4]


def clip_cases(**given: Any) -> Strategy:
    """Gradients to clip; a keyword fixes a field, by a value or a strategy."""
    usual = {
        "seed": SEEDS, "tensors": st.integers(1, 3), "width": st.integers(1, 6), "above": st.booleans(),
        "scaled": st.booleans(),
    }  # fmt: skip
    return st.builds(ClipCase, **_given(usual, given))


TRAINING_KINDS: tuple[type[Case], ...] = (StepCase, QuadraticCase, ScheduleCase, ClipCase)
