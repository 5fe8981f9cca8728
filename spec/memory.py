"""V.5: the score matrix is quadratic in length; the cache is linear."""

from collections.abc import Mapping
from math import isqrt
from types import MappingProxyType

from gnomon.spec.attention import ATTENTION
from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.configuration import Configuration
from gnomon.spec.heads import HEADS
from gnomon.spec.parameters import parameter_count


def score_bytes(c: Configuration, length: int, *, batch: int = 1, item: int = 2) -> int:
    """The score matrices of all heads of one layer, `item` bytes a number."""
    return batch * c.heads * length**2 * item


def cache_bytes(c: Configuration, length: int, *, batch: int = 1, item: int = 2) -> int:
    """The keys and values of all layers for that many tokens.

    Where a decoder reads an encoder, each of its blocks keeps its own and those of as many tokens that were read.
    """
    kept = 2 * c.decoder_layers or c.layers
    return 2 * kept * c.kv_heads * c.head_width * length * batch * item


def crossing_length(c: Configuration, *, batch: int = 1) -> int:
    """The first length at which the score matrices of one layer exceed the weights in the same format."""
    return isqrt(parameter_count(c) // (batch * c.heads)) + 1


def cache_crossing_length(c: Configuration, *, batch: int = 1) -> int:
    """The first length at which the cache exceeds the weights in the same format."""
    return parameter_count(c) // cache_bytes(c, 1, batch=batch, item=1) + 1


# The exponents of the traffic in the length and in the size of fast memory, while d² < M < nd, by whether it is tiled.
TRAFFIC_ORDERS: Mapping[bool, tuple[int, int]] = MappingProxyType({False: (2, 0), True: (2, -1)})


def least_traffic(length: int, head_width: int, fast: int, *, tiled: bool) -> int:
    """The fewest numbers that one head can move forward, whatever the order of its steps.

    Queries, keys and values are read and the output is written, each at least once. Untiled, scores and weights are
    both written and read. Tiled, a score is formed while its query and its key are in fast memory: between moments that
    lie M transfers apart at most 2M numbers are at hand, so a queries meet b keys with (a + b)d ≤ 2M, which forms
    ab ≤ (M/d)² scores; the n² scores take n²d²/M² such stretches, each whole but the last.
    """
    once = 4 * length * head_width
    if not tiled:
        return once + 4 * length**2
    return max(once, (length * head_width) ** 2 // fast - fast)


# One layer of GPT-2 medium, forward and backward, as measured by Dao et al. 2022: gigabytes (10⁹ bytes) by whether it
# is tiled; and the numbers of 16 bits that the 192 KiB of one multiprocessor of that machine, an A100, hold. All are
# recalled, not looked up.
MEASURED_GIGABYTES: Mapping[bool, float] = MappingProxyType({False: 40.3, True: 4.4})
MEASURED_LENGTH, MEASURED_BATCH, MEASURED_FAST = 1024, 64, 192 * 1024 // 2

# Bytes of cache a token in 16 bits, as published or computed from published configurations.
CACHE_PER_TOKEN = {
    "llama-2-7b": 524288,
    "mistral-7b": 131072,
    "llama-3-8b": 131072,
    "gemma-2b": 18432,
    "llama-2-70b": 327680,
}

MEMORY = Proposition(
    number="V.5",
    slug="memory",
    statement="The score matrix is quadratic in the length; the key-value cache is linear in it.",
    formula=r"\text{scores} = b\,h\,n^2\,w,\qquad \text{cache} = 2\,L\,h_{kv}\,d_h\,n\,b\,w",
    source="Foundations, gathered: laboratory 5; Dao et al. 2022",
    rests_on=(ATTENTION, HEADS),
)

HEADS_FORGOTTEN = Mistake(
    "heads-forgotten",
    "one score matrix is counted for all heads",
    "the estimate is short by the number of heads, and the crossing comes too late",
)
BATCH_FORGOTTEN = Mistake(
    "batch-forgotten",
    "one score matrix is counted for the whole batch",
    "the estimate is right at a batch of one, where it was tried",
)
SCORE_MATRIX = Clause(
    proposition=MEMORY,
    number="V.5.1",
    slug="score-matrix",
    statement="The score matrices of a layer take batch · heads · length² numbers, and pass the weights at the first "
    "length whose square exceeds parameters over batch · heads.",
    formula=r"b\,h\,n^2\,w > |\theta|\,w \iff n > \sqrt{|\theta|/(b\,h)}",
    kind=Kind.COUNT,
    level=(Level.COUNT,),
    mistakes=(HEADS_FORGOTTEN, BATCH_FORGOTTEN),
)

QUERY_HEADS_CACHED = Mistake(
    "query-heads-cached",
    "as many heads are counted in the cache as there are of queries",
    "right without sharing; four times too much for a model that shares one among four",
)
CACHE = Clause(
    proposition=MEMORY,
    number="V.5.2",
    slug="cache",
    statement="The key-value cache takes 2 · layers · key-value heads · head width · length · batch numbers, which "
    "gives the published figures a token of real models.",
    formula=r"2\,L\,h_{kv}\,d_h\,n\,b\,w",
    kind=Kind.COUNT,
    level=(Level.COUNT,),
    mistakes=(QUERY_HEADS_CACHED,),
)

MATRIX_KEPT = Mistake(
    "matrix-kept",
    "the softmax goes tile by tile over a score matrix that is there as a whole, and memory is declared linear",
    "the longest input that fits is that of plain attention",
)
TILING_UNDECLARED = Mistake(
    "tiling-undeclared",
    "tiles keep memory linear, and it is declared quadratic as it was before them",
    "memory is set aside, or long inputs are refused, for a matrix that never is",
)
PEAK_MEMORY = Clause(
    proposition=MEMORY,
    number="V.5.3",
    slug="peak-memory",
    statement="Where an implementation declares quadratic memory, its attention holds a whole score matrix at some "
    "moment; where it declares linear memory, it never does, and its peak, measured while it runs, grows with exponent "
    "one in the length and not two.",
    formula=r"m(n) \ge n^2 \quad\text{or}\quad \ln\frac{m(4n)}{m(n)}\Big/\ln 4 \to 1",
    kind=Kind.STAT,
    mistakes=(MATRIX_KEPT, TILING_UNDECLARED),
)

SCORES_MOVED_ONCE = Mistake(
    "scores-moved-once",
    "scores and weights are counted when they are written and not when they are read back",
    "the traffic of plain attention comes out at half, and so does what tiling saves",
)
KEYS_READ_ONCE = Mistake(
    "keys-read-once",
    "keys and values are counted for the first tile of queries and not again for the others",
    "tiled attention seems to move no more than its arguments, whatever the size of fast memory",
)
TRAFFIC = Clause(
    proposition=MEMORY,
    number="V.5.4",
    slug="traffic",
    statement="Between slow memory and a fast one of M numbers, attention that writes its scores moves Θ(nd + n²) "
    "numbers and tiled attention Θ(n²d²/M), where d² < M < nd, as runs of both on a counting machine show; for one "
    "layer they give the gigabytes that were measured in 2022 (recalled) within a factor of two.",
    formula=r"\Theta(nd+n^2) \text{ against } \Theta(n^2d^2/M)",
    kind=Kind.COUNT,
    level=(Level.COUNT,),
    mistakes=(SCORES_MOVED_ONCE, KEYS_READ_ONCE),
)
