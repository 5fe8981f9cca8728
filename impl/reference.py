"""The NumPy implementation: what a careful reader would write first, in small steps that a fault can replace.

It is not the specification; it is one more implementation under test.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gnomon.impl.declaration import Declaration
from gnomon.impl.evaluation import NumpyEvaluation
from gnomon.impl.formats import NumpyFormats
from gnomon.impl.initialisation import NumpyInitialisation
from gnomon.impl.losses import NumpyLosses
from gnomon.impl.memorising import NumpyMemorising
from gnomon.impl.numpy_operations import Array, Parameters, wide
from gnomon.impl.numpy_positions import NumpyPositions
from gnomon.impl.reach import NumpyReach
from gnomon.impl.recall import NumpyRecall
from gnomon.impl.scores import NumpyScores
from gnomon.impl.splitting import NumpySplitting
from gnomon.impl.stepping import NumpyStepping
from gnomon.impl.tape import asarray, gradient, pull, recorded
from gnomon.impl.tokenising import NumpyTokenising
from gnomon.impl.traffic import Traffic
from gnomon.impl.training import NumpyTraining
from gnomon.impl.worksheet import NumpyWorksheet
from gnomon.spec.configuration import Configuration
from gnomon.spec.conventions import Conventions
from gnomon.spec.shapes import parameter_shapes

__all__ = ["Array", "Cache", "Model", "NumpyReference", "Parameters", "Pass", "numpy_reference", "wide"]


@dataclass(eq=False)
class Cache:
    """What a model keeps of the tokens it has seen: per layer the keys and values, and their positions."""

    layers: list[tuple[Array, Array]] = field(default_factory=list)
    positions: Array | None = None  # [batch, length]

    @property
    def length(self) -> int:
        """How many tokens it holds."""
        return 0 if self.positions is None else self.positions.shape[1]


@dataclass(frozen=True, eq=False)
class Pass:
    """One call of a model: what every step may need to know.

    positions `[batch, time]` of the new tokens; seen `[batch, length + time]` of all that the call attends to; mask of
    the caller; cache, None where there is none; start: tokens that the cache held before; trace.
    """

    configuration: Configuration
    positions: Array
    seen: Array
    mask: Array | None
    cache: Cache | None
    start: int
    trace: dict[str, Array] | None

    def mark(self, name: str, value: Array) -> Array:
        """The value, noted in the trace where there is one."""
        if self.trace is not None:
            self.trace[name] = value
        return value


class NumpyReference(
    NumpyPositions,
    NumpyReach,
    Traffic,
    NumpyEvaluation,
    NumpyInitialisation,
    NumpyTokenising,
    NumpyLosses,
    NumpyFormats,
    NumpySplitting,
    NumpyScores,
    NumpyWorksheet,
    NumpyStepping,
    NumpyTraining,
    NumpyMemorising,
    NumpyRecall,
):
    """The whole model in NumPy; 16-bit arguments are computed in float32."""

    declaration = Declaration(
        framework="numpy",
        dtypes=("float64", "float32", "bfloat16", "float16"),
        sites=frozenset({"out", "hidden", "stream", "logits", "biased"}),
        conventions=Conventions(
            alignment="bottom-right",
            empty_row="zeros",
            masked_key="blocked",
            masked_value="leaks",
            all_ignored="zero",
            e4m3fn_overflow="nan",
            e5m2_overflow="infinity",
            clip_epsilon="0",
            first_rate="zero",
            after_end="minimum",
        ),
        paths={
            "attention": {"weights read off": "attention_by_weights"},
            "optimiser": {"all together": "optimiser_together"},
        },
        memory="quadratic",
    )

    def model(self, configuration: Configuration, parameters: Parameters) -> "Model":
        """The model of the configuration that holds these parameters."""
        if configuration.decoder_layers:
            raise NotImplementedError("there is no decoder here that reads an encoder")
        missing = [n for n, s in parameter_shapes(configuration).items() if parameters[n].shape != s]
        if missing:
            raise ValueError(f"parameters of another shape than the configuration's: {', '.join(missing)}")
        return Model(self, configuration, dict(parameters))

    def vjp(self, operation: str, arrays: Sequence[Any], upstream: Array, **options: Any) -> list[Any]:
        """The gradient of ⟨upstream, operation⟩ by every array, or by every one of a mapping; none by whole numbers."""
        taken = [recorded(a) for a in arrays]
        found = pull(getattr(self, operation)(*taken, **options), upstream)
        return [gradient(a, found) for a in taken]

    def positions_of(self, tokens: Array, start: int) -> Array:
        """The positions of tokens that follow `start` others."""
        return np.broadcast_to(start + np.arange(tokens.shape[1]), tokens.shape)

    def reorder(self, cache: Cache, rows: Array) -> None:
        """Keys, values and positions of every layer in another order of rows."""
        cache.layers = [(key[rows], value[rows]) for key, value in cache.layers]
        cache.positions = None if cache.positions is None else cache.positions[rows]

    def crop(self, cache: Cache, length: int) -> None:
        """Keys, values and positions of the first tokens alone."""
        cache.layers = [(key[:, :, :length], value[:, :, :length]) for key, value in cache.layers]
        cache.positions = None if cache.positions is None else cache.positions[:, :length]

    def exported(self, held: Parameters, c: Configuration) -> Parameters:
        """The parameters as a checkpoint would keep them."""
        return held

    def block(
        self,
        x: Array,
        parameters: Parameters,
        *,
        configuration: Configuration,
        mask: Array | None = None,
        positions: Array | None = None,
    ) -> Array:
        """The stream after the first block of a model."""
        where = np.broadcast_to(np.arange(x.shape[1]) if positions is None else positions, x.shape[:2])
        return self.block_of(x, parameters, 0, Pass(configuration, where, where, mask, None, 0, None))

    def forward(self, parameters: Parameters, tokens: Array, p: Pass) -> Array:
        """Logits, or the last stream, of the new tokens."""
        c, stream = p.configuration, p.mark("embedding", self.embedded(parameters, tokens, p))
        for layer in range(c.layers):
            stream = self.block_of(stream, layer_parameters(parameters, layer), layer, p)
        if p.cache is not None:
            p.cache.positions = p.seen
        final = p.mark("final", self.final(stream, parameters, p))
        return p.mark("logits", self.unembedded(final, parameters, c)) if c.output == "logits" else final

    # The stream before and after the blocks.

    def embedded(self, parameters: Parameters, tokens: Array, p: Pass) -> Array:
        """The stream that enters the first block: token, position and segment vectors, then a norm if there is one."""
        c, stream = p.configuration, self.token_vectors(parameters, tokens, p.configuration)
        if c.position_kind == "learned":
            stream = self.added(stream, self.position_rows(parameters["position_embedding"], p))
        if c.position_kind == "sinusoidal":
            stream = self.added(stream, self.sinusoidal_positions(p.positions, c.width, wide(stream).dtype))
        if c.segments:
            stream = self.added(stream, parameters["segment_embedding"][0])
        return self.norm(stream, parameters, "embedding_norm", c) if c.embedding_norm else stream

    def token_vectors(self, parameters: Parameters, tokens: Array, c: Configuration) -> Array:
        """The rows of the token table, times the root of the width where that is declared."""
        rows = self.embedding(parameters["token_embedding"], tokens)
        return asarray(wide(rows) * wide(rows).dtype.type(c.width**0.5), rows.dtype) if c.embedding_scaled else rows

    def position_rows(self, table: Array, p: Pass) -> Array:
        """The rows of the learned table for the positions."""
        return self.embedding(table, p.positions + p.configuration.position_offset)

    def added(self, stream: Array, contribution: Array) -> Array:
        """The stream with a contribution."""
        return asarray(wide(stream) + wide(contribution), stream.dtype)

    def final(self, stream: Array, parameters: Parameters, p: Pass) -> Array:
        """The stream after the last norm."""
        c = p.configuration
        return self.norm(stream, parameters, "final_norm", c) if c.final_norm else stream

    def unembedded(self, final: Array, parameters: Parameters, c: Configuration) -> Array:
        """The logits, scaled and capped as declared."""
        rows, bias = self.scored_rows(c), parameters.get("unembedding_bias")
        logits = self.linear(final, self.unembedding(parameters, c)[:rows], None if bias is None else bias[:rows])
        inner = wide(logits) * wide(logits).dtype.type(c.logit_scale)
        return self.cap(inner, c.logit_cap or None).astype(logits.dtype)

    def scored_rows(self, c: Configuration) -> int:
        """How many rows of the unembedding are given logits: those that stand for tokens."""
        return c.vocabulary

    def unembedding(self, parameters: Parameters, c: Configuration) -> Array:
        """The unembedding: the token table where it is tied."""
        return parameters["token_embedding" if c.tied else "unembedding_weight"]

    # Blocks.

    def block_of(self, x: Array, parameters: Parameters, layer: int, p: Pass) -> Array:
        """The stream after one block."""
        attended = self.sublayer("attention", x, parameters, layer, p)
        if p.configuration.parallel:
            both = self.added(attended, self.sublayer("feed_forward", x, parameters, layer, p))
            return p.mark(f"layers.{layer}.stream", self.added(both, x))
        stream = p.mark(f"layers.{layer}.attended", self.residual("attention", x, attended, parameters, p))
        network = self.sublayer("feed_forward", stream, parameters, layer, p)
        return p.mark(f"layers.{layer}.stream", self.residual("feed_forward", stream, network, parameters, p))

    def sublayer(self, name: str, x: Array, parameters: Parameters, layer: int, p: Pass) -> Array:
        """What attention, or the feed-forward network, contributes, with the norms that belong to it."""
        c = p.configuration
        inner = self.before(name, x, parameters, c)
        if inner is not x:
            p.mark(f"layers.{layer}.{name}_input", inner)
        if name == "attention":
            out = self.self_attention(inner, parameters, layer, p)
        else:
            out = self.feed_forward(inner, parameters, activation=c.activation)
        return self.after(name, p.mark(f"layers.{layer}.{name}_output", out), parameters, c)

    def before(self, name: str, x: Array, parameters: Parameters, c: Configuration) -> Array:
        """The norm before a sublayer, or the one that both share."""
        if c.placement not in ("pre", "sandwich"):
            return x
        own = f"{name}_norm" if f"{name}_norm_weight" in parameters else "attention_norm"
        return self.norm(x, parameters, own, c)

    def after(self, name: str, out: Array, parameters: Parameters, c: Configuration) -> Array:
        """The norm on what a sublayer contributes."""
        if c.placement == "sandwich":
            return self.norm(out, parameters, f"{name}_post_norm", c)
        return self.norm(out, parameters, f"{name}_norm", c) if c.placement == "after" else out

    def residual(self, name: str, stream: Array, out: Array, parameters: Parameters, p: Pass) -> Array:
        """The addition, and the norm on the sum where norms come last."""
        total = self.added(stream, out)
        return (
            self.norm(total, parameters, f"{name}_norm", p.configuration)
            if p.configuration.placement == "post"
            else total
        )

    def norm(self, x: Array, parameters: Parameters, name: str, c: Configuration) -> Array:
        """The configuration's norm of that name."""
        gain = self.gain(parameters[f"{name}_weight"], c)
        if c.norm == "rms":
            return self.rms_norm(x, gain, eps=c.epsilon)
        return self.layer_norm(x, gain, parameters.get(f"{name}_bias"), eps=c.epsilon)

    def gain(self, weight: Array, c: Configuration) -> Array:
        """The gain, in its arithmetic: the weight, or one more."""
        return wide(weight) + wide(weight).dtype.type(1) if c.norm_offset else weight

    def self_attention(self, x: Array, parameters: Parameters, layer: int, p: Pass) -> Array:
        """Attention over all that the model has seen, through the block's projections."""
        c = p.configuration
        query, key, value = (self.projected(x, parameters, n, layer, p) for n in ("query", "key", "value"))
        query, key = self.rotated(query, key, layer, p)
        key, value = self.remembered(key, value, layer, p)
        scale = c.score_divisor**-0.5 if c.score_divisor else None
        masks = self.model_mask(query, layer, p)
        mixed = self.attention(query, key, value, mask=masks, scale=scale, softcap=c.score_cap or None)
        merged = p.mark(f"layers.{layer}.mixed", self.merge(mixed))
        return self.project(merged, parameters, "output")

    def projected(self, x: Array, parameters: Parameters, name: str, layer: int, p: Pass) -> Array:
        """The heads of query, key or value, normed where that is declared."""
        c, flat = p.configuration, self.project(x, parameters, name)
        gain = parameters.get(f"{name}_norm_weight")
        if gain is not None and c.query_key_norm == "width":
            flat = self.rms_norm(flat, self.gain(gain, c), eps=c.epsilon)
        own = self.split(flat, c.heads if name == "query" else c.kv_heads)
        if gain is not None and c.query_key_norm == "head":
            own = self.rms_norm(own, self.gain(gain, c), eps=c.epsilon)
        return p.mark(f"layers.{layer}.{name}", own)

    def rotated(self, query: Array, key: Array, layer: int, p: Pass) -> tuple[Array, Array]:
        """Query and key, turned to their positions where those are rotary."""
        if not p.configuration.rotated:
            return query, key
        turned = self.turned_to(query, p), self.turned_to(key, p)
        return p.mark(f"layers.{layer}.rotated_query", turned[0]), p.mark(f"layers.{layer}.rotated_key", turned[1])

    def turned_to(self, x: Array, p: Pass) -> Array:
        """The heads rotated to the positions of the call."""
        r = p.configuration.rotary
        return self.rope(x, p.positions, base=r.base, rotary_width=r.width or None, layout=r.layout, scaling=r.scaling)

    def remembered(self, key: Array, value: Array, layer: int, p: Pass) -> tuple[Array, Array]:
        """Keys and values of all tokens seen, the new ones kept as well."""
        if p.cache is None:
            return key, value
        if layer < len(p.cache.layers):
            old = p.cache.layers[layer]
            key, value = (np.concatenate([a, b], axis=2) for a, b in zip(old, (key, value), strict=True))
            p.cache.layers[layer] = key, value
        else:
            p.cache.layers.append((key, value))
        return key, value

    def model_mask(self, query: Array, layer: int, p: Pass) -> Array | None:
        """Where each query may attend, as a boolean mask, or as a bias where positions are one."""
        c, queries, keys = p.configuration, query.shape[2], p.seen.shape[1]
        shape = np.empty((queries, keys))
        allowed = np.ones((1, 1, queries, keys), bool) if p.mask is None else self.spread_mask(p.mask)
        if c.causal:
            allowed = allowed & self.past(shape)
        if c.window_of(layer):
            allowed = allowed & self.within(shape, c.window_of(layer))
        if c.position_kind != "alibi":
            return np.broadcast_to(allowed, (len(p.seen), 1, queries, keys))
        return np.where(allowed, self.slopes_bias(p, wide(query).dtype), -np.inf)

    def spread_mask(self, mask: Array) -> Array:
        """A mask of keys, or of queries and keys, with an axis for the heads."""
        return mask[:, None, None, :] if mask.ndim == 2 else mask[:, None]

    def slopes_bias(self, p: Pass, dtype: Any) -> Array:
        """Minus slope times distance, `[batch, heads, queries, keys]`."""
        slopes = self.alibi_slopes(p.configuration.heads).astype(dtype)[:, None, None]
        behind = p.seen[:, None, None, :] - p.positions[:, None, :, None]
        return asarray(slopes * behind.astype(dtype))


