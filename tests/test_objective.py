"""The objective worksheet and laboratories 6 and 7: numbers computed another way, and wrong input in one sentence."""

import math
import re
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

from gnomon.impl.worksheet import NumpyWorksheet
from gnomon.props import laboratories_data
from gnomon.props.command import main
from gnomon.props.laboratories import LABORATORIES
from gnomon.props.laboratories_data import EXAMPLE, Flattery, Model, Panel, about_the_splits, about_the_worksheet
from gnomon.props.objectives import BLANK, conclusion, worksheet_of

PNG = b"\x89PNG"
WHOLE = {"objective": ["a", "b"], "loss": ["a"], "omitted": {"b": "nobody measures it"}}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Files go to a folder of the test."""
    monkeypatch.chdir(tmp_path)


def gnomon(*arguments):
    return CliRunner().invoke(main, list(arguments))


def said(ran):
    """What a refusal says beside how to ask for help."""
    return " ".join(ran.output.partition("Error: ")[2].split())


# The record.


def test_a_complete_record_gives_what_it_omits():
    assert NumpyWorksheet().worksheet(WHOLE) == ["b"]
    assert NumpyWorksheet().worksheet({"objective": ["a"], "loss": ["a", "weight decay"], "omitted": {}}) == []


HIDING = {
    "a term": ({"omitted": {}}, "'b': in the objective, and neither in the loss nor listed as omitted"),
    "two terms": (
        {"loss": [], "omitted": {}},
        "'a', 'b': in the objective, and neither in the loss nor listed as omitted",
    ),
    "a reason": ({"omitted": {"b": " "}}, "no reason is given for leaving out 'b'"),
    "nothing wanted": ({"objective": []}, "the objective has no term: say what you want, one term for each thing"),
    "one term twice": ({"objective": ["a", "b", "a"]}, "the objective lists 'a' more than once"),
    "seen and omitted": ({"loss": ["a", "b"]}, "'b': both in the loss and listed as omitted"),
    "unwanted": ({"omitted": {"b": "so", "c": "so"}}, "'c': listed as omitted, and no term of the objective"),
}


@pytest.mark.parametrize("name", HIDING)
def test_a_record_that_hides_something_is_refused(name):
    change, told = HIDING[name]
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        NumpyWorksheet().worksheet(WHOLE | change)


# The file.

WITH_DECAY = 'terms = ["a thing that you want", "weight decay"]'
FILLED = BLANK.replace("one sentence", "our words").replace("watched", "counted")


def test_a_worksheet_is_written_filled_in_and_checked(tmp_path):
    first = gnomon("objective", "init", "mine.toml")
    assert (first.exit_code, first.output) == (
        0,
        "wrote mine.toml: fill it in, then `gnomon objective check mine.toml`\n",
    )
    blank = gnomon("objective", "check", "mine.toml")
    assert (blank.exit_code, said(blank)) == (
        2,
        "mine.toml still has 'What you want, in one sentence.' as it was written to fill in: put your own in its place",
    )
    (tmp_path / "mine.toml").write_text(FILLED)
    ran = gnomon("objective", "check", "mine.toml")
    assert ran.exit_code == 0
    assert ran.output.splitlines()[-1] == (
        "The loss sees 1 of 2 terms of the objective and omits 1: the failures that it can not show will come from "
        "there."
    )
    again = gnomon("objective", "init", "mine.toml")
    assert (again.exit_code, said(again)) == (2, "mine.toml is there already: name another file, or remove it")


def test_a_hidden_omission_is_a_violation(tmp_path):
    text = "\n".join(line for line in BLANK.splitlines() if not line.startswith('"another'))
    (tmp_path / "hides.toml").write_text(text)
    ran = gnomon("objective", "check", "hides.toml")
    assert (ran.exit_code, ran.output) == (
        1,
        "I.4.5 worksheet violated by hides.toml: 'another thing that you want': in the objective, and neither in the "
        "loss nor listed as omitted\n",
    )


def test_what_the_loss_adds_is_told(tmp_path):
    added = FILLED.replace('terms = ["a thing that you want"]', WITH_DECAY)
    (tmp_path / "adds.toml").write_text(added)
    assert "weight decay (the loss's own)" in gnomon("objective", "check", "adds.toml").output


def test_a_loss_that_sees_everything_is_told():
    side = {"statement": "So.", "terms": ["a", "b"]}
    assert conclusion(worksheet_of({"objective": side, "loss": side}, "it")) == (
        "The loss sees all 2 terms of the objective, as far as the objective is written down."
    )


SIDE = '[objective]\nstatement = "So."\nterms = '
NO_LIST = "the terms of [objective] in bad.toml are a list of texts, none of them empty"
NO_TABLE = "bad.toml has no table [{}]: `gnomon objective init` writes one to fill in"
BAD = {
    "no TOML": ("objective =", "bad.toml is no TOML: Invalid value (at end of document)"),
    "no table": ("objective = 3", NO_TABLE.format("objective")),
    "no loss": (SIDE + '["a"]', NO_TABLE.format("loss")),
    "more": (BLANK + "[metric]\n", "bad.toml has metric beside objective, loss and omitted"),
    "more inside": (
        BLANK.replace("[loss]\n", "[loss]\nweight = 2\n"),
        "[loss] in bad.toml has weight beside statement and terms",
    ),
    "no statement": ('[objective]\nterms = ["a"]', "[objective] in bad.toml lacks its statement, a sentence"),
    "no list": (SIDE + '"a"', NO_LIST),
    "an empty term": (SIDE + '["a", " "]', NO_LIST),
    "a number for a reason": (
        BLANK + "three = 3\n",
        "omitted in bad.toml is a table of terms, each with its reason as a text",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_no_worksheet_is_refused_in_one_sentence(name, tmp_path):
    text, told = BAD[name]
    (tmp_path / "bad.toml").write_text(text)
    ran = gnomon("objective", "check", "bad.toml")
    assert (ran.exit_code, said(ran)) == (2, told)


def test_what_cannot_be_read_or_written_is_refused(tmp_path):
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9\n")
    told = {
        ("check", "nowhere.toml"): "cannot read nowhere.toml: No such file or directory",
        ("check", "."): "cannot read .: Is a directory",
        ("check", "latin.toml"): "cannot read latin.toml: it is no text in UTF-8",
        ("init", "nowhere/mine.toml"): "cannot write nowhere/mine.toml: there is no folder nowhere",
        ("init", "."): "cannot write .: it is a folder",
    }
    for arguments, sentence in told.items():
        ran = gnomon("objective", *arguments)
        assert (ran.exit_code, said(ran)) == (2, sentence)


# Laboratory 7.


def test_the_two_models_have_one_loss_and_differ_in_what_it_omits():
    """Forty messages: 0.6 for all; or 0.1 for four of them, and for the others what makes up for it."""
    ran = gnomon("lab", "7")
    assert ran.exit_code == 0
    rest = math.exp((40 * math.log(0.6) - 4 * math.log(0.1)) / 36)
    assert rest > 0.5
    loss = f"{-math.log(0.6):.4f}"
    assert f"{-(36 * math.log(rest) + 4 * math.log(0.1)) / 40:.4f}" == loss
    assert ran.output.splitlines()[-2] == (
        f"The two models have one loss, {loss} and {loss}, and differ in 3 of 3 omitted terms that can be counted: "
        "right decisions (100% and 90%), no urgent message missed (100% and 75%) and every clinic served alike (100% "
        "and 60%)."
    )
    assert conclusion(EXAMPLE) in ran.output
    assert "The loss sees 1 of 5 terms of the objective and omits 4" in ran.output


def test_models_that_differ_in_loss_and_in_nothing_else_are_told():
    one, other = (Model(n, np.full((4, 10), p)) for n, p in (("one", 0.6), ("other", 0.7)))
    assert about_the_worksheet(one, other)[-1] == (
        "The two models differ in loss, 0.5108 and 0.3567, and differ in 0 of 3 omitted terms that can be counted."
    )


# Laboratory 6.


@pytest.fixture
def small(monkeypatch):
    """A panel of which the labels are the group's own, and a feature tells the group, beside one that is random."""

    def panel(name, telling):
        rng = np.random.default_rng(1)
        groups = np.repeat(np.arange(40), 8)
        labels = rng.standard_normal(40)[groups]
        return Panel(
            name, "sites", labels, (groups[:, None] if telling else rng.standard_normal((320, 1))) * 1.0, groups
        )

    monkeypatch.setattr(laboratories_data, "panels", lambda: (panel("told", True), panel("untold", False)))


