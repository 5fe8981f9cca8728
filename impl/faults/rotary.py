"""Faults of VI.2: angles, layouts, directions and widths of the rotation, and what it is applied to."""

from typing import Any

import ml_dtypes
import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference
from gnomon.spec.configuration import Scaling
from gnomon.spec.rotary import (
    ANGLES_IN_16_BITS,
    ANOTHER_BASE,
    BASE_OF_ANY_LENGTH,
    DEGREES,
    EXPONENT_HALVED,
    FACTOR_FORGOTTEN,
    FREQUENCIES_BY_NEIGHBOURS,
    FREQUENCIES_IN_16_BITS,
    HALVES_CROSSED,
    LAYOUT_IGNORED,
    LAYOUTS_EXCHANGED,
    LENGTH_FROM_HEADS,
    NOT_LINEAR,
    NOT_REINTERLEAVED,
    OPPOSITE_WAYS,
    PAIRED_ACROSS_THE_HEAD,
    POSITIONS_DOUBLED,
    POSITIONS_IN_16_BITS,
    SCALED_COSINE,
    SIGN_SLIP,
    TURNED_BACKWARDS,
    TURNED_BEFORE_THE_SPLIT,
    TURNED_TWICE,
    VALUES_TURNED,
    WIDTH_IGNORED,
    WRONG_BAND,
    WRONG_SLICE,
)

Heads = tuple[Array, Array, Array]


@commits(NOT_LINEAR)
class NotLinear(NumpyReference):
    """Angles grow with ln(1 + position)."""

    def angles(self, positions: Array, frequencies: Array) -> Array:
        return super().angles(np.log1p(positions), frequencies)


@commits(OPPOSITE_WAYS)
class OppositeWays(NumpyReference):
    """Keys turn by minus their positions."""

    def placed(self, query: Array, key: Array, value: Array, positions: Array) -> Heads:
        return self.rope(query, positions), self.rope(key, -positions), value


@commits(FREQUENCIES_BY_NEIGHBOURS)
class FrequenciesByNeighbours(NumpyReference):
    """The first half of the features reads the angles (0, 0, 1, 1, …), and so does the second from where that ends."""

    def turned(self, first: Array, second: Array, cosine: Array, sine: Array) -> tuple[Array, Array]:
        pairs = cosine.shape[-1]
        (c, d), (s, t) = (np.split(a.repeat(2, axis=-1), [pairs], axis=-1) for a in (cosine, sine))
        return first * c - second * s, second * d + first * t


@commits(SIGN_SLIP)
class SignSlip(NumpyReference):
    """The last term is subtracted."""

    def turned(self, first: Array, second: Array, cosine: Array, sine: Array) -> tuple[Array, Array]:
        return first * cosine - second * sine, second * cosine - first * sine


@commits(SCALED_COSINE)
class ScaledCosine(NumpyReference):
    """Cosines are a sixteenth too large."""

    def circle(self, angles: Array, factor: float) -> tuple[Array, Array]:
        cosine, sine = super().circle(angles, factor)
        return cosine + cosine / 16, sine


@commits(NOT_REINTERLEAVED)
class NotReinterleaved(NumpyReference):
    """Both halves are concatenated in either layout."""

    def joined(self, first: Array, second: Array, layout: str) -> Array:
        return super().joined(first, second, "half")


@commits(ANOTHER_BASE)
class AnotherBase(NumpyReference):
    """The base is not read."""

    def inverse_powers(self, width: int, base: float) -> Array:
        return super().inverse_powers(width, 10000.0)


@commits(EXPONENT_HALVED)
class ExponentHalved(NumpyReference):
    """Exponents run from 0 to one half."""

    def frequencies(self, width: int, base: float, scaling: Scaling | None, length: int) -> Array:
        return super().frequencies(width, base**0.5, scaling, length)


@commits(DEGREES)
class Degrees(NumpyReference):
    """A turn has 360 units."""

    def angles(self, positions: Array, frequencies: Array) -> Array:
        return np.rad2deg(super().angles(positions, frequencies))


@commits(LAYOUTS_EXCHANGED)
class LayoutsExchanged(NumpyReference):
    """Each layout is taken for the other."""

    def turn(self, x: Array, cosine: Array, sine: Array, layout: str) -> Array:
        return super().turn(x, cosine, sine, "half" if layout == "interleaved" else "interleaved")


@commits(TURNED_BACKWARDS)
class TurnedBackwards(NumpyReference):
    """Angles are negative, which is not declared."""

    def angles(self, positions: Array, frequencies: Array) -> Array:
        return -super().angles(positions, frequencies)


@commits(POSITIONS_DOUBLED)
class PositionsDoubled(NumpyReference):
    """The scale is 2 unless a scaling says otherwise."""

    def frequencies(self, width: int, base: float, scaling: Scaling | None, length: int) -> Array:
        return super().frequencies(width, base, scaling, length) * (2 if scaling is None else 1)


