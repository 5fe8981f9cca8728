"""III.1: the model sees integers; the embedding is a look-up."""

from typing import Any

from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.evaluators import Evaluator, Quantity
from gnomon.spec.families import LOGITS, TIED_LOGITS, UNTIED
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

# Text to ids and back.

IDS_PAST_THE_VOCABULARY = Mistake(
    "ids-past-the-vocabulary",
    "tokens that were added get ids after the last one, and the vocabulary is not counted again",
    "the table of the model ends before them",
)
STATE_BETWEEN_CALLS = Mistake(
    "state-between-calls",
    "the last piece of a text that ends in a letter is kept and put before the next text",
    "right for a single text, and wrong for the second",
)
CACHED_LIST_SHARED = Mistake(
    "cached-list-shared",
    "the list that is kept for a text is given out itself",
    "what a caller appends to it, the end of a sequence, say, comes back with the text the next time",
)
ENCODING_IS_A_FUNCTION = Clause(
    proposition=EMBEDDING,
    number="III.1.1",
    slug="encoding-is-a-function",
    statement="Encoding is a function: the ids of a text are integers from zero to one less than the vocabulary, the "
    "same ones whatever was encoded before.",
    formula=r"\mathrm{enc}: \text{text}\to\{0,\dots,V-1\}^*",
    kind=Kind.EXACT,
    level=(Level.TOKENISER,),
    mistakes=(IDS_PAST_THE_VOCABULARY, STATE_BETWEEN_CALLS, CACHED_LIST_SHARED),
)

EATEN_LEADING_SPACE = Mistake(
    "eaten-leading-space",
    "decoding strips one space at the beginning, whether or not encoding had put one there",
    "indented code loses a space at every turn",
    seen=("huggingface/transformers#47487 (2026)",),
    bugs=("B200",),
)
SPACES_MOVED = Mistake(
    "spaces-moved",
    "text is split at single spaces and joined again by them, empty pieces left out",
    "runs of spaces shrink or move to another word",
    seen=("rasbt/LLMs-from-scratch#944 (2026)",),
    bugs=("B201",),
)
SILENT_NORMALISATION = Mistake(
    "silent-normalisation",
    "text is composed (NFC) before it is encoded, and that is not declared",
    "a file that is read and written back is another file",
)
LINE_ENDS_UNIFIED = Mistake(
    "line-ends-unified",
    "a carriage return before a line feed is dropped",
    "what was written on another system comes back shorter",
)
SPLIT_CHARACTERS_REPLACED = Mistake(
    "split-characters-replaced",
    "the bytes of each token are decoded alone, so that characters of several tokens become replacement characters",
    "rare scripts and emoji are lost, English is not",
)
BYTE_TOKENS_SPELT = Mistake(
    "byte-tokens-spelt",
    "a token that stands for a byte outside ASCII is decoded to its name, <0xE2>",
    "text outside the vocabulary comes back as the names of its bytes",
    seen=("huggingface/transformers#48041 (2026)",),
    bugs=("B198",),
)
SURROGATES_REPLACED = Mistake(
    "surrogates-replaced",
    "half of a surrogate pair, which is no text, is encoded as a question mark instead of being refused",
    "broken input goes on as if it were sound",
)
INVALID_BYTES_REPLACED = Mistake(
    "invalid-bytes-replaced",
    "bytes that are no UTF-8 are replaced before they are encoded",
    "a tokeniser of bytes that loses bytes",
)
LOSSLESS = Clause(
    proposition=EMBEDDING,
    number="III.1.2",
    slug="lossless",
    statement="A tokeniser that declares itself lossless is: decoding what was encoded gives the text back, any "
    "Unicode text after its declared normalisation, and any bytes where it takes bytes; what is no text is refused.",
    formula=r"\mathrm{dec}(\mathrm{enc}(s)) = \mathrm{norm}(s)",
    kind=Kind.EXACT,
    level=(Level.TOKENISER,),
    rests_on=(ENCODING_IS_A_FUNCTION,),
    mistakes=(
        EATEN_LEADING_SPACE,
        SPACES_MOVED,
        SILENT_NORMALISATION,
        LINE_ENDS_UNIFIED,
        SPLIT_CHARACTERS_REPLACED,
        BYTE_TOKENS_SPELT,
        SURROGATES_REPLACED,
        INVALID_BYTES_REPLACED,
    ),
)

