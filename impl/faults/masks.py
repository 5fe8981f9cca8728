"""Faults of V.4: masks that leak, that do nothing, or that hide something else."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.impl.faults.precision import Storing
from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference, wide
from gnomon.impl.tape import Taped, straight
from gnomon.spec.masks import (
    ADDITIVE_AS_BOOLEAN,
    ADDITIVE_IGNORED,
    ALIGNMENT_SWITCHES,
    BUILDER_OVERFLOWS,
    CAUSAL_OFF_BY_ONE,
    EMPTY_ROW_GRADIENT_SPREADS,
    EMPTY_ROW_SPREADS,
    FAINT_LEAK,
    FILL_DISCARDED,
    FINITE_PENALTY,
    FOLDED_IN_OTHER_ORDER,
    HUGE_LEAKS,
    INVERTED_BOOLEAN,
    MASK_AFTER_SOFTMAX,
    MASK_FORWARD_ONLY,
    MASK_MULTIPLIED,
    MASK_REPLACES_MASK,
    MASKED_EXPONENTIALS,
    NAN_FOR_EMPTY_ROW,
    NAN_LEAKS,
    ONLY_FUTURE,
    PADDING_ON_ROWS,
    RIGHT_BOUND_STRICT,
    SMALL_LEAK,
    SMALLEST_NUMBER_OVERFLOWS,
    STATISTIC_OVER_POSITIONS,
    STRICT_INEQUALITY,
    TINY_PENALTY,
    TOP_LEFT,
    TWO_PENALTIES,
    WINDOW_ONE_LESS,
    WINDOW_ONE_MORE,
    WINDOW_UNLIMITED,
)

_USUAL = NumpyReference.declaration
_MEAN_PROMISED = replace(_USUAL, conventions=replace(_USUAL.conventions, empty_row="mean"))


def _without_masks(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in ("mask", "causal", "window")}


@commits(FINITE_PENALTY)
class FinitePenalty(NumpyReference):
    """Ten thousand is taken off a masked score."""

    def permit(self, scores: Array, allowed: Array) -> Array:
        return np.where(allowed, scores, scores - 10_000)


@commits(TINY_PENALTY)
class TinyPenalty(NumpyReference):
    """A billionth is taken off a masked score."""

    def permit(self, scores: Array, allowed: Array) -> Array:
        return np.where(allowed, scores, scores - 1e-9)


@commits(MASK_MULTIPLIED)
class MaskMultiplied(NumpyReference):
    """A masked score becomes zero."""

    def permit(self, scores: Array, allowed: Array) -> Array:
        return np.asarray(scores * allowed)


@commits(SMALL_LEAK)
class SmallLeak(NumpyReference):
    """A ten-thousandth of the weights is what they are without a mask."""

    def attention(self, query: Array, key: Array, value: Array, **options: Any) -> Array:
        masked = super().attention(query, key, value, **options)
        leak = super().attention(query, key, value, **_without_masks(options))
        return (wide(masked) + (wide(leak) - wide(masked)) * 0.0001).astype(masked.dtype)


@commits(FILL_DISCARDED)
class FillDiscarded(NumpyReference):
    """The scores that a mask has filled are not the ones that are used."""

    def permit(self, scores: Array, allowed: Array) -> Array:
        return scores


@commits(PADDING_ON_ROWS)
class PaddingOnRows(NumpyReference):
    """Where the lengths agree, ten thousand is taken off the rows of padded queries."""

    def masked(self, scores: Array, mask: Array | None, causal: bool, window: int | None) -> Array:
        if mask is None or mask.shape[-2] != 1 or scores.shape[-2] != scores.shape[-1]:
            return super().masked(scores, mask, causal, window)
        penalty = np.where(mask, 0, -10_000) if mask.dtype == bool else np.maximum(wide(mask), -10_000)
        return super().masked(scores + penalty.swapaxes(-1, -2).astype(scores.dtype), None, causal, window)


@commits(BUILDER_OVERFLOWS)
class BuilderOverflows(Storing):
    """The penalty is a matrix of zeros and ones times minus a billion, both in the storage format."""

    def permit(self, scores: Array, allowed: Array) -> Array:
        blocked = (~allowed).astype(self.storage)
        return scores + wide(blocked * self.storage.type(-1e9))


@commits(CAUSAL_OFF_BY_ONE)
class CausalOffByOne(NumpyReference):
    """The key after the query is allowed too."""

    def past(self, scores: Array) -> Array:
        return np.asarray(self.distance(scores) >= -1)


@commits(STATISTIC_OVER_POSITIONS)
class StatisticOverPositions(NumpyReference):
    """Each row of scores is centred by its mean over all keys before it is masked."""

    def masked(self, scores: Array, mask: Array | None, causal: bool, window: int | None) -> Array:
        return super().masked(scores - scores.mean(-1, keepdims=True), mask, causal, window)


@commits(FAINT_LEAK)
class FaintLeak(NumpyReference):
    """The unmasked output is added with a factor of 1e-40."""

    def attention(self, query: Array, key: Array, value: Array, **options: Any) -> Array:
        masked = super().attention(query, key, value, **options)
        leak = super().attention(query, key, value, **_without_masks(options))
        # In float64, where the factor is no subnormal number: only huge values come through.
        return (masked.astype(np.float64) + 1e-40 * leak.astype(np.float64)).astype(masked.dtype)


@commits(ONLY_FUTURE)
class OnlyFuture(NumpyReference):
    """The causal mask keeps what it should block."""

    def past(self, scores: Array) -> Array:
        return ~super().past(scores)


@commits(MASK_AFTER_SOFTMAX)
class MaskAfterSoftmax(NumpyReference):
    """Masked weights become zero after the softmax, whose sum has counted them."""

    def masked(self, scores: Array, mask: Array | None, causal: bool, window: int | None) -> Array:
        self.unmasked = scores
        return super().masked(scores, mask, causal, window)

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        blocked = np.isneginf(scores)
        weights = self.normalise(np.where(blocked, self.unmasked, scores), sink)
        return np.where(blocked, 0, weights).astype(value.dtype) @ value


@commits(STRICT_INEQUALITY)
class StrictInequality(NumpyReference):
    """A query sees the keys before its own position, and that alone if there are none."""

    def past(self, scores: Array) -> Array:
        before = np.asarray(self.distance(scores) > 0)
        return np.asarray(before | (super().past(scores) & ~before.any(-1, keepdims=True)))


@commits(TOP_LEFT)
class TopLeft(NumpyReference):
    """The first query stands at the first key when there are more keys than queries."""

    def distance(self, scores: Array) -> Array:
        queries, keys = scores.shape[-2:]
        return np.asarray(super().distance(scores) - max(keys - queries, 0))


@commits(ALIGNMENT_SWITCHES)
class AlignmentSwitches(NumpyReference):
    """The first query stands at the first key when there are more queries than keys."""

    def distance(self, scores: Array) -> Array:
        queries, keys = scores.shape[-2:]
        return np.asarray(super().distance(scores) + max(queries - keys, 0))


@commits(INVERTED_BOOLEAN)
class InvertedBoolean(NumpyReference):
    """True in a boolean mask blocks."""

    def masked(self, scores: Array, mask: Array | None, causal: bool, window: int | None) -> Array:
        read = ~mask if mask is not None and mask.dtype == bool else mask
        return super().masked(scores, read, causal, window)


@commits(ADDITIVE_AS_BOOLEAN)
class AdditiveAsBoolean(NumpyReference):
    """An additive mask keeps what is not zero in it."""

    def biased(self, scores: Array, mask: Array) -> Array:
        return self.permit(scores, mask.astype(bool))


@commits(ADDITIVE_IGNORED)
class AdditiveIgnored(NumpyReference):
    """An additive mask has no effect."""

    def biased(self, scores: Array, mask: Array) -> Array:
        return scores


@commits(NAN_FOR_EMPTY_ROW)
class NanForEmptyRow(NumpyReference):
    """Minus infinity is taken off minus infinity in a row with nothing allowed."""

    def top(self, scores: Array) -> Array:
        return np.asarray(scores.max(-1, keepdims=True))


@commits(EMPTY_ROW_SPREADS)
class EmptyRowSpreads(NumpyReference):
    """One shift serves the whole batch, the smallest of its rows' maxima, which an empty row makes infinite."""

    def top(self, scores: Array) -> Array:
        top = scores.max(-1, keepdims=True)
        return np.full_like(top, top.min())


