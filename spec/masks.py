"""V.4: a mask is added before the softmax, so masked weights are exactly zero."""

from typing import Any

import numpy as np

from gnomon.spec.attention import ATTENTION
from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.evaluators import Floats, Mask
from gnomon.spec.families import CAUSAL, CAUSAL_POSITIONED, LEARNED_CAUSAL, WINDOWED

OP_AND_MODEL = (Level.OP, Level.MODEL)


def causal(queries: int, keys: int, alignment: str = "bottom-right") -> Mask:
    """Where query i may attend to key j: j ≤ i, the ends aligned at the declared corner. `[queries, keys]`."""
    return np.asarray(distance(queries, keys, alignment) >= 0)


def distance(queries: int, keys: int, alignment: str = "bottom-right") -> Any:
    """How many positions key j lies behind query i. `[queries, keys]`."""
    offset = keys - queries if alignment == "bottom-right" else 0
    return np.arange(queries)[:, None] + offset - np.arange(keys)


def window(queries: int, keys: int, width: int, alignment: str = "bottom-right") -> Mask:
    """Where key and query are fewer than `width` positions apart, the query's own included."""
    return np.asarray(np.abs(distance(queries, keys, alignment)) < width)


def split_additive(mask: Floats) -> tuple[Mask, Floats]:
    """An additive mask as the keys it permits and the finite bias it adds to their scores."""
    finite = np.isfinite(mask)
    return finite, np.where(finite, mask, 0.0)


MASKS = Proposition(
    number="V.4",
    slug="masks",
    statement="A mask is added before the softmax, so masked weights are exactly zero rather than small.",
    formula=r"A = \mathrm{softmax}(QK^\top/\sqrt{d_k} + M),\quad M_{ij} = 0\ (j\le i),\ -\infty\ (j>i)",
    source="Foundations, gathered: equation 8; Vaswani et al. 2017, section 3.2.3",
    rests_on=(ATTENTION,),
)

FINITE_PENALTY = Mistake(
    "finite-penalty",
    "ten thousand is subtracted from masked scores instead of infinity",
    "exact zeros on ordinary data, real weight once scores are large",
    seen=("a small public project (2022)",),
)
TINY_PENALTY = Mistake(
    "tiny-penalty",
    "the penalty is written -1e-9 for -1e9",
    "the mask has no effect",
    seen=("a small public project (2025)",),
    bugs=("B043",),
)
MASK_MULTIPLIED = Mistake(
    "mask-multiplied",
    "scores are multiplied by the mask, so masked ones become zero instead of minus infinity",
    "masked keys keep the weight of an average key",
)
SMALL_LEAK = Mistake(
    "small-leak",
    "a ten-thousandth of the unmasked weights is mixed in",
    "the future is visible, faintly; a model can learn to read it",
)
FILL_DISCARDED = Mistake(
    "fill-discarded",
    "the filled scores are computed and thrown away",
    "the mask has no effect",
    seen=("a small public project (2022)",),
    bugs=("B046",),
)
PADDING_ON_ROWS = Mistake(
    "padding-on-rows",
    "a padding mask is laid along the query axis, where it shifts whole rows and cancels",
    "the mask has no effect; legal wherever the lengths agree",
    seen=("a small public project (2019)",),
    bugs=("B028",),
    needs=("mask",),
)
BUILDER_OVERFLOWS = Mistake(
    "builder-overflows",
    "the mask is a 0/1 matrix times minus 1e9, which is infinite in half precision and NaN where the matrix is 0",
    "NaN in half precision; elsewhere a finite penalty that large scores pass",
    seen=("ml-explore/mlx#1725 (2024)",),
    bugs=("B045",),
    needs=("causal",),
)
ZERO_WEIGHT = Clause(
    proposition=MASKS,
    number="V.4.1",
    slug="zero-weight",
    statement="Masked weights, read off through identity values, are exactly zero.",
    formula=r"M_{ij}=-\infty \Rightarrow p_{ij} = 0",
    kind=Kind.EXACT,
    proven=True,
    conventions=("polarity",),
    mistakes=(
        FINITE_PENALTY,
        TINY_PENALTY,
        MASK_MULTIPLIED,
        SMALL_LEAK,
        FILL_DISCARDED,
        PADDING_ON_ROWS,
        BUILDER_OVERFLOWS,
    ),
)

