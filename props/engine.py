"""The engine: Hypothesis hunts for a case that breaks a property; faults say whether it could have found one."""

import secrets
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import hypothesis
from hypothesis import Phase, given, settings
from hypothesis.errors import FlakyFailure

from gnomon.impl.faults import Fault, faults_of
from gnomon.impl.loading import Implementation, load
from gnomon.props.cases import ExperimentCase, MalformedCase
from gnomon.props.found import Found
from gnomon.props.judge import Comparison, Violation
from gnomon.props.model_cases import of_subject
from gnomon.props.outcome import Declined, ImplementationFailed, Status, Verdict
from gnomon.props.property import Property
from gnomon.props.snippets import failure_text, replay_line, snippet, suspected
from gnomon.props.subject import Subject
from gnomon.spec.card import Kind, Mistake

_KEPT_CASES = 200  # enough to tell the faults apart; more would only hold memory
_MODEL_SHARE = 0.4  # of the cases: one of a whole model costs what ten of an operation do
LEFT_OUT = "it trains, which a quick run leaves out"
_ROUNDS = 3  # of cases, as long as those tried could not have shown every fault
_COMPILED_SHARE = 0.35  # of the cases, where each new shape costs a tenth of a second to compile


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How long to look: cases per property and dtype, the seed of their draw, and where those that break it are.

    experiments: the seed of experiments, a fresh one for each where there is none. trained: whether clauses are run
    that train something.
    """

    cases: int = 60
    seed: int = 0
    shrink: bool = True
    found: Found | None = None
    sensitivity: bool = True
    experiments: int | None = None
    trained: bool = True


@dataclass(eq=False)
class Hunt:
    """What has been seen while cases were tried."""

    prop: Property
    subject: Subject
    judged: list[Any] = field(default_factory=list)
    cases: int = 0
    declined: dict[str, int] = field(default_factory=dict)
    margin: float = 0.0
    last: Any = None
    told: set[Mistake] = field(default_factory=set)  # mistakes that some case would have shown
    asked: dict[Mistake, int] = field(default_factory=dict)  # how many cases each mistake was held against

    @property
    def key(self) -> tuple[str, str, str]:
        """What a case is remembered under."""
        return self.subject.implementation.name, self.prop.id, self.subject.dtype

    def try_case(self, case: Any) -> None:
        """Judge one case; a violation or a failure is raised, what is not offered is counted."""
        try:
            margin = self.judge(case)
        except Declined as reason:
            plain = case.plain() if self.prop.plain else case
            if plain != case:
                self.try_case(plain)
            else:
                self.declined[str(reason)] = self.declined.get(str(reason), 0) + 1
            return
        if margin is None:
            return
        if not self.prop.experiment:
            hypothesis.target(min(margin, 2.0), label="error over bound")
        self.margin = max(self.margin, margin)
        self.cases += 1
        if len(self.judged) < _KEPT_CASES:
            self.judged.append(case)

    def judge(self, case: Any) -> float | None:
        """Judge one case without counting it."""
        self.last = case
        self.subject.calls.clear()
        return judge(self.prop, self.subject, case)


def judge(prop: Property, subject: Subject, case: Any) -> float | None:
    """The worst error over bound of a case, `None` if nothing in it could be decided; a miss is raised."""
    margins = [_margin(c) for c in prop.check(subject, case) if c.decides]
    return max(margins, default=None)


def _margin(comparison: Comparison) -> float:
    if not comparison.holds:
        raise Violation(comparison)
    return comparison.margin


def examine(prop: Property, subject: Subject, budget: Budget) -> Verdict:
    """The verdict of one property on one subject."""
    started = time.perf_counter()
    hunt = Hunt(prop, subject)
    if prop.clause.kind is Kind.TRAINED and not budget.trained:
        return _verdict(hunt, Status.NOT_RUN, started, message=LEFT_OUT)
    try:
        for operation in prop.needs:
            subject.require(operation)
    except Declined as reason:
        return _verdict(hunt, Status.UNSUPPORTED, started, message=str(reason))
    except ImplementationFailed as broken:
        return _verdict(hunt, Status.ERROR, started, message=str(broken))
    try:
        try_again(hunt, budget)
        undetected = searched(hunt, budget)
    except Violation as violation:
        verdict = _failed(hunt, Status.VIOLATED, started, violation.comparison)
    except ImplementationFailed as failure:
        verdict = _failed(hunt, Status.ERROR, started, str(failure))
    except Declined as refusal:
        return _verdict(hunt, Status.UNSUPPORTED, started, message=str(refusal))
    except FlakyFailure as flaky:
        verdict = _flaky(hunt, started, flaky)
    else:
        return _held(hunt, undetected, started)
    if budget.found is not None:
        budget.found.keep(str(hunt.last), *hunt.key)
    return verdict


def try_again(hunt: Hunt, budget: Budget) -> None:
    """Judge the case that broke the property in an earlier run, if there was one."""
    text = None if budget.found is None else budget.found.recall(*hunt.key)
    if budget.found is None or text is None:
        return
    with suppress(Declined, MalformedCase):  # of another version, or no longer offered
        hunt.judge(of_subject(hunt.prop.read_case(text), hunt.subject))
    budget.found.forget(*hunt.key)


def _flaky(hunt: Hunt, started: float, flaky: FlakyFailure) -> Verdict:
    """The same case gave different results: what it gave once stands, with a word on that."""
    first = next(e for e in flaky.exceptions if isinstance(e, Violation | ImplementationFailed))
    if isinstance(first, ImplementationFailed):
        return _failed(hunt, Status.ERROR, started, f"{first}, though not every time")
    seen = first.comparison
    again = replace(seen, what=f"(another result at every call) {seen.what}")
    return _failed(hunt, Status.VIOLATED, started, again)


def finds(prop: Property, subject: Subject, budget: Budget) -> bool:
    """Whether a violation is found; a crash or a refusal of the implementation is none."""
    try:
        search(Hunt(prop, subject), budget)
    except Violation:
        return True
    except FlakyFailure as flaky:
        return any(isinstance(e, Violation) for e in flaky.exceptions)
    except ImplementationFailed:
        return False
    return False


def search(hunt: Hunt, budget: Budget) -> None:
    """Try drawn cases until one fails, and shrink that one; an experiment is one case of its own seed."""
    if hunt.prop.experiment:
        hunt.try_case(ExperimentCase(seed=_seed_of(hunt.prop, budget)))
        return
    phases = [Phase.generate, Phase.target]
    configured = settings(
        max_examples=_examples(hunt, budget),
        deadline=None,
        database=None,
        phases=phases + [Phase.shrink] * budget.shrink,
        print_blob=False,
        report_multiple_bugs=False,
    )

    def attempt(case: Any) -> None:
        hunt.try_case(case)

    drawn = given(hunt.prop.cases(hunt.subject))(attempt)
    hypothesis.seed(budget.seed)(configured(drawn))()


def _seed_of(prop: Property, budget: Budget) -> int:
    """A seed that nobody chose, or the one that follows from the run's."""
    return (
        secrets.randbits(32) if budget.experiments is None else zlib.crc32(f"{prop.id} {budget.experiments}".encode())
    )


