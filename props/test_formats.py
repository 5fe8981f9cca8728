"""VIII.1 held to an implementation: every number of a format, long sums, loss scaling, master copies, the floor."""

from collections.abc import Iterator

import numpy as np

from gnomon.props.format_cases import (
    CLIP,
    FORMAT_CASES,
    MASTER_CASES,
    SUM_CASES,
    UNDERFLOW_CASES,
    FormatCase,
    MasterCase,
    Scaler,
    ScalerCase,
    SumCase,
    UnderflowCase,
    scaler_cases,
    storable,
)
from gnomon.props.judge import Comparison, between, same
from gnomon.props.measure import convention
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import formats as spec
from gnomon.spec.bounds import round_to
from gnomon.spec.evaluators import Floats
from gnomon.spec.formats import LAYOUTS, Layout
from gnomon.spec.precision import FLOAT32

Comparisons = Iterator[Comparison]


def rounded(subject: Subject, x: Floats, layout: Layout) -> Floats:
    """Its cast to a format and back."""
    return subject.call("rounded", x, shape=x.shape, format=layout.name)


def due(subject: Subject, x: Floats, layout: Layout) -> tuple[Floats, Floats]:
    """The least and the most that a cast may give under what is declared, stored in the dtype under test."""
    ways = [spec.nearest(x, layout)]
    if subject.conventions.narrowing == "twice":
        ways.append(spec.nearest(round_to(x, FLOAT32), layout))
    if subject.conventions.subnormals == "flushed":
        ways += [np.where(np.abs(x) < layout.smallest_normal, 0.0, way) for way in ways]
    stored = [round_to(saturated(subject, way, x, layout), subject.precision.storage) for way in ways]
    return np.minimum.reduce(stored), np.maximum.reduce(stored)


def saturated(subject: Subject, way: Floats, x: Floats, layout: Layout) -> Floats:
    """The cast with what lies beyond an 8-bit format where the subject declares, or shows, that it goes."""
    axis = {"float8_e4m3fn": "e4m3fn_overflow", "float8_e5m2": "e5m2_overflow"}.get(layout.name)
    if axis is None or convention(subject, axis) != "saturates":
        return way
    return np.where(~np.isfinite(way) & ~np.isnan(x), np.copysign(layout.largest, x), way)


def cast(subject: Subject, what: str, x: Floats, layout: Layout) -> Comparisons:
    """The cast of every number of x and of its negative, with its sign."""
    if not x.size:
        return  # the dtype under test holds none of them
    both = np.concatenate([x, -x])
    got, (low, high) = rounded(subject, both, layout), due(subject, both, layout)
    number = ~np.isnan(low)
    yield same(f"NaN in {layout.name}, {what}", np.isnan(got).astype(float), (~number).astype(float))
    yield between(f"{what} of {layout.name}", got[number], low[number], high[number], 0.0)
    yield same(f"sign, {what} of {layout.name}", np.signbit(got[number]), np.signbit(both[number]))


