"""Faults of IV.1: fields that are too wide, too narrow or elsewhere, and layers that forget or know where they are."""

import math
from typing import Any

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference, wide
from gnomon.spec.reach import (
    CHANNELS_APART,
    CUT_AT_THE_START,
    DILATION_BY_RESHAPE,
    EDGE_TILE_SKIPPED,
    INPUT_THROUGH_THE_WEIGHT,
    KERNEL_AS_STRIDE,
    KERNEL_REVERSED,
    OLDEST_TAP_LOST,
    PADDED_BY_ONE_MORE,
    PADDED_ON_BOTH_SIDES,
    POSITION_IN_CONVOLUTION,
    POSITION_IN_VALUES,
    RECENCY_BIAS,
    ROUNDED_LOGARITHM,
    SECOND_PRODUCT_FORGOTTEN,
    STATE_NOT_CARRIED,
    STEP_TRANSPOSED,
    TAIL_UNREAD,
    WINDOW_OF_THE_BLOCK,
    WRAPS_AROUND,
)

TILE = 4


@commits(PADDED_ON_BOTH_SIDES)
class PaddedOnBothSides(NumpyReference):
    """Half of the padding lies behind the sequence whatever was asked."""

    def padded(self, x: Array, span: int, dilation: int, causal: bool) -> Array:
        return super().padded(x, span, dilation, False)


@commits(CUT_AT_THE_START)
class CutAtTheStart(NumpyReference):
    """Of the outputs over a sequence padded at both ends the last ones are kept."""

    def padded(self, x: Array, span: int, dilation: int, causal: bool) -> Array:
        return np.pad(x, ((0, 0), (0, span), (0, 0))) if causal else super().padded(x, span, dilation, causal)


@commits(WRAPS_AROUND)
class WrapsAround(NumpyReference):
    """The sequence is padded with itself."""

    def padded(self, x: Array, span: int, dilation: int, causal: bool) -> Array:
        before = span if causal else span // 2
        return x.take(np.arange(-before, x.shape[1] + span - before), axis=1, mode="wrap")


@commits(PADDED_BY_ONE_MORE)
class PaddedByOneMore(NumpyReference):
    """There is one dilation more of zeros before the sequence."""

    def padded(self, x: Array, span: int, dilation: int, causal: bool) -> Array:
        return super().padded(x, span + dilation if causal else span, dilation, causal)


@commits(OLDEST_TAP_LOST)
class OldestTapLost(NumpyReference):
    """The first of several taps is not applied."""

    def taps(self, kernel: int) -> list[tuple[int, int]]:
        return super().taps(kernel)[min(1, kernel - 1) :]


@commits(DILATION_BY_RESHAPE)
class DilationByReshape(NumpyReference):
    """As many stretches of time as the dilation says are convolved without one."""

    def convolution(
        self, x: Array, weight: Array, bias: Array | None = None, *, dilation: int = 1, causal: bool = False
    ) -> Array:
        stretches = np.array_split(x, dilation, axis=1)
        return np.concatenate([super(DilationByReshape, self).convolution(s, weight, bias, causal=causal)
                               for s in stretches], axis=1)  # fmt: skip


@commits(KERNEL_REVERSED)
class KernelReversed(NumpyReference):
    """The last tap stands at the oldest place."""

    def taps(self, kernel: int) -> list[tuple[int, int]]:
        return [(i, kernel - 1 - i) for i in range(kernel)]


@commits(TAIL_UNREAD)
class TailUnread(NumpyReference):
    """Keys past the last full tile of four are not allowed, where there is one."""

    def masked(self, scores: Array, mask: Array | None, causal: bool, window: int | None) -> Array:
        keys = scores.shape[-1]
        read = np.arange(keys) < (keys if keys < TILE else keys // TILE * TILE)
        return super().masked(self.permit(scores, read), mask, causal, window)


@commits(EDGE_TILE_SKIPPED)
class EdgeTileSkipped(NumpyReference):
    """The oldest key of a window is left out where it is the last of its tile."""

    def within(self, scores: Array, window: int) -> Array:
        last = np.arange(scores.shape[-1]) % TILE == TILE - 1
        return np.asarray(super().within(scores, window) & ~(last & (self.distance(scores) == max(window - 1, 1))))


@commits(WINDOW_OF_THE_BLOCK)
class WindowOfTheBlock(NumpyReference):
    """The window of a query reaches back as far as that of the first query of its block of four."""

    def within(self, scores: Array, window: int) -> Array:
        behind = self.distance(scores)
        first = behind - np.arange(scores.shape[-2])[:, None] % TILE
        return np.asarray(super().within(scores, window) | ((behind >= 0) & (first < window)))


@commits(KERNEL_AS_STRIDE)
class KernelAsStride(NumpyReference):
    """Each convolution reaches as many positions further as its kernel has taps."""

    def undilated(self, distance: int, kernel: int) -> int:
        return -(-distance // kernel)


@commits(ROUNDED_LOGARITHM)
class RoundedLogarithm(NumpyReference):
    """The depth is the logarithm in floating point, rounded up."""

    def dilated(self, distance: int, kernel: int) -> int:
        return math.ceil(math.log(distance + 1) / math.log(kernel))


@commits(CHANNELS_APART)
class ChannelsApart(NumpyReference):
    """A tap takes one multiplication a feature."""

    def tap_products(self, width: int) -> int:
        return width


@commits(SECOND_PRODUCT_FORGOTTEN)
class SecondProductForgotten(NumpyReference):
    """A pair of positions takes the multiplications of its score."""

    def score_products(self, width: int) -> int:
        return width + 1


@commits(STATE_NOT_CARRIED)
class StateNotCarried(NumpyReference):
    """Every fourth input meets a state of zero."""

    def recurrence(self, x: Array, weight: Array) -> Array:
        chunks = [x[:, t : t + TILE] for t in range(0, x.shape[1], TILE)]
        return np.concatenate([super(StateNotCarried, self).recurrence(c, weight) for c in chunks], axis=1)


@commits(INPUT_THROUGH_THE_WEIGHT)
class InputThroughTheWeight(NumpyReference):
    """The weight is applied to the state with the input in it."""

    def step(self, state: Array, x: Array, weight: Array) -> Array:
        return super().step(state + x, np.zeros_like(x), weight)


@commits(STEP_TRANSPOSED)
class StepTransposed(NumpyReference):
    """The recurrent weight is applied as it lies."""

    def step(self, state: Array, x: Array, weight: Array) -> Array:
        return super().step(state, x, weight.T)


@commits(RECENCY_BIAS)
class RecencyBias(NumpyReference):
    """An eighth a position is taken off the scores of keys that lie apart."""

    def masked(self, scores: Array, mask: Array | None, causal: bool, window: int | None) -> Array:
        fading = scores - np.abs(self.distance(scores)).astype(scores.dtype) / 8
        return super().masked(fading, mask, causal, window)


@commits(POSITION_IN_CONVOLUTION)
class PositionInConvolution(NumpyReference):
    """An eighth of the index of its position is added to every feature of the input."""

    def convolution(self, x: Array, *layer: Any, dilation: int = 1, causal: bool = False) -> Array:
        place = np.arange(x.shape[1], dtype=wide(x).dtype)[:, None] / 8
        return super().convolution(wide(x) + place, *layer, dilation=dilation, causal=causal).astype(x.dtype)


@commits(POSITION_IN_VALUES)
class PositionInValues(NumpyReference):
    """An eighth of the index of its key is added to every value."""

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        place = np.arange(value.shape[-2], dtype=value.dtype)[:, None] / 8
        return super().attend(scores, value + place, sink)