def _examples(hunt: Hunt, budget: Budget) -> int:
    compiled = hunt.subject.implementation.declaration.compiles
    costly = "model" in hunt.prop.needs and hunt.subject.fixed is None
    share = hunt.prop.share * (_MODEL_SHARE if costly else 1)
    return max(3, round(budget.cases * share * (_COMPILED_SHARE if compiled else 1)))


def replay(prop: Property, subject: Subject, case: Any) -> Verdict:
    """The verdict on one given case."""
    hunt, started = Hunt(prop, subject), time.perf_counter()
    try:
        margin = judge(prop, subject, of_subject(case, subject))
    except (Declined, MalformedCase) as reason:
        return _verdict(hunt, Status.UNSUPPORTED, started, message=str(reason))
    except Violation as violation:
        hunt.last = case
        return _failed(hunt, Status.VIOLATED, started, violation.comparison)
    except ImplementationFailed as failure:
        hunt.last = case
        return _failed(hunt, Status.ERROR, started, str(failure))
    hunt.cases, hunt.margin = int(margin is not None), margin or 0.0
    why = next(iter((*subject.blind, *subject.elsewhere)), "nothing in this case can be decided")
    status = Status.HOLDS if hunt.cases and not subject.blind else Status.INSENSITIVE
    return _verdict(hunt, status, started, message="" if status is Status.HOLDS else why)


def searched(hunt: Hunt, budget: Budget) -> tuple[str, ...]:
    """The mistakes that the cases could not have shown; where there are any, more cases are tried first."""
    undetected: tuple[str, ...] = ()
    for turn in range(1 if hunt.prop.experiment else _ROUNDS):
        search(hunt, replace(budget, seed=budget.seed + turn * 2**32))
        if not budget.sensitivity or not hunt.cases:
            return ()
        undetected = tuple(f.mistake.slug for f in _expected_faults(hunt) if not _tells(hunt, f) and _made(hunt, f))
        if not undetected or hunt.subject.elsewhere:
            break
    return undetected


