"""Correct algorithms of cross-entropy that differ in order, in blocking, and in what they store."""

import itertools
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.random import Generator
from regimes import Case, fill, length
from torch.nn import functional

from gnomon.spec.precision import EAGER, EVERYWHERE, FUSED

if TYPE_CHECKING:
    from algorithms import Machine

_LOG2_E = 1 / math.log(2)
Rule = Callable[[Any, Any], Any]
STORED = FUSED | {"normaliser", "logprobs", "losses"}


def loss_case(rng: Generator, regime: str) -> Case:
    rows, words = length(rng, 16), length(rng, 64, 256)
    arrays = {"logits": fill(rng, regime, (1, rows, words))}
    targets = rng.integers(0, words, (1, rows))
    targets[0, 1:][rng.random(rows - 1) < 0.3] = -100
    options = {"targets": targets, "ignore_index": -100, "reduction": str(rng.choice(["none", "sum", "mean"]))}
    return Case(regime=regime, arrays=arrays, options=options)


# log p of every word, from logits in the arithmetic.


def shifted_first(m: "Machine", z: Any) -> Any:
    shifted = m.keep(z - z.max(-1, keepdims=True), "shifted")
    total = m.keep(m.keep(np.exp(shifted), "exps").sum(-1, keepdims=True), "normaliser")
    return m.keep(shifted - m.keep(np.log(total), "normaliser"), "logprobs")


def by_normaliser(m: "Machine", z: Any) -> Any:
    top = z.max(-1, keepdims=True)
    summed = m.keep(np.exp(z - top).sum(-1, keepdims=True), "normaliser")
    return m.keep(z - (top + m.keep(np.log(summed), "normaliser")), "logprobs")


def summed_in_float64(m: "Machine", z: Any) -> Any:
    top = z.max(-1, keepdims=True)
    total = np.exp((z - top).astype(float)).sum(-1, keepdims=True)
    return z - top - np.log(total).astype(m.work)


def base_two(m: "Machine", z: Any) -> Any:
    folded = z * m.work(_LOG2_E)
    top = folded.max(-1, keepdims=True)
    total = np.log2(np.exp2(folded - top).sum(-1, keepdims=True)) + top
    return z - total * m.work(math.log(2))


def online(m: "Machine", z: Any) -> Any:
    top, total = np.full((*z.shape[:-1], 1), -np.inf, m.work), np.zeros((*z.shape[:-1], 1), m.work)
    for start in range(0, z.shape[-1], 16):
        block = z[..., start : start + 16]
        higher = np.maximum(top, block.max(-1, keepdims=True))
        total = total * np.exp(top - higher) + np.exp(block - higher).sum(-1, keepdims=True)
        top = higher
    return z - (top + np.log(total))


def chained(m: "Machine", z: Any) -> Any:
    return z - np.logaddexp.reduce(z, axis=-1, keepdims=True)


def chained_largest_first(m: "Machine", z: Any) -> Any:
    return z - np.logaddexp.reduce(np.sort(z, -1)[..., ::-1], axis=-1, keepdims=True)


def logarithm_of_the_softmax(m: "Machine", z: Any) -> Any:
    """Where the probabilities do not vanish."""
    mass = np.exp(z - z.max(-1, keepdims=True))
    p = mass / mass.sum(-1, keepdims=True)
    return np.log(p) if (p > 2.0**-60).all() else shifted_first(m, z)


# The reduction of the counted losses.


def in_turn(m: "Machine", losses: Any) -> Any:
    total = losses[0]
    for loss in losses[1:]:
        total = m.keep(total + loss, "losses")
    return total


def backwards(m: "Machine", losses: Any) -> Any:
    return in_turn(m, losses[::-1])


def in_pairs(m: "Machine", losses: Any) -> Any:
    while len(losses) > 1:
        odd = losses[len(losses) // 2 * 2 :]
        losses = np.concatenate([m.keep(losses[0:-1:2] + losses[1::2], "losses"), odd])
    return losses[0]


def averaged_first(m: "Machine", losses: Any) -> Any:
    """The sum of the losses over their number, given back as a sum would be."""
    return (losses / m.work(len(losses))).sum() * m.work(len(losses))


def numpy_loss(m: "Machine", case: Case, rule: Rule, add: Rule) -> Any:
    logits, (targets, ignored, reduction) = m.load(case.arrays["logits"]), case.options.values()
    counted = targets != ignored
    losses = -np.take_along_axis(rule(m, logits), np.where(counted, targets, 0)[..., None], -1)[..., 0]
    if reduction == "none":
        return m.keep(np.where(counted, losses, m.work(0)), "out")
    total = add(m, losses[counted])
    return m.keep(np.asarray(total if reduction == "sum" else total / m.work(counted.sum())), "out")


def torch_loss(m: "Machine", case: Case) -> Any:
    logits, (targets, ignored, reduction) = m.tensor(case.arrays["logits"])[0], case.options.values()
    loss = functional.cross_entropy(logits, torch.tensor(targets[0]), ignore_index=ignored, reduction=reduction)
    return loss[None] if reduction == "none" else loss


def torch_normaliser(m: "Machine", case: Case) -> Any:
    """torch.logsumexp less the target's logit, in the arithmetic."""
    logits, (targets, ignored, reduction) = torch.tensor(m.load(case.arrays["logits"])), case.options.values()
    safe = torch.tensor(np.where(targets == ignored, 0, targets))
    losses = (torch.logsumexp(logits, -1) - logits.gather(-1, safe[..., None])[..., 0]).numpy()
    if reduction == "none":
        return m.keep(np.where(targets == ignored, m.work(0), losses), "out")
    kept = losses[targets != ignored]
    return m.keep(np.asarray(kept.sum() if reduction == "sum" else kept.mean()), "out")


RULES = (
    shifted_first,
    by_normaliser,
    summed_in_float64,
    base_two,
    online,
    chained,
    chained_largest_first,
    logarithm_of_the_softmax,
)
ADDITIONS = (in_turn, backwards, in_pairs, averaged_first)


def pairs() -> list[tuple[Rule, Rule]]:
    """Every rule with some addition, and every addition with some rule."""
    return list(zip(RULES, itertools.cycle(ADDITIONS), strict=False))


def named(kinds: Mapping[str, frozenset[str]], algorithm: Callable[..., Any]) -> list[Any]:
    """The algorithms by rule and addition, fused and with what they store."""
    own = [
        algorithm(f"{rule.__name__}, {add.__name__}", kinds["fused"], partial(numpy_loss, rule=rule, add=add))
        for rule, add in pairs()
    ]
    for rule, add in ((shifted_first, in_turn), (by_normaliser, in_pairs), (shifted_first, backwards)):
        label = f"{rule.__name__}, {add.__name__}"
        own += [
            algorithm(f"{label}, {kind}", sites, partial(numpy_loss, rule=rule, add=add))
            for kind, sites in kinds.items()
        ]
    return own


def losses(algorithm: Callable[..., Any]) -> tuple[Any, ...]:
    """All of them as that kind of record."""
    kinds = {"fused": FUSED, "eager": EAGER, "stored": STORED, "everywhere": EVERYWHERE}
    own = named(kinds, algorithm)
    own.append(algorithm("torch F.cross_entropy", EAGER | {"normaliser"}, torch_loss))
    own.append(algorithm("torch.logsumexp", FUSED, torch_normaliser))
    return tuple(own)
