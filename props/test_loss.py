"""I.4 held to an implementation: what its loss is of, over how many targets, which ones, and what it does not fix."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gnomon.props import expected
from gnomon.props.cases import Ids
from gnomon.props.judge import Comparison, between, close, same
from gnomon.props.loss_cases import LossCase, loss_cases
from gnomon.props.measure import OTHER, convention, measured
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import loss as spec
from gnomon.spec.bounds import round_to
from gnomon.spec.evaluators import Floats

Comparisons = Iterator[Comparison]
LOSS, NEXT = ("cross_entropy",), ("next_token_loss",)
MODERATE = st.sampled_from(("ordinary", "sharp", "near-ties", "powers-of-two"))


def loss(subject: Subject, logits: Floats, targets: Ids, reduction: str = "mean", **options: Any) -> Floats:
    """Its cross-entropy; the mean is what is meant where no other reduction is asked for."""
    asked = {} if reduction == "mean" and not subject.offers("cross_entropy", "reduction") else {"reduction": reduction}
    shape = targets.shape if reduction == "none" else ()
    return subject.call("cross_entropy", logits, targets, shape=shape, **asked, **options)


def reductions(subject: Subject) -> tuple[str, ...]:
    """Those that it offers, the finest first."""
    return ("none", "sum", "mean") if subject.offers("cross_entropy", "reduction") else ("mean",)


@checks(spec.CROSS_ENTROPY, loss_cases(), needs=LOSS, mistakes=(spec.SOFTMAX_TWICE, spec.NORMALISER_IN_STORAGE))
def cross_entropy(subject: Subject, case: LossCase) -> Comparisons:
    """The loss of each target, where it can be had alone, is the equation's and not below zero."""
    logits, targets, finest = case.logits(subject.precision.storage), case.targets, reductions(subject)[0]
    got = loss(subject, logits, targets, reduction=finest)
    due = expected.cross_entropy(subject, logits, targets, reduction=finest)
    yield close("loss", got, *due)
    yield between("loss", got, 0.0, np.inf, due.allowed)
    for path in subject.paths("cross_entropy"):
        yield close(f"loss by {path}", loss(subject, logits, targets, reduction=finest, path=path), *due)


@checks(spec.CROSS_ENTROPY, loss_cases(regime="constant"), needs=LOSS, share=0.3, mistakes=())
def equal_logits(subject: Subject, case: LossCase) -> Comparisons:
    """Where all logits are one number the loss is the logarithm of how many there are."""
    logits, targets = case.logits(subject.precision.storage), case.targets
    due = expected.cross_entropy(subject, logits, targets)
    yield close("loss of equal logits", loss(subject, logits, targets), np.log(case.vocabulary), due.allowed)


@checks(spec.CROSS_ENTROPY, loss_cases(), needs=LOSS, mistakes=())
def unshifted(subject: Subject, case: LossCase) -> Comparisons:
    """A constant added to all logits of a position changes nothing."""
    logits = case.rng.integers(-8, 9, (case.batch, case.time, case.vocabulary)).astype(float)
    moved = logits + case.rng.choice([-64.0, 32.0, 16.0], (case.batch, case.time, 1))
    results = [loss(subject, a, case.targets) for a in (logits, moved)]
    room = [expected.cross_entropy(subject, a, case.targets).allowed for a in (logits, moved)]
    yield close("loss after a constant was added", results[1], results[0], sum(room))


@checks(spec.CROSS_ENTROPY, loss_cases(), needs=LOSS, mistakes=(spec.CLIPPED_PROBABILITY, spec.NO_MAXIMUM))
def far_logits(subject: Subject, case: LossCase) -> Comparisons:
    """Logits of ten thousand, of either sign, give the equation's loss, position by position."""
    shape = (1, 1, case.vocabulary)
    logits = round_to(case.rng.choice([-1e4, 0.0, 1e4, 9e3], shape), subject.precision.storage)
    for target in range(min(case.vocabulary, 8)):
        got, due = (f(subject, logits, np.array([[target]])) for f in (loss, expected.cross_entropy))
        yield close(f"loss of target {target}", got, *due)


@checks(
    spec.REDUCTION,
    loss_cases(regime=MODERATE),
    needs=LOSS,
    mistakes=(spec.IGNORED_IN_THE_DENOMINATOR, spec.IGNORED_IN_THE_SUM, spec.MEAN_OF_ROW_MEANS),
)
def reduction(subject: Subject, case: LossCase) -> Comparisons:
    """Every reduction that is offered is over the targets that count."""
    subject.require("cross_entropy", "ignore_index")
    logits, targets = case.logits(subject.precision.storage), case.partly_ignored
    for kind in reductions(subject):
        options: dict[str, Any] = {"reduction": kind, "ignore_index": case.ignore_index}
        got, due = (f(subject, logits, targets, **options) for f in (loss, expected.cross_entropy))
        yield close(f"loss reduced to {kind}", got, *due)
        for path in subject.paths("cross_entropy"):
            yield close(f"loss reduced to {kind} by {path}", loss(subject, logits, targets, path=path, **options), *due)


@checks(spec.REDUCTION, loss_cases(regime=MODERATE), needs=LOSS, mistakes=())
def reduction_of_all(subject: Subject, case: LossCase) -> Comparisons:
    """The same where every target counts."""
    logits = case.logits(subject.precision.storage)
    for kind in reductions(subject):
        got, due = (f(subject, logits, case.targets, reduction=kind) for f in (loss, expected.cross_entropy))
        yield close(f"loss reduced to {kind}", got, *due)


