"""VII.1 held to what an implementation learns: deep stacks of feed-forward networks, plain and with residuals."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from gnomon.props.cases import EXPERIMENTS, ExperimentCase
from gnomon.props.experiments import RUNS, Adam, Named, in_most_runs, require_training
from gnomon.props.judge import Comparison
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import block as spec
from gnomon.spec.evaluators import Floats

Comparisons = Iterator[Comparison]

WIDTH, INNER, EXAMPLES, DEPTH = 6, 5, 16, 10
STEPS, TAIL, RATE = 80, 10, 0.01
SHAPES = {"up_weight": (INNER, WIDTH), "down_weight": (WIDTH, INNER)}
OWN = np.arange(RUNS)


def side_by_side(weights: Floats) -> Floats:
    """A weight for every run `[runs, out, in]` as one weight, zero between the runs."""
    whole = np.zeros((RUNS, weights.shape[1], RUNS, weights.shape[2]))
    whole[OWN, :, OWN] = weights
    return whole.reshape(RUNS * weights.shape[1], -1)


def apart(whole: Floats, shape: tuple[int, int]) -> Floats:
    """What lies within the runs of one weight, `[runs, out, in]`."""
    return whole.reshape(RUNS, shape[0], RUNS, shape[1])[OWN, :, OWN]


@dataclass(eq=False)
class Stack:
    """As many networks as it is deep, one after another, that learn to turn a random input: one stack a run.

    The runs lie side by side in one width, with weights that are zero between them. Weights begin with variance one
    over their inputs; what a residual stack writes into its stream begins smaller by the root of the depth.
    """

    subject: Subject
    seed: int
    depth: int
    residual: bool
    weights: list[Named] = field(default_factory=list)

    def loss(self) -> Floats:
        """The mean squared error of the last steps, for every run."""
        rng = np.random.default_rng(self.seed)
        turn = np.linalg.qr(rng.standard_normal((RUNS, WIDTH, WIDTH)))[0]
        smaller = {"up_weight": 1.0, "down_weight": self.depth**-0.5 if self.residual else 1.0}
        for _ in range(self.depth):
            drawn = {n: rng.standard_normal((RUNS, *s)) / s[1] ** 0.5 for n, s in SHAPES.items()}
            self.weights.append({n: w * smaller[n] for n, w in drawn.items()})
        optimisers = [Adam(RATE) for _ in range(self.depth)]
        return np.asarray(np.mean([self.step(rng, optimisers, turn) for _ in range(STEPS)][-TAIL:], axis=0))

    def step(self, rng: np.random.Generator, optimisers: list[Adam], turn: Floats) -> Floats:
        """The error of every run on fresh examples, and one step of learning from it."""
        x = rng.standard_normal((EXAMPLES, RUNS, WIDTH))
        due = np.einsum("eri,roi->ero", x, turn).reshape(1, EXAMPLES, -1)
        layers = [{n: side_by_side(w) for n, w in own.items()} for own in self.weights]
        inputs = [x.reshape(1, EXAMPLES, -1)]
        for layer in layers:
            inputs.append(self.after(inputs[-1], layer))
        error = inputs.pop() - due
        upstream = 2 * error / (EXAMPLES * WIDTH)
        for x, layer, own, adam in list(zip(inputs, layers, self.weights, optimisers, strict=True))[::-1]:
            by_x, by = self.subject.vjp("feed_forward", x, layer, upstream=upstream, activation="relu")
            upstream = by_x + upstream if self.residual else by_x
            adam.step(own, {n: apart(by[n], s) for n, s in SHAPES.items()})
        return np.asarray((error.reshape(EXAMPLES, RUNS, WIDTH) ** 2).mean((0, 2)))

    def after(self, x: Floats, layer: Named) -> Floats:
        """The stream after one network."""
        out = self.subject.call("feed_forward", x, layer, shape=x.shape, activation="relu")
        return x + out if self.residual else out


@checks(spec.DEGRADATION, EXPERIMENTS, experiment=True, needs=("feed_forward",))
def degradation(subject: Subject, case: ExperimentCase) -> Comparisons:
    """In nearly every run the deep stack ends above the shallow one without residuals, and below it with them."""
    require_training(subject)
    plain, residual = (
        [Stack(subject, case.seed, depth, kept).loss() for depth in (1, DEPTH)] for kept in (False, True)
    )
    yield in_most_runs("the deep plain stack ends above the shallow one", plain[1] > plain[0])
    yield in_most_runs("the deep stack with residuals ends below the shallow one", residual[1] < residual[0])
