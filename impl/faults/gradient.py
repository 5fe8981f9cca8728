"""Faults of II.2: backward passes that are not those of the forward pass."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference, Parameters
from gnomon.impl.tape import Taped, plain, straight
from gnomon.spec.configuration import Configuration
from gnomon.spec.gradient import (
    DETACHED_BRANCH,
    LAST_HEAD_ALONE,
    LEAK_THROUGH_MASK,
    MISSING_FACTOR,
    NO_RANK_ONE_TERM,
    REPLAYED_NARROW,
    ROTATION_NOT_REVERSED,
    STRAIGHT_THROUGH,
    TIED_OVERWRITTEN,
    UPSTREAM_REUSED,
    VALUE_ROWS_BY_KEY_WIDTH,
)


@commits(MISSING_FACTOR)
class MissingFactor(NumpyReference):
    """The gradient is that of the unscaled products."""

    def scores(self, query: Array, key: Array, scale: float | None) -> Array:
        return straight(super().scores(query, key, scale), super().scores(query, key, 1.0))


@commits(NO_RANK_ONE_TERM)
class NoRankOneTerm(NumpyReference):
    """The total that the masses are divided by is a constant to the gradient."""

    def divide(self, mass: Array, total: Array) -> Array:
        return super().divide(mass, plain(total))


@commits(ROTATION_NOT_REVERSED)
class RotationNotReversed(NumpyReference):
    """The gradient is turned as the features are."""

    def turn(self, x: Array, cosine: Array, sine: Array, layout: str) -> Array:
        return straight(super().turn(x, cosine, sine, layout), super().turn(x, cosine, -sine, layout))


@commits(DETACHED_BRANCH)
class DetachedBranch(NumpyReference):
    """The gate is a constant to the gradient."""

    def gated(self, act: Any, gate: Array, up: Array) -> Array:
        return super().gated(act, plain(gate), up)


@commits(REPLAYED_NARROW)
class ReplayedNarrow(NumpyReference):
    """Gradients of a forward pass through float16."""

    def vjp(self, operation: str, arrays: Sequence[Any], upstream: Array, **options: Any) -> list[Any]:
        return super().vjp(operation, [self.replayed(a) for a in arrays], upstream, **options)

    def replayed(self, x: Any) -> Any:
        """What is kept of the arguments until the replay."""
        if isinstance(x, Mapping):
            return {name: self.replayed(value) for name, value in x.items()}
        return x if x.dtype.kind in "biu" else x.astype(np.float16).astype(x.dtype)


@commits(VALUE_ROWS_BY_KEY_WIDTH)
class ValueRowsByKeyWidth(NumpyReference):
    """Each row of the values' gradient begins one head width behind the last."""

    def vjp(self, operation: str, arrays: Sequence[Any], upstream: Array, **options: Any) -> list[Any]:
        found = super().vjp(operation, arrays, upstream, **options)
        if operation == "attention":
            found[2] = self.written(found[2], arrays[1].shape[-1])
        return found

    def written(self, rows: Array, stride: int) -> Array:
        """The rows in the order of memory, each so far behind the one before."""
        memory, width = np.zeros(rows.size + stride * rows.size, rows.dtype), rows.shape[-1]
        for i, row in enumerate(rows.reshape(-1, width)):
            memory[i * stride : i * stride + width] = row
        return memory[: rows.size].reshape(rows.shape)


@commits(LEAK_THROUGH_MASK)
class LeakThroughMask(NumpyReference):
    """The gradient is that of scores which are lowered where they are masked."""

    def logits(
        self, scores: Array, softcap: float | None, mask: Array | None, causal: bool, window: int | None
    ) -> Array:
        masked = super().logits(scores, softcap, mask, causal, window)
        lowered = np.where(np.isneginf(plain(masked)), scores - scores.dtype.type(5), masked)
        return np.stack([masked, lowered]) if isinstance(scores, Taped) else masked

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        if not isinstance(scores, Taped):
            return super().attend(scores, value, sink)
        return straight(*(super(LeakThroughMask, self).attend(scores[i], value, sink) for i in (0, 1)))


@commits(STRAIGHT_THROUGH)
class StraightThrough(NumpyReference):
    """The gradient of the identity."""

    def relu(self, x: Array) -> Array:
        return straight(super().relu(x), x)


@commits(LAST_HEAD_ALONE)
class LastHeadAlone(NumpyReference):
    """Only the last query head of a group gives its keys and values a gradient."""

    def expand(self, shared: Array, heads: int) -> Array:
        whole = super().expand(shared, heads)
        index = np.arange(heads) * shared.shape[-3] // heads
        last = np.append(index[1:] != index[:-1], True)[:, None, None]
        return straight(whole, whole * last.astype(whole.dtype))


@commits(TIED_OVERWRITTEN)
class TiedOverwritten(NumpyReference):
    """Where the table is tied, the look-up gives it no gradient."""

    def token_vectors(self, parameters: Parameters, tokens: Array, c: Configuration) -> Array:
        kept = {"token_embedding": plain(parameters["token_embedding"])} if c.tied and c.output == "logits" else {}
        return super().token_vectors({**parameters, **kept}, tokens, c)


@commits(UPSTREAM_REUSED)
class UpstreamReused(NumpyReference):
    """The gradient above is overwritten while it is used."""

    def vjp(self, operation: str, arrays: Sequence[Any], upstream: Array, **options: Any) -> list[Any]:
        found = super().vjp(operation, arrays, upstream, **options)
        upstream *= 0
        return found
