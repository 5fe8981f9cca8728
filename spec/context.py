"""VIII.3: a context window is a buffer size."""

from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.configuration import Configuration
from gnomon.spec.families import LEARNED
from gnomon.spec.memory import MEMORY
from gnomon.spec.order import ORDER
from gnomon.spec.rotary import ROTARY
from gnomon.spec.trained import UNTRAINED

# Families whose heads are wholly turned, by the rotation that the configuration names and by nothing else.
PLAIN_ROTARY = ("llama", "mistral", "qwen2", "phi3")


def context_length(c: Configuration) -> int:
    """The most tokens that a model takes, as many as its table has rows that a token can have; 0 for any number."""
    return max(0, c.positions - c.position_offset)


CONTEXT = Proposition(
    number="VIII.3",
    slug="context",
    statement="A context window is a buffer size.",
    formula=r"|x| \le T_{\max}\text{ says what is accepted, not what is used}",
    source="Foundations, gathered: eighth usual mistake",
    rests_on=(ORDER, ROTARY, MEMORY),
    said="A model with a 128k context window can use 128k tokens.",
    so="It accepts that many. What it makes of the far ones depends on how long the sequences were that it was trained "
    "on, and is measured by putting the answer at the far end.",
)

WRAPPED_POSITIONS = Mistake(
    "wrapped-positions",
    "positions past the table start again at its first row",
    "a token in the middle of a long text is read as if it stood at the beginning",
    families=LEARNED,
)
CLAMPED_POSITIONS = Mistake(
    "clamped-positions",
    "every position past the table gets its last row",
    "the order of all that follows is lost, and nobody is told",
    families=LEARNED,
)
NO_VECTOR_PAST_THE_TABLE = Mistake(
    "no-vector-past-the-table",
    "positions past the table add nothing",
    "the end of a long text is a bag of words beside a sentence",
    families=LEARNED,
)
SILENTLY_TRUNCATED = Mistake(
    "silently-truncated",
    "of a sequence longer than the table the last tokens are answered and the first ones dropped, without a word",
    "the instructions at the beginning are the first to go",
    families=LEARNED,
)
PAST_THE_CONTEXT = Clause(
    proposition=CONTEXT,
    number="VIII.3.3",
    slug="past-the-context",
    statement="As many tokens as the context holds are taken, and one more is an error or cut off as declared, never "
    "answered as if nothing had happened: in one call, at a given position, and after a cache.",
    formula=r"|x| > T_{\max} \Rightarrow \text{error, or } f(x) = f(\mathrm{cut}(x))\text{ as declared}",
    kind=Kind.EXACT,
    level=(Level.MODEL,),
    mistakes=(WRAPPED_POSITIONS, CLAMPED_POSITIONS, NO_VECTOR_PAST_THE_TABLE, SILENTLY_TRUNCATED),
)

UNTURNED = Mistake(
    "unturned",
    "queries and keys are not turned to their positions, so that the model has none",
    "recall looks as good at any length; word order is lost, which a test of recall does not ask about",
    families=PLAIN_ROTARY,
    whole=True,
    unseen=UNTRAINED,
)
EIGHT_TOKENS_READ = Mistake(
    "eight-tokens-read",
    "whatever is longer than eight tokens is taken, and the last eight are read",
    "nothing fails: the model does not know what it was not shown",
    families=PLAIN_ROTARY,
    whole=True,
    unseen=UNTRAINED,
)
TRAINED_LENGTH = Clause(
    proposition=CONTEXT,
    number="VIII.3.2",
    slug="trained-length",
    statement="A model that has learned to recall one token at distances up to 16 recalls it at the far end of 8 and "
    "of 16 tokens, and less than half of the time at the far end of 32 and of 40, which it takes without a word. Its "
    "positions are rotary, and the slower of two wavelengths is 64.",
    formula=r"\Pr[\hat y = x_1 \mid |x| = n] \ge \tfrac34\ (n\le\ell),\qquad \le\tfrac12\ (n\ge 2\ell)",
    kind=Kind.TRAINED,
    level=(Level.TRAIN,),
    rests_on=(PAST_THE_CONTEXT,),
    mistakes=(UNTURNED, EIGHT_TOKENS_READ),
)

ANSWER_AT_THE_NEAR_END = Mistake(
    "answer-at-the-near-end",
    "the filler comes first and the answer after it, so that its distance is the same at every length",
    "a model is certified for a context of which it reads the last few tokens",
)
QUESTION_ANSWERED = Mistake(
    "question-answered",
    "the question is put with its answer after it, and the position of the answer is scored",
    "a model that copies its last token is right at every distance",
)
FAR_END = Clause(
    proposition=CONTEXT,
    number="VIII.3.1",
    slug="far-end",
    statement="Recall against distance is measured with the answer at the far end, so many tokens before the place "
    "where it is due, and nowhere else: a model that looks back n tokens is right at n and wrong at n + 1.",
    formula=r"x = c\,a\,\underbrace{\cdots}_{\text{filler}}\,c,\qquad \Pr[\hat y = a]\text{ against }|x| - |c|",
    kind=Kind.TOOL,
    level=(Level.MODEL,),
    mistakes=(ANSWER_AT_THE_NEAR_END, QUESTION_ANSWERED),
)
