"""What is known of a black box: its parameters, or nothing but what a second precision shows of its rounding."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gnomon.impl.declaration import Held
from gnomon.props.outcome import Declined
from gnomon.spec.blackbox import allowance
from gnomon.spec.bounds import round_to
from gnomon.spec.evaluators import Floats
from gnomon.spec.precision import FLOAT32, Format

# Why something is not held against it.
OWN = "it is a black box: its parameters are its own"
ELSEWHERE = "of a black box rounding is told from a dependence in float64, beside float32"
NARROWER = "asked for float64 it computes in float32, so what rounding does to it is not known"
OVERFLOWS = "asked for float64 it gives NaN or infinity where its float32 gives numbers, so it says nothing of rounding"
TOO_COARSE = "the worst that rounding may do to it is too much here to decide anything; float64 decides"


@dataclass(frozen=True, slots=True)
class Learnt:
    """What a model whose parameters nobody knows shows of its own rounding on an input, by a second precision."""

    error: float
    farthest: int  # position that the input names, if it is past those that its tokens would have
    useless: str = ""  # why the second precision says nothing

    @property
    def value(self) -> Floats:
        """Nothing: what is exact is not known."""
        raise Declined(OWN)

    def allowed(self, functional: Floats) -> float:
        """How far rounding may move the functional."""
        return allowance(self.error, self.farthest) * float(np.abs(functional).sum())


@cache
def stored(held: Held, form: Format) -> Mapping[str, Floats]:
    """The parameters of a black box as the format stores them, nothing where nobody knows them."""
    if held.parameters is None:
        return Hidden()
    own = held.parameters()
    if form is FLOAT32:  # NumPy rounds to it in one step and at once
        return {name: value.astype(np.float32).astype(np.float64) for name, value in own.items()}
    return {name: round_to(value, form) for name, value in own.items()}


class Hidden(dict[str, Floats]):
    """Parameters that nobody knows."""

    def __getitem__(self, name: str) -> Floats:
        raise Declined(OWN)

    def __iter__(self) -> Iterator[str]:
        raise Declined(OWN)

    def keys(self) -> Any:
        """Nothing, for there is nothing to name."""
        raise Declined(OWN)