@dataclass(eq=False)
class Model:
    """A model in NumPy: operations, a configuration and parameters by name."""

    operations: NumpyReference
    configuration: Configuration
    held: dict[str, Array]

    def __call__(
        self,
        tokens: Array,
        *,
        positions: Array | None = None,
        mask: Array | None = None,
        cache: Cache | None = None,
        trace: dict[str, Array] | None = None,
    ) -> Array:
        """The logits of the tokens, which follow those in the cache."""
        start = 0 if cache is None else cache.length
        where = self.operations.positions_of(tokens, start) if positions is None else positions
        seen = where if cache is None or cache.positions is None else np.concatenate([cache.positions, where], 1)
        p = Pass(self.configuration, where, seen, mask, cache, start, trace)
        return self.operations.forward(self.held, tokens, p)

    def vjp(
        self, tokens: Array, upstream: Array, *, positions: Array | None = None, mask: Array | None = None
    ) -> Mapping[str, Array]:
        """The gradient of ⟨upstream, output⟩ by every parameter."""
        taken = recorded(self.held)
        out = Model(self.operations, self.configuration, taken)(tokens, positions=positions, mask=mask)
        found: Mapping[str, Array] = gradient(taken, pull(out, upstream))
        return found

    def new_cache(self) -> Cache:
        """An empty cache."""
        return Cache()

    def reorder_cache(self, cache: Cache, rows: Array) -> None:
        """Row i of the cache becomes the old row rows[i]."""
        self.operations.reorder(cache, rows)

    def crop_cache(self, cache: Cache, length: int) -> None:
        """The cache without what follows its first `length` tokens."""
        self.operations.crop(cache, length)

    def parameters(self) -> Mapping[str, Array]:
        """Every parameter by name."""
        return self.operations.exported(self.held, self.configuration)


def layer_parameters(parameters: Parameters, layer: int) -> dict[str, Array]:
    """The parameters of one block, names without the layer."""
    prefix = f"layers.{layer}."
    return {name.removeprefix(prefix): p for name, p in parameters.items() if name.startswith(prefix)}


numpy_reference = NumpyReference()
