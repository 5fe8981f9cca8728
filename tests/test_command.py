"""Every subcommand prints what it should, refuses what makes no sense in one sentence, and exits rightly."""

import json
import math

import pytest
from commanding import gnomon, python

from gnomon.props.cases import MASKS, REGIMES, AttentionCase, kinds
from gnomon.props.requirements import FOLDER
from gnomon.spec.catalogue import clauses, find, propositions

V4 = "V.4.1, V.4.2, V.4.3, V.4.4, V.4.5, V.4.6, V.4.7, V.4.8, V.4.9, V.4.10, V.4.11, V.4.12, V.4.13"
FIELDS = "regime, seed, batch, heads, kv_heads, queries, keys, width, value_width, masked, window"


def refusal(ran):
    """The sentence of a usage error, which is all that a usage error says beside how to ask for help."""
    assert (ran.code, ran.out) == (2, "")
    usage, try_help, empty, sentence = ran.err.splitlines()
    assert (usage[:13], try_help[:12], empty) == ("Usage: gnomon", "Try 'gnomon ", "")
    return sentence.removeprefix("Error: ")


def test_list_names_every_proposition_and_clause():
    ran = gnomon("list")
    assert (ran.code, ran.err) == (0, "")
    expected = [
        line
        for p in propositions()
        for line in (
            f"{p.number} {p.statement}",
            *(f"  {c.number:8} {c.slug:20} {c.statement}" for c in p.clauses),
        )
    ]
    assert ran.out.splitlines() == expected


def test_list_as_json_says_what_a_machine_needs():
    listed = json.loads(gnomon("list", "--json").out)
    assert [(c["number"], c["slug"], c["statement"]) for c in listed] == [
        (c.number, c.slug, c.statement) for c in clauses()
    ]
    assert {m["slug"] for c in listed for m in c["mistakes"]} == {m.slug for c in clauses() for m in c.mistakes}


def test_explain_prints_the_card():
    ran = gnomon("explain", "V.2.1")
    card = find("V.2.1")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[:3] == ["V.2.1 measured-scale", card.statement, f"  formula    {card.formula}"]
    mistakes = [f"  mistake    {m.slug}: {m.wrong}; {m.effect}" for m in card.mistakes]
    assert [line for line in ran.out.splitlines() if line.startswith("  mistake")] == mistakes


def test_explain_prints_the_clauses_of_a_proposition():
    ran = gnomon("explain", "V.2")
    card = find("V.2")
    assert f"  said       {card.said}\n  in fact    {card.so}\n" in ran.out
    assert all(f"  {c.number:8}   {c.slug}: {c.statement}\n" in ran.out for c in card.clauses)


def test_graph_ends_at_what_rests_on_nothing():
    ran = gnomon("graph", "V.2.2")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"V.2.2 unit-variance: {find('V.2.2').statement}\n├── V.2.1 measured-scale: ")
    assert "└── I.1 function: " in ran.out


def test_prove_runs_the_proofs_of_a_clause():
    ran = gnomon("prove", "--clause", "V.2.3")
    assert (ran.code, ran.err) == (0, "")
    proof, total = ran.out.splitlines()
    assert (proof[:15], total) == ("proved V.2.3   ", "1 of 1 proofs go through")


def test_prove_refuses_a_clause_without_a_proof():
    sentence = "none of these clauses carries a proof; `gnomon prove` runs all there are"
    assert refusal(gnomon("prove", "--clause", "I.1.1")) == sentence


def test_smoke_names_what_works():
    ran = gnomon("smoke", "mine.py")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "works attention in float64, float32\nmine.py can be checked\n"


def test_datasheet_sets_the_measured_beside_the_declared():
    ran = gnomon("datasheet", "mine.py", "--dtype", "float32", "--json")
    rows = {r["axis"]: r for r in json.loads(ran.out)["rows"]}
    assert ran.code == 1
    assert rows["scale"] == {
        "axis": "scale", "dtype": "float32", "declared": "1/sqrt(head_width)", "measured": "1", "agrees": "no"
    }  # fmt: skip
    assert rows["scale at width 64"]["measured"] == "1"
    assert rows["alignment"]["measured"] == "not measured: its attention has no keyword causal"


