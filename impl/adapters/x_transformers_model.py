"""x-transformers' `TransformerWrapper` holding given weights, with and without PyTorch's fused attention.

Its RMSNorm has no epsilon: the model is built without one, and what that changes is for the suite to see.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.impl.adapters.model_parts import by_heads, halved, interleaved, of_layer, require
from gnomon.impl.declaration import Declaration
from gnomon.spec.configuration import Configuration
from gnomon.spec.precision import EVERYWHERE

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it uses torch.jit.script where it is imported
    from x_transformers import Decoder, Encoder, TransformerWrapper

LIBRARY = "x-transformers"
BASE = 10000.0  # of its rotary angles, which can only be rescaled
ACTIVATIONS = {"relu": nn.ReLU(), "gelu": nn.GELU(), "gelu_tanh": nn.GELU(approximate="tanh"), "silu": nn.SiLU()}


def require_decoder(c: Configuration) -> None:
    """Nothing, if the library can build it, but for the epsilon."""
    free = ("causal", "tied", "activation", "window", "rotated share")
    require(LIBRARY, c, "llama", *free, position_kind=("rotary", "none"), window_every=(1,))
    if c.rotated == 2:
        raise NotImplementedError(f"{LIBRARY} divides by zero where two features of a head are rotated")
    if c.window and not c.causal:
        raise NotImplementedError(f"{LIBRARY} has windows into the past alone")
    if not c.final_norm:
        raise NotImplementedError(f"{LIBRARY} is not asked for a stream without a last norm")


def rescaling(c: Configuration) -> float:
    """What the library has to rescale its base with, which it raises to n/(n − 2) for n rotated features."""
    return float((c.rotary.base / BASE) ** ((c.rotated - 2) / c.rotated)) if c.rotated else 1.0


def built(c: Configuration, flash: bool) -> Any:
    """The library's model of that configuration."""
    require_decoder(c)
    rotary = {"rotary_pos_emb": True, "rotary_emb_dim": c.rotated, "rotary_base_rescale_factor": rescaling(c)}
    layers = (Decoder if c.causal else Encoder)(
        dim=c.width, depth=c.layers, heads=c.heads, attn_dim_head=c.head_width, attn_kv_heads=c.kv_heads,
        attn_project_out=True, attn_flash=flash, attn_max_attend_past=c.window - 1 if c.window else None,
        ff_mult=(c.feed_forward + 0.5) / c.width, ff_glu=True, ff_no_bias=True, verbose=False,
        ff_custom_activation=ACTIVATIONS[c.activation], use_rmsnorm=True, norm_add_unit_offset=False,
        **(rotary if c.rotated else {}),
    )  # fmt: skip
    return TransformerWrapper(
        num_tokens=c.vocabulary, max_seq_len=0, attn_layers=layers, use_abs_pos_emb=False, tie_embedding=c.tied,
        tie_embedding_scale=1.0,
    )  # fmt: skip


