"""One thread a process, and no trace left in the caches of whoever runs the tests."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

_CACHE = tempfile.mkdtemp(prefix="gnomon-tests-")
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
os.environ["XDG_CACHE_HOME"] = _CACHE

# Imported late, for the variables above have to be set before NumPy is.
import pytest  # noqa: E402
from commanding import Ran, gnomon  # noqa: E402
from hypothesis.configuration import set_hypothesis_home_dir  # noqa: E402

set_hypothesis_home_dir(_CACHE)


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., Ran]:
    """`gnomon check` with a small budget; every verdict is read from the lines of JSON that it wrote."""

    def run(implementation: str, *options: str, **where: object) -> Ran:
        lines = tmp_path / "lines.jsonl"
        small = ("--dtype", "float32", "--cases", "5", "--timeout", "5", "--workers", "1", "--json", str(lines))
        return gnomon("check", implementation, *small, *options, jsonl=lines, **where)

    return run


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    """Workers are told of a terminal of eighty columns, which would cut tables that are printed in this process."""
    from gnomon.props.report import console

    monkeypatch.setattr(console, "width", 200)
