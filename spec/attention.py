"""V.1: attention is a weighted average of values, with weights from content."""

from typing import Any

import numpy as np

from gnomon.spec.card import Clause, Kind, Mistake, Proposition
from gnomon.spec.constants import Constant, exactly, inverse_root
from gnomon.spec.embedding import EMBEDDING
from gnomon.spec.evaluators import Evaluator, Mask, Quantity
from gnomon.spec.linear import LINEAR


def softmax(E: Evaluator, logits: Any) -> Quantity:
    """e^x over its sum, along the last axis."""
    return E.store(E.softmax(E.number(logits)), "out")


def attention(
    E: Evaluator,
    query: Any,
    key: Any,
    value: Any,
    *,
    allowed: Mask | None = None,
    bias: Any = None,
    scale: Constant | None = None,
    softcap: float | None = None,
    sink: Any = None,
    mapping: str = "grouped",
) -> Quantity:
    """softmax(QKᵀ/√dₖ + M)V, the weighted average of the values.

    query `[..., heads, queries, head_width]`, key `[..., kv_heads, keys, head_width]`, value
    `[..., kv_heads, keys, value_width]`; our head_width is the paper's dₖ. allowed: where a query may attend,
    broadcast to `[..., heads, queries, keys]`. bias is added to the scores after the cap c·tanh(s/c). A sink is
    one more key per head whose score is given and whose value is zero. Source: Vaswani et al. 2017, 3.2.1.
    """
    value = share_heads(E.number(value), query.shape[-3], mapping)
    scores = attention_scores(E, query, key, bias=bias, scale=scale, softcap=softcap, mapping=mapping)
    if sink is not None:
        scores, value, allowed = _with_sink(E, scores, value, allowed, sink)
    return E.store(E.weigh(scores, value, allowed), "out")


def attention_weights(E: Evaluator, query: Any, key: Any, *, allowed: Mask | None = None, **scoring: Any) -> Quantity:
    """The weights `[..., heads, queries, keys]`, which is what attention gives for identity values."""
    scores = attention_scores(E, query, key, **scoring)
    return E.store(E.weights(scores, allowed), "out")


def attention_scores(
    E: Evaluator,
    query: Any,
    key: Any,
    *,
    bias: Any = None,
    scale: Constant | None = None,
    softcap: float | None = None,
    mapping: str = "grouped",
) -> Quantity:
    """The logits of the weights, `[..., heads, queries, keys]`, before any mask."""
    query, key = E.number(query), share_heads(E.number(key), query.shape[-3], mapping)
    scores = E.scores(query, key, inverse_root(query.shape[-1]) if scale is None else scale)
    if softcap is not None:
        cap = E.constant(exactly(softcap))
        scores = E.store(E.store(E.tanh(E.store(scores / cap, "capped")), "capped") * cap, "capped")
    return scores if bias is None else E.store(scores + E.number(bias), "biased")