LONGEST_MATCH = Mistake(
    "longest-match",
    "the longest symbol that any merge makes is taken first, from left to right",
    "text comes back as it was and the ids are others than those the model was trained on",
)
LEFT_TO_RIGHT = Mistake(
    "left-to-right",
    "the first pair from the left that any merge joins is joined, whatever its rank",
    "half of all longer words are cut otherwise; decoding is blind to it",
    seen=("rasbt/LLMs-from-scratch#558 (2025)", "a small public project (2026)"),
    bugs=("B202", "B203"),
)
TIES_BY_THE_LAST = Mistake(
    "ties-by-the-last",
    "of pairs that are equally frequent the one met last is merged",
    "a vocabulary that nobody can make again from the same text",
)
WORDS_COUNTED_ONCE = Mistake(
    "words-counted-once",
    "every word counts once, however often it occurs",
    "rare words shape the vocabulary as much as frequent ones",
)
MERGED_FROM_THE_RIGHT = Mistake(
    "merged-from-the-right",
    "occurrences that overlap are joined from the right",
    "runs of one symbol, spaces and digits, are cut at the other end",
)
MARK_ON_THE_FIRST = Mistake(
    "mark-on-the-first",
    "the mark of a continuation is put on the first symbol of a word and not on the others",
    "the vocabulary fits no text",
    seen=("huggingface/tokenizers#643 (2021)",),
    bugs=("B220",),
)
ANOTHER_SPLIT = Mistake(
    "another-split",
    "text is cut into words by another rule than the one that the merges were learned with",
    "numbers and signs get ids that training never saw together",
    seen=("ggml-org/llama.cpp#6914 (2024)",),
    bugs=("B211",),
)
MERGES_BY_RANK = Clause(
    proposition=EMBEDDING,
    number="III.1.3",
    slug="merges-by-rank",
    statement="Byte-pair encoding learns the most frequent pair first, of equals the one met first, and applies "
    "merges in the order of learning, each from left to right, inside the words that text is cut into.",
    formula=r"m_k = \arg\max_{(a,b)} \mathrm{count}_k(ab),\qquad \mathrm{enc} = m_n\circ\dots\circ m_1",
    kind=Kind.EXACT,
    level=(Level.TOKENISER,),
    rests_on=(ENCODING_IS_A_FUNCTION,),
    mistakes=(
        LONGEST_MATCH,
        LEFT_TO_RIGHT,
        TIES_BY_THE_LAST,
        WORDS_COUNTED_ONCE,
        MERGED_FROM_THE_RIGHT,
        MARK_ON_THE_FIRST,
        ANOTHER_SPLIT,
    ),
)

SEGMENTED_DIFFERENTLY = Clause(
    proposition=EMBEDDING,
    number="III.1.4",
    slug="segmented-differently",
    statement="Of two tokenisers a search finds a shortest text that they cut differently, and of each the texts that "
    "it cannot tell apart, which a lossless one has none of.",
    formula=r"\min\{|s| : \mathrm{cut}_1(s)\ne\mathrm{cut}_2(s)\},\qquad \mathrm{enc}(s)=\mathrm{enc}(s'),\ s\ne s'",
    kind=Kind.TOOL,
    level=(Level.TOKENISER,),
    rests_on=(LOSSLESS,),
    control="a tokeniser held against itself, of which no text is cut differently",
)

TOKEN_BY_TOKEN = Mistake(
    "token-by-token",
    "a stream decodes each token alone and replaces what is no character",
    "an emoji becomes two replacement characters, and tests of whole sequences pass",
    seen=("a small public project (2026)",),
    bugs=("B217",),
)
PROMPT_REPEATED = Mistake(
    "prompt-repeated",
    "a stream gives what the text has beyond that of the prompt, also where the prompt ends inside a character and its "
    "text is no beginning of the whole",
    "the whole prompt appears in the first piece of the answer",
    seen=("vllm-project/vllm#48853 (2026)",),
    bugs=("B219",),
)
TEXTS_JOIN = Clause(
    proposition=EMBEDDING,
    number="III.1.5",
    slug="streams-join",
    statement="The ids of two texts in a row are in general not those of the joined text, of which a witness is found; "
    "the pieces of a decoded stream still join to the text, after a prompt to what it had not completed.",
    formula=r"\exists\,a,b:\ \mathrm{enc}(ab)\ne\mathrm{enc}(a)\,\mathrm{enc}(b);\qquad "
    r"\textstyle\bigoplus_k \mathrm{piece}_k = \mathrm{dec}(i_1\dots i_n)",
    kind=Kind.EXACT,
    level=(Level.TOKENISER,),
    rests_on=(LOSSLESS,),
    mistakes=(TOKEN_BY_TOKEN, PROMPT_REPEATED),
)

