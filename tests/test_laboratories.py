"""`gnomon lab N`: the numbers are those computed another way, the plot shows them, and the sentences follow."""

import json
import math
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

from gnomon.props import laboratories
from gnomon.props.command import main
from gnomon.props.laboratories import LABORATORIES, size
from gnomon.spec.configuration import CONFIGURATIONS
from gnomon.spec.parameters import PUBLISHED

PNG = b"\x89PNG"
NO_DIVISOR = """
import numpy as np


def attention(query, key, value):
    scores = query @ key.swapaxes(-1, -2)
    mass = np.exp(scores - scores.max(-1, keepdims=True))
    return mass / mass.sum(-1, keepdims=True) @ value
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Plots go to a folder of the test."""
    monkeypatch.chdir(tmp_path)


def lab(*arguments):
    return CliRunner().invoke(main, ["lab", *map(str, arguments)])


def sentence(ran):
    """What a refusal says beside how to ask for help."""
    return " ".join(ran.output.partition("Error: ")[2].split())


def rows(ran):
    """The cells of the table under its first one, as far as there is a table."""
    return {cells[0]: cells[1:] for line in ran.output.splitlines() if len(cells := line.split()) > 1}


def drawn(number, **options):
    """The axes that a laboratory draws."""
    figure = Figure()
    LABORATORIES[number](**options).draw(figure)
    return figure.axes


# The command.


@pytest.mark.parametrize("number", [2, 5])
def test_the_plot_is_written_and_written_again(number, tmp_path):
    place = tmp_path / f"gnomon-lab-{number}.png"
    for _ in range(2):
        ran = lab(number)
        assert (ran.exit_code, ran.output.splitlines()[-1]) == (0, f"plot: {place.name}")
        assert place.read_bytes()[:4] == PNG
        place.write_text("an older one")
    assert lab(number, "--plot", "mine.svg").exit_code == 0
    assert "<svg" in (tmp_path / "mine.svg").read_text()


REFUSED = {
    ("9",): "there is no laboratory 9: there are " + ", ".join(map(str, LABORATORIES)),
    ("two",): "Invalid value for 'N': 'two' is not a valid integer.",
    ("2", "--config", "gpt2"): "laboratory 2 takes no --config",
    ("5", "--impl", "numpy"): "laboratory 5 takes no --impl",
    ("5", "--config", "gpt3"): "there is no configuration gpt3: did you mean gpt2?",
    ("5", "--plot", "nowhere/plot.png"): "cannot write nowhere/plot.png: there is no folder nowhere",
    ("5", "--plot", "."): "cannot write .: it is a folder",
}


@pytest.mark.parametrize("arguments", REFUSED, ids=" ".join)
def test_what_makes_no_sense_is_refused_in_one_sentence(arguments):
    ran = lab(*arguments)
    assert (ran.exit_code, sentence(ran)) == (2, REFUSED[arguments])


def test_a_format_that_is_none_is_refused():
    ran = lab(5, "--plot", "plot.txt")
    assert ran.exit_code == 2
    assert sentence(ran).startswith("cannot write plot.txt: Format 'txt' is not supported")


