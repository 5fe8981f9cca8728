"""What a network of transformers computes on the way, seen by hooks that are there for one call only."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from torch import Tensor, nn

from gnomon.impl.adapters.transformers_weights import Holder, Names, layer_holders
from gnomon.spec.configuration import Configuration
from gnomon.spec.shapes import block_shapes

Trace = dict[str, Any]
ROTATION = "apply_rotary_pos_emb"


def places(c: Configuration) -> list[tuple[str, str, str]]:
    """The intermediates of a block, each with the module, by our name, that reads it or writes it."""
    before = c.placement in ("pre", "sandwich")
    normed = {n: f"{n}_norm" if c.query_key_norm else n for n in ("query", "key")}
    found = [
        (normed["query"], "writes", "query"),
        (normed["key"], "writes", "key"),
        ("value", "writes", "value"),
        ("output", "reads", "mixed"),
        ("output", "writes", "attention_output"),
        ("down", "writes", "feed_forward_output"),
    ]
    if before:
        found += [("query", "reads", "attention_input"), ("up", "reads", "feed_forward_input")]
    if not c.parallel:
        found += [("feed_forward_norm" if before else "up", "reads", "attended")]
    return found


@dataclass(frozen=True, slots=True)
class Recorder:
    """A network, the names of its modules, and the trace that is being filled for tokens `[batch, time]`."""

    network: nn.Module
    names: Names
    prefix: str
    c: Configuration
    shape: tuple[int, int]
    trace: Trace

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Whatever the network computes inside is noted."""
        with ExitStack() as stack:
            for layer in range(self.c.layers):
                for handle in self.layer_hooks(layer):
                    stack.callback(handle.remove)
            for handle in self.outer_hooks():
                stack.callback(handle.remove)
            stack.enter_context(self.rotations())
            yield

    def note(self, name: str, value: Any) -> None:
        """The value `[batch, time, features]` under that name, its heads apart where it has them."""
        tensor = value[0] if isinstance(value, tuple) else value
        flat = tensor.detach().clone().reshape(*self.shape, -1)
        own = name.rpartition(".")[2]
        split = own in ("query", "key", "value")
        self.trace[name] = flat.unflatten(-1, (-1, self.c.head_width)).transpose(1, 2) if split else flat

    def layer_hooks(self, layer: int) -> Iterator[Any]:
        """Hooks on the modules of one layer."""
        own = f"layers.{layer}."
        found = {n.removeprefix(own): h for h in layer_holders(self.names, self.c, layer, self.prefix) for n in h.names}
        for module, side, name in places(self.c):
            yield self.hook(found[module], f"{own}{module}", side, f"{own}{name}")
        block = self.network.get_submodule(f"{self.prefix}{self.names.layers}.{layer}")
        yield block.register_forward_hook(self.writes(f"{own}stream"))
        if layer == 0:
            yield block.register_forward_pre_hook(self.reads("embedding"))

    def outer_hooks(self) -> Iterator[Any]:
        """A hook on the last norm."""
        paths = {ours: path for path, ours in self.names.outer.items()}
        if self.c.final_norm:
            last = self.network.get_submodule(self.prefix + paths["final_norm"])
            yield last.register_forward_hook(self.writes("final"))

    def hook(self, holder: Holder, module: str, side: str, name: str) -> Any:
        """A hook on what the holder reads, or on its share of what it writes."""
        found = self.network.get_submodule(holder.path)
        if side == "reads":
            return found.register_forward_pre_hook(self.reads(name))
        if len(holder.names) == 1:
            return found.register_forward_hook(self.writes(name))
        shapes, index = block_shapes(self.c), holder.names.index(module)
        rows = [shapes[f"{n.rpartition('.')[2]}_weight"][0] for n in holder.names]
        return found.register_forward_hook(
            lambda _, inputs, output: self.note(name, holder.shares(output, rows)[index])
        )

    def reads(self, name: str) -> Callable[..., None]:
        """A hook that notes the input."""
        return lambda module, inputs: self.note(name, inputs[0])

    def writes(self, name: str) -> Callable[..., None]:
        """A hook that notes the output."""
        return lambda module, inputs, output: self.note(name, output)

    @contextmanager
    def rotations(self) -> Iterator[None]:
        """Rotated queries and keys are noted too, where one function of the family's module rotates both at once."""
        module = sys.modules[type(self.network).__module__]
        rotate, layer = getattr(module, ROTATION, None), count()
        if rotate is None:
            yield
            return

        def recorded(*arguments: Any, **options: Any) -> Any:
            turned = rotate(*arguments, **options)
            if isinstance(turned, tuple):
                self.note_rotated(next(layer), *turned)
            return turned

        setattr(module, ROTATION, recorded)
        try:
            yield
        finally:
            setattr(module, ROTATION, rotate)

    def note_rotated(self, layer: int, query: Tensor, key: Tensor) -> None:
        """Query and key `[batch, heads, time, head_width]`; a key that was copied for every query head counts once."""
        self.trace[f"layers.{layer}.rotated_query"] = query.detach().clone()
        self.trace[f"layers.{layer}.rotated_key"] = key.detach().clone()[:, :: key.shape[1] // self.c.kv_heads]
