"""Every status occurs, is counted against a denominator, and makes the exit code that it should."""

import json
from dataclasses import replace
from datetime import date

import pytest
from commanding import gnomon

from gnomon.impl.loading import described
from gnomon.impl.reference import NumpyReference
from gnomon.props import killing
from gnomon.props.cases import attention_cases
from gnomon.props.engine import Budget, examine
from gnomon.props.outcome import Status, Verdict
from gnomon.props.plugin import declared_gap
from gnomon.props.property import properties
from gnomon.props.requirements import read_requirement
from gnomon.props.subject import Subject
from gnomon.props.summary import Exit, combined, exit_code, headline, statuses
from gnomon.props.waivers import Waiver, apply, stale
from gnomon.spec.catalogue import clauses

SMALL = Budget(cases=20, shrink=False)
NOT_NEEDED = Budget(cases=20, shrink=False, sensitivity=False)


def declaring(reference=NumpyReference, **conventions):
    """An implementation that computes as the reference does and declares other conventions."""
    own = reference.declaration
    declaration = replace(own, conventions=replace(own.conventions, **conventions))
    return described("declaring", type("Declaring", (reference,), {"declaration": declaration})(), "nowhere")


def named(name):
    """The property of that name."""
    return next(p for p in properties() if p.name == name)


def verdict(status, clause="V.4.1", dtype="float32", implementation="mine"):
    return Verdict(clause=clause, slug="", property=clause, implementation=implementation, dtype=dtype, status=status)


# The statuses of a clause.


def test_a_correct_implementation_holds():
    found = examine(named("zero_weight"), Subject(declaring(), "float32"), SMALL)
    assert (found.status, found.message, found.cases > 0) == (Status.HOLDS, "", True)


def test_a_fault_is_violated():
    fault = next(f for f in killing.faults() if f.mistake.slug == "small-leak")
    assert examine(named("zero_weight"), Subject(fault.implementation, "float32"), SMALL).status is Status.VIOLATED


def test_cases_that_could_not_have_told_the_faults_are_insensitive():
    one_key = attention_cases(queries=1, keys=1, head_pairs=((1, 1),), masked="none")
    found = examine(replace(named("equation"), cases=lambda _: one_key), Subject(declaring(), "float32"), SMALL)
    assert (found.status, "operands-exchanged" in found.undetected) == (Status.INSENSITIVE, True)
    assert found.message == f"its cases could not have shown: {', '.join(found.undetected)}"


def test_what_is_not_offered_is_unsupported_with_the_reason():
    thing = type("Linear", (), {"linear": NumpyReference().linear, "declaration": NumpyReference.declaration})()
    thing.declaration = replace(thing.declaration, paths={})
    found = examine(named("zero_weight"), Subject(described("linear", thing, "nowhere"), "float32"), SMALL)
    assert (found.status, found.message) == (Status.UNSUPPORTED, "it has no function attention")


def test_a_declared_gap_is_unsupported_for_the_declared_reason():
    own = replace(NumpyReference.declaration, gaps={"V.4.1": "not yet"})
    gap = described("gap", type("Gap", (NumpyReference,), {"declaration": own})(), "nowhere")
    subject, prop = Subject(gap, "float32"), named("zero_weight")
    violated = declared_gap(prop, subject, verdict(Status.VIOLATED))
    assert (violated.status, violated.message) == (Status.UNSUPPORTED, "not yet")
    held = declared_gap(prop, subject, verdict(Status.HOLDS))
    told = "declared as a gap (not yet), yet it holds: remove the declaration"
    assert (held.status, held.message) == (Status.UNSUPPORTED, told)


def test_a_broken_operation_is_an_error():
    broken = {"attention": "attention raised ValueError"}
    found = examine(named("zero_weight"), Subject(declaring(), "float32", broken=broken), SMALL)
    assert (found.status, found.message) == (Status.ERROR, "attention raised ValueError")


FAILING = """
from dataclasses import replace
from gnomon.props import test_attention


def check(subject, case):
    raise ZeroDivisionError("ours")
    yield


test_attention.shift = replace(test_attention.shift, check=check)
"""


