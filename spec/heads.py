"""V.3: heads are slices of one width."""

from collections.abc import Callable, Mapping
from typing import Any

from gnomon.spec.attention import ATTENTION, attention
from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.constants import Constant
from gnomon.spec.evaluators import Evaluator, Mask, Quantity
from gnomon.spec.linear import linear


def multi_head_attention(
    E: Evaluator,
    x: Any,
    parameters: Mapping[str, Any],
    *,
    heads: int,
    kv_heads: int | None = None,
    allowed: Mask | None = None,
    bias: Any = None,
    scale: Constant | None = None,
    mapping: str = "grouped",
    placed: Callable[[Quantity], Quantity] | None = None,
) -> Quantity:
    """[head₁ … head_h]·W_O with headᵢ = Attention(XWQᵢ, XWKᵢ, XWVᵢ).

    x `[batch, time, width]`; weights `[out, in]`, query `[heads·head_width, width]`, key and value
    `[kv_heads·head_width, width]`, output `[width, heads·head_width]`, each with an optional bias `[out]`. placed: what
    puts the queries, or the keys, of all heads at their positions. Source: Vaswani et al. 2017, section 3.2.2; Ainslie
    et al. 2023 for fewer key-value heads.
    """

    def project(name: str, inner: Any) -> Quantity:
        return linear(E, inner, parameters[f"{name}_weight"], parameters.get(f"{name}_bias"))

    shared = heads if kv_heads is None else kv_heads
    query, key, value = (
        split_heads(project(name, x), n) for name, n in (("query", heads), ("key", shared), ("value", shared))
    )
    if placed is not None:
        query, key = placed(query), placed(key)
    mixed = attention(E, query, key, value, allowed=allowed, bias=bias, scale=scale, mapping=mapping)
    return project("output", merge_heads(mixed))


