"""Faults of VII.1 in blocks and whole models: norms, additions and sublayers in the wrong place."""

from dataclasses import replace

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, Model, NumpyReference, Parameters, Pass
from gnomon.spec.block import (
    ACTIVATION_BY_DEFAULT,
    ADDED_TO_WHAT_CAME_IN,
    BASE_OF_ANOTHER_MODEL,
    EMBEDDING_SCALED_TWICE,
    FINAL_NORM_MISSING,
    GAIN_WITHOUT_ONE,
    LOADED_THEN_INITIALISED,
    NETWORK_CONVOLVES,
    NORM_ON_THE_PATH,
    NORM_ON_THE_STREAM,
    NORM_OVER_POSITIONS,
    POST_FOR_PRE,
    RESIDUAL_AFTER_NORM,
    RESIDUAL_DOUBLED,
    RESIDUAL_MISSING,
    SEQUENTIAL_FOR_PARALLEL,
)
from gnomon.spec.configuration import Configuration


@commits(POST_FOR_PRE)
class PostForPre(NumpyReference):
    """Norms that belong before a sublayer are applied to the sum after it."""

    def before(self, name: str, x: Array, parameters: Parameters, c: Configuration) -> Array:
        return x if c.placement == "pre" and not c.parallel else super().before(name, x, parameters, c)

    def residual(self, name: str, stream: Array, out: Array, parameters: Parameters, p: Pass) -> Array:
        c = p.configuration
        late = replace(p, configuration=replace(c, placement="post")) if c.placement == "pre" else p
        return super().residual(name, stream, out, parameters, late)


@commits(NORM_ON_THE_STREAM)
class NormOnTheStream(NumpyReference):
    """What attention is added to is normed."""

    def residual(self, name: str, stream: Array, out: Array, parameters: Parameters, p: Pass) -> Array:
        kept = self.before(name, stream, parameters, p.configuration) if name == "attention" else stream
        return super().residual(name, kept, out, parameters, p)


@commits(SEQUENTIAL_FOR_PARALLEL)
class SequentialForParallel(NumpyReference):
    """The network reads the stream with attention's output in it."""

    def block_of(self, x: Array, parameters: Parameters, layer: int, p: Pass) -> Array:
        return super().block_of(
            x, parameters, layer, replace(p, configuration=replace(p.configuration, parallel=False))
        )


@commits(ADDED_TO_WHAT_CAME_IN)
class AddedToWhatCameIn(NumpyReference):
    """The network's output is added to the block's input."""

    def block_of(self, x: Array, parameters: Parameters, layer: int, p: Pass) -> Array:
        if p.configuration.parallel:
            return super().block_of(x, parameters, layer, p)
        attended = self.residual("attention", x, self.sublayer("attention", x, parameters, layer, p), parameters, p)
        network = self.sublayer("feed_forward", attended, parameters, layer, p)
        return self.residual("feed_forward", x, network, parameters, p)


@commits(GAIN_WITHOUT_ONE)
class GainWithoutOne(NumpyReference):
    """A gain is the stored weight."""

    def gain(self, weight: Array, c: Configuration) -> Array:
        return weight


@commits(RESIDUAL_MISSING)
class ResidualMissing(NumpyReference):
    """The network's output is the new stream."""

    def residual(self, name: str, stream: Array, out: Array, parameters: Parameters, p: Pass) -> Array:
        kept = np.zeros_like(stream) if name == "feed_forward" else stream
        return super().residual(name, kept, out, parameters, p)

    def block_of(self, x: Array, parameters: Parameters, layer: int, p: Pass) -> Array:
        out = super().block_of(x, parameters, layer, p)
        return np.asarray(out - x, x.dtype) if p.configuration.parallel else out


@commits(RESIDUAL_DOUBLED)
class ResidualDoubled(NumpyReference):
    """The stream is added once more."""

    def block_of(self, x: Array, parameters: Parameters, layer: int, p: Pass) -> Array:
        return self.added(super().block_of(x, parameters, layer, p), x)


