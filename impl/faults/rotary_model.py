"""Faults of VI.2 in whole models: absolute positions that leak in."""

from dataclasses import replace

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference, Parameters, Pass, wide
from gnomon.spec.rotary import CACHE_FORGETS_THE_START, POSITION_LEAKS_IN


@commits(POSITION_LEAKS_IN)
class PositionLeaksIn(NumpyReference):
    """Sines and cosines of the position enter the stream."""

    def embedded(self, parameters: Parameters, tokens: Array, p: Pass) -> Array:
        stream = super().embedded(parameters, tokens, p)
        return self.added(
            stream, self.sinusoidal_positions(p.positions, p.configuration.width).astype(wide(stream).dtype)
        )


@commits(CACHE_FORGETS_THE_START)
class CacheForgetsTheStart(NumpyReference):
    """The position of a token on a cache is the number of tokens before it."""

    def forward(self, parameters: Parameters, tokens: Array, p: Pass) -> Array:
        counted = self.positions_of(tokens, p.start)
        return super().forward(parameters, tokens, replace(p, positions=counted) if p.start else p)
