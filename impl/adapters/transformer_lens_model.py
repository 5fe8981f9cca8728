"""TransformerLens's `HookedTransformer` holding given weights, its activations as the trace."""

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # it would look for models where it is imported

from transformer_lens import HookedTransformer, HookedTransformerConfig
from transformer_lens.cache.key_value_cache import TransformerLensKeyValueCache

from gnomon.impl.adapters.model_parts import by_heads, of_layer, require
from gnomon.impl.declaration import Declaration
from gnomon.spec.configuration import Configuration
from gnomon.spec.precision import EVERYWHERE
from gnomon.spec.shapes import parameter_shapes

LIBRARY = "HookedTransformer"
CONTEXT = 1024  # positions, where no table says how many there are
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu"}
POSITIONS = {"rotary": "rotary", "learned": "standard", "alibi": "alibi"}
OUTER = {
    "token_embedding": "embed.W_E",
    "position_embedding": "pos_embed.W_pos",
    "embedding_norm_weight": "embed.ln.w",
    "embedding_norm_bias": "embed.ln.b",
    "final_norm_weight": "ln_final.w",
    "final_norm_bias": "ln_final.b",
    "unembedding_weight": "unembed.W_U",
    "unembedding_bias": "unembed.b_U",
}
INNER = {
    "query_weight": "attn.W_Q",
    "query_bias": "attn.b_Q",
    "query_norm_weight": "attn.q_norm.w",
    "key_weight": "attn.W_K",
    "key_bias": "attn.b_K",
    "key_norm_weight": "attn.k_norm.w",
    "value_weight": "attn.W_V",
    "value_bias": "attn.b_V",
    "output_weight": "attn.W_O",
    "output_bias": "attn.b_O",
    "up_weight": "mlp.W_in",
    "up_bias": "mlp.b_in",
    "gate_weight": "mlp.W_gate",
    "down_weight": "mlp.W_out",
    "down_bias": "mlp.b_out",
    "attention_norm_weight": "ln1.w",
    "attention_norm_bias": "ln1.b",
    "feed_forward_norm_weight": "ln2.w",
    "feed_forward_norm_bias": "ln2.b",
}
STEPS = {
    "attn.hook_q": "query",
    "attn.hook_k": "key",
    "attn.hook_v": "value",
    "attn.hook_rot_q": "rotated_query",
    "attn.hook_rot_k": "rotated_key",
    "attn.hook_z": "mixed",
    "hook_attn_out": "attention_output",
    "hook_resid_mid": "attended",
    "hook_mlp_out": "feed_forward_output",
    "hook_resid_post": "stream",
}
SPLIT = {f"{name}_{kind}" for name in ("query", "key", "value") for kind in ("weight", "bias")} | {"output_weight"}
HEADS = {"query": "heads", "key": "kv_heads", "value": "kv_heads"}


def library_configuration(c: Configuration, dtype: torch.dtype) -> HookedTransformerConfig:
    """The same model in the library's words."""
    free = ("activation", "norm", "norms", "parallel", "tied", "qkv_bias", "output_bias", "feed_forward_bias")
    also = ("unembedding_bias", "embedding_norm", "query_key_norm", "rotary layout", "rotated share", "window")
    caps = ("score_cap", "logit_cap", "score_divisor", "gated")
    placements, positions = ("pre", "after"), tuple(POSITIONS)
    require(LIBRARY, c, "llama", *free, *also, *caps, placement=placements, position_kind=positions)
    if c.gated and c.feed_forward_bias:
        raise NotImplementedError(f"{LIBRARY} adds the bias of a gated network after its product")
    if (c.query_key_norm == "width") != (c.placement == "after"):
        raise NotImplementedError(f"{LIBRARY} has norms of whole queries together with norms of results alone")
    olmo: dict[str, Any] = {"original_architecture": "Olmo2ForCausalLM"} if c.placement == "after" else {}
    local: dict[str, Any] = {"use_local_attn": True, "window_size": c.window} if c.window else {}
    return HookedTransformerConfig(
        n_layers=c.layers, d_model=c.width, n_heads=c.heads, d_head=c.head_width, d_mlp=c.feed_forward,
        n_key_value_heads=c.kv_heads if c.kv_heads != c.heads else None, d_vocab=c.vocabulary,
        n_ctx=c.positions - c.position_offset if c.positions else CONTEXT, act_fn=ACTIVATIONS[c.activation],
        eps=c.epsilon, normalization_type="RMS" if c.norm == "rms" else "LN", gated_mlp=c.gated,
        parallel_attn_mlp=c.parallel, positional_embedding_type=POSITIONS[c.position_kind], dtype=dtype,
        rotary_dim=c.rotated or None, rotary_base=c.rotary.base, device="cpu", init_weights=False,
        rotary_adjacent_pairs=c.rotary.layout == "interleaved", post_embedding_ln=c.embedding_norm,
        use_qk_norm=c.query_key_norm == "head", attn_scores_soft_cap=c.score_cap, output_logits_soft_cap=c.logit_cap,
        attn_scale=(c.score_divisor or c.head_width) ** 0.5,
        attn_types=["local" if c.window_of(i) else "global" for i in range(c.layers)], **olmo, **local,
    )  # fmt: skip