def tiled(c: Configuration) -> Tensor:
    """Our query head for each of theirs, whose key heads are counted through again and again."""
    own = torch.arange(c.heads)
    return own % c.kv_heads * (c.heads // c.kv_heads) + own // c.kv_heads


def regrouped(rows: Tensor, order: Tensor) -> Tensor:
    """Rows of heads in another order of the heads."""
    return torch.cat(list(by_heads(rows, len(order))[order]))


def turned(rows: Tensor, heads: int, c: Configuration, back: bool = False) -> Tensor:
    """Rows of queries or keys with the rotated features of each head in pairs, or back in halves."""
    if not c.rotated:
        return rows
    split = by_heads(rows, heads)
    first = by_heads((halved if back else interleaved)(split[:, : c.rotated].flatten(0, 1), heads), heads)
    return torch.cat([first, split[:, c.rotated :]], 1).flatten(0, 1)


def state(c: Configuration, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters by the library's names."""
    outer = {"token_emb.emb.weight": "token_embedding", "attn_layers.final_norm.g": "final_norm_weight"}
    outer |= {} if c.tied else {"to_logits.weight": "unembedding_weight"}
    found = {theirs: parameters[ours] for theirs, ours in outer.items()}
    for layer in range(c.layers):
        found |= block_state(c, of_layer(parameters, layer), layer)
    return found


def block_state(c: Configuration, own: Mapping[str, Tensor], layer: int) -> dict[str, Tensor]:
    """The parameters of one block, which is two layers to the library; a gated network always has a bias inside."""
    attention, network = (f"attn_layers.layers.{2 * layer + i}" for i in (0, 1))
    up = torch.cat([own["up_weight"], own["gate_weight"]])
    return {
        f"{attention}.0.0.g": own["attention_norm_weight"],
        f"{attention}.1.to_q.weight": regrouped(turned(own["query_weight"], c.heads, c), tiled(c)),
        f"{attention}.1.to_k.weight": turned(own["key_weight"], c.kv_heads, c),
        f"{attention}.1.to_v.weight": own["value_weight"],
        f"{attention}.1.to_out.weight": regrouped(own["output_weight"].T, tiled(c)).T,
        f"{network}.0.0.g": own["feed_forward_norm_weight"],
        f"{network}.1.ff.0.proj.weight": up,
        f"{network}.1.ff.0.proj.bias": up.new_zeros(len(up)),
        f"{network}.1.ff.2.weight": own["down_weight"],
    }


def held_by(c: Configuration, held: Mapping[str, Tensor], layer: int) -> dict[str, Tensor]:
    """The parameters of one block by our names."""
    attention, network = (f"attn_layers.layers.{2 * layer + i}" for i in (0, 1))
    up, gate = held[f"{network}.1.ff.0.proj.weight"].chunk(2)
    order = tiled(c).argsort()
    return {
        "attention_norm_weight": held[f"{attention}.0.0.g"],
        "query_weight": turned(regrouped(held[f"{attention}.1.to_q.weight"], order), c.heads, c, back=True),
        "key_weight": turned(held[f"{attention}.1.to_k.weight"], c.kv_heads, c, back=True),
        "value_weight": held[f"{attention}.1.to_v.weight"],
        "output_weight": regrouped(held[f"{attention}.1.to_out.weight"].T, order).T,
        "feed_forward_norm_weight": held[f"{network}.0.0.g"],
        "up_weight": up,
        "gate_weight": gate,
        "down_weight": held[f"{network}.1.ff.2.weight"],
    }


@dataclass
class Cache:
    """What the library returned last, and the positions of all that it holds: it rotates keys anew in each call."""

    held: Any = None
    positions: Tensor | None = None

    @property
    def length(self) -> int:
        """The number of positions held."""
        return 0 if self.positions is None else self.positions.shape[1]

    def change(self, rows: Any, times: Any) -> None:
        """The cache of other rows and times."""
        if self.held is not None and self.positions is not None:
            self.positions = self.positions[rows, times]
            self.held.cache_length = self.length
            for inner in self.held.attn_intermediates:
                inner.cached_kv = tuple(array[rows][:, :, times] for array in inner.cached_kv)


class Model:
    """A `TransformerWrapper`."""

    def __init__(self, c: Configuration, parameters: Mapping[str, Tensor], flash: bool) -> None:
        self.c, self.module = c, built(c, flash)
        self.module.to(parameters["token_embedding"].dtype).load_state_dict(state(c, parameters), strict=False)
        self.module.eval()

    @torch.no_grad()
    def __call__(
        self,
        tokens: Tensor,
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        cache: Cache | None = None,
        trace: dict[str, Tensor] | None = None,
    ) -> Tensor:
        """The logits, or the last stream."""
        given = self.masks(mask, cache) | self.past(tokens, positions, cache)
        if self.c.output == "stream":
            stream, steps = self.module(tokens, return_embeddings_and_intermediates=True, **given)
        else:
            stream, steps = self.module(tokens, return_intermediates=True, **given)
        if cache is not None:
            cache.held, cache.positions = steps, given["pos"]
        if trace is not None:
            trace |= self.steps(steps, stream)
        output: Tensor = stream
        return output

    def masks(self, mask: Tensor | None, cache: Cache | None) -> dict[str, Tensor]:
        """The mask under the name that it has for keys, or for queries and keys."""
        if mask is None or mask.ndim == 2:  # its `mask` would do more: results of padding become float32 zeros
            return {} if mask is None else {"self_attn_kv_mask": mask}
        if cache is not None:
            raise NotImplementedError(f"{LIBRARY} takes no mask per query together with a cache")
        return {"attn_mask": mask[:, None]}

    def past(self, tokens: Tensor, positions: Tensor | None, cache: Cache | None) -> dict[str, Any]:
        """The positions of all keys, and what is cached of them."""
        first, time = 0 if cache is None else cache.length, tokens.shape[1]
        new = torch.arange(first, first + time).expand(tokens.shape) if positions is None else positions
        if cache is None:
            return {} if positions is None else {"pos": new}
        held = {} if cache.held is None else {"cache": cache.held, "input_not_include_cache": True, "cache_age": time}
        return held | {"pos": new if cache.positions is None else torch.cat([cache.positions, new], 1)}

    def steps(self, steps: Any, output: Tensor) -> dict[str, Tensor]:
        """The streams that the library keeps, and the values."""
        streams = steps.layer_hiddens
        found = {"embedding": streams[0], "final": steps.last_hidden}
        for layer, inner in enumerate(steps.attn_intermediates):
            names = {"attended": streams[2 * layer + 1], "stream": streams[2 * layer + 2], "value": inner.values}
            found |= {f"layers.{layer}.{name}": step for name, step in names.items()}
        return found if self.c.output == "stream" else found | {"logits": output}

    def new_cache(self) -> Cache:
        """A cache that holds nothing."""
        if not self.c.causal:
            raise NotImplementedError(f"{LIBRARY} caches in causal models alone")
        return Cache()

    def reorder_cache(self, cache: Cache, rows: Tensor) -> None:
        """The cache of other rows of the batch."""
        cache.change(rows, slice(None))

    def crop_cache(self, cache: Cache, length: int) -> None:
        """The cache of the first positions only."""
        cache.change(slice(None), slice(length))

    def parameters(self) -> dict[str, Tensor]:
        """Everything that the library's model holds, by our names and in our order."""
        held = self.module.state_dict()
        outer = {"token_embedding": "token_emb.emb.weight", "final_norm_weight": "attn_layers.final_norm.g"}
        outer |= {} if self.c.tied else {"unembedding_weight": "to_logits.weight"}
        blocks = {i: held_by(self.c, held, i) for i in range(self.c.layers)}
        inner = {f"layers.{i}.{name}": value for i, own in blocks.items() for name, value in own.items()}
        return {ours: held[theirs] for ours, theirs in outer.items()} | inner


def model(configuration: Configuration, parameters: Mapping[str, Tensor]) -> Model:
    """The library's model, its attention written out."""
    return Model(configuration, parameters, flash=False)


def fused(configuration: Configuration, parameters: Mapping[str, Tensor]) -> Model:
    """The same model with the fused attention of PyTorch."""
    return Model(configuration, parameters, flash=True)


declaration = Declaration(
    framework="torch",
    # Not float64, as its rotary frequencies are float32 numbers; not 16 bits, to which its norms round the root of the
    # mean square and a product more than others do.
    dtypes=("float32",),
    sites=EVERYWHERE,
    families=("llama", "mistral", "phi3", "orderless", "nope"),
    paths={"model": {"flash": fused}},
)
