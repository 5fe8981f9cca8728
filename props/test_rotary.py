"""VI.2 held to an implementation: relative, a rotation, by the declared angles, of the declared features, precisely."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gnomon.props import expected
from gnomon.props.cases import LENGTHS, REACHES, MultiHeadCase, RotaryCase, multi_head_cases, rotary_cases
from gnomon.props.judge import Comparison, between, close, same
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import rotary as spec
from gnomon.spec.bounds import Bounds, Tracked, allowed
from gnomon.spec.evaluators import Floats
from gnomon.spec.precision import declared

Comparisons = Iterator[Comparison]

ROPE = ("rope",)
MULTI_HEAD = ("multi_head_attention",)
NEAR = st.sampled_from(REACHES[:4])
FAR = st.sampled_from(REACHES[3:])
HALF_WAY = REACHES[-1] // 2
PAIRED = st.sampled_from((2, 4, 8))
DOUBLINGS = range(10)  # of the distance, from 1 on
_exact = Bounds(declared("float64"))  # for what is made of results in float64


def turned(subject: Subject, case: RotaryCase, x: Floats, positions: Any) -> tuple[Floats, Tracked]:
    """What the implementation gives for the case's rotation of x, and what is due."""
    return subject.rope(x, positions, **case.options()), due(subject, case, x, positions)


def due(subject: Subject, case: RotaryCase, x: Any, positions: Any) -> Tracked:
    """What the case's rotation of x is due."""
    return expected.rope(subject, x, positions, case.rotary(subject.conventions.rotary_layout))


def blur(subject: Subject, case: RotaryCase, x: Any, *places: Any) -> Floats:
    """How far rotations in turn may stray, whichever way features are paired: the laws of rotations ask for neither."""

    def strayed(layout: str) -> Floats:
        turned_so_far, own = x, replace(case, layout=layout).rotary(layout)
        for positions in places:
            turned_so_far = expected.rope(subject, turned_so_far, positions, own)
        return allowed(turned_so_far)

    return np.maximum(strayed("half"), strayed("interleaved"))


def known(got: Floats, error: Floats) -> Tracked:
    """What was got and how far it may stray, for float64 to be reckoned with."""
    return Tracked(got, error, _exact.precision)


@checks(
    spec.RELATIVE,
    rotary_cases(reach=NEAR),
    needs=ROPE,
    mistakes=(spec.NOT_LINEAR, spec.FREQUENCIES_BY_NEIGHBOURS),
)
def relative(subject: Subject, case: RotaryCase) -> Comparisons:
    """All products of queries with keys are the same when both stand further on."""
    query, key = case.arrays(subject.precision.storage)
    shift = REACHES[case.seed % len(REACHES)]
    here, there = (_products(subject, case, query, key, case.positions + s) for s in (0, shift))
    yield close(f"product {shift} further on", there.value, here.value, there.error + here.error)


def _products(subject: Subject, case: RotaryCase, query: Floats, key: Floats, positions: Any) -> Tracked:
    """The products of all queries with all keys, each turned by the implementation."""
    q, k = (
        known(subject.rope(a, positions, **case.options()), blur(subject, case, a, positions)) for a in (query, key)
    )
    return _exact.matmul(q, k.swapaxes(-1, -2))


@checks(
    spec.RELATIVE,
    multi_head_cases(head_width=PAIRED, time=st.sampled_from(LENGTHS[1:6])),
    needs=MULTI_HEAD,
    mistakes=(spec.OPPOSITE_WAYS,),
)
def relative_in_attention(subject: Subject, case: MultiHeadCase) -> Comparisons:
    """Multi-head attention gives the same when all positions are shifted."""
    x, parameters = case.input(subject.precision.storage), case.parameters(subject.precision.storage)
    positions, shift = np.arange(case.time), REACHES[case.seed % len(REACHES)]
    places = [case.options() | {"positions": positions + s} for s in (0, shift)]
    here, there = (subject.multi_head(x, parameters, **options) for options in places)
    allowances = (expected.multi_head(subject, x, parameters, **options).allowed for options in places)
    yield close(f"output {shift} further on", there, here, sum(allowances))