def test_a_split_flatters_where_the_model_knows_groups_again(small):
    ran = gnomon("lab", "6")
    assert ran.exit_code == 0
    told, untold = (line.split() for line in ran.output.splitlines()[1:3])
    assert float(told[4]) > 0.95
    assert float(told[5]) < 0.5
    assert abs(float(told[6]) - (float(told[4]) - float(told[5]))) < 0.002
    assert float(told[7]) < float(told[6]) < float(told[9])
    assert "The random split flatters in 1 of 2 data sets, told by " in ran.output
    assert float(untold[7]) < 0 < float(untold[9])
    assert "In untold the interval of the difference holds zero: these groups do not show it." in ran.output


def flat(name, difference, error, torn=0, random=0.5):
    panel = Panel(name, "sites", np.zeros(1), np.zeros((1, 1)), np.zeros(1))
    return Flattery(panel, random, random - difference, difference, error, torn)


def test_every_outcome_has_its_sentence():
    seen = [flat("a", 0.75, 0.125), flat("b", -0.5, 0.125), flat("c", 0.0, 0.125), flat("d", 0.25, 0.0, torn=3)]
    assert about_the_splits("mine", seen) == [
        "The grouped split of mine puts 3 sites on two sides, which VIII.5.1 rules out.",
        "The random split flatters in 2 of 4 data sets, a by 0.75 and d by 0.25: rows of one group stand on both of "
        "its sides, and the model knows them again.",
        "Of new groups it knows less than their mean does: a (-0.25).",
        "The random split scores below the grouped one in b.",
        "In c the interval of the difference holds zero: these groups do not show it.",
    ]


