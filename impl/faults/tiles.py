"""Attention that goes over the keys tile by tile, as fused kernels do."""

import numpy as np

from gnomon.impl.reference import Array, NumpyReference


class Tiled(NumpyReference):
    """The online softmax: a running maximum, sum and output, rescaled whenever the maximum moves."""

    tile = 16  # the fewest keys after which the bound expects a rescaling

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        """The average of the values, tile by tile."""
        top = np.full_like(scores[..., :1], -np.inf) if sink is None else sink + np.zeros_like(scores[..., :1])
        total = np.full_like(top, sink is not None)
        out = np.zeros((*scores.shape[:-1], value.shape[-1]), value.dtype)
        for start in range(0, scores.shape[-1], self.tile):
            tile = scores[..., start : start + self.tile]
            top, before = np.maximum(top, tile.max(-1, keepdims=True)), top
            mass, kept = self.exp(tile - self.top(top)), self.rescaling(before, top)
            total = total * kept + mass.sum(-1, keepdims=True)
            out = out * kept + mass @ value[..., start : start + self.tile, :]
        return self.divide(out, total)

    def rescaling(self, before: Array, top: Array) -> Array:
        """What the sum and the output so far are multiplied by when the maximum rises."""
        return self.exp(before - self.top(top))
