"""V.5: the score matrix is quadratic in length; the cache is linear."""

from math import isqrt

from gnomon.spec.attention import ATTENTION
from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.configuration import Configuration
from gnomon.spec.heads import HEADS
from gnomon.spec.parameters import parameter_count


def score_bytes(c: Configuration, length: int, *, batch: int = 1, item: int = 2) -> int:
    """The score matrices of all heads of one layer, `item` bytes a number."""
    return batch * c.heads * length**2 * item


def cache_bytes(c: Configuration, length: int, *, batch: int = 1, item: int = 2) -> int:
    """The keys and values of all layers for that many tokens."""
    return 2 * c.layers * c.kv_heads * c.head_width * length * batch * item


def crossing_length(c: Configuration, *, batch: int = 1) -> int:
    """The first length at which the score matrices of one layer exceed the weights in the same format."""
    return isqrt(parameter_count(c) // (batch * c.heads)) + 1


def cache_crossing_length(c: Configuration, *, batch: int = 1) -> int:
    """The first length at which the cache exceeds the weights in the same format."""
    return parameter_count(c) // cache_bytes(c, 1, batch=batch, item=1) + 1


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
