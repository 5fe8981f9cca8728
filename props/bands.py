"""The band of usable rates: which rates of a grid bring an optimiser to its target in the budget of steps."""

from dataclasses import dataclass

import numpy as np

from gnomon.props.stepping import Optimiser
from gnomon.props.subject import Subject
from gnomon.spec.bounds import round_to
from gnomon.spec.descent import Method, Rule
from gnomon.spec.evaluators import Floats, Mask

PROBLEMS, COORDINATES, EXAMPLES = 48, 4, 24
BUDGET = 60  # steps
TARGET = 0.05  # of the loss at the start, above the least there is
GRID = tuple(2.0**k for k in range(-14, 15))
_SPREAD = 2.0**-4  # the smallest scale of a coordinate, the largest being one
_NEWTON = 60  # steps to the least loss of a logistic regression, whose curvature is bounded by its ridge
_RIDGE = 2.0**-10
_FAR = 2.0**60  # where what diverged is left


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Losses over `[problems, coordinates]`, half of them quadratics and half logistic regressions, badly scaled.

    start: where descent begins. least: the smallest value of each loss.
    """

    start: Floats
    least: Floats
    curvatures: Floats  # of the quadratics
    inputs: Floats  # of the regressions, [problems, examples, coordinates]

    @property
    def half(self) -> int:
        """How many quadratics there are."""
        return len(self.curvatures)

    def losses(self, x: Floats) -> Floats:
        """The loss of every problem."""
        margins = np.einsum("pec,pc->pe", self.inputs, x[self.half :])
        logistic = np.logaddexp(0.0, -margins).mean(-1) + _RIDGE / 2 * np.square(x[self.half :]).sum(-1)
        return np.concatenate([(self.curvatures * np.square(x[: self.half])).sum(-1) / 2, logistic])

    def gradients(self, x: Floats) -> Floats:
        """The gradient of every problem."""
        margins = np.einsum("pec,pc->pe", self.inputs, x[self.half :])
        pull = -1 / (1 + np.exp(np.clip(margins, -500.0, 500.0))) / self.inputs.shape[1]
        logistic = np.einsum("pe,pec->pc", pull, self.inputs) + _RIDGE * x[self.half :]
        return np.concatenate([self.curvatures * x[: self.half], logistic])

    def reached(self, x: Floats) -> Mask:
        """Which problems are at their target."""
        with np.errstate(all="ignore"):
            gap = (self.losses(x) - self.least) / (self.losses(self.start) - self.least)
        return np.asarray(gap <= TARGET)


def ensemble(seed: int, problems: int = PROBLEMS) -> Ensemble:
    """Fresh problems: scales of coordinates spread over powers of two, regressions of random inputs and labels."""
    rng, half = np.random.default_rng((seed, 41)), problems // 2
    scales = _SPREAD ** (np.arange(COORDINATES) / (COORDINATES - 1)) * rng.uniform(0.7, 1.4, (problems, COORDINATES))
    sizes = 2.0 ** rng.uniform(-2, 2, (problems, 1))
    curvatures = np.square(scales[:half]) * sizes[:half]
    # Labels are folded into the inputs: the margin of an example is its label times its score.
    teacher = rng.standard_normal((half, 1, COORDINATES))
    plain = rng.standard_normal((half, EXAMPLES, COORDINATES))
    label = np.where(rng.random((half, EXAMPLES)) < 1 / (1 + np.exp(-(plain * teacher).sum(-1))), 1.0, -1.0)
    inputs = plain * label[..., None] * scales[half:, None] * np.sqrt(sizes[half:, None])
    start = rng.choice([-1.0, 1.0], (problems, COORDINATES)) * rng.uniform(0.5, 1.5, (problems, COORDINATES))
    drawn = Ensemble(start, np.zeros(problems), curvatures, inputs)
    return Ensemble(start, drawn.losses(_least(drawn)), curvatures, inputs)


def _least(e: Ensemble) -> Floats:
    """Where the losses are least, by Newton's method for the regressions."""
    x = np.zeros_like(e.start)
    for _ in range(_NEWTON):
        margins = np.einsum("pec,pc->pe", e.inputs, x[e.half :])
        weight = 1 / (2 + 2 * np.cosh(margins)) / e.inputs.shape[1]
        hessian = np.einsum("pe,pec,ped->pcd", weight, e.inputs, e.inputs) + _RIDGE * np.eye(COORDINATES)
        move = np.linalg.solve(hessian, e.gradients(x)[e.half :, :, None])[..., 0]
        x[e.half :] -= move / np.maximum(1.0, np.abs(move).max(-1, keepdims=True))
    return x


def reaches(subject: Subject, kind: Method, e: Ensemble, rate: float, budget: int = BUDGET) -> Mask:
    """Which problems are at their target at the end of the budget."""
    form = subject.precision.storage
    x = {"x": round_to(e.start, form)}
    optimiser = Optimiser(subject, Rule(kind=kind, rate=rate), x)
    for _ in range(budget):
        with np.errstate(all="ignore"):
            gradient = np.clip(np.nan_to_num(e.gradients(x["x"])), -_FAR, _FAR)
        x = optimiser.step({"x": round_to(gradient, form)})
        x = {"x": np.clip(np.nan_to_num(x["x"], nan=_FAR), -_FAR, _FAR)}
    return e.reached(x["x"])


@dataclass(frozen=True, eq=False)
class Bands:
    """Which rates of the grid reach each problem's target, `[rates, problems]`."""

    kind: Method
    grid: tuple[float, ...]
    usable: Mask

    @property
    def widths(self) -> Floats:
        """How many rates are usable for each problem."""
        return np.asarray(self.usable.sum(0))

    @property
    def ended(self) -> Mask:
        """For which problems there is a usable rate, and the smallest and the largest of the grid are not."""
        return np.asarray(self.usable.any(0) & ~self.usable[0] & ~self.usable[-1])

    def told(self) -> str:
        """The usual band, in words: the ends in the middle of all problems."""
        ends = np.array([self.ends(problem) for problem in range(self.usable.shape[1])])
        if not self.usable.any():
            return f"{self.kind} reaches no target"
        low, high = np.nanmedian(ends, axis=0)
        return f"{self.kind} from {low:.3g} to {high:.3g}, {np.median(self.widths):g} rates"

    def ends(self, problem: int) -> tuple[float, float]:
        """The smallest and the largest usable rate of a problem, NaN where there is none."""
        found = np.flatnonzero(self.usable[:, problem])
        return (self.grid[found[0]], self.grid[found[-1]]) if found.size else (np.nan, np.nan)


def bands(subject: Subject, kind: Method, e: Ensemble) -> Bands:
    """The bands of an optimiser over the grid."""
    return Bands(kind, GRID, np.stack([reaches(subject, kind, e, rate) for rate in GRID]))
