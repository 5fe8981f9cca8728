"""Correct implementations that were reported as bugs, or look like one: every clause has to let them hold."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.impl.declaration import Declaration
from gnomon.impl.faults.memory import TiledQueries
from gnomon.impl.faults.precision import Storing
from gnomon.impl.faults.registry import control
from gnomon.impl.faults.tiles import Tiled
from gnomon.impl.reference import Array, NumpyReference, wide
from gnomon.impl.tape import asarray, plain, straight
from gnomon.spec.precision import ONE_PASS

_USUAL = NumpyReference.declaration


def _declaring(**conventions: Any) -> Declaration:
    return replace(_USUAL, conventions=replace(_USUAL.conventions, **conventions))


@control("N01", reason="features may be paired either way where no layout is asked for, if that is declared")
class InterleavedDeclared(NumpyReference):
    """Neighbours are paired, as declared, unless halves are asked for."""

    declaration = _declaring(rotary_layout="interleaved")

    def rope(self, x: Array, positions: Array, *, layout: str = "interleaved", **options: Any) -> Array:
        return super().rope(x, positions, layout=layout, **options)


@control("N02", reason="a rotation by minus the angle is as relative as one by the angle, if that is declared")
class BackwardDeclared(NumpyReference):
    """Every pair turns the other way, as declared; no model is offered, whose weights would have to know."""

    declaration = replace(_declaring(rotation="backward"), families=())

    def angles(self, positions: Array, frequencies: Array) -> Array:
        return -super().angles(positions, frequencies)


@control("N03", reason="all sines may stand before all cosines, if that is declared")
class SinesFirstDeclared(NumpyReference):
    """Sines and cosines are concatenated, as declared; no model is offered, whose embeddings would have to know."""

    declaration = replace(_declaring(sinusoids="concatenated"), families=())

    def interleaved(self, sines: Array, cosines: Array) -> Array:
        return np.concatenate([sines, cosines], -1)


@control("N04", reason="a constant added to every score of a row, the sink's too, cancels in the softmax")
class ShiftedBySlope(NumpyReference):
    """Every head's scores stand higher by a slope of its own."""

    def normalise(self, scores: Array, sink: Array | None = None) -> Array:
        if scores.ndim < 3:
            return super().normalise(scores, sink)
        slope = 0.5 ** np.arange(scores.shape[-3], dtype=scores.dtype)[:, None, None]
        return super().normalise(scores + slope, None if sink is None else sink + slope)


@control("N05", reason="a mask after the exponentials, if they are divided by what is left, is one before them")
class MaskedAfterwards(NumpyReference):
    """The exponentials of all keys are taken, masked ones become zero and the others are divided by their sum."""

    def masked(self, scores: Array, mask: Array | None, causal: bool, window: int | None) -> Array:
        self.unmasked = scores
        return super().masked(scores, mask, causal, window)

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        if sink is not None:
            return super().attend(scores, value, sink)
        blocked = np.isneginf(scores)
        # Shifted by the largest allowed score, not by the largest: that may be so far above that nothing is left.
        mass = self.exp(np.where(blocked, self.unmasked, scores) - self.top(scores))
        kept = np.where(blocked, 0, mass).astype(mass.dtype)
        return self.divide(kept, kept.sum(-1, keepdims=True)) @ value


@control("N06", reason="query head i may read key-value head i mod h_kv where that is declared")
class TiledHeads(NumpyReference):
    """Key-value heads are tiled, as declared."""

    declaration = _declaring(head_mapping="tiled")

    def expand(self, shared: Array, heads: int) -> Array:
        return asarray(shared.take(np.arange(heads) % shared.shape[-3], axis=-3))


@control("N07", reason="KQᵀ in column-major order is QKᵀ transposed")
class ColumnMajor(NumpyReference):
    """The scores are products of keys with queries, transposed."""

    def scores(self, query: Array, key: Array, scale: float | None) -> Array:
        return super().scores(key, query, scale).swapaxes(-1, -2)


@control("N10", reason="another order of summation and weights rounded to 16 bits differ by rounding alone")
class RoundedWeightsBackwards(Storing):
    """The last key is summed first and the weights are stored, as declared."""

    declaration = replace(_USUAL, sites=_USUAL.sites | {"probs"})

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        weights = self.normalise(scores[..., ::-1], sink).astype(self.storage)
        return asarray(wide(weights).astype(value.dtype) @ value[..., ::-1, :])


@control("N11", reason="the normed row may be rounded before it meets the gain, or after, as is declared")
class RoundedBeforeGain(NumpyReference):
    """The row is normed with gain one and stored, as declared; the gain comes afterwards."""

    declaration = replace(_USUAL, sites=_USUAL.sites | {"normed"})

    def rms_norm(self, x: Array, weight: Array, *, eps: float) -> Array:
        normed = super().rms_norm(x, np.ones_like(weight), eps=eps)
        return asarray(wide(normed) * wide(weight), x.dtype)


@control("N12", reason="the mean of the squares less the square of the mean is the variance, where that is declared")
class VarianceInOnePass(NumpyReference):
    """The variance is a difference of two means, as declared, and never below zero."""

    declaration = replace(_USUAL, sites=_USUAL.sites | {ONE_PASS})

    def layer_norm(self, x: Array, weight: Array, bias: Array | None = None, *, eps: float) -> Array:
        inner = wide(x)
        mean = self.mean(inner)
        variance = np.maximum(self.mean_square(inner) - mean * mean, 0)
        scaled = self.normed(inner - mean, self.spread(variance, eps)) * wide(weight)
        return asarray(scaled if bias is None else scaled + wide(bias), x.dtype)