def test_datasheet_of_the_numpy_implementation_agrees():
    ran = gnomon("datasheet", "numpy", "--dtype", "float32")
    assert (ran.code, ran.err) == (0, "")
    head, titles, *rows = ran.out.splitlines()
    assert head.strip() == "datasheet of numpy"
    assert {"axis", "declared", "measured", "agrees"} <= set(titles.split())
    assert not any("no" in row.split() for row in rows)
    agreeing = {row.split()[0] for row in rows if "yes" in row.split()}
    assert agreeing >= {"scale", "head_mapping", "alignment", "rotary_layout", "arithmetic", "variance", "gelu"}
    assert any(row.startswith("model: cache") and "positions continue" in row for row in rows)


def test_faults_prints_the_fate_of_each():
    ran = gnomon("faults", "--clause", "V.4.7", "--dtype", "float32", "--workers", "1")
    assert (ran.code, ran.err) == (0, "")
    *table, total = ran.out.splitlines()
    assert [line.split() for line in table] == [
        ["clause", "fault", "float32"],
        *(["V.4.7", m.slug, "x"] for m in sorted(find("V.4.7").mistakes, key=lambda m: m.slug)),
    ]
    assert total == "3 of 3 faults rejected by their own clause (3 in a dtype, 0 argued, 0 survived)"


def test_check_of_the_numpy_implementation_conforms(check):
    ran = check("numpy", "--clause", "V.4.1", "--cases", "40")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "proposition         holds\n"
        "V.4          masks      1\n"
        "numpy: 1 of 1 clauses decided: 1 holds (seed 0)\n"
    )  # fmt: skip


def test_an_unknown_name_is_told_the_nearest(check):
    ran = check("nunpy")
    assert (ran.code, ran.err) == (3, "")
    assert ran.out == (
        "cannot run there is no implementation nunpy and no module 'nunpy': did you mean numpy? "
        "A file is given by its path.\n"
        "nunpy cannot be checked: mend the above first\n"
    )


REFUSED = {
    ("--clause", "V.4.99"): f"there is no clause or proposition V.4.99; there are {V4}",
    ("--clause", "all"): "there is no clause or proposition all; `gnomon list` prints all numbers",
    ("--dtype", "float8"): "Invalid value for '--dtype': 'float8' is not one of "
    "'float64', 'float32', 'bfloat16', 'float16'.",
    ("--timeout", "0"): "Invalid value for '--timeout': 0.0 is not in the range x>=1.",
    ("--require", "many"): "--require takes a number or one of gnomon-0.1, not 'many'",
    ("--json", "nowhere/lines.jsonl"): "cannot write nowhere/lines.jsonl: there is no folder nowhere",
    ("--json", "."): "cannot write .: it is a folder",
    ("--clause", "V.4.1", "--case", "shift:attention"): "--case begins with a property's name: one of zero_weight",
    ("--clause", "V.4.1", "--case", "zero_weight"): f"a case begins with one of {', '.join(kinds())}, not with ''",
    ("--clause", "V.4.1", "--case", "zero_weight:linear,time=3"): "zero_weight takes no LinearCase",
    ("--clause", "V.4.1", "--case", "zero_weight:attention,lines=3"): "AttentionCase has no field 'lines'; "
    f"it has {FIELDS}",
    ("--clause", "V.4.1", "--case", "zero_weight:attention,keys=many"): "cannot read 'keys=many': invalid literal for "
    "int() with base 10: 'many'",
    ("--clause", "V.4.1", "--case", "zero_weight:attention,keys=0"): "cannot read 'keys=0': keys is at least 1",
    ("--clause", "V.4.1", "--case", "zero_weight:attention,regime=odd"): "cannot read 'regime=odd': regime is one of "
    f"{', '.join(REGIMES)}",
    ("--clause", "V.4.1", "--case", "zero_weight:attention,masked=odd"): "cannot read 'masked=odd': masked is one of "
    f"{', '.join(MASKS)}",
    ("--waivers", "nowhere.toml"): "there is no waiver file nowhere.toml",
    ("--waivers", "."): "cannot read .: Is a directory",
}


