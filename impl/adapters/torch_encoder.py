"""PyTorch's `nn.TransformerEncoder` holding given weights, on each of its internal paths; embeddings are made here."""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from gnomon.impl.adapters.model_parts import absent, of_layer, require, require_square
from gnomon.impl.declaration import Declaration
from gnomon.spec.configuration import Configuration
from gnomon.spec.precision import EVERYWHERE

LIBRARY = "nn.TransformerEncoder"
ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
}
OUTSIDE = ("embedding_scaled", "segments", "embedding_norm", "final_norm", "tied", "unembedding_bias", "output")
LAYER = {
    "self_attn.out_proj.weight": "output_weight",
    "self_attn.out_proj.bias": "output_bias",
    "linear1.weight": "up_weight",
    "linear1.bias": "up_bias",
    "linear2.weight": "down_weight",
    "linear2.bias": "down_bias",
    "norm1.weight": "attention_norm_weight",
    "norm1.bias": "attention_norm_bias",
    "norm2.weight": "feed_forward_norm_weight",
    "norm2.bias": "feed_forward_norm_bias",
}


def require_encoder(c: Configuration) -> None:
    """Nothing, if the library can build it."""
    placements, positions = ("pre", "post"), ("sinusoidal", "learned", "none")
    free = (*OUTSIDE, "causal", "activation", "logit_scale", "logit_cap")
    require(LIBRARY, c, "encoder-2017", *free, placement=placements, position_kind=positions)
    require_square(LIBRARY, c)
    if c.kv_heads != c.heads:
        raise NotImplementedError(f"{LIBRARY} shares no key heads")


def norm(c: Configuration, parameters: Mapping[str, Tensor], name: str) -> nn.LayerNorm:
    """A norm that holds the parameters of that name."""
    weight = parameters[f"{name}_weight"]
    module = nn.LayerNorm(c.width, eps=c.epsilon, dtype=weight.dtype)
    module.load_state_dict({"weight": weight, "bias": parameters[f"{name}_bias"]})
    return module


def encoder(c: Configuration, parameters: Mapping[str, Tensor], nested: bool) -> nn.TransformerEncoder:
    """The library's stack of blocks with the final norm, all holding their parameters."""
    layer = nn.TransformerEncoderLayer(
        c.width, c.heads, c.feed_forward, dropout=0.0, activation=ACTIVATIONS[c.activation], batch_first=True,
        layer_norm_eps=c.epsilon, norm_first=c.placement == "pre", dtype=parameters["token_embedding"].dtype,
    )  # fmt: skip
    final = norm(c, parameters, "final_norm") if c.final_norm else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it says why it will not use nested tensors
        stack = nn.TransformerEncoder(layer, c.layers, final, enable_nested_tensor=nested)
    for i, module in enumerate(stack.layers):
        module.load_state_dict(layer_state(of_layer(parameters, i)))
    return stack


