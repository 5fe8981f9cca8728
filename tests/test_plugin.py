"""The properties run in anybody's pytest as other tests do, and nobody's pytest disturbs the command."""

import re
from xml.etree import ElementTree

import pytest
from commanding import MINIATURES, python

SMALL = ("--dtype", "float32", "--cases", "20", "-p", "no:cacheprovider")
CONFORMANCE = """
from gnomon.props import conformance

test_mine = conformance({implementation!r})
"""


@pytest.fixture
def run(tmp_path):
    """pytest in a folder of its own."""
    return lambda *arguments, **where: python("-m", "pytest", *arguments, **({"cwd": tmp_path} | where))


@pytest.fixture
def user_file(tmp_path):
    """A test file of one line, and pytest on it."""
    (tmp_path / "test_mine.py").write_text(CONFORMANCE.format(implementation=str(MINIATURES / "mine.py")))
    return lambda *arguments: python("-m", "pytest", "test_mine.py", *arguments, cwd=tmp_path)


def identifiers(ran):
    """The names of the collected items."""
    return [line.rpartition("::")[2] for line in ran.out.splitlines() if "::" in line]


def test_pyargs_runs_the_properties_in_two_processes(run):
    ran = run("--pyargs", "gnomon.props", "--impl", "numpy", "--clause", "V.4.1", "-n", "2", *SMALL)
    assert (ran.code, ran.err) == (0, "")
    assert "\n1 of 1 clauses decided: 1 holds\n" in ran.out


def test_without_an_implementation_one_sentence_says_so(run):
    ran = run("--pyargs", "gnomon.props", "--clause", "V.4.1", *SMALL)
    sentence = "name the implementation to check: --impl numpy, --impl mypkg.kernels"
    assert (ran.code, sentence in ran.out + ran.err, "Traceback" in ran.out + ran.err) != (0, False, True)
    assert sentence in ran.out + ran.err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--impl", "nunpy"), "there is no implementation nunpy and no module 'nunpy': did you mean numpy?"),
        (("--impl", "numpy", "--clause", "V.4.99"), "there is no clause or proposition V.4.99; there are V.4.1"),
    ],
)
def test_bad_options_are_one_sentence(run, options, sentence):
    ran = run("--pyargs", "gnomon.props", *options, *SMALL)
    assert ran.code != 0
    assert sentence in ran.out + ran.err
    assert "Traceback" not in ran.out + ran.err


def test_identifiers_carry_clause_slug_implementation_and_dtype(run):
    ran = run("--pyargs", "gnomon.props", "--impl", "numpy", "--clause", "V.4.1", "--collect-only", "-q")
    own = [f"V.4.1-zero-weight[numpy-{d}]" for d in ("float64", "float32", "bfloat16", "float16")]
    assert identifiers(ran) == own


def test_a_clause_is_selected_exactly_and_a_proposition_whole(run):
    ran = run("--pyargs", "gnomon.props", "--impl", "numpy", "--collect-only", "-q", "--clause", "V.4", *SMALL)
    clauses = {re.split(r"-", i)[0] for i in identifiers(ran)}
    assert {"V.4.1", "V.4.11", "V.4.13"} <= clauses
    assert all(c.startswith("V.4.") for c in clauses)


def test_one_line_of_a_user_is_a_conformance_test(user_file):
    ran = user_file("--clause", "V.2.1", "--clause", "V.1.4", *SMALL)
    assert ran.code == 1
    assert "\n  scale at head width 2 [0, 0, 0]: got 0.999999983, wanted 0.707106781 ± 2.09e-06\n" in ran.out
    assert "\n2 of 2 clauses decided: 1 holds, 1 violated\n" in ran.out
    assert "Traceback" not in ran.out


def test_selection_by_name_works(user_file):
    ran = user_file("-k", "measured-scale or symmetry", "--collect-only", "-q", *SMALL)
    assert {i.partition("[")[0] for i in identifiers(ran)} == {
        "V.1.4-symmetry",
        "V.2.1-measured-scale",
        "V.2.1-measured-scale-measured-scale-of-heads",
        "V.2.1-measured-scale-scale-in-a-model",
    }


def test_the_last_failures_are_run_again(user_file):
    few = ("--clause", "V.2.1", "--clause", "V.1.4", *SMALL[:4])
    user_file(*few)
    again = user_file(*few, "--lf", "--collect-only", "-q")
    assert [i.partition("[")[0] for i in identifiers(again)] == ["V.2.1-measured-scale"]


def test_junit_has_every_item_with_its_text(user_file, tmp_path):
    user_file("--clause", "V.2.1", "--clause", "V.1.4", "--junit-xml", "junit.xml", *SMALL)
    cases = {c.get("name"): c for c in ElementTree.parse(tmp_path / "junit.xml").iter("testcase")}
    name = str(MINIATURES / "mine.py")
    assert [*cases] == [
        f"{i}[{name}-float32]"
        for i in (
            "V.1.4-symmetry",
            "V.2.1-measured-scale-scale-in-a-model",
            "V.2.1-measured-scale",
            "V.2.1-measured-scale-measured-scale-of-heads",
        )
    ]
    failure = cases[f"V.2.1-measured-scale[{name}-float32]"].find("failure")
    assert f"V.2.1 measured-scale violated by {name} in float32" in failure.text


def test_a_skip_shows_its_reason_and_is_counted(user_file):
    ran = user_file("--clause", "V.4.1", "-rs", *SMALL)
    assert ran.code == 0
    assert "unsupported: its attention has no keyword mask" in ran.out
    assert "\n0 of 1 clauses decided: 1 unsupported\n" in ran.out


def test_other_tests_pay_nothing_for_the_plugin(run, tmp_path):
    (tmp_path / "test_other.py").write_text(
        "import sys\n\n\ndef test_other():\n    assert not {'numpy', 'hypothesis', 'gnomon.spec'} & set(sys.modules)\n"
    )
    alone = {"environment": {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}}
    ran = run("test_other.py", "-p", "gnomon.props.plugin", "-p", "no:cacheprovider", **alone)
    assert (ran.code, "clauses" in ran.out) == (0, False), ran.out


def test_the_command_leaves_nothing_where_it_was_typed(check, tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "mine.py").write_text((MINIATURES / "mine.py").read_text())
    assert check("mine", "--clause", "V.1.4", cwd=folder).statuses == {"V.1.4": "holds"}
    assert [p.name for p in folder.iterdir()] == ["mine.py"]


HOSTILE = {
    "pytest.ini": "[pytest]\naddopts = --no-such-option\npython_functions = nothing\n",
    "conftest.py": "raise RuntimeError('a conftest of somebody else')\n",
    "sabotage.py": "raise RuntimeError('a plugin of somebody else')\n",
    "props.py": "raise RuntimeError('a module with the name of a folder of ours')\n",
    "test_masks.py": "raise RuntimeError('a module with the name of one of ours')\n",
}


def test_the_caller_s_own_pytest_does_not_disturb_the_command(check, tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    for name, text in HOSTILE.items():
        (folder / name).write_text(text)
    environment = {
        "PYTEST_ADDOPTS": "--no-such-option",
        "PYTEST_PLUGINS": "sabotage",
        "PYTHONPATH": str(folder),
    }
    name = str(MINIATURES / "mine.py")
    ran = check(name, "--clause", "V.2.1", "--cases", "20", cwd=folder, environment=environment)
    assert (ran.code, ran.err, ran.statuses) == (1, "", {"V.2.1": "violated"})
    assert sorted(p.name for p in folder.iterdir()) == sorted(HOSTILE)