@commits(NORM_ON_THE_PATH)
class NormOnThePath(NumpyReference):
    """A block ends with its first norm."""

    def block_of(self, x: Array, parameters: Parameters, layer: int, p: Pass) -> Array:
        return self.norm(super().block_of(x, parameters, layer, p), parameters, "attention_norm", p.configuration)


@commits(RESIDUAL_AFTER_NORM)
class ResidualAfterNorm(NumpyReference):
    """The network's output is added to its own normed input."""

    def residual(self, name: str, stream: Array, out: Array, parameters: Parameters, p: Pass) -> Array:
        kept = self.before(name, stream, parameters, p.configuration) if name == "feed_forward" else stream
        return super().residual(name, kept, out, parameters, p)

    def block_of(self, x: Array, parameters: Parameters, layer: int, p: Pass) -> Array:
        out = super().block_of(x, parameters, layer, p)
        lost = x - self.before("attention", x, parameters, p.configuration)
        return p.mark(f"layers.{layer}.stream", np.asarray(out - lost, x.dtype)) if p.configuration.parallel else out


@commits(NORM_OVER_POSITIONS)
class NormOverPositions(NumpyReference):
    """The network's output is divided by one more than its mean size over the positions."""

    def feed_forward(self, x: Array, parameters: Parameters, *, activation: str) -> Array:
        out = super().feed_forward(x, parameters, activation=activation)
        return np.asarray(out / (1 + np.abs(out).mean(-2, keepdims=True, dtype=out.dtype)), out.dtype)


@commits(NETWORK_CONVOLVES)
class NetworkConvolves(NumpyReference):
    """A tenth of the position before is added to what the network reads."""

    def feed_forward(self, x: Array, parameters: Parameters, *, activation: str) -> Array:
        before = np.roll(x, 1, axis=-2)
        before[..., 0, :] = 0
        return super().feed_forward((x + before / 10).astype(x.dtype), parameters, activation=activation)


@commits(FINAL_NORM_MISSING)
class FinalNormMissing(NumpyReference):
    """The last stream goes into the unembedding as it is."""

    def final(self, stream: Array, parameters: Parameters, p: Pass) -> Array:
        return stream


@commits(EMBEDDING_SCALED_TWICE)
class EmbeddingScaledTwice(NumpyReference):
    """The root of the width is applied once more."""

    def token_vectors(self, parameters: Parameters, tokens: Array, c: Configuration) -> Array:
        rows = super().token_vectors(parameters, tokens, c)
        return (rows * c.width**0.5).astype(rows.dtype) if c.embedding_scaled else rows


@commits(BASE_OF_ANOTHER_MODEL)
class BaseOfAnotherModel(NumpyReference):
    """The base is always ten thousand."""

    def turned_to(self, x: Array, p: Pass) -> Array:
        usual = replace(p.configuration.rotary, base=10000.0)
        return super().turned_to(x, replace(p, configuration=replace(p.configuration, rotary=usual)))


@commits(ACTIVATION_BY_DEFAULT)
class ActivationByDefault(NumpyReference):
    """Networks of a model use the exact GELU, whatever was declared."""

    def sublayer(self, name: str, x: Array, parameters: Parameters, layer: int, p: Pass) -> Array:
        exact = replace(p, configuration=replace(p.configuration, activation="gelu"))
        return super().sublayer(name, x, parameters, layer, exact)


@commits(LOADED_THEN_INITIALISED)
class LoadedThenInitialised(NumpyReference):
    """The gain of the last norm is one, whatever was loaded."""

    def model(self, configuration: Configuration, parameters: Parameters) -> Model:
        gain = {n: np.ones_like(p) for n, p in parameters.items() if n == "final_norm_weight"}
        return super().model(configuration, {**parameters, **gain})
