"""I.1: a model is a function of its input and its parameters."""

from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition

OP_AND_MODEL = (Level.OP, Level.MODEL)

FUNCTION = Proposition(
    number="I.1",
    slug="function",
    statement="A model is a function of the input and the parameters, and training may change only the second.",
    formula=r"\hat y = f(x;\theta)",
    source="Foundations, gathered: equation 1; vocabulary: parameter",
)

DROPOUT_LEFT_ON = Mistake(
    "dropout-left-on",
    "attention weights are dropped at random whatever the mode",
    "two calls disagree; evaluation scores are noisy and slightly low",
    seen=("huggingface/pytorch-image-models#1978 (2023)",),
    bugs=("B006",),
)
SURVIVING_STATE = Mistake(
    "surviving-state",
    "a running maximum of the scores survives the call and is used as the next one's shift",
    "the same input gives other bits, and after a large input other numbers",
)
REPEATABLE = Clause(
    proposition=FUNCTION,
    number="I.1.1",
    slug="repeatable",
    statement="The same input and parameters give the same output bit for bit, call after call.",
    formula=r"f(x;\theta) = f(x;\theta)",
    kind=Kind.EXACT,
    level=OP_AND_MODEL,
    mistakes=(DROPOUT_LEFT_ON, SURVIVING_STATE),
)

SCALED_IN_PLACE = Mistake(
    "scaled-in-place",
    "the query is scaled in the caller's own array",
    "the caller's next use of the query sees it shrunk",
)
MASK_IN_PLACE = Mistake(
    "mask-in-place",
    "the causal triangle is written into the mask that the caller owns",
    "a mask that is used again for another layer has become causal",
    needs=("mask", "causal"),
)
PURE = Clause(
    proposition=FUNCTION,
    number="I.1.2",
    slug="pure",
    statement="The forward pass changes neither its inputs nor its parameters.",
    formula=r"(x,\theta)\text{ before} = (x,\theta)\text{ after}",
    kind=Kind.EXACT,
    level=OP_AND_MODEL,
    mistakes=(SCALED_IN_PLACE, MASK_IN_PLACE),
)

STATISTICS_OVER_BATCH = Mistake(
    "statistics-over-batch",
    "the weights are normalised over the batch axis",
    "a row's output depends on its neighbours, and weights no longer sum to one",
)
MASK_OVER_WRONG_AXIS = Mistake(
    "mask-over-wrong-axis",
    "the mask of the first row of the batch is used for all",
    "rows with other padding attend to padding or lose tokens",
    needs=("mask",),
)
ROWS_APART = Clause(
    proposition=FUNCTION,
    number="I.1.5",
    slug="rows-apart",
    statement="The rows of a batch do not see one another: a row alone equals the row in its batch, and "
    "permuted rows give permuted outputs.",
    formula=r"f(X)_b = f(X_b),\qquad f(PX) = P f(X)",
    kind=Kind.BOUND,
    level=OP_AND_MODEL,
    mistakes=(STATISTICS_OVER_BATCH, MASK_OVER_WRONG_AXIS),
)

RAW_BUFFER = Mistake(
    "raw-buffer",
    "the kernel reads the memory behind a view as if it were contiguous",
    "a transposed view gives other tokens' numbers; contiguous tests pass",
)
ANY_LAYOUT = Clause(
    proposition=FUNCTION,
    number="I.1.7",
    slug="any-layout",
    statement="Strided, transposed and broadcast views give what a contiguous copy gives.",
    formula=r"f(\mathrm{view}(x)) = f(\mathrm{copy}(\mathrm{view}(x)))",
    kind=Kind.BOUND,
    mistakes=(RAW_BUFFER,),
)

FALLBACK_WITHOUT_SCALE = Mistake(
    "fallback-without-scale",
    "the path that also returns the weights forgets the scale",
    "switching on an inspection option changes the model",
)
FAST_PATH_READS_MASK_INVERTED = Mistake(
    "fast-path-reads-mask-inverted",
    "the evaluation path reads the boolean mask with the other polarity than the training path",
    "training looks right and evaluation attends to padding only",
    seen=("pytorch/pytorch#86120 (2022)",),
    bugs=("B051",),
    needs=("mask",),
)
EVERY_PATH = Clause(
    proposition=FUNCTION,
    number="I.1.8",
    slug="every-path",
    statement="Every path gives the same function, alone and in every combination of options that selects it.",
    formula=r"f_{\text{path}}(x;\theta) = f(x;\theta)",
    kind=Kind.BOUND,
    level=OP_AND_MODEL,
    mistakes=(FALLBACK_WITHOUT_SCALE, FAST_PATH_READS_MASK_INVERTED),
)

STALE_TILE = Mistake(
    "stale-tile",
    "the last tile of keys is padded with what a work buffer held from an earlier call",
    "the first call is right; a short call after a long one sees old keys",
)
TABLE_OF_LONGEST = Mistake(
    "table-of-longest",
    "the causal table is kept from the longest call, and shorter calls take the wrong corner of it",
    "a short call after a long one attends to the future",
    needs=("causal",),
)
NO_MEMORY = Clause(
    proposition=FUNCTION,
    number="I.1.10",
    slug="no-memory",
    statement="A result depends neither on what memory held before nor on earlier calls of other sizes.",
    formula=r"f(x)\text{ after } f(\text{long}) = f(x)",
    kind=Kind.EXACT,
    level=OP_AND_MODEL,
    rests_on=(REPEATABLE,),
    mistakes=(STALE_TILE, TABLE_OF_LONGEST),
)
