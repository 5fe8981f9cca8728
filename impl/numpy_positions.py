"""Norms, embeddings and positions in NumPy, in small steps that a fault can replace."""

import math
from typing import Any

import numpy as np

from gnomon.impl.numpy_operations import Array, NumpyOperations, wide
from gnomon.impl.tape import asarray
from gnomon.spec.configuration import Scaling


class NumpyPositions(NumpyOperations):
    """Norms, look-ups, rotary, sinusoidal and linear-bias positions; statistics and angles in the arithmetic."""

    # Norms.

    def layer_norm(self, x: Array, weight: Array, bias: Array | None = None, *, eps: float) -> Array:
        """(x − mean)/√(variance + ε)·weight + bias over the features."""
        inner = wide(x)
        centred = inner - self.mean(inner)
        scaled = self.normed(centred, self.spread(self.variance(centred), eps)) * wide(weight)
        return asarray(scaled if bias is None else scaled + wide(bias), x.dtype)

    def rms_norm(self, x: Array, weight: Array, *, eps: float) -> Array:
        """x/√(mean square + ε)·weight over the features."""
        inner = wide(x)
        return asarray(self.normed(inner, self.spread(self.mean_square(inner), eps)) * wide(weight), x.dtype)

    def mean(self, x: Array) -> Array:
        """The mean over the features."""
        return asarray(x.mean(-1, keepdims=True), x.dtype)

    def variance(self, centred: Array) -> Array:
        """The mean of the squares of what is left over the mean."""
        return self.mean_square(centred)

    def mean_square(self, x: Array) -> Array:
        """The mean of the squares over the features."""
        return self.mean(x * x)

    def spread(self, mean_square: Array, eps: float) -> Array:
        """√(mean square + ε)."""
        return asarray(np.sqrt(mean_square + mean_square.dtype.type(eps)))

    def normed(self, x: Array, spread: Array) -> Array:
        """The row over its spread."""
        return asarray(x / spread)

    # Look-ups.

    def embedding(self, table: Array, ids: Array) -> Array:
        """The rows that the ids name; one outside the table is an error."""
        if ids.size and not (ids.min() >= 0 and ids.max() < len(table)):
            raise IndexError(f"ids from {ids.min()} to {ids.max()} in a table of {len(table)} rows")
        return asarray(table[ids])

    # Rotary positions.

    def rope(
        self,
        x: Array,
        positions: Array,
        *,
        base: float = 10000.0,
        rotary_width: int | None = None,
        layout: str = "half",
        scaling: Scaling | None = None,
    ) -> Array:
        """Every pair of features turned by position·frequency; the features past `rotary_width` as they are."""
        width, length = rotary_width or x.shape[-1], self.length(x, positions)
        rates = self.frequencies(width, base, scaling, length).astype(wide(x).dtype)
        cosine, sine = self.circle(self.angles(positions, rates), self.attention_factor(scaling))
        turned = self.turn(wide(x[..., :width]), cosine, sine, layout)
        return np.concatenate([turned.astype(x.dtype), x[..., width:]], -1)

    def placed(self, query: Array, key: Array, value: Array, positions: Array) -> tuple[Array, Array, Array]:
        """Queries and keys turned, values as they are."""
        return self.rope(query, positions), self.rope(key, positions), value

    def length(self, x: Array, positions: Array) -> int:
        """The length of the sequence: its last position and one."""
        return int(positions.max(initial=0)) + 1

    def frequencies(self, width: int, base: float, scaling: Scaling | None, length: int) -> Array:
        """base^(−2i/width) for every pair, stretched as declared."""
        plain = self.inverse_powers(width, base)
        return plain if scaling is None else self.stretched(plain, width, base, scaling, length)

    def inverse_powers(self, width: int, base: float) -> Array:
        """base^(−2i/width) for every pair."""
        return asarray(base ** -(np.arange(0, width, 2) / width))

    def stretched(self, plain: Array, width: int, base: float, scaling: Scaling, length: int) -> Array:
        """The frequencies under the declared scaling."""
        if scaling.kind == "linear":
            return plain / scaling.factor
        if scaling.kind in ("ntk", "dynamic-ntk"):
            ratio = scaling.factor if scaling.kind == "ntk" else self.grown(scaling, length)
            return self.inverse_powers(width, self.raised_base(base, width, ratio))
        kept = self.kept(plain, width, base, scaling)
        return asarray(plain * kept + plain / scaling.factor * (1 - kept))

    def grown(self, scaling: Scaling, length: int) -> float:
        """The ratio that grows with the length of the sequence, from the original one on."""
        return max(scaling.factor * length / scaling.original - (scaling.factor - 1), 1.0)

    def raised_base(self, base: float, width: int, ratio: float) -> float:
        """The base with which the lowest frequency is divided by the ratio."""
        return base if width <= 2 else float(base * ratio ** (width / (width - 2)))

    def kept(self, plain: Array, width: int, base: float, scaling: Scaling) -> Array:
        """Which share of each frequency is left as it is."""
        if scaling.kind == "llama3":
            turns = scaling.original * plain / (2 * math.pi)
            return np.clip((turns - scaling.low) / (scaling.high - scaling.low), 0, 1)
        low, high = self.band(width, base, scaling)
        return 1 - np.clip((np.arange(width // 2) - low) / max(high - low, 1), 0, 1)

    def band(self, width: int, base: float, scaling: Scaling) -> tuple[int, int]:
        """The pairs between which the blend of yarn runs."""

        def pair(turns: float) -> float:
            return width * math.log(scaling.original / (turns * 2 * math.pi)) / (2 * math.log(base))

        return max(math.floor(pair(scaling.high)), 0), min(math.ceil(pair(scaling.low)), width - 1)

    def attention_factor(self, scaling: Scaling | None) -> float:
        """What cosine and sine are multiplied by."""
        if scaling is None or scaling.kind != "yarn":
            return 1.0
        given = scaling.attention_factor
        return given if given is not None else 0.1 * math.log(scaling.factor) + 1 if scaling.factor > 1 else 1.0

    def angles(self, positions: Array, frequencies: Array) -> Array:
        """position·frequency, `[..., 1, time, pairs]`."""
        return asarray(positions[..., None, :, None].astype(frequencies.dtype) * frequencies)

    def circle(self, angles: Array, factor: float) -> tuple[Array, Array]:
        """Cosine and sine of the angles, times the factor."""
        scale = angles.dtype.type(factor)
        return np.cos(angles) * scale, np.sin(angles) * scale

    def turn(self, x: Array, cosine: Array, sine: Array, layout: str) -> Array:
        """The features with every pair turned."""
        return self.joined(*self.turned(*self.pairs(x, layout), cosine, sine), layout)

    def turned(self, first: Array, second: Array, cosine: Array, sine: Array) -> tuple[Array, Array]:
        """Every pair (a, b) as (a·cos − b·sin, b·cos + a·sin)."""
        return first * cosine - second * sine, second * cosine + first * sine

    def pairs(self, x: Array, layout: str) -> tuple[Array, Array]:
        """The first and second members of the pairs."""
        half = x.shape[-1] // 2
        return (x[..., :half], x[..., half:]) if layout == "half" else (x[..., 0::2], x[..., 1::2])

    def joined(self, first: Array, second: Array, layout: str) -> Array:
        """The members back in their places."""
        return np.concatenate([first, second], -1) if layout == "half" else self.woven(first, second)

    def woven(self, even: Array, odd: Array) -> Array:
        """The features of both in turn."""
        return np.stack([even, odd], -1).reshape(*even.shape[:-1], -1)

    # Other positions.

    def sinusoidal_positions(self, positions: Array, width: int, dtype: Any = np.float64) -> Array:
        """Sines at even features, cosines at odd ones, of position·10000^(−2i/width)."""
        angles = self.sinusoidal_angles(positions, width)
        return self.interleaved(np.sin(angles), np.cos(angles)).astype(dtype)

    def sinusoidal_angles(self, positions: Array, width: int) -> Array:
        """position·10000^(−2i/width)."""
        return asarray(positions[..., None] * self.inverse_powers(width, 10000.0))

    def interleaved(self, sines: Array, cosines: Array) -> Array:
        """Sine and cosine of each frequency side by side."""
        return self.woven(sines, cosines)

    def alibi_slopes(self, heads: int) -> Array:
        """2^(−8i/n) for the power of two n at or below the heads, then every second one of the series for 2n."""
        below = 1 << (heads.bit_length() - 1)
        return np.concatenate([self.series(below), self.series(2 * below)[::2][: heads - below]])

    def series(self, heads: int) -> Array:
        """The geometric series 2^(−8i/heads), i from 1."""
        return asarray(2.0 ** (-8.0 * np.arange(1, heads + 1) / heads))
