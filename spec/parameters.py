"""VII.2: most parameters are not attention."""

from dataclasses import dataclass

from gnomon.spec.block import BLOCK
from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.configuration import Configuration
from gnomon.spec.families import BIASED, TIED_LOGITS
from gnomon.spec.heads import HEADS


def attention_parameters(c: Configuration) -> int:
    """Query, key, value and output weights of one block, with the biases that it has."""
    query, shared = c.heads * c.head_width, c.kv_heads * c.head_width
    weights = c.width * (query + 2 * shared) + query * c.width
    return weights + (query + 2 * shared) * int(c.qkv_bias) + c.width * int(c.output_bias)


def feed_forward_parameters(c: Configuration) -> int:
    """Up, down and, where there is one, gate weights of one block, with their biases."""
    matrices = 3 if c.gated else 2
    biases = (matrices - 1) * c.feed_forward + c.width
    return matrices * c.width * c.feed_forward + biases * int(c.feed_forward_bias)


def norm_parameters(c: Configuration) -> int:
    """A gain for every feature and, in LayerNorm, a shift."""
    return c.width * (2 if c.norm == "layer" and c.norm_shift else 1)


def query_key_norm_parameters(c: Configuration) -> int:
    """A gain for every feature of a head's query and key, or of all heads'."""
    return {"": 0, "head": 2 * c.head_width, "width": (c.heads + c.kv_heads) * c.head_width}[c.query_key_norm]


def attentions(c: Configuration) -> int:
    """How many times the blocks attend: once each, twice in a decoder that reads an encoder."""
    return c.layers + 2 * c.decoder_layers


def networks(c: Configuration) -> int:
    """How many feed-forward networks the blocks have."""
    return c.layers + c.decoder_layers