SPECIAL_FROM_TEXT = Mistake(
    "special-from-text",
    "a special token that a text spells is taken for it although that was not asked",
    "whoever writes text can end a turn or speak as the system",
    seen=("huggingface/tokenizers#1850 (2025)",),
    bugs=("B216",),
)
SPECIAL_SPELT_OUT = Mistake(
    "special-spelt-out",
    "a special token is cut into the pieces of its name although it was asked for",
    "a prompt in the format of training that the model has never seen",
)
BEGIN_TWICE = Mistake(
    "begin-twice",
    "the token of the beginning is put before a text that spells it already",
    "generation and fine-tuning start from two of them, which training never had",
    seen=("marin-community/levanter#574 (2024)", "ml-explore/mlx-examples#1188 (2025)"),
    bugs=("B212", "B213"),
)
SPECIAL_WHEN_ASKED = Clause(
    proposition=EMBEDDING,
    number="III.1.6",
    slug="special-when-asked",
    statement="Text that spells a special token does not become it unless that is asked for, and then it does; a token "
    "of the beginning stands there once.",
    formula=r"\mathrm{enc}(s)\cap\text{special} = \varnothing,\qquad \mathrm{enc}_{\text{special}}(s)\ni i_s",
    kind=Kind.EXACT,
    level=(Level.TOKENISER,),
    rests_on=(ENCODING_IS_A_FUNCTION,),
    mistakes=(SPECIAL_FROM_TEXT, SPECIAL_SPELT_OUT, BEGIN_TWICE),
)

# Ids to vectors and back.

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

SCATTER_OVERWRITES = Mistake(
    "scatter-overwrites",
    "a row that is looked up twice is given the gradient of the last look-up alone",
    "frequent tokens learn as slowly as rare ones",
    needs=("embedding.ids",),
)
LOOKED_UP_ROWS = Clause(
    proposition=EMBEDDING,
    number="III.1.8",
    slug="looked-up-rows",
    statement="Only rows that were looked up get a gradient, and a row that was looked up several times gets the sum.",
    formula=r"\frac{\partial \ell}{\partial E_v} = \sum_{t:\ i_t = v} \frac{\partial \ell}{\partial x_t}",
    kind=Kind.EXACT,
    level=(Level.TRAIN,),
    mistakes=(SCATTER_OVERWRITES,),
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
TRANSPOSED_TABLE = Mistake(
    "transposed-table",
    "a square unembedding is read by columns",
    "shapes fit only where there are as many tokens as features, and there every logit is another's",
    families=LOGITS,
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
    mistakes=(ALIASED_HEAD, TIED_IN_NAME_ONLY, LOGITS_NOT_SCALED, LOGITS_NOT_CAPPED, TRANSPOSED_TABLE),
)

PADDING_ROWS_COMPETE = Mistake(
    "padding-rows-compete",
    "rows that pad the table are scored like those of tokens",
    "rows of zeros have the logit zero and win wherever all real logits are negative",
    families=LOGITS,
    whole=True,
)
PADDING_LOGITS_FINITE = Mistake(
    "padding-logits-finite",
    "logits of padding rows are lowered by a finite amount instead of to minus infinity",
    "once in a long while an id is drawn that no tokeniser can read",
    families=LOGITS,
    whole=True,
)
LAST_TOKEN_TAKEN_FOR_PADDING = Mistake(
    "last-token-taken-for-padding",
    "the last id is counted among the padding, as after a special token was added to a counted vocabulary",
    "the model can read the token and never write it",
    families=LOGITS,
    whole=True,
)
RESERVED_ROWS_ZERO = Mistake(
    "reserved-rows-zero",
    "the rows of ids that are held in reserve are zeros, whatever was loaded or learnt",
    "a token of the vocabulary that nothing can tell from its neighbours and no training moves",
    seen=("meta-llama/llama3#77 (2024)",),
    bugs=("B221",),
    families=LOGITS,
    whole=True,
)
VOCABULARY_ROUNDED_UP = Mistake(
    "vocabulary-rounded-up",
    "a vocabulary is counted with rows that were put between its tokens to round it up, and that is not declared",
    "ids that no text has can be drawn, and decode to nothing",
)
IDS_IN_16_BITS = Mistake(
    "ids-in-16-bits",
    "ids are kept in 16 bits, so that those past 65535 begin again at zero",
    "the last tokens of a large vocabulary are read as its first",
    seen=("a small public project (2024)",),
    bugs=("B199",),
)
PADDED_TABLE = Clause(
    proposition=EMBEDDING,
    number="III.1.10",
    slug="padded-table",
    statement="An id past the real vocabulary, a padding row of the table, has no probability, and what its row holds "
    "changes nothing; every id of the vocabulary is reachable or declared unreachable.",
    formula=r"i\notin[0,V):\ p_i = 0,\ \partial f/\partial E_i = 0;\qquad i\in[0,V):\ \exists\,x:\ i_t(x) = i",
    kind=Kind.EXACT,
    level=(Level.TOKENISER, Level.MODEL),
    rests_on=(LOOK_UP, UNEMBEDDING),
    mistakes=(
        PADDING_ROWS_COMPETE,
        PADDING_LOGITS_FINITE,
        LAST_TOKEN_TAKEN_FOR_PADDING,
        RESERVED_ROWS_ZERO,
        VOCABULARY_ROUNDED_UP,
        IDS_IN_16_BITS,
    ),
)
