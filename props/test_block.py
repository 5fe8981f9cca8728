"""VII.1 held to an implementation: its norms are the declared ones, of features alone."""

from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from gnomon.props import expected
from gnomon.props.cases import NormCase, norm_cases
from gnomon.props.judge import Comparison, between, close
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import block as spec
from gnomon.spec.evaluators import Floats

Comparisons = Iterator[Comparison]

OF_EVERY_NORM = (
    spec.EPSILON_OUTSIDE_ROOT,
    spec.EPSILON_OF_THE_FORMAT,
    spec.EPSILON_IGNORED,
    spec.EPSILON_IGNORED,
    spec.SQUARED_FOR_ROOT,
    spec.NORM_OVER_TIME,
    spec.STATISTICS_IN_STORAGE,
)


@checks(spec.NORMS, norm_cases(), needs=("layer_norm",), mistakes=(spec.UNBIASED_VARIANCE, *OF_EVERY_NORM))
def layer_norm(subject: Subject, case: NormCase) -> Comparisons:
    """LayerNorm is its definition, by every path."""
    arrays = case.arrays(subject.precision.storage)
    due = expected.layer_norm(subject, *arrays, eps=case.eps)
    for path in (None, *subject.paths("layer_norm")):
        yield close(f"output{_by(path)}", subject.norm("layer_norm", *arrays, eps=case.eps, path=path), *due)


@checks(spec.NORMS, norm_cases(biased=False), needs=("rms_norm",), mistakes=(*OF_EVERY_NORM, spec.CENTRED_RMS))
def rms_norm(subject: Subject, case: NormCase) -> Comparisons:
    """RMSNorm is its definition, by every path."""
    arrays = case.arrays(subject.precision.storage)
    due = expected.rms_norm(subject, *arrays, eps=case.eps)
    for path in (None, *subject.paths("rms_norm")):
        yield close(f"output{_by(path)}", subject.norm("rms_norm", *arrays, eps=case.eps, path=path), *due)


def _by(path: str | None) -> str:
    return "" if path is None else f" by the path {path!r} "


WITHOUT_EPSILON = norm_cases(regime="ordinary", epsilon=10, width=st.sampled_from((2, 3, 5, 8, 16)))


@checks(spec.NORMS, WITHOUT_EPSILON, needs=("layer_norm",), mistakes=(spec.SQUARED_FOR_ROOT,))
def forgets_shift_and_scale(subject: Subject, case: NormCase) -> Comparisons:
    """At epsilon zero a row shifted and scaled gives the LayerNorm of the row."""
    _, *gains = case.arrays(subject.precision.storage)
    x, scale, shift = coarse(case)
    got, plain = (subject.norm("layer_norm", a, *gains, eps=0.0) for a in (scale * x + shift, x))
    blur = (expected.layer_norm(subject, a, *gains, eps=0.0).allowed for a in (scale * x + shift, x))
    yield close("LayerNorm of a row shifted and scaled", got, plain, sum(blur))


@checks(spec.NORMS, WITHOUT_EPSILON, needs=("rms_norm",), mistakes=(spec.SQUARED_FOR_ROOT, spec.CENTRED_RMS))
def forgets_scale_alone(subject: Subject, case: NormCase) -> Comparisons:
    """At epsilon zero a row scaled gives the RMSNorm of the row, and a row shifted does not."""
    _, gain, *_ = case.arrays(subject.precision.storage)
    x, scale, shift = coarse(case)
    inputs = x, scale * x, x + shift
    plain, scaled, shifted = (subject.norm("rms_norm", a, gain, eps=0.0) for a in inputs)
    due, of_scaled, of_shifted = (expected.rms_norm(subject, a, gain, eps=0.0) for a in inputs)
    yield close("RMSNorm of a row scaled", scaled, plain, due.allowed + of_scaled.allowed)
    blur = due.allowed + of_shifted.allowed
    moves = np.abs(of_shifted.value - due.value) > 2 * blur
    yield between("distance of a row shifted", np.abs(shifted - plain), np.where(moves, blur, 0.0), np.inf, 0.0)


def coarse(case: NormCase) -> tuple[Floats, float, float]:
    """Rows of quarters, a power of two and an integer, so that rows scaled and shifted are exact in every format."""
    x = case.rng.integers(-16, 17, (case.batch, case.time, case.width)) / 4.0
    scale, shift = 2.0 ** case.rng.choice([-2, -1, 1, 2]), float(case.rng.choice([-8, -3, 1, 6]))
    return x, float(scale), shift
