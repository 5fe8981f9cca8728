"""`gnomon lab 1`: the counts are those of the libraries, the texts are cut as it says, and the sentences follow."""

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

from gnomon.impl.loading import load
from gnomon.props import laboratory_tokens
from gnomon.props.command import main
from gnomon.props.laboratories import LABORATORIES
from gnomon.props.laboratory_tokens import PARAGRAPH, Reader
from gnomon.props.segmenting import Confusion, Cut

NAMES = "tokenizers:byte-level,sentencepiece:plain"
WHOLE = "".join(PARAGRAPH.values())


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Plots go to a folder of the test."""
    pytest.importorskip("tokenizers")
    pytest.importorskip("sentencepiece")
    monkeypatch.chdir(tmp_path)


def lab(*arguments):
    return CliRunner().invoke(main, ["lab", "1", *arguments])


def sentence(ran):
    """What a refusal says beside how to ask for help."""
    return " ".join(ran.output.partition("Error: ")[2].split())


def own(name):
    """The library's own object."""
    return load(name).operations["tokeniser"]().own


def test_the_counts_are_those_of_the_libraries(tmp_path):
    ran = lab()
    assert ran.exit_code == 0
    assert (tmp_path / "gnomon-lab-1.png").read_bytes()[:4] == b"\x89PNG"
    bytewise, plain = map(own, NAMES.split(","))
    rows = {line.split("  ")[0]: line.split()[-3:] for line in ran.output.splitlines()}
    for part, text in {**PARAGRAPH, "the paragraph": WHOLE}.items():
        due = [len(text), len(bytewise.encode(text, add_special_tokens=False).ids), len(plain.encode(text))]
        assert rows[part] == [str(n) for n in due], part


def test_the_conclusion_is_true_of_the_libraries():
    said = lab().output
    bytewise, plain = map(own, NAMES.split(","))
    counts = len(bytewise.encode(WHOLE).ids), len(plain.encode(WHOLE))
    assert f"The {len(WHOLE)} characters are {counts[0]} tokens for tokenizers:byte-level and {counts[1]} for" in said
    assert "'to' is b't' | b'o' and 'to'" in said
    assert bytewise.encode("to").tokens == ["t", "o"]
    assert plain.encode("to", out_type=str) == ["▁to"]
    assert "Under tokenizers:byte-level the paragraph comes back from its ids, and no two texts tried have" in said
    assert bytewise.decode(bytewise.encode(WHOLE).ids) == WHOLE
    assert "one space and two ('a  b', 'a b')" in said
    assert plain.encode("a  b") == plain.encode("a b")


def test_one_tokeniser_against_itself_is_cut_alike():
    said = lab("--impl", "numpy,numpy").output
    assert "tokens for numpy and" in said
    assert ", as many." in said
    assert "They cut every part of a word of it, and the numbers tried, alike." in said


def test_the_sentences_follow_from_the_numbers():
    reader = Reader("x", (1,), 10, 5, False, (Confusion("one space and two", "a  b", "a b"),))
    other = Reader("y", (1,), 25, 5, True, ())
    told = laboratory_tokens._conclusions([reader, other], [Cut("ab", (b"a", b"b"), ("ab", "")), None])
    assert told == [
        f"The {len(WHOLE)} characters are 10 tokens for x and 25 for y, 2.50 times as many as for x.",
        "The shortest part of a word, and the first number, that they cut differently: 'ab' is b'a' | b'b' and 'ab'.",
        "Under x the paragraph does not come back from its ids, and a model can no longer tell apart one space and two "
        "('a  b', 'a b').",
        "Under y the paragraph comes back from its ids, and no two texts tried have the same ids: nothing is hidden.",
    ]


def test_the_plot_shows_tokens_a_character():
    figure = Figure()
    LABORATORIES[1]().draw(figure)
    (axes,) = figure.axes
    bytewise = own("tokenizers:byte-level")
    due = [len(bytewise.encode(text).ids) / len(text) for text in PARAGRAPH.values()]
    assert np.array_equal([bar.get_height() for bar in axes.containers[0]], due)
    assert [label.get_text() for label in axes.get_xticklabels()] == list(PARAGRAPH)


@pytest.mark.parametrize(
    ("names", "code", "told"),
    [
        (
            "numpy",
            2,
            "laboratory 1 compares two tokenisers: --impl tokenizers:byte-level,sentencepiece:plain names them",
        ),
        ("numpy,nunpy", 3, "cannot run nunpy: there is no implementation nunpy"),
        ("numpy,tokenizers:bytes", 3, "cannot run tokenizers:bytes: tokenizers has no part bytes: it has byte-level, "),
        ("numpy,./silent.py", 3, "cannot run ./silent.py: it has no function tokeniser"),
        ("numpy,./breaks.py", 3, "cannot run numpy and ./breaks.py: encode raised ValueError: no such text for "),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_sentence(names, code, told, tmp_path):
    (tmp_path / "silent.py").write_text("def relu(x):\n    return x.clip(0)\n")
    (tmp_path / "breaks.py").write_text(
        "class T:\n    def encode(self, text):\n        raise ValueError('no such text')\n\n\n"
        "def tokeniser():\n    return T()\n"
    )
    ran = lab("--impl", names)
    assert ran.exit_code == code
    assert sentence(ran).startswith(told)