def test_a_property_that_raises_is_our_fault(check, tmp_path):
    # A worker of pytest-xdist is a new process: what it runs at its start is what this module says.
    (tmp_path / "sitecustomize.py").write_text(FAILING)
    ran = check("numpy", "--clause", "V.1.5", "--clause", "V.1.6", environment={"PYTHONPATH": str(tmp_path)})
    assert (ran.code, ran.statuses["V.1.5"]) == (4, "suite-error")
    assert "V.1.5-shift failed to judge numpy in float32, which is a fault of gnomon:\n" in ran.out
    assert "ZeroDivisionError: ours" in ran.out


def test_a_clause_without_a_verdict_was_not_run():
    found = statuses([verdict(Status.HOLDS)], ["V.4.1", "V.4.2"])
    assert found == {"V.4.1": Status.HOLDS, "V.4.2": Status.NOT_RUN}
    assert exit_code([verdict(Status.HOLDS)], found) is Exit.NOT_RUNNABLE


# Their combination, their count and the exit code.


def test_every_status_is_counted_with_the_denominator():
    numbers = [c.number for c in clauses()][: len(Status) - 1]
    found = [verdict(s, clause=n) for s, n in zip(Status, numbers, strict=False)]
    assert headline(found, [*numbers, clauses()[-1].number]) == (
        "3 of 8 clauses decided: 1 holds, 1 violated, 1 insensitive, 1 unsupported, 1 waived, 1 error, 1 suite-error, "
        "1 not-run"
    )


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ((Status.HOLDS, Status.VIOLATED), Status.VIOLATED),
        ((Status.HOLDS, Status.UNSUPPORTED), Status.HOLDS),
        ((Status.HOLDS, Status.INSENSITIVE), Status.INSENSITIVE),
        ((Status.VIOLATED, Status.SUITE_ERROR), Status.SUITE_ERROR),
        ((Status.ERROR, Status.VIOLATED), Status.VIOLATED),
        ((Status.WAIVED, Status.HOLDS), Status.WAIVED),
        ((), Status.NOT_RUN),
    ],
)
def test_a_clause_is_as_good_as_the_worst_of_its_parts(parts, whole):
    assert combined([verdict(s) for s in parts]) is whole


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status.HOLDS, Exit.CONFORMS),
        (Status.VIOLATED, Exit.VIOLATED),
        (Status.INSENSITIVE, Exit.CONFORMS),
        (Status.UNSUPPORTED, Exit.CONFORMS),
        (Status.WAIVED, Exit.CONFORMS),
        (Status.ERROR, Exit.NOT_RUNNABLE),
        (Status.SUITE_ERROR, Exit.SUITE_FAILED),
        (Status.NOT_RUN, Exit.CONFORMS),  # left out on purpose
    ],
)
def test_each_status_has_its_exit_code(status, code):
    found = [verdict(status)]
    assert exit_code(found, statuses(found, ["V.4.1"])) is code


# Waivers and requirements.

TODAY = date(2026, 11, 29)
KNOWN = Waiver(clause="V.4.1", implementation="mine", reason="known", dtype="float32", expires=date(2027, 1, 1))


@pytest.mark.parametrize("status", [Status.VIOLATED, Status.ERROR])
def test_a_waiver_excuses_what_it_names(status):
    assert apply((KNOWN,), verdict(status), TODAY) == (Status.WAIVED, "\n  waived: known")
    assert stale((KNOWN,), [verdict(Status.WAIVED)]) == []


def test_a_waiver_names_its_issue():
    tracked = Waiver(clause="V.4.1", implementation="mine", reason="known", issue="kernels#7")
    assert apply((tracked,), verdict(Status.VIOLATED), TODAY) == (Status.WAIVED, "\n  waived: known (kernels#7)")


@pytest.mark.parametrize(
    "other", [{"clause": "V.4.2"}, {"implementation": "numpy"}, {"dtype": "float64"}], ids=lambda o: next(iter(o))
)
def test_a_waiver_excuses_nothing_else(other):
    assert apply((KNOWN,), verdict(Status.VIOLATED, **other), TODAY) == (Status.VIOLATED, "")


def test_an_expired_waiver_excuses_nothing():
    told = "\n  the waiver of V.4.1 of mine in float32 expired on 2027-01-01"
    assert apply((KNOWN,), verdict(Status.VIOLATED), date(2027, 1, 2)) == (Status.VIOLATED, told)


def test_a_waiver_of_what_holds_is_stale():
    told = "the waiver of V.4.1 of mine in float32 is stale: nothing it excuses is violated any more"
    assert stale((KNOWN,), [verdict(Status.HOLDS)]) == [told]


