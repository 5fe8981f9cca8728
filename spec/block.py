"""VII.1: mix across positions, then compute within one; the additions are the stream."""

from collections.abc import Callable, Mapping
from typing import Any

from gnomon.spec import rotary
from gnomon.spec.attention import attention
from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.configuration import Configuration
from gnomon.spec.constants import Constant, exactly
from gnomon.spec.evaluators import Evaluator, Mask, Quantity
from gnomon.spec.families import (
    ANY_FINAL,
    FINAL,
    IDENTITY,
    NO_EXACT_GELU,
    OFFSET,
    PARALLEL,
    PRE_NORM,
    PRE_SEQUENTIAL,
    ROTARY,
    SCALED,
    SEQUENTIAL,
)
from gnomon.spec.gradient import GRADIENT
from gnomon.spec.heads import HEADS, merge_heads, split_heads
from gnomon.spec.linear import feed_forward, linear
from gnomon.spec.masks import MASKS
from gnomon.spec.norms import layer_norm, rms_norm
from gnomon.spec.order import ORDER, alibi_bias
from gnomon.spec.rotary import rope
from gnomon.spec.trained import UNTRAINED

Mark = Callable[[str, Quantity], Quantity]


def unmarked(name: str, value: Quantity) -> Quantity:
    """The value: nobody looks."""
    return value


def norm(E: Evaluator, c: Configuration, x: Quantity, parameters: Mapping[str, Any], name: str) -> Quantity:
    """The configuration's norm with the gain and shift of that name."""
    gain = parameters[f"{name}_weight"]
    if c.norm == "rms":
        return rms_norm(E, x, gain, eps=c.epsilon, offset=c.norm_offset)
    return layer_norm(E, x, gain, parameters.get(f"{name}_bias"), eps=c.epsilon, offset=c.norm_offset)


def block(
    E: Evaluator,
    c: Configuration,
    x: Any,
    parameters: Mapping[str, Any],
    *,
    positions: Any,
    allowed: Mask | None = None,
    scale: Constant | None = None,
    mapping: str = "grouped",
    mark: Mark = unmarked,
) -> Quantity:
    """The stream after one block, norms where the configuration places them.

    x `[batch, time, width]`; parameters as `gnomon.spec.shapes.block_shapes` names them; positions `[time]` or
    `[batch, time]`; allowed broadcasts to `[batch, heads, time, time]`. Source: Vaswani et al. 2017, section 3.1; Xiong
    et al. 2020 for norms before; Wang and Komatsuzaki 2021 for both sublayers in parallel.
    """
    x = E.number(x)

    def sublayer(name: str, stream: Quantity) -> Quantity:
        before = c.placement in ("pre", "sandwich")
        own = f"{name}_norm" if f"{name}_norm_weight" in parameters else "attention_norm"
        inner = mark(f"{name}_input", norm(E, c, stream, parameters, own)) if before else stream
        if name == "attention":
            out = self_attention(E, c, inner, parameters, positions, allowed, scale, mapping, mark)
        else:
            out = feed_forward(E, inner, parameters, c.activation)
        out = mark(f"{name}_output", out)
        after = {"sandwich": f"{name}_post_norm", "after": f"{name}_norm"}.get(c.placement)
        return out if after is None else norm(E, c, out, parameters, after)

    def added(name: str, stream: Quantity, contribution: Quantity) -> Quantity:
        total = E.store(stream + contribution, "stream")
        return norm(E, c, total, parameters, f"{name}_norm") if c.placement == "post" else total

    attended = sublayer("attention", x)
    if c.parallel:
        return mark("stream", E.added([attended, sublayer("feed_forward", x), x], "stream"))
    stream = mark("attended", added("attention", x, attended))
    return mark("stream", added("feed_forward", stream, sublayer("feed_forward", stream)))


