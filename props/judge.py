"""The judge: from what came, what was due and what is allowed to a verdict that can be read aloud."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.spec.evaluators import Floats


class Violation(AssertionError):
    """A comparison that does not hold."""

    def __init__(self, comparison: "Comparison"):
        super().__init__(str(comparison))
        self.comparison = comparison


@dataclass(frozen=True, slots=True)
class Comparison:
    """|got − want| ≤ allowed, entry by entry; allowed is infinite where the precision permits anything."""

    what: str
    got: Floats
    want: Floats
    allowed: Floats

    @property
    def ratios(self) -> Floats:
        """Error over bound for every entry: infinite for NaN where a number is due and for any exact miss."""
        with np.errstate(all="ignore"):
            error = np.abs(self.got - self.want)
            ratio = np.where(error == 0, 0.0, error / self.allowed)
        same = (self.got == self.want) | (np.isnan(self.got) & np.isnan(self.want))
        return np.where(np.isinf(self.allowed) | same, 0.0, np.where(np.isnan(ratio), np.inf, ratio))

    @property
    def worst(self) -> tuple[int, ...]:
        """Where error over bound is largest."""
        return tuple(int(i) for i in np.unravel_index(np.argmax(self.ratios), self.got.shape))

    @property
    def margin(self) -> float:
        """The largest error over bound."""
        return float(self.ratios.max(initial=0.0))

    @property
    def holds(self) -> bool:
        """Whether every entry is within its bound."""
        return self.margin <= 1

    @property
    def decides(self) -> bool:
        """Whether any entry has a bound that could be missed."""
        return bool(np.isfinite(self.allowed).any())

    def __str__(self) -> str:
        got, want, allowed = (float(a[self.worst]) for a in (self.got, self.want, self.allowed))
        where = f"{self.what}{list(self.worst) if self.got.ndim else ''}"
        return f"{where}: got {got:.9g}, wanted {want:.9g} ± {allowed:.3g}"


def close(what: str, got: Any, want: Any, allowed: Any) -> Comparison:
    """`got` is within `allowed` of `want`."""
    shape = np.broadcast_shapes(np.shape(got), np.shape(want))
    arrays = (np.broadcast_to(np.asarray(a, np.float64), shape) for a in (got, want, allowed))
    return Comparison(what, *arrays)


def between(what: str, got: Any, low: Any, high: Any, allowed: Any) -> Comparison:
    """`got` lies between `low` and `high`, give or take `allowed`; NaN lies nowhere."""
    nearest = np.clip(got, low, high)
    return close(what, got, np.where(np.isnan(nearest), low, nearest), allowed)


def same(what: str, got: Any, want: Any) -> Comparison:
    """`got` equals `want` bit for bit."""
    return close(what, got, want, 0.0)