def layer_state(own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters of a block by the library's names."""
    packed = {f"self_attn.in_proj_{part}": stacked(own, part) for part in ("weight", "bias")}
    return packed | {theirs: own[ours] for theirs, ours in LAYER.items()}


def stacked(own: Mapping[str, Tensor], part: str) -> Tensor:
    """Query, key and value projections on top of each other."""
    return torch.cat([own[f"{name}_{part}"] for name in ("query", "key", "value")])


def held_by(layer: nn.Module) -> dict[str, Tensor]:
    """The parameters of a block by our names."""
    state = layer.state_dict()
    names = ("query", "key", "value")
    packed = {
        f"{name}_{part}": rows
        for part in ("weight", "bias")
        for name, rows in zip(names, state[f"self_attn.in_proj_{part}"].chunk(3), strict=True)
    }
    return packed | {ours: state[theirs] for theirs, ours in LAYER.items()}


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Sines and cosines in turn, of wavelengths that grow from 2π to 10000·2π."""
    turns = positions.double()[..., None] * 10000.0 ** (-torch.arange(0, width, 2).double() / width)
    return torch.stack([turns.sin(), turns.cos()], -1).flatten(-2)[..., :width]


class Encoder:
    """Embeddings, the library's stack, and the unembedding where the configuration has one."""

    def __init__(self, c: Configuration, parameters: Mapping[str, Tensor], training: bool, nested: bool) -> None:
        require_encoder(c)
        self.c, self.stack = c, encoder(c, parameters, nested).train(training)
        self.outer = {name: value for name, value in parameters.items() if not name.startswith(("layers.", "final_"))}
        self.embedding_norm = norm(c, parameters, "embedding_norm") if c.embedding_norm else nn.Identity()

    @torch.no_grad()
    def __call__(
        self,
        tokens: Tensor,
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        cache: None = None,
        trace: dict[str, Tensor] | None = None,
    ) -> Tensor:
        """The last stream, or the logits."""
        absent(LIBRARY, cache=cache)
        x, masks = self.embedded(tokens, positions), self.masks(tokens.shape[1], mask)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # nested tensors are a prototype, it says
            final: Tensor = self.stack(x, **masks)
            if trace is not None:
                self.streams(x, masks, trace)
                trace["final"] = final
        return final if self.c.output == "stream" else self.unembedded(final, {} if trace is None else trace)

    def embedded(self, tokens: Tensor, positions: Tensor | None) -> Tensor:
        """The stream that enters the first block."""
        c, outer = self.c, self.outer
        x = functional.embedding(tokens, outer["token_embedding"])
        x = x * c.width**0.5 if c.embedding_scaled else x
        where = torch.arange(tokens.shape[1]).expand(tokens.shape) if positions is None else positions
        if c.position_kind == "sinusoidal":
            x = x + sinusoids(where, c.width).to(x.dtype)
        if c.position_kind == "learned":
            x = x + functional.embedding(where + c.position_offset, outer["position_embedding"])
        embedded: Tensor = self.embedding_norm(x + outer["segment_embedding"][0] if c.segments else x)
        return embedded

    def masks(self, time: int, mask: Tensor | None) -> dict[str, Tensor]:
        """The stack's arguments, true where it may not look: a padding mask, one per query, or both."""
        future = {"mask": torch.ones(time, time, dtype=torch.bool).triu(1)} if self.c.causal else {}
        if mask is None:
            return future
        if mask.ndim == 2:
            return future | {"src_key_padding_mask": ~mask}
        blocked = ~mask | future["mask"] if future else ~mask
        return {"mask": blocked.repeat_interleave(self.c.heads, 0)}

    def streams(self, x: Tensor, masks: Mapping[str, Tensor], trace: dict[str, Tensor]) -> None:
        """The stream after each block in the trace; in training, where no fast path is left by it, what hooks see."""
        trace["embedding"] = x
        given = {"src_mask" if name == "mask" else name: value for name, value in masks.items()}
        for i, layer in enumerate(self.stack.layers):
            handles = watched(layer, f"layers.{i}.", self.c.placement, trace) if layer.training else []
            trace[f"layers.{i}.stream"] = x = layer(x, **given)
            for handle in handles:
                handle.remove()

    def unembedded(self, final: Tensor, trace: dict[str, Tensor]) -> Tensor:
        """The product with the unembedding, scaled and capped as declared."""
        c, outer = self.c, self.outer
        table = outer["token_embedding" if c.tied else "unembedding_weight"]
        logits = functional.linear(final, table, outer.get("unembedding_bias"))
        logits = logits * c.logit_scale if c.logit_scale != 1 else logits
        trace["logits"] = c.logit_cap * torch.tanh(logits / c.logit_cap) if c.logit_cap else logits
        return trace["logits"]

    def parameters(self) -> dict[str, Tensor]:
        """Everything that the stack and what surrounds it hold."""
        norms = {} if self.stack.norm is None else {"final_norm": self.stack.norm}
        return (
            self.outer
            | {f"layers.{i}.{n}": v for i, layer in enumerate(self.stack.layers) for n, v in held_by(layer).items()}
            | {f"{name}_{n}": v for name, module in norms.items() for n, v in module.state_dict().items()}
        )


def watched(layer: Any, prefix: str, placement: str, trace: dict[str, Tensor]) -> list[Any]:
    """Hooks that note in the trace what passes through the parts of a block."""

    def note(name: str) -> Callable[..., None]:
        return lambda module, given, output: trace.update({prefix + name: output})

    handles = [
        layer.linear2.register_forward_hook(note("feed_forward_output")),
        layer.norm1.register_forward_hook(note("attention_input" if placement == "pre" else "attended")),
        layer.self_attn.register_forward_hook(lambda m, given, output: note("attention_output")(m, given, output[0])),
    ]
    if placement == "pre":
        handles.append(layer.norm2.register_forward_hook(note("feed_forward_input")))
        handles.append(layer.norm2.register_forward_pre_hook(lambda m, given: note("attended")(m, given, given[0])))
    return handles


def model(configuration: Configuration, parameters: Mapping[str, Tensor]) -> Encoder:
    """The encoder in inference, where blocks may take their fast path and left-aligned padding is cut out."""
    return Encoder(configuration, parameters, training=False, nested=True)


def padded(configuration: Configuration, parameters: Mapping[str, Tensor]) -> Encoder:
    """The same encoder, which computes padding too."""
    return Encoder(configuration, parameters, training=False, nested=False)


def slow_path(configuration: Configuration, parameters: Mapping[str, Tensor]) -> Encoder:
    """The same encoder in training, without dropout."""
    return Encoder(configuration, parameters, training=True, nested=False)


declaration = Declaration(
    framework="torch",
    dtypes=("float64", "float32", "bfloat16", "float16"),
    sites=EVERYWHERE,
    data_dependent=True,  # rows are nested: padding is cut out, and products have the shape of what is left
    families=("encoder-2017", "bert", "gpt2", "opt"),
    paths={"model": {"padding computed": padded, "slow path": slow_path}},
)
