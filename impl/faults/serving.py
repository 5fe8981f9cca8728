"""Faults as servers of models make them: of tiles, pages, shifted and shared caches, batches and layouts."""

from typing import Any, ClassVar

import numpy as np

from gnomon.impl.faults.function import raw
from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference, Parameters, Pass
from gnomon.spec.function import RAW_VALUES, RAW_WHEN_WIDE, SPLIT_BY_BATCH, STALE_PREFIX
from gnomon.spec.masks import PAGES_OF_TWO_SIZES, TILES_BY_QUERIES
from gnomon.spec.rotary import SHIFT_NOT_SUMMED

WRITTEN, READ = 4, 2  # tokens of a page for the one that writes and the one that reads


def in_eight_bits(x: Array) -> Array:
    """The numbers with three significant bits, as many as the widest format of eight bits has."""
    fraction, exponent = np.frexp(x)
    return np.asarray(np.ldexp(np.rint(fraction * 8) / 8, exponent), x.dtype)


@commits(TILES_BY_QUERIES)
class TilesByQueries(NumpyReference):
    """Weights get eight bits under the maximum so far: of two keys at a time, or of all keys for a single query."""

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        if sink is not None:
            return super().attend(scores, value, sink)
        keys = scores.shape[-1]
        tile = 2 if scores.shape[-2] > 1 else keys
        ends = np.minimum(np.arange(keys) // tile * tile + tile, keys) - 1
        so_far = np.maximum.accumulate(scores, -1)[..., ends]
        so_far = np.where(np.isneginf(so_far), 0, so_far).astype(scores.dtype)
        mass = in_eight_bits(self.exp(scores - so_far)) * self.exp(so_far - self.top(scores))
        return self.divide(mass, mass.sum(-1, keepdims=True)) @ value


@commits(PAGES_OF_TWO_SIZES)
class PagesOfTwoSizes(NumpyReference):
    """Cached tokens are read at other slots than they were written to, behind the first page."""

    def remembered(self, key: Array, value: Array, layer: int, p: Pass) -> tuple[Array, Array]:
        keys, values = super().remembered(key, value, layer, p)
        return self.paged(keys, p.start), self.paged(values, p.start)

    def paged(self, held: Array, start: int) -> Array:
        """The heads with the first `start` tokens as they come back from pages."""
        tokens = np.arange(start)
        store = np.zeros((*held.shape[:2], start + 4 * WRITTEN, held.shape[3]), held.dtype)
        store[:, :, self.slot(tokens, WRITTEN)] = held[:, :, :start]
        return np.concatenate([store[:, :, self.slot(tokens, READ)], held[:, :, start:]], 2)

    def slot(self, tokens: Array, page: int) -> Array:
        """Where tokens lie, pages after the first exchanged in pairs."""
        return np.asarray((((tokens // page + 1) ^ 1) - 1) * page + tokens % page)


@commits(SHIFT_NOT_SUMMED)
class ShiftNotSummed(NumpyReference):
    """What was turned before is turned anew from where it was then, by the second positions alone."""

    earlier: tuple[tuple[bytes, Array], ...] = ()

    def rope(self, x: Array, positions: Array, **options: Any) -> Array:
        known = x.tobytes()
        source = next((s for held, s in self.earlier if held == known and s.shape == x.shape), x)
        result = super().rope(source, positions, **options)
        self.earlier = (*self.earlier[-3:], (result.tobytes(), source))
        return result


@commits(STALE_PREFIX)
class StalePrefix(NumpyReference):
    """Keys and values are kept for every model that reads the same tokens."""

    asked: tuple[Any, ...] = ()
    prefixes: ClassVar[dict[tuple[Any, ...], tuple[Array, Array]]] = {}

    def forward(self, parameters: Parameters, tokens: Array, p: Pass) -> Array:
        self.asked = tokens.shape, tokens.tobytes(), p.positions.tobytes(), p.configuration
        return super().forward(parameters, tokens, p)

    def remembered(self, key: Array, value: Array, layer: int, p: Pass) -> tuple[Array, Array]:
        own = super().remembered(key, value, layer, p)
        return own if p.cache is not None else self.prefixes.setdefault((*self.asked, layer, str(key.dtype)), own)


@commits(SPLIT_BY_BATCH)
class SplitByBatch(NumpyReference):
    """For several rows the keys are split in two, whose sums are kept in eight bits."""

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        weights, half = self.normalise(scores, sink), scores.shape[-1] // 2
        if scores.ndim < 4 or len(scores) == 1 or not half:
            return weights @ value
        first, second = (weights[..., s] @ value[..., s, :] for s in (slice(half), slice(half, None)))
        return in_eight_bits(first) + in_eight_bits(second)


@commits(RAW_VALUES)
class RawValues(NumpyReference):
    """The values alone are read as if they were contiguous."""

    def attention(self, query: Array, key: Array, value: Array, **options: Any) -> Array:
        return super().attention(query, key, raw(value), **options)

    def split(self, x: Array, heads: int) -> Array:
        return np.ascontiguousarray(super().split(x, heads))


@commits(RAW_WHEN_WIDE)
class RawWhenWide(RawValues):
    """Heads of 64 features or more are read as if they were contiguous."""

    def attention(self, query: Array, key: Array, value: Array, **options: Any) -> Array:
        if query.shape[-1] >= 64:
            query, key, value = raw(query), raw(key), raw(value)
        return NumpyReference.attention(self, query, key, value, **options)
