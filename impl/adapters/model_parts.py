"""What adapters of whole models share: which configurations a library cannot build, and how weights are rearranged."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from gnomon.spec.configuration import Configuration, Rotary
from gnomon.spec.families import member

SIZES = {"vocabulary", "width", "layers", "heads", "kv_heads", "head_width", "feed_forward", "epsilon", "rotary"}
DECIDED = {"positions", "position_offset", "window_every", "pooler"}  # by another field, or of no effect on a run


def traits(c: Configuration) -> dict[str, object]:
    """What distinguishes a configuration from others of the same sizes, by the name of the field."""
    rotary = c.rotary if c.rotated else Rotary()
    turns = {f"rotary {name}": getattr(rotary, name) for name in ("layout", "scaling")}
    share = {"rotated share": c.rotated / c.head_width if c.rotated else 1.0}
    return {f.name: getattr(c, f.name) for f in fields(c) if f.name not in SIZES | DECIDED} | turns | share


def require(library: str, configuration: Configuration, like: str, *free: str, **choices: tuple[object, ...]) -> None:
    """Nothing, if the configuration is of that family, save what is free or a choice; anything else is refused."""
    sizes = {"vocabulary": 1, "layers": 1, "heads": 1, "kv_heads": 1, "head_width": 2, "feed_forward": 1}
    usual = traits(member(like, **sizes))
    for name, given in traits(configuration).items():
        if name not in free and given not in choices.get(name, (usual[name],)):
            raise NotImplementedError(f"{library} has no model whose {name} is {given!r}")


def require_unpadded(library: str, c: Configuration) -> None:
    """Nothing, if every row of the table stands for a token."""
    if c.padding_rows:
        raise NotImplementedError(f"{library} has no model whose padding_rows is {c.padding_rows!r}")


def require_square(library: str, c: Configuration) -> None:
    """Nothing, if the heads together are as wide as the stream."""
    if c.heads * c.head_width != c.width:
        raise NotImplementedError(f"{library} has heads of no other width than width/heads")


def absent(library: str, **arguments: object) -> None:
    """Nothing, if none of the arguments is given; the library has no such thing."""
    for name, given in arguments.items():
        if given is not None:
            raise NotImplementedError(f"{library} takes no {name}")


def of_layer(parameters: Mapping[str, Any], layer: int) -> dict[str, Any]:
    """The parameters of one layer, names without it."""
    prefix = f"layers.{layer}."
    return {name.removeprefix(prefix): value for name, value in parameters.items() if name.startswith(prefix)}


def by_heads(rows: Any, heads: int) -> Any:
    """Rows of heads one under another as `[heads, head_width, ...]`."""
    return rows.reshape(heads, -1, *rows.shape[1:])


def interleaved(rows: Any, heads: int) -> Any:
    """Rows of a projection whose rotated pairs stood in two halves of a head, so that each pair stands together."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def halved(rows: Any, heads: int) -> Any:
    """The way back."""
    return rows.reshape(heads, rows.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)
