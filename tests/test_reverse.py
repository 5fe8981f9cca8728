"""Reverse mode: its gradients against power series of balls, entry by entry of every operation and through models."""

from collections.abc import Mapping
from typing import Any

import flint
import numpy as np
import pytest
from balls import Balls, farthest
from false_gradients import MeanForgotten, MissingFactor, NoRankOneTerm, TurnedForwards, pulled_by
from numpy.random import Generator
from test_adjoint import OPERATIONS, SEEN, SIZES, Series, Use, along, second

from gnomon.props.model_cases import ModelCase
from gnomon.spec.adjoint import Adjoint
from gnomon.spec.attention import attention
from gnomon.spec.bounds import Bounds, allowed
from gnomon.spec.embedding import embedding
from gnomon.spec.evaluators import Evaluator, Float64, Floats, Quantity
from gnomon.spec.families import FAMILIES
from gnomon.spec.linear import ACTIVATIONS, activate, feed_forward
from gnomon.spec.loss import cross_entropy
from gnomon.spec.model import model
from gnomon.spec.norms import layer_norm, rms_norm
from gnomon.spec.precision import FLOAT64, declared
from gnomon.spec.reverse import Reverse, jvp, vjp
from gnomon.spec.rotary import turn

SEED = 20260501
SHARP = 2.0**-100  # how wide a ball may be beside its middle, so that agreement means something
NOT_VACUOUS = 2.0**-36  # of the size of its terms a gradient may be off by less


def gated(weight: Any) -> dict[str, Any]:
    """The parameters of a gated unit, one array three times."""
    return {f"{n}_weight": weight.swapaxes(0, 1) for n in ("up", "gate")} | {"down_weight": weight}


MORE: dict[str, tuple[Use, str]] = {
    "log_softmax": (lambda E, a: E.log_softmax(a["x"]), "x"),
    "recomputed": (lambda E, a: E.recomputed(a["scores"], SEEN), "scores"),
    "attention, shared heads": (
        lambda E, a: attention(E, a["query"], a["key"][:, :1], a["value"][:, :1], allowed=SEEN),
        "query key value",
    ),
    "attention, a cap and a bias": (
        lambda E, a: attention(E, a["query"], a["key"], a["value"], bias=a["scores"], softcap=2.0),
        "query key value scores",
    ),
    "layer_norm": (lambda E, a: layer_norm(E, a["x"], a["row"], a["row"], eps=0.25), "x row"),
    "rms_norm": (lambda E, a: rms_norm(E, a["x"], a["row"], eps=0.25, offset=True), "x row"),
    "feed_forward, gated": (
        lambda E, a: feed_forward(E, a["x"], gated(a["weight"]), "gelu"),
        "x weight",
    ),
    "cross_entropy": (
        lambda E, a: cross_entropy(E, a["x"], np.array([[0, 3, 1], [2, 9, 0]]), ignore_index=9, reduction="none"),
        "x",
    ),
    "embedding": (lambda E, a: embedding(E, a["weight"], np.array([[0, 2], [2, 3]])), "weight"),
    **{
        f"rope, {layout}": (
            lambda E, a, layout=layout: turn(E, a["query"], E.cos(a["value"]), E.sin(a["value"]), layout),
            "query value",
        )
        for layout in ("half", "interleaved")
    },
    **{name: (lambda E, a, name=name: activate(E, name, a["x"]), "x") for name in ACTIVATIONS},
}  # fmt: skip
ALL = OPERATIONS | MORE
EVERY = pytest.mark.parametrize("name", ALL)


def drawn(name: str, rng: Generator) -> dict[str, Floats]:
    return {n: rng.standard_normal(SIZES[n]) for n in ALL[name][1].split()}


def series(run: Use, arrays: Mapping[str, Floats], directions: Mapping[str, Floats]) -> Quantity:
    """The derivative of the result along the directions, enclosed."""
    moved = run(Series(), {n: along(x, directions[n]) for n, x in arrays.items()})
    return np.frompyfunc(second, 1, 1)(moved)


def agree(one: Any, other: Any, size: float) -> bool:
    """Whether two enclosures meet and are both narrow beside a size."""
    narrow = all(float(x.rad()) <= SHARP * size for x in (one, other))
    return narrow and bool(flint.arb(one).overlaps(flint.arb(other)))


def inner(a: Quantity, b: Quantity) -> Any:
    """The inner product, in balls."""
    return sum((x * y for x, y in zip(np.ravel(a), np.ravel(b), strict=True)), flint.arb(0))


