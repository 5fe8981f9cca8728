"""torchtune's decoders of three families holding given weights, with its caches."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torchtune.models.gemma._component_builders import gemma
from torchtune.models.llama3._component_builders import llama3
from torchtune.models.qwen2._component_builders import qwen2
from torchtune.modules import KVCache

from gnomon.impl.adapters.model_parts import halved, interleaved, require, require_square
from gnomon.impl.declaration import Declaration
from gnomon.spec.configuration import Configuration
from gnomon.spec.precision import EVERYWHERE
from gnomon.spec.shapes import parameter_shapes

LIBRARY = "torchtune"
POSITIONS = 4096  # of which there are angles in the tables
ROOM = 256  # of a cache
OUTER = {
    "token_embedding": "tok_embeddings.weight",
    "final_norm_weight": "norm.scale",
    "unembedding_weight": "output.weight",
}
INNER = {
    "query_weight": "attn.q_proj.weight",
    "query_bias": "attn.q_proj.bias",
    "key_weight": "attn.k_proj.weight",
    "key_bias": "attn.k_proj.bias",
    "value_weight": "attn.v_proj.weight",
    "value_bias": "attn.v_proj.bias",
    "output_weight": "attn.output_proj.weight",
    "attention_norm_weight": "sa_norm.scale",
    "feed_forward_norm_weight": "mlp_norm.scale",
    "gate_weight": "mlp.w1.weight",
    "down_weight": "mlp.w2.weight",
    "up_weight": "mlp.w3.weight",
}


@contextmanager
def by_default(dtype: torch.dtype) -> Iterator[None]:
    """Modules are made in that dtype, while their tables of angles stay in float32."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def built(c: Configuration) -> Any:
    """The library's model of that configuration."""
    sizes: dict[str, Any] = {
        "vocab_size": c.vocabulary, "num_layers": c.layers, "num_heads": c.heads, "num_kv_heads": c.kv_heads,
        "embed_dim": c.width, "intermediate_dim": c.feed_forward, "max_seq_len": POSITIONS, "norm_eps": c.epsilon,
        "rope_base": c.rotary.base,
    }  # fmt: skip
    if c.norm_offset:
        require(LIBRARY, c, "gemma")
        if c.width % c.heads:
            raise NotImplementedError(f"{LIBRARY} has no width that the number of heads does not divide")
        return gemma(head_dim=c.head_width, **sizes)
    require_square(LIBRARY, c)
    if c.qkv_bias:
        require(LIBRARY, c, "qwen2", "tied")
        return qwen2(tie_word_embeddings=c.tied, **sizes)
    require(LIBRARY, c, "llama")
    return llama3(**sizes)


def require_room(tokens: Tensor, positions: Tensor | None, first: int) -> None:
    """Nothing, if tables and caches, which the caller of the library has to size, are large enough."""
    if (first and first + tokens.shape[1] > ROOM) or (positions is not None and int(positions.max()) >= POSITIONS):
        raise NotImplementedError(f"{LIBRARY} was given room for {ROOM} cached tokens and {POSITIONS} positions")


def arranged(c: Configuration, name: str, value: Tensor, arrange: Callable[[Tensor, int], Tensor]) -> Tensor:
    """The parameter, its rows rearranged where the model turns neighbours: in all but the one with biases."""
    if c.qkv_bias or not name.endswith(("query_weight", "key_weight")):
        return value
    return arrange(value, c.heads if name.endswith("query_weight") else c.kv_heads)


def theirs(name: str) -> str:
    """The library's name of a parameter of ours."""
    if name in OUTER:
        return OUTER[name]
    _, layer, part = name.split(".")
    return f"layers.{layer}.{INNER[part]}"


class Cache:
    """The library's caches of the layers, made when the size of the batch is known."""

    def __init__(self) -> None:
        self.layers: list[KVCache] = []

    @property
    def length(self) -> int:
        """The number of positions held."""
        return self.layers[0].size if self.layers else 0

    def grow(self, c: Configuration, batch: int, dtype: torch.dtype) -> None:
        """The same caches, empty ones if there were none."""
        if not self.layers:
            self.layers = [KVCache(batch, ROOM, c.kv_heads, c.head_width, dtype) for _ in range(c.layers)]


