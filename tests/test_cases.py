"""The strategies can produce every situation that the clauses are about, exactly, and every case is read back."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from gnomon.impl.loading import load
from gnomon.props import cases
from gnomon.props.cases import (
    REGIMES,
    AttentionCase,
    Case,
    EmbeddingCase,
    FeedForwardCase,
    LinearCase,
    MalformedCase,
    MultiHeadCase,
    NormCase,
    ReachCase,
    RotaryCase,
    attention_cases,
    count_cases,
    embedding_cases,
    feed_forward_cases,
    linear_cases,
    multi_head_cases,
    norm_cases,
    order_cases,
    reach_cases,
    read_case,
    rotary_cases,
    square,
)
from gnomon.props.engine import Budget, examine
from gnomon.props.property import properties
from gnomon.props.subject import Subject
from gnomon.spec.bounds import round_to
from gnomon.spec.catalogue import clauses
from gnomon.spec.precision import FORMATS

LOOKING = settings(
    max_examples=2000, database=None, phases=[Phase.generate], derandomize=True, suppress_health_check=list(HealthCheck)
)
QUICK = settings(max_examples=60, database=None, derandomize=True, deadline=None)
KINDS = {
    "attention": attention_cases(masked=st.sampled_from(cases.MASKS), window=st.integers(0, 4)),
    "linear": linear_cases(),
    "feed_forward": feed_forward_cases(),
    "multi_head": multi_head_cases(head_pairs=((1, 1), (4, 2), (6, 2))),
    "count": count_cases(name=st.sampled_from(("", "gpt2"))),
    "rotary": rotary_cases(scaling=st.sampled_from(("", *cases.SCALINGS))),
    "order": order_cases(),
    "norm": norm_cases(),
    "embedding": embedding_cases(),
    "reach": reach_cases(),
}
BOTH = st.one_of(*KINDS.values())

ATTENTION = {
    "one query": lambda c: c.queries == 1,
    "one key": lambda c: c.keys == 1,
    "odd length": lambda c: c.keys % 2 and c.keys > 1,
    "prime length above the tile": lambda c: c.keys in (11, 13, 17, 19),
    "fewer queries than keys": lambda c: c.queries < c.keys,
    "more queries than keys": lambda c: c.queries > c.keys,
    "as many queries as keys": lambda c: c.queries == c.keys > 1,
    "one key-value head for all": lambda c: c.kv_heads == 1 < c.heads,
    "key-value heads between": lambda c: 1 < c.kv_heads < c.heads,
    "key-value heads unlike their share": lambda c: 1 < c.kv_heads < c.heads and c.kv_heads != c.heads // c.kv_heads,
    "heads unlike the width": lambda c: c.heads not in (1, c.width),
    "value width unlike key width": lambda c: c.value_width != c.width,
    "width of one": lambda c: c.width == 1,
    "width that is no square": lambda c: c.width in (2, 3, 8),
    "rows of a batch and heads": lambda c: c.batch > 1 and c.heads > 1,
    "every axis another length": lambda c: len({c.batch, c.heads, c.queries, c.keys, c.width}) == 5,
}


@pytest.mark.parametrize("situation", ATTENTION)
def test_attention_cases_can_be(situation):
    find(attention_cases(), ATTENTION[situation], settings=LOOKING)


@pytest.mark.parametrize("regime", REGIMES)
def test_every_regime_can_be_drawn(regime):
    drawn = st.one_of(*(p.cases(SUBJECT) for p in properties() if p.name in ("equation", "repeatable", "affine")))
    find(drawn, lambda c: c.regime == regime, settings=LOOKING)


OTHERS = {
    "a stack of more than two layers": ("linear", lambda c: c.depth > 2),
    "width in unlike width out": ("linear", lambda c: c.inner != c.outer),
    "all axes of one length": ("linear", lambda c: c.batch == c.time == c.inner == c.outer > 1),
    "with and without a bias": ("linear", lambda c: c.biased),
    "gated": ("feed_forward", lambda c: c.gated and c.biased),
    "hidden unlike the width": ("feed_forward", lambda c: c.hidden != c.width > 1),
    "heads unlike the head width": ("multi_head", lambda c: c.heads > 1 and c.head_width not in (1, c.heads)),
    "shared key-value heads": ("multi_head", lambda c: 1 < c.kv_heads < c.heads),
    "causal rows of a batch": ("multi_head", lambda c: c.causal and c.batch > 1 and c.time > 2),
    "positions that bfloat16 confuses": ("rotary", lambda c: 2**8 < c.positions.max() <= 2**11),
    "positions that float16 confuses": ("rotary", lambda c: 2**11 < c.positions.max() <= 2**14),
    "positions beyond 65504": ("rotary", lambda c: 2**16 < c.positions.max() <= 2**17),
    "positions of each row": ("rotary", lambda c: c.batch > 1 and c.positions.shape == (c.batch, c.time)),
    "a sequence within the original context": ("rotary", lambda c: c.scaling == "dynamic-ntk" and c.reach < 64),
    "a sequence beyond it": ("rotary", lambda c: c.scaling == "dynamic-ntk" and c.reach > 64),
    "half of a head turned": ("rotary", lambda c: c.width == c.head_width // 2 > 2),
    "a row on which epsilon weighs more than the variance": (
        "norm",
        lambda c: c.width > 1 and 0 < c.arrays(FORMATS["float32"])[0].var(-1).max() < c.eps,
    ),
    "a square out of the range of float16": (
        "norm",
        lambda c: 2.0**8 < np.abs(c.arrays(FORMATS["float16"])[0]).max() < np.inf,
    ),
    "a row far from zero with a shift": ("norm", lambda c: c.regime == "large-mean" and c.width > 4 and c.biased),
    "one row named twice": ("embedding", lambda c: c.ids.size > len(np.unique(c.ids)) > 1),
    "the first and the last row named": ("embedding", lambda c: {0, c.vocabulary - 1} <= set(c.ids.flat) != {0}),
    "more rows than ids": ("embedding", lambda c: c.vocabulary > c.ids.size > 1),
    "heads past the powers of two": ("order", lambda c: c.heads > 8 and c.heads & (c.heads - 1)),
}


@pytest.mark.parametrize("situation", OTHERS)
def test_other_cases_can_be(situation):
    kind, condition = OTHERS[situation]
    find(KINDS[kind], condition, settings=LOOKING)


def test_every_activation_can_be_drawn():
    for activation in cases.ACTIVATIONS:
        find(feed_forward_cases(), lambda c, a=activation: c.activation == a, settings=LOOKING)


# What the regimes are.

MARKS = {
    "ordinary": lambda x: np.abs(x).max() < 8,
    "tiny": lambda x: 0 < np.abs(x).max() < 0.01,
    "sharp": lambda x: np.abs(x).max() > 4,
    "huge": lambda x: np.abs(x).max() > 100,
    "near-ties": lambda x: np.ptp(x) < 0.25 and len(np.unique(x)) > 1,
    "large-mean": lambda x: x.mean() > 16,
    "constant": lambda x: len(np.unique(x)) == 1,
    "heavy-tails": lambda x: np.abs(x).max() > 6,
    "powers-of-two": lambda x: (np.abs(np.frexp(x)[0]) == 0.5).all(),
    "cancelling": lambda x: np.abs(x.reshape(-1, 2).sum(-1)).max() < np.abs(x).max() / 16,
}


@pytest.mark.parametrize("regime", REGIMES)
def test_a_regime_is_what_its_name_says(regime):
    x = REGIMES[regime](np.random.default_rng(7), (64, 8))
    assert (x.shape, bool(MARKS[regime](x))) == ((64, 8), True)


# Exact numbers.


def numbers(case, form):
    """Every array of a case."""
    match case:
        case AttentionCase():
            masks = case.options(form).values()
            return [*case.arrays(form), *(m for m in masks if isinstance(m, np.ndarray) and m.dtype == float)]
        case LinearCase() | ReachCase():
            return [case.input(form), *(a for i in range(case.depth) for a in case.layer(form, i) if a is not None)]
        case FeedForwardCase() | MultiHeadCase():
            return [case.input(form), *case.parameters(form).values()]
        case RotaryCase() | NormCase():
            return [*case.arrays(form)]
        case EmbeddingCase():
            return [case.table(form)]
    return []  # a case of counting has whole numbers alone


@pytest.mark.parametrize("form", FORMATS.values(), ids=lambda f: f.name)
@given(case=BOTH)
@QUICK
def test_every_number_of_a_case_is_exact_in_its_format(form, case):
    for array in numbers(case, form):
        assert array.dtype == np.float64
        assert np.array_equal(array, round_to(array, form))
        assert np.array_equal(array, array.astype(form.dtype).astype(np.float64))


@given(case=BOTH)
@QUICK
def test_the_numbers_of_a_case_are_the_same_at_every_use(case):
    form = FORMATS["float32"]
    assert all(np.array_equal(a, b) for a, b in zip(numbers(case, form), numbers(case, form), strict=True))


@given(case=KINDS["attention"])
@QUICK
def test_a_drawn_mask_leaves_each_query_a_key(case):
    permitted = case.permitted(case.batch, 1)
    assert permitted.shape == (case.batch, 1, case.queries, case.keys)
    assert permitted.any(-1).all()


@given(case=KINDS["attention"])
@QUICK
def test_a_square_case_has_as_many_keys_as_queries(case):
    assert square(case) == replace(case, keys=case.queries)


@given(case=KINDS["rotary"])
@QUICK
def test_positions_reach_as_far_as_they_say(case):
    assert (case.positions.min() >= 0, case.positions.max()) == (True, case.reach)


@pytest.mark.parametrize("name", cases.SCALINGS)
@pytest.mark.parametrize("width", [2, 4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("base", [100.0, 10000.0, 500000.0])
def test_no_edge_of_a_band_is_within_rounding_of_a_whole_number(name, width, base):
    s = cases.SCALINGS[name]
    turns = [width * np.log(s.original / (n * 2 * np.pi)) / (2 * np.log(base)) for n in (s.low, s.high)]
    assert s.kind != "yarn" or min(abs(t - round(t)) for t in turns) > 2**-10


# Printing and reading back.


@given(case=BOTH)
@QUICK
def test_a_case_is_read_back_from_its_line(case):
    assert read_case(str(case)) == case


@given(case=BOTH)
@QUICK
def test_a_case_is_one_line_that_needs_no_quoting(case):
    assert set(" '\n\"$`\\") & set(str(case)) == set()


def below(kind):
    return {c for child in kind.__subclasses__() for c in (child, *below(child))}


@pytest.mark.parametrize("kind", cases.kinds().values())
def test_every_kind_of_case_can_be_read(kind):
    assert type(read_case(str(kind()))) is kind
    assert {c.__name__ for c in below(Case)} == {c.__name__ for c in cases.kinds().values()}


@pytest.mark.parametrize("text", ["", "nonsense", "attention,keys", "attention,keys=1.5", "linear,biased=yes"])
def test_what_is_no_case_is_refused(text):
    with pytest.raises(MalformedCase):
        read_case(text)


# Through the properties.

SUBJECT = Subject(load("numpy"), "float32")


@pytest.mark.parametrize("prop", properties(), ids=lambda p: p.id)
def test_a_property_decides_cases_that_it_draws_and_reads_back(prop):
    subject = Subject(SUBJECT.implementation, "float32")
    assert examine(prop, subject, Budget(cases=4, shrink=False, sensitivity=False)).cases > 0
    case = find(prop.cases(subject), lambda c: True, settings=LOOKING)
    assert prop.read_case(str(case)) == case
    assert {f.name for f in fields(case)} >= {"regime", "seed"}


def test_a_clause_draws_rows_with_nothing_to_attend_to():
    prop = next(p for p in properties() if p.name == "empty_row")
    assert prop.clause in clauses()
    seen = Subject(SUBJECT.implementation, "float32")
    examine(prop, seen, Budget(cases=4, shrink=False, sensitivity=False))
    masks = [c.options["mask"] for c in seen.calls if "mask" in c.options]
    assert masks
    assert all((~(m if m.dtype == bool else np.isfinite(m)).any(-1)).any() for m in masks)
