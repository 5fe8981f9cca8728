"""What an implementation says of itself, as data that the suite holds it to."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gnomon.spec.configuration import Configuration, PositionKind
from gnomon.spec.conventions import Conventions
from gnomon.spec.families import FAMILIES
from gnomon.spec.precision import EVERYWHERE

Framework = Literal["numpy", "torch", "jax"]
Function = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fixed:
    """What a model says of itself whose parameters are its own: a black box, which is there and is not built.

    vocabulary: ids from 0 to one less; 0: not said, so the width of the output is taken for it. causal: later tokens
    are hidden from earlier ones. context: the most tokens that it takes, 0 for any number. reach: the tokens that an
    output may depend on, its own included, 0 for all. positions: their kind, "" where that is not said.
    """

    vocabulary: int = 0
    causal: bool = True
    context: int = 0
    reach: int = 0
    positions: PositionKind | Literal[""] = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Held(Fixed):
    """A black box that was loaded, and what was found of it.

    outputs: numbers a token. configuration and parameters, the latter by our names and exact in float64, of one that
    is known inside. alone: why it can not be had in a second precision; "" if it can. code: from a dtype and the names
    of keywords to lines that make `model`, and an expression that calls it on `tokens`.
    """

    outputs: int
    configuration: Configuration | None = None
    parameters: Callable[[], Mapping[str, Any]] | None = None
    alone: str = ""
    code: Callable[[str, Collection[str]], tuple[tuple[str, ...], str]]

    @property
    def ids(self) -> int:
        """How many token ids there are to choose from."""
        return self.vocabulary or self.outputs

    @property
    def shape(self) -> Configuration:
        """Its configuration; of one that is not known inside, what can be seen from outside, as of a single layer."""
        if self.configuration is not None:
            return self.configuration
        return Configuration(
            vocabulary=self.ids, width=self.outputs, layers=1, heads=1, kv_heads=1, head_width=self.outputs,
            feed_forward=1, causal=self.causal, position_kind=self.positions or "learned", positions=self.context,
            window=self.reach, output="stream",
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The claims of one implementation; every field has the default of a plain NumPy module.

    framework: whose arrays the functions take and return. dtypes: those it supports, by NumPy name.
    sites: the intermediates that it may round to 16-bit storage (`gnomon.spec.precision`).
    conventions: its choices where correct implementations differ. keywords: our name of an argument to its
    own, for those that differ. gaps: clause number to the reason why it is not offered.
    paths: operation to named alternatives of the same signature that must compute the same function, each a
    function or the name of a method beside the declaration.
    data_dependent: the blocking of its kernels depends on the data, so V.4.2 and V.4.8 hold within bounds only.
    compiles: every new shape costs a compilation, so a run tries fewer cases.
    families: the families of models that it can build (`gnomon.spec.families`).
    memory: how the peak memory of its attention grows with the length: quadratic where it keeps a score matrix,
    linear where it tiles.
    truncates: which tokens a model keeps of more than its context has room for; "" if it refuses them.
    fixed: what is known of it, if it is a black box.
    """

    framework: Framework = "numpy"
    dtypes: tuple[str, ...] = ("float64", "float32")
    sites: frozenset[str] = EVERYWHERE
    conventions: Conventions = field(default_factory=Conventions)
    keywords: Mapping[str, str] = field(default_factory=dict)
    gaps: Mapping[str, str] = field(default_factory=dict)
    paths: Mapping[str, Mapping[str, Function | str]] = field(default_factory=dict)
    data_dependent: bool = False
    compiles: bool = False
    families: tuple[str, ...] = tuple(FAMILIES)
    memory: Literal["quadratic", "linear"] | None = None
    truncates: Literal["", "first", "last"] = ""
    fixed: Fixed | None = None
