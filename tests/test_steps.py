"""The bounds of optimiser steps: no correct algorithm leaves them, and an adversary of roundings comes close."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from attack import reached
from commanding import gnomon

from gnomon.impl.loading import load
from gnomon.props.bands import ensemble
from gnomon.props.engine import Budget, examine
from gnomon.props.property import properties
from gnomon.props.stepping import Step, due
from gnomon.props.stepping_cases import StepCase
from gnomon.props.subject import Subject
from gnomon.spec.adam import ADAM_STEP, FACTOR_OF_TWO, step
from gnomon.spec.bounds import Bounds, allowed
from gnomon.spec.descent import PLAIN_STEP, Rule, Schedule, State, clipped, global_norm, scheduled
from gnomon.spec.evaluators import Float64
from gnomon.spec.precision import EAGER, ROUGH_POWERS, declared
from gnomon.spec.statistics import fewest_successes

DTYPES = ("float64", "float32", "bfloat16", "float16")
FUSED = frozenset({"out"})


class Steps:
    """A correct optimiser in the arithmetic of a dtype, by one of the ways in which libraries write it down.

    narrow: every number on the way is stored. rough: bias corrections in the arithmetic. folded: the rate meets the
    correction first. outside: the root is taken before the correction. towards: moments move towards the gradient.
    joined: decoupled decay is added to the quotient.
    """

    def __init__(self, precision, rule, *, narrow, rough, folded, outside, towards, joined):
        self.form, self.rule, self.narrow = precision.storage.dtype, rule, narrow
        self.real = precision.arithmetic.dtype.type
        self.rough, self.folded, self.outside, self.towards, self.joined = rough, folded, outside, towards, joined
        self.first = self.second = self.velocity = None
        self.count = 0

    def kept(self, x):
        assert x.dtype == self.real
        return x.astype(self.form).astype(self.real) if self.narrow else x

    def number(self, x):
        return self.kept(np.asarray(x, self.real))

    def step(self, parameter, gradient):
        self.count += 1
        p, g = self.real(parameter), self.real(gradient)
        if self.rule.weight_decay and self.rule.kind != "adamw":
            g = self.kept(g + self.kept(self.number(self.rule.weight_decay) * p))
        moved = self.plain(p, g) if self.rule.kind == "sgd" else self.adam(p, g)
        return moved.astype(self.form).astype(float)

    def plain(self, p, g):
        old = self.velocity
        self.velocity = g if old is None else self.kept(self.kept(self.number(self.rule.momentum) * old) + g)
        return p - self.kept(self.number(self.rule.rate) * self.velocity)

    def adam(self, p, g):
        self.first, self.second = self.moments(g)
        rate, decay = self.rule.rate, self.rule.weight_decay if self.rule.kind == "adamw" else 0.0
        one, two = (self.correction(beta) for beta in self.rule.betas)
        denominator = self.kept(self.root(two) + self.number(self.rule.epsilon))
        if self.joined or not self.folded:
            quotient = self.kept(self.kept(self.first / self.number(one)) / denominator)
        if self.joined and decay:
            return p - self.kept(self.number(rate) * self.kept(quotient + self.kept(self.number(decay) * p)))
        shrunk = self.kept(p * self.number(1 - rate * decay)) if decay else p
        if self.folded:
            return shrunk - self.kept(self.kept(self.number(rate / one) * self.first) / denominator)
        return shrunk - self.kept(self.number(rate) * quotient)

    def moments(self, g):
        (b1, b2), square = self.rule.betas, self.kept(g * g)
        if self.first is None:
            return self.kept(self.number(1 - b1) * g), self.kept(self.number(1 - b2) * square)
        if self.towards:
            first = self.kept(self.first + self.kept(self.number(1 - b1) * self.kept(g - self.first)))
        else:
            first = self.kept(self.kept(self.number(b1) * self.first) + self.kept(self.number(1 - b1) * g))
        return first, self.kept(self.kept(self.number(b2) * self.second) + self.kept(self.number(1 - b2) * square))

    def root(self, two):
        if self.outside:
            return self.kept(self.kept(np.sqrt(self.second)) / self.number(math.sqrt(two)))
        return self.kept(np.sqrt(self.kept(self.second / self.number(two))))

    def correction(self, beta):
        if not self.rough:
            return 1 - beta**self.count
        return float(self.real(1) - np.power(self.real(beta), self.real(self.count)))


WAYS = [dict(zip(("folded", "outside", "towards", "joined"), way, strict=True))
        for way in itertools.product((False, True), repeat=4)]  # fmt: skip


def cases(method, count):
    for seed in range(count):
        regime = ("ordinary", "tiny", "heavy-tails", "powers-of-two", "near-ties")[seed % 5]
        yield StepCase(
            regime=regime, seed=seed, method=method, width=5, steps=4, decaying=seed % 2 == 0, momentum=seed % 3 == 0
        )


@np.errstate(all="ignore")  # epsilon is zero in float16, and so may be what it is added to
def walked(case, precision, **way):
    """The steps of an algorithm of ours, as the judge sees those of an implementation."""
    form, rule = precision.storage, case.rule
    own, now, steps = Steps(precision, rule, **way), case.parameters(form)["w0"], []
    for gradients in case.gradients(form):
        after = own.step(now, gradients["w0"])
        steps.append(Step({"w0": now}, {"w0": gradients["w0"]}, None, {"w0": after}))
        now = after
    return steps


@pytest.mark.parametrize("method", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize(
    ("sites", "narrow", "rough"),
    [(FUSED, False, False), (EAGER, True, False), (FUSED | {ROUGH_POWERS}, False, True)],
    ids=["fused", "eager", "rough"],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_correct_algorithm_leaves_the_bounds(dtype, sites, narrow, rough, method):
    precision, decided = declared(dtype, sites), 0
    subject = Subject(load("numpy"), dtype, rounding=precision)
    for case in cases(method, 10):
        for way in WAYS[:: 1 if method != "sgd" else 16]:
            steps = walked(case, precision, narrow=narrow and precision.narrow, rough=rough, **way)
            for taken, wanted in zip(steps, due(subject, case.rule, steps), strict=True):
                value, room = wanted["w0"]
                assert (np.abs(taken.after["w0"] - value) <= room)[np.isfinite(room)].all(), (case, way)
                decided += np.isfinite(room).sum()
    assert decided > 100


FACTOR = {"sgd": 3.0, "adam": 6.0, "adamw": 6.0}  # at most so many times what an adversary reaches


@pytest.mark.parametrize("method", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("sites", [FUSED, EAGER], ids=["fused", "eager"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_adversary_comes_close(dtype, sites, method):
    precision, shares = declared(dtype, sites), []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rule = Rule(kind=method, rate=0.1, momentum=0.9, betas=(0.9, 0.95), epsilon=0.125, weight_decay=0.25)
        parameter, gradients = rng.uniform(0.5, 1, (1, 1)), rng.uniform(1, 2, (3, 1, 1))

        def run(E, rule=rule, parameter=parameter, gradients=gradients):
            state = State()
            for gradient in gradients:
                after, state = step(E, rule, parameter, gradient, state)
            return after

        room = float(allowed(run(Bounds(precision)))[0, 0])
        shares.append(reached(run, precision, np.asarray(run(Float64())), 0) / room)
    assert max(shares) <= 1 + 2.0**-10
    assert np.median(shares) >= 1 / FACTOR[method]


def test_clipping_is_sound_and_sharp():
    for dtype in DTYPES:
        precision, rng = declared(dtype, FUSED), np.random.default_rng(0)
        real, most = precision.arithmetic.dtype.type, 0.0
        for _ in range(200):
            drawn = {n: rng.standard_normal(int(rng.integers(1, 9))) for n in "ab"}
            gradients = {n: g.astype(precision.storage.dtype).astype(float) for n, g in drawn.items()}
            limit = 0.3 * global_norm(gradients)
            squares = [np.add.reduce(real(g) * real(g)) for g in gradients.values()]
            factor = real(limit) / np.sqrt(sum(squares[1:], squares[0]))
            for name, wanted in clipped(Bounds(precision), gradients, limit, 0.0).items():
                got = (real(gradients[name]) * factor).astype(precision.storage.dtype).astype(float)
                most = max(most, float(np.max(np.abs(got - wanted.value) / allowed(wanted))))
        assert most <= 1, dtype
        assert most > 0.05 or dtype == "float64", dtype  # which computes as the specification does


def test_a_schedule_that_is_told_in_another_order_stays_within_the_bounds():
    E, rng = Bounds(declared("float64")), np.random.default_rng(0)
    for _ in range(500):
        warmup, fall = (int(n) for n in rng.integers(1, 50, 2))
        peak, share = float(rng.uniform()), float(rng.uniform())
        told = Schedule(kind="cosine", peak=peak, warmup=warmup, total=warmup + fall, minimum=share * peak)
        step = int(rng.integers(warmup, warmup + fall + 1))
        left = 0.5 * (1.0 + math.cos(math.pi * ((step - warmup) / fall)))
        got, wanted = peak * (left * (1 - told.minimum / peak) + told.minimum / peak), scheduled(E, told, step)
        assert abs(got - wanted.value) <= allowed(wanted)


def test_roots_of_what_may_be_zero_have_a_bound():
    E = Bounds(declared("float32"))
    root = E.sqrt(E.number(np.array([0.0, 4.0])))
    assert root.value.tolist() == [0.0, 2.0]
    assert root.error[0] == 0 < root.error[1]
    blurred = E.sqrt(E.computed(np.array([4.0]), np.array([2.0**20])))
    assert blurred.value - blurred.error <= math.sqrt(4 - 0.25)


@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(9, 10)])
def test_the_fewest_successes_are_exact(share):
    fewest = fewest_successes(48, share, Fraction(1, 10**9))
    tails = [sum(math.comb(48, k) * share**k * (1 - share) ** (48 - k) for k in range(n)) for n in (fewest, fewest + 1)]
    assert tails[0] <= Fraction(1, 10**9) < tails[1]


def test_the_least_losses_of_the_ensemble_are_least():
    problems = ensemble(3)
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert (problems.losses(rng.standard_normal(problems.start.shape)) >= problems.least).all()


def test_the_gradients_of_the_ensemble_are_its_losses_slopes():
    problems, nudge = ensemble(4), 2.0**-20
    x = problems.start
    for axis in range(x.shape[1]):
        along = np.zeros_like(x)
        along[:, axis] = nudge
        slope = (problems.losses(x + along) - problems.losses(x - along)) / (2 * nudge)
        assert np.max(np.abs(slope - problems.gradients(x)[:, axis])) < nudge


@pytest.mark.parametrize("clause", [PLAIN_STEP, ADAM_STEP], ids=lambda c: c.number)
def test_other_optimisers_hold(clause):
    (own,) = (p for p in properties() if p.clause is clause)
    for name in ("torch", "gnomon.impl.adapters.optax_training"):
        verdict = examine(own, Subject(load(name), "float32"), Budget(cases=20, sensitivity=False))
        assert verdict.status == "holds", verdict.message


def test_the_instrument_of_the_command_is_one_that_the_clause_lets_pass():
    (own,) = (p for p in properties() if p.clause is FACTOR_OF_TWO)
    verdict = examine(own, Subject(load("gnomon.props.rates"), "float64"), Budget(cases=20))
    assert verdict.status == "holds", verdict.message


FRAGILE = """
def conclusion(rate):
    return "A is better" if rate < 0.15 else "B is better"


