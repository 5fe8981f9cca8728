"""III.1: the model sees integers; the embedding is a look-up."""

from typing import Any

from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.evaluators import Evaluator, Quantity
from gnomon.spec.families import TIED_LOGITS, UNTIED
from gnomon.spec.function import FUNCTION


def embedding(E: Evaluator, table: Any, ids: Any) -> Quantity:
    """The rows of the table `[vocabulary, width]` that the ids name, `[..., width]`, bit for bit."""
    return E.number(table)[ids]


EMBEDDING = Proposition(
    number="III.1",
    slug="embedding",
    statement="The model sees integers, and the embedding is a look-up.",
    formula=r"x_t = E_{i_t} = e_{i_t}^\top E",
    source="Foundations, gathered: vocabulary: token, embedding; laboratory 1; Sennrich et al. 2016",
    rests_on=(FUNCTION,),
    said="The model reads text.",
    so="It reads the integers that a tokeniser made of the text, and of each only the row that it names.",
)

CLAMPED_IDS = Mistake(
    "clamped-ids",
    "an id past the table is taken for its last row",
    "the tokeniser of another vocabulary runs without an error, and its rare words share a vector",
)
ZEROS_PAST_THE_TABLE = Mistake(
    "zeros-past-the-table",
    "an id past the table gives a row of zeros",
    "one device raises where another goes on with an empty token",
    seen=("tensorflow/tensorflow#13642 (2017)",),
    bugs=("B206",),
)
WRAPPED_IDS = Mistake(
    "wrapped-ids",
    "an id past the table is taken modulo the number of its rows",
    "a token that does not exist becomes an arbitrary one",
)
NEGATIVE_IDS = Mistake(
    "negative-ids",
    "a negative id counts from the end of the table",
    "-1, by which a token to be ignored is marked, becomes the last word of the vocabulary",
)
PADDING_ROW_ZEROED = Mistake(
    "padding-row-zeroed",
    "the row of id 0 reads as zero although no padding was declared",
    "the first word of the vocabulary has no vector, whatever its row holds",
)
ROWS_SCALED = Mistake(
    "rows-scaled",
    "rows are multiplied by the root of the width where that was not declared",
    "a norm before the first layer hides it; the stream beside the norm is too large",
)
LOOK_UP = Clause(
    proposition=EMBEDDING,
    number="III.1.7",
    slug="look-up",
    statement="The embedding is indexing: rows come back bit for bit and equal the one-hot product, relabelling rows "
    "and ids together changes nothing, and an id that names no row, a negative one too, is an error.",
    formula=r"x_t = E_{i_t} = \sum_v \delta_{v,i_t}E_v,\qquad (PE)_{\pi(i)} = E_i,\qquad i\notin[0,V):\ \text{error}",
    kind=Kind.EXACT,
    level=(Level.OP, Level.MODEL),
    proven=True,
    mistakes=(CLAMPED_IDS, ZEROS_PAST_THE_TABLE, WRAPPED_IDS, NEGATIVE_IDS, PADDING_ROW_ZEROED, ROWS_SCALED),
)

ALIASED_HEAD = Mistake(
    "aliased-head",
    "an unembedding of its own is replaced by the token table",
    "the trained unembedding is never read",
    seen=("NVIDIA-NeMo/Automodel#2942 (2026)",),
    bugs=("B143",),
    families=UNTIED,
    whole=True,
)
TIED_IN_NAME_ONLY = Mistake(
    "tied-in-name-only",
    "a tied unembedding is a copy of the table whose first half alone was filled",
    "some words can be read and not written",
    seen=("rasbt/LLMs-from-scratch#822 (2025)",),
    bugs=("B146",),
    families=TIED_LOGITS,
    whole=True,
)
LOGITS_NOT_SCALED = Mistake(
    "logits-not-scaled",
    "the declared factor of the logits is left out",
    "greedy decoding is right and every probability wrong",
    families=("cohere",),
    whole=True,
)
LOGITS_NOT_CAPPED = Mistake(
    "logits-not-capped",
    "the declared cap of the logits is left out",
    "right while logits are small",
    families=("gemma2",),
    whole=True,
)
UNEMBEDDING = Clause(
    proposition=EMBEDDING,
    number="III.1.9",
    slug="unembedding",
    statement="Logits are the product of the final stream with the declared unembedding, the token table where it is "
    "tied, then scaled and capped as declared; a row of it moves its own logit and no other.",
    formula=r"\ell = c\tanh(s\,W_U x/c),\qquad W_U = E \text{ if tied}",
    kind=Kind.BOUND,
    level=(Level.MODEL,),
    rests_on=(LOOK_UP,),
    mistakes=(ALIASED_HEAD, TIED_IN_NAME_ONLY, LOGITS_NOT_SCALED, LOGITS_NOT_CAPPED),
)