@checks(spec.FORMATS_HELD, FORMAT_CASES, needs=("rounded",), mistakes=(spec.FLUSHED, spec.NAN_BECOMES_ZERO))
def own_numbers(subject: Subject, case: FormatCase) -> Comparisons:
    """Every number of a format comes back as it is, NaN as NaN."""
    layout = case.layout
    values = storable(layout.values[: layout.values.size // 2], subject.precision.storage)
    clamped = layout is spec.E5M2 and convention(subject, "e5m2_overflow") == "saturates"
    yield from cast(subject, "numbers", values[~np.isinf(values)] if clamped else values, layout)


@checks(
    spec.FORMATS_HELD, FORMAT_CASES, needs=("rounded",),
    mistakes=(spec.TOWARDS_ZERO, spec.TIES_AWAY, spec.ROUNDED_TWICE),
)  # fmt: skip
def nearest_number(subject: Subject, case: FormatCase) -> Comparisons:
    """Halfway between two neighbours the even one is taken, and beside it the nearer one."""
    form, middles = subject.precision.storage, spec.midpoints(case.layout)[:-1]
    exact = storable(middles, form)
    yield from cast(subject, "midpoints", exact, case.layout)
    # Under its normal range the dtype under test has other neighbours, and may flush them before any cast.
    ordinary = exact[exact > 4 * form.underflow / form.unit]
    step = np.ldexp(2 * form.unit, np.frexp(ordinary)[1] - 1)
    yield from cast(subject, "numbers just above midpoints", ordinary + step, case.layout)
    yield from cast(subject, "numbers just below midpoints", ordinary - step, case.layout)


@checks(spec.FORMATS_HELD, FORMAT_CASES, needs=("rounded",), mistakes=(spec.HALF_SATURATES, spec.INFINITE_E4M3))
def beyond_the_largest(subject: Subject, case: FormatCase) -> Comparisons:
    """What rounds to more than the largest number goes where the format, or a declaration, says."""
    layout, form = case.layout, subject.precision.storage
    edge = layout.ladder[-1] - (layout.ladder[-1] - layout.ladder[-2]) / 2
    near = np.array([layout.largest, edge, layout.ladder[-1]])
    far = layout.largest * 2.0 ** np.arange(1, 12)
    reached = np.concatenate([near, far])
    yield from cast(subject, "numbers beyond the largest", storable(reached[reached <= form.largest], form), layout)


@checks(spec.LONG_SUMS, SUM_CASES, needs=("total",), mistakes=(spec.STORED_SUMS,))
def ones(subject: Subject, case: SumCase) -> Comparisons:
    """Ones add up to their number, behind a larger first one as well."""
    x = np.stack([case.row, np.ones(case.length)])
    want = round_to(x.sum(-1), subject.precision.storage)
    yield same("sum of ones", subject.call("total", x, shape=(2,)), want)


@checks(spec.LONG_SUMS, SUM_CASES, needs=("linear",), mistakes=(spec.STORED_PRODUCT_SUMS,))
def products_of_ones(subject: Subject, case: SumCase) -> Comparisons:
    """So do the products of a linear layer."""
    x = np.stack([case.row, np.ones(case.length)])[None]
    want = round_to(x.sum(-1, keepdims=True), subject.precision.storage)
    yield same("sum of products of ones", subject.linear(x, np.ones((1, case.length))), want)


@checks(spec.LOSS_SCALING, scaler_cases, needs=("loss_scaler",))
def loss_scaling(subject: Subject, case: ScalerCase) -> Comparisons:
    """Every step is one of plain descent on the gradients before they were scaled; one with overflow is none."""
    held = case.tensors(0)
    clip = CLIP if case.clipped else None
    scaler = Scaler(subject, held, rate=case.rate, scale=2.0**case.exponent, clip=clip)
    for step in range(1, case.steps + 1):
        scale = scaler.scale
        if np.frexp(scale)[0] != 1 / 2 or not 1 <= scale <= 2.0**18:
            return  # nothing is said of scales that are no powers of two, nor of larger ones than these numbers bear
        gradients = case.tensors(step)
        scaled = {name: g * scale for name, g in gradients.items()}
        if step == case.spoilt:
            got = scaler.step(case.spoil(scaled))
            yield same("whether the scale fell after an overflow", float(0 < scaler.scale < scale), 1.0)
        else:
            held = {name: p - case.rate * gradients[name] for name, p in held.items()}
            got = scaler.step(scaled)
            yield same("whether the scale fell without an overflow", float(scaler.scale < scale), 0.0)
        for name in sorted(held):
            yield same(f"{name} after step {step}", got[name], held[name])


@checks(spec.LOSS_SCALING, scaler_cases, needs=("rounded",), mistakes=())
def under_the_floor(subject: Subject, case: ScalerCase) -> Comparisons:
    """In half precision gradients of up to half its smallest number are zero, and scaled ones come back unchanged."""
    every = np.concatenate([g.ravel() for g in case.tensors(1).values()])
    small = storable(every[np.abs(every) <= spec.HALF.smallest / 2], subject.precision.storage)
    if small.size:
        yield same("gradients under the floor", rounded(subject, small, spec.HALF), np.zeros_like(small))
    back = rounded(subject, every * 2.0**case.exponent, spec.HALF) / 2.0**case.exponent
    yield same("gradients that were scaled", back, every)


@checks(spec.MASTER_COPY, MASTER_CASES, needs=("master_step",))
def master_copy(subject: Subject, case: MasterCase) -> Comparisons:
    """After any number of small steps the parameter is the stored form of their exact sum."""
    form = subject.precision.storage
    parameter, gradient = case.parameter(form), case.gradient(form, subject.precision.narrow)
    got = subject.call("master_step", parameter, gradient, shape=parameter.shape, rate=0.5, steps=case.steps)
    yield same("parameter", got, round_to(parameter - case.steps * 0.5 * gradient, form))


@checks(spec.MASTER_COPY, MASTER_CASES, needs=("rounded",), mistakes=())
def lost_update(subject: Subject, case: MasterCase) -> Comparisons:
    """Added to a stored number and stored again, less than half a spacing is lost."""
    for layout in LAYOUTS.values():
        if subject.precision.storage.digits < layout.fraction_bits + 4:
            continue  # the dtype under test cannot hold such a sum
        held = 1 + case.rng.integers(0, 2**layout.fraction_bits, 16) / 2.0**layout.fraction_bits
        update = spec.spacing(held, layout) * case.rng.integers(1, 4, 16) / 8
        yield same(f"{layout.name} after an update", rounded(subject, held + update, layout), held)


@checks(spec.UNDERFLOW, UNDERFLOW_CASES, needs=("share_under_floor",))
def underflow(subject: Subject, case: UnderflowCase) -> Comparisons:
    """The share of the gradients that are not zero and become so, as counted, without a scale and with one."""
    gradients = case.gradients(subject.precision.storage)
    for scale in (1.0, case.scale):
        want = spec.share_under_floor(gradients, case.layout, scale)
        got = subject.number("share_under_floor", subject.hand(gradients), format=case.format, scale=scale)
        count = sum(int(np.count_nonzero(g)) for g in gradients.values())
        # A share may be worked out in float32; in whole gradients, of which there are few, that does not show.
        yield same(f"gradients lost at a scale of {scale:g}", np.rint(got * count * 4) / 4, np.rint(want * count))
