"""I.1: a model is a function of its input and its parameters."""

from gnomon.spec.card import Clause, Kind, Level, Mistake, Proposition
from gnomon.spec.families import BIASED, CAUSAL, GATED, POSITIONED, TIED, WINDOWED

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
REMEMBERS_THE_LAST_CALL = Mistake(
    "remembers-the-last-call",
    "the last stream of a call is kept as a state and added to the first position of the next call",
    "the first answer is right; in a conversation the previous prompt shines through",
    whole=True,
)
REPEATABLE = Clause(
    proposition=FUNCTION,
    number="I.1.1",
    slug="repeatable",
    statement="The same input and parameters give the same output bit for bit, call after call.",
    formula=r"f(x;\theta) = f(x;\theta)",
    kind=Kind.EXACT,
    level=OP_AND_MODEL,
    mistakes=(DROPOUT_LEFT_ON, SURVIVING_STATE, REMEMBERS_THE_LAST_CALL),
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
ADDED_INTO_THE_TABLE = Mistake(
    "added-into-the-table",
    "the first block adds into the rows of the token table, of which the stream is a view",
    "a second call with the same tokens starts from other vectors",
    seen=("huggingface/transformers#47741 (2026)",),
    bugs=("B243",),
    whole=True,
)
PURE = Clause(
    proposition=FUNCTION,
    number="I.1.2",
    slug="pure",
    statement="The forward pass changes neither its inputs nor its parameters.",
    formula=r"(x,\theta)\text{ before} = (x,\theta)\text{ after}",
    kind=Kind.EXACT,
    level=OP_AND_MODEL,
    mistakes=(SCALED_IN_PLACE, MASK_IN_PLACE, ADDED_INTO_THE_TABLE),
)

UNREGISTERED = Mistake(
    "unregistered",
    "the gain of the last norm is not among the parameters that are exported",
    "a checkpoint loads without complaint, and what it lacks stays as it was drawn",
)
UNTIED_ON_EXPORT = Mistake(
    "untied-on-export",
    "the table of a tied pair is exported as the unembedding reads it, over the root of the width",
    "a reloaded model reads and writes with two different tables",
    families=TIED,
    seen=("EleutherAI/gpt-neox#188 (2021)",),
    bugs=("B145",),
)
BUFFER_FROM_FIRST_INPUT = Mistake(
    "buffer-from-first-input",
    "a table of positions is built for the length of the first input, and later ones reuse its last row",
    "right until the first longer prompt",
    families=POSITIONED,
)
PARAMETERS_DETERMINE = Clause(
    proposition=FUNCTION,
    number="I.1.3",
    slug="parameters-determine",
    statement="The declared parameters determine the function: exported and loaded into a fresh instance, they give "
    "the same output bit for bit.",
    formula=r"\theta' = \mathrm{load}(\mathrm{export}(\theta)) \Rightarrow f(x;\theta') = f(x;\theta)",
    kind=Kind.EXACT,
    level=(Level.MODEL,),
    rests_on=(REPEATABLE,),
    mistakes=(UNREGISTERED, UNTIED_ON_EXPORT, BUFFER_FROM_FIRST_INPUT),
)

BIAS_NEVER_ADDED = Mistake(
    "bias-never-added",
    "a projection's bias is loaded and never added",
    "weights from elsewhere lose a part; a bias that is zero at the start hides it",
    families=BIASED,
)
HEAD_DROPPED = Mistake(
    "head-dropped",
    "the output of the last head is overwritten with zeros",
    "a quarter or a twelfth of attention does nothing",
)
GATE_AND_UP_FROM_ONE = Mistake(
    "gate-and-up-from-one",
    "gate and up projections are both read from the gate's tensor",
    "half of the feed-forward parameters are dead; training hides it",
    families=GATED,
)
EVERY_PARAMETER_LIVES = Clause(
    proposition=FUNCTION,
    number="I.1.4",
    slug="every-parameter-lives",
    statement="Every declared parameter has the name and shape that the configuration gives it, and moves some output.",
    formula=r"\forall\, i:\ \partial f/\partial\theta_i \ne 0",
    kind=Kind.BOUND,
    level=(Level.MODEL,),
    mistakes=(BIAS_NEVER_ADDED, HEAD_DROPPED, GATE_AND_UP_FROM_ONE),
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
CENTRED_OVER_BATCH = Mistake(
    "centred-over-batch",
    "the norm takes the mean square over the rows of the batch as well",
    "right for a batch of one; a row's output depends on what it is batched with",
    whole=True,
)
CACHE_ROWS_MIXED = Mistake(
    "cache-rows-mixed",
    "when rows of the cache are put in another order, the values stay where they were",
    "beams continue with each other's past",
    seen=("huggingface/transformers#46612 (2026)",),
    bugs=("B099",),
    families=CAUSAL,
    whole=True,
)
SPLIT_BY_BATCH = Mistake(
    "split-by-batch",
    "how a sum is split depends on the number of rows, and its parts are kept in fewer bits",
    "the same prompt is answered otherwise when the server is busy",
    seen=("a small public project (2025)",),
    bugs=("B242",),
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
    mistakes=(STATISTICS_OVER_BATCH, MASK_OVER_WRONG_AXIS, CENTRED_OVER_BATCH, CACHE_ROWS_MIXED, SPLIT_BY_BATCH),
)

FROZEN_MOVES = Mistake(
    "frozen-moves",
    "a parameter that was frozen is trained with the others",
    "what had to stay as it was drifts",
)
POSITIONS_TRAINED = Mistake(
    "positions-trained",
    "the frequencies of rotary positions move with every step",
    "the saved parameters no longer give the trained model",
    families=("llama",),
)
CALLER_UPDATED = Mistake(
    "caller-updated",
    "the step is made in the caller's arrays",
    "the start is lost, and a second run begins where the first one ended",
)
NOTHING_ELSE = Clause(
    proposition=FUNCTION,
    number="I.1.6",
    slug="nothing-else",
    statement="A training step changes the parameters and nothing else: frozen ones stay, the caller's arrays stay, "
    "and the parameters alone give the trained model.",
    formula=r"f(x;\theta_1) \text{ from } \theta_1 \text{ alone},\quad "
    r"\theta_{1,\text{frozen}} = \theta_{0,\text{frozen}}",
    kind=Kind.EXACT,
    level=(Level.TRAIN,),
    mistakes=(FROZEN_MOVES, POSITIONS_TRAINED, CALLER_UPDATED),
)

RAW_BUFFER = Mistake(
    "raw-buffer",
    "the kernel reads the memory behind a view as if it were contiguous",
    "a transposed view gives other tokens' numbers; contiguous tests pass",
    seen=("a small public project (2026)",),
    bugs=("B248",),
)
RAW_VALUES = Mistake(
    "raw-values",
    "the kernel heeds the strides of queries and keys and not those of values",
    "right until some other operation leaves a view where it used to leave a copy",
    seen=("a small public project (2026)",),
    bugs=("B249",),
)
RAW_WHEN_WIDE = Mistake(
    "raw-when-wide",
    "a fast path, taken for heads of 64 features or more, reads views as if they were contiguous",
    "small tests pass; models of the usual size attend to other tokens",
    seen=("pytorch/pytorch#181133 (2026)",),
    bugs=("B250",),
)
ANY_LAYOUT = Clause(
    proposition=FUNCTION,
    number="I.1.7",
    slug="any-layout",
    statement="Strided, transposed and broadcast views give what a contiguous copy gives.",
    formula=r"f(\mathrm{view}(x)) = f(\mathrm{copy}(\mathrm{view}(x)))",
    kind=Kind.BOUND,
    mistakes=(RAW_BUFFER, RAW_VALUES, RAW_WHEN_WIDE),
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
PATH_WITHOUT_WINDOW = Mistake(
    "path-without-window",
    "the path that records a trace forgets the sliding window",
    "inspection shows another model than the one that runs",
    families=WINDOWED,
    whole=True,
)
EVERY_PATH = Clause(
    proposition=FUNCTION,
    number="I.1.8",
    slug="every-path",
    statement="Every path gives the same function, alone and in every combination of options that selects it.",
    formula=r"f_{\text{path}}(x;\theta) = f(x;\theta)",
    kind=Kind.BOUND,
    level=OP_AND_MODEL,
    mistakes=(FALLBACK_WITHOUT_SCALE, FAST_PATH_READS_MASK_INVERTED, PATH_WITHOUT_WINDOW),
)

KEEP_FOR_DROP = Mistake(
    "keep-share-for-share",
    "the share to drop is taken for the share to keep",
    "a network at 0.1 loses nine tenths of its activations and hardly learns",
)
SAME_MASK = Mistake(
    "same-mask-every-call",
    "every call drops the same entries, whatever the seed",
    "the same units are dead in all of training and alive in evaluation",
)
SCALING_FORGOTTEN = Mistake(
    "dropout-unscaled",
    "what is kept is not divided by the share that is kept",
    "activations are larger in evaluation than they were in training",
)
MASK_OF_A_ROW = Mistake(
    "one-mask-for-all-rows",
    "one mask is drawn and used for every row of the batch",
    "rows lose the same units, so the noise does not average out over the batch",
)
ALL_DROPPED = Mistake(
    "mask-never-filled",
    "the mask is made and never filled, so that everything is dropped",
    "in training the model stays at chance; evaluation does not show why",
    seen=("a small public project (2026)",),
    bugs=("B166",),
)
SEED_BY_ADDRESS = Mistake(
    "seed-by-address",
    "the generator is started from where the seed lies, not from the seed",
    "the same seed gives another mask at every call, and nothing can be repeated",
    seen=("facebookresearch/xformers#173 (2022)",),
    bugs=("B164",),
)
DROPOUT = Clause(
    proposition=FUNCTION,
    number="I.1.9",
    slug="dropout",
    statement="Dropout, where it is on, drops the declared share, keeps the expectation, draws every entry by itself, "
    "draws anew for another seed and repeats under the same one.",
    formula=r"y_i = \frac{m_i x_i}{1-p},\quad m_i\sim\mathrm{Bernoulli}(1-p)",
    kind=Kind.STAT,
    mistakes=(KEEP_FOR_DROP, SAME_MASK, SCALING_FORGOTTEN, MASK_OF_A_ROW, ALL_DROPPED, SEED_BY_ADDRESS),
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
POSITIONS_OF_LONGEST = Mistake(
    "table-of-longest-call",
    "positions are scaled so that the longest call so far fits, and stay so for all",
    "a short prompt after a long one is answered worse",
    families=POSITIONED,
    whole=True,
)
STALE_PREFIX = Mistake(
    "stale-prefix",
    "keys and values of a prefix are kept by its tokens alone, and outlive the parameters that made them",
    "after an update of the weights old answers go on",
    seen=("InternLM/lmdeploy#4917 (2026)",),
    bugs=("B115",),
    whole=True,
)
NO_MEMORY = Clause(
    proposition=FUNCTION,
    number="I.1.10",
    slug="no-memory",
    statement="A result depends neither on what memory held before nor on earlier calls, of other sizes or with "
    "other parameters.",
    formula=r"f(x)\text{ after } f(\text{long}) = f(x)",
    kind=Kind.EXACT,
    level=OP_AND_MODEL,
    rests_on=(REPEATABLE,),
    mistakes=(STALE_TILE, TABLE_OF_LONGEST, POSITIONS_OF_LONGEST, STALE_PREFIX),
)