CAUSAL_OFF_BY_ONE = Mistake(
    "causal-off-by-one",
    "the triangle is moved by one: each position sees its successor",
    "next-token loss falls to nothing in training and generation fails",
    needs=("causal",),
)
STATISTIC_OVER_POSITIONS = Mistake(
    "statistic-over-positions",
    "scores are centred by their mean over all positions before the mask",
    "invisible to a tolerance, since softmax cancels a shift, until the future is large",
)
FAINT_LEAK = Mistake(
    "faint-leak",
    "the future enters with a factor of 1e-40",
    "no tolerance sees it; a huge future value does",
    unseen={"float16": "its largest value times 1e-40 is below every output it stores"},
)
ONLY_FUTURE = Mistake(
    "only-future",
    "the causal mask is passed with the other library's polarity: only the future is attended",
    "a last row with nothing to attend to, or a loss that looks too good",
    seen=("rasbt/LLMs-from-scratch#1061 (2026)", "a small public project (2024)"),
    bugs=("B053", "B054"),
    needs=("causal",),
)
LAST_LAYER_SEES_ALL = Mistake(
    "last-layer-sees-all",
    "the causal mask is built for all layers but the last",
    "each position reads its successor once, which is enough to copy it",
    families=CAUSAL,
    whole=True,
)
PAST_UNCHANGED = Clause(
    proposition=MASKS,
    number="V.4.2",
    slug="past-unchanged",
    statement="Changing the future, also to huge finite values, leaves the past bit for bit unchanged at the same "
    "shape.",
    formula=r"x_{>t}\to x'_{>t} \Rightarrow f(x)_{\le t} = f(x')_{\le t}",
    kind=Kind.EXACT,
    proven=True,
    level=OP_AND_MODEL,
    rests_on=(ZERO_WEIGHT,),
    conventions=("alignment",),
    mistakes=(CAUSAL_OFF_BY_ONE, STATISTIC_OVER_POSITIONS, FAINT_LEAK, ONLY_FUTURE, LAST_LAYER_SEES_ALL),
)

MASK_FORWARD_ONLY = Mistake(
    "mask-forward-only",
    "the backward pass recomputes the weights without the mask",
    "the forward pass is right; what comes later is trained to help what came before",
    needs=("attention.causal",),
)
NO_GRADIENT_AHEAD = Clause(
    proposition=MASKS,
    number="V.4.3",
    slug="no-gradient-ahead",
    statement="The gradient of an output by a later input is exactly zero.",
    formula=r"\partial o_t / \partial x_s = 0 \quad (s > t)",
    kind=Kind.EXACT,
    level=OP_AND_MODEL,
    rests_on=(PAST_UNCHANGED,),
    conventions=("alignment",),
    mistakes=(MASK_FORWARD_ONLY,),
)

MASK_AFTER_SOFTMAX = Mistake(
    "mask-after-softmax",
    "weights are set to zero after the softmax and not divided again",
    "rows sum to less than one, the first rows most",
    seen=("huggingface/pytorch-image-models#2236 (2024)",),
    bugs=("B039",),
)
MASKED_EXPONENTIALS = Mistake(
    "masked-exponentials",
    "the mask multiplies the exponentials, whose shift is the maximum over masked scores too",
    "a masked score far above the rest leaves nothing to divide by: zeros or NaN",
)
RENORMALISED = Clause(
    proposition=MASKS,
    number="V.4.4",
    slug="renormalised",
    statement="The weights that remain are renormalised: they sum to 1.",
    formula=r"\sum_{j:\,M_{ij}=0} p_{ij} = 1",
    kind=Kind.BOUND,
    proven=True,
    mistakes=(MASK_AFTER_SOFTMAX, MASKED_EXPONENTIALS),
)