@pytest.mark.parametrize("options", REFUSED, ids=" ".join)
def test_what_makes_no_sense_is_refused_in_one_sentence(options):
    assert refusal(gnomon("check", "numpy", *options)) == REFUSED[options]


def test_the_frozen_sets_are_those_that_a_refusal_names():
    assert [p.stem for p in FOLDER.glob("*.txt")] == ["gnomon-0.1"]
    assert ", ".join(AttentionCase.__dataclass_fields__) == FIELDS


WAIVER = '[[waiver]]\nclause = "V.4.1"\nimplementation = "numpy"\n'
NEEDS = "needs clause, implementation and reason, and may have dtype, issue, expires"
BAD_WAIVERS = {
    "not TOML": (
        "[[waiver]",
        "is not TOML: Expected ']]' at the end of an array declaration (at line 1, column 9)",
    ),
    "no table": ("waiver = 3", "holds something other than tables that begin with [[waiver]]"),
    "misspelt": ("[[waivers]]", "holds something other than tables that begin with [[waiver]]"),
    "no reason": (
        WAIVER,
        f"{NEEDS}: Waiver.__init__() missing 1 required keyword-only argument: 'reason'",
    ),
    "empty reason": (WAIVER + 'reason = " "', "gives no reason"),
    "unknown clause": (
        WAIVER.replace("V.4.1", "V.4.33") + 'reason = "known"',
        f"there is no clause or proposition V.4.33; there are {V4}",
    ),
    "unknown field": (
        WAIVER + 'reason = "known"\nuntil = 2027-01-31',
        f"{NEEDS}: Waiver.__init__() got an unexpected keyword argument 'until'",
    ),
    "quoted date": (
        WAIVER + 'reason = "known"\nexpires = "2027-01-31"',
        "expires has to be a date such as 2027-01-31, without quotes",
    ),
    "time of day": (
        WAIVER + 'reason = "known"\nexpires = 2027-01-31T12:00:00',
        "expires has to be a date such as 2027-01-31, without quotes",
    ),
}


@pytest.mark.parametrize("kind", BAD_WAIVERS)
def test_a_waiver_file_that_cannot_be_used_is_refused(tmp_path, kind):
    text, sentence = BAD_WAIVERS[kind]
    (tmp_path / "w.toml").write_text(text)
    told = refusal(gnomon("check", "numpy", "--waivers", "w.toml", cwd=tmp_path))
    assert told.removeprefix("waiver 1 of ").removeprefix("w.toml").lstrip(": ") == sentence


@pytest.fixture(scope="module")
def violation(tmp_path_factory):
    """The violation of the scale by ten lines without it."""
    lines = tmp_path_factory.mktemp("run") / "lines.jsonl"
    budget = ("--dtype", "float32", "--cases", "20", "--workers", "1", "--json", str(lines))
    ran = gnomon("check", "mine.py", "--clause", "V.2.1", *budget, jsonl=lines)
    return next(v for v in ran.verdicts if v["status"] == "violated")


def test_the_replay_line_gives_the_same_violation(violation, tmp_path):
    command, line = violation["replay"].removesuffix("'").split(" --case '")
    lines = tmp_path / "again.jsonl"
    ran = gnomon(*command.split()[1:], "--case", line, "--json", str(lines), jsonl=lines)
    assert ran.code == 1
    assert [(v["message"], v["snippet"]) for v in ran.verdicts] == [(violation["message"], violation["snippet"])]


def test_the_snippet_runs_alone_and_shows_the_wrong_weights(violation):
    ran = python("-c", violation["snippet"])
    low, high = map(float, ran.out.strip("[]\n").split())
    assert (ran.code, ran.err, f"{math.log(high / low) / 2:.4f}") == (0, "", "1.0000")
