"""Whole models by an ONNX runtime: what a graph is fed beside its parameters, and the caches that it returns."""

from collections.abc import Callable, Mapping

import numpy as np

from gnomon.impl.adapters.model_parts import require_unpadded
from gnomon.impl.adapters.onnx_graphs import Variant
from gnomon.impl.adapters.onnx_models import Array
from gnomon.spec.configuration import Configuration

Run = Callable[[Mapping[str, Array]], dict[str, Array]]
Load = Callable[[Variant], Run]
HEADS = {"query": "heads", "rotated_query": "heads", "key": "kv_heads", "rotated_key": "kv_heads", "value": "kv_heads"}


class Cache:
    """The keys and values of every layer by their names in the graph, `[batch, heads, time, width]`."""

    def __init__(self) -> None:
        self.held: dict[str, Array] = {}

    @property
    def length(self) -> int:
        """The number of positions held."""
        return next((array.shape[2] for array in self.held.values()), 0)

    def change(self, change: Callable[[Array], Array]) -> None:
        """The same cache after a change of each of its arrays."""
        self.held = {name: change(array) for name, array in self.held.items()}


def angles(c: Configuration, positions: Array) -> Array:
    """The angle of every rotated pair at every position, `[batch, time, pairs]`."""
    return np.asarray(positions[..., None] * c.rotary.base ** (-np.arange(0, c.rotated, 2) / c.rotated))


def sinusoids(width: int, positions: Array) -> Array:
    """Sines and cosines in turn, of wavelengths that grow from 2π to 10000·2π."""
    turns = positions[..., None] * 10000.0 ** (-np.arange(0, width, 2) / width)
    return np.stack([np.sin(turns), np.cos(turns)], -1).reshape(*positions.shape, -1)[..., :width]


class Bare:
    """One model whose graphs a runtime loads, each variant once, free to keep its steps to itself."""

    traced = False

    def __init__(self, load: Load, configuration: Configuration, parameters: Mapping[str, Array]) -> None:
        require_unpadded("ONNX", configuration)
        if configuration.rotated and configuration.rotary.scaling:
            raise NotImplementedError("no ONNX operator scales rotary angles")
        if configuration.position_kind == "alibi":
            raise NotImplementedError("no ONNX operator makes the biases of ALiBi")
        self.load, self.c, self.held = load, configuration, dict(parameters)
        self.dtype = next(iter(self.held.values())).dtype

    def __call__(
        self, tokens: Array, *, positions: Array | None = None, mask: Array | None = None, cache: Cache | None = None
    ) -> Array:
        """The logits, or the last stream."""
        return next(iter(self.outputs(tokens, positions, mask, cache).values()))

    def outputs(
        self, tokens: Array, positions: Array | None, mask: Array | None, cache: Cache | None
    ) -> dict[str, Array]:
        """What the graph returns, first the output; its keys and values are kept in the cache."""
        variant = Variant(
            configuration=self.c, dtype=str(self.dtype), masked=mask is not None, cached=cache is not None,
            traced=self.traced,
        )  # fmt: skip
        given = {"tokens": tokens.astype(np.int64)} | self.placed(tokens, positions, cache)
        given |= self.masks(variant, tokens, mask, cache) | self.past(tokens, cache)
        outputs = self.load(variant)(self.held | given)
        if cache is not None:
            cache.held = {name: outputs[f"present_{name}"] for name in self.cached}
        return outputs

    def placed(self, tokens: Array, positions: Array | None, cache: Cache | None) -> dict[str, Array]:
        """What tells the graph the positions."""
        first = cache.length if cache else 0
        where = np.broadcast_to(np.arange(tokens.shape[1]) + first, tokens.shape) if positions is None else positions
        if self.c.position_kind == "learned":
            return {"rows": where.astype(np.int64) + self.c.position_offset}
        if self.c.position_kind == "sinusoidal":
            return {"sinusoids": sinusoids(self.c.width, where).astype(self.dtype)}
        if not self.c.rotated:
            return {}
        turns = angles(self.c, where)
        return {"cosines": np.cos(turns).astype(self.dtype), "sines": np.sin(turns).astype(self.dtype)}

    def masks(self, variant: Variant, tokens: Array, mask: Array | None, cache: Cache | None) -> dict[str, Array]:
        """The masks of the variant, `[batch, 1, queries, keys]`."""
        batch, queries = tokens.shape
        keys = queries + (cache.length if cache else 0)
        windows = {variant.mask(layer): self.c.window_of(layer) for layer in range(self.c.layers)}
        seen = {name: self.seen(queries, keys, window) for name, window in windows.items() if name}
        given = True if mask is None else mask[:, None] if mask.ndim == 2 else mask
        return {name: np.broadcast_to(part & given, (batch, queries, keys))[:, None] for name, part in seen.items()}

    def seen(self, queries: int, keys: int, window: int) -> Array:
        """Where position alone lets a query attend, the last query standing at the last key."""
        behind = np.arange(queries)[:, None] + (keys - queries) - np.arange(keys)
        past = behind >= 0 if self.c.causal else np.ones((queries, keys), bool)
        return past & (np.abs(behind) < window) if window else past

    @property
    def cached(self) -> list[str]:
        """The names of the arrays of a cache."""
        return [f"{name}_{layer}" for layer in range(self.c.layers) for name in ("key", "value")]

    def past(self, tokens: Array, cache: Cache | None) -> dict[str, Array]:
        """What the cache holds, nothing at first."""
        if cache is None:
            return {}
        nothing = np.zeros((tokens.shape[0], self.c.kv_heads, 0, self.c.head_width), self.dtype)
        return {f"past_{name}": cache.held.get(name, nothing) for name in self.cached}

    def split(self, name: str, step: Array) -> Array:
        """A step as a trace has it: queries, keys and values by heads."""
        heads = HEADS.get(name.rpartition(".")[2])
        if heads is None:
            return step
        return step.reshape(*step.shape[:2], getattr(self.c, heads), -1).swapaxes(1, 2)

    def new_cache(self) -> Cache:
        """A cache that holds nothing."""
        return Cache()

    def reorder_cache(self, cache: Cache, rows: Array) -> None:
        """The cache of other rows of the batch."""
        cache.change(lambda array: array[rows])

    def crop_cache(self, cache: Cache, length: int) -> None:
        """The cache of the first positions only."""
        cache.change(lambda array: array[:, :, :length])

    def parameters(self) -> dict[str, Array]:
        """Everything that the graph is fed beside its arguments."""
        return dict(self.held)


class Model(Bare):
    """The same with every step an output, so that no step is fused with the next."""

    traced = True

    def __call__(
        self,
        tokens: Array,
        *,
        positions: Array | None = None,
        mask: Array | None = None,
        cache: Cache | None = None,
        trace: dict[str, Array] | None = None,
    ) -> Array:
        """The logits, or the last stream."""
        outputs = self.outputs(tokens, positions, mask, cache)
        if trace is not None:
            trace |= {name: self.split(name, step) for name, step in outputs.items() if not name.startswith("present_")}
        return next(iter(outputs.values()))