STRICT_INEQUALITY = Mistake(
    "strict-inequality",
    "j < i was written for j ≤ i, and the first position, which then sees nothing, is let see itself",
    "every token but the first is predicted without itself",
    needs=("causal",),
)
SEES_ITSELF = Clause(
    proposition=MASKS,
    number="V.4.5",
    slug="sees-itself",
    statement="Under a causal mask over as many keys as queries each position sees itself, and the first sees only "
    "itself.",
    formula=r"p_{ii} > 0,\qquad o_1 = v_1",
    kind=Kind.BOUND,
    proven=True,
    level=OP_AND_MODEL,
    conventions=("alignment",),
    mistakes=(STRICT_INEQUALITY,),
)

TOP_LEFT = Mistake(
    "top-left",
    "the triangle starts at the top-left corner when there are more keys than queries",
    "while decoding, every step sees the first key only",
    seen=("pytorch/pytorch#103082 (2023)", "google/flax#5591 (2026)"),
    bugs=("B030", "B033"),
    needs=("causal",),
)
ALIGNMENT_SWITCHES = Mistake(
    "alignment-switches",
    "the corner depends on which length is larger",
    "right for decoding and wrong for more queries than keys",
    seen=("ml-explore/mlx#2967 (2026)",),
    bugs=("B032",),
    needs=("causal",),
)
CACHE_OVERWRITES = Mistake(
    "cache-overwrites",
    "a new token's key and value are written over the last ones in the cache",
    "each step forgets the token before",
    families=CAUSAL,
    whole=True,
)
CACHE_IN_REVERSE = Mistake(
    "cache-in-reverse",
    "new keys are put in front of the cached ones, new values behind them",
    "right for one token, then weights meet other tokens' values",
    families=CAUSAL,
    whole=True,
)
POSITIONS_RESTART = Mistake(
    "positions-restart",
    "every call counts positions from zero, whatever the cache holds",
    "every generated token stands at the beginning",
    families=CAUSAL_POSITIONED,
    whole=True,
)
NO_POSITION_FOR_ONE = Mistake(
    "no-position-for-one",
    "a call of a single token adds no learned position",
    "generation goes on without positions after the prompt",
    seen=("ml-explore/mlx-lm#93 (2025)",),
    bugs=("B074",),
    families=LEARNED_CAUSAL,
    whole=True,
)
ONE_CACHE_FOR_ALL_LAYERS = Mistake(
    "one-cache-for-all-layers",
    "every layer reads the past of the first",
    "right with one layer",
    seen=("NVIDIA/TensorRT-LLM#2682 (2025)",),
    bugs=("B101",),
    families=CAUSAL,
    whole=True,
)
OFFSET_GROWS = Mistake(
    "offset-grows",
    "after the first step the length of the prompt is added to the position once more",
    "positions jump in the middle of an answer",
    seen=("a small public project (2025)",),
    bugs=("B104",),
    families=CAUSAL_POSITIONED,
    whole=True,
)
OFFSET_BEFORE_CACHE = Mistake(
    "offset-before-cache",
    "the causal mask is aligned before the cached keys are put in front of the new ones",
    "a decoded token sees the first key only",
    seen=("a small public project (2026)",),
    bugs=("B105",),
    families=CAUSAL,
    whole=True,
)
CROP_KEEPS_THE_END = Mistake(
    "crop-keeps-the-end",
    "a cache that is cropped loses its first tokens instead of its last",
    "a corrected prompt is continued as if its beginning had not been said",
    seen=("a small public project (2026)",),
    bugs=("B110",),
    families=CAUSAL,
    whole=True,
)
UNFILLED_SLOTS = Mistake(
    "unfilled-slots",
    "the cache is larger than what it holds, unfilled, and masked by minus infinity alone",
    "NaN that memory held before reaches the output, zero times NaN being NaN",
    seen=("a small public project (2026)",),
    bugs=("B117",),
    families=CAUSAL,
    whole=True,
)
TILES_BY_QUERIES = Mistake(
    "tiles-by-queries",
    "weights are kept in eight bits under the maximum of the tiles so far, and tiles are larger for a single query",
    "the log-probabilities of generated tokens are not those that training computes for them",
    seen=("sgl-project/sglang#25790 (2026)",),
    bugs=("B102",),
)
PAGES_OF_TWO_SIZES = Mistake(
    "pages-of-two-sizes",
    "the cache is written in pages of one size and read in pages of another",
    "right for prompts of one page",
    seen=("a small public project (2026)",),
    bugs=("B103",),
    families=CAUSAL,
    whole=True,
)
DECODES_AS_PREFILL = Clause(
    proposition=MASKS,
    number="V.4.6",
    slug="decodes-as-prefill",
    statement="Queries taken one at a time or in chunks, each against the keys up to it and masked from the "
    "bottom-right corner, give what the whole pass gives, also within a window.",
    formula=r"A(q_{a:b},K_{:b},V_{:b}) = A(Q,K,V)_{a:b}",
    kind=Kind.BOUND,
    proven=True,
    level=OP_AND_MODEL,
    rests_on=(PAST_UNCHANGED,),
    conventions=("alignment", "window"),
    mistakes=(
        TOP_LEFT,
        ALIGNMENT_SWITCHES,
        CACHE_OVERWRITES,
        CACHE_IN_REVERSE,
        POSITIONS_RESTART,
        NO_POSITION_FOR_ONE,
        ONE_CACHE_FOR_ALL_LAYERS,
        OFFSET_GROWS,
        OFFSET_BEFORE_CACHE,
        CROP_KEEPS_THE_END,
        UNFILLED_SLOTS,
        TILES_BY_QUERIES,
        PAGES_OF_TWO_SIZES,
    ),
)

