"""I.1.9 held to an implementation: dropout of the declared share, scaled, drawn entry by entry and by its seed."""

from collections.abc import Iterator

import numpy as np

from gnomon.props.cases import EXPERIMENTS, ExperimentCase
from gnomon.props.format_cases import DROPOUT_CASES, DropoutCase
from gnomon.props.judge import Comparison, between, close, same
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import function as spec
from gnomon.spec.evaluators import Floats
from gnomon.spec.statistics import binomial_counts

Comparisons = Iterator[Comparison]

ERROR_PROBABILITY = 1e-9  # of each test; a dropout is held to six of them in each dtype
SHARE = 0.1
SHAPE = (64, 64, 64)  # so many that a share of 0.11 is told from 0.1
_SEEDS = 2**31
_ALIKE = SHARE**2 + (1 - SHARE) ** 2  # how often two independent entries are both dropped or both kept


def dropped(subject: Subject, x: Floats, share: float, seed: int, path: str | None = None) -> Floats:
    """Its dropout."""
    return subject.call("dropout", x, shape=x.shape, share=share, seed=seed, path=path)


def scaled(subject: Subject, x: Floats, share: float) -> tuple[Floats, Floats]:
    """What is kept of x and how far it may be off: the share kept, its reciprocal and the product are each rounded."""
    unit = subject.precision.storage.unit
    want = x / (1 - share)
    return want, np.abs(want) * (3 * unit / (1 - 3 * unit))


def counted(what: str, successes: Floats, share: float) -> Comparison:
    """The number of successes is that of so many independent trials with this share."""
    low, high = binomial_counts(successes.size, share, ERROR_PROBABILITY)
    return between(f"{what} among {successes.size}", float(np.count_nonzero(successes)), low, high, 0.0)


@checks(spec.DROPOUT, EXPERIMENTS, needs=("dropout",), experiment=True)
def dropout(subject: Subject, case: ExperimentCase) -> Comparisons:
    """Among many ones the share dropped, and the agreement between seeds, rows, positions and features, is chance's."""
    seed, other = (int(s) for s in case.rng.choice(_SEEDS, 2, replace=False))
    ones = np.ones(SHAPE)
    for path in (None, *subject.paths("dropout")):
        out = dropped(subject, ones, SHARE, seed, path)
        yield kept("what is kept", subject, out, ones, SHARE)
        yield counted("entries dropped", out == 0, SHARE)
        yield same("the same seed again", dropped(subject, ones, SHARE, seed, path), out)
        anew = dropped(subject, ones, SHARE, other, path)
        yield counted("entries alike under another seed", (anew == 0) == (out == 0), _ALIKE)
        for axis, what in enumerate(("rows", "positions", "features")):
            one, next_one = (np.moveaxis(out, axis, 0)[start::2] == 0 for start in (0, 1))
            yield counted(f"entries alike in neighbouring {what}", one == next_one, _ALIKE)


def kept(what: str, subject: Subject, out: Floats, x: Floats, share: float) -> Comparison:
    """An entry is zero or what it was over the share that is kept."""
    want, blur = scaled(subject, x, share)
    return close(what, out, np.where(out == 0, 0, want), np.where(out == 0, 0, blur))


@checks(spec.DROPOUT, DROPOUT_CASES, needs=("dropout",), mistakes=(spec.SCALING_FORGOTTEN,))
def kept_entries(subject: Subject, case: DropoutCase) -> Comparisons:
    """Whatever the numbers and the share, an entry is zero or divided by the share kept; a share of zero drops none."""
    x, seed = case.arrays()[0], case.seed % _SEEDS
    for path in (None, *subject.paths("dropout")):
        yield kept("what is kept", subject, dropped(subject, x, case.share, seed, path), x, case.share)
        yield same("nothing dropped", dropped(subject, x, 0.0, seed, path), x)
