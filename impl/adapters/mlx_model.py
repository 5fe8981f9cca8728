"""The models of mlx-lm on MLX for the CPU, holding given weights; arrays are NumPy's outside."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.models.cache import BatchKVCache, KVCache
from numpy.typing import NDArray

from gnomon.impl.adapters.model_parts import require, require_square
from gnomon.impl.declaration import Declaration
from gnomon.spec.configuration import Configuration
from gnomon.spec.precision import EVERYWHERE
from gnomon.spec.shapes import parameter_shapes

Array = NDArray[Any]

mx.set_default_device(mx.cpu)

LIBRARY = "mlx-lm"
OUTER = {"token_embedding": "model.embed_tokens", "final_norm": "model.norm", "unembedding": "lm_head"}
INNER = {
    "query": "self_attn.q_proj",
    "key": "self_attn.k_proj",
    "value": "self_attn.v_proj",
    "output": "self_attn.o_proj",
    "query_norm": "self_attn.q_norm",
    "key_norm": "self_attn.k_norm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
NORMS: Mapping[str, Mapping[str, str]] = {
    "pre": {"attention_norm": "input_layernorm", "feed_forward_norm": "post_attention_layernorm"},
    "after": {"attention_norm": "post_attention_layernorm", "feed_forward_norm": "post_feedforward_layernorm"},
    "sandwich": {
        "attention_norm": "input_layernorm",
        "attention_post_norm": "post_attention_layernorm",
        "feed_forward_norm": "pre_feedforward_layernorm",
        "feed_forward_post_norm": "post_feedforward_layernorm",
    },
}


def module_name(c: Configuration) -> str:
    """The library's module that has such a model, found by what the others have not."""
    if c.norm == "layer":
        return "cohere"
    if c.norm_offset:
        return "gemma2" if c.placement == "sandwich" else "gemma"
    if c.placement == "after":
        return "olmo2"
    return "qwen2" if c.qkv_bias else "qwen3" if c.query_key_norm else "llama"


def built(c: Configuration) -> Any:
    """The library's model of that configuration."""
    name = module_name(c)
    # Of gemma2 it loads checkpoints with windows, and has none: that is for the suite to see.
    free = {"gemma": (), "gemma2": ("window",), "cohere": ("logit_scale",)}.get(name, ("tied",))
    require(LIBRARY, c, name, *free)
    if name in ("qwen2", "cohere"):
        require_square(LIBRARY, c)
    module = importlib.import_module(f"mlx_lm.models.{name}")
    return module.Model(module.ModelArgs.from_dict(arguments(c)))


def arguments(c: Configuration) -> dict[str, Any]:
    """The same configuration in the library's words, of which each module takes its own."""
    return {
        "model_type": "", "hidden_size": c.width, "num_hidden_layers": c.layers, "intermediate_size": c.feed_forward,
        "num_attention_heads": c.heads, "num_key_value_heads": c.kv_heads, "head_dim": c.head_width,
        "vocab_size": c.vocabulary, "rms_norm_eps": c.epsilon, "layer_norm_eps": c.epsilon,
        "max_position_embeddings": 1024, "rope_theta": c.rotary.base, "tie_word_embeddings": c.tied,
        "logit_scale": c.logit_scale, "attn_logit_softcapping": c.score_cap, "final_logit_softcapping": c.logit_cap,
        "query_pre_attn_scalar": c.score_divisor,
    }  # fmt: skip


def theirs(c: Configuration, name: str) -> str:
    """The library's name of a parameter of ours."""
    if name == "token_embedding":
        return f"{OUTER[name]}.weight"
    stem, _, kind = name.rpartition("_")
    if not name.startswith("layers."):
        return f"{OUTER[stem]}.{kind}"
    _, layer, part = stem.split(".")
    return f"model.layers.{layer}.{(INNER | dict(NORMS[c.placement]))[part]}.{kind}"


def given(array: Array) -> Any:
    """The same numbers in MLX; bfloat16, which it does not know in NumPy, by way of float32."""
    if array.dtype == ml_dtypes.bfloat16:
        return mx.array(array.astype(np.float32)).astype(mx.bfloat16)
    return mx.array(array)


def taken(array: Any) -> Array:
    """The way back."""
    if array.dtype == mx.bfloat16:
        return np.array(array.astype(mx.float32)).astype(ml_dtypes.bfloat16)
    return np.array(array)