@checks(spec.ROTATIONS, rotary_cases(), needs=ROPE)
def rotations(subject: Subject, case: RotaryCase) -> Comparisons:
    """Norms stay, position 0 changes nothing, and two rotations in turn are one."""
    x, _ = case.arrays(subject.precision.storage)
    nowhere, options = np.zeros_like(case.positions), case.options()
    first, second = np.minimum(case.positions, HALF_WAY), case.positions % HALF_WAY
    yield close("features at position 0", subject.rope(x, nowhere, **options), x, blur(subject, case, x, nowhere))
    once, whole = (subject.rope(x, where, **options) for where in (first, first + second))
    yield _norm_kept(x, known(once, blur(subject, case, x, first)))
    twice, allowances = subject.rope(once, second, **options), ((first, second), (first + second,))
    yield close("features turned twice", twice, whole, sum(blur(subject, case, x, *places) for places in allowances))


def _norm_kept(x: Floats, got: Tracked) -> Comparison:
    before, after = (_exact.total(a * a) for a in (_exact.number(x), got))
    return close("square of the norm", after.value, before.value, after.error + before.error)


@checks(spec.ANGLES, rotary_cases(reach=1, batch=1, heads=1, by_row=False), needs=ROPE)
def measured_angles(subject: Subject, case: RotaryCase) -> Comparisons:
    """Unit vectors at position 1 get a share of their partner in the pair, by the angle that is the frequency."""
    units = np.eye(case.head_width)[None, None]
    got, result = turned(subject, case, units, np.ones(case.head_width, int))
    rows, strayed = got[0, 0], allowed(result)[0, 0]
    own = case.rotary(subject.conventions.rotary_layout)
    first, second = spec.pairs(np.arange(case.width), own.layout)
    inside = np.eye(case.head_width, dtype=bool)
    inside[first, second] = inside[second, first] = True
    yield close("share of a feature outside the pair", np.where(inside, 0.0, rows), 0.0, strayed)
    angles = np.arctan2(rows[first, second], rows[first, first])
    lost = np.hypot(strayed[first, second], strayed[first, first])
    wanted = spec.frequencies(case.width, own)[0] * (-1 if subject.conventions.rotation == "backward" else 1)
    yield close("angle of pair", angles, wanted, np.where(lost < 1, np.arcsin(np.minimum(lost, 1.0)), np.inf))
    yield close("turned unit vector", rows, result.value[0, 0], strayed)


@checks(spec.LAYOUTS, rotary_cases(layout="interleaved", head_width=st.sampled_from((8, 4, 6, 16, 64))), needs=ROPE)
def layouts(subject: Subject, case: RotaryCase) -> Comparisons:
    """Features permuted, turned in halves and put back are those turned interleaved."""
    x, _ = case.arrays(subject.precision.storage)
    first, second = spec.pairs(np.arange(case.width), "interleaved")
    order = np.concatenate([first, second, np.arange(case.width, case.head_width)])
    (woven, one), (halves, other) = (
        turned(subject, replace(case, layout=layout), a, case.positions)
        for layout, a in (("interleaved", x), ("half", x[..., order]))
    )
    yield close("permuted features", woven[..., order], halves, allowed(one)[..., order] + allowed(other))


@checks(spec.PRECISE_ANGLES, rotary_cases(reach=FAR), needs=ROPE)
def precise_angles(subject: Subject, case: RotaryCase) -> Comparisons:
    """Far positions are turned by their own angles and not by those of a neighbour."""
    x, _ = case.arrays(subject.precision.storage)
    got, result = turned(subject, case, x, case.positions)
    yield close("turned features", got, result.value, allowed(result))


@checks(
    spec.IN_ATTENTION,
    multi_head_cases(
        head_width=PAIRED, head_pairs=((2, 2), (1, 1), (3, 3), (4, 2)), time=st.sampled_from(LENGTHS[1:6])
    ),
    needs=MULTI_HEAD,
)
def in_attention(subject: Subject, case: MultiHeadCase) -> Comparisons:
    """Multi-head attention with positions is attention between turned queries and turned keys."""
    x, parameters = case.input(subject.precision.storage), case.parameters(subject.precision.storage)
    positions = np.sort(case.rng.integers(0, REACHES[2], case.time))
    options = case.options() | {"positions": positions}
    got = subject.multi_head(x, parameters, **options)
    yield close("output", got, *expected.multi_head(subject, x, parameters, **options))


