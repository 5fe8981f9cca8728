"""Gradients of whole models in float32: correct ones are within the adjoint bound, and one in a thousand off is not."""

from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from gnomon.impl.loading import Implementation, described, load
from gnomon.impl.reference import NumpyReference
from gnomon.props.box import Box, Input, box
from gnomon.props.gradients import Slopes, slopes
from gnomon.props.model_cases import ModelCase
from gnomon.props.subject import Subject
from gnomon.spec.bounds import round_to
from gnomon.spec.evaluators import Floats
from gnomon.spec.families import FAMILIES
from gnomon.spec.precision import FLOAT32

CASES = 3
TRANSFORMERS = ("llama", "gpt2")


class Backwards(NumpyReference):
    """The reference with features, keys and the scale in another order, forwards and so on the way back."""

    def linear(self, x: Any, weight: Any, bias: Any = None) -> Any:
        return super().linear(x[..., ::-1], weight[:, ::-1], bias)

    def scores(self, query: Any, key: Any, scale: float | None) -> Any:
        return super().scores(query[..., ::-1], key[..., ::-1], scale)

    def attend(self, scores: Any, value: Any, sink: Any) -> Any:
        turned = (scores[..., ::-1], value[..., ::-1, :]) if sink is None else (scores, value)
        return super().attend(*turned, sink)


def drawn(family: str, rng: Generator) -> ModelCase:
    """A model of two layers."""
    shared = FAMILIES[family].shares and bool(rng.integers(2))
    return ModelCase(
        family=family, seed=int(rng.integers(2**31)), regime="ordinary", layers=2, heads=2, kv_heads=1 if shared else 2,
        head_width=4, feed_forward=6, vocabulary=7, time=4, batch=2,
    )  # fmt: skip


def found(implementation: Implementation, case: ModelCase, rng: Generator) -> tuple[Box, dict[str, Floats], Slopes]:
    """The gradients that it gives, and those that are due."""
    model, given = box(Subject(implementation, "float32"), case), Input(case.tokens())
    upstream = round_to(rng.standard_normal((case.batch, case.time, model.width)), FLOAT32)
    return model, model.gradients(given, upstream), slopes(model, given, upstream)


def share(got: dict[str, Floats], due: Slopes, rng: Generator) -> float:
    """Of the bound, what errors use: in the entry that is farthest off, along all errors, and along random signs."""
    errors = {n: g - due.value(n) for n, g in got.items()}
    worst = max(errors, key=lambda n: float(np.abs(errors[n]).max()))
    entry = np.zeros(got[worst].shape)
    entry[np.unravel_index(np.argmax(np.abs(errors[worst])), entry.shape)] = 1.0
    signs = {n: rng.choice((-1.0, 1.0), e.shape) for n, e in errors.items()}
    ways = {worst: entry}, {n: np.sign(e) for n, e in errors.items()}, signs
    return max(abs(sum(float((f * errors[n]).sum()) for n, f in way.items())) / due.allowed(way) for way in ways)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_correct_gradient_of_a_model_is_outside_its_bound(family: str) -> None:
    rng, worst, decided = np.random.default_rng([20260505, list(FAMILIES).index(family)]), 0.0, 0
    orders = load("numpy"), described("backwards", Backwards(), "")
    for _ in range(CASES):
        case = drawn(family, rng)
        for implementation in orders:
            _, got, due = found(implementation, case, rng)
            used = share(got, due, rng)
            worst, decided = max(worst, used), decided + (due.E.changed() < 1)
    print(f"\n{family}: {decided} of {CASES * len(orders)} decided, worst error/bound {worst:.3f}")
    assert worst <= 1
    assert decided >= CASES


@pytest.mark.parametrize("family", TRANSFORMERS)
def test_no_gradient_of_transformers_is_outside_its_bound(family: str) -> None:
    rng, implementation = np.random.default_rng(20260506), load("transformers")
    for _ in range(CASES):
        _, got, due = found(implementation, drawn(family, rng), rng)
        used = share(got, due, rng)
        print(f"\n{family}: worst error/bound {used:.3f}")
        assert used <= 1


def test_a_gradient_that_is_off_by_one_in_two_thousand_is_outside() -> None:
    rng = np.random.default_rng(20260507)
    _, got, due = found(load("numpy"), drawn("llama", rng), rng)
    for name in ("layers.0.query_weight", "layers.1.up_weight", "token_embedding"):
        wrong = {**got, name: got[name] * (1 + 2.0**-11)}
        assert share(wrong, due, rng) > 1