INVERTED_BOOLEAN = Mistake(
    "inverted-boolean",
    "true is read as blocked where it was declared as kept",
    "padding is attended and text is not",
    needs=("mask",),
)
ADDITIVE_AS_BOOLEAN = Mistake(
    "additive-as-boolean",
    "an additive mask is cast to boolean: 0 becomes false and minus infinity true",
    "the mask works the wrong way round, or not at all",
    seen=("pytorch/pytorch#92554 (2023)",),
    bugs=("B040",),
    needs=("mask",),
)
ADDITIVE_IGNORED = Mistake(
    "additive-ignored",
    "only boolean masks are applied; an additive one has no effect",
    "padding is attended whenever the mask comes as numbers",
    seen=("a small public project (2024)",),
    bugs=("B041",),
    needs=("mask",),
)
ONE_MEANING = Clause(
    proposition=MASKS,
    number="V.4.7",
    slug="one-meaning",
    statement="A boolean mask and the additive mask that says the same agree, and the declared polarity is the "
    "real one.",
    formula=r"A(Q,K,V;B) = A(Q,K,V;M),\quad M_{ij} = 0\ (B_{ij}),\ -\infty\ (\neg B_{ij})",
    kind=Kind.BOUND,
    conventions=("polarity",),
    mistakes=(INVERTED_BOOLEAN, ADDITIVE_AS_BOOLEAN, ADDITIVE_IGNORED),
)

