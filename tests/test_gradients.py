"""Gradients of files from elsewhere: what is wrong is named, and what is no gradient is said in a sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commanding import Ran

from gnomon.impl.loading import load
from gnomon.props.outcome import ImplementationFailed
from gnomon.props.subject import Subject

RIGHT = """
import torch
from gnomon.impl.declaration import Declaration

declaration = Declaration(framework="torch")


def softmax(logits):
    return Softmax.apply(logits)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits):
        p = torch.softmax(logits, -1)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx, g):
        (p,) = ctx.saved_tensors
        return {backward}
"""
RANK_ONE = "p * (g - (p * g).sum(-1, keepdim=True))"

MASKED = """
import torch
from gnomon.impl.declaration import Declaration

declaration = Declaration(framework="torch")


def attention(query, key, value, *, causal=False):
    scores = query @ key.mT / query.shape[-1] ** 0.5
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool)
    return Masked.apply(scores, mask.tril() if causal else mask) @ value


class Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, mask):
        p = torch.softmax(scores.masked_fill(~mask, -torch.inf), -1)
        ctx.save_for_backward(scores, p)
        return p

    @staticmethod
    def backward(ctx, g):
        scores, p = ctx.saved_tensors
        {unmasked}
        return p * (g - (p * g).sum(-1, keepdim=True)), None
"""

OWN = """
import numpy as np


def linear(x, weight, bias=None):
    return x @ weight.T if bias is None else x @ weight.T + bias


def vjp(operation, arrays, upstream):
    x, weight = arrays[:2]
    rows = upstream.reshape(-1, upstream.shape[-1])
    by_x, by_weight, by_bias = upstream @ weight, rows.T @ x.reshape(-1, x.shape[-1]), rows.sum(0)
    return {returned}
"""


def checked(check: Any, where: Path, text: str, *options: str) -> Ran:
    """`gnomon check` of a file of this text."""
    file = where / "mine.py"
    file.write_text(text)
    return check(str(file), *options)


def clauses(*numbers: str) -> tuple[str, ...]:
    return tuple(word for number in numbers for word in ("--clause", number))


def test_a_softmax_without_its_rank_one_term_is_named_by_the_pairing(check: Any, tmp_path: Path) -> None:
    ran = checked(check, tmp_path, RIGHT.format(backward="p * g"), *clauses("II.2"))
    assert ran.statuses["II.2.1"] == ran.statuses["II.2.2"] == "violated"
    first = next(v["clause"] for v in ran.verdicts if v["status"] == "violated")
    assert first == "II.2.1"
    assert "no-rank-one-term" in ran.out or "without − p·Σ p·g" in ran.out


def test_the_right_softmax_holds(check: Any, tmp_path: Path) -> None:
    ran = checked(check, tmp_path, RIGHT.format(backward=RANK_ONE), *clauses("II.2.1", "II.2.2"))
    assert ran.statuses["II.2.1"] in ("holds", "insensitive")
    assert ran.statuses["II.2.2"] in ("holds", "insensitive")


@pytest.mark.parametrize(("unmasked", "status"), [("p = torch.softmax(scores, -1)", "violated"), ("pass", "holds")])
def test_a_mask_that_the_backward_pass_forgets_is_named(check: Any, tmp_path: Path, unmasked: str, status: str) -> None:
    """What one query gives back to keys behind it."""
    ran = checked(check, tmp_path, MASKED.format(unmasked=unmasked), *clauses("V.4.3"))
    assert ran.statuses == {"V.4.3": status}
    assert ("gradient of query" in ran.out) == (status == "violated")


def test_a_function_without_gradients_is_unsupported(check: Any, tmp_path: Path) -> None:
    text = RIGHT.format(backward=RANK_ONE).replace("def softmax", "@torch.no_grad()\ndef softmax")
    ran = checked(check, tmp_path, text, *clauses("II.2.1"))
    assert ran.statuses == {"II.2.1": "unsupported"}
    assert "it records no gradients" in ran.out


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        ("[by_x]", "the gradient of linear is a list of 1 where 2 are due, one for each array"),
        ("by_x", "the gradient of linear is a ndarray where a list of 2 is due"),
        ("None", "the gradient of linear is a NoneType where a list of 2 is due"),
        ("[by_x, by_weight.T]", "the gradient of linear by argument 2 returned the shape (3, 4) where (4, 3) is due"),
        ("[by_x, None]", "the gradient of linear by argument 2 returned a NoneType where a NumPy array was due"),
        (
            "arrays[9]",
            "the gradient of linear raised IndexError: list index out of range for (1, 2, 3), (4, 3), (1, 2, 4)",
        ),
    ],
)
def test_what_is_no_gradient_is_one_sentence(tmp_path: Path, returned: str, sentence: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(OWN.format(returned=returned))
    subject = Subject(load(str(file)), "float32")
    with pytest.raises(ImplementationFailed) as failed:
        subject.vjp("linear", np.ones((1, 2, 3)), np.ones((4, 3)), upstream=np.ones((1, 2, 4)))
    assert str(failed.value) == sentence


def test_a_wrong_number_of_gradients_is_reported_without_a_trace(check: Any, tmp_path: Path) -> None:
    ran = checked(check, tmp_path, OWN.format(returned="[by_x]"), *clauses("II.2.1"))
    assert "the gradient of linear is a list of 1 where " in " ".join(ran.out.split())
    assert "Traceback" not in ran.out + ran.err
    assert ran.statuses == {"II.2.1": "error"}


def test_gradients_of_ones_own_hold(check: Any, tmp_path: Path) -> None:
    text = OWN.format(returned="[by_x, by_weight, by_bias][: len(arrays)]")
    ran = checked(check, tmp_path, text, *clauses("II.2.1", "II.2.2"))
    assert set(ran.statuses.values()) <= {"holds", "insensitive"}
