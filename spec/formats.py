"""VIII.1: mixed precision is first a range problem: what a number format holds, and what falls through its floor."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np

from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.descent import DESCENT
from gnomon.spec.evaluators import Floats
from gnomon.spec.gradient import GRADIENT


@dataclass(frozen=True)
class Layout:
    """A binary floating-point format by its bits: a sign, an exponent, a fraction.

    special: whether the largest exponent is kept for infinity and NaN, as IEEE 754 has it; where it is not, it counts
    like the others, there is no infinity and only the code of all ones is NaN.
    """

    name: str
    exponent_bits: int
    fraction_bits: int
    special: bool = True

    @property
    def bias(self) -> int:
        """What is taken off the exponent field."""
        return int(2 ** (self.exponent_bits - 1) - 1)

    @cached_property
    def values(self) -> Floats:
        """The value of every code, in the order of the codes: all of the positive ones, then all of the negative."""
        codes = np.arange(2 ** (self.exponent_bits + self.fraction_bits))
        fraction, exponent = codes % 2**self.fraction_bits, codes >> self.fraction_bits
        significand = np.where(exponent > 0, 2**self.fraction_bits + fraction, fraction)
        size = np.ldexp(significand.astype(np.float64), np.maximum(exponent, 1) - self.bias - self.fraction_bits)
        if self.special:
            size[exponent == 2**self.exponent_bits - 1] = np.nan
            size[(exponent == 2**self.exponent_bits - 1) & (fraction == 0)] = np.inf
        else:
            size[-1] = np.nan
        return np.concatenate([size, -size])

    @cached_property
    def ladder(self) -> Floats:
        """The finite numbers from zero up, and at the end the one that would come next."""
        positive = self.values[: self.values.size // 2]
        finite = positive[np.isfinite(positive)]
        return np.append(finite, 2 * finite[-1] - finite[-2])

    @property
    def smallest(self) -> float:
        """The smallest number above zero."""
        return float(self.ladder[1])

    @property
    def smallest_normal(self) -> float:
        """The smallest number with all digits."""
        return float(2.0 ** (1 - self.bias))

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return float(self.ladder[-2])

    @property
    def beyond(self) -> float:
        """What a number becomes that rounds to more than the largest: infinity, or NaN where there is none."""
        return np.inf if self.special else np.nan


HALF = Layout("float16", 5, 10)
BRAIN = Layout("bfloat16", 8, 7)
E4M3FN = Layout("float8_e4m3fn", 4, 3, special=False)
E5M2 = Layout("float8_e5m2", 5, 2)
LAYOUTS: Mapping[str, Layout] = MappingProxyType({f.name: f for f in (HALF, BRAIN, E4M3FN, E5M2)})


def spacing(x: Floats, layout: Layout) -> Floats:
    """The distance from |x| to the next larger number of the format, for an x that it holds."""
    index = np.searchsorted(layout.ladder, np.abs(x))
    return np.asarray(layout.ladder[index + 1] - layout.ladder[index])


def nearest(x: Floats, layout: Layout) -> Floats:
    """The number of the format that is nearest to each x, of two alike the one whose last bit is zero.

    Overflow is decided as if there were one more number: what rounds to that one lies beyond the format.
    """
    ladder, size = layout.ladder, np.abs(x)
    above = np.clip(np.searchsorted(ladder, size), 1, ladder.size - 1)
    middle = (ladder[above - 1] + ladder[above]) / 2
    code = np.where((size > middle) | ((size == middle) & (above % 2 == 0)), above, above - 1)
    rounded = np.where(code == ladder.size - 1, layout.beyond, ladder[code])
    return np.asarray(np.copysign(np.where(np.isnan(x), np.nan, rounded), x))


def midpoints(layout: Layout) -> Floats:
    """Halfway between each number and the next, from the smallest to the one beyond the largest."""
    return np.asarray((layout.ladder[1:] + layout.ladder[:-1]) / 2)


def share_under_floor(gradients: Mapping[str, Floats], layout: Layout, scale: float) -> float:
    """Of all gradients that are not zero, the share that scale times gradient, stored in the format, makes zero."""
    every = np.concatenate([g.ravel() for g in gradients.values()])
    alive = every[every != 0]
    return float(np.mean(nearest(alive * scale, layout) == 0)) if alive.size else 0.0


def share_over_ceiling(gradients: Mapping[str, Floats], layout: Layout, scale: float) -> float:
    """Of all gradients that are not zero, the share that scale times gradient, stored in the format, makes infinite."""
    every = np.concatenate([g.ravel() for g in gradients.values()])
    alive = every[every != 0]
    return float(np.mean(~np.isfinite(nearest(alive * scale, layout)))) if alive.size else 0.0


FORMATS = Proposition(
    number="VIII.1",
    slug="formats",
    statement="Mixed precision is first a range problem: a 16-bit format holds gradients precisely enough and not "
    "far enough down, so they are scaled into its range and kept in a wider one.",
    formula=r"0 < |g| \le \tfrac12\,2^{-24} \Rightarrow \mathrm{fl}_{16}(g)=0,\qquad "
    r"2^{-k}\,\mathrm{fl}_{16}(2^kg)=g",
    source="Foundations, gathered: claim 9 of what is usually got wrong; Micikevicius et al. 2018, section 3",
    said="Mixed precision is a speed optimisation.",
    so="Half precision has digits to spare and a floor at 2⁻²⁵, under which late gradients are zero.",
    rests_on=(DESCENT, GRADIENT),
)

FLUSHED = Mistake(
    "flushed-subnormals",
    "numbers under the smallest normal one become zero, undeclared",
    "the floor of half precision lies a thousand times higher than the format's",
)
TOWARDS_ZERO = Mistake(
    "towards-zero",
    "digits that do not fit are cut off",
    "every stored number is too small, by half a spacing on average, and the bias adds up",
)
TIES_AWAY = Mistake(
    "ties-away-from-zero",
    "a number halfway between two goes to the larger one",
    "numbers of few digits, such as sums of stored ones, grow a little at every cast",
)
ROUNDED_TWICE = Mistake(
    "rounded-twice",
    "a cast to eight bits goes through bfloat16 and rounds there first",
    "numbers just beside a midpoint land on it and go to the wrong neighbour",
    unseen={"bfloat16": "its numbers are in bfloat16 already"},
)
HALF_SATURATES = Mistake(
    "half-saturates",
    "what lies beyond half precision becomes its largest number",
    "an overflow is never seen, so that a loss scale that is too high is never lowered",
    unseen={"float16": "none of its numbers lies beyond it"},
)
INFINITE_E4M3 = Mistake(
    "infinity-where-none-is",
    "what lies beyond the eight bits of e4m3fn comes back as infinity, which they do not have",
    "an emulation shows overflow where hardware gives NaN or the largest number",
)
NAN_BECOMES_ZERO = Mistake(
    "nan-becomes-zero",
    "a cast replaces NaN by zero",
    "a diverged step looks like one without gradient",
)
FORMATS_HELD = Clause(
    proposition=FORMATS,
    number="VIII.1.1",
    slug="formats-are-what-they-are",
    statement="A cast to half precision, bfloat16 or one of the two 8-bit formats gives the nearest number that the "
    "format's bits spell, ties to even, subnormal ones kept; what lies beyond goes where the format, or the "
    "declaration, says.",
    formula=r"\mathrm{fl}(x)=\arg\min_{v\in\{\pm m\,2^{e}\}}|v-x|",
    kind=Kind.EXACT,
    conventions=("narrowing", "subnormals", "e4m3fn_overflow", "e5m2_overflow"),
    mistakes=(FLUSHED, TOWARDS_ZERO, TIES_AWAY, ROUNDED_TWICE, HALF_SATURATES, INFINITE_E4M3, NAN_BECOMES_ZERO),
)

SCALE_NOT_UNDONE = Mistake(
    "scale-never-undone",
    "the gradients of the scaled loss are taken for those of the loss",
    "plain descent takes steps a thousand times too long; Adam hides it",
)
UNSCALED_TWICE = Mistake(
    "unscaled-twice",
    "the scale is divided out by the caller and once more inside the step",
    "updates are a thousand times too small and training stands still",
    seen=("THUDM/slime#1842 (2026)",),
    bugs=("B184",),
)
INITIAL_SCALE = Mistake(
    "initial-scale",
    "the scale that is divided out is the one of the first step",
    "after an overflow every step is as much too short as the scale has fallen",
)
STEP_NOT_SKIPPED = Mistake(
    "step-not-skipped",
    "a step whose gradients overflowed is taken",
    "infinity or NaN reaches the parameters and stays",
)
TENSOR_SKIPPED = Mistake(
    "only-tensor-skipped",
    "only the tensor that overflowed is left as it is, and the others take their step",
    "parameters that belong together drift apart at every overflow",
)
NAN_UNSEEN = Mistake(
    "nan-is-no-overflow",
    "only infinity is looked for, so a step with NaN is taken",
    "infinity less infinity in a backward pass is NaN, and it reaches the parameters",
)
SCALE_STAYS = Mistake(
    "scale-stays",
    "a step with overflow is skipped and the scale kept",
    "every later step overflows too, so that training stands still without an error",
)
CLIPPED_SCALED = Mistake(
    "limit-on-scaled-norm",
    "the norm is clipped while the gradients are still scaled",
    "nearly every step is clipped, to a length that changes with the scale",
    needs=("loss_scaler.clip",),
)
LOSS_SCALING = Clause(
    proposition=FORMATS,
    number="VIII.1.2",
    slug="loss-scaling",
    statement="Gradients under the floor of half precision become zero; scaled by a power of two they come back bit "
    "for bit. A step with overflow is skipped as a whole and the scale falls, and unscaling comes before clipping.",
    formula=r"\theta \leftarrow \theta-\eta\,\mathrm{clip}\bigl(2^{-k}\,\mathrm{fl}(2^kg)\bigr)"
    r"=\theta-\eta\,\mathrm{clip}(g)",
    kind=Kind.EXACT,
    level=(Level.TRAIN,),
    rests_on=(FORMATS_HELD,),
    mistakes=(
        SCALE_NOT_UNDONE,
        UNSCALED_TWICE,
        INITIAL_SCALE,
        STEP_NOT_SKIPPED,
        TENSOR_SKIPPED,
        NAN_UNSEEN,
        SCALE_STAYS,
        CLIPPED_SCALED,
    ),
)

_OWN_MASTER = "a parameter of this width is its own master copy"
MASTER_IN_NAME = Mistake(
    "master-in-name-only",
    "the master copy is read from the 16-bit parameter anew at every step",
    "updates under half a spacing are lost: large parameters never move",
    seen=("a small public project (2026)",),
    bugs=("B158",),
    unseen={"float64": _OWN_MASTER, "float32": _OWN_MASTER},
)
MASTER_COPY = Clause(
    proposition=FORMATS,
    number="VIII.1.3",
    slug="master-copy",
    statement="An update under half a spacing is lost on a parameter of 16 bits, and with a master copy in float32 the "
    "parameter is at every time the stored form of the sum of all updates.",
    formula=r"|u|<\tfrac12\,\mathrm{ulp}(\theta)\Rightarrow\mathrm{fl}(\theta+u)=\theta,\qquad "
    r"\theta_n=\mathrm{fl}\bigl(\theta_0+\textstyle\sum_n u_n\bigr)",
    kind=Kind.EXACT,
    level=(Level.TRAIN,),
    rests_on=(FORMATS_HELD,),
    mistakes=(MASTER_IN_NAME,),
)

_SAME_SUMS = "sums of this format are in itself, and one of so few ones is exact"
STORED_SUMS = Mistake(
    "sum-in-storage",
    "a sum is accumulated in the 16 bits that its terms are stored in",
    "a sum of ones stalls at 256 in bfloat16 and at 2048 in half precision; long means and losses are far too small",
    unseen={"float64": _SAME_SUMS, "float32": _SAME_SUMS},
)
STORED_PRODUCT_SUMS = Mistake(
    "products-summed-in-storage",
    "a linear layer accumulates its products in 16 bits",
    "wide layers lose their small terms",
    unseen={"float64": _SAME_SUMS, "float32": _SAME_SUMS},
)
LONG_SUMS = Clause(
    proposition=FORMATS,
    number="VIII.1.4",
    slug="long-sums",
    statement="A long sum is kept in higher precision than its terms: ones add up to their number, beyond 256 in "
    "bfloat16 and 2048 in half precision, alone and as the products of a linear layer.",
    formula=r"\sum_{i=1}^n 1 = \mathrm{fl}(n)",
    kind=Kind.EXACT,
    rests_on=(FORMATS_HELD,),
    mistakes=(STORED_SUMS, STORED_PRODUCT_SUMS),
)

NORMAL_FLOOR = Mistake(
    "smallest-normal-for-floor",
    "the smallest normal number is taken for the floor",
    "the share is far too large: subnormal gradients count as lost",
)
ZEROS_COUNTED = Mistake(
    "zeros-counted",
    "gradients that are zero anyway are counted as lost",
    "unused rows of an embedding look like underflow, and no scale helps",
)
SCALE_IGNORED = Mistake(
    "scale-ignored",
    "the share with scaling is measured without it",
    "loss scaling looks useless",
)
MEAN_OF_SHARES = Mistake(
    "mean-of-shares",
    "the shares of the tensors are averaged, each with the same weight",
    "a bias of four numbers counts as much as a table of a million",
)
UNDERFLOW = Clause(
    proposition=FORMATS,
    number="VIII.1.5",
    slug="underflow",
    statement="The share of gradients that a format loses under its floor is measured over all that are not zero, with "
    "and without scaling.",
    formula=r"\frac{\#\{g\ne0:\ \mathrm{fl}(sg)=0\}}{\#\{g\ne0\}}",
    kind=Kind.TOOL,
    level=(Level.TRAIN,),
    rests_on=(FORMATS_HELD,),
    mistakes=(NORMAL_FLOOR, ZEROS_COUNTED, SCALE_IGNORED, MEAN_OF_SHARES),
)
