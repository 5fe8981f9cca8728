"""V.3 held to an implementation: heads concatenated, summed, counted, permuted, isolated, shared and re-based."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from gnomon.props import expected
from gnomon.props.cases import (
    HEADS,
    LENGTHS,
    AttentionCase,
    MultiHeadCase,
    attention_cases,
    multi_head_cases,
)
from gnomon.props.judge import Comparison, between, close
from gnomon.props.outcome import ImplementationFailed
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import heads as spec
from gnomon.spec.evaluators import Floats

Comparisons = Iterator[Comparison]
Parameters = dict[str, Floats]

MULTI_HEAD = ("multi_head_attention",)
SEVERAL = ((2, 2), (3, 3), (4, 4))


def outcome(subject: Subject, case: MultiHeadCase, parameters: Parameters) -> tuple[Floats, Floats]:
    """What the implementation gives for the case's input, and its bound."""
    x = case.input(subject.precision.storage)
    got = subject.multi_head(x, parameters, **case.options())
    return got, expected.multi_head(subject, x, parameters, **case.options()).allowed


def features(case: MultiHeadCase, head: int) -> slice:
    """The slice of the width that belongs to a head."""
    return slice(head * case.head_width, (head + 1) * case.head_width)


@checks(spec.MULTI_HEAD, multi_head_cases(), needs=MULTI_HEAD)
def multi_head(subject: Subject, case: MultiHeadCase) -> Comparisons:
    """The output is the specification's."""
    form = subject.precision.storage
    x, parameters, options = case.input(form), case.parameters(form), case.options()
    got, due = subject.multi_head(x, parameters, **options), expected.multi_head(subject, x, parameters, **options)
    yield close("output", got, *due)


@checks(spec.SUM_OVER_HEADS, multi_head_cases(head_pairs=SEVERAL, biased=False), needs=MULTI_HEAD)
def sum_over_heads(subject: Subject, case: MultiHeadCase) -> Comparisons:
    """Heads taken one at a time, each with its own slice of the output weight, add up to the whole."""
    parameters = case.parameters(subject.precision.storage)
    whole, allowed = outcome(subject, case, parameters)
    parts = [outcome(subject, case, _alone(case, parameters, head)) for head in range(case.heads)]
    total = sum(part for part, _ in parts)
    yield close("sum over heads", total, whole, allowed + sum(blur for _, blur in parts))


def _alone(case: MultiHeadCase, parameters: Parameters, head: int) -> Parameters:
    """The parameters with every other head's value and output slices zero."""
    own = np.zeros(case.width, bool)
    own[features(case, head)] = True
    value = np.where(own[:, None], parameters["value_weight"], 0.0)
    return parameters | {"value_weight": value, "output_weight": np.where(own, parameters["output_weight"], 0.0)}


@checks(spec.ONE_BUDGET, multi_head_cases(head_pairs=SEVERAL, biased=False), needs=MULTI_HEAD)
def one_budget(subject: Subject, case: MultiHeadCase) -> Comparisons:
    """The same parameters serve one head and several; a number of heads that does not divide the width fails."""
    form = subject.precision.storage
    x, parameters = case.input(form), case.parameters(form)
    for heads in (1, case.heads):
        got = subject.multi_head(x, parameters, heads=heads)
        yield close(f"output with {heads} heads", got, *expected.multi_head(subject, x, parameters, heads=heads))
    yield close("a result for heads that do not divide the width", _returns(subject, x, parameters, case), 0.0, 0.0)


def _returns(subject: Subject, x: Floats, parameters: Parameters, case: MultiHeadCase) -> float:
    """One if the implementation returns for one head more than the width, zero if it raises."""
    heads = case.width + 1 if case.width < 3 else case.width - 1
    try:
        subject.multi_head(x, parameters, heads=heads)
    except ImplementationFailed:
        return 0.0
    return 1.0


@checks(spec.HEAD_PERMUTATION, multi_head_cases(head_pairs=SEVERAL), needs=MULTI_HEAD)
def head_permutation(subject: Subject, case: MultiHeadCase) -> Comparisons:
    """Heads permuted in every parameter give the same output."""
    parameters = case.parameters(subject.precision.storage)
    order = case.rng.permutation(case.heads) if case.seed % 2 else np.arange(case.heads)[::-1]
    rows = np.concatenate([np.arange(case.width)[features(case, h)] for h in order])
    permuted = {n: p if n == "output_bias" else p[rows] for n, p in parameters.items()}
    permuted["output_weight"] = parameters["output_weight"][:, rows]
    (got, allowed), (reference, blur) = (outcome(subject, case, p) for p in (permuted, parameters))
    yield close("output for permuted heads", got, reference, allowed + blur)


