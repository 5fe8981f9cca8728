"""The adjoint evaluator: its derivatives against power series of balls, and where the first order is not enough."""

from collections.abc import Callable, Mapping
from typing import Any

import flint
import numpy as np
import pytest
from balls import Balls
from numpy.random import Generator

from gnomon.impl.loading import load
from gnomon.props.box import Box, Input, built, equals
from gnomon.props.model_cases import ModelCase
from gnomon.props.subject import Subject
from gnomon.spec import adjoint
from gnomon.spec.adjoint import Adjoint, Node
from gnomon.spec.bounds import Bounds, allowed, round_to
from gnomon.spec.configuration import Rotary, Scaling
from gnomon.spec.constants import exactly, inverse_root
from gnomon.spec.evaluators import Evaluator, Float64, Floats, Mask, Quantity
from gnomon.spec.families import FAMILIES
from gnomon.spec.linear import relu
from gnomon.spec.model import model
from gnomon.spec.precision import FLOAT32, FLOAT64, declared
from gnomon.spec.rotary import rope

flint.ctx.cap = 2  # a series is a value and one derivative

SEED = 20260301
NOT_VACUOUS = 2.0**-36  # of the size of its terms a derivative may be off by less


# Derivatives.


def first(x: Any) -> Any:
    """The value of a series."""
    return x if isinstance(x, flint.arb) else [*x.coeffs(), flint.arb(0)][0]


def second(x: Any) -> Any:
    """Its derivative."""
    return flint.arb(0) if isinstance(x, flint.arb) else [*x.coeffs(), flint.arb(0), flint.arb(0)][1]


