"""Peak memory is measured to within a mebibyte, whoever allocates it; and V.5.3 says what it did not measure."""

import ctypes
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gnomon.impl.loading import load
from gnomon.props import peak
from gnomon.props.engine import Budget, examine
from gnomon.props.outcome import Status
from gnomon.props.peak import CannotMeasure, peak_bytes
from gnomon.props.property import properties
from gnomon.props.subject import Subject

MEBIBYTE = 2**20
RESIDENT = pytest.mark.skipif(
    not peak.RESET.exists(), reason="this system does not tell the peak of a part of a process"
)


@pytest.fixture
def elsewhere(monkeypatch):
    """A system without the files of Linux."""
    monkeypatch.setattr(peak, "RESET", Path("nowhere") / "clear_refs")


def by_numpy(mebibytes):
    np.ones(mebibytes * MEBIBYTE, np.uint8)


def by_c(mebibytes):
    """Memory that neither Python nor NumPy allocates."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    block = ctypes.c_void_p(libc.malloc(ctypes.c_size_t(mebibytes * MEBIBYTE)))
    ctypes.memset(block, 1, mebibytes * MEBIBYTE)
    libc.free(block)


@RESIDENT
@pytest.mark.parametrize("allocate", [by_numpy, by_c])
@pytest.mark.parametrize("mebibytes", [8, 64])
def test_what_a_call_holds_for_a_moment_is_seen(allocate, mebibytes):
    for _ in range(2):  # what was freed does not hide what is taken again
        assert abs(peak_bytes(lambda: allocate(mebibytes), traced=False) / MEBIBYTE - mebibytes) < 1


def test_elsewhere_numpy_is_traced(elsewhere):
    assert 8 <= peak_bytes(lambda: by_numpy(8), traced=True) / MEBIBYTE < 8.1
    assert not tracemalloc.is_tracing()


def test_elsewhere_others_cannot_be_measured(elsewhere):
    with pytest.raises(
        CannotMeasure, match=r"^peak memory is read from nowhere/clear_refs, which this system does not"
    ):
        peak_bytes(lambda: None, traced=False)


def told(memory):
    """The verdict on the NumPy implementation, which keeps its scores, if it declared that."""
    (growth,) = (p for p in properties() if p.clause.number == "V.5.3")
    numpy = load("numpy")
    subject = Subject(replace(numpy, declaration=replace(numpy.declaration, memory=memory)), "float32")
    return examine(growth, subject, Budget(shrink=False))


def test_what_declares_nothing_is_not_asked():
    verdict = told(None)
    assert (verdict.status, verdict.message) == (Status.UNSUPPORTED, "it does not declare how its memory grows")


def test_what_keeps_its_scores_holds_if_it_says_so():
    assert told("quadratic").status is Status.HOLDS


def test_what_keeps_its_scores_and_denies_it_is_told():
    verdict = told("linear")
    assert verdict.status is Status.VIOLATED
    assert "exponent of the peak memory in the length, one to two: got 1.9" in verdict.message
    assert "looks like: matrix-kept (V.5.3)" in verdict.message