def self_attention(
    E: Evaluator, c: Configuration, x: Quantity, parameters: Mapping[str, Any], positions: Any, allowed: Mask | None,
    scale: Constant | None, mapping: str, mark: Mark,
) -> Quantity:  # fmt: skip
    """Attention among the positions of one sequence, through the block's own projections."""
    query, key, value = projected(E, c, x, parameters, mark)
    if c.rotated:
        query = mark("rotated_query", rope(E, query, positions, c.rotary))
        key = mark("rotated_key", rope(E, key, positions, c.rotary))
    bias = alibi_bias(E, c.heads, positions, positions) if c.position_kind == "alibi" else None
    mixed = attention(
        E, query, key, value, allowed=allowed, bias=bias, scale=scale, softcap=c.score_cap or None, mapping=mapping
    )
    merged = mark("mixed", merge_heads(mixed))
    return linear(E, merged, parameters["output_weight"], parameters.get("output_bias"))


def projected(
    E: Evaluator, c: Configuration, x: Quantity, parameters: Mapping[str, Any], mark: Mark
) -> tuple[Quantity, Quantity, Quantity]:
    """Query, key and value, `[batch, heads, time, head_width]`, the first two normed where that is declared."""

    def project(name: str, heads: int) -> Quantity:
        flat = linear(E, x, parameters[f"{name}_weight"], parameters.get(f"{name}_bias"))
        gain = parameters.get(f"{name}_norm_weight")
        if gain is not None and c.query_key_norm == "width":
            flat = rms_norm(E, flat, gain, eps=c.epsilon, offset=c.norm_offset)
        own = split_heads(flat, heads)
        if gain is not None and c.query_key_norm == "head":
            own = rms_norm(E, own, gain, eps=c.epsilon, offset=c.norm_offset)
        return mark(name, own)

    return project("query", c.heads), project("key", c.kv_heads), project("value", c.kv_heads)


def score_scale(c: Configuration) -> Constant | None:
    """The declared scale of the scores where it is not that of the head width."""
    if not c.score_divisor:
        return None
    return Constant(1 / exactly(c.score_divisor).ratio, exactly(c.score_divisor).ratio)


BLOCK = Proposition(
    number="VII.1",
    slug="block",
    statement="A block mixes across positions, then computes within one, and the additions are the stream.",
    formula=r"x \leftarrow x + \mathrm{Attention}(\mathrm{Norm}(x)),\qquad x \leftarrow x + F(\mathrm{Norm}(x))",
    source="Foundations, gathered: equation 7; vocabulary: residual stream; He et al. 2016; Xiong et al. 2020; "
    "Elhage et al. 2021",
    rests_on=(HEADS, MASKS, ORDER, rotary.ROTARY, GRADIENT),
)