@control("N15", reason="a mask of padding need not be triangular: causality is applied apart from it")
class CausalFirst(NumpyReference):
    """Causality and window come first, the given mask afterwards."""

    def masked(self, scores: Array, mask: Array | None, causal: bool, window: int | None) -> Array:
        return super().masked(super().masked(scores, None, causal, window), mask, False, None)


@control("N18", reason="a causal mask may start at the top-left corner where that is declared")
class TopLeftDeclared(NumpyReference):
    """The first query stands at the first key, as declared."""

    declaration = replace(_declaring(alignment="top-left"), families=())

    def distance(self, scores: Array) -> Array:
        queries, keys = scores.shape[-2:]
        return asarray(super().distance(scores) - (keys - queries))


@control("N19", reason="a position over a wavelength is a position times its reciprocal, but for rounding")
class DividedByWavelengths(NumpyReference):
    """Angles are quotients in the arithmetic of the call."""

    def angles(self, positions: Array, frequencies: Array) -> Array:
        return asarray(positions[..., None, :, None].astype(frequencies.dtype) / (1 / frequencies))


@control("complex-rotation", reason="a product of complex numbers turns a pair")
class ComplexRotation(NumpyReference):
    """Each pair is one complex number."""

    def turned(self, first: Array, second: Array, cosine: Array, sine: Array) -> tuple[Array, Array]:
        if not isinstance(first, np.ndarray):
            raise NotImplementedError("no gradient is recorded through complex numbers")
        product = (first + 1j * second) * (cosine + 1j * sine)
        return product.real, product.imag


@control("unscaled", reason="a model may leave the scores unscaled where that is declared, as T5 does")
class UnscaledDeclared(NumpyReference):
    """The scores are not divided, as declared."""

    declaration = _declaring(scale="1")

    def scale(self, width: int, heads: int) -> float:
        return 1.0


@control("true-blocks", reason="true in a boolean mask may block where that is declared")
class TrueBlocks(NumpyReference):
    """True in a boolean mask blocks, as declared."""

    declaration = replace(_declaring(polarity="block"), families=())

    def masked(self, scores: Array, mask: Array | None, causal: bool, window: int | None) -> Array:
        kept = ~mask if mask is not None and mask.dtype == bool else mask
        return super().masked(scores, kept, causal, window)


@control("window-excludes-self", reason="w keys beside the query's own may be seen where that is declared")
class WindowExcludesSelf(NumpyReference):
    """A window of w reaches w keys besides the query's own, as declared."""

    declaration = replace(_declaring(window="excluding-self"), families=())

    def within(self, scores: Array, window: int) -> Array:
        return super().within(scores, window + 1)


@control("empty-row-nan", reason="a row with nothing allowed may be NaN where that is declared")
class EmptyRowIsNan(NumpyReference):
    """A row with nothing allowed is NaN, as declared, and gives nothing back."""

    declaration = replace(_declaring(empty_row="nan"), families=())

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        whole, blocked = super().attend(scores, value, sink), np.isneginf(plain(scores)).all(-1, keepdims=True)
        empty = blocked & (sink is None)
        return straight(np.where(empty, whole.dtype.type(np.nan), plain(whole)), whole)


@control("empty-row-mean", reason="a row with nothing allowed may be the mean of the values where that is declared")
class EmptyRowIsMean(NumpyReference):
    """A row with nothing allowed has equal scores, as declared."""

    declaration = _declaring(empty_row="mean")

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        empty = np.isneginf(scores).all(-1, keepdims=True) & (sink is None)
        return super().attend(np.where(empty, 0, scores).astype(scores.dtype), value, sink)


@control("split-scale", reason="half of the scale on the query and half on the key is the scale on their product")
class SplitScale(NumpyReference):
    """Query and key are each multiplied by the root of the scale."""

    def scores(self, query: Array, key: Array, scale: float | None) -> Array:
        factor = self.scale(query.shape[-1], query.shape[-3]) if scale is None else scale
        root = query.dtype.type(math.sqrt(abs(factor)))
        return super().scores(query * root, key * root, math.copysign(1.0, factor))


@control("base-two", reason="2 to the power of scores that were multiplied by log2(e) is e to their power")
class BaseTwo(NumpyReference):
    """The exponentials are powers of two."""

    def normalise(self, scores: Array, sink: Array | None = None) -> Array:
        factor = scores.dtype.type(math.log2(math.e))
        return super().normalise(scores * factor, None if sink is None else sink * factor)

    def exp(self, shifted: Array) -> Array:
        return asarray(np.exp2(shifted))


@control("online-softmax", reason="a running maximum with rescaling gives the softmax over all keys")
class OnlineSoftmax(Tiled):
    """Keys are read tile by tile."""


@control("tiled-queries", reason="memory is linear where queries are tiled, and declared so")
class LinearMemory(TiledQueries):
    """No whole score matrix is ever there, as declared."""

    declaration = replace(_USUAL, memory="linear")


@control("merged-tiles", reason="tiles that are averaged apart and merged by their masses give the whole")
class MergedTiles(NumpyReference):
    """Each tile of keys has a maximum and an average of its own, and its mass is a score of that average."""

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        cuts = range(0, scores.shape[-1], Tiled.tile)
        tiles = [(scores[..., c : c + Tiled.tile], value[..., c : c + Tiled.tile, :]) for c in cuts]
        averages = np.stack([self.normalise(score) @ part for score, part in tiles], -1)
        weights = self.normalise(np.concatenate([self.mass(score) for score, _ in tiles], -1), sink)
        return asarray((averages * weights[..., None, :]).sum(-1))

    def mass(self, scores: Array) -> Array:
        """The logarithm of the sum of the exponentials of every row."""
        top = self.top(scores)
        return asarray(top + np.log(self.exp(scores - top).sum(-1, keepdims=True)))
