"""Where Hugging Face's families keep the parameters that we name, written once for both directions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gnomon.spec.configuration import Configuration
from gnomon.spec.shapes import parameter_shapes

Table = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The modules of a family, each with what it holds by our names.

    base: the module around all but the unembedding. outer: modules in it. layers: the list of its layers. block:
    modules in a layer. A module that holds several things has their rows one after another, or, grouped, the queries,
    the key and the value of one key head after those of another. transposed: a layer's matrices are `[in, out]`.
    """

    base: str
    outer: Table
    layers: str
    block: Table
    grouped: bool = False
    transposed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One module of a network: its path, what it holds by our names, and how."""

    path: str
    names: tuple[str, ...]
    groups: int = 1
    transposed: bool = False

    def parameters(self, kind: str) -> list[str]:
        """Our names of its weights, or of its biases."""
        return [n if kind == "weight" and n.endswith("_embedding") else f"{n}_{kind}" for n in self.names]

    def joined(self, parts: list[Tensor]) -> Tensor:
        """What the module holds, of its parts, in memory of its own."""
        groups = [p.reshape(self.groups, -1, *p.shape[1:]) for p in parts]
        whole = torch.cat(groups, 1).flatten(0, 1)
        return whole.mT.contiguous() if self.transposed and whole.ndim == 2 else whole

    def parted(self, whole: Tensor, rows: list[int]) -> list[Tensor]:
        """The parts, of so many rows each, of what the module holds."""
        whole = whole.mT if self.transposed and whole.ndim == 2 else whole
        groups = whole.reshape(self.groups, -1, *whole.shape[1:])
        return [g.flatten(0, 1).contiguous() for g in torch.split(groups, [r // self.groups for r in rows], 1)]

    def shares(self, output: Tensor, rows: list[int]) -> list[Tensor]:
        """The parts of the module's output, whose features lie as the rows of its weight do."""
        groups = output.reshape(*output.shape[:-1], self.groups, -1)
        return [g.flatten(-2) for g in torch.split(groups, [r // self.groups for r in rows], -1)]


def holders(names: Names, c: Configuration, prefix: str = "") -> Iterator[Holder]:
    """Every module of a network that may hold a parameter; those of the base have the prefix."""
    for path, ours in names.outer.items():
        yield Holder(path=prefix + path, names=(ours,))
    for layer in range(c.layers):
        yield from layer_holders(names, c, layer, prefix)
    if c.output == "logits":
        yield Holder(path="lm_head", names=("unembedding",))


def layer_holders(names: Names, c: Configuration, layer: int, prefix: str = "") -> Iterator[Holder]:
    """Every module of one layer that holds a parameter."""
    for path, ours in names.block.items():
        yield Holder(
            path=f"{prefix}{names.layers}.{layer}.{path}",
            names=tuple(f"layers.{layer}.{name}" for name in ours.split()),
            groups=c.kv_heads if names.grouped and " " in ours else 1,
            transposed=names.transposed,
        )


def state(names: Names, c: Configuration, parameters: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Their state dict of our parameters."""
    ours = {"unembedding_weight": parameters["token_embedding"], **parameters}
    found: dict[str, Tensor] = {}
    for holder in holders(names, c, prefix):
        for kind in ("weight", "bias"):
            parts = [ours[n] for n in holder.parameters(kind) if n in ours]
            if parts:
                found[f"{holder.path}.{kind}"] = holder.joined(parts)
    return found


def canonical(names: Names, c: Configuration, theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our parameters of their state dict, with or without the prefix of the base; what we do not name is left."""
    shapes, found = parameter_shapes(c), dict[str, Tensor]()
    bare = {path.removeprefix(f"{names.base}."): tensor for path, tensor in theirs.items()}
    for holder in holders(names, c):
        for kind in ("weight", "bias"):
            ours = [n for n in holder.parameters(kind) if n in shapes]
            if ours:
                rows = [shapes[n][0] for n in ours]
                found |= zip(ours, holder.parted(bare[f"{holder.path}.{kind}"], rows), strict=True)
    return found


_SEPARATE = {"self_attn.q_proj": "query", "self_attn.k_proj": "key", "self_attn.v_proj": "value"}
_ATTENTION = {**_SEPARATE, "self_attn.o_proj": "output"}
_NETWORK = {"mlp.gate_proj": "gate", "mlp.up_proj": "up", "mlp.down_proj": "down"}
_HEAD_NORMS = {"self_attn.q_norm": "query_norm", "self_attn.k_norm": "key_norm"}
_ONE_NORM = {"input_layernorm": "attention_norm"}
_TWO_NORMS = {**_ONE_NORM, "post_attention_layernorm": "feed_forward_norm"}
_DENSE = {"mlp.dense_h_to_4h": "up", "mlp.dense_4h_to_h": "down"}
_FUSED = {
    "self_attention.query_key_value": "query key value",
    "self_attention.dense": "output",
    **_DENSE,
}


def _like_llama(block: Table) -> Names:
    outer = {"embed_tokens": "token_embedding", "norm": "final_norm"}
    return Names(base="model", outer=outer, layers="layers", block=block)


_LLAMA = _like_llama({**_ATTENTION, **_NETWORK, **_TWO_NORMS})
_FALCON = Names(
    base="transformer",
    outer={"word_embeddings": "token_embedding", "ln_f": "final_norm"},
    layers="h",
    block={**_FUSED, **_TWO_NORMS},
    grouped=True,
)
_NAMES: Mapping[str, Names] = {
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": _like_llama({**_LLAMA.block, **_HEAD_NORMS}),
    "gemma": _LLAMA,
    "gemma2": _like_llama(
        {
            **_ATTENTION,
            **_NETWORK,
            **_ONE_NORM,
            "post_attention_layernorm": "attention_post_norm",
            "pre_feedforward_layernorm": "feed_forward_norm",
            "post_feedforward_layernorm": "feed_forward_post_norm",
        }
    ),
    "phi3": _like_llama(
        {
            "self_attn.qkv_proj": "query key value",
            "self_attn.o_proj": "output",
            "mlp.gate_up_proj": "gate up",
            "mlp.down_proj": "down",
            **_TWO_NORMS,
        }
    ),
    "olmo2": _like_llama(
        {
            **_ATTENTION,
            **_NETWORK,
            **_HEAD_NORMS,
            "post_attention_layernorm": "attention_norm",
            "post_feedforward_layernorm": "feed_forward_norm",
        }
    ),
    "cohere": _like_llama({**_ATTENTION, **_NETWORK, **_ONE_NORM}),
    "falcon": _FALCON,
    "falcon with two norms in parallel": Names(
        base=_FALCON.base,
        outer=_FALCON.outer,
        layers="h",
        block={**_FUSED, "ln_attn": "attention_norm", "ln_mlp": "feed_forward_norm"},
        grouped=True,
    ),
    "gpt2": Names(
        base="transformer",
        outer={"wte": "token_embedding", "wpe": "position_embedding", "ln_f": "final_norm"},
        layers="h",
        block={
            "ln_1": "attention_norm",
            "attn.c_attn": "query key value",
            "attn.c_proj": "output",
            "ln_2": "feed_forward_norm",
            "mlp.c_fc": "up",
            "mlp.c_proj": "down",
        },
        transposed=True,
    ),
    "gpt-neox": Names(
        base="gpt_neox",
        outer={"embed_in": "token_embedding", "final_layer_norm": "final_norm"},
        layers="layers",
        block={
            "attention.query_key_value": "query key value",
            "attention.dense": "output",
            **_DENSE,
            **_TWO_NORMS,
        },
        grouped=True,
    ),
    "gptj": Names(
        base="transformer",
        outer={"wte": "token_embedding", "ln_f": "final_norm"},
        layers="h",
        block={
            "ln_1": "attention_norm",
            "attn.q_proj": "query",
            "attn.k_proj": "key",
            "attn.v_proj": "value",
            "attn.out_proj": "output",
            "mlp.fc_in": "up",
            "mlp.fc_out": "down",
        },
    ),
    "opt": Names(
        base="model",
        outer={
            "decoder.embed_tokens": "token_embedding",
            "decoder.embed_positions": "position_embedding",
            "decoder.final_layer_norm": "final_norm",
        },
        layers="decoder.layers",
        block={
            **_SEPARATE,
            "self_attn.out_proj": "output",
            "self_attn_layer_norm": "attention_norm",
            "fc1": "up",
            "fc2": "down",
            "final_layer_norm": "feed_forward_norm",
        },
    ),
    "bloom": Names(
        base="transformer",
        outer={**_FALCON.outer, "word_embeddings_layernorm": "embedding_norm"},
        layers="h",
        block={**_FUSED, **_TWO_NORMS},
        grouped=True,
    ),
    "bert": Names(
        base="bert",
        outer={
            "embeddings.word_embeddings": "token_embedding",
            "embeddings.position_embeddings": "position_embedding",
            "embeddings.token_type_embeddings": "segment_embedding",
            "embeddings.LayerNorm": "embedding_norm",
            "pooler.dense": "pooler",
        },
        layers="encoder.layer",
        block={
            "attention.self.query": "query",
            "attention.self.key": "key",
            "attention.self.value": "value",
            "attention.output.dense": "output",
            "attention.output.LayerNorm": "attention_norm",
            "intermediate.dense": "up",
            "output.dense": "down",
            "output.LayerNorm": "feed_forward_norm",
        },
    ),
}


def names(family: str, c: Configuration) -> Names:
    """The modules of that member of the family."""
    twice = family == "falcon" and c.parallel and c.norms == 2
    return _NAMES["falcon with two norms in parallel" if twice else family]