NO_HALF_PRECISION = "nothing is narrower than the arithmetic"
UNBIASED_VARIANCE = Mistake(
    "unbiased-variance",
    "the variance is divided by n - 1",
    "outputs are too small by a factor 1 - 1/(2n), least where the model is wide",
    seen=("harvardnlp/annotated-transformer#119 (2024)",),
    bugs=("B131",),
)
EPSILON_OUTSIDE_ROOT = Mistake(
    "epsilon-outside-root",
    "epsilon is added to the root of the variance, not under it",
    "rows of small variance come out up to 1/√ε times larger",
    seen=("tracel-ai/burn#2185 (2024)", "allenai/OLMo#281 (2023)"),
    bugs=("B124", "B127"),
)
EPSILON_OF_THE_FORMAT = Mistake(
    "epsilon-of-the-format",
    "epsilon is the spacing at one of the arguments' format, whatever was given",
    "the same weights give other activations in other precisions, most where the stream is small",
    seen=("pytorch/pytorch#189581 (2026)",),
    bugs=("B125",),
)
EPSILON_IGNORED = Mistake(
    "epsilon-ignored",
    "there is no epsilon, whatever was given",
    "right for streams of ordinary size; a row of zeros gives NaN and a small one is blown up",
)
SQUARED_FOR_ROOT = Mistake(
    "squared-for-root",
    "the row is divided by the square of its variance, not by the root",
    "right for rows of variance one; others are thrown far from it",
    seen=("a small public project (2021)",),
    bugs=("B132",),
)
NORM_OVER_TIME = Mistake(
    "norm-over-time",
    "mean and mean square are taken over the positions, not over the features",
    "a position sees the whole sequence, the future included",
)
STATISTICS_IN_STORAGE = Mistake(
    "statistics-in-storage",
    "squares and their mean are kept in the 16 bits of the arguments",
    "squares overflow above 256 and vanish below 2⁻¹² in float16; in bfloat16 their sum loses its small terms",
    seen=("pytorch/pytorch#133085 (2024)", "a small public project (2025)"),
    bugs=("B129", "B130"),
    unseen={"float64": NO_HALF_PRECISION, "float32": NO_HALF_PRECISION},
)
CENTRED_RMS = Mistake(
    "centred-rms",
    "RMSNorm subtracts the mean of the features first",
    "what the stream holds along the mean direction is lost; a network trained so works",
)
NORMS = Clause(
    proposition=BLOCK,
    number="VII.1.5",
    slug="norms",
    statement="LayerNorm and RMSNorm take their statistics over the features alone, with the biased variance and with "
    "epsilon inside the root; at epsilon zero LayerNorm forgets the shift and the positive scale of a row, RMSNorm "
    "the scale alone.",
    formula=r"\mathrm{LN}(x)=\frac{x-\bar x}{\sqrt{\overline{(x-\bar x)^2}+\varepsilon}}\odot g+b,\quad "
    r"\mathrm{RMS}(x)=\frac{x}{\sqrt{\overline{x^2}+\varepsilon}}\odot g;\qquad \varepsilon=0:\ "
    r"\mathrm{LN}(ax+c)=\mathrm{LN}(x),\ \mathrm{RMS}(ax)=\mathrm{RMS}(x),\ a>0",
    kind=Kind.BOUND,
    proven=True,
    mistakes=(
        UNBIASED_VARIANCE, EPSILON_OUTSIDE_ROOT, EPSILON_OF_THE_FORMAT, EPSILON_IGNORED, SQUARED_FOR_ROOT,
        NORM_OVER_TIME, STATISTICS_IN_STORAGE, CENTRED_RMS,
    ),
)  # fmt: skip

POST_FOR_PRE = Mistake(
    "post-for-pre",
    "norms stand after the additions where they were declared before the sublayers",
    "trains from scratch; weights from elsewhere give noise",
    families=PRE_SEQUENTIAL,
    whole=True,
)
NORM_ON_THE_STREAM = Mistake(
    "norm-on-the-stream",
    "the normed stream is what the sublayer's output is added to",
    "each block rescales the stream, and depth loses what the embedding said",
    families=PRE_SEQUENTIAL,
    whole=True,
)
SEQUENTIAL_FOR_PARALLEL = Mistake(
    "sequential-for-parallel",
    "the feed-forward network reads the stream after attention where both should read the same",
    "close to right, since attention moves the stream little",
    families=PARALLEL,
    whole=True,
)
ADDED_TO_WHAT_CAME_IN = Mistake(
    "added-to-what-came-in",
    "the second addition takes the block's input in place of the stream after attention",
    "attention reaches the output only through the feed-forward network",
    seen=("a small public project (2021)",),
    bugs=("B135",),
    families=SEQUENTIAL,
    whole=True,
)
GAIN_WITHOUT_ONE = Mistake(
    "gain-without-one",
    "gains that are stored less one are used as they are stored",
    "a fresh model gives zeros, a loaded one a distorted stream",
    seen=("linkedin/Liger-Kernel#74 (2024)",),
    bugs=("B137",),
    families=OFFSET,
    whole=True,
)
DEFINITION = Clause(
    proposition=BLOCK,
    number="VII.1.1",
    slug="definition",
    statement="A block is its definition: attention, then a feed-forward network, each added to the stream, with norms "
    "where they are declared.",
    formula=r"y = x + \mathrm{A}(\mathrm{N}_1 x),\qquad z = y + \mathrm{F}(\mathrm{N}_2 y)",
    kind=Kind.BOUND,
    level=(Level.BLOCK, Level.MODEL),
    mistakes=(
        POST_FOR_PRE, NORM_ON_THE_STREAM, SEQUENTIAL_FOR_PARALLEL, ADDED_TO_WHAT_CAME_IN, GAIN_WITHOUT_ONE,
    ),
)  # fmt: skip