def _held(hunt: Hunt, undetected: tuple[str, ...], started: float) -> Verdict:
    if not hunt.cases and hunt.declined:
        most = max(hunt.declined, key=lambda reason: hunt.declined[reason])
        return _verdict(hunt, Status.UNSUPPORTED, started, message=most)
    if hunt.subject.blind:
        return _verdict(hunt, Status.INSENSITIVE, started, message=next(iter(hunt.subject.blind)))
    if hunt.subject.elsewhere and (undetected or not hunt.cases):
        return _verdict(hunt, Status.UNSUPPORTED, started, message=next(iter(hunt.subject.elsewhere)))
    if not hunt.cases:
        return _verdict(hunt, Status.INSENSITIVE, started, message="no case could be decided at this precision")
    if not undetected:
        return _verdict(hunt, Status.HOLDS, started)
    message = f"its cases could not have shown: {', '.join(undetected)}"
    return _verdict(hunt, Status.INSENSITIVE, started, message=message, undetected=undetected)


def _expected_faults(hunt: Hunt) -> list[Fault]:
    """The faults that the property has to reject in this dtype."""
    held = hunt.subject.fixed
    if held is not None and held.parameters is None:
        return []  # a fault is built of parameters
    own = [f for f in faults_of(hunt.prop.clause) if f.mistake in hunt.prop.mistakes]
    return [f for f in own if hunt.subject.dtype not in f.mistake.unseen and _possible(f.mistake, hunt.subject)]


def _possible(mistake: Mistake, subject: Subject) -> bool:
    """Whether the subject has the keywords, and the families of models, without which the mistake cannot be made."""
    if mistake.families and not set(mistake.families) & set(subject.implementation.declaration.families):
        return False
    parts = (need.rpartition(".") for need in mistake.needs)
    return all(subject.offers(operation or "attention", keyword) for operation, _, keyword in parts)


def _tells(hunt: Hunt, fault: Fault) -> bool:
    """Whether some judged case would have rejected the fault at the subject's own precision."""
    if fault.mistake not in hunt.told:
        own = hunt.subject
        faulty = Subject(fault.implementation, own.dtype, rounding=own.precision, like=own.fixed)
        fresh = hunt.judged[hunt.asked.get(fault.mistake, 0) :]
        hunt.asked[fault.mistake] = len(hunt.judged)
        if any(rejects(hunt.prop, faulty, case) for case in fresh):
            hunt.told.add(fault.mistake)
    return fault.mistake in hunt.told


def _made(hunt: Hunt, fault: Fault) -> bool:
    """Whether the fault is one: a black box may be as a mistake assumes, of the base that is taken unread, say."""
    if hunt.subject.fixed is None:
        return True
    return any(_seen(hunt, fault.implementation, case) != _seen(hunt, load("numpy"), case) for case in hunt.judged)


def _seen(hunt: Hunt, implementation: Implementation, case: Any) -> list[bytes] | str:
    """All numbers that the property gets from an implementation that stands in for the black box."""
    own = hunt.subject
    other = Subject(implementation, own.dtype, rounding=own.precision, like=own.fixed)
    try:
        return [c.got.tobytes() for c in hunt.prop.check(other, case)]
    except (Declined, ImplementationFailed) as reason:
        return str(reason)


def rejects(prop: Property, subject: Subject, case: Any) -> bool:
    """Whether the property finds a violation in the case; a crash is none."""
    try:
        judge(prop, subject, case)
    except Violation:
        return True
    except (Declined, ImplementationFailed):
        return False
    return False


def _failed(hunt: Hunt, status: Status, started: float, what: Comparison | str) -> Verdict:
    code = snippet(hunt.prop, hunt.subject, what)
    replay_with = replay_line(hunt.prop, hunt.subject, hunt.last)
    suspect = suspected(hunt.prop, hunt.subject, hunt.last, what) if isinstance(what, Comparison) else None
    text = failure_text(hunt.prop, hunt.subject, hunt.last, what, suspect, replay_with)
    margin = what.margin if isinstance(what, Comparison) else hunt.margin
    owner = suspect.clause.number if suspect else ""
    return _verdict(hunt, status, started, message=text, margin=margin, replay=replay_with, snippet=code, suspect=owner)


def _verdict(hunt: Hunt, status: Status, started: float, **rest: Any) -> Verdict:
    known: dict[str, Any] = {"cases": hunt.cases, "margin": hunt.margin} | rest
    return Verdict(
        clause=hunt.prop.clause.number,
        slug=hunt.prop.clause.slug,
        property=hunt.prop.id,
        implementation=hunt.subject.implementation.name,
        dtype=hunt.subject.dtype,
        status=status,
        declined=sum(hunt.declined.values()),
        seconds=time.perf_counter() - started,
        **known,
    )
