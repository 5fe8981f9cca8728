"""VI.2: rotary positions: absolute indices cancel, only the distance survives."""

import math
from typing import Any

import numpy as np

from gnomon.spec.attention import ATTENTION
from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.configuration import Rotary, Scaling
from gnomon.spec.evaluators import Evaluator, Floats, Quantity
from gnomon.spec.families import ROTARY_CAUSAL
from gnomon.spec.heads import MULTI_HEAD
from gnomon.spec.order import LIBRARY, ORDER, Rates, alternating, angles, pair_exponents, powers

_NEAR = 2.0**-10  # shares of a blend so near to 0 or 1 that rounding decides on which side they are


def rope(E: Evaluator, x: Any, positions: Any, rotary: Rotary) -> Quantity:
    """Pair i of every head turned by the angle position·base^(−2i/width); the features past `width` as they are.

    x `[..., heads, time, head_width]`, positions `[time]` or `[batch, time]` whole numbers, negative where the turn is
    backwards. Layout: pairs are (i, i + width/2) in halves, (2i, 2i + 1) interleaved; our width is the paper's d.
    Source: Su et al. 2021, section 3.2.
    """
    x, width = E.number(x), rotary.width or x.shape[-1]
    kept, circle = x[..., :width], turns(E, positions, width, rotary)
    turned = E.store(scaled_turn(E, kept, circle, rotary), "out")
    return turned if width == x.shape[-1] else E.concat([turned, x[..., width:]], -1)


def scaled_turn(E: Evaluator, x: Quantity, circle: tuple[Quantity, Quantity], rotary: Rotary) -> Quantity:
    """The features turned and multiplied by the attention factor, which meets cosine and sine, or else the features."""
    factor, roundoffs = attention_factor(rotary.scaling)
    cosine, sine = (E.store(a, "angles") for a in circle)
    if factor == 1:
        return turn(E, x, cosine, sine, rotary.layout)
    scale = E.computed(np.asarray(factor), np.asarray(roundoffs))
    first = turn(E, E.store(x * scale, "prescale"), cosine, sine, rotary.layout)
    cosine, sine = (E.store(a * scale, "angles") for a in circle)
    return E.either(turn(E, x, cosine, sine, rotary.layout), first)


def turn(E: Evaluator, x: Quantity, cosine: Quantity, sine: Quantity, layout: str) -> Quantity:
    """The features with every pair of them turned."""
    return joined(E, turned_pairs(E, *pairs(x, layout), cosine, sine), layout)


def turned_pairs(
    E: Evaluator, first: Quantity, second: Quantity, cosine: Quantity, sine: Quantity
) -> tuple[Quantity, Quantity]:
    """(a·cos − b·sin, b·cos + a·sin) for the pairs (a, b)."""
    terms = first * cosine, second * sine, second * cosine, first * sine
    a, b, c, d = (E.store(term, "turned") for term in terms)
    return a - b, c + d


def pairs(x: Quantity, layout: str) -> tuple[Quantity, Quantity]:
    """The first and the second feature of every pair."""
    half = x.shape[-1] // 2
    return (x[..., :half], x[..., half:]) if layout == "half" else (x[..., 0::2], x[..., 1::2])


def joined(E: Evaluator, members: tuple[Quantity, Quantity], layout: str) -> Quantity:
    """The pairs back in their places."""
    return E.concat(list(members), -1) if layout == "half" else alternating(E, *members)


def turns(E: Evaluator, positions: Any, width: int, rotary: Rotary) -> tuple[Quantity, Quantity]:
    """Cosine and sine of every position's angles, `[..., 1, time, width/2]`."""
    where = np.asarray(positions)
    length = int(np.abs(where).max(initial=0)) + 1
    turned = angles(E, where[..., None, :], frequencies(width, rotary, length))
    return E.cos(turned), E.sin(turned)


def frequencies(width: int, rotary: Rotary, length: int = 1) -> Rates:
    """The angle per position of each pair, base^(−2i/width), stretched where a scaling is declared.

    length: that of the sequence, its last position and one, which only dynamic-ntk reads.
    """
    plain, scaling = powers(rotary.base, pair_exponents(width)), rotary.scaling
    if scaling is None:
        return plain
    if scaling.kind == "linear":
        return plain[0] / scaling.factor, plain[1] + (0 if math.frexp(scaling.factor)[0] == 0.5 else 2)
    if scaling.kind in ("ntk", "dynamic-ntk"):
        return raised(width, rotary.base, *base_ratio(scaling, length))
    return blended(plain, width, rotary.base, scaling)