def each(function: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda self, a: np.asarray(np.frompyfunc(function, 1, 1)(a), object)


def tanh(x: Any) -> Any:
    return 1 - 2 / ((2 * x).exp() + 1)


class Series(Balls):
    """Arrays of series in one variable whose coefficients are balls, so that derivatives are enclosed as values are."""

    exp, erf, rsqrt, log = (each(lambda x, n=n: getattr(x, n)()) for n in ("exp", "erf", "rsqrt", "log"))
    sin, cos, tanh = each(lambda x: x.sin()), each(lambda x: x.cos()), each(tanh)
    sigmoid = each(lambda x: 1 / (1 + (-x).exp()))
    rectify = each(lambda x: x if first(x) > 0 else flint.arb(0))

    def gate(self, a: Quantity, g: Quantity) -> Quantity:
        return np.where(np.frompyfunc(lambda x: first(x) > 0, 1, 1)(a).astype(bool), g, flint.arb(0))

    def number(self, x: Any) -> Quantity:
        return x if isinstance(x, np.ndarray) and x.dtype == object else super().number(x)

    def shift(self, scores: Quantity, allowed: Mask | None) -> Quantity:
        return super().shift(np.frompyfunc(first, 1, 1)(scores), allowed)

    def matmul(self, a: Quantity, b: Quantity) -> Quantity:
        return a @ b

    def computed(self, value: Any, roundoffs: Any) -> Quantity:
        return self.number(value)


def along(x: Floats, direction: Floats) -> Quantity:
    """x and its derivative."""
    return np.asarray(np.frompyfunc(lambda a, b: flint.arb_series([flint.arb(a), flint.arb(b)]), 2, 1)(x, direction))


def erring(E: Adjoint, x: Floats) -> Node:
    """Numbers that err, so that adjoints go back to them."""
    return E.computed(x, np.ones(x.shape))


def reached(E: Adjoint, out: Node, functional: Floats, sources: Mapping[str, Node]) -> dict[str, Floats]:
    """The derivatives of the functional by the sources."""
    found = {node.number: g for node, g in E._sweep({out.number: functional[None]})}
    return {name: found[s.number][0] for name, s in sources.items() if s.number in found}


def compare(run: Callable[[Evaluator, Mapping[str, Any]], Any], arrays: Mapping[str, Floats], rng: Generator) -> float:
    """Hold the derivative along a random direction, no longer than the numbers, to that of the series.

    It is computed in float64: it may lose what the value itself may, and the share that departures change it by. What
    that makes of the size of its terms is returned.
    """
    directions = {name: x * rng.uniform(-1, 1, x.shape) for name, x in arrays.items()}
    E = Adjoint(declared("float64"))
    sources = {name: erring(E, x) for name, x in arrays.items()}
    out = run(E, sources)
    functional = rng.standard_normal(out.shape)
    slopes = reached(E, out, functional, sources)
    terms = [slopes[name] * directions[name] for name in slopes]
    exact = run(Series(), {name: along(x, directions[name]) for name, x in arrays.items()})
    due = sum((flint.arb(w) * second(x) for w, x in zip(functional.ravel(), exact.ravel(), strict=True)), flint.arb(0))
    got, size = (float(sum(t.sum() for t in parts)) for parts in (terms, [np.abs(t) for t in terms]))
    most = E.bound(out, functional) + E.changed() * size
    assert abs(flint.arb(got) - due) <= flint.arb(most), (got, due, most)
    return most / size


SIZES: dict[str, tuple[int, ...]] = {
    "x": (2, 3, 4), "y": (2, 3, 4), "row": (4,), "column": (3, 1), "weight": (4, 5), "bias": (5,),
    "query": (2, 2, 3, 4), "key": (2, 2, 3, 4), "value": (2, 2, 3, 2), "scores": (2, 2, 3, 3),
}  # fmt: skip
SEEN = np.tril(np.ones((3, 3), bool))
Use = Callable[[Any, Mapping[str, Any]], Any]
OPERATIONS: dict[str, tuple[Use, str]] = {
    "sum, difference": (lambda E, a: a["x"] - a["row"] + a["column"], "x row column"),
    "product": (lambda E, a: a["x"] * a["row"] * a["column"], "x row column"),
    "square": (lambda E, a: a["x"] * a["x"], "x"),
    "quotient": (lambda E, a: a["x"] / a["column"], "x column"),
    "constant": (lambda E, a: a["x"] * E.constant(inverse_root(3)) / E.constant(exactly(3.0)), "x"),
    "negation": (lambda E, a: -a["x"], "x"),
    "a slice": (lambda E, a: a["x"][..., 1::2], "x"),
    "rows, some twice": (lambda E, a: a["weight"][np.array([[0, 2], [2, 3]])], "weight"),
    "another shape": (lambda E, a: a["x"].reshape(6, 4) * a["row"], "x row"),
    "axes": (lambda E, a: a["x"].swapaxes(-1, -2).swapaxes(0, 1) * 3, "x"),
    "heads, some twice": (lambda E, a: a["query"].take(np.array([0, 0, 1]), axis=-3), "query"),
    "several added": (lambda E, a: E.added([a["x"], a["y"], a["x"]], "stream"), "x y"),
    "either of two ways": (lambda E, a: E.either(a["x"] * a["row"], a["row"] * a["x"]), "x row"),
    "exp": (lambda E, a: E.exp(a["x"]), "x"),
    "tanh": (lambda E, a: E.tanh(a["x"]), "x"),
    "erf": (lambda E, a: E.erf(a["x"]), "x"),
    "sigmoid": (lambda E, a: E.sigmoid(a["x"]), "x"),
    "cos": (lambda E, a: E.cos(a["x"]), "x"),
    "sin": (lambda E, a: E.sin(a["x"]), "x"),
    "rsqrt": (lambda E, a: E.rsqrt(a["x"] * a["x"] + E.number(1.0)), "x"),
    "log": (lambda E, a: E.log(a["x"] * a["x"] + E.number(1.0)), "x"),
    "rectify": (lambda E, a: E.rectify(a["x"]), "x"),
    "gate": (lambda E, a: E.gate(a["x"], a["y"]), "x y"),
    "reduced": (lambda E, a: E.reduced(a["x"] * a["y"], (3, 1)) * a["column"], "x y column"),
    "scattered": (lambda E, a: E.scattered(a["weight"], np.array([0, 2, 0, 1]), (3, 5)), "weight"),
    "summed_products": (lambda E, a: E.summed_products([(a["x"], a["weight"]), (a["y"], a["weight"])]), "x y weight"),
    "inverse_spread": (lambda E, a: E.inverse_spread(a["x"], exactly(0.25)), "x"),
    "select": (lambda E, a: E.select(SEEN, a["scores"]), "scores"),
    "matmul": (lambda E, a: E.matmul(a["x"], a["weight"]), "x weight"),
    "affine": (lambda E, a: E.affine(a["x"], a["weight"], a["bias"]), "x weight bias"),
    "scores": (lambda E, a: E.scores(a["query"], a["key"], inverse_root(4)), "query key"),
    "total": (lambda E, a: E.total(a["x"]), "x"),
    "concat": (lambda E, a: E.concat([a["x"], a["y"]], -1) * E.concat([a["row"], a["row"]], 0), "x y row"),
    "store": (lambda E, a: E.store(a["x"], "stream"), "x"),
    "standardise, centred": (lambda E, a: E.standardise(a["x"], exactly(0.25), True), "x"),
    "standardise": (lambda E, a: E.standardise(a["x"], exactly(0.25), False), "x"),
    "softmax": (lambda E, a: E.softmax(a["scores"]), "scores"),
    "softmax, masked": (lambda E, a: E.softmax(a["scores"], SEEN), "scores"),
    "log_softmax": (lambda E, a: E.log_softmax(a["scores"]), "scores"),
    "recomputed, masked": (lambda E, a: E.recomputed(a["scores"], SEEN), "scores"),
    "weigh": (lambda E, a: E.weigh(a["scores"], a["value"], None), "scores value"),
    "weigh, masked": (lambda E, a: E.weigh(a["scores"], a["value"], SEEN), "scores value"),
    "weigh, values of one head for all": (lambda E, a: E.weigh(a["scores"], a["weight"][:3], SEEN), "scores weight"),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_derivative_of_an_operation_is_that_of_its_series(name: str) -> None:
    run, arguments = OPERATIONS[name]
    rng = np.random.default_rng(SEED)
    for _ in range(3):
        arrays = {n: rng.standard_normal(SIZES[n]) for n in arguments.split()}
        assert compare(run, arrays, rng) < NOT_VACUOUS


def test_every_operation_of_the_evaluator_is_among_them() -> None:
    used = (
        " ".join(OPERATIONS)
        + " number given row_spread computed shift moved node bound bounds_of bound_of_sum departures changed weights"
    )
    used += " sqrt complement"  # of steps, which no model takes
    assert [n for n in dir(Adjoint) if not n.startswith("_") and n not in used] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_the_derivative_of_a_model_is_that_of_its_series(family: str) -> None:
    """By all parameters at once, through two layers."""
    rng = np.random.default_rng(SEED)
    case = ModelCase(
        family=family, seed=int(rng.integers(2**31)), regime="ordinary", layers=2, heads=2,
        kv_heads=1 if FAMILIES[family].shares else 2, head_width=2, feed_forward=3, vocabulary=5, window=2, time=3,
    )  # fmt: skip

    def run(E: Evaluator, parameters: Mapping[str, Any]) -> Any:
        return model(E, case.configuration, parameters, case.tokens())

    assert compare(run, case.parameters(FLOAT64), rng) < NOT_VACUOUS


def test_a_wrong_derivative_is_noticed(monkeypatch) -> None:
    """By one part in 2^34: a sum is that much too large."""
    rng = np.random.default_rng(SEED)
    arrays = {n: rng.standard_normal(SIZES[n]) for n in ("scores", "value")}
    wrong = 1 + 2.0**-34
    monkeypatch.setattr(adjoint, "_through_softmax", lambda g, p: p * (g - (p * g).sum(-1, keepdims=True) * wrong))
    with pytest.raises(AssertionError):
        compare(OPERATIONS["weigh"][0], arrays, rng)


# Bounds.


def test_several_functionals_at_once_get_what_each_gets_alone() -> None:
    E, rng = Adjoint(declared("float32")), np.random.default_rng(SEED)
    out = E.weigh(erring(E, rng.standard_normal((2, 3, 3))), erring(E, rng.standard_normal((2, 3, 2))), SEEN)
    functionals = rng.standard_normal((4, *out.shape))
    assert np.array_equal(E.bounds_of(out, functionals), [E.bound(out, w) for w in functionals])


def test_nothing_is_kept_of_what_cannot_err() -> None:
    """Weights come in exact, transposed or not, and no adjoint goes back to them."""
    E = Adjoint(declared("float32"))
    weight = E.number(np.ones((3, 3))).swapaxes(-1, -2)
    out = E.matmul(E.number(np.ones((2, 3))), weight)
    assert E.tape == [out]
    assert E.bound(weight, np.ones((3, 3))) == 0.0


def test_what_a_functional_does_not_see_may_have_any_error() -> None:
    E = Adjoint(declared("float32"))
    out = E.matmul(E.number(np.array([[1.0, 2.0], [1e38, 3e38]])), E.number(np.full((2, 1), 2.0)))
    assert E.bound(out, np.array([[1.0], [0.0]])) < 1e-5
    assert E.bound(out, np.array([[1.0], [1e-30]])) == np.inf


def test_a_chain_of_linear_layers_gets_no_more_than_its_roundings() -> None:
    """Where errors cancel on the way, elementwise bounds grow by the product of the magnitudes; this one does not."""
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    E, tracked = Adjoint(declared("float64")), Bounds(declared("float64")).number(np.ones((1, 2)))
    out = E.number(np.ones((1, 2)))
    for _ in range(40):
        out, tracked = E.matmul(out, E.number(turn)), Bounds(declared("float64")).matmul(tracked, E.bounds.number(turn))
    bound = E.bound(out, np.array([[1.0, 0.0]]))
    assert bound < 2 * 40 * 4 * FLOAT64.unit * 2  # γ(2) times a length of √2 each, doubled for the oracle
    assert allowed(tracked)[0, 0] > 1e4 * bound


def turned(x: Floats, choose: Callable[..., Node] | None = None) -> Floats:
    """The bound of every entry of a rotation that is stretched as well, before or after it is turned."""
    E, rotary = Adjoint(declared("float32")), Rotary(scaling=Scaling(kind="yarn", factor=4.0, original=128, high=32.0))
    if choose is not None:
        E.either = choose  # type: ignore[method-assign]
    out = rope(E, E.number(x), np.array([0, 5, 1000]), rotary)
    return E.bounds_of(out, np.eye(out.value.size).reshape(-1, *out.shape))


def test_of_two_ways_to_turn_the_errors_of_either_are_allowed() -> None:
    x = round_to(np.random.default_rng(SEED).standard_normal((1, 1, 3, 8)), FLOAT32)
    own, one, other = turned(x), turned(x, lambda one, other: one), turned(x, lambda one, other: other)
    assert (own >= np.maximum(one, other)).all()
    assert (own <= one + other).all()
    assert not np.array_equal(one, other)


# Where derivatives change.


CURVED: dict[str, tuple[Use, tuple[int, ...], Callable[[Floats], Any]]] = {
    "standardise": (lambda E, x: E.standardise(x, exactly(2.0**-8), False), (1, 5), lambda x: _length(x)),
    "standardise, centred": (
        lambda E, x: E.standardise(x, exactly(2.0**-8), True),
        (1, 5),
        lambda x: _length(x - x.mean()),
    ),
    "softmax": (lambda E, x: E.softmax(x), (1, 5), lambda x: 1.0),
    "tanh": (lambda E, x: E.tanh(x), (1,), lambda x: 1.0),
    "erf": (lambda E, x: E.erf(x), (1,), lambda x: 1.0),
    "sigmoid": (lambda E, x: E.sigmoid(x), (1,), lambda x: 1.0),
    "sin": (lambda E, x: E.sin(x), (1,), lambda x: 1.0),
}


def _length(kept: Floats) -> float:
    return float(np.sqrt(kept.size * ((kept * kept).mean() + 2.0**-8)))


def jacobian(run: Use, x: Floats) -> Floats:
    E = Adjoint(declared("float64"))
    source = erring(E, x)
    out = run(E, source)  # type: ignore[arg-type]
    found = {n.number: g for n, g in E._sweep({out.number: np.eye(x.size).reshape(-1, *x.shape)})}
    return found[source.number].reshape(x.size, x.size)


@pytest.mark.parametrize("name", CURVED)
def test_derivatives_change_by_little_more_than_the_share_of_the_length(name: str) -> None:
    """In the spectral norm, beside the largest derivative that the operation has; for a row, one over its size."""
    (run, shape, length), rng, worst = CURVED[name], np.random.default_rng(SEED), 0.0
    for _ in range(300):
        x, step = rng.standard_normal(shape) * 2.0 ** rng.uniform(-8, 2), rng.standard_normal(shape)
        share = 2.0 ** -rng.uniform(8, 12)
        step *= share * length(x) / np.sqrt((step * step).sum())
        largest = np.sqrt(x.size) / length(x) if "standardise" in name else 2 / np.sqrt(np.pi) if name == "erf" else 1.0
        change = np.linalg.norm(jacobian(run, x + step) - jacobian(run, x), 2)
        worst = max(worst, float(change) / largest / share)
    print(f"\n{name}: {worst:.2f} times")
    assert worst <= adjoint.STEEPNESS / 2 * (1 + 2.0**-5)


def orders(x: Floats, weight: Floats, bias: Floats) -> list[Any]:
    """The sums x·weight + bias in float32 in many orders."""
    terms, rng = np.append(x * weight, bias).astype(np.float32), np.random.default_rng(SEED)
    return [np.add.accumulate(rng.permutation(terms))[-1] for _ in range(500)]


def test_a_bend_that_may_lie_on_either_side_is_counted() -> None:
    """A unit that is just off has no slope, and yet it is on for those who sum in another order."""
    rng, slope = np.random.default_rng(SEED), 2.0**10
    x, weight = 2.0 ** rng.integers(-3, 3, 12), round_to(rng.standard_normal(12), FLOAT32)
    bias = round_to(-(x @ weight), FLOAT32) - 2.0**-22
    E = Adjoint(declared("float32"))
    unit = E.affine(E.number(x[None]), E.number(weight[:, None]), E.number(bias[None]))
    out = relu(E, unit) * E.number(slope)
    got = np.array([max(s, 0) * slope for s in orders(x, weight, bias)])
    assert unit.value[0, 0] < 0
    bound = E.bound(out, np.ones((1, 1)))
    print(f"\n{(got > 0).mean():.0%} of the orders are on, by {got.max() / bound:.2f} of the bound at most")
    assert got.max() > 0
    assert got.max() <= bound
    due = slope * (E.bound(unit, np.ones((1, 1))) - abs(unit.value[0, 0]))
    assert 1 - 2.0**-12 < bound / due < 1 + 2.0**-12


TOKEN = np.zeros((1, 1), int)


def amplifiers(seed: int, gain: float, offset: float, layers: int, many: int) -> Box:
    """A float32 model of one token whose first norms, of width two, get a row that cancels but for its roundoff.

    Each multiplies that by its gain over the root of epsilon; the next after them gets a row of `offset` and as much
    of the roundoff as it has become by then. Sublayers are silent.
    """
    case = ModelCase(family="bert", seed=seed, regime="ordinary", layers=layers, head_width=2)
    p = {n: _silent(n, a, float(np.float32(gain))) for n, a in case.parameters(FLOAT32).items()}
    names = [
        "embedding_norm",
        *(f"layers.{i}.{kind}_norm" for i in range(layers) for kind in ("attention", "feed_forward")),
    ]
    for i, name in enumerate(names[: many + 1]):
        marked: dict[str, Floats] = {}
        model(Float64(), case.configuration, p, TOKEN, mark=lambda n, v, m=marked: m.setdefault(n, v))
        place, kind = divmod(i - 1, 2)
        seen = marked["embedding" if i == 0 else f"layers.{place}.{('attended', 'stream')[kind]}"]
        half = (seen[0, 0, 0] - seen[0, 0, 1]) / 2 - (offset if i == many else 0.0)
        p[f"{name}_bias"] = round_to(np.array([-half, half]), FLOAT32)
    return built(Subject(load("numpy"), "float32"), case.configuration, p)


def _silent(name: str, a: Floats, gain: float) -> Floats:
    if name.endswith("norm_weight"):
        return np.full_like(a, gain)
    return (
        np.zeros_like(a)
        if name.endswith(("norm_bias", "output_weight", "output_bias", "down_weight", "down_bias"))
        else a
    )


def excess(own: Box) -> float:
    return max(c.margin for c in equals("output", own.run(Input(TOKEN))))


AMPLIFIED = [(seed, gain, offset) for seed in range(5) for gain in (0.5, 4.0, 16.0) for offset in (0.05, 0.2)]


def test_a_model_that_amplifies_its_roundoff_is_not_judged_by_the_first_order(monkeypatch) -> None:
    """The last norm is flat where the exact row lies, and the reference's row lies on the other side of zero."""
    models = [amplifiers(*each, layers=2, many=2) for each in AMPLIFIED]
    judged = [excess(own) for own in models]
    decided = [own for own in models if own.run(Input(TOKEN)).due.E.changed() < 1]
    monkeypatch.setattr(adjoint, "STEEPNESS", 0.0)
    by_first_order = [excess(own) for own in models]
    print(f"\n{len(decided)} of {len(models)} decided, worst {max(judged):.2f}; unwidened {max(by_first_order):.3g}")
    assert max(judged) <= 1
    assert 0 < len(decided) < len(models)
    assert max(by_first_order) > 1e6


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(4))
def test_no_chain_of_amplifiers_breaks_the_bound(chunk: int) -> None:
    rng, worst, decided = np.random.default_rng([SEED, chunk]), 0.0, 0
    for _ in range(400):
        layers, gain, offset = int(rng.integers(1, 4)), 2.0 ** rng.uniform(-3, 3), 10 ** rng.uniform(-3, 0)
        own = amplifiers(int(rng.integers(2**31)), gain, offset, layers, int(rng.integers(1, 2 * layers + 1)))
        worst = max(worst, excess(own))
        decided += own.run(Input(TOKEN)).due.E.changed() < 1
    print(f"\n{decided} of 400 decided, worst {worst:.3f}")
    assert worst <= 1
    assert decided > 40