class Model:
    """A `TransformerDecoder`."""

    def __init__(self, c: Configuration, parameters: Mapping[str, Tensor]) -> None:
        self.c, self.dtype = c, parameters["token_embedding"].dtype
        with by_default(self.dtype):
            self.module = built(c)
        self.module.load_state_dict({theirs(n): arranged(c, n, p, interleaved) for n, p in parameters.items()})
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
        """The logits, which the library gives in float32 whatever it computed in."""
        first = 0 if cache is None else cache.length
        require_room(tokens, positions, first)
        given = {} if mask is None and cache is None else {"mask": self.seen(tokens, mask, first, cache is not None)}
        if cache is not None and positions is None:
            positions = torch.arange(first, first + tokens.shape[1]).expand(tokens.shape)
        if cache is not None:
            cache.grow(self.c, len(tokens), self.dtype)
        with self.caching(cache), watched(self.module, trace), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # its norms mix float32 with 16 bits, which is slow
            logits: Tensor = self.module(tokens, input_pos=positions, **given).to(self.dtype)
        if trace is not None:
            trace["logits"] = logits
        return logits

    @contextmanager
    def caching(self, cache: Cache | None) -> Iterator[None]:
        """The model with these caches in its layers."""
        held = [None] * self.c.layers if cache is None else cache.layers
        for layer, own in zip(self.module.layers, held, strict=True):
            layer.attn.kv_cache, layer.attn.cache_enabled = own, own is not None
        try:
            yield
        finally:
            for layer in self.module.layers:
                layer.attn.kv_cache, layer.attn.cache_enabled = None, False

    def seen(self, tokens: Tensor, mask: Tensor | None, first: int, cached: bool) -> Tensor:
        """Where each query may look, as the library combines no causality with a mask; all of a cache counts."""
        batch, time = tokens.shape
        keys = ROOM if cached else time
        past = torch.arange(keys) <= torch.arange(first, first + time)[:, None]
        given = torch.ones(1, 1, 1, dtype=torch.bool) if mask is None else mask[:, None] if mask.ndim == 2 else mask
        room = torch.nn.functional.pad(given.expand(batch, time, first + time), (0, keys - first - time))
        return room & past

    def new_cache(self) -> Cache:
        """A cache that holds nothing."""
        return Cache()

    def reorder_cache(self, cache: Cache, rows: Tensor) -> None:
        """The cache of other rows of the batch."""
        for own in cache.layers:
            own.k_cache, own.v_cache = own.k_cache[rows], own.v_cache[rows]

    def crop_cache(self, cache: Cache, length: int) -> None:
        """The cache of the first positions only."""
        for own in cache.layers:
            own.cache_pos -= own.size - length

    def parameters(self) -> dict[str, Tensor]:
        """Everything that the library's model holds, by our names and in our order."""
        held = self.module.state_dict()
        return {n: arranged(self.c, n, held[theirs(n)], halved) for n in parameter_shapes(self.c)}


@contextmanager
def watched(module: Any, trace: dict[str, Tensor] | None) -> Iterator[None]:
    """The model while what passes through its parts is noted in the trace."""
    if trace is None:
        yield
        return
    given, results = points(module)
    handles = [part.register_forward_pre_hook(noting(trace, name)) for name, part in given.items()]
    handles += [part.register_forward_hook(noting(trace, name)) for name, part in results.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def noting(trace: dict[str, Tensor], name: str) -> Callable[..., None]:
    """A hook that notes the first argument of a module, or its result where there is one."""

    def note(module: Any, given: tuple[Tensor, ...], *result: Tensor) -> None:
        trace[name] = result[0] if result else given[0]

    return note


def points(module: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The modules whose first argument a trace has a name for, and those whose result."""
    given: dict[str, Any] = {}
    results: dict[str, Any] = {"embedding": module.tok_embeddings, "final": module.norm}
    for i, layer in enumerate(module.layers):
        own = {"mixed": layer.attn.output_proj, "attended": layer.mlp_norm}
        given |= {f"layers.{i}.{name}": part for name, part in own.items()}
        own = {"attention_input": layer.sa_norm, "attention_output": layer.attn, "stream": layer}
        own |= {"feed_forward_input": layer.mlp_norm, "feed_forward_output": layer.mlp}
        results |= {f"layers.{i}.{name}": part for name, part in own.items()}
    return given, results


def model(configuration: Configuration, parameters: Mapping[str, Tensor]) -> Model:
    """The library's model holding these parameters."""
    return Model(configuration, parameters)


declaration = Declaration(
    framework="torch",
    # Not float64: norms and rotations are computed in float32 whatever the model's dtype.
    dtypes=("float32", "bfloat16", "float16"),
    sites=EVERYWHERE,
    families=("llama", "qwen2", "gemma", "phi3"),
)
