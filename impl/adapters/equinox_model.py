"""Whole models made of Equinox's layers; they see one position or one example at a time, so batches are mapped over."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from gnomon.impl.adapters.equinox_attention import ACTIVATIONS, holding, layer
from gnomon.impl.adapters.model_parts import absent, of_layer, require_unpadded
from gnomon.impl.declaration import Declaration
from gnomon.spec.configuration import Configuration

LIBRARY = "equinox"
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma", "phi3", "olmo2", "falcon", "gpt2", "gpt-neox", "opt")
OTHERS = ("bert", "encoder-2017", "orderless", "nope")
Parameters = Mapping[str, Array]


def require_layers(c: Configuration) -> None:
    """Nothing, if there are layers for it."""
    require_unpadded(LIBRARY, c)
    if c.rotated and (c.rotary.layout != "half" or c.rotary.scaling):
        raise NotImplementedError("equinox.nn.RotaryPositionalEmbedding pairs halves and scales nothing")
    if c.position_kind == "alibi" or c.score_cap or c.score_divisor:
        raise NotImplementedError("equinox.nn.MultiheadAttention changes no scores but by their usual scale")


@dataclass(frozen=True)
class Sequence:
    """One example on its way through a model, whose steps are noted.

    first: whether no model with heads of this width and another base was called before it.
    """

    c: Configuration
    parameters: Parameters
    mask: Array
    first: bool
    steps: dict[str, Array]

    def note(self, name: str, value: Array) -> Array:
        """The value, under a name that a trace has."""
        self.steps[name] = value
        return value

    def linear(self, x: Array, own: Parameters, name: str) -> Array:
        """The output of a `Linear` layer at every position."""
        return jnp.asarray(jax.vmap(holding(own[f"{name}_weight"], own.get(f"{name}_bias")))(x))

    def norm(self, x: Array, own: Parameters, name: str, kind: str = "") -> Array:
        """The output of the model's kind of norm, or of another, along the last axis."""
        weight, bias = own[f"{name}_weight"], own.get(f"{name}_bias")
        gain = weight.astype(jnp.promote_types(weight.dtype, jnp.float32)) + 1 if self.c.norm_offset else weight
        make = eqx.nn.RMSNorm if (kind or self.c.norm) == "rms" else eqx.nn.LayerNorm
        empty = make(weight.shape, self.c.epsilon, use_bias=bias is not None, dtype=weight.dtype)
        parts = (gain,) if bias is None else (gain, bias)
        norm = eqx.tree_at(lambda tree: (tree.weight, tree.bias)[: len(parts)], empty, parts)
        rows = jax.vmap(norm)(x.reshape(-1, x.shape[-1]))
        return jnp.asarray(rows.reshape(x.shape))

    def embedded(self, tokens: Array, positions: Array) -> Array:
        """The stream that enters the first block."""
        c, p = self.c, self.parameters
        x = self.looked_up("token", tokens)
        x = x * jnp.asarray(math.sqrt(c.width), x.dtype) if c.embedding_scaled else x
        if c.position_kind == "learned":
            x = x + self.looked_up("position", positions + c.position_offset)
        if c.position_kind == "sinusoidal":
            x = x + sinusoids(positions, c.width).astype(x.dtype)
        x = x + p["segment_embedding"][0] if c.segments else x
        return self.note("embedding", self.norm(x, p, "embedding_norm") if c.embedding_norm else x)

    def looked_up(self, table: str, ids: Array) -> Array:
        """The outputs of an `Embedding` that holds that table."""
        return jnp.asarray(jax.vmap(eqx.nn.Embedding(weight=self.parameters[f"{table}_embedding"]))(ids))

    def heads(self, x: Array, own: Parameters, prefix: str, name: str) -> Array:
        """Queries, keys or values, `[heads, time, width]`, normed where that is declared."""
        flat, count = self.linear(x, own, name), self.c.heads if name == "query" else self.c.kv_heads
        normed = name != "value" and self.c.query_key_norm
        flat = self.norm(flat, own, f"{name}_norm", "rms") if normed == "width" else flat
        split = flat.reshape(len(flat), count, -1).swapaxes(0, 1)
        return self.note(prefix + name, self.norm(split, own, f"{name}_norm", "rms") if normed == "head" else split)

    def rotated(self, heads: Array, name: str) -> Array:
        """The heads turned by their positions, features beyond the rotated ones as they are."""
        width = self.c.rotated
        if not width:
            return heads
        turn = partial(eqx.nn.RotaryPositionalEmbedding, width, dtype=heads.dtype)
        eqx.clear_caches()  # type: ignore[no-untyped-call]  # its table of angles does not know the base that it was made for
        if not self.first:
            turn(theta=2 * self.c.rotary.base)(heads[0, :, :width])
        turned = jax.vmap(turn(theta=self.c.rotary.base))(heads[..., :width])
        return self.note(name, jnp.concatenate([turned, heads[..., width:]], -1))

    def attention(self, x: Array, own: Parameters, index: int) -> Array:
        """What attention adds to the stream; key heads are repeated, as the layer shares none."""
        c, prefix = self.c, f"layers.{index}."
        query, key, value = (self.heads(x, own, prefix, name) for name in ("query", "key", "value"))
        query, key = self.rotated(query, f"{prefix}rotated_query"), self.rotated(key, f"{prefix}rotated_key")
        key, value = (jnp.repeat(a, c.heads // c.kv_heads, 0) for a in (key, value))
        rows = (a.swapaxes(0, 1).reshape(len(x), -1) for a in (query, key, value))
        module = layer(c.heads, c.heads * c.head_width, (eqx.nn.Identity(),) * 4)
        mixed = self.note(f"{prefix}mixed", jnp.asarray(module(*rows, mask=self.seen(index))))
        return self.linear(mixed, own, "output")

    def seen(self, index: int) -> Array:
        """Where a layer's queries may look."""
        behind = jnp.arange(len(self.mask))[:, None] - jnp.arange(len(self.mask))
        seen = self.mask & (behind >= 0) if self.c.causal else self.mask
        return seen & (abs(behind) < self.c.window_of(index)) if self.c.window_of(index) else seen

    def feed_forward(self, x: Array, own: Parameters, index: int) -> Array:
        """What the network adds to the stream."""
        up, activate = self.linear(x, own, "up"), ACTIVATIONS[self.c.activation]
        hidden = activate(self.linear(x, own, "gate")) * up if self.c.gated else activate(up)
        return self.linear(hidden, own, "down")

    def sublayer(self, name: str, x: Array, index: int, apply: Callable[..., Array]) -> Array:
        """What a sublayer contributes, with the norms before and after it."""
        c, own, prefix = self.c, of_layer(self.parameters, index), f"layers.{index}.{name}"
        if c.placement in ("pre", "sandwich"):
            norm = "attention" if c.norms == 1 else name
            x = self.note(f"{prefix}_input", self.norm(x, own, f"{norm}_norm"))
        output = self.note(f"{prefix}_output", apply(x, own, index))
        after = {"sandwich": f"{name}_post_norm", "after": f"{name}_norm"}.get(c.placement)
        return self.norm(output, own, after) if after else output

    def block(self, x: Array, index: int) -> Array:
        """The stream after one block."""
        attended, prefix = self.sublayer("attention", x, index, self.attention), f"layers.{index}."
        if self.c.parallel:
            both = attended + self.sublayer("feed_forward", x, index, self.feed_forward)
            return self.note(f"{prefix}stream", both + x)
        x = self.note(f"{prefix}attended", self.added("attention", x, attended, index))
        network = self.sublayer("feed_forward", x, index, self.feed_forward)
        return self.note(f"{prefix}stream", self.added("feed_forward", x, network, index))

    def added(self, name: str, x: Array, contribution: Array, index: int) -> Array:
        """The sum, normed where norms stand on sums."""
        total, own = x + contribution, of_layer(self.parameters, index)
        return self.norm(total, own, f"{name}_norm") if self.c.placement == "post" else total

    def output(self, x: Array) -> Array:
        """The logits of the last stream, or that."""
        c, p = self.c, self.parameters
        x = self.note("final", self.norm(x, p, "final_norm") if c.final_norm else x)
        if c.output == "stream":
            return x
        table = {"unembedding_weight": p["token_embedding"]} if c.tied else {}
        logits = self.linear(x, {**p, **table}, "unembedding")
        logits = logits * jnp.asarray(c.logit_scale, logits.dtype) if c.logit_scale != 1 else logits
        return self.note("logits", c.logit_cap * jnp.tanh(logits / c.logit_cap) if c.logit_cap else logits)


def sinusoids(positions: Array, width: int) -> Array:
    """Sines and cosines in turn, of wavelengths that grow from 2π to 10000·2π."""
    turns = positions[:, None] * 10000.0 ** (-jnp.arange(0, width, 2) / width)
    return jnp.stack([jnp.sin(turns), jnp.cos(turns)], -1).reshape(len(positions), -1)[:, :width]


def example(
    c: Configuration, first: bool, parameters: Parameters, tokens: Array, positions: Array, mask: Array
) -> tuple[Array, dict[str, Array]]:
    """The output and the steps of one example."""
    sequence = Sequence(c, parameters, mask, first, {})
    x = sequence.embedded(tokens, positions)
    for index in range(c.layers):
        x = sequence.block(x, index)
    return sequence.output(x), sequence.steps


@partial(jax.jit, static_argnums=(0, 1))
def batch(
    c: Configuration, first: bool, parameters: Parameters, tokens: Array, positions: Array, mask: Array
) -> tuple[Array, dict[str, Array]]:
    """The outputs and the steps of a batch; without the steps it would be compiled once more for a trace."""
    output, steps = jax.vmap(partial(example, c, first, parameters))(tokens, positions, mask)
    return output, steps


@dataclass(frozen=True)
class Model:
    """A model of Equinox's layers, compiled as a whole for every shape."""

    c: Configuration
    held: Parameters
    first: bool = True

    def __call__(
        self,
        tokens: Array,
        *,
        positions: Array | None = None,
        mask: Array | None = None,
        cache: None = None,
        trace: dict[str, Array] | None = None,
    ) -> Array:
        """The logits, or the last stream."""
        absent(LIBRARY, cache=cache, **({"positions": positions} if self.c.rotated else {}))
        size, time = tokens.shape
        where = jnp.broadcast_to(jnp.arange(time), tokens.shape) if positions is None else positions
        given = jnp.ones((size, 1, time), bool) if mask is None else mask[:, None] if mask.ndim == 2 else mask
        seen = jnp.broadcast_to(given, (size, time, time))
        output: Array
        output, steps = batch(self.c, self.first, self.held, tokens, where, seen)
        if trace is not None:
            trace |= steps
        return output

    def vjp(
        self, tokens: Array, upstream: Array, *, positions: Array | None = None, mask: Array | None = None
    ) -> dict[str, Array]:
        """The gradient of ⟨upstream, output⟩ by every parameter, by `jax.vjp`."""

        def output(held: dict[str, Array]) -> Array:
            return Model(self.c, held, self.first)(tokens, positions=positions, mask=mask)

        found: dict[str, Array] = jax.vjp(output, dict(self.held))[1](upstream)[0]
        return found

    def parameters(self) -> dict[str, Array]:
        """Everything that the layers are given."""
        return dict(self.held)


def model(configuration: Configuration, parameters: Parameters) -> Model:
    """The model holding these parameters, its angles its own."""
    require_layers(configuration)
    return Model(configuration, dict(parameters))


def second(configuration: Configuration, parameters: Parameters) -> Model:
    """The same model in a process where another with heads of this width and another base was called before."""
    require_layers(configuration)
    return Model(configuration, dict(parameters), first=False)


declaration = Declaration(
    framework="jax",
    compiles=True,
    dtypes=("float64", "float32", "bfloat16", "float16"),
    families=(*FAMILIES, *OTHERS),
    paths={"model": {"after another base": second}},
)