NAN_FOR_EMPTY_ROW = Mistake(
    "nan-for-empty-row",
    "zeros are promised for a row with every key masked and the plain softmax gives NaN",
    "NaN enters the residual stream at the first padded row",
    seen=("pytorch/pytorch#103963 (2023)",),
    bugs=("B036",),
)
EMPTY_ROW_SPREADS = Mistake(
    "empty-row-spreads",
    "one shift, the smallest of the rows' maxima, serves the whole batch, so one empty row makes all NaN",
    "one padded row spoils every other",
)
SMALLEST_NUMBER_OVERFLOWS = Mistake(
    "smallest-number-overflows",
    "the format's smallest number is added to the scores, which overflows to minus infinity in half precision",
    "the mean of the values was promised for an empty row and something else comes",
    seen=("huggingface/transformers#18057 (2022)",),
    bugs=("B021",),
    unseen=dict.fromkeys(
        ("float64", "float32", "bfloat16"),
        "an ordinary score is absorbed by the smallest number, so nothing overflows",
    ),
)
EMPTY_ROW_GRADIENT_SPREADS = Mistake(
    "empty-row-gradient-spreads",
    "the backward pass of a softmax over nothing gives NaN, whatever the gradient above, and keys and values add it up",
    "the forward pass is right; one padded query makes every gradient NaN",
    needs=("attention.mask",),
)
EMPTY_ROW = Clause(
    proposition=MASKS,
    number="V.4.8",
    slug="empty-row",
    statement="A query with every key masked gives the declared result, zeros, the mean of the values or NaN in "
    "that row, and touches no other row, in the gradient either.",
    formula=r"\forall j\,M_{ij}=-\infty:\ o_i \in \{0,\ \bar v,\ \mathrm{NaN}\}\text{ as declared}",
    kind=Kind.BOUND,
    level=OP_AND_MODEL,
    conventions=("empty_row",),
    mistakes=(NAN_FOR_EMPTY_ROW, EMPTY_ROW_SPREADS, SMALLEST_NUMBER_OVERFLOWS, EMPTY_ROW_GRADIENT_SPREADS),
)

LEFT_PADDING_SHIFTS = Mistake(
    "left-padding-shifts",
    "positions are counted from the left edge, padding included, whatever positions were given",
    "the shorter row of a batch is answered worse",
    seen=("a small public project (2026)", "unslothai/unsloth#3699 (2025)"),
    bugs=("B245", "B246"),
    families=("gpt2", "opt", "bert", "encoder-2017"),
    whole=True,
)
PADDING_ATTENDED = Mistake(
    "padding-attended",
    "a mask of padding reaches the model and no layer",
    "padding is read like text",
    whole=True,
)
PADDING_FORGOTTEN_WITH_CACHE = Mistake(
    "padding-forgotten-with-cache",
    "in a call on a cache the mask of padding goes to an argument that self-attention does not read",
    "the prompt is padded rightly and every generated token reads the padding",
    seen=("lucidrains/x-transformers#187 (2023)",),
    bugs=("B108",),
    families=CAUSAL,
    whole=True,
)
POSITION_FROM_COLUMN = Mistake(
    "position-from-column",
    "in a call on a cache positions are the columns of the batch, as if no row had padding",
    "a padded row jumps ahead at its first generated token",
    seen=("a small public project (2023)",),
    bugs=("B075",),
    families=CAUSAL_POSITIONED,
    whole=True,
)
PADDING = Clause(
    proposition=MASKS,
    number="V.4.9",
    slug="padding",
    statement="Padding does not matter: whatever it holds, however much, left or right, real tokens keep their "
    "outputs, also while decoding.",
    formula=r"f(\mathrm{pad}(x))_{\text{real}} = f(x)",
    kind=Kind.BOUND,
    level=(Level.MODEL,),
    rests_on=(ZERO_WEIGHT, DECODES_AS_PREFILL),
    mistakes=(LEFT_PADDING_SHIFTS, PADDING_ATTENDED, PADDING_FORGOTTEN_WITH_CACHE, POSITION_FROM_COLUMN),
)

MASK_BY_POSITION_ONLY = Mistake(
    "mask-by-position-only",
    "a mask of pairs is dropped, so that position alone says who sees whom",
    "packed documents read one another",
    whole=True,
)
PACKED = Clause(
    proposition=MASKS,
    number="V.4.10",
    slug="packed",
    statement="Documents that are packed into one row and masked from one another do not see one another.",
    formula=r"x_{D'}\to x'_{D'} \Rightarrow f(x)_D = f(x')_D",
    kind=Kind.EXACT,
    level=(Level.MODEL,),
    rests_on=(ZERO_WEIGHT,),
    mistakes=(MASK_BY_POSITION_ONLY,),
)

