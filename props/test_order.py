"""VI.1 held to an implementation: no opinion about order, codes of positions, and slopes of a linear bias."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gnomon.props import expected
from gnomon.props.cases import LENGTHS, MultiHeadCase, OrderCase, multi_head_cases, order_cases
from gnomon.props.judge import Comparison, close
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import order as spec
from gnomon.spec.bounds import Bounds, Tracked
from gnomon.spec.evaluators import Floats
from gnomon.spec.precision import declared
from gnomon.spec.rotary import turned_pairs

Comparisons = Iterator[Comparison]

FARTHEST_SHIFT = 50


@checks(
    spec.EQUIVARIANT,
    multi_head_cases(causal=False, time=st.sampled_from(LENGTHS[1:6])),
    needs=("multi_head_attention",),
)
def equivariant(subject: Subject, case: MultiHeadCase) -> Comparisons:
    """Tokens permuted before the layer give what outputs permuted after it are."""
    x, parameters = case.input(subject.precision.storage), case.parameters(subject.precision.storage)
    order = case.rng.permutation(case.time) if case.seed % 2 else np.arange(case.time)[::-1]
    before, after = (subject.multi_head(a, parameters, **case.options()) for a in (x[:, order], x))
    (_, allowed), (_, blur) = (expected.multi_head(subject, a, parameters, **case.options()) for a in (x[:, order], x))
    yield close("output for permuted tokens", before, after[:, order], allowed + blur[:, order])


@checks(spec.SINUSOIDS, order_cases(), needs=("sinusoidal_positions",))
def sinusoids(subject: Subject, case: OrderCase) -> Comparisons:
    """The codes are sines and cosines in their places, and those of a shift are the same codes turned."""
    positions, shift = case.positions, 1 + case.seed % FARTHEST_SHIFT
    got, due = subject.sinusoidal_positions(positions, case.width), _codes(subject, case, positions)
    yield close("code", got, *due)
    later = subject.sinusoidal_positions(positions + shift, case.width)
    moved = _shifted(subject, got, due.allowed, shift)
    blur = _codes(subject, case, positions + shift).allowed
    yield close(f"code {shift} later", later, moved.value, blur + moved.error)


def _codes(subject: Subject, case: OrderCase, positions: Any) -> expected.Expected:
    return expected.sinusoidal_positions(subject, positions, case.width)


def _shifted(subject: Subject, codes: Floats, allowed: Floats, shift: int) -> Tracked:
    """The codes that belong so many positions later, by the one linear map that depends on the shift alone."""
    E, width = Bounds(declared("float64")), codes.shape[-1]
    known = Tracked(codes, allowed, E.precision)
    concatenated = subject.conventions.sinusoids == "concatenated"
    half = width // 2
    sine, cosine = (known[..., :half], known[..., half:]) if concatenated else (known[..., 0::2], known[..., 1::2])
    back = spec.angles(E, np.array([-shift]), spec.powers(10000.0, spec.pair_exponents(width)))
    turned = turned_pairs(E, sine, cosine, E.cos(back), E.sin(back))
    moved: Tracked = E.concat(list(turned), -1) if concatenated else spec.alternating(E, *turned)
    return moved


@checks(spec.POSITION_TABLES, order_cases(), needs=("alibi_slopes",))
def position_tables(subject: Subject, case: OrderCase) -> Comparisons:
    """The slopes are those of the published recipe."""
    yield close("slope", subject.alibi_slopes(case.heads), *expected.alibi_slopes(subject, case.heads))