RESIDUAL_MISSING = Mistake(
    "residual-missing",
    "the feed-forward network's output replaces the stream",
    "a shallow model still trains, a deep one does not",
    families=IDENTITY,
    whole=True,
)
RESIDUAL_DOUBLED = Mistake(
    "residual-doubled",
    "the stream is overwritten before it is added to itself",
    "the stream doubles with every block",
    seen=("a small public project (2024)",),
    bugs=("B136",),
    families=IDENTITY,
    whole=True,
)
NORM_ON_THE_PATH = Mistake(
    "norm-on-the-path",
    "the block ends with a norm of the stream",
    "with post-norm weights it is right; elsewhere the identity is lost",
    families=IDENTITY,
    whole=True,
)
IDENTITY_PATH = Clause(
    proposition=BLOCK,
    number="VII.1.2",
    slug="identity-path",
    statement="With both output projections zero a block is the identity, bit for bit, where no norm is declared on "
    "the path.",
    formula=r"W_O = 0,\ W_{\downarrow} = 0 \Rightarrow z = x",
    kind=Kind.EXACT,
    level=(Level.BLOCK, Level.MODEL),
    rests_on=(DEFINITION,),
    mistakes=(RESIDUAL_MISSING, RESIDUAL_DOUBLED, NORM_ON_THE_PATH),
)

RESIDUAL_AFTER_NORM = Mistake(
    "residual-after-norm",
    "the normed input, not the stream, is what the network's output is added to",
    "the stream is no sum of contributions any more",
    families=PRE_NORM,
    whole=True,
)
SUM_OF_CONTRIBUTIONS = Clause(
    proposition=BLOCK,
    number="VII.1.3",
    slug="sum-of-contributions",
    statement="The final stream is the embedding plus what every sublayer contributed.",
    formula=r"x_L = x_0 + \sum_l (a_l + f_l)",
    kind=Kind.BOUND,
    level=(Level.MODEL,),
    rests_on=(DEFINITION,),
    mistakes=(RESIDUAL_AFTER_NORM,),
)

NORM_OVER_POSITIONS = Mistake(
    "norm-over-positions",
    "the feed-forward network's hidden units are scaled by their mean size over the positions",
    "the network mixes positions, the future included",
    whole=True,
)
NETWORK_CONVOLVES = Mistake(
    "network-convolves",
    "the feed-forward network reads a tenth of the position before as well",
    "a dependency that no mask controls",
    whole=True,
)
ONLY_ATTENTION_MIXES = Clause(
    proposition=BLOCK,
    number="VII.1.4",
    slug="only-attention-mixes",
    statement="Attention mixes positions and nothing else does: with its output projection zero no output depends on "
    "another position, bit for bit.",
    formula=r"W_O = 0 \Rightarrow \partial y_i/\partial x_j = 0,\ i \ne j",
    kind=Kind.EXACT,
    level=(Level.BLOCK, Level.MODEL),
    rests_on=(DEFINITION,),
    mistakes=(NORM_OVER_POSITIONS, NETWORK_CONVOLVES),
)

FINAL_NORM_MISSING = Mistake(
    "final-norm-missing",
    "the unembedding reads the stream without the last norm",
    "logits of another size; greedy decoding is often the same",
    families=FINAL,
    whole=True,
)
FINAL_NORM = Clause(
    proposition=BLOCK,
    number="VII.1.6",
    slug="final-norm",
    statement="The last norm stands before the unembedding: twice its gain and shift give twice the logits.",
    formula=r"\ell = W_U\,\mathrm{N}(x_L)",
    kind=Kind.BOUND,
    level=(Level.MODEL,),
    rests_on=(NORMS,),
    mistakes=(FINAL_NORM_MISSING,),
)

