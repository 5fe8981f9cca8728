"""Whole models by the families of Hugging Face's transformers, built from a configuration and parameters alone."""

import os
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor

from gnomon.impl.adapters.transformers_trace import Recorder, Trace
from gnomon.impl.adapters.transformers_weights import canonical, names, state
from gnomon.impl.declaration import Declaration
from gnomon.spec.configuration import Configuration, Rotary, Scaling
from gnomon.spec.families import FAMILIES

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when transformers is imported

import transformers
from transformers.initialization import no_init_weights
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()

Given = dict[str, Any]
Table = Mapping[str, str]

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "silu": "silu"}
READ_ACTIVATIONS = {theirs: ours for ours, theirs in ACTIVATIONS.items()} | {
    "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh", "swish": "silu"
}  # fmt: skip
NONE_FOR_ZERO = {"window", "score_cap", "logit_cap"}
_SPAN = {"factor": "factor", "original": "original_max_position_embeddings"}
# What each scaling of rotary angles is fixed by, by our names and by theirs.
SCALINGS: Mapping[str, Table] = {
    "linear": {"factor": "factor"},
    "llama3": {**_SPAN, "low": "low_freq_factor", "high": "high_freq_factor"},
    "yarn": {**_SPAN, "low": "beta_slow", "high": "beta_fast", "attention_factor": "attention_factor"},
}
YARN_DEFAULTS = {"low": 1.0, "high": 32.0}
NO_TOKENS = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}