def base_ratio(scaling: Scaling, length: int) -> tuple[float, float]:
    """What multiplies the base once it is raised to width/(width − 2), and its roundoffs.

    The factor itself or, for dynamic-ntk, factor·length/original − (factor − 1), which is 1 up to the original length.
    """
    if scaling.kind == "ntk":
        return scaling.factor, 1.0
    if length <= scaling.original:
        return 1.0, 0.0
    grown = scaling.factor * length / scaling.original
    ratio = grown - (scaling.factor - 1)
    return ratio, (3 * grown + scaling.factor) / ratio + 1


def raised(width: int, base: float, ratio: float, roundoffs: float) -> Rates:
    """The frequencies of the base times ratio^(width/(width − 2)): the lowest of them is divided by the ratio.

    Source: the NTK-aware scaling of Peng et al. 2023, section 3.1.
    """
    exponents = pair_exponents(width)
    if ratio == 1 or width <= 2:
        return powers(base, exponents)
    steepness = width / (width - 2)
    values, own = powers(base * ratio**steepness, exponents)
    inherited = steepness * (roundoffs + 3 * abs(math.log(ratio))) + LIBRARY + 1
    return values, own + exponents * inherited


def blended(plain: Rates, width: int, base: float, scaling: Scaling) -> Rates:
    """Each frequency partly kept and partly divided by the factor: high ones kept, low ones divided."""
    values, roundoffs = plain
    share, blur = kept_share(plain, width, base, scaling)
    kept = np.clip(share, 0.0, 1.0)
    result = values * kept + values / scaling.factor * (1 - kept)
    moved = values * abs(1 - 1 / scaling.factor) * blur / result
    return result, np.where((values == 1) & (share >= 1), 0.0, roundoffs + 6 + moved)


