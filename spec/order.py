"""VI.1: attention has no opinion about order; position supplies it."""

import math
from typing import Any

import numpy as np

from gnomon.spec.attention import ATTENTION
from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.evaluators import Evaluator, Floats, Quantity
from gnomon.spec.families import LEARNED, POSITIONED

LIBRARY = 4.0  # roundoffs of a power, as of every library function

# Numbers that an implementation works out itself, and by how many of its own roundoffs each may be off.
Rates = tuple[Floats, Floats]


def sinusoidal_positions(E: Evaluator, positions: Any, width: int, arrangement: str = "interleaved") -> Quantity:
    """sin(position·10000^(−2i/width)) at feature 2i and the cosine of the same at 2i + 1, `[..., time, width]`.

    positions `[..., time]`, whole numbers. Concatenated, all sines stand before all cosines. Source: Vaswani et al.
    2017, section 3.5.
    """
    return E.store(waves(E, angles(E, positions, powers(10000.0, pair_exponents(width))), arrangement), "out")


def waves(E: Evaluator, turned: Quantity, arrangement: str) -> Quantity:
    """Sine and cosine of every angle, side by side or all sines first."""
    sine, cosine = E.sin(turned), E.cos(turned)
    return E.concat([sine, cosine], -1) if arrangement == "concatenated" else alternating(E, sine, cosine)


def alternating(E: Evaluator, even: Quantity, odd: Quantity) -> Quantity:
    """The entries of both along the last axis, in turn."""
    stacked = E.concat([a.reshape(*a.shape, 1) for a in (even, odd)], -1)
    return stacked.reshape(*stacked.shape[:-2], 2 * stacked.shape[-2])


def pair_exponents(width: int) -> Floats:
    """2i/width for every pair i of features."""
    return np.asarray(np.arange(0, width, 2) / width)


def powers(base: float, exponents: Floats) -> Rates:
    """base^(−exponent): exact at exponent zero.

    Elsewhere either one call of the power, whose exponent is rounded, and a reciprocal; or the exponential of a
    product with a logarithm, where exponent, logarithm and product are rounded and each counts by the size of the
    result's own logarithm. A running product of one ratio strays up to three times as far, which is too far.
    """
    size = np.abs(exponents * math.log(base))
    roundoffs = LIBRARY + np.maximum(2 + size, 3 * size)
    return np.asarray(base**-exponents), np.where(exponents == 0, 0.0, roundoffs)


def angles(E: Evaluator, positions: Any, rates: Rates) -> Quantity:
    """position·rate, `[..., time, pairs]`: no error at position zero, nor where the rate is a power of two."""
    where, (values, roundoffs) = np.asarray(positions, float)[..., None], rates
    exact = int(np.count_nonzero(roundoffs == 0))  # these come first
    first = E.number(where * values[:exact])
    rest = E.number(where) * E.computed(values[exact:], roundoffs[exact:])
    return E.select(where != 0, E.concat([first, rest], -1))


def alibi_slopes(E: Evaluator, heads: int) -> Quantity:
    """The slope of every head, `[heads]`: a geometric series that starts at its own ratio, 2^(−8/n) for n heads.

    Where heads is no power of two, those of the power below come first and then every second one, from the first, of
    the series for twice as many. Source: Press et al. 2022, section 3 and its published code.
    """
    exponents, rank = alibi_exponents(heads)
    return E.store(E.computed(2.0**-exponents, np.where(rank == 0, 0.0, LIBRARY + 2 * rank)), "out")


def alibi_exponents(heads: int) -> Rates:
    """Minus the binary logarithm of every slope, and its rank in a series whose ratio has to be rounded.

    A slope of rank r is the r-th power of a rounded ratio, or as many products of it. Up to eight heads the ratios are
    powers of two and nothing is rounded.
    """
    below = 1 << (heads.bit_length() - 1)
    rank = np.concatenate([np.arange(1.0, below + 1), np.arange(1.0, 2 * (heads - below), 2)])
    length = np.where(np.arange(heads) < below, below, 2 * below)
    return 8 * rank / length, np.where(length > 8, rank, 0.0)


def alibi_bias(E: Evaluator, heads: int, queries: Any, keys: Any) -> Quantity:
    """slope·(key − query) for every pair of positions, `[..., heads, queries, keys]`; in the past it is not positive.

    What a row has in common cancels in the softmax, so an implementation may leave the query's part out; both parts
    are rounded here.
    """
    slopes = alibi_slopes(E, heads).reshape(heads, 1, 1)
    ahead, own = np.asarray(keys, float)[..., None, None, :], np.asarray(queries, float)[..., None, :, None]
    return E.store(E.number(ahead) * slopes - E.number(own) * slopes, "biased")


ORDER = Proposition(
    number="VI.1",
    slug="order",
    statement="Attention has no opinion about order; position supplies it.",
    formula=r"f(PX) = P\,f(X)\quad\text{without positions and mask}",
    source="Foundations, gathered: third usual mistake, laboratory 3; Vaswani et al. 2017, section 3.5; Press et al. "
    "2022, section 3",
    rests_on=(ATTENTION,),
    said="A transformer understands word order.",
    so="Its layers treat a sequence as a set. What they know of order they are told by positions or by a mask, and "
    "where order is got wrong, that is the place to look.",
)

POSITION_ADDED = Mistake(
    "position-added",
    "a little of each token's index is added to it though no positions were asked for",
    "the same tokens in another order give other vectors",
)
EQUIVARIANT = Clause(
    proposition=ORDER,
    number="VI.1.1",
    slug="equivariant",
    statement="Without positions and without a mask, permuted tokens give the same outputs, permuted alike.",
    formula=r"f(PX) = P\,f(X)",
    kind=Kind.BOUND,
    proven=True,
    level=(Level.OP, Level.BLOCK, Level.MODEL),
    mistakes=(POSITION_ADDED,),
)