@checks(
    spec.PARTIAL,
    rotary_cases(share=st.sampled_from((2, 4)), head_width=st.sampled_from((8, 4, 6, 16, 64))),
    needs=ROPE,
    plain=False,
)
def partial(subject: Subject, case: RotaryCase) -> Comparisons:
    """What lies past the turned features is what was given."""
    x, _ = case.arrays(subject.precision.storage)
    got = subject.rope(x, case.positions, **case.options())
    yield same("features past the turned ones", got[..., case.width :], x[..., case.width :])


@checks(
    spec.DECAYS,
    rotary_cases(batch=1, heads=1, time=1, head_width=st.sampled_from((64, 128)), share=1, base=10000, reach=1),
    needs=ROPE,
    share=0.1,
)
def decays(subject: Subject, case: RotaryCase) -> Comparisons:
    """The mean of the bound over all distances of a doubling falls with every doubling; not so where all turn alike."""
    means = _means_by_doubling(subject, case)
    yield close("mean over a doubling", means[0], means[1], means[2])
    yield between("mean over the next doubling", means[0][1:], 0.0, means[0][:-1], means[2][1:] + means[2][:-1])
    if subject.offers("rope", "base"):
        flat = _means_by_doubling(subject, replace(case, base=1))
        yield close("mean where all pairs turn alike", flat[0], flat[0][:1], flat[2] + flat[2][:1])


def _means_by_doubling(subject: Subject, case: RotaryCase) -> tuple[Floats, Floats, Floats]:
    """The mean of the bound over each doubling of the distance as it came, as it is due, and how far it may stray."""
    distances = np.arange(1, 2 ** len(DOUBLINGS))
    first, second = spec.pairs(np.arange(case.width), case.rotary(subject.conventions.rotary_layout).layout)
    x = np.zeros((1, 1, len(distances), case.width))
    x[..., first] = 1.0
    got, result = turned(subject, case, x, distances)
    curves = [spec.decay(a[..., first] + 1j * a[..., second])[0, 0] for a in (got, result.value)]
    lost = np.hypot(*(allowed(result)[..., members] for members in (first, second)))
    curves.append(np.cumsum(lost, -1).mean(-1)[0, 0])
    means = (np.array([curve[2**k - 1 : 2 ** (k + 1) - 1].mean() for k in DOUBLINGS]) for curve in curves)
    return tuple(means)  # type: ignore[return-value]


def scaled(kind: str) -> st.SearchStrategy[Any]:
    """Cases of one kind of scaling."""
    names = {"linear": ("linear", "linear-3"), "yarn": ("yarn", "yarn-long")}.get(kind, (kind,))
    widths = (16, 8, 64) if "ntk" in kind else (16, 8, 64, 4, 2)  # of two pairs at least: the exponent is d/(d − 2)
    return rotary_cases(scaling=st.sampled_from(names), head_width=st.sampled_from(widths))


@checks(spec.SCALINGS, scaled("linear"), needs=ROPE, mistakes=(), share=0.5, plain=False)
def linear_scaling(subject: Subject, case: RotaryCase) -> Comparisons:
    """Every angle is divided by the factor."""
    yield from precise_angles.check(subject, case)


@checks(spec.SCALINGS, scaled("ntk"), needs=ROPE, mistakes=(), share=0.5, plain=False)
def ntk_scaling(subject: Subject, case: RotaryCase) -> Comparisons:
    """The base is raised so that the lowest frequency is divided by the factor."""
    yield from precise_angles.check(subject, case)


@checks(
    spec.SCALINGS,
    scaled("dynamic-ntk"),
    needs=ROPE,
    mistakes=(spec.BASE_OF_ANY_LENGTH, spec.LENGTH_FROM_HEADS),
    plain=False,
)
def dynamic_scaling(subject: Subject, case: RotaryCase) -> Comparisons:
    """The base is raised as far as the sequence is longer than the original context, and no further."""
    yield from precise_angles.check(subject, case)


@checks(spec.SCALINGS, scaled("yarn"), needs=ROPE, mistakes=(spec.FACTOR_FORGOTTEN,), plain=False)
def yarn_scaling(subject: Subject, case: RotaryCase) -> Comparisons:
    """High frequencies are kept, low ones divided, and cosine and sine multiplied by the attention factor."""
    yield from precise_angles.check(subject, case)


@checks(spec.SCALINGS, scaled("llama3"), needs=ROPE, mistakes=(spec.WRONG_BAND,), plain=False)
def llama3_scaling(subject: Subject, case: RotaryCase) -> Comparisons:
    """Long wavelengths are divided, short ones kept, those between blended."""
    yield from precise_angles.check(subject, case)
