"""What an implementation says of itself, as data that the suite holds it to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gnomon.spec.conventions import Conventions
from gnomon.spec.precision import EVERYWHERE

Framework = Literal["numpy", "torch", "jax"]
Function = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The claims of one implementation; every field has the default of a plain NumPy module.

    framework: whose arrays the functions take and return. dtypes: those it supports, by NumPy name.
    sites: the intermediates that it may round to 16-bit storage (`gnomon.spec.precision`).
    conventions: its choices where correct implementations differ. keywords: our name of an argument to its
    own, for those that differ. gaps: clause number to the reason why it is not offered.
    paths: operation to named alternatives of the same signature that must compute the same function, each a
    function or the name of a method beside the declaration.
    data_dependent: the blocking of its kernels depends on the data, so V.4.2 holds within bounds only.
    compiles: every new shape costs a compilation, so a run tries fewer cases.
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