EMBEDDING_SCALED_TWICE = Mistake(
    "embedding-scaled-twice",
    "token vectors are multiplied by the root of the width twice",
    "positions and first norms meet a stream that is too large",
    seen=("a small public project (2026)",),
    bugs=("B119",),
    families=SCALED,
    whole=True,
)
BASE_OF_ANOTHER_MODEL = Mistake(
    "base-of-another-model",
    "the declared rotary base is not read and ten thousand used",
    "right for short prompts, worse with every token",
    seen=("a small public project (2026)", "a small public project (2025)"),
    bugs=("B095", "B096"),
    families=ROTARY,
    whole=True,
)
ACTIVATION_BY_DEFAULT = Mistake(
    "activation-by-default",
    "every network uses the exact GELU",
    "a thousandth off for the tanh form, plainly wrong for others",
    families=NO_EXACT_GELU,
    whole=True,
)
WHOLE_PLATE = Clause(
    proposition=BLOCK,
    number="VII.1.9",
    slug="whole-plate",
    statement="From ids to logits the model is what its configuration says, for every family.",
    formula=r"\ell = W_U\,\mathrm{N}(\mathrm{B}_L\cdots\mathrm{B}_1(E_x + P))",
    kind=Kind.BOUND,
    level=(Level.MODEL,),
    rests_on=(DEFINITION, FINAL_NORM, NORMS),
    mistakes=(EMBEDDING_SCALED_TWICE, BASE_OF_ANOTHER_MODEL, ACTIVATION_BY_DEFAULT),
)

DEPTH_FACTOR_MISSING = Mistake(
    "depth-factor-missing",
    "what writes into the stream is drawn as wide as everything else",
    "the variance of the stream grows with the depth",
)
ROWS_ZEROED_BY_ACCIDENT = Mistake(
    "rows-zeroed-by-accident",
    "the row of id 0 of every table is set to zero as if it were padding",
    "the first word of the vocabulary starts, and often stays, without a vector",
    seen=("pytorch/pytorch#6411 (2018)",),
    bugs=("B208",),
)
LOADED_THEN_INITIALISED = Mistake(
    "loaded-then-initialised",
    "initialisation runs after loading and reaches the last norm",
    "fine-tuning starts from a model that nobody trained",
    families=ANY_FINAL,
    whole=True,
)
INITIALISATION = Clause(
    proposition=BLOCK,
    number="VII.1.10",
    slug="initialisation",
    statement="Initial weights are normal with the declared deviation, over √(2·layers) for what writes into the "
    "stream where that is declared; gains are one, shifts and biases zero; and what was loaded is not touched.",
    formula=r"W_{ij}\sim\mathcal N(0,\sigma^2),\qquad \sigma_{O,\downarrow} = \sigma/\sqrt{2L}",
    kind=Kind.STAT,
    level=(Level.OP, Level.MODEL),
    mistakes=(DEPTH_FACTOR_MISSING, ROWS_ZEROED_BY_ACCIDENT, LOADED_THEN_INITIALISED),
)

RESIDUAL_WITHIN = Mistake(
    "residual-within",
    "the feed-forward network adds its input to its result, and the block adds it once more",
    "the stream doubles at every block; a shallow model hides it, a deep one diverges",
    unseen=UNTRAINED,
)
DEGRADATION = Clause(
    proposition=BLOCK,
    number="VII.1.8",
    slug="degradation",
    statement="A deep plain stack of networks ends with a higher training loss than a single network; "
    "with residuals the deep stack ends lower: ten of them against one, after 80 steps.",
    formula=r"x \leftarrow F_\ell(x):\ L_{10} > L_1,\qquad x \leftarrow x + F_\ell(x):\ L_{10} < L_1",
    kind=Kind.TRAINED,
    level=(Level.TRAIN,),
    mistakes=(RESIDUAL_WITHIN,),
)

DEPTH_GRADIENTS = Clause(
    proposition=BLOCK,
    number="VII.1.7",
    slug="depth-gradients",
    statement="The residual's Jacobian is the identity plus something: at initialisation the gradient that reaches the "
    "input survives depth where that of the plain stack does not, and with more layers the gradient of the last one "
    "falls like 1/√L where norms stand before the sublayers and does not fall where they stand after the additions.",
    formula=r"\frac{\partial x_L}{\partial x_0} = \prod_l (I + J_l),\qquad "
    r"\left\|\frac{\partial \ell}{\partial W_L}\right\| = O(L^{-1/2})\text{ before},\ O(1)\text{ after}",
    kind=Kind.STAT,
    level=(Level.MODEL,),
    control="the plain stack, and the two placements of norms, are told apart",
)