def block_norm_parameters(c: Configuration) -> int:
    """The norms of all blocks, those of queries and keys among them; a decoder's second attention has its own."""
    crossing = c.decoder_layers * -(-c.norms // 2)  # half of those of a block with two sublayers
    streams = networks(c) * c.norms + crossing
    return streams * norm_parameters(c) + attentions(c) * query_key_norm_parameters(c)


def block_parameters(c: Configuration) -> int:
    """All blocks: attention, feed-forward networks and norms."""
    weights = attentions(c) * attention_parameters(c) + networks(c) * feed_forward_parameters(c)
    return weights + block_norm_parameters(c)


def embedding_parameters(c: Configuration) -> int:
    """The tables of tokens, positions and segments, with their norm."""
    return (c.rows + c.positions + c.segments) * c.width + norm_parameters(c) * c.embedding_norm


def head_parameters(c: Configuration) -> int:
    """What follows the blocks: the final norm, an unembedding where there are logits and it is not tied, a pooler."""
    unembedding = c.rows * (c.width * (not c.tied) + c.unembedding_bias) * (c.output == "logits")
    return norm_parameters(c) * c.final_norm + unembedding + (c.width + 1) * c.width * c.pooler


def parameter_count(c: Configuration) -> int:
    """Every parameter of the model, once."""
    return embedding_parameters(c) + block_parameters(c) + head_parameters(c)


# Figures published with the models, each recomputed from its configuration.
PUBLISHED = {
    "gpt2": 124439808,
    "gpt2-medium": 354823168,
    "gpt2-large": 774030080,
    "gpt2-xl": 1557611200,
    "llama-2-7b": 6738415616,
    "llama-2-13b": 13015864320,
    "llama-2-70b": 68976648192,
    "llama-3-8b": 8030261248,
    "llama-3-70b": 70553706496,
    "mistral-7b": 7241732096,
    "qwen2-7b": 7615616512,
    "qwen2-0.5b": 494032768,
    "qwen3-8b": 8190735360,
    "gemma-2b": 2506172416,
    "gemma-7b": 8537680896,
    "gemma-2-2b": 2614341888,
    "gemma-2-9b": 9241705984,
    "pythia-70m": 70426624,
    "pythia-160m": 162322944,
    "pythia-410m": 405334016,
    "pythia-1b": 1011781632,
    "gpt-neox-20b": 20554567680,
    "phi-2": 2779683840,
    "phi-3-mini": 3821079552,
    "olmo-2-7b": 7298617344,
    "bert-base-uncased": 109482240,
}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the 2017 paper's table of sizes; `millions` is recalled, not looked up."""

    name: str
    millions: int
    layers: int = 6
    width: int = 512
    feed_forward: int = 2048


SIZES_OF_2017 = (
    Row("base", 65),
    Row("2 layers", 36, layers=2),
    Row("4 layers", 50, layers=4),
    Row("8 layers", 80, layers=8),
    Row("width 256", 28, width=256),
    Row("width 1024", 168, width=1024),
    Row("feed-forward 1024", 53, feed_forward=1024),
    Row("feed-forward 4096", 90, feed_forward=4096),
    Row("big", 213, width=1024, feed_forward=4096),
)


def encoder_decoder_weights(row: Row, vocabulary: int) -> int:
    """Weights alone of the 2017 model: one shared table, encoder blocks, and decoder blocks that attend twice."""
    attention, network = 4 * row.width**2, 2 * row.width * row.feed_forward
    return vocabulary * row.width + row.layers * (3 * attention + 2 * network)


def implied_vocabulary(row: Row) -> int:
    """The vocabulary with which the row comes out as printed; the paper states none but "about 37000"."""
    return round((row.millions * 10**6 - encoder_decoder_weights(row, 0)) / row.width)


PARAMETERS = Proposition(
    number="VII.2",
    slug="parameters",
    statement="By count, most parameters of a transformer are not attention.",
    formula=r"4d^2 \text{ against } 2\,d\,d_{ff} = 8d^2",
    source="Foundations, gathered: fourth usual mistake, laboratory 4; Vaswani et al. 2017, table 3",
    rests_on=(HEADS, BLOCK),
    said="A transformer is mostly attention.",
    so="The feed-forward networks hold about twice as many parameters, and more where key-value heads are shared.",
)

BIASES_FORGOTTEN = Mistake(
    "biases-forgotten",
    "only weights are counted, no biases",
    "the total is short by what a framework reports",
)
NORMS_FORGOTTEN = Mistake(
    "norms-forgotten",
    "the gains and shifts of the norms are not counted",
    "the total is short by a few thousand",
)
PER_BLOCK = Clause(
    proposition=PARAMETERS,
    number="VII.2.1",
    slug="per-block",
    statement="A block has 2d(h+h_kv)d_h attention weights, 4d² at full width, and two or three matrices of d·d_ff, "
    "with the biases and norms that it declares; at d_ff = 4d the feed-forward network is twice the attention, and "
    "more with fewer key-value heads.",
    formula=r"2d\,(h+h_{kv})\,d_h + \{2,3\}\,d\,d_{ff}",
    kind=Kind.COUNT,
    level=(Level.COUNT,),
    proven=True,
    mistakes=(BIASES_FORGOTTEN, NORMS_FORGOTTEN),
)

TIED_COUNTED_TWICE = Mistake(
    "tied-counted-twice",
    "a tied unembedding is counted beside the table that it is",
    "the total is larger by vocabulary times width, a third of a small model",
)
PUBLISHED_TOTALS = Clause(
    proposition=PARAMETERS,
    number="VII.2.2",
    slug="published-totals",
    statement="The totals published with real models come out exactly from their configurations; the rows of the 2017 "
    "paper's table come out up to the vocabulary, which the paper leaves unstated and no single value fits.",
    formula=r"|\theta| = |\theta_{\mathrm{published}}|",
    kind=Kind.COUNT,
    level=(Level.COUNT,),
    rests_on=(PER_BLOCK,),
    mistakes=(TIED_COUNTED_TWICE,),
)

BIAS_NOT_REPORTED = Mistake(
    "bias-not-reported",
    "biases are no parameters of the model",
    "the total is that of another configuration; an optimiser never sees them",
    families=BIASED,
    whole=True,
)
HEAD_REPORTED_TWICE = Mistake(
    "head-reported-twice",
    "a tied table is reported as embedding and as unembedding",
    "the total is larger by vocabulary times width",
    families=TIED_LOGITS,
    whole=True,
)
REPORTED = Clause(
    proposition=PARAMETERS,
    number="VII.2.3",
    slug="reported",
    statement="A model reports as many parameters as its configuration has.",
    formula=r"|\theta_{\mathrm{model}}| = |\theta_{\mathrm{configuration}}|",
    kind=Kind.EXACT,
    level=(Level.MODEL,),
    rests_on=(PER_BLOCK,),
    mistakes=(BIAS_NOT_REPORTED, HEAD_REPORTED_TWICE),
)