def padding(mask: Array, cached: bool) -> list[int]:
    """How many positions each row begins with that are padding, if there is no other before a token that is kept."""
    if mask.ndim != 2:
        raise NotImplementedError(f"{LIBRARY} takes no mask of pairs")
    left, place = np.argmax(mask, axis=1), np.arange(mask.shape[1])
    # Padding at the end of a row is seen by nothing before it; what comes after it in a cache would see it.
    end = len(place) if cached else len(place) - np.argmax(mask[:, ::-1], axis=1)[:, None]
    if (mask != (place >= left[:, None]) & (place < end)).any():
        raise NotImplementedError(f"{LIBRARY} masks nothing but padding on the left")
    return [int(n) for n in left]


def require_counted(positions: Array, left: list[int], start: int) -> None:
    """Nothing, if the positions are those that the library counts, from the first real token of each row."""
    counted = np.arange(start, start + positions.shape[1]) - np.array(left)[:, None]
    if ((positions != counted) & (counted >= 0)).any():
        raise NotImplementedError(f"{LIBRARY} counts positions and takes no others")


@dataclass
class Cache:
    """The library's caches of the layers, chosen once it is known whether there is padding."""

    layers: list[Any] = field(default_factory=list)

    def start(self, count: int, left: list[int] | None) -> None:
        """Empty caches, or the same ones if they are filled and serve that padding."""
        held = self.layers[0].left_padding.tolist() if self.layers and self.padded else None
        if not self.layers:
            self.layers = [BatchKVCache(left) if left else KVCache() for _ in range(count)]
        elif held != left:
            raise NotImplementedError(f"{LIBRARY} takes no other padding once a cache is filled")

    @property
    def length(self) -> int:
        """How many positions are held, padding among them."""
        return int(self.layers[0].size()) if self.layers else 0

    @property
    def padded(self) -> bool:
        """Whether each row has a beginning of its own."""
        return isinstance(self.layers[0], BatchKVCache)

    def reorder(self, rows: Any) -> None:
        """The caches of other rows."""
        for layer in self.layers:
            layer.keys, layer.values = layer.keys[rows], layer.values[rows]
            if self.padded:
                layer.offset, layer.left_padding = layer.offset[rows], layer.left_padding[rows]


class Model:
    """A model of mlx-lm."""

    def __init__(self, c: Configuration, parameters: Mapping[str, Array]) -> None:
        self.c, self.module = c, built(c)
        self.module.load_weights([(theirs(c, name), given(value)) for name, value in parameters.items()])

    def __call__(
        self, tokens: Array, *, positions: Array | None = None, mask: Array | None = None, cache: Cache | None = None
    ) -> Array:
        """The logits; the library counts positions by itself, from the first real token of a row."""
        left = None if mask is None or mask.all() else padding(mask, cache is not None)
        if positions is not None:
            require_counted(positions, left or [0] * len(tokens), 0 if cache is None else cache.length)
        caches = Cache() if cache is None and left is not None else cache
        if caches is None:
            return taken(self.module(mx.array(tokens)))
        caches.start(self.c.layers, left)
        return taken(self.module(mx.array(tokens), cache=caches.layers))

    def new_cache(self) -> Cache:
        """A cache that holds nothing."""
        return Cache()

    def reorder_cache(self, cache: Cache, rows: Array) -> None:
        """The cache of other rows of the batch."""
        cache.reorder(mx.array(rows))

    def crop_cache(self, cache: Cache, length: int) -> None:
        """The cache of the first positions only."""
        for layer in cache.layers:
            layer.trim(layer.size() - length)

    def parameters(self) -> dict[str, Array]:
        """Everything that the library's model holds, by our names."""
        held = dict(tree_flatten(self.module.parameters()))
        return {name: taken(held[theirs(self.c, name)]) for name in parameter_shapes(self.c)}


def model(configuration: Configuration, parameters: Mapping[str, Array]) -> Model:
    """The library's model holding these parameters."""
    return Model(configuration, parameters)


declaration = Declaration(
    # Not float64: its fast kernels for norms and rotations compute in float32 whatever they are given.
    dtypes=("float32", "bfloat16", "float16"),
    sites=EVERYWHERE,
    families=("llama", "qwen2", "qwen3", "gemma", "gemma2", "phi3", "olmo2", "cohere"),
)