@checks(spec.ISOLATED, multi_head_cases(head_pairs=SEVERAL), needs=MULTI_HEAD)
def isolated(subject: Subject, case: MultiHeadCase) -> Comparisons:
    """With one head's output silenced, its query, key and value weights move nothing."""
    form = subject.precision.storage
    parameters = case.parameters(form)
    head = features(case, case.seed % case.heads)
    silenced = parameters["output_weight"].copy()
    silenced[:, head] = 0.0
    parameters = parameters | {"output_weight": silenced}
    changed = dict(parameters)
    for name in ("query_weight", "key_weight", "value_weight"):
        changed[name] = parameters[name].copy()
        changed[name][head] *= -4.0
    (got, allowed), (reference, blur) = (outcome(subject, case, p) for p in (changed, parameters))
    yield close("output after a change of a silent head", got, reference, allowed + blur)


SHARED = tuple(pair for pair in HEADS if pair[0] != pair[1])


@checks(spec.GROUPS, attention_cases(head_pairs=SHARED, keys=st.sampled_from(LENGTHS[1:])), plain=False)
def groups(subject: Subject, case: AttentionCase) -> Comparisons:
    """Each query head reads the key-value head that the declared mapping gives it."""
    arrays = case.arrays(subject.precision.storage)
    yield close("output", subject.attention(*arrays), *expected.attention(subject, *arrays))


@checks(
    spec.GROUPS, multi_head_cases(head_pairs=((4, 2), (2, 1), (6, 2), (6, 3))), needs=MULTI_HEAD, mistakes=()
)  # fmt: skip
def groups_of_projected_heads(subject: Subject, case: MultiHeadCase) -> Comparisons:
    """The same through projections of their own widths."""
    yield from multi_head.check(subject, case)


@checks(
    spec.CHANGE_OF_BASIS,
    multi_head_cases(biased=False, head_width=st.sampled_from((2, 3, 4)), regime="ordinary"),
    needs=MULTI_HEAD,
)
def change_of_basis(subject: Subject, case: MultiHeadCase) -> Comparisons:
    """An invertible matrix on one head's query slice and its inverse transpose on the key slice cancel."""
    plain, (matrix, inverse) = _coarse(case), _shear(case)
    head = features(case, case.seed % case.heads)
    changed = {name: weight.copy() for name, weight in plain.items()}
    changed["query_weight"][head] = matrix @ plain["query_weight"][head]
    only_query = plain | {"query_weight": changed["query_weight"]}
    changed["key_weight"][head] = inverse.T @ plain["key_weight"][head]
    changed["value_weight"][head] = matrix @ plain["value_weight"][head]
    changed["output_weight"][:, head] = plain["output_weight"][:, head] @ inverse
    (got, allowed), (reference, blur) = (outcome(subject, case, p) for p in (changed, plain))
    yield close("output after a change of basis", got, reference, allowed + blur)
    yield from _differs(subject, case, only_query, plain)


def _coarse(case: MultiHeadCase) -> Parameters:
    """Weights that are quarters, so that a shear of them is exact in every format."""
    rng = np.random.default_rng((case.seed, 5))
    names = ("query_weight", "key_weight", "value_weight", "output_weight")
    return {name: rng.integers(-4, 5, (case.width, case.width)) / 4.0 for name in names}


def _shear(case: MultiHeadCase) -> tuple[Floats, Floats]:
    """A product of integer shears along the superdiagonal, and its inverse, both exact."""
    matrix, inverse = np.eye(case.head_width), np.eye(case.head_width)
    for row, column in pairwise(range(case.head_width)):
        step = np.eye(case.head_width)
        step[row, column] = 2.0
        undo = 2 * np.eye(case.head_width) - step
        matrix, inverse = step @ matrix, inverse @ undo
    return matrix, inverse


def _differs(subject: Subject, case: MultiHeadCase, one: Parameters, other: Parameters) -> Comparisons:
    """The control: where the specification says that half the change moves the output, it does."""
    x = case.input(subject.precision.storage)
    first, second = (expected.multi_head(subject, x, p, **case.options()) for p in (one, other))
    blur = first.allowed + second.allowed
    moves = np.abs(first.value - second.value) > 2 * blur
    (got, _), (reference, _) = (outcome(subject, case, p) for p in (one, other))
    yield between("distance after half the change", np.abs(got - reference), np.where(moves, blur, 0.0), np.inf, 0.0)
