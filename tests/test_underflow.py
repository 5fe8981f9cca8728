"""`gnomon underflow`: shares counted another way, a table, sentences and a plot, and what makes no sense refused."""

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

from gnomon.props import underflow
from gnomon.props.command import EIGHT_AND_SIXTEEN, main
from gnomon.spec.formats import LAYOUTS, share_over_ceiling, share_under_floor

PNG = b"\x89PNG"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Plots go to a folder of the test."""
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    return CliRunner().invoke(main, ["underflow", *map(str, arguments)])


def test_the_command_offers_the_formats_that_there_are():
    assert set(EIGHT_AND_SIXTEEN) == set(LAYOUTS)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("scale", [1.0, 1024.0])
def test_the_shares_are_those_of_the_casts_of_ml_dtypes(name, scale):
    rng = np.random.default_rng(7)
    sizes = LAYOUTS[name].smallest * 2.0 ** rng.uniform(-14, 40, 4000)
    gradients = {"a": np.float32(sizes[:3000]), "b": np.float32(-sizes[3000:]), "c": np.zeros(50, np.float32)}
    dtype = np.float16 if name == "float16" else getattr(ml_dtypes, name)
    with np.errstate(over="ignore"):
        stored = (np.concatenate([gradients["a"], gradients["b"]]) * np.float32(scale)).astype(dtype).astype(np.float64)
    exact = {n: g.astype(np.float64) for n, g in gradients.items()}
    assert share_under_floor(exact, LAYOUTS[name], scale) == np.mean(stored == 0)
    assert share_over_ceiling(exact, LAYOUTS[name], scale) == np.mean(~np.isfinite(stored))


def test_gradients_of_ones_own_are_measured(tmp_path):
    np.savez(tmp_path / "own.npz", table=np.array([2.0**-27, 2.0**-10, 1.0, 0.0]), bias=np.array([2.0**-30]))
    ran = run("--gradients", "own.npz", "--scale", 4096)
    assert ran.exit_code == 0, ran.output
    printed = " ".join(ran.output.split())
    assert "own.npz: of 4 gradients that are not zero float16 loses 50.00% under its floor of 2.98e-08" in printed
    assert "and 0.00% once they are scaled by 4096." in printed
    assert "Most of them without a scale in bias: 100.00%." in printed
    assert (tmp_path / "gnomon-underflow.png").read_bytes().startswith(PNG)


def test_late_gradients_fall_through_the_floor_and_a_scale_brings_them_back():
    first, half, last = underflow.trained("numpy", 160, 0)
    assert last.loss < half.loss < first.loss
    shares = [share_under_floor(m.gradients, LAYOUTS["float16"], 1.0) for m in (first, last)]
    assert shares[0] < shares[1]
    assert share_under_floor(last.gradients, LAYOUTS["float16"], 2.0**16) < shares[1]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--gradients", "nowhere.npz"], "Error: nowhere.npz is no .npz file of arrays"),
        (["--gradients", "zeros.npz"], "Error: zeros.npz holds no gradient that is not zero"),
        (["nobody"], "Error: cannot train with nobody: there is no implementation nobody"),
        (["--format", "float32"], "Error: Invalid value for '--format'"),
        (["--plot", "nowhere/p.png"], "Error: cannot write nowhere/p.png: there is no folder nowhere"),
    ],
    ids=["no file", "zeros", "nobody", "format", "folder"],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(tmp_path, arguments, told):
    np.savez(tmp_path / "zeros.npz", weight=np.zeros(3))
    ran = run(*arguments)
    assert ran.exit_code in (2, 3)
    assert told in ran.output