def test_the_interval_is_that_of_the_normal_distribution():
    low, high = flat("a", 0.5, 0.25).interval
    assert (round(low, 3), round(high, 3)) == (0.01, 0.99)  # 0.5 ± 1.96/4


def test_other_splits_are_taken_by_name(small):
    pytest.importorskip("sklearn")
    ran = gnomon("lab", "6", "--impl", "sklearn:kfold,sklearn:group-kfold")
    assert (ran.exit_code, "flatters in 1 of 2 data sets" in ran.output) == (0, True)


def test_a_grouped_split_that_tears_groups_is_told(small, tmp_path):
    (tmp_path / "torn.py").write_text(
        "import numpy as np\n\n\ndef split_rows(rows, *, groups=None, parts=5):\n"
        "    part = np.arange(len(rows)) % parts\n"
        "    return [(np.flatnonzero(part != p), np.flatnonzero(part == p)) for p in range(parts)]\n"
    )
    ran = gnomon("lab", "6", "--impl", "./torn.py")
    assert (
        "The grouped split of ./torn.py puts 200 sites and 200 sites on two sides, which VIII.5.1 rules out."
        in ran.output
    )


@pytest.mark.parametrize(
    ("impl", "told"),
    [
        ("sklearn:kfold", "cannot run sklearn:kfold: its split_rows has no keyword groups"),
        ("torch-sdpa", "cannot run torch-sdpa: it has no function split_rows"),
        ("nunpy", "cannot run nunpy: there is no implementation nunpy and no module 'nunpy': did you mean numpy?"),
        ("./half.py", "cannot run ./half.py: its splits never hold out 160 rows of told"),
    ],
)
def test_splits_that_cannot_be_run_are_told_in_one_sentence(impl, told, small, tmp_path):
    (tmp_path / "half.py").write_text(
        "import numpy as np\n\n\ndef split_rows(rows, *, groups=None):\n"
        "    return [(np.arange(160), np.arange(160, 320))]\n"
    )
    ran = gnomon("lab", "6", "--impl", impl)
    assert ran.exit_code == 3
    assert said(ran).startswith(told)


def test_the_real_panels_are_read_and_scored():
    pytest.importorskip("linearmodels")
    wages, states = laboratories_data.panels()
    assert (wages.rows.shape, len(np.unique(wages.groups))) == ((4360, 10), 545)
    assert (states.rows.shape, len(np.unique(states.groups))) == ((816, 7), 48)
    ran = gnomon("lab", "6")
    assert ran.exit_code == 0
    assert "The random split flatters in 2 of 2 data sets" in ran.output


def test_without_the_wheel_it_is_said_how_to_have_it(monkeypatch):
    monkeypatch.setattr(laboratories_data, "find_spec", lambda name: None)
    ran = gnomon("lab", "6")
    assert (ran.exit_code, said(ran)) == (
        2,
        "laboratory 6 needs linearmodels, which is not installed: pip install --no-deps linearmodels==7.1",
    )


@pytest.mark.parametrize("number", [6, 7])
def test_a_plot_is_written(number, small, tmp_path):
    place = tmp_path / f"gnomon-lab-{number}.png"
    ran = gnomon("lab", str(number))
    assert (ran.exit_code, ran.output.splitlines()[-1]) == (0, f"plot: {place.name}")
    assert place.read_bytes()[:4] == PNG


def test_the_plot_of_splits_shows_both_scores_and_the_interval(small):
    figure, finding = Figure(), LABORATORIES[6]()
    finding.draw(figure)
    scores, apart = figure.axes
    random, grouped = (line.get_xdata() for line in scores.get_lines()[:2])
    assert random[0] > grouped[0]
    assert len(apart.containers) == 1
    assert [text.get_text() for text in scores.get_yticklabels()] == ["told", "untold"]


def test_the_plot_of_the_worksheet_shows_the_shares():
    figure = Figure()
    LABORATORIES[7]().draw(figure)
    (axes,) = figure.axes
    assert [round(bar.get_width(), 2) for bar in axes.patches] == [1, 1, 1, 0.9, 0.75, 0.6]


def test_the_command_needs_no_adapter_for_a_worksheet(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert gnomon("objective", "init", "mine.toml").exit_code == 0