def test_without_matplotlib_the_numbers_are_there_and_the_plot_is_not(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    ran = lab(5)
    assert ran.exit_code == 2
    assert "gpt2: its weights take 249 MB" in ran.output
    assert sentence(ran) == (
        "no plot was written: that needs matplotlib, which is not installed: pip install 'gnomon[labs]'"
    )
    assert list(tmp_path.iterdir()) == []


# 2: the divisor.


def softmax(scores):
    mass = np.exp(scores - scores.max(-1, keepdims=True))
    return mass / mass.sum(-1, keepdims=True)


def weights_again(width):
    """The weights of the same queries and keys with the divisor and without, by three lines of NumPy."""
    rng = np.random.default_rng((laboratories.SEED, width))
    query, key = (rng.standard_normal((laboratories.ROWS // 8, 1, n, width)) for n in (8, laboratories.KEYS))
    scores = query @ key.swapaxes(-1, -2)
    return softmax(scores / math.sqrt(width)), softmax(scores)


def surprise(p):
    """The entropy, as the mean of −ln p, whose terms of no weight are nothing."""
    return -(p * np.log(p, where=p > 0, out=np.zeros_like(p))).sum(-1)


def test_the_sweep_is_that_of_plain_numpy():
    found = rows(lab(2))
    for width in laboratories.HEAD_WIDTHS:
        kept, bare = weights_again(width)
        due = [surprise(kept), surprise(bare), kept.max(-1), bare.max(-1)]
        assert all(abs(float(cell) - d.mean()) < 1e-3 for cell, d in zip(found[str(width)], due, strict=True)), width


def test_the_sweep_says_what_it_shows():
    ran = lab(2)
    (_, first), (last, end) = ((surprise(p).mean() for p in weights_again(w)) for w in (1, 512))
    rows_seen = len(laboratories.HEAD_WIDTHS) * laboratories.ROWS
    assert "numpy in float64 agrees with the equation: its largest error is 0.0" in ran.output
    assert f"at least that without it in {rows_seen} of {rows_seen} rows, as V.2.3 says." in ran.output
    assert f"goes from {first:.2f} to {end:.2f} without the divisor and from {first:.2f} to {last:.2f}" in ran.output
    assert ran.output.splitlines()[-2].endswith(
        "without the divisor attention collapses onto one key as heads widen, with it it does not."
    )


def test_an_implementation_without_the_divisor_is_told(tmp_path):
    (tmp_path / "bare.py").write_text(NO_DIVISOR)
    ran = lab(2, "--impl", "./bare.py")
    assert ran.exit_code == 0
    assert "./bare.py in float64 departs from the equation" in ran.output
    assert "attention collapses with the divisor too." in ran.output
    found, bare = rows(ran)["64"], surprise(weights_again(64)[1]).mean()
    assert abs(float(found[0]) - bare) < 1e-3


def test_an_implementation_that_sharpens_without_end_loses_the_claim():
    """Of weights whose entropy is smaller with the divisor, V.2.3 is said to be false."""
    right, wrong = np.array([[3.0, 3.0], [2.0, 1.0]]), np.array([[3.0, 1.0], [2.0, 2.0]])
    seen = [laboratories.Collapse(w, 0.5, e, e / 4, int((e[0] < e[1]).sum())) for w, e in ((1, right), (2, wrong))]
    told = laboratories._about_the_divisor("x", "float32", seen)
    assert told[1] == (
        "With the divisor the entropy is at least that without it in 3 of 4 rows, and in 1 it is smaller, which V.2.3 "
        "rules out."
    )
    assert told[2].endswith("attention does not collapse without the divisor.")


def test_the_plot_of_the_sweep_shows_the_means():
    entropies, largest = drawn(2)
    for axes, number in ((entropies, surprise), (largest, lambda p: p.max(-1))):
        lines = [np.asarray(line.get_ydata()) for line in axes.get_lines()]
        due = np.array([[number(p).mean() for p in weights_again(w)] for w in laboratories.HEAD_WIDTHS]).T
        assert np.abs(np.array(lines) - due).max() < 1e-9
        assert axes.get_xscale() == "log"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nunpy", "cannot run nunpy: there is no implementation nunpy and no module 'nunpy': did you mean numpy?"),
        ("./silent.py", "cannot run ./silent.py: it has no function attention"),
        ("./breaks.py", "cannot run ./breaks.py: attention raised ValueError: no kernel"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_sentence(name, told, tmp_path):
    (tmp_path / "silent.py").write_text("def relu(x):\n    return x.clip(0)\n")
    (tmp_path / "breaks.py").write_text("def attention(query, key, value):\n    raise ValueError('no kernel')\n")
    ran = lab(2, "--impl", name)
    assert ran.exit_code == 3
    assert sentence(ran).startswith(told)


# 4: parameters.


@pytest.fixture
def counted(monkeypatch):
    """Transformers' count of models, and what the laboratory makes of one that is told otherwise."""
    pytest.importorskip("transformers")
    from gnomon.impl.adapters import transformers_sizes

    def told(change):
        true = transformers_sizes.sizes
        monkeypatch.setattr(transformers_sizes, "sizes", lambda name, c: change(true(name, c)))

    return told


def test_every_published_total_comes_out_twice(counted):
    ran = lab(4)
    found = rows(ran)
    for name, total in PUBLISHED.items():
        assert found[name][:2] == [f"{total:,}"] * 2, name
    assert (
        "By hand and by transformers the counts of all parameters, of attention and of the feed-forward networks are "
        f"the same in {len(CONFIGURATIONS) - 1} of {len(CONFIGURATIONS) - 1} models."
    ) in ran.output
    assert "2017 is counted by hand alone: no family of transformers is known for 2017." in ran.output
    assert "attention is the largest part of no model here." in ran.output


def test_the_shares_are_those_of_the_shapes(counted):
    """GPT-2 written out: its tables, and 4 and 8 matrices of width squared with their biases in each of 12 blocks."""
    width, total = 768, PUBLISHED["gpt2"]
    tables, attention, network = (50257 + 1024) * width, 12 * 4 * (width**2 + width), 12 * (8 * width**2 + 5 * width)
    ran = lab(4, "--config", "gpt2")
    cells = [f"{part / total:.1%}" for part in (tables, attention, network, total - tables - attention - network)]
    assert rows(ran)["gpt2"][2:] == cells
    assert f"Attention holds {attention / total:.0%} to {attention / total:.0%}" in ran.output
    assert f"{network / attention:.2f} to {network / attention:.2f} times as many" in ran.output


def test_a_count_that_differs_is_told(counted):
    counted(lambda found: found | {"attention": found["attention"] + 768})
    told = "in 0 of 1 models; transformers departs for gpt2, all (+768) and gpt2, attention (+768)."
    assert told in lab(4, "--config", "gpt2").output


def test_a_model_of_mostly_attention_is_told(counted, tmp_path):
    shape = {
        "model_type": "llama", "vocab_size": 8, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 16,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(shape))
    said = lab(4, "--config", "./config.json", "--config", "gpt2").output
    assert "attention is the largest part of ./config.json." in said
    assert "./config.json is counted by hand alone: no family of transformers is known for ./config.json." in said
    assert "the same in 1 of 1 models." in said


def test_without_transformers_the_laboratory_says_how_to_have_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "gnomon.impl.adapters.transformers_sizes", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "transformers", None)
    ran = lab(4)
    assert ran.exit_code == 2
    assert sentence(ran) == "laboratory 4 needs torch, which is not installed: pip install 'gnomon[transformers]'"


# 5: memory.


def first_above(limit, taken):
    """The first length at which more is taken, by halving."""
    low, high = 0, 2**40
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if taken(middle) > limit else (middle, high)
    return high


def crossings(name):
    """Where scores and cache pass the published number of parameters."""
    c = CONFIGURATIONS[name]
    scores = first_above(PUBLISHED[name], lambda n: c.heads * n * n)
    return scores, first_above(PUBLISHED[name], lambda n: 2 * c.layers * c.kv_heads * c.head_width * n)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_crossings_are_the_first_lengths_past_the_weights(name):
    found = laboratories.footprint(name)
    assert (found.scores_pass, found.cache_passes) == crossings(name)


@pytest.mark.parametrize("name", ["gpt2", "gemma-2b"])
def test_the_crossings_are_told(name):
    scores, cache = crossings(name)
    ran = lab(5, "--config", name)
    assert rows(ran)["passes"] == ["weights", f"{scores:,}", f"{cache:,}"]
    assert f"take more from {scores:,} tokens on, the cache from {cache:,}, so the scores first." in ran.output
    assert f"{name}: its weights take {size(2 * PUBLISHED[name])} in 16 bits" in ran.output


def test_the_bytes_are_those_written_out():
    cells = rows(lab(5))
    assert cells["1,024"] == ["25.2", "MB", "37.7", "MB", "67.1", "MB", "134", "MB"]  # 12·1024²·2; 2·12·12·64·1024·2
    assert len(cells["1,048,576"]) == len(cells["128"]) == 8


def test_a_cache_that_passes_first_is_told(tmp_path):
    shape = {
        "model_type": "llama", "vocab_size": 8, "hidden_size": 64, "num_hidden_layers": 64, "num_attention_heads": 1,
        "intermediate_size": 16,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(shape))
    said = lab(5, "--config", "./config.json").output
    assert "so the cache first. Twice the length is 4 times the scores and 2 times the cache." in said


def test_the_plot_of_memory_crosses_where_it_says():
    (axes,) = drawn(5, config=("gpt2",))
    scores, cache, weights, crossings = axes.get_lines()
    lengths = np.array(laboratories.LENGTHS, float)
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert np.array_equal(scores.get_xdata(), lengths)
    assert np.array_equal(scores.get_ydata(), 12 * lengths**2 * 2)
    assert np.array_equal(cache.get_ydata(), 2 * 12 * 768 * lengths * 2)
    assert set(weights.get_ydata()) == set(crossings.get_ydata()) == {2 * PUBLISHED["gpt2"]}
    assert list(crossings.get_xdata()) == [3221, 6752]


@pytest.mark.parametrize(
    ("count", "told"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (25165824, "25.2 MB"), (2 * 10**12, "2 TB"), (3e15, "3 PB")],
)
def test_bytes_are_told_in_decimal_units(count, told):
    assert size(count) == told