@checks(spec.REDUCTION, loss_cases(regime=MODERATE), needs=LOSS, share=0.2, mistakes=(spec.NOTHING_OVER_NOTHING,))
def all_ignored(subject: Subject, case: LossCase) -> Comparisons:
    """Where no target counts the mean is what was declared; the sum and each loss are zero."""
    subject.require("cross_entropy", "ignore_index")
    declared, seen = subject.conventions.all_ignored, measured(subject, "all_ignored")
    miss = seen == OTHER if declared is None else seen != declared
    yield close(f"all ignored declared {declared}, measured {seen}: miss", float(miss), 0.0, 0.0)
    logits = case.logits(subject.precision.storage)
    targets, options = np.full_like(case.targets, case.ignore_index), {"ignore_index": case.ignore_index}
    for kind in reductions(subject):
        nan = kind == "mean" and convention(subject, "all_ignored") == "nan"
        due = np.nan if nan else 0.0
        yield same(f"loss reduced to {kind}", loss(subject, logits, targets, reduction=kind, **options), due)


@checks(spec.NEXT_TOKEN, loss_cases(regime=MODERATE, time=st.sampled_from((3, 4, 2, 5, 8))), needs=NEXT)
def next_token(subject: Subject, case: LossCase) -> Comparisons:
    """Where one position tells words apart, the next token alone moves the loss, and the last position none."""
    row, position = case.seed % case.batch, case.seed // case.batch % (case.time - 1)
    logits, tokens = np.zeros((case.batch, case.time, case.vocabulary)), case.targets
    logits[row, position] = own = _distinct(case)
    before = next_token_loss(subject, logits, tokens)
    yield close("loss", before, *expected.next_token_loss(subject, logits, tokens))
    for where in np.ndindex(tokens.shape):
        changed = tokens.copy()
        changed[where] = own.argmin() if own[tokens[where]] > 0 else own.argmax()
        after = next_token_loss(subject, logits, changed)
        if where == (row, position + 1):
            yield close("loss after its token changed", after, *expected.next_token_loss(subject, logits, changed))
        else:
            yield same(f"loss of position {position} of row {row} after token {where} changed", after, before)
    logits[:, -1] = _distinct(case)
    yield same("loss after the last logits changed", next_token_loss(subject, logits, tokens), before)


@checks(spec.NEXT_TOKEN, loss_cases(regime=MODERATE, time=st.sampled_from((3, 4, 2, 5, 8))), needs=NEXT, mistakes=())
def next_tokens(subject: Subject, case: LossCase) -> Comparisons:
    """The mean over all positions but the last, and over those whose next token counts."""
    logits, tokens = case.logits(subject.precision.storage), case.targets
    got, due = (f(subject, logits, tokens) for f in (next_token_loss, expected.next_token_loss))
    yield close("loss", got, *due)
    if subject.offers("next_token_loss", "ignore_index"):
        kept = case.partly_ignored
        kept[0, 1] = (case.ignore_index + 1) % case.vocabulary  # of those that are predicted one counts
        options = {"ignore_index": case.ignore_index}
        got, due = (f(subject, logits, kept, **options) for f in (next_token_loss, expected.next_token_loss))
        yield close("loss of what counts", got, *due)


def next_token_loss(subject: Subject, logits: Floats, tokens: Ids, **options: Any) -> Floats:
    """Its loss of next tokens."""
    return subject.call("next_token_loss", logits, tokens, shape=(), **options)


def _distinct(case: LossCase) -> Floats:
    """Whole logits from −8 to 8 in some order."""
    few = np.linspace(-8, 8, min(case.vocabulary, 5)).round()
    return np.asarray(np.resize(np.random.default_rng((case.seed, 23)).permutation(few), case.vocabulary))


@checks(spec.TEMPERATURE, loss_cases(regime=MODERATE), needs=("tempered",))
def temperature(subject: Subject, case: LossCase) -> Comparisons:
    """The probabilities are those of the logits over the temperature, ranked as the logits are."""
    logits, heat = case.logits(subject.precision.storage), case.temperature
    got = subject.call("tempered", logits, shape=logits.shape, temperature=heat)
    due = expected.tempered(subject, logits, heat)
    yield close("probabilities", got, *due)
    order = np.argsort(logits, -1, kind="stable")
    ranked, room = (np.take_along_axis(a, order, -1) for a in (got, due.allowed))
    rises = np.diff(ranked, axis=-1)
    yield between("rise of the probability from logit to logit", rises, 0.0, np.inf, room[..., 1:] + room[..., :-1])


@checks(spec.TEMPERATURE, loss_cases(), needs=LOSS, mistakes=())
def accuracy_is_not_loss(subject: Subject, case: LossCase) -> Comparisons:
    """Two rankings alike with unlike losses, and two losses alike with the target first and second."""
    logits = np.array([[[8.0, 4.0, 0.0]]])
    first = np.array([[0]])
    likely, unlikely = (
        round_to(np.log(mass), subject.precision.storage) for mass in ([[[4.0, 3.0, 3.0]]], [[[4.0, 5.0, 1.0]]])
    )
    pairs = ("of one ranking, sharp and flat", logits, logits / 4), ("of the target first and second", likely, unlikely)
    for what, one, other in pairs:
        got = [loss(subject, a, first) for a in (one, other)]
        due = [expected.cross_entropy(subject, a, first) for a in (one, other)]
        yield close(f"difference of the losses {what}", got[1] - got[0], due[1].value - due[0].value, _room(due))


def _room(dues: list[expected.Expected]) -> Floats:
    return np.asarray(sum(due.allowed for due in dues))
