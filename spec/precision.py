"""What a declared precision means: a storage format, an arithmetic, and the places that may round."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import ml_dtypes
import numpy as np


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format with `digits` significant bits.

    `underflow` is the largest absolute error of one rounding below the normal range: half the smallest
    subnormal, or the smallest normal number where hardware commonly flushes to zero.
    """

    name: str
    digits: int
    largest: float
    underflow: float

    @property
    def unit(self) -> float:
        """The unit roundoff, half the spacing at one."""
        return 2.0**-self.digits

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The NumPy type that stores it."""
        return np.dtype(ml_dtypes.bfloat16 if self.name == "bfloat16" else self.name)


FLOAT64 = Format("float64", 53, float(np.finfo(np.float64).max), 2.0**-1022)
FLOAT32 = Format("float32", 24, float(np.finfo(np.float32).max), 2.0**-126)
BFLOAT16 = Format("bfloat16", 8, (2 - 2.0**-7) * 2.0**127, 2.0**-126)
FLOAT16 = Format("float16", 11, float(np.finfo(np.float16).max), 2.0**-25)
FORMATS: Mapping[str, Format] = MappingProxyType({f.name: f for f in (FLOAT64, FLOAT32, BFLOAT16, FLOAT16)})

# Places where a 16-bit implementation may round an intermediate to storage. `probs` and `out` are rounded
# by every fused kernel; the others only where the steps are written out one by one; `steps` are those inside an
# activation, `normaliser` the sum of exponentials under a logarithm and that logarithm, `losses` a running sum of them;
# `moment` is what an optimiser keeps, `update` a number on the way to its step.
FUSED = frozenset({"probs", "out"})
EAGER = FUSED | {
    "prescale",
    "dot",
    "scores",
    "capped",
    "biased",
    "prebias",
    "hidden",
    "constant",
    "normed",
    "angles",
    "turned",
    "stream",
    "gradient",
    "logits",
    "logprobs",
    "losses",
    "moment",
    "update",
}
# Not a place that rounds but a way to compute, in any format: a sigmoid of absolute instead of relative accuracy,
# as from (1 + tanh(x/2))/2, which has no correct digit far below zero.
ABSOLUTE_SIGMOID = "absolute sigmoid"
# A hyperbolic tangent only as accurate as an error function is taken to be, from a rational approximation that is not
# cut off at one: 16 roundoffs and not 4.
ROUGH_TANH = "rough tanh"
# Another: a variance from the mean of the squares less the square of the mean, which cancels in rows far from zero.
ONE_PASS = "one-pass variance"
# And a third: bias corrections 1 − β^t from a β and a power in the arithmetic, where float64 is usual; they lose the
# digits that β^t shares with one.
ROUGH_POWERS = "bias corrections in the arithmetic"
EVERYWHERE = EAGER | {"shifted", "exps", "expsum", "steps", "normaliser", ROUGH_POWERS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """The rounding that an implementation claims: a wrong claim fails its clauses.

    storage: the format of arguments and results. arithmetic: the format in which sums are accumulated and
    functions evaluated. sites: the intermediates that may be rounded to storage. library: error of exp and
    1/x, relative, and of tanh, absolute, in units of the arithmetic's roundoff (4 is two ulp); erf: that of
    erf, absolute. block: the fewest keys after which an online softmax may rescale.
    """

    storage: Format
    arithmetic: Format
    sites: frozenset[str] = EVERYWHERE
    library: float = 4.0
    erf: float = 16.0
    block: int = 16

    @property
    def narrow(self) -> bool:
        """Whether storing rounds at all: true of the 16-bit formats with wider arithmetic."""
        return self.storage.digits < self.arithmetic.digits

    def rounds(self, site: str) -> bool:
        """Whether an intermediate at this site may be rounded to storage."""
        return self.narrow and site in self.sites


def declared(dtype: str, sites: frozenset[str] = EVERYWHERE) -> Precision:
    """The usual reading of a dtype: 16-bit storage is summed in float32, the others in themselves."""
    storage = FORMATS[dtype]
    return Precision(storage=storage, arithmetic=FLOAT32 if storage.digits < 24 else storage, sites=sites)