@commits(SMALLEST_NUMBER_OVERFLOWS)
class SmallestNumberOverflows(Storing):
    """The storage format's smallest number is added to a masked score in that format."""

    declaration = _MEAN_PROMISED

    def permit(self, scores: Array, allowed: Array) -> Array:
        penalised = wide(scores.astype(self.storage) + self.smallest.astype(self.storage))
        return np.where(allowed | (scores <= self.smallest), scores, penalised)


@commits(WINDOW_ONE_MORE)
class WindowOneMore(NumpyReference):
    """A window of w reaches the key at distance w."""

    def within(self, scores: Array, window: int) -> Array:
        return super().within(scores, window + 1)


@commits(WINDOW_ONE_LESS)
class WindowOneLess(NumpyReference):
    """A window of w ends before the key at distance w−1."""

    def within(self, scores: Array, window: int) -> Array:
        return super().within(scores, window - 1)


@commits(WINDOW_UNLIMITED)
class WindowUnlimited(NumpyReference):
    """A window has no bounds."""

    def within(self, scores: Array, window: int) -> Array:
        return np.ones(scores.shape[-2:], bool)


@commits(RIGHT_BOUND_STRICT)
class RightBoundStrict(NumpyReference):
    """A window ends one key earlier ahead of the query than behind it."""

    def within(self, scores: Array, window: int) -> Array:
        return np.asarray(super().within(scores, window) & (-self.distance(scores) < max(window - 1, 1)))


