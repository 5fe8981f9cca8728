"""Initial parameters in NumPy, in small steps that a fault can replace."""

import numpy as np

from gnomon.impl.numpy_operations import Array
from gnomon.spec.configuration import Configuration
from gnomon.spec.shapes import parameter_shapes

Rng = np.random.Generator


class NumpyInitialisation:
    """Normal weights, gains of one, shifts and biases of zero."""

    def initial_parameters(
        self, configuration: Configuration, *, deviation: float, depth_scaled: bool = False, seed: int = 0
    ) -> dict[str, Array]:
        """Every parameter by name; what writes into the stream is divided by √(2·layers) where that is asked for."""
        rng, c = np.random.default_rng(seed), configuration
        return {n: self.drawn(rng, n, s, c, deviation, depth_scaled) for n, s in parameter_shapes(c).items()}

    def drawn(
        self, rng: Rng, name: str, shape: tuple[int, ...], c: Configuration, deviation: float, depth_scaled: bool
    ) -> Array:
        """One parameter."""
        if len(shape) == 1:
            return np.full(shape, 1.0 if name.endswith("norm_weight") and not c.norm_offset else 0.0)
        return rng.normal(0.0, deviation / self.depth(name, c, depth_scaled), shape)

    def depth(self, name: str, c: Configuration, depth_scaled: bool) -> float:
        """What the deviation of a parameter is divided by."""
        into_the_stream = name.endswith(("output_weight", "down_weight"))
        return float((2 * c.layers) ** 0.5) if depth_scaled and into_the_stream else 1.0