def test_a_waiver_that_matches_nothing_is_told():
    told = "the waiver of V.4.1 of mine in float32 matches nothing in this run: remove it or mend it"
    assert stale((KNOWN,), [verdict(Status.HOLDS, dtype="float64")]) == [told]


@pytest.mark.parametrize(
    ("clause", "code", "status"), [("V.2.1", 0, "waived"), ("V.1.4", 1, "holds"), ("V.4.1", 1, "unsupported")]
)
def test_a_run_with_a_waiver_exits_rightly(check, tmp_path, clause, code, status):
    path = tmp_path / "waivers.toml"
    path.write_text(f'[[waiver]]\nclause = "{clause}"\nimplementation = "mine.py"\nreason = "known"\n')
    ran = check("mine.py", "--clause", clause, "--cases", "20", "--waivers", str(path))
    assert (ran.code, ran.statuses) == (code, {clause: status})
    assert ("is stale: nothing it excuses is violated any more" in ran.out) == (code == 1)


def test_a_waiver_that_matches_nothing_fails_the_run(check, tmp_path):
    path = tmp_path / "waivers.toml"
    path.write_text('[[waiver]]\nclause = "V.4.1"\nimplementation = "other"\nreason = "known"\n')
    ran = check("mine.py", "--clause", "V.1.4", "--waivers", str(path))
    told = "the waiver of V.4.1 of other matches nothing in this run: remove it or mend it"
    assert (ran.code, ran.out.splitlines()[-1], ran.lines[-1]["complaints"]) == (1, told, [told])


@pytest.mark.parametrize(("least", "code"), [("1", 0), ("2", 1)])
def test_a_required_number_of_clauses(check, least, code):
    ran = check("mine.py", "--clause", "V.1.4", "--clause", "V.4.1", "--cases", "20", "--require", least)
    assert ran.code == code
    assert ("1 clauses hold where 2 are required\n" in ran.out) == bool(code)


def test_a_required_set_names_what_did_not_hold():
    required = read_requirement("gnomon-0.1")
    everything = dict.fromkeys(required.numbers, Status.HOLDS)
    assert required.unmet(everything) == []
    assert required.unmet(everything | {"V.4.1": Status.INSENSITIVE}) == ["required set gnomon-0.1: V.4.1 did not hold"]
    del everything["V.4.2"]
    assert required.unmet(everything) == ["required set gnomon-0.1: V.4.2 did not hold"]


# Conventions.

CONVENTIONS = {
    "alignment": ("alignment", "bottom-right", "top-left"),
    "polarity": ("declared_polarity", "keep", "block"),
    "empty_row": ("empty_row", "zeros", "mean"),
    "head_mapping": ("groups", "grouped", "tiled"),
    "window": ("window", "including-self", "excluding-self"),
    "masked_key": ("nan_behind_the_mask", "blocked", "leaks"),
    "masked_value": ("nan_behind_the_mask", "leaks", "blocked"),
    "scale": ("measured_scale", "1/sqrt(head_width)", "1"),
}


@pytest.mark.parametrize("axis", CONVENTIONS)
def test_a_right_declaration_holds_and_a_wrong_one_is_violated(axis):
    name, right, wrong = CONVENTIONS[axis]
    held, broken = (
        examine(named(name), Subject(declaring(**{axis: choice}), "float32"), NOT_NEEDED) for choice in (right, wrong)
    )
    assert (held.status, broken.status) == (Status.HOLDS, Status.VIOLATED)


@pytest.mark.parametrize("axis", ["alignment", "empty_row", "masked_key", "masked_value"])
def test_an_undeclared_convention_is_measured(axis):
    name, right, _ = CONVENTIONS[axis]
    subject = Subject(declaring(**{axis: None}), "float32")
    assert examine(named(name), subject, NOT_NEEDED).status is Status.HOLDS
    assert subject.measured[axis] == right


def test_the_datasheet_reports_what_was_not_declared():
    rows = json.loads(gnomon("datasheet", "declines.py", "--dtype", "float32", "--json").out)["rows"]
    alignment = next(row for row in rows if row["axis"] == "alignment")
    seen = alignment["declared"], alignment["measured"], alignment["agrees"]
    assert seen == ("not declared", "bottom-right", "")
