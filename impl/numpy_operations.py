"""Linear layers, activations, counts and attention in NumPy, in small steps that a fault can replace."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gnomon.impl.tape import asarray, erf
from gnomon.spec.configuration import Configuration

Array = np.ndarray[Any, np.dtype[Any]]
Parameters = Mapping[str, Array]


class NumpyOperations:
    """Linear layers, feed-forward networks and attention in NumPy; 16-bit arguments are computed in float32."""

    # Linear layers and activations.

    def linear(self, x: Array, weight: Array, bias: Array | None = None) -> Array:
        """Wx + b at every position."""
        product = wide(x) @ self.oriented(wide(weight))
        return (product if bias is None else product + wide(bias)).astype(x.dtype)

    def oriented(self, weight: Array) -> Array:
        """The weight as `[in, out]`."""
        return weight.swapaxes(-1, -2)

    def relu(self, x: Array) -> Array:
        """max(x, 0)."""
        return asarray(np.maximum(x, x.dtype.type(0)))

    def gelu(self, x: Array) -> Array:
        """x·Φ(x)."""
        inner = wide(x)
        root = inner.dtype.type(math.sqrt(0.5))
        phi = (1 + erf(inner * root).astype(inner.dtype)) / 2
        return asarray(inner * phi, x.dtype)

    def gelu_tanh(self, x: Array) -> Array:
        """The tanh approximation of x·Φ(x)."""
        inner = wide(x)
        cubic = inner + inner.dtype.type(0.044715) * inner * inner * inner
        tanh = np.tanh(inner.dtype.type(math.sqrt(2 / math.pi)) * cubic)
        return asarray(inner * ((1 + tanh) / 2), x.dtype)

    def silu(self, x: Array) -> Array:
        """x·sigmoid(x)."""
        inner = wide(x)
        small = np.exp(-np.abs(inner))
        return asarray(inner * np.where(inner >= 0, 1, small).astype(inner.dtype) / (1 + small), x.dtype)

    def feed_forward(self, x: Array, parameters: Parameters, *, activation: str) -> Array:
        """down(act(up(x))), or down(act(gate(x))·up(x)) where there is a gate."""
        act = getattr(self, activation)
        up = self.project(x, parameters, "up")
        if "gate_weight" not in parameters:
            return self.project(act(up), parameters, "down")
        return self.project(self.gated(act, self.project(x, parameters, "gate"), up), parameters, "down")

    def gated(self, act: Any, gate: Array, up: Array) -> Array:
        """The activated gate times the up projection."""
        return asarray(wide(act(gate)) * wide(up), gate.dtype)

    def project(self, x: Array, parameters: Parameters, name: str) -> Array:
        """The linear layer of that name among the parameters."""
        return self.linear(x, parameters[f"{name}_weight"], parameters.get(f"{name}_bias"))

    # Counts, in whole numbers, of a configuration.

    def parameter_count(self, configuration: Configuration) -> int:
        """Every parameter, once."""
        c = configuration
        norm, attention = self.norm_parameters(c), self.attention_parameters(c) + self.head_norm_parameters(c)
        block = attention + self.feed_forward_parameters(c) + c.norms * norm
        second = attention + (1 if c.norms <= 2 else 2) * norm  # what a block of a decoder has more
        tables = (c.rows + c.positions + c.segments) * c.width + norm * c.embedding_norm
        head = norm * c.final_norm + self.unembedding_parameters(c) + (c.width + 1) * c.width * c.pooler
        return tables + c.layers * block + c.decoder_layers * (block + second) + head

    def attention_parameters(self, c: Configuration) -> int:
        """The four projections of a block."""
        query, shared = c.heads * c.head_width, c.kv_heads * c.head_width
        inward = self.matrix(c.width, query, c.qkv_bias) + 2 * self.matrix(c.width, shared, c.qkv_bias)
        return inward + self.matrix(query, c.width, c.output_bias)

    def feed_forward_parameters(self, c: Configuration) -> int:
        """The two or three matrices of a block's feed-forward network."""
        inward = (2 if c.gated else 1) * self.matrix(c.width, c.feed_forward, c.feed_forward_bias)
        return inward + self.matrix(c.feed_forward, c.width, c.feed_forward_bias)

    def norm_parameters(self, c: Configuration) -> int:
        """A gain for every feature and, in LayerNorm, a shift."""
        return c.width * (2 if c.norm == "layer" and c.norm_shift else 1)

    def head_norm_parameters(self, c: Configuration) -> int:
        """A gain for every feature of one query and one key head, or of all that there are."""
        heads = {"": 0, "head": 2, "width": c.heads + c.kv_heads}[c.query_key_norm]
        return heads * c.head_width

    def unembedding_parameters(self, c: Configuration) -> int:
        """Where there are logits, a table of its own unless it is tied, and a bias if it has one."""
        if c.output != "logits":
            return 0
        return c.rows * c.width * (not c.tied) + c.rows * c.unembedding_bias

    def matrix(self, inward: int, outward: int, biased: bool) -> int:
        """One linear layer."""
        return inward * outward + outward * biased

    def score_bytes(self, configuration: Configuration, length: int, *, batch: int = 1, item: int = 2) -> int:
        """The score matrices of all heads of one layer."""
        return self.score_matrices(configuration, batch) * length**2 * item

    def score_matrices(self, c: Configuration, batch: int) -> int:
        """How many score matrices a layer has."""
        return c.heads * batch

    def cache_bytes(self, configuration: Configuration, length: int, *, batch: int = 1, item: int = 2) -> int:
        """Keys and values of all layers."""
        return 2 * self.cached_layers(configuration) * self.cached_width(configuration) * length * batch * item

    def cached_layers(self, c: Configuration) -> int:
        """The layers that keep keys and values; a block that reads an encoder keeps the encoder's beside its own."""
        return c.layers if c.decoder_layers == 0 else c.decoder_layers + c.decoder_layers

    def cached_width(self, c: Configuration) -> int:
        """The numbers of a key, or of a value, that a layer keeps for a token."""
        return c.kv_heads * c.head_width

    def crossing_length(self, configuration: Configuration, *, batch: int = 1) -> int:
        """The first length at which the score matrices of a layer take more than the weights, in one format."""
        matrices = self.score_matrices(configuration, batch)
        return math.isqrt(self.parameter_count(configuration) // matrices) + 1

    # Attention.

    def softmax(self, logits: Array) -> Array:
        """e^x over its sum, along the last axis."""
        return self.normalise(wide(logits)).astype(logits.dtype)

    def attention(
        self,
        query: Array,
        key: Array,
        value: Array,
        *,
        mask: Array | None = None,
        causal: bool = False,
        window: int | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        sink: Array | None = None,
    ) -> Array:
        """softmax(QKᵀ·scale + mask)V for every head."""
        key, value = (self.expand(wide(a), query.shape[-3]) for a in (key, value))
        scores = self.logits(self.scores(wide(query), key, scale), softcap, mask, causal, window)
        sinks = None if sink is None else wide(sink)[:, None, None]
        return self.attend(scores, value, sinks).astype(query.dtype)

    def attention_by_weights(self, query: Array, key: Array, value: Array, **options: Any) -> Array:
        """Attention by another path: the weights are read off through identity values and applied to the values."""
        keys = value.shape[-2]
        identity = np.broadcast_to(np.eye(keys, dtype=np.float32), (*value.shape[:-2], keys, keys))
        weights = self.weights(wide(query), wide(key), identity.astype(wide(value).dtype), **options)
        return (weights @ self.expand(wide(value), query.shape[-3])).astype(query.dtype)

    def weights(self, query: Array, key: Array, identity: Array, **options: Any) -> Array:
        """What attention gives for identity values."""
        return self.attention(query, key, identity, **options)

    def expand(self, shared: Array, heads: int) -> Array:
        """The key or value head that each query head reads."""
        if shared.shape[-3] == heads:
            return asarray(shared)
        return asarray(shared.take(np.arange(heads) * shared.shape[-3] // heads, axis=-3))

    def scores(self, query: Array, key: Array, scale: float | None) -> Array:
        """The scaled products of queries and keys."""
        factor = self.scale(query.shape[-1], query.shape[-3]) if scale is None else scale
        return asarray(query @ key.swapaxes(-1, -2) * query.dtype.type(factor))

    def scale(self, width: int, heads: int) -> float:
        """One over the root of the head width."""
        return 1 / math.sqrt(width)

    def logits(
        self, scores: Array, softcap: float | None, mask: Array | None, causal: bool, window: int | None
    ) -> Array:
        """The scores capped, then masked."""
        return self.masked(self.cap(scores, softcap), mask, causal, window)

    def cap(self, scores: Array, softcap: float | None) -> Array:
        """c·tanh(s/c)."""
        return scores if softcap is None else np.tanh(scores / scores.dtype.type(softcap)) * scores.dtype.type(softcap)

    def masked(self, scores: Array, mask: Array | None, causal: bool, window: int | None) -> Array:
        """The scores with every mask applied, each removing what it forbids."""
        if mask is not None:
            scores = self.permit(scores, mask) if mask.dtype == bool else self.biased(scores, wide(mask))
        if causal:
            scores = self.permit(scores, self.past(scores))
        return scores if window is None else self.permit(scores, self.within(scores, window))

    def biased(self, scores: Array, mask: Array) -> Array:
        """The scores with the finite part of an additive mask added, minus infinity where that says so."""
        blocked = np.isneginf(mask)
        return self.permit(scores + np.where(blocked, 0, mask).astype(mask.dtype), ~blocked)

    def permit(self, scores: Array, allowed: Array) -> Array:
        """The scores where allowed, minus infinity elsewhere."""
        return np.where(allowed, scores, -np.inf).astype(scores.dtype)

    def distance(self, scores: Array) -> Array:
        """How many positions key j lies behind query i, the last of each aligned."""
        queries, keys = scores.shape[-2:]
        return asarray(np.arange(queries)[:, None] + (keys - queries) - np.arange(keys))

    def past(self, scores: Array) -> Array:
        """Where the key is not ahead of the query."""
        return asarray(self.distance(scores) >= 0)

    def within(self, scores: Array, window: int) -> Array:
        """Where the key is fewer than `window` positions away."""
        return asarray(np.abs(self.distance(scores)) < window)

    def attend(self, scores: Array, value: Array, sink: Array | None) -> Array:
        """The average of the values under the weights of the scores."""
        return self.normalise(scores, sink) @ value

    def normalise(self, scores: Array, sink: Array | None = None) -> Array:
        """Softmax over the keys, with the sink's mass in the sum; a row with nothing allowed is all zero."""
        top = self.top(scores if sink is None else np.maximum(scores, sink))
        mass = self.exp(scores - top)
        total = mass.sum(-1, keepdims=True)
        if sink is not None:
            total = total + self.exp(sink - top)
        return self.divide(mass, total)

    def exp(self, shifted: Array) -> Array:
        """e^x."""
        return asarray(np.exp(shifted))

    def divide(self, mass: Array, total: Array) -> Array:
        """The mass over its total, zero where there is none."""
        return asarray(mass / np.where(total == 0, 1, total).astype(mass.dtype))

    def top(self, scores: Array) -> Array:
        """The largest score of each row, zero where there is none."""
        top = scores.max(-1, keepdims=True)
        return np.where(np.isneginf(top), 0, top).astype(scores.dtype)

    # Heads.

    def multi_head_attention(
        self,
        x: Array,
        parameters: Parameters,
        *,
        heads: int,
        kv_heads: int | None = None,
        mask: Array | None = None,
        causal: bool = False,
        positions: Array | None = None,
    ) -> Array:
        """The heads of the projected input, turned to their positions if any, concatenated and projected."""
        shared = heads if kv_heads is None else kv_heads
        query, key, value = (
            self.split(self.project(x, parameters, name), n)
            for name, n in (("query", heads), ("key", shared), ("value", shared))
        )
        if positions is not None:
            query, key, value = self.placed(query, key, value, positions)
        mixed = self.attention(query, key, value, mask=mask, causal=causal)
        return self.project(self.merge(mixed), parameters, "output")

    def placed(self, query: Array, key: Array, value: Array, positions: Array) -> tuple[Array, Array, Array]:
        """Queries, keys and values at their positions."""
        raise NotImplementedError("attention without rotary positions has none")

    def split(self, x: Array, heads: int) -> Array:
        """`[batch, time, heads·width]` as `[batch, heads, time, width]`."""
        batch, time, width = x.shape
        if width % heads:
            raise ValueError(f"{heads} heads do not divide a width of {width}")
        return x.reshape(batch, time, heads, width // heads).swapaxes(1, 2)

    def merge(self, x: Array) -> Array:
        """`[batch, heads, time, width]` as `[batch, time, heads·width]`."""
        batch, heads, time, width = x.shape
        return x.swapaxes(1, 2).reshape(batch, time, heads * width)


def wide(x: Array) -> Array:
    """The array in its arithmetic: itself, or float32 for 16-bit storage."""
    return x if x.dtype.itemsize > 2 else x.astype(np.float32)