def same(rate):
    return "A is better"
"""


@pytest.fixture
def procedures(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FRAGILE)
    return path


def test_a_fragile_conclusion_is_said_to_be_one(procedures):
    ran = gnomon("factor-of-two", f"{procedures}:conclusion", "--rate", "0.1")
    assert ran.code == 1
    assert ran.out == (
        " rate  conclusion  \n 0.05  A is better \n 0.1   A is better \n 0.2   B is better \n"
        "the conclusion at 0.1 does not survive a factor of two in the rate (I.3.5)\n"
    )


def test_a_robust_conclusion_survives(procedures):
    ran = gnomon("factor-of-two", f"{procedures}:same", "--rate", "0.1")
    assert ran.code == 0
    assert ran.out.endswith("the conclusion at 0.1 survives a factor of two in the rate (I.3.5)\n")


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("mine.py", "mine.py names no function: give it as module:function or ./file.py:function"),
        ("mine.py:other", "the module mine.py has no other: check the name after the colon"),
        ("nothing_here:f", "nothing_here cannot be imported: No module named 'nothing_here'"),
    ],
)
def test_what_is_no_procedure_is_said(procedures, monkeypatch, target, told):
    monkeypatch.chdir(procedures.parent)
    ran = gnomon("factor-of-two", target, "--rate", "0.1")
    assert ran.code == 2
    assert told in ran.err


def test_both_bands_are_printed_with_both_ends():
    ran = gnomon("bands", "numpy", "--seed", "3")
    rows = [line.split() for line in ran.out.splitlines()[2:6]]
    assert [row[-1] for row in rows] == ["24"] * 4
    for row in rows:
        low, high = (float(n) for n in row[-6:-4])
        assert low < high
    assert ran.out.splitlines()[-1].startswith("Adam's band is the wider one for 48 of 48 problems")