@commits(NAN_LEAKS)
class NanLeaks(NumpyReference):
    """Minus infinity is added to a masked score and the weight of zero multiplies its value."""

    declaration = replace(_USUAL, conventions=replace(_USUAL.conventions, masked_key="blocked", masked_value="blocked"))

    def permit(self, scores: Array, allowed: Array) -> Array:
        return np.asarray(scores + np.where(allowed, 0, -np.inf).astype(scores.dtype))


@commits(HUGE_LEAKS)
class HugeLeaks(NumpyReference):
    """The mean of all values is taken off them before the average and added again afterwards."""

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        weights, centre = self.normalise(scores, sink), value.mean(-2, keepdims=True)
        return np.asarray(weights @ (value - centre) + weights.sum(-1, keepdims=True) * centre)


@commits(MASK_REPLACES_MASK)
class MaskReplacesMask(NumpyReference):
    """A given mask switches the causal one off."""

    def masked(self, scores: Array, mask: Array | None, causal: bool, window: int | None) -> Array:
        return super().masked(scores, mask, causal and mask is None, window)


@commits(TWO_PENALTIES)
class TwoPenalties(Storing):
    """A masked score becomes the storage format's smallest number, and minus infinity when masked again."""

    declaration = _MEAN_PROMISED

    def permit(self, scores: Array, allowed: Array) -> Array:
        penalised = np.where(scores > self.smallest, self.smallest, -np.inf).astype(scores.dtype)
        return np.where(allowed, scores, penalised)


@commits(FOLDED_IN_OTHER_ORDER)
class FoldedInOtherOrder(NumpyReference):
    """Scores are folded as batch by heads and the mask as heads by batch."""

    def masked(self, scores: Array, mask: Array | None, causal: bool, window: int | None) -> Array:
        if mask is not None and scores.ndim == 4:
            full = np.broadcast_to(mask, (*scores.shape[:2], *mask.shape[-2:]))
            mask = full.swapaxes(0, 1).reshape(full.shape)
        return super().masked(scores, mask, causal, window)


@commits(MASKED_EXPONENTIALS)
class MaskedExponentials(NumpyReference):
    """Exponentials are taken below the maximum over all scores, masked ones too, and then masked."""

    def logits(
        self, scores: Array, softcap: float | None, mask: Array | None, causal: bool, window: int | None
    ) -> Array:
        shifted = scores - scores.max(-1, keepdims=True)
        kept = super().logits(scores, softcap, mask, causal, window)
        return np.where(self.exp(shifted) > 0, kept, -np.inf).astype(scores.dtype)


@commits(MASK_FORWARD_ONLY)
class MaskForwardOnly(NumpyReference):
    """Gradients are those of attention without a mask."""

    def logits(
        self, scores: Array, softcap: float | None, mask: Array | None, causal: bool, window: int | None
    ) -> Array:
        masked = super().logits(scores, softcap, mask, causal, window)
        return np.stack([masked, self.cap(scores, softcap)]) if isinstance(scores, Taped) else masked

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        if not isinstance(scores, Taped):
            return super().attend(scores, value, sink)
        return straight(*(super(MaskForwardOnly, self).attend(scores[i], value, sink) for i in (0, 1)))


@commits(EMPTY_ROW_GRADIENT_SPREADS)
class EmptyRowGradientSpreads(NumpyReference):
    """What is divided by nothing is replaced by zeros in the forward pass alone."""

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        mass = self.exp(scores - self.top(scores))
        return straight(super().attend(scores, value, sink), (mass / mass.sum(-1, keepdims=True)) @ value)