def share_heads(a: Quantity, heads: int, mapping: str) -> Quantity:
    """The key or value head that each query head reads: i·h_kv//h where grouped, i mod h_kv where tiled."""
    shared = a.shape[-3]
    if shared == heads:
        return a
    index = np.arange(heads)
    return a.take(index * shared // heads if mapping == "grouped" else index % shared, axis=-3)


def _with_sink(E: Evaluator, scores: Any, value: Any, allowed: Mask | None, sink: Any) -> tuple[Any, Any, Mask]:
    """The scores, values and mask with the sink as a last key."""
    leading, queries = scores.shape[:-2], scores.shape[-2]
    heads = np.broadcast_to(np.asarray(sink, float)[:, None, None], (*leading, queries, 1))
    nothing = np.zeros((*value.shape[:-2], 1, value.shape[-1]))
    seen = np.ones(scores.shape, bool) if allowed is None else np.broadcast_to(allowed, scores.shape)
    return (
        E.concat([scores, E.number(heads)], -1),
        E.concat([value, E.number(nothing)], -2),
        np.concatenate([seen, np.ones((*leading, queries, 1), bool)], -1),
    )


ATTENTION = Proposition(
    number="V.1",
    slug="attention",
    statement="Attention is a weighted average of the values, with weights computed from content.",
    formula=r"\mathrm{Attention}(Q,K,V) = \mathrm{softmax}(QK^\top/\sqrt{d_k})\,V",
    source="Foundations, gathered: equation 5, second usual mistake, laboratory 2; Vaswani et al. 2017, section 3.2.1; "
    "Dao et al. 2022; Elhage et al. 2021",
    rests_on=(LINEAR, EMBEDDING),
    said="Attention means the model focuses on the important tokens.",
    so="It computes an average under weights of similarity; other weights can give the same average, so the "
    "weights are weak evidence of what the model used.",
)

OPERANDS_EXCHANGED = Mistake(
    "operands-exchanged",
    "the weight matrix is multiplied with the values untransposed, query and key axes exchanged",
    "runs wherever the matrix is square; each output averages under another row's weights",
    seen=("a small public project (2018)",),
    bugs=("B025",),
)
EQUATION = Clause(
    proposition=ATTENTION,
    number="V.1.1",
    slug="equation",
    statement="The output equals softmax(QKᵀ/√dₖ)V.",
    formula=r"o_i = \sum_j p_{ij} v_j,\quad p_i = \mathrm{softmax}(q_i\cdot k_j/\sqrt{d_k})_j",
    kind=Kind.BOUND,
    conventions=("scale", "head_mapping"),
    mistakes=(OPERANDS_EXCHANGED,),
)

OVER_QUERIES = Mistake(
    "softmax-over-queries",
    "the softmax runs along the query axis",
    "columns sum to one instead of rows; benchmark figures need not move",
    seen=("labmlai/annotated_deep_learning_paper_implementations#146 (2022)",),
    bugs=("B019",),
)
OVER_HEADS = Mistake(
    "softmax-over-heads",
    "the softmax runs along the head axis",
    "heads compete with one another for every key",
)
SIGMOID_WEIGHTS = Mistake(
    "sigmoid-weights",
    "each score goes through a sigmoid of its own",
    "weights lie between 0 and 1 but sum to anything",
)
PADDED_DENOMINATOR = Mistake(
    "padded-denominator",
    "the sum of exponentials counts keys that only fill up a tile",
    "weights sum to less than one whenever the length is no multiple of the tile",
)
WEIGHTS = Clause(
    proposition=ATTENTION,
    number="V.1.2",
    slug="weights",
    statement="The weights, read off by giving the identity as values, are at least 0 and sum to 1 over the keys.",
    formula=r"p_{ij}\ge 0,\qquad \sum_j p_{ij} = 1",
    kind=Kind.BOUND,
    mistakes=(OVER_QUERIES, OVER_HEADS, SIGMOID_WEIGHTS, PADDED_DENOMINATOR),
)

UNNORMALISED = Mistake(
    "unnormalised",
    "the exponentials are not divided by their sum",
    "outputs grow with the number of keys",
)
ROUNDED_BEFORE_DIVISION = Mistake(
    "rounded-before-division",
    "the exponentials are cut to a few bits for the product while the sum keeps the full ones",
    "constant values come back slightly wrong, by another amount in every row",
)
HULL = Clause(
    proposition=ATTENTION,
    number="V.1.3",
    slug="hull",
    statement="Outputs stay between the smallest and the largest value of each feature, and constant values come "
    "back unchanged.",
    formula=r"\min_j v_{jc} \le o_{ic} \le \max_j v_{jc}",
    kind=Kind.BOUND,
    proven=True,
    rests_on=(WEIGHTS,),
    mistakes=(UNNORMALISED, ROUNDED_BEFORE_DIVISION),
)

VALUES_NOT_PERMUTED = Mistake(
    "values-by-rank",
    "values are paired with keys by the order of the scores instead of by position",
    "the largest weight always meets the first value",
)
POSITION_LEAKS_IN = Mistake(
    "position-leaks-in",
    "a small bias that grows with the key's index is added to the scores",
    "later keys are preferred whatever they hold",
)
SYMMETRY = Clause(
    proposition=ATTENTION,
    number="V.1.4",
    slug="symmetry",
    statement="Permuting keys and values together changes nothing; permuting queries permutes the output.",
    formula=r"A(Q,PK,PV) = A(Q,K,V),\qquad A(PQ,K,V) = P\,A(Q,K,V)",
    kind=Kind.BOUND,
    proven=True,
    mistakes=(VALUES_NOT_PERMUTED, POSITION_LEAKS_IN),
)

NO_MAXIMUM = Mistake(
    "no-maximum",
    "exponentials are taken without subtracting the row's maximum",
    "infinity or NaN as soon as one score passes the range of exp; small-scale tests pass",
    seen=("NVIDIA/FasterTransformer#43 (2019)",),
    bugs=("B023",),
)
HALF_PRECISION_SCORES = Mistake(
    "half-precision-scores",
    "scores are kept in half precision",
    "overflow to infinity past 65504, and coarse differences well before",
)
SHIFT = Clause(
    proposition=ATTENTION,
    number="V.1.5",
    slug="shift",
    statement="Adding one vector to every key changes nothing, and logits of ten thousand do not overflow.",
    formula=r"A(Q,K+\mathbf 1c^\top,V) = A(Q,K,V)",
    kind=Kind.BOUND,
    proven=True,
    mistakes=(NO_MAXIMUM, HALF_PRECISION_SCORES),
)

TEMPERATURE_LEFT_IN = Mistake(
    "temperature-left-in",
    "a temperature of two from sampling is left in the scores",
    "every average is flatter than it should be",
)
LIMITS = Clause(
    proposition=ATTENTION,
    number="V.1.6",
    slug="limits",
    statement="One dominant logit returns its value; equal logits return the mean of the values.",
    formula=r"s_{j^*}-s_j\to\infty \Rightarrow o\to v_{j^*};\qquad s_j=s \Rightarrow o=\tfrac1n\sum_j v_j",
    kind=Kind.BOUND,
    mistakes=(TEMPERATURE_LEFT_IN,),
)

WEAK_EVIDENCE = Clause(
    proposition=ATTENTION,
    number="V.1.7",
    slug="weak-evidence",
    statement="Weights that differ along a direction which sums to zero and which the values map to zero give the "
    "same output, and the most attended key can be removed without effect when the others average to its value.",
    formula=r"V^\top n = 0,\ \mathbf 1^\top n = 0 \Rightarrow (p+\varepsilon n)^\top V = p^\top V",
    kind=Kind.BOUND,
    proven=True,
    rests_on=(EQUATION,),
    control="values without that null space: the same change of weights moves the output by more than the bound",
)

SQUARE_ONLY = Mistake(
    "square-only",
    "only as many keys are read as there are queries",
    "right for self-attention; cross-attention and decoding lose keys",
    seen=("huggingface/transformers#35032 (2024)",),
    bugs=("B064",),
)
ANY_LENGTHS = Clause(
    proposition=ATTENTION,
    number="V.1.8",
    slug="any-lengths",
    statement="Query and key lengths may differ, and a length or a width of one works.",
    formula=r"Q\in\mathbb R^{n\times d_k},\ K\in\mathbb R^{m\times d_k},\ V\in\mathbb R^{m\times d_v},\ n,m,d\ge1",
    kind=Kind.BOUND,
    rests_on=(EQUATION,),
    mistakes=(SQUARE_ONLY,),
)

RESCALING_FORGOTTEN = Mistake(
    "rescaling-forgotten",
    "the running sum and output are not rescaled when the running maximum moves",
    "wrong only where a later tile holds the largest score",
)
TILING = Clause(
    proposition=ATTENTION,
    number="V.1.9",
    slug="tiling",
    statement="Attention over tiles of the keys, merged by the mass of each tile, equals attention over all of "
    "them, however they are cut and wherever the largest score lies.",
    formula=r"o = \sum_t \frac{\ell_t e^{m_t}}{\sum_u \ell_u e^{m_u}}\,o_t",
    kind=Kind.BOUND,
    proven=True,
    rests_on=(EQUATION,),
    mistakes=(RESCALING_FORGOTTEN,),
)

CAP_IGNORED = Mistake(
    "cap-ignored",
    "the cap on the scores never reaches the kernel",
    "nothing changes until scores come near the cap",
    seen=("a small public project (2026)",),
    bugs=("B017",),
)
CAP_AFTER_MASK = Mistake(
    "cap-after-mask",
    "the cap is applied after the mask, which turns minus infinity into minus the cap",
    "masked keys get a small weight",
)
ADDED_ONE_NOT_SHIFTED = Mistake(
    "sink-not-shifted",
    "the sink's exponential is not shifted with the row's maximum",
    "weights depend on the absolute size of the scores",
)
VARIANTS = Clause(
    proposition=ATTENTION,
    number="V.1.10",
    slug="variants",
    statement="Variants are their definitions, in order: a cap on the scores comes before the mask, a sink is one "
    "more key of given score and zero value, and the value width may differ from the key width.",
    formula=r"s' = c\tanh(s/c) + M,\qquad p_j = e^{s'_j}/(e^{z} + \sum_k e^{s'_k})",
    kind=Kind.BOUND,
    rests_on=(EQUATION,),
    mistakes=(CAP_IGNORED, CAP_AFTER_MASK, ADDED_ONE_NOT_SHIFTED),
)