def split_heads(a: Quantity, heads: int) -> Quantity:
    """`[..., time, heads·width]` as `[..., heads, time, width]`."""
    *leading, time, width = a.shape
    return a.reshape(*leading, time, heads, width // heads).swapaxes(-2, -3)


def merge_heads(a: Quantity) -> Quantity:
    """`[..., heads, time, width]` as `[..., time, heads·width]`."""
    *leading, heads, time, width = a.shape
    return a.swapaxes(-2, -3).reshape(*leading, time, heads * width)


HEADS = Proposition(
    number="V.3",
    slug="heads",
    statement="Heads are slices of one width, not copies of it.",
    formula=r"\mathrm{MHA}(X) = [\mathrm{head}_1 \ldots \mathrm{head}_h]\,W_O,\quad "
    r"\mathrm{head}_i=\mathrm{Attention}(XW_{Q_i},XW_{K_i},XW_{V_i})",
    source="Foundations, gathered: equation 6; vocabulary: head; Vaswani et al. 2017, section 3.2.2; "
    "Elhage et al. 2021",
    rests_on=(ATTENTION,),
)

MERGED_WITHOUT_TRANSPOSE = Mistake(
    "merged-without-transpose",
    "heads are merged by a reshape without moving the head axis back",
    "an output holds other positions' numbers; a copying task still trains",
    seen=("a small public project (2026)",),
    bugs=("B007",),
)
STACKED_HEADS_VIEWED = Mistake(
    "stacked-heads-viewed",
    "a stack [heads, batch, time, width] is viewed as [batch, time, heads·width]",
    "right with one head, which is how it was tried",
    seen=("a small public project (2018)",),
    bugs=("B009",),
)
OTHER_ORDER = Mistake(
    "other-order",
    "heads are concatenated in reverse",
    "a network trained this way works; weights from elsewhere do not",
)
FUSED_SPLIT = Mistake(
    "fused-split",
    "the projected queries are split head by head as features·heads instead of heads·features",
    "every head reads a comb of features instead of its slice",
    seen=("a small public project (2023)",),
    bugs=("B011",),
)
MULTI_HEAD = Clause(
    proposition=HEADS,
    number="V.3.1",
    slug="multi-head",
    statement="Multi-head attention equals its heads, concatenated in order and projected.",
    formula=r"\mathrm{MHA}(X) = [\mathrm{head}_1\ldots\mathrm{head}_h]W_O",
    kind=Kind.BOUND,
    level=(Level.OP, Level.BLOCK),
    mistakes=(MERGED_WITHOUT_TRANSPOSE, STACKED_HEADS_VIEWED, OTHER_ORDER, FUSED_SPLIT),
)

WRONG_OUTPUT_SLICE = Mistake(
    "wrong-output-slice",
    "each head is projected by the slice of the output weight that belongs to the next head",
    "the sum over heads has the right shape and the wrong terms",
)
SUM_OVER_HEADS = Clause(
    proposition=HEADS,
    number="V.3.2",
    slug="sum-over-heads",
    statement="It equals the sum over heads of each head through its own slice of the output weight.",
    formula=r"\mathrm{MHA}(X) = \sum_i \mathrm{head}_i\,W_O^{(i)}",
    kind=Kind.BOUND,
    proven=True,
    level=(Level.OP, Level.BLOCK),
    mistakes=(WRONG_OUTPUT_SLICE,),
)

WIDTH_ROUNDED_DOWN = Mistake(
    "width-rounded-down",
    "a width that the heads do not divide is rounded down and the remaining features dropped",
    "parameters exist that no input reaches",
)
ONE_BUDGET = Clause(
    proposition=HEADS,
    number="V.3.3",
    slug="one-budget",
    statement="The same parameters serve any number of heads that divides the width, and a number that does not is "
    "an error.",
    formula=r"h \mid d:\ |\theta| = 4d^2\ (+4d) \text{ for every } h_{kv}=h;\qquad h\nmid d:\ \text{error}",
    kind=Kind.EXACT,
    level=(Level.COUNT, Level.OP),
    mistakes=(WIDTH_ROUNDED_DOWN,),
)

TIED_TO_HEAD_INDEX = Mistake(
    "tied-to-head-index",
    "scores get a slope that depends on the head's index where none was declared",
    "heads are no longer interchangeable",
)
HEAD_PERMUTATION = Clause(
    proposition=HEADS,
    number="V.3.4",
    slug="head-permutation",
    statement="Permuting the heads everywhere they appear, biases included and groups as a whole where key-value "
    "heads are shared, changes nothing.",
    formula=r"\mathrm{MHA}(X;\,PW_Q,PW_K,PW_V,W_OP^\top) = \mathrm{MHA}(X;\,W_Q,W_K,W_V,W_O)",
    kind=Kind.BOUND,
    proven=True,
    mistakes=(TIED_TO_HEAD_INDEX,),
)

SHARED_SOFTMAX = Mistake(
    "shared-softmax",
    "all heads share one softmax",
    "a strong head silences the others",
)
ISOLATED = Clause(
    proposition=HEADS,
    number="V.3.5",
    slug="isolated",
    statement="Changing one head's query, key and value slices moves only that head's contribution.",
    formula=r"\partial\,\mathrm{head}_i / \partial\,(W_{Q_j},W_{K_j},W_{V_j}) = 0,\ i\ne j",
    kind=Kind.BOUND,
    mistakes=(SHARED_SOFTMAX,),
)

TILED_FOR_GROUPED = Mistake(
    "tiled-for-grouped",
    "key-value heads are tiled (0 1 0 1) where each should be repeated (0 0 1 1)",
    "self-consistent when trained from scratch, wrong for weights from elsewhere",
    seen=("onnx/onnx#7274 (2025)", "apple/axlearn#842 (2024)", "a small public project (2024)"),
    bugs=("B001", "B002", "B004"),
)
NEVER_EXPANDED = Mistake(
    "never-expanded",
    "key-value heads are not expanded: query heads past their number read the last one",
    "right for one key-value head and for as many as there are query heads",
    seen=("state-spaces/mamba#462 (2024)",),
    bugs=("B003",),
)
REPEATED_ALONG_TIME = Mistake(
    "repeated-along-time",
    "keys and values are repeated before the transpose, along time, and then read as heads",
    "heads get a mixture of positions",
    seen=("a small public project (2024)",),
    bugs=("B005",),
)
GROUPS = Clause(
    proposition=HEADS,
    number="V.3.6",
    slug="groups",
    statement="With fewer key-value heads, query head i reads group ⌊i·h_kv/h⌋, unless tiling is declared.",
    formula=r"g(i) = \lfloor i\,h_{kv}/h \rfloor",
    kind=Kind.BOUND,
    level=(Level.OP, Level.MODEL),
    conventions=("head_mapping",),
    mistakes=(TILED_FOR_GROUPED, NEVER_EXPANDED, REPEATED_ALONG_TIME),
)

CHANGE_OF_BASIS = Clause(
    proposition=HEADS,
    number="V.3.7",
    slug="change-of-basis",
    statement="Only the products of query with key weights and of value with output weights matter: an invertible "
    "change of basis inside a head, without rotary, changes nothing, and each product has at most the head's width "
    "as rank.",
    formula=r"(AW_Q)^\top A^{-\top}W_K = W_Q^\top W_K,\qquad W_OB^{-1}\,BW_V = W_OW_V",
    kind=Kind.BOUND,
    proven=True,
    control="the same change applied to the query weights alone moves the output by more than the bound",
)