def compare(run: Use, arrays: Mapping[str, Floats], rng: Generator, pull: Any = vjp) -> None:
    """Hold ⟨gradient, v⟩ to ⟨u, derivative along v⟩, both enclosed."""
    directions = {n: rng.standard_normal(x.shape) for n, x in arrays.items()}
    change = series(run, arrays, directions)
    upstream = rng.standard_normal(change.shape)
    out, found = pull(Balls(), run, {n: Balls().number(x) for n, x in arrays.items()}, Balls().number(upstream))
    assert out.shape == change.shape
    inward = sum((inner(found[n], directions[n]) for n in arrays), flint.arb(0))
    size = sum(float(abs(x.mid())) for g in found.values() for x in g.ravel())
    assert agree(inward, inner(upstream, change), size)


@EVERY
def test_the_gradient_of_an_operation_is_that_of_its_series(name: str) -> None:
    rng = np.random.default_rng(SEED)
    for _ in range(3):
        compare(ALL[name][0], drawn(name, rng), rng)


@EVERY
def test_the_change_along_a_direction_is_that_of_its_series(name: str) -> None:
    """Every entry of it; second derivatives are taken on the way, so these are seen too."""
    rng = np.random.default_rng(SEED)
    arrays = drawn(name, rng)
    directions = {n: rng.standard_normal(x.shape) for n, x in arrays.items()}
    run, balls = ALL[name][0], Balls()
    given, ways = ({n: balls.number(x) for n, x in each.items()} for each in (arrays, directions))
    change, due = jvp(balls, run, given, ways), series(run, arrays, directions)
    size = sum(float(abs(x.mid())) for x in due.ravel())
    assert all(agree(c, d, size) for c, d in zip(change.ravel(), due.ravel(), strict=True))


@EVERY
def test_float64_lies_within_its_own_bound_of_the_gradient(name: str) -> None:
    rng = np.random.default_rng(SEED)
    run, wide = ALL[name][0], declared("float64")
    for _ in range(3):
        arrays = drawn(name, rng)
        upstream = rng.standard_normal(run(Float64(), arrays).shape)
        bound = vjp(Bounds(wide), run, arrays, upstream)[1]
        plain = vjp(Float64(), run, arrays, upstream)[1]
        balls = vjp(Balls(), run, {n: Balls().number(x) for n, x in arrays.items()}, Balls().number(upstream))[1]
        for n in arrays:
            assert (farthest(bound[n].value, balls[n]) <= bound[n].error).all(), n
            assert (farthest(plain[n], balls[n]) <= allowed(bound[n])).all(), n


def test_every_operation_of_the_evaluator_is_among_them() -> None:
    used = [
        *" ".join(ALL).replace(",", "").split(),
        "argument",
        "pulled",
        "number",
        "given",
        "constant",
        "computed",
        "shift",
    ]
    absent = ["sqrt", "complement"]  # an optimiser's, of which no gradient is asked
    apart = ["weights", "added", "either", "row_spread"]  # under other names above
    own = [n for n in dir(Reverse) if not n.startswith("_")]
    assert [n for n in own if n not in used + absent + apart] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_the_gradient_of_a_model_is_that_of_its_series(family: str) -> None:
    """By all parameters at once, through two layers."""
    rng = np.random.default_rng(SEED)
    case = ModelCase(
        family=family, seed=int(rng.integers(2**31)), regime="ordinary", layers=2, heads=2,
        kv_heads=1 if FAMILIES[family].shares else 2, head_width=2, feed_forward=3, vocabulary=5, window=2, time=3,
    )  # fmt: skip

    def run(E: Evaluator, parameters: Mapping[str, Any]) -> Any:
        return model(E, case.configuration, parameters, case.tokens())

    arrays = case.parameters(FLOAT64)
    directions = {n: x * rng.uniform(-1, 1, x.shape) for n, x in arrays.items()}
    change = series(run, arrays, directions)
    upstream = rng.standard_normal(change.shape)
    E = Adjoint(declared("float64"))
    found = vjp(E, run, arrays, upstream)[1]
    most = E.bound_of_sum([(found[n], directions[n]) for n in arrays])
    got = sum(float((found[n].value * directions[n]).sum()) for n in arrays)
    size = sum(float(np.abs(found[n].value * directions[n]).sum()) for n in arrays)
    assert abs(flint.arb(got) - inner(upstream, change)) <= flint.arb(most)
    assert most < NOT_VACUOUS * size


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (NoRankOneTerm, "softmax"),
        (NoRankOneTerm, "weigh, masked"),
        (MissingFactor, "scores"),
        (TurnedForwards, "rope, half"),
        (MeanForgotten, "standardise, centred"),
    ],
)
def test_a_false_gradient_is_noticed(kind: type[Reverse], name: str) -> None:
    rng = np.random.default_rng(SEED)
    with pytest.raises(AssertionError):
        compare(ALL[name][0], drawn(name, rng), rng, pulled_by(kind))