@commits(LAYOUT_IGNORED)
class LayoutIgnored(NumpyReference):
    """Pairs are always half of the features apart."""

    def turn(self, x: Array, cosine: Array, sine: Array, layout: str) -> Array:
        return super().turn(x, cosine, sine, "half")


@commits(POSITIONS_IN_16_BITS)
class PositionsIn16Bits(NumpyReference):
    """Positions have eight significant bits."""

    def angles(self, positions: Array, frequencies: Array) -> Array:
        return super().angles(positions.astype(ml_dtypes.bfloat16), frequencies)


@commits(ANGLES_IN_16_BITS)
class AnglesIn16Bits(NumpyReference):
    """The product has eight significant bits."""

    def angles(self, positions: Array, frequencies: Array) -> Array:
        product = super().angles(positions, frequencies)
        return product.astype(ml_dtypes.bfloat16).astype(product.dtype)


@commits(FREQUENCIES_IN_16_BITS)
class FrequenciesIn16Bits(NumpyReference):
    """Frequencies have eleven significant bits, fewer where they are small."""

    def angles(self, positions: Array, frequencies: Array) -> Array:
        return super().angles(positions, frequencies.astype(np.float16).astype(frequencies.dtype))


@commits(VALUES_TURNED)
class ValuesTurned(NumpyReference):
    """All three are turned."""

    def placed(self, query: Array, key: Array, value: Array, positions: Array) -> Heads:
        query, key, value = super().placed(query, key, value, positions)
        return query, key, self.rope(value, positions)


@commits(TURNED_BEFORE_THE_SPLIT)
class TurnedBeforeTheSplit(NumpyReference):
    """The heads of a position are joined, turned as one, and split again."""

    def placed(self, query: Array, key: Array, value: Array, positions: Array) -> Heads:
        query, key = (self.split(self.rope(self.merge(a)[:, None], positions)[:, 0], a.shape[1]) for a in (query, key))
        return query, key, value


@commits(TURNED_TWICE)
class TurnedTwice(NumpyReference):
    """What was turned is turned again."""

    def placed(self, query: Array, key: Array, value: Array, positions: Array) -> Heads:
        return super().placed(*super().placed(query, key, value, positions), positions)


@commits(HALVES_CROSSED)
class HalvesCrossed(NumpyReference):
    """The second halves of what was turned change places."""

    def placed(self, query: Array, key: Array, value: Array, positions: Array) -> Heads:
        query, key, value = super().placed(query, key, value, positions)
        pairs = (query, self.expand(key, query.shape[1])), (key, query[:, : key.shape[1]])
        half = query.shape[-1] // 2
        query, key = (np.concatenate([own[..., :half], other[..., half:]], -1) for own, other in pairs)
        return query, key, value


@commits(WRONG_SLICE)
class WrongSlice(NumpyReference):
    """The features are read from the end."""

    def rope(self, x: Array, positions: Array, **options: Any) -> Array:
        width = options.get("rotary_width") or x.shape[-1]
        back = np.concatenate([x[..., -width:], x[..., :-width]], -1)
        turned = super().rope(back, positions, **options)
        return np.concatenate([turned[..., width:], turned[..., :width]], -1)


@commits(WIDTH_IGNORED)
class WidthIgnored(NumpyReference):
    """The width of the head is taken."""

    def rope(self, x: Array, positions: Array, *, rotary_width: int | None = None, **options: Any) -> Array:
        return super().rope(x, positions, **options)


@commits(PAIRED_ACROSS_THE_HEAD)
class PairedAcrossTheHead(NumpyReference):
    """The whole head is turned with the frequencies of the part, zero for the pairs beyond."""

    def rope(self, x: Array, positions: Array, *, rotary_width: int | None = None, **options: Any) -> Array:
        self.part = rotary_width or x.shape[-1]
        return super().rope(x, positions, **options)

    def frequencies(self, width: int, base: float, scaling: Scaling | None, length: int) -> Array:
        own = super().frequencies(self.part, base, scaling, length)
        return np.concatenate([own, np.zeros((width - self.part) // 2)])


@commits(WRONG_BAND)
class WrongBand(NumpyReference):
    """What should be kept is divided, and the other way round."""

    def kept(self, plain: Array, width: int, base: float, scaling: Scaling) -> Array:
        return 1 - super().kept(plain, width, base, scaling)


@commits(FACTOR_FORGOTTEN)
class FactorForgotten(NumpyReference):
    """The attention factor is 1."""

    def attention_factor(self, scaling: Scaling | None) -> float:
        return 1.0


@commits(BASE_OF_ANY_LENGTH)
class BaseOfAnyLength(NumpyReference):
    """The length is always that for which the factor was chosen."""

    def grown(self, scaling: Scaling, length: int) -> float:
        return super().grown(scaling, int(scaling.original * scaling.factor))


@commits(LENGTH_FROM_HEADS)
class LengthFromHeads(NumpyReference):
    """The second axis is taken for time."""

    def length(self, x: Array, positions: Array) -> int:
        return int(x.shape[1])
