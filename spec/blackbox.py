"""Black boxes: how far apart two runs of a model may be whose parameters nobody knows, learnt from the model itself.

To first order rounding moves a result by Σ_k J_k·δ_k: J_k is how much the result moves with the k-th number that is
rounded, which is the model's own and the same in every precision, and |δ_k| ≤ u is the roundoff of the precision. So
with C = Σ_k |J_k| the error is at most C·u, and to compare precisions neither C nor any J_k has to be known: on one and
the same input float32 shows an error e = |Σ_k J_k·δ_k| of its own, and float64 may err by C·2^−53 at most.

Two runs of float64 that are equal in exact arithmetic differ by at most 2·C·2^−53 = C·2^−52. If they differ by more
than the two errors that float32 shows on their inputs, then it is rounding only if that error was smaller than
C·2^−53 at every entry of the output, 2^29 times smaller than what float32 may err by. How far worst cases are from what
happens is measured (docs/numerics.md): two to three orders of magnitude, not nine. An error of float32 that is smaller
than one rounding of the output's largest entry is put up to that, since it can only be an accident.

A model that is asked for float64 may keep some steps in float32: norms, softmaxes, tables of angles. Its runs then
differ by what these steps err by, which is part of what float32 errs by in all of its steps, so the errors that float32
shows are still enough: this is why they, and not 2^−29 of them, are what is allowed. Two things are not covered and are
looked for. Where products are computed in float32 as well there is no second precision, and its error says nothing.
And a table of angles at position p, in float32, is off by p roundoffs where other numbers are off by one, in both
precisions alike, so that their difference does not show it: runs at other positions are allowed 1 + p times as much.
"""

import math

import numpy as np

from gnomon.spec.evaluators import Floats
from gnomon.spec.precision import FLOAT32, FLOAT64


def unit_error(narrow: Floats, wide: Floats) -> float:
    """What float32 costs on an input: the largest difference of the two precisions, one rounding at the least."""
    finite = np.isfinite(narrow) & np.isfinite(wide)
    apart, size = (np.abs(a).max(initial=0.0) for a in (narrow[finite] - wide[finite], wide[finite]))
    return float(max(apart, FLOAT32.unit * size))


def computed_narrower(narrow: Floats, wide: Floats) -> bool:
    """Whether the wider result, rounded, is the narrower one at every entry, as of a model with one precision only."""
    with np.errstate(invalid="ignore"):
        once = np.abs(narrow - wide) <= FLOAT32.unit * np.abs(wide) + FLOAT32.underflow
    return bool((once | (narrow == wide)).all())


def allowance(error: float, position: int = 0) -> float:
    """How far rounding may move a run in float64 whose float32 errs by so much, at positions up to this one."""
    return error * (1 + position)


def moved(error: float) -> float:
    """A distance that is more than rounding in float64 and less than anything that float32 would show.

    It lies between the errors of the two precisions, in the middle on the scale of their logarithms: 2^14.5 times what
    float64 does.
    """
    return error * math.sqrt(FLOAT64.unit / FLOAT32.unit)
