"""Faults of I.1 in whole models: outputs that depend on more than ids and parameters."""

from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, Cache, Model, NumpyReference, Parameters, Pass
from gnomon.spec.configuration import Configuration
from gnomon.spec.function import (
    ADDED_INTO_THE_TABLE,
    BIAS_NEVER_ADDED,
    BUFFER_FROM_FIRST_INPUT,
    CACHE_ROWS_MIXED,
    CENTRED_OVER_BATCH,
    GATE_AND_UP_FROM_ONE,
    HEAD_DROPPED,
    PATH_WITHOUT_WINDOW,
    POSITIONS_OF_LONGEST,
    REMEMBERS_THE_LAST_CALL,
    UNREGISTERED,
    UNTIED_ON_EXPORT,
)


class Remembering(NumpyReference):
    """Each model has a memory of its own."""

    def model(self, configuration: Configuration, parameters: Parameters) -> Model:
        return NumpyReference.model(type(self)(), configuration, parameters)


@commits(REMEMBERS_THE_LAST_CALL)
class RemembersTheLastCall(Remembering):
    """The last stream of a call enters the first position of the next one."""

    kept: Any = None

    def embedded(self, parameters: Parameters, tokens: Array, p: Pass) -> Array:
        stream = super().embedded(parameters, tokens, p)
        if self.kept is not None and self.kept.shape == stream[0, 0].shape:
            stream[0, 0] = self.added(stream[0, 0], self.kept)
        self.kept = stream[-1, -1].copy()
        return stream


@commits(ADDED_INTO_THE_TABLE)
class AddedIntoTheTable(NumpyReference):
    """What the first block makes of the rows is written back into the table."""

    def forward(self, parameters: Parameters, tokens: Array, p: Pass) -> Array:
        out = super().forward(parameters, tokens, p)
        parameters["token_embedding"][tokens] *= 2
        return out


@commits(UNREGISTERED)
class Unregistered(NumpyReference):
    """One tensor is left out of the export."""

    def exported(self, held: Parameters, c: Configuration) -> Parameters:
        return {n: p for n, p in held.items() if n != "layers.0.output_weight"}


@commits(UNTIED_ON_EXPORT)
class UntiedOnExport(NumpyReference):
    """The exported table is divided by the root of the width."""

    def exported(self, held: Parameters, c: Configuration) -> Parameters:
        table = held["token_embedding"]
        return {**held, "token_embedding": (table / c.width**0.5).astype(table.dtype)} if c.tied else held


@commits(BUFFER_FROM_FIRST_INPUT)
class BufferFromFirstInput(Remembering):
    """Positions end where the first input ended."""

    last: int | None = None

    def positions_of(self, tokens: Array, start: int) -> Array:
        positions = super().positions_of(tokens, start)
        self.last = int(positions.max(initial=0)) if self.last is None else self.last
        return np.minimum(positions, self.last)


@commits(BIAS_NEVER_ADDED)
class BiasNeverAdded(NumpyReference):
    """Output projections ignore their bias."""

    def project(self, x: Array, parameters: Parameters, name: str) -> Array:
        return self.linear(x, parameters["output_weight"]) if name == "output" else super().project(x, parameters, name)


@commits(HEAD_DROPPED)
class HeadDropped(NumpyReference):
    """The last head's output is zero."""

    def merge(self, x: Array) -> Array:
        return super().merge(np.where(np.arange(x.shape[1])[:, None, None] == x.shape[1] - 1, 0, x).astype(x.dtype))


@commits(GATE_AND_UP_FROM_ONE)
class GateAndUpFromOne(NumpyReference):
    """The up projection is read from the gate's tensor."""

    def feed_forward(self, x: Array, parameters: Parameters, *, activation: str) -> Array:
        gate = {n.replace("gate", "up"): p for n, p in parameters.items() if n.startswith("gate")}
        return super().feed_forward(x, {**parameters, **gate}, activation=activation)


@commits(CENTRED_OVER_BATCH)
class CentredOverBatch(NumpyReference):
    """Norms take their mean square over the batch too."""

    def mean_square(self, x: Array) -> Array:
        square = super().mean_square(x)
        return np.broadcast_to(square.mean(0, keepdims=True, dtype=square.dtype), square.shape)


@commits(CACHE_ROWS_MIXED)
class CacheRowsMixed(NumpyReference):
    """Keys move with their rows and values do not."""

    def reorder(self, cache: Cache, rows: Array) -> None:
        values = [value for _, value in cache.layers]
        super().reorder(cache, rows)
        cache.layers = [(key, value) for (key, _), value in zip(cache.layers, values, strict=True)]


@commits(PATH_WITHOUT_WINDOW)
class PathWithoutWindow(NumpyReference):
    """A traced call has no window."""

    def model_mask(self, query: Array, layer: int, p: Pass) -> Array | None:
        free = p if p.trace is None else replace(p, configuration=replace(p.configuration, window=0))
        return super().model_mask(query, layer, free)


@commits(POSITIONS_OF_LONGEST)
class PositionsOfLongest(Remembering):
    """After a longer call the positions of a shorter one are halved."""

    longest = 0

    def positions_of(self, tokens: Array, start: int) -> Array:
        shorter, self.longest = tokens.shape[1] < self.longest, max(self.longest, tokens.shape[1])
        positions = super().positions_of(tokens, start)
        return positions // 2 if shorter else positions