def theirs(name: str, value: Tensor, heads: int) -> Tensor:
    """A parameter of ours as the library shapes it: `[in, out]`, split by heads."""
    if name not in SPLIT:
        return value.T if value.ndim == 2 and name.endswith("_weight") else value
    split: Tensor = by_heads(value.T if name == "output_weight" else value, heads)
    return split.mT if split.ndim == 3 and name != "output_weight" else split


def ours(name: str, value: Tensor) -> Tensor:
    """The way back."""
    if name not in SPLIT:
        return value.T if value.ndim == 2 and name.endswith("_weight") else value
    if name == "output_weight":
        return value.flatten(0, 1).T
    return (value.mT if value.ndim == 3 else value).flatten(0, 1)


def inner_name(name: str, layer: int, shared: bool) -> str:
    """The library's name of a block's parameter; shared keys and values have names of their own."""
    grouped = shared and name.partition("_")[0] in ("key", "value") and "norm" not in name
    return f"blocks.{layer}.{INNER[name].replace('.', '._') if grouped else INNER[name]}"


def state(c: Configuration, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters by the library's names."""
    outer = {OUTER[name]: theirs(name, p, 1) for name, p in parameters.items() if name in OUTER}
    if c.position_offset:
        outer["pos_embed.W_pos"] = parameters["position_embedding"][c.position_offset :]
    if c.tied:
        outer["unembed.W_U"] = parameters["token_embedding"].T
    for layer in range(c.layers):
        for name, p in of_layer(parameters, layer).items():
            heads = getattr(c, HEADS.get(name.partition("_")[0], "heads"))
            outer[inner_name(name, layer, c.heads != c.kv_heads)] = theirs(name, p, heads)
        if c.norms == 1:  # which the library has twice
            norm = {name: p for name, p in outer.items() if name.startswith(f"blocks.{layer}.ln1.")}
            outer |= {name.replace(".ln1.", ".ln2."): p for name, p in norm.items()}
    return outer


def built(c: Configuration, parameters: Mapping[str, Tensor]) -> Any:
    """The library's model, holding the parameters; a bias that is not given is zero."""
    settings = library_configuration(c, parameters["token_embedding"].dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it leaves the library in version 4
        made = HookedTransformer(settings)
    made.load_state_dict(state(c, parameters), strict=False)
    return made.eval()


@dataclass
class Cache:
    """The library's cache, which has a number of rows only once there is a batch."""

    held: TransformerLensKeyValueCache | None = None

    @property
    def length(self) -> int:
        """The number of positions held."""
        return 0 if self.held is None else self.held.entries[0].past_keys.shape[1]

    def change(self, index: Any) -> None:
        """The cache of other rows or positions only."""
        if self.held is not None:
            self.held.previous_attention_mask = self.held.previous_attention_mask[index]
            for entry in self.held.entries:
                entry.past_keys, entry.past_values = entry.past_keys[index], entry.past_values[index]


class Model:
    """A `HookedTransformer`."""

    def __init__(self, c: Configuration, parameters: Mapping[str, Tensor]) -> None:
        self.c, self.module = c, built(c, parameters)

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
        """The logits."""
        self.require_counted(tokens, positions, mask, cache)
        given: dict[str, Any] = {} if mask is None else {"attention_mask": mask[:, -tokens.shape[1] :].int()}
        if cache is not None:
            settings = self.module.cfg
            cache.held = cache.held or TransformerLensKeyValueCache.init_cache(settings, "cpu", len(tokens))
            given = {"attention_mask": torch.ones_like(tokens)} | given | {"past_kv_cache": cache.held}
        if trace is None:
            logits: Tensor = self.module(tokens, **given)
            return logits
        logits, activations = self.module.run_with_cache(tokens, **given)
        trace |= self.steps(activations, tokens.shape[1]) | {"logits": logits}
        return logits

    def require_counted(
        self, tokens: Tensor, positions: Tensor | None, mask: Tensor | None, cache: Cache | None
    ) -> None:
        """Nothing, if the positions are the library's own, counted over real tokens, or as far from each other."""
        first = cache.length if cache else 0
        if mask is not None and mask.ndim == 3:
            raise NotImplementedError(f"{LIBRARY} takes no mask per query")
        real = torch.ones(len(tokens), first + tokens.shape[1], dtype=torch.bool) if mask is None else mask
        counted, real = (real.int().cumsum(1) - 1)[:, first:], real[:, first:]
        off = (torch.arange(first, first + tokens.shape[1]) if positions is None else positions) - counted
        biased = self.c.position_kind == "alibi" and cache is None  # by distances alone, which a trace shows nothing of
        if biased or (positions is None and self.c.position_kind != "learned"):
            off = off - off.masked_fill(~real, 0).amax(1, keepdim=True)
        if off[real].any():
            raise NotImplementedError(f"{LIBRARY} counts positions over real tokens by itself")

    def steps(self, activations: Any, time: int) -> dict[str, Tensor]:
        """The activations by the names of a trace; those that a norm has already passed are left out."""
        c, found = (
            self.c,
            {"embedding": activations["blocks.0.hook_resid_pre"], "final": activations["unembed.hook_in"]},
        )
        normed = {"query", "key"} if c.query_key_norm else set()
        normed |= {"attention_output", "feed_forward_output"} if c.placement == "after" else set()
        for layer in range(c.layers):
            for hook, name in STEPS.items():
                step = activations.cache_dict.get(f"blocks.{layer}.{hook}")
                if step is not None and name not in normed:
                    found[f"layers.{layer}.{name}"] = arranged(name, step[:, -time:])
        return found

    def parameters(self) -> dict[str, Tensor]:
        """Everything that the library's model holds, by our names and in our shapes."""
        if self.c.position_offset:
            raise NotImplementedError(f"{LIBRARY} holds no row that no position reads")
        held, shared, found = self.module.state_dict(), self.c.heads != self.c.kv_heads, {}
        for name in parameter_shapes(self.c):
            parts = name.split(".")
            their_name = inner_name(parts[2], int(parts[1]), shared) if len(parts) > 1 else OUTER[name]
            found[name] = ours(parts[-1], held[their_name])
        return found

    def new_cache(self) -> Cache:
        """A cache that holds nothing."""
        return Cache()

    def reorder_cache(self, cache: Cache, rows: Tensor) -> None:
        """The cache of other rows of the batch."""
        cache.change(rows)

    def crop_cache(self, cache: Cache, length: int) -> None:
        """The cache of the first positions only."""
        cache.change((slice(None), slice(length)))


def arranged(name: str, step: Tensor) -> Tensor:
    """A step with its heads where a trace has them."""
    if name == "mixed":
        return step.flatten(-2)
    return step.transpose(1, 2) if step.ndim == 4 else step


def model(configuration: Configuration, parameters: Mapping[str, Tensor]) -> Model:
    """The library's model holding these parameters."""
    return Model(configuration, parameters)


declaration = Declaration(
    framework="torch",
    dtypes=("float64", "float32", "bfloat16", "float16"),
    sites=EVERYWHERE,
    families=(
        "llama",
        "mistral",
        "qwen2",
        "qwen3",
        "phi3",
        "olmo2",
        "falcon",
        "gpt2",
        "gpt-neox",
        "gptj",
        "opt",
        "bloom",
    ),
)