SINES_FIRST = Mistake(
    "sines-first",
    "all sines stand before all cosines where they should alternate",
    "self-consistent when trained from scratch; a table from elsewhere meets the wrong features",
)
SINUSOID_EXPONENT_HALVED = Mistake(
    "sinusoid-exponent-halved",
    "pair i has the exponent i/d in place of 2i/d",
    "wavelengths end at a hundred turns where they should reach ten thousand",
)
EXPONENT_PER_FEATURE = Mistake(
    "exponent-per-feature",
    "the exponent grows with the feature, not the pair: a sine and its cosine have different frequencies",
    "a shift is no longer a rotation; it trains",
    seen=("jadore801120/attention-is-all-you-need-pytorch#32 (2017)",),
    bugs=("B093",),
)
LINEAR_RAMP = Mistake(
    "linear-ramp",
    "positions are multiplied by a frequency that grows linearly instead of falling geometrically",
    "neighbouring positions have unrelated codes; long sequences suffer first",
    seen=("a small public project (2023)",),
    bugs=("B094",),
)
SINUSOIDS = Clause(
    proposition=ORDER,
    number="VI.1.4",
    slug="sinusoids",
    statement="Sinusoidal positions are the declared formula, and a shift by k is one fixed linear map on them.",
    formula=r"PE_{p,2i} = \sin(p\,\omega_i),\ PE_{p,2i+1} = \cos(p\,\omega_i),\ \omega_i = 10000^{-2i/d};\qquad "
    r"PE_{p+k} = R(k)\,PE_p",
    kind=Kind.BOUND,
    proven=True,
    conventions=("sinusoids",),
    mistakes=(SINES_FIRST, SINUSOID_EXPONENT_HALVED, EXPONENT_PER_FEATURE, LINEAR_RAMP),
)

NEXT_POWER_OF_TWO = Mistake(
    "next-power-of-two",
    "the first slopes of the series for the next power of two are taken",
    "right for powers of two; otherwise no head falls off as steeply as the steepest should",
)
ONE_SERIES = Mistake(
    "one-series",
    "one series 2^(−8i/n) serves every number of heads",
    "right for powers of two; every slope is off for 3, 6 or 12 heads",
    seen=("ml-explore/mlx#3071 (2026)",),
    bugs=("B065",),
)
SLOPES_FROM_ONE = Mistake(
    "slopes-from-one",
    "heads are counted from zero, so the first slope is 1",
    "every head is steeper by one step of the series",
    seen=("a small public project (2026)",),
    bugs=("B066",),
)
OFFSET_BY_PADDING = Mistake(
    "offset-by-padding",
    "rows of the learned table are counted from the first column though the row begins with padding",
    "right for the longest row of a batch; a shorter one stands too far back",
    families=LEARNED,
    whole=True,
)
OFFSET_OF_THE_PADDING = Mistake(
    "offset-of-the-padding",
    "the rows that a table reserves for padding are counted once more for every token beside padding",
    "a row gets other positions as soon as it is batched with a longer one",
    families=("opt",),
    whole=True,
)
POSITION_TABLES = Clause(
    proposition=ORDER,
    number="VI.1.5",
    slug="position-tables",
    statement="Learned positions are rows of a table at the declared offset, beside padding too; the slopes of a "
    "linear bias are the declared geometric series, for numbers of heads that are no powers of two as well.",
    formula=r"m_i = 2^{-8i/n},\ n = 2^{\lfloor\log_2 h\rfloor};\qquad m_{n+i} = 2^{-4(2i-1)/n}",
    kind=Kind.BOUND,
    level=(Level.OP, Level.MODEL),
    mistakes=(NEXT_POWER_OF_TWO, ONE_SERIES, SLOPES_FROM_ONE, OFFSET_BY_PADDING, OFFSET_OF_THE_PADDING),
)

POSITIONS_IGNORED = Mistake(
    "positions-ignored",
    "the model is called with positions and uses none",
    "a bag of words that still lowers its loss",
    families=POSITIONED,
    whole=True,
)
POSITIONS_ALL_ZERO = Mistake(
    "positions-all-zero",
    "every token stands at position zero",
    "the table, or the rotation, is there and says nothing",
    families=POSITIONED,
    whole=True,
)
ORDER_MATTERS = Clause(
    proposition=ORDER,
    number="VI.1.2",
    slug="order-matters",
    statement="With positions, exchanging earlier tokens changes what a later one gives.",
    formula=r"\exists\,\pi:\ f(\pi x) \ne \pi f(x)",
    kind=Kind.BOUND,
    level=(Level.MODEL,),
    rests_on=(EQUIVARIANT,),
    mistakes=(POSITIONS_IGNORED, POSITIONS_ALL_ZERO),
)

MASK_ORDERS = Clause(
    proposition=ORDER,
    number="VI.1.3",
    slug="mask-orders",
    statement="A causal mask alone breaks the symmetry from the second layer on: order enters through what each token "
    "may see, though no position is given.",
    formula=r"P = 0,\ M \text{ causal}:\ \exists\,\pi:\ f(\pi x) \ne \pi f(x)",
    kind=Kind.BOUND,
    level=(Level.MODEL,),
    rests_on=(EQUIVARIANT,),
    control="with one layer and no positions the last output does not change when earlier tokens are exchanged",
)