class Model:
    """A network of transformers in evaluation, called as every model is."""

    def __init__(self, family: "Family", configuration: Configuration, network: Any) -> None:
        self.family, self.c, self.network = family, configuration, network
        self.names = names(family.name, configuration)
        self.prefix = f"{self.names.base}." if configuration.output == "logits" else ""

    def __call__(
        self,
        tokens: Tensor,
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        cache: Any = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """Logits, or the last stream."""
        given = self.family.arguments(self, tokens, positions, mask, cache)
        with torch.no_grad(), self.recording(tokens, trace):
            output = self.network(input_ids=tokens, use_cache=cache is not None, **given)
        result: Tensor = output.last_hidden_state if self.c.output == "stream" else output.logits
        if trace is not None and self.c.output == "logits":
            trace["logits"] = result
        return result

    def vjp(
        self, tokens: Tensor, upstream: Tensor, *, positions: Tensor | None = None, mask: Tensor | None = None
    ) -> dict[str, Tensor]:
        """The gradient of ⟨upstream, output⟩ by what the network holds, by our names."""
        theirs = {name: p.requires_grad_() for name, p in self.network.named_parameters()}
        with torch.enable_grad():
            output = self.network(
                input_ids=tokens, use_cache=False, **self.family.arguments(self, tokens, positions, mask, None)
            )
        result = output.last_hidden_state if self.c.output == "stream" else output.logits
        found = torch.autograd.grad(result, list(theirs.values()), upstream, allow_unused=True)
        gradients = {
            n: torch.zeros_like(p) if g is None else g for (n, p), g in zip(theirs.items(), found, strict=True)
        }
        return canonical(self.names, self.c, gradients)

    def recording(self, tokens: Tensor, trace: Trace | None) -> AbstractContextManager[None]:
        """A context in which the trace is filled, if there is one."""
        if trace is None:
            return nullcontext()
        batch, time = tokens.shape
        return Recorder(self.network, self.names, self.prefix, self.c, (batch, time), trace).recording()

    def parameters(self) -> dict[str, Tensor]:
        """What the network holds, by our names."""
        return canonical(self.names, self.c, self.network.state_dict())

    def spread(self, mask: Tensor, window: int) -> Tensor:
        """A mask `[batch, time, keys]` with causal order and window, as the network's attention takes it."""
        time, keys = mask.shape[1:]
        ahead = torch.arange(keys) - torch.arange(keys - time, keys)[:, None]
        allowed = mask & (ahead <= 0) if self.c.causal else mask
        allowed = (allowed & (ahead > -window) if window else allowed)[:, None]
        if self.network.config._attn_implementation != "eager":
            return allowed
        lowest = torch.finfo(self.network.dtype).min  # which is what transformers writes for a key that is hidden
        return torch.zeros(allowed.shape, dtype=self.network.dtype).masked_fill(~allowed, lowest)


class Decoder(Model):
    """A causal network, which can be given a cache."""

    def new_cache(self) -> Any:
        """An empty cache, as the network would make for itself."""
        return transformers.DynamicCache(config=self.network.config)

    def reorder_cache(self, cache: Any, rows: Tensor) -> None:
        """Row i of the cache becomes the old row rows[i]."""
        cache.reorder_cache(rows)

    def crop_cache(self, cache: Any, length: int) -> None:
        """The cache of the first positions alone."""
        dropped = held(cache) - length
        if dropped > 0 and any(passed(layer) for layer in cache.layers):
            raise NotImplementedError("a cache of transformers has forgotten what left the window of a layer")
        if dropped > 0:
            cache.crop(-dropped)


def held(cache: Any) -> int:
    """How many positions a cache has seen."""
    return 0 if cache is None else int(cache.get_seq_length())


def passed(layer: Any) -> bool:
    """Whether a layer's cache has a window that is full."""
    return bool(layer.is_sliding and layer.get_seq_length() >= layer.sliding_window)


def kept(mask: Tensor, cache: Any, layer: int) -> Tensor:
    """The mask's columns of the keys that a layer still holds, and of the new ones."""
    return mask if cache is None else mask[..., -cache.get_mask_sizes(mask.shape[-2], layer)[0] :]


@dataclass(frozen=True, kw_only=True)
class Family:
    """One family of transformers, with the fields of its configuration by our names and by theirs.

    fixed: what their configuration may say otherwise and ours can not. scalable: rotary angles can be stretched. whole:
    the heads divide the width. pools: there may be a pooler. fused: attention has fused code. wide: float64 is computed
    in float64.
    """

    name: str
    fields: Table
    fixed: Mapping[str, bool] = field(default_factory=dict)
    scalable: bool = True
    whole: bool = True
    pools: bool = False
    fused: bool = True
    wide: bool = False

    @property
    def declaration(self) -> Declaration:
        """What the family says of itself."""
        dtypes = ("float64", "float32", "bfloat16", "float16")
        paths = {"model": {"sdpa": "model_sdpa"}} if self.fused else {}
        return Declaration(
            framework="torch", dtypes=dtypes if self.wide else dtypes[1:], families=(self.name,), paths=paths
        )

    def model(self, configuration: Configuration, parameters: Mapping[str, Tensor]) -> Model:
        """The model whose attention is written out step by step."""
        return self.built(configuration, parameters, "eager")

    def model_sdpa(self, configuration: Configuration, parameters: Mapping[str, Tensor]) -> Model:
        """The model whose attention is PyTorch's fused one."""
        return self.built(configuration, parameters, "sdpa")

    def trainer(
        self,
        configuration: Configuration,
        parameters: Mapping[str, Tensor],
        *,
        rate: float,
        limit: float | None = None,
        frozen: Collection[str] = (),
    ) -> Any:
        """The model in training."""
        from gnomon.impl.adapters.transformers_training import Trainer

        return Trainer(self.model(configuration, parameters), rate, limit, frozen)

    def built(self, c: Configuration, parameters: Mapping[str, Tensor], attention: str) -> Model:
        """A model that holds the parameters in their dtype and, like a loaded checkpoint, angles in float32."""
        network = self.network(self.configured(c), c, attention)
        own = names(self.name, c)
        held = state(own, c, parameters, f"{own.base}." if c.output == "logits" else "")
        network.load_state_dict(held, strict=True, assign=True)
        network.tie_weights()
        return (Decoder if c.causal else Model)(self, c, network.eval())

    def network(self, hugging: Any, c: Configuration, attention: str) -> Any:
        """A network of arbitrary weights."""
        options = {"add_pooling_layer": c.pooler} if self.pools else {}
        auto = transformers.AutoModelForCausalLM if c.output == "logits" else transformers.AutoModel
        build: Any = auto.from_config
        with no_init_weights():
            return build(hugging, dtype=torch.float32, attn_implementation=attention, **options)

    def canonical(self, theirs: Mapping[str, Tensor], configuration: Configuration) -> dict[str, Tensor]:
        """Our parameters of a state dict of the family, a checkpoint's for instance."""
        return canonical(names(self.name, configuration), configuration, theirs)

    # Configurations, both ways.

    def configured(self, c: Configuration) -> Any:
        """Their configuration, which says all that ours does."""
        c = settled(c)
        scaling = c.rotary.scaling
        if self.whole and c.width % c.heads:
            raise NotImplementedError(f"the heads of {self.name} in transformers divide the width")
        if scaling and not (self.scalable and scaling.kind in SCALINGS):
            raise NotImplementedError(f"{self.name} in transformers has no rotary scaling {scaling.kind}")
        hugging = transformers.AutoConfig.for_model(self.name.replace("-", "_"), **self.written(c))
        self.require(c, settled(self.configuration_of(hugging)))
        return hugging

    def require(self, wanted: Configuration, found: Configuration) -> None:
        """Nothing, if their configuration, read back, is the one that was wanted."""
        if found.output == "logits":
            found = replace(found, output=wanted.output)
        for name in (f.name for f in fields(Configuration)):
            value = getattr(wanted, name)
            if value != getattr(found, name) and not (self.pools and name == "pooler"):
                raise NotImplementedError(f"{self.name} in transformers has no {name} = {value!r}")

    def written(self, c: Configuration) -> Given:
        """The arguments of their configuration."""
        direct = {theirs: as_theirs(ours, theirs, getattr(c, ours)) for ours, theirs in self.fields.items()}
        return NO_TOKENS | direct | dict(self.fixed) | self.rotated(c) | self.extra(c)

    def configuration_of(self, hugging: Any) -> Configuration:
        """Our configuration of theirs."""
        for name, value in self.fixed.items():
            if bool(getattr(hugging, name)) != value:
                raise NotImplementedError(f"no configuration of ours has {name} = {getattr(hugging, name)!r}")
        own = {ours: as_ours(ours, getattr(hugging, theirs)) for ours, theirs in self.fields.items()}
        usual = {"kv_heads": own["heads"], "head_width": own["width"] // own["heads"], "feed_forward": 4 * own["width"]}
        said = {name: value for name, value in own.items() if value is not None}
        c = Configuration(**usual | dict(FAMILIES[self.name].traits) | said | self.read(hugging))
        return replace(c, rotary=self.rotary_of(hugging, c)) if c.position_kind == "rotary" else c

    def extra(self, c: Configuration) -> Given:
        """The arguments that are no translation of one field."""
        return {}

    def read(self, hugging: Any) -> Given:
        """Our fields that are no translation of one of theirs."""
        return {}

    def rotated(self, c: Configuration) -> Given:
        """The arguments that say how queries and keys are rotated."""
        if c.position_kind != "rotary":
            return {}
        rope = {"rope_type": "default", "rope_theta": float(c.rotary.base)}
        if c.rotary.scaling is not None:
            rope |= scaling_given(c.rotary.scaling)
        return {"rope_parameters": rope}

    def rotary_of(self, hugging: Any, c: Configuration) -> Rotary:
        """The rotation that their configuration says."""
        rope: Any = hugging.rope_parameters
        layout: Any = FAMILIES[self.name].layout
        width = int(c.head_width * rope.get("partial_rotary_factor", 1.0))
        return Rotary(base=rope["rope_theta"], width=width, layout=layout, scaling=scaling_of(rope))

    # Calls.

    def arguments(self, m: Model, tokens: Tensor, positions: Tensor | None, mask: Tensor | None, cache: Any) -> Given:
        """The arguments of a call, by their names."""
        whole = None if mask is None else mask.long() if mask.ndim == 2 else self.masks(m, mask, cache)
        if mask is None and positions is not None:
            # Positions alone, where they do not follow each other, would be taken for several sequences in one row.
            whole = torch.ones(len(tokens), held(cache) + tokens.shape[1], dtype=torch.long)
        given = {"attention_mask": whole, "position_ids": positions}
        return given if cache is None else given | {"cache": cache}

    def masks(self, m: Model, mask: Tensor, cache: Any) -> Any:
        """A mask of every query for the layers, all alike."""
        return kept(m.spread(mask, m.c.window), cache, 0)


class Partial(Family):
    """A family of which a share of a head may be rotated."""

    def rotated(self, c: Configuration) -> Given:
        """The share is given such that the number of features, which is rounded down, comes out."""
        share = {"partial_rotary_factor": min(1.0, (c.rotated + 0.5) / c.head_width)}
        return {name: rope | share for name, rope in super().rotated(c).items()}


class Layered(Family):
    """A family whose layers may or may not have the window, each as it likes."""

    def extra(self, c: Configuration) -> Given:
        """The kind of every layer; without a window its length stays at the default, which nothing reads."""
        kinds = ["sliding_attention" if c.window_of(i) else "full_attention" for i in range(c.layers)]
        return {"layer_types": kinds} | ({"use_sliding_window": True, "sliding_window": c.window} if c.window else {})

    def read(self, hugging: Any) -> Given:
        """The window and its layers."""
        pattern = [kind == "sliding_attention" for kind in hugging.layer_types]
        return {"window": hugging.sliding_window if any(pattern) else 0, "window_every": every(pattern)}

    def masks(self, m: Model, mask: Tensor, cache: Any) -> Any:
        """A mask of every query for each kind of layer."""
        kinds = m.network.config.layer_types
        return {k: kept(m.spread(mask, m.c.window_of(kinds.index(k))), cache, kinds.index(k)) for k in set(kinds)}


class Falcon(Family):
    """The family with two architectures: the new one shares keys among groups of heads."""

    def extra(self, c: Configuration) -> Given:
        """The architecture that has these heads and norms."""
        new = 1 < c.kv_heads < c.heads or (c.parallel and c.norms == 2)
        return {
            "new_decoder_architecture": new,
            "multi_query": c.kv_heads == 1,
            "num_kv_heads": c.kv_heads,
            "num_ln_in_parallel_attn": min(c.norms, 2) if new else None,
        }

    def read(self, hugging: Any) -> Given:
        """The heads and norms of the architecture."""
        new = bool(hugging.new_decoder_architecture)
        shared = hugging.num_kv_heads if new or not hugging.multi_query else 1
        parallel = new or bool(hugging.parallel_attn)
        norms = hugging.num_ln_in_parallel_attn or (2 if new else 1) if parallel else 2
        return {"kv_heads": shared, "parallel": parallel, "norms": norms}


class Gptj(Family):
    """The family whose angles come from a table, at one base."""

    def rotated(self, c: Configuration) -> Given:
        """The rotated share of a head, in features, and the rows of the table."""
        return {"rotary_dim": c.rotated, "max_position_embeddings": 4096}

    def rotary_of(self, hugging: Any, c: Configuration) -> Rotary:
        """The share; the base can not be another."""
        return Rotary(width=hugging.rotary_dim, layout="interleaved")


class Opt(Family):
    """The family whose table of positions starts with rows that no position has, and whose epsilon is PyTorch's own."""

    OFFSET = 2

    def extra(self, c: Configuration) -> Given:
        """The rows that are left for positions."""
        return {"max_position_embeddings": max(1, c.positions - self.OFFSET)}

    def read(self, hugging: Any) -> Given:
        """The rows of the table, all of them."""
        if hugging.word_embed_proj_dim != hugging.hidden_size:
            raise NotImplementedError("no configuration of ours has token vectors of another width than the stream")
        rows = hugging.max_position_embeddings + self.OFFSET
        return {"positions": rows, "position_offset": self.OFFSET, "epsilon": torch.nn.LayerNorm(1).eps}

    def require(self, wanted: Configuration, found: Configuration) -> None:
        """Nothing; any epsilon will do, as the layers are given it afterwards."""
        super().require(wanted, replace(found, epsilon=wanted.epsilon))

    def arguments(self, m: Model, tokens: Tensor, positions: Tensor | None, mask: Tensor | None, cache: Any) -> Given:
        """The arguments of a call, positions always among them, which would be counted from the mask otherwise."""
        along = held(cache) + torch.arange(tokens.shape[1]).expand(tokens.shape)
        return super().arguments(m, tokens, along if positions is None else positions, mask, cache)

    def network(self, hugging: Any, c: Configuration, attention: str) -> Any:
        """A network whose norms have the epsilon."""
        network = super().network(hugging, c, attention)
        for module in network.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = c.epsilon
        return network


class Bloom(Family):
    """The family that takes no positions but counts the tokens that the mask lets through."""

    def arguments(self, m: Model, tokens: Tensor, positions: Tensor | None, mask: Tensor | None, cache: Any) -> Given:
        """The arguments of a call whose positions are as far from each other as those that are counted."""
        if mask is not None and mask.ndim == 3:
            raise NotImplementedError("bloom in transformers takes a mask of keys only")
        start, time = held(cache), tokens.shape[1]
        real = torch.ones(len(tokens), start + time, dtype=torch.bool) if mask is None else mask
        first = 0 if positions is None else start
        wanted = torch.arange(start + time).expand(real.shape) if positions is None else positions
        if not counted(wanted, real, first):
            raise NotImplementedError("bloom in transformers counts positions from the mask and takes no others")
        given = super().arguments(m, tokens, None, mask, cache)
        return {name: value for name, value in given.items() if name != "position_ids"}


def counted(positions: Tensor, real: Tensor, start: int) -> bool:
    """Whether the positions from `start` on are the numbers of the real tokens; a whole row may be elsewhere."""
    numbers = (real.long().cumsum(-1) - 1)[:, start:]
    moved = [(p - n)[r].unique() for p, n, r in zip(positions, numbers, real[:, start:], strict=True)]
    return all(m.numel() <= 1 if start == 0 else not m.any() for m in moved)


def settled(c: Configuration) -> Configuration:
    """The same model, what has no effect put to its default."""
    rotary = replace(c.rotary, width=c.rotated, scaling=plain(c.rotary.scaling)) if c.rotated else Rotary()
    return replace(
        c,
        rotary=rotary,
        window_every=every([bool(c.window_of(i)) for i in range(c.layers)]),
        score_divisor=float(c.score_divisor or c.head_width),
        norm_shift=c.norm_shift or c.norm == "rms",
    )


def plain(scaling: Scaling | None) -> Scaling | None:
    """The same scaling, what its kind does not look at put to its default."""
    if scaling is None or scaling.kind not in SCALINGS:
        return scaling
    return Scaling(kind=scaling.kind, **{ours: getattr(scaling, ours) for ours in SCALINGS[scaling.kind]})


def every(pattern: list[bool]) -> int:
    """The n of which every n-th layer from the first is marked, 1 where none is."""
    steps = range(1, len(pattern) + 1)
    found = [n for n in steps if pattern == [i % n == 0 for i in range(len(pattern))]]
    if any(pattern) and not found:
        raise NotImplementedError(
            "no configuration of ours has a window in other layers than every n-th from the first"
        )
    return min(found, default=1)


def as_theirs(ours: str, theirs: str, value: Any) -> Any:
    """The value of our field as that of theirs."""
    if ours == "activation":
        written = theirs == "activation_function" and value == "gelu_tanh"  # as in the checkpoints of those families
        return "gelu_new" if written else ACTIVATIONS[value]
    if ours == "score_divisor":
        return int(value)
    if ours in ("positions", "segments"):
        return max(1, value)  # there is a table
    return value or None if ours in NONE_FOR_ZERO else value


def as_ours(ours: str, value: Any) -> Any:
    """The value of their field as that of ours."""
    if ours == "activation":
        if value not in READ_ACTIVATIONS:
            raise NotImplementedError(f"no configuration of ours has the activation {value}")
        return READ_ACTIVATIONS[value]
    if ours == "score_divisor":
        return float(value)
    return value or 0 if ours in NONE_FOR_ZERO else value


def scaling_given(scaling: Scaling) -> Given:
    """Their rope parameters for the scaling."""
    given = {theirs: getattr(scaling, ours) for ours, theirs in SCALINGS[scaling.kind].items()}
    return {"rope_type": scaling.kind} | {name: value for name, value in given.items() if value is not None}


def scaling_of(rope: Mapping[str, Any]) -> Scaling | None:
    """The scaling of their rope parameters."""
    kind = rope["rope_type"]
    if kind == "default":
        return None
    terms = SCALINGS.get(kind, {})
    odd = set(rope) - {"rope_type", "type", "rope_theta", "partial_rotary_factor", *terms.values()}
    if not terms or odd:
        raise NotImplementedError(f"no configuration of ours has a rotary scaling {kind} of {sorted(odd)}")
    said = {ours: rope[theirs] for ours, theirs in terms.items() if rope.get(theirs) is not None}
    return Scaling(kind=kind, **(YARN_DEFAULTS if kind == "yarn" else {}) | said)


_COMMON = {
    "vocabulary": "vocab_size",
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "tied": "tie_word_embeddings",
}
_HEADS = {"head_width": "head_dim"}
_BIASED = {"qkv_bias": "attention_bias", "output_bias": "attention_bias"}
_WINDOW = {"window": "sliding_window"}
_GATED = {
    **_COMMON,
    "kv_heads": "num_key_value_heads",
    "feed_forward": "intermediate_size",
    "activation": "hidden_act",
    "epsilon": "rms_norm_eps",
}
_INNER = {**_COMMON, "feed_forward": "n_inner", "activation": "activation_function", "epsilon": "layer_norm_epsilon"}
_CAPS = {"score_cap": "attn_logit_softcapping", "logit_cap": "final_logit_softcapping"}

llama = Family(name="llama", fields={**_GATED, **_HEADS, **_BIASED, "feed_forward_bias": "mlp_bias"})
mistral = Family(name="mistral", fields={**_GATED, **_HEADS, **_WINDOW}, whole=False)
qwen2 = Layered(name="qwen2", fields=_GATED)
qwen3 = Layered(name="qwen3", fields={**_GATED, **_HEADS, **_BIASED}, whole=False)
gemma = Family(name="gemma", fields={**_GATED, **_HEADS, **_BIASED}, whole=False)
gemma2 = Layered(
    name="gemma2",
    fields={
        **_GATED,
        **_HEADS,
        **_BIASED,
        **_CAPS,
        "activation": "hidden_activation",
        "score_divisor": "query_pre_attn_scalar",
    },
    fused=False,
)
phi3 = Partial(name="phi3", fields={**_GATED, **_WINDOW}, scalable=False)
olmo2 = Family(name="olmo2", fields={**_GATED, **_BIASED})
cohere = Family(
    name="cohere",
    fields={**_GATED, **_BIASED, "epsilon": "layer_norm_eps", "logit_scale": "logit_scale"},
    fixed={"use_qk_norm": False},
)
falcon = Falcon(
    name="falcon",
    fields={
        **_COMMON,
        "feed_forward": "ffn_hidden_size",
        "activation": "activation",
        "epsilon": "layer_norm_epsilon",
        "parallel": "parallel_attn",
        "qkv_bias": "bias",
        "output_bias": "bias",
        "feed_forward_bias": "bias",
    },
    fixed={"alibi": False},
)
gpt2 = Family(
    name="gpt2",
    fields={**_INNER, "positions": "max_position_embeddings"},
    fixed={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False},
    wide=True,
)
gpt_neox = Partial(
    name="gpt-neox",
    fields={
        **_COMMON,
        **_BIASED,
        "feed_forward": "intermediate_size",
        "activation": "hidden_act",
        "epsilon": "layer_norm_eps",
        "parallel": "use_parallel_residual",
    },
)
gptj = Gptj(name="gptj", fields=_INNER, scalable=False)
opt = Opt(
    name="opt",
    fields={
        **_COMMON,
        "feed_forward": "ffn_dim",
        "activation": "activation_function",
        "qkv_bias": "enable_bias",
        "output_bias": "enable_bias",
        "feed_forward_bias": "enable_bias",
    },
    fixed={"do_layer_norm_before": True, "_remove_final_layer_norm": False, "layer_norm_elementwise_affine": True},
)
bloom = Bloom(
    name="bloom",
    fields={**_COMMON, "epsilon": "layer_norm_epsilon"},
    fixed={"apply_residual_connection_post_layernorm": False},
    fused=False,
)
bert = Family(
    name="bert",
    fields={
        **_COMMON,
        "feed_forward": "intermediate_size",
        "activation": "hidden_act",
        "epsilon": "layer_norm_eps",
        "positions": "max_position_embeddings",
        "segments": "type_vocab_size",
    },
    fixed={"is_decoder": False, "add_cross_attention": False},
    pools=True,
    wide=True,
)
ALL = (
    llama, mistral, qwen2, qwen3, gemma, gemma2, phi3, olmo2, cohere, falcon, gpt2, gpt_neox, gptj, opt, bloom, bert
)  # fmt: skip


def model(configuration: Configuration, parameters: Mapping[str, Tensor]) -> Model:
    """The model of the first family that has such members."""
    for family in ALL:
        try:
            return family.model(configuration, parameters)
        except NotImplementedError:
            continue
    raise NotImplementedError("no family of transformers has this configuration")


def family_of(hugging: Any) -> Family:
    """The family of one of their configurations."""
    for family in ALL:
        if family.name.replace("-", "_") == hugging.model_type:
            return family
    raise NotImplementedError(f"no family here is transformers' {hugging.model_type}")


declaration = Declaration(
    framework="torch", dtypes=("float32", "bfloat16", "float16"), families=tuple(family.name for family in ALL)
)
