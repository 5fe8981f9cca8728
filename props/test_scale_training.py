"""V.2 held to what an implementation learns: a head that recalls by content, with the divisor and without."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.props.cases import EXPERIMENTS, ExperimentCase
from gnomon.props.experiments import RUNS, Adam, Named, in_most_runs, require_training
from gnomon.props.judge import Comparison
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import scale as spec
from gnomon.spec.evaluators import Floats
from gnomon.spec.scale import declared_scale

Comparisons = Iterator[Comparison]

WIDTH, FEATURES, SYMBOLS, KEYS, EXAMPLES, ANSWER = 256, 8, 32, 8, 4, 4
STEPS, TAIL, RATE = 60, 20, 0.03


@dataclass(eq=False)
class Recall:
    """One head a run: it is given symbols with a value each and asked for the value of every one of them.

    Queries and keys are learned maps of the symbols' features, of unit variance at the start. All runs go through one
    call, each in rows of its own.
    """

    subject: Subject
    seed: int
    scale: float

    def losses(self) -> Floats:
        """The squared error of what was recalled, `[steps, runs]`."""
        rng, adam = np.random.default_rng(self.seed), Adam(RATE)
        symbols = rng.standard_normal((RUNS, SYMBOLS, FEATURES))
        maps = {n: rng.standard_normal((RUNS, FEATURES, WIDTH)) / FEATURES**0.5 for n in ("query", "key")}
        return np.stack([self.step(rng, adam, symbols, maps) for _ in range(STEPS)])

    def step(self, rng: np.random.Generator, adam: Adam, symbols: Floats, maps: Named) -> Floats:
        """The error of every run on fresh examples, and one step of learning from it."""
        chosen = rng.random((RUNS, EXAMPLES, SYMBOLS)).argsort(-1)[..., :KEYS, None]
        seen = np.take_along_axis(symbols[:, None], chosen, 2).reshape(RUNS, EXAMPLES * KEYS, FEATURES)
        value = np.zeros((RUNS * EXAMPLES, 1, KEYS, WIDTH))  # as wide as the keys, for those who take no other
        value[..., :ANSWER] = rng.choice((-1.0, 1.0), (RUNS * EXAMPLES, 1, KEYS, ANSWER))
        query, key = ((seen @ maps[n]).reshape(-1, 1, KEYS, WIDTH) for n in ("query", "key"))
        arrays, options = self.scaled(query, key, value)
        error = self.subject.attention(*arrays, **options) - value
        upstream = 2 * error / (KEYS * ANSWER * EXAMPLES)
        found = self.subject.vjp("attention", *arrays, upstream=upstream, **options)
        by = (g.reshape(RUNS, EXAMPLES * KEYS, WIDTH) for g in found[:2])
        adam.step(maps, {n: seen.swapaxes(1, 2) @ g for n, g in zip(("query", "key"), by, strict=True)})
        return np.asarray((error[..., :ANSWER] ** 2).reshape(RUNS, -1).mean(-1))

    def scaled(self, query: Floats, key: Floats, value: Floats) -> tuple[tuple[Floats, Floats, Floats], dict[str, Any]]:
        """The arrays and the keyword that give this scale; without the keyword, queries that undo the declared one."""
        if self.subject.offers("attention", "scale"):
            return (query, key, value), {"scale": self.scale}
        own = float(declared_scale(self.subject.conventions.scale, WIDTH))
        return (query * (self.scale / own), key, value), {}


@checks(spec.STILL_TRAINS, EXPERIMENTS, experiment=True)
def still_trains(subject: Subject, case: ExperimentCase) -> Comparisons:
    """In nearly every run both losses fall, and that without the divisor ends above the other."""
    require_training(subject)
    divided, bare = (Recall(subject, case.seed, scale).losses() for scale in (WIDTH**-0.5, 1.0))
    for losses, what in ((divided, "with the divisor"), (bare, "without the divisor")):
        yield in_most_runs(f"the loss falls {what}", losses[-TAIL:].mean(0) < losses[:3].mean(0))
    yield in_most_runs("it ends higher without the divisor", bare[-TAIL:].mean(0) > divided[-TAIL:].mean(0))