WINDOW_ONE_MORE = Mistake(
    "window-one-more",
    "i−j ≤ w was written for i−j < w",
    "each query sees one key too many",
    seen=(
        "huggingface/transformers#26792 (2023)",
        "huggingface/transformers#39408 (2025)",
        "a small public project (2026)",
    ),
    bugs=("B055", "B056", "B057"),
)
WINDOW_ONE_LESS = Mistake(
    "window-one-less",
    "i−j < w−1 was written for i−j < w",
    "each query sees one key too few",
)
WINDOW_UNLIMITED = Mistake(
    "window-unlimited",
    "the width arrives negated, which the kernel takes for no limit",
    "the window has no effect",
    seen=("a small public project (2024)",),
    bugs=("B060",),
)
RIGHT_BOUND_STRICT = Mistake(
    "right-bound-strict",
    "without a causal mask the right bound is strict where the left one is not",
    "a window on both sides sees one key less ahead than behind",
    seen=("huggingface/transformers#47010 (2026)",),
    bugs=("B059",),
)
WINDOW_IN_OTHER_LAYERS = Mistake(
    "window-in-other-layers",
    "layers with a window and layers without one are exchanged",
    "the first layer sees everything; far tokens matter where they should not",
    families=WINDOWED,
    whole=True,
)
WINDOW = Clause(
    proposition=MASKS,
    number="V.4.11",
    slug="window",
    statement="A sliding window keeps exactly w keys, the query's own included, and as many on the other side "
    "where nothing is causal.",
    formula=r"p_{ij} > 0 \iff 0 \le i-j < w",
    kind=Kind.EXACT,
    level=OP_AND_MODEL,
    conventions=("window", "alignment"),
    mistakes=(WINDOW_ONE_MORE, WINDOW_ONE_LESS, WINDOW_UNLIMITED, RIGHT_BOUND_STRICT, WINDOW_IN_OTHER_LAYERS),
)

NAN_LEAKS = Mistake(
    "nan-leaks",
    "NaN in a masked key or value reaches the output although it was declared blocked",
    "uninitialised cache memory turns into NaN",
    seen=("pytorch/pytorch#101967 (2023)",),
    bugs=("B026",),
)
HUGE_LEAKS = Mistake(
    "huge-leaks",
    "all values are centred before the product, so a huge masked value takes the others' digits",
    "one uninitialised number in a cache spoils every output",
)
BEHIND_THE_MASK = Clause(
    proposition=MASKS,
    number="V.4.12",
    slug="behind-the-mask",
    statement="What NaN behind a mask does is what was declared, and huge finite content there never matters.",
    formula=r"M_{ij}=-\infty \Rightarrow \partial o_i/\partial(k_j,v_j) = 0",
    kind=Kind.EXACT,
    rests_on=(ZERO_WEIGHT,),
    conventions=("masked_key", "masked_value"),
    mistakes=(NAN_LEAKS, HUGE_LEAKS),
)

MASK_REPLACES_MASK = Mistake(
    "mask-replaces-mask",
    "a given mask replaces the causal one instead of joining it",
    "padding is masked and the future is seen",
    needs=("mask", "causal"),
)
TWO_PENALTIES = Mistake(
    "two-penalties",
    "two masks of the format's smallest number are added and overflow where both hold",
    "rows with nothing to attend to average over other keys than declared",
    seen=("huggingface/transformers#27114 (2023)",),
    bugs=("B042",),
    needs=("mask", "causal"),
)
FOLDED_IN_OTHER_ORDER = Mistake(
    "folded-in-other-order",
    "heads and batch are folded into one axis in one order for the scores and in the other for the mask",
    "row two's padding masks head two's keys",
    needs=("mask",),
)
COMBINED = Clause(
    proposition=MASKS,
    number="V.4.13",
    slug="combined",
    statement="Masks combine as a logical and, and a mask that broadcasts over batch or heads equals its expanded "
    "form.",
    formula=r"A(\cdot;B_1,B_2) = A(\cdot;B_1\land B_2)",
    kind=Kind.BOUND,
    level=OP_AND_MODEL,
    rests_on=(ONE_MEANING,),
    conventions=("empty_row",),
    mistakes=(MASK_REPLACES_MASK, TWO_PENALTIES, FOLDED_IN_OTHER_ORDER),
)