def kept_share(plain: Rates, width: int, base: float, scaling: Scaling) -> Rates:
    """How much of each frequency is kept, before it is cut off at 0 and 1, and its error in roundoffs of one.

    llama3 goes by the turns in the original context, from `low` to `high` of them. yarn goes by the index of the
    pair, between those that turn `high` and `low` times, rounded outwards; so does its published code, while Peng et
    al. 2023, section 3.2, write a ramp over turns.
    """
    values, roundoffs = plain
    if scaling.kind == "llama3":
        turned, span = scaling.original * values / (2 * math.pi), scaling.high - scaling.low
        share = (turned - scaling.low) / span
        blur = (turned * (roundoffs + 4) + 3 * np.abs(turned - scaling.low)) / span + 1
        return share, np.where((share > -_NEAR) & (share < 1 + _NEAR), blur, 0.0)
    first, last = yarn_band(width, base, scaling)
    share = 1 - (np.arange(width // 2) - first) / max(last - first, 1)
    return share, np.where((share > 0) & (share < 1), 2 * (1 - share) + 1, 0.0)


def yarn_band(width: int, base: float, scaling: Scaling) -> tuple[int, int]:
    """The pairs at which the blend of yarn begins and ends."""

    def pair(turned: float) -> float:
        return width * math.log(scaling.original / (turned * 2 * math.pi)) / (2 * math.log(base))

    return max(math.floor(pair(scaling.high)), 0), min(math.ceil(pair(scaling.low)), width - 1)


def attention_factor(scaling: Scaling | None) -> tuple[float, float]:
    """What cosine and sine are multiplied by, and its roundoffs: 1 but for yarn, there 0.1·ln(factor) + 1 or given."""
    if scaling is None or scaling.kind != "yarn":
        return 1.0, 0.0
    if scaling.attention_factor is not None:
        return scaling.attention_factor, 1.0
    return (0.1 * math.log(scaling.factor) + 1.0, LIBRARY) if scaling.factor > 1 else (1.0, 0.0)


def decay(turned: Floats) -> Floats:
    """(2/d)·Σⱼ |Σ_{i<j} e^{i r θᵢ}| of rows of complex numbers e^{i r θᵢ}: what the bound of a score falls off by.

    The paper bounds a score at distance r by the largest step between neighbouring pairs times the sum over j.
    Source: Su et al. 2021, section 3.4.3.
    """
    return np.asarray(np.abs(np.cumsum(turned, -1)).mean(-1))


ROTARY = Proposition(
    number="VI.2",
    slug="rotary",
    statement="Turned by their positions, a query and a key meet by their distance alone: absolute indices cancel.",
    formula=r"\langle R(m\theta)q, R(n\theta)k\rangle = \langle q, R((n-m)\theta)k\rangle",
    source="Foundations, gathered: equation 9; Su et al. 2021, sections 3.2 and 3.4; Chen et al. 2023 for the linear "
    "scaling; Peng et al. 2023 for the others",
    rests_on=(ORDER, ATTENTION),
)

NOT_LINEAR = Mistake(
    "not-linear",
    "the angle grows with the logarithm of the position instead of the position itself",
    "equal distances turn by unequal angles, the less the later",
)
OPPOSITE_WAYS = Mistake(
    "opposite-ways",
    "keys are turned against the direction of the queries",
    "scores depend on the sum of the positions, so that the same text further on is another text",
)
FREQUENCIES_BY_NEIGHBOURS = Mistake(
    "frequencies-by-neighbours",
    "each frequency is given to two neighbouring features while the pairs lie half a head apart",
    "the two members of a pair turn by different angles; it trains",
    seen=("a small public project (2026)",),
    bugs=("B071",),
)
RELATIVE = Clause(
    proposition=ROTARY,
    number="VI.2.1",
    slug="relative",
    statement="The product of a query at m and a key at n depends on n − m alone.",
    formula=r"\langle R(m+s)q, R(n+s)k\rangle = \langle R(m)q, R(n)k\rangle",
    kind=Kind.BOUND,
    proven=True,
    mistakes=(NOT_LINEAR, OPPOSITE_WAYS, FREQUENCIES_BY_NEIGHBOURS),
)

SIGN_SLIP = Mistake(
    "sign-slip",
    "one of the four terms has the other sign: (a·cos − b·sin, b·cos − a·sin)",
    "norms change with the position",
)
SCALED_COSINE = Mistake(
    "scaled-cosine",
    "the cosine is multiplied by a factor and the sine is not",
    "at position 0 the vector is stretched already",
)
NOT_REINTERLEAVED = Mistake(
    "not-reinterleaved",
    "features are split in even and odd ones, turned, and put one half after the other",
    "at position 0 the features come back in another order",
    seen=("a small public project (2026)",),
    bugs=("B070",),
    needs=("rope.layout",),
)
SHIFT_NOT_SUMMED = Mistake(
    "shift-not-summed",
    "keys that are turned a second time are turned by the second angle alone, in place of the sum",
    "a cache may lose its oldest tokens once; the second time text falls apart",
    seen=("ggml-org/llama.cpp#3825 (2023)",),
    bugs=("B112",),
)
ROTATIONS = Clause(
    proposition=ROTARY,
    number="VI.2.2",
    slug="rotations",
    statement="Rotations keep the norm, the one by position 0 changes nothing, and two of them in turn are the one by "
    "the sum of the positions.",
    formula=r"\|R(m)x\| = \|x\|,\qquad R(0) = I,\qquad R(a)R(b) = R(a+b)",
    kind=Kind.BOUND,
    proven=True,
    mistakes=(SIGN_SLIP, SCALED_COSINE, NOT_REINTERLEAVED, SHIFT_NOT_SUMMED),
)

ANOTHER_BASE = Mistake(
    "another-base",
    "the base is 10000 whatever was declared",
    "coherent on short prompts, incoherent beyond; a draft model whose guesses are refused a little more often",
    needs=("rope.base",),
)
EXPONENT_HALVED = Mistake(
    "exponent-halved",
    "pair i has the exponent i/d in place of 2i/d",
    "the lowest frequency is the root of what it should be",
)
DEGREES = Mistake(
    "degrees",
    "angles are given in degrees to functions that take radians",
    "every pair turns 57 times too fast",
)
LAYOUTS_EXCHANGED = Mistake(
    "layouts-exchanged",
    "features are paired in halves where neighbours were declared, and the other way round",
    "self-consistent when trained from scratch; wrong for weights from elsewhere",
)
TURNED_BACKWARDS = Mistake(
    "turned-backwards",
    "the rotation is the transpose of the declared one",
    "every distance counts with the other sign; self-consistent when trained so, wrong for weights from elsewhere",
)
POSITIONS_DOUBLED = Mistake(
    "positions-doubled",
    "positions are multiplied by a default of two where no scaling is declared",
    "everything seems twice as far away, at every length",
    seen=("ml-explore/mlx-lm#1545 (2026)",),
    bugs=("B078",),
)
ANGLES = Clause(
    proposition=ROTARY,
    number="VI.2.3",
    slug="angles",
    statement="The angles, the layout of pairs and the direction, measured from outside with unit vectors, are the "
    "declared ones.",
    formula=r"R(m)e_{2i} = \cos(m\theta_i)\,e_{2i} + \sin(m\theta_i)\,e_{2i+1},\qquad \theta_i = \mathrm{base}^{-2i/d}",
    kind=Kind.BOUND,
    conventions=("rotary_layout", "rotation"),
    mistakes=(ANOTHER_BASE, EXPONENT_HALVED, DEGREES, LAYOUTS_EXCHANGED, TURNED_BACKWARDS, POSITIONS_DOUBLED),
)

LAYOUT_IGNORED = Mistake(
    "layout-ignored",
    "features are paired in one way whichever layout is asked for",
    "weights of the other layout load, run, and say something else",
)
LAYOUTS = Clause(
    proposition=ROTARY,
    number="VI.2.4",
    slug="layouts",
    statement="The two layouts are one fixed permutation of the features apart.",
    formula=r"R_{\mathrm{interleaved}}(m) = \Pi^\top R_{\mathrm{half}}(m)\,\Pi,\qquad \Pi e_{2i} = e_i,\ "
    r"\Pi e_{2i+1} = e_{i+d/2}",
    kind=Kind.BOUND,
    proven=True,
    level=(Level.OP, Level.MODEL),
    rests_on=(ANGLES,),
    conventions=("rotation",),
    mistakes=(LAYOUT_IGNORED,),
)

POSITIONS_IN_16_BITS = Mistake(
    "positions-in-16-bits",
    "positions are converted to bfloat16 before they meet the frequencies",
    "beyond 256 neighbouring positions share a code",
    seen=(
        "pytorch/pytorch#179845 (2026)",
        "huggingface/candle#3520 (2026)",
        "a small public project (2024)",
    ),
    bugs=("B069", "B087", "B089"),
)
ANGLES_IN_16_BITS = Mistake(
    "angles-in-16-bits",
    "the product of position and frequency is made in bfloat16, by autocast say",
    "far positions collapse to a few codes; the loss is a little worse",
    seen=("huggingface/transformers#29285 (2024)", "huggingface/diffusers#13922 (2026)"),
    bugs=("B084", "B088"),
)
FREQUENCIES_IN_16_BITS = Mistake(
    "frequencies-in-16-bits",
    "the frequencies are cast to float16 with the rest of the model before the table is made",
    "cosine and sine are off by any amount at some positions and features",
    seen=("EleutherAI/gpt-neox#1003 (2023)",),
    bugs=("B085",),
)
PRECISE_ANGLES = Clause(
    proposition=ROTARY,
    number="VI.2.5",
    slug="precise-angles",
    statement="Angles are formed precisely enough: at positions up to 2¹⁷ the rotation keeps within the bound of the "
    "declared precision, whose arithmetic is never of 16 bits.",
    formula=r"|\mathrm{fl}(m\theta_i) - m\theta_i| \le m\,\theta_i\,(7 + 3\,|\ln\theta_i|)\,u",
    kind=Kind.BOUND,
    rests_on=(ANGLES,),
    conventions=("rotary_layout", "rotation"),
    mistakes=(POSITIONS_IN_16_BITS, ANGLES_IN_16_BITS, FREQUENCIES_IN_16_BITS),
)

VALUES_TURNED = Mistake(
    "values-turned",
    "values are turned along with queries and keys",
    "outputs depend on absolute positions",
)
TURNED_BEFORE_THE_SPLIT = Mistake(
    "turned-before-the-split",
    "the whole projected width is turned as one head, and split afterwards",
    "later heads get the low frequencies only",
)
TURNED_TWICE = Mistake(
    "turned-twice",
    "queries and keys are turned in the layer and again in the kernel",
    "scores are relative still, at twice the distance",
)
HALVES_CROSSED = Mistake(
    "halves-crossed",
    "a fused kernel takes the second half of the turned query from the key, and that of the key from the query",
    "scores mix what is asked with what is held",
    seen=("a small public project (2026)",),
    bugs=("B073",),
)
IN_ATTENTION = Clause(
    proposition=ROTARY,
    number="VI.2.6",
    slug="in-attention",
    statement="Queries and keys are turned once, head by head; values are not.",
    formula=r"\mathrm{head}_i = \mathrm{Attention}(R\,XW_{Q_i},\ R\,XW_{K_i},\ XW_{V_i})",
    kind=Kind.BOUND,
    level=(Level.OP, Level.BLOCK),
    rests_on=(MULTI_HEAD,),
    conventions=("rotary_layout", "rotation"),
    mistakes=(VALUES_TURNED, TURNED_BEFORE_THE_SPLIT, TURNED_TWICE, HALVES_CROSSED),
)

WRONG_SLICE = Mistake(
    "wrong-slice",
    "the last features of a head are turned where the first should be",
    "weights trained elsewhere meet positions in features that know nothing of them",
)
WIDTH_IGNORED = Mistake(
    "width-ignored",
    "the whole head is turned though only a part was declared",
    "all shapes are valid",
    seen=("AI-Hypercomputer/maxtext#4615 (2026)",),
    bugs=("B082",),
)
PAIRED_ACROSS_THE_HEAD = Mistake(
    "paired-across-the-head",
    "pairs lie half a head apart, not half of what is turned",
    "the right frequencies turn the wrong features",
    seen=("a small public project (2026)",),
    bugs=("B083",),
)
PARTIAL = Clause(
    proposition=ROTARY,
    number="VI.2.8",
    slug="partial",
    statement="Where only the first features of a head are turned, the others come back bit for bit.",
    formula=r"R(m)\,[x_{1:r};\,x_{r+1:d}] = [R(m)\,x_{1:r};\,x_{r+1:d}]",
    kind=Kind.EXACT,
    mistakes=(WRONG_SLICE, WIDTH_IGNORED, PAIRED_ACROSS_THE_HEAD),
)

DECAYS = Clause(
    proposition=ROTARY,
    number="VI.2.9",
    slug="decays",
    statement="The bound that the paper puts on a score decays with the distance on average: at the customary base and "
    "heads of 64 or more, its mean over every doubling of the distance, to 1024, is less than over the one before.",
    formula=r"|\langle R(m)q, R(n)k\rangle| \le \max_i|h_{i+1}-h_i|\ "
    r"\sum_j \Big|\sum_{i<j} e^{\mathrm{i}(n-m)\theta_i}\Big|",
    kind=Kind.BOUND,
    rests_on=(ANGLES,),
    control="with base 1 all pairs turn alike and the mean is the same over every doubling",
)

WRONG_BAND = Mistake(
    "wrong-band",
    "high frequencies are divided by the factor and low ones kept",
    "near positions blur while far ones are as unknown as before",
)
FACTOR_FORGOTTEN = Mistake(
    "factor-forgotten",
    "cosine and sine are not multiplied by the attention factor of yarn",
    "attention is flatter than it was trained to be; text stays fluent and leaves the topic",
    seen=("turboderp-org/exllamav3#259 (2026)",),
    bugs=("B098",),
)
BASE_OF_ANY_LENGTH = Mistake(
    "base-of-any-length",
    "the base of dynamic-ntk is that of the longest context whatever the length of the sequence",
    "short sequences, which should be left alone, are turned by other angles",
    seen=("vllm-project/vllm#41236 (2026)",),
    bugs=("B076",),
)
LENGTH_FROM_HEADS = Mistake(
    "length-from-heads",
    "the length of the sequence is read off the axis of the heads",
    "the base is never raised",
)
SCALINGS = Clause(
    proposition=ROTARY,
    number="VI.2.10",
    slug="scalings",
    statement="The declared scalings for long contexts are their definitions: linear, NTK, dynamic NTK, YaRN and the "
    "rule of Llama 3.",
    formula=r"\theta'_i = \gamma_i\,\theta_i + (1-\gamma_i)\,\theta_i/s;\qquad "
    r"\mathrm{base}' = \mathrm{base}\cdot s^{d/(d-2)}",
    kind=Kind.BOUND,
    rests_on=(ANGLES,),
    conventions=("rotary_layout", "rotation"),
    mistakes=(WRONG_BAND, FACTOR_FORGOTTEN, BASE_OF_ANY_LENGTH, LENGTH_FROM_HEADS),
)

POSITION_LEAKS_IN = Mistake(
    "absolute-position-leaks-in",
    "sinusoidal positions are added to the embeddings as well",
    "the model is right only where the prompt begins at position zero",
    families=ROTARY_CAUSAL,
    whole=True,
)
CACHE_FORGETS_THE_START = Mistake(
    "cache-forgets-the-start",
    "on a cache positions are counted from the number of cached tokens, whatever the first one's position was",
    "a prompt that begins elsewhere is answered at wrong distances",
    families=ROTARY_CAUSAL,
    whole=True,
)
ONLY_DISTANCES = Clause(
    proposition=ROTARY,
    number="VI.2.7",
    slug="only-distances",
    statement="A model whose only positions are rotary gives the same logits when all of them are shifted, through a "
    "cache as well.",
    formula=r"f(x; p + k) = f(x; p)",
    kind=Kind.BOUND,
    level=(Level.MODEL,),
    rests_on=(RELATIVE,),
    mistakes=(POSITION_LEAKS_IN, CACHE_FORGETS_THE_START),
)
