"""The lines that `--json` writes are what the schema says, and the schema says nothing that is not so."""

import json
import tomllib
from dataclasses import asdict, fields
from importlib.resources import files
from pathlib import Path

import pytest
from commanding import gnomon
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from gnomon.props.killing import ARGUED, REJECTED, SURVIVED
from gnomon.props.outcome import Status, Verdict, read
from gnomon.props.running import SCHEMA
from gnomon.props.summary import Exit

TEXT = files("gnomon.props").joinpath("schema.json").read_text()
DEFINITIONS = json.loads(TEXT)["$defs"]
LINE = Draft202012Validator(json.loads(TEXT), format_checker=Draft202012Validator.FORMAT_CHECKER)


def kinds(lines):
    return [line["kind"] for line in lines]


def refuses_infinity(text):
    raise ValueError(f"{text} is no JSON")


def test_the_schema_is_one():
    Draft202012Validator.check_schema(json.loads(TEXT))


def test_the_schema_lists_what_the_code_has():
    assert DEFINITIONS["status"]["enum"] == [str(s) for s in Status]
    assert DEFINITIONS["exit"]["enum"] == [int(e) for e in Exit]
    assert DEFINITIONS["run"]["properties"]["schema"]["const"] == SCHEMA
    assert DEFINITIONS["fault"]["properties"]["fate"]["enum"] == [REJECTED, SURVIVED, ARGUED]
    assert [*DEFINITIONS["verdict"]["properties"]] == ["kind", *(f.name for f in fields(Verdict))]


def test_a_run_of_check_is_lines_of_the_schema(check):
    ran = check("nan_everywhere.py", "--clause", "V.1.6", "--clause", "II.1.1", "--clause", "V.4.1")
    assert kinds(ran.lines) == ["run", "verdict", "verdict", "verdict", "summary"]
    for line in ran.lines:
        LINE.validate(line)
    assert {v["clause"]: v["margin"] for v in ran.verdicts}["V.1.6"] is None


def test_a_run_of_faults_is_lines_of_the_schema(tmp_path):
    path = tmp_path / "faults.jsonl"
    ran = gnomon("faults", "--clause", "V.4.8", "--dtype", "float32", "--json", str(path), jsonl=path)
    assert kinds(ran.lines) == ["run", *["fault"] * (len(ran.lines) - 2), "summary"]
    for line in ran.lines:
        LINE.validate(line)
    assert {line["fate"] for line in ran.lines if line["kind"] == "fault"} == {REJECTED, ARGUED}


def test_a_control_is_a_line_of_the_schema():
    LINE.validate({"kind": "control", "control": "N04", "dtype": "float32", "alarms": []})


@pytest.mark.parametrize("change", [{"status": "passed"}, {"clause": "V.4"}, {"margin": -1}, {"more": 1}], ids=str)
def test_another_line_is_refused(change):
    verdict = Verdict(clause="V.4.1", slug="s", property="p", implementation="i", dtype="float32", status=Status.HOLDS)
    line = {"kind": "verdict", **verdict.record()}
    LINE.validate(line)
    with pytest.raises(ValidationError):
        LINE.validate(line | change)


@pytest.mark.parametrize("margin", [0.25, float("inf")])
def test_a_verdict_is_read_back_from_its_line(margin):
    known = {"clause": "V.4.1", "slug": "s", "property": "p", "implementation": "i", "dtype": "float32"}
    verdict = Verdict(**known, status=Status.VIOLATED, margin=margin, undetected=("a", "b"))
    line = json.dumps(verdict.record())
    assert asdict(read(json.loads(line, parse_constant=refuses_infinity))) == asdict(verdict)


def test_the_schema_ships():
    settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert "*.json" in settings["package-data"]["*"]
