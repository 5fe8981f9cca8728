"""The most memory that a call holds at once: by the operating system's own count, or by Python's for NumPy alone."""

import ctypes
import re
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # what makes the kernel forget the highest resident size so far
_SETTLE_SECONDS = 0.1  # until what an earlier call freed in another thread is free


class CannotMeasure(Exception):
    """This system does not tell the peak memory of a part of a process."""


def peak_bytes(call: Callable[[], Any], *, traced: bool) -> int:
    """By how much the memory in use rises while the call runs; `traced` allocations can be counted on any system."""
    try:
        return _resident(call)
    except OSError as error:
        if not traced:
            raise CannotMeasure(f"peak memory is read from {RESET}, which this system does not offer") from error
    return _traced(call)


def _resident(call: Callable[[], Any]) -> int:
    """The rise of the resident memory, whoever allocates it."""
    _return_free_memory()
    RESET.write_text(_RESET_PEAK)
    before = _size("VmRSS")
    call()
    return max(0, _size("VmHWM") - before)


def _size(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB$", STATUS.read_text(), re.M)
    if found is None:
        raise OSError(f"{STATUS} has no {field}")
    return int(found[1]) * 1024


def _return_free_memory() -> None:
    """What was freed and is still resident, or a call could use it again without being seen."""
    time.sleep(_SETTLE_SECONDS)
    with suppress(AttributeError, OSError):  # a C library other than that of GNU
        ctypes.CDLL(None).malloc_trim(0)


def _traced(call: Callable[[], Any]) -> int:
    """The rise of what Python and NumPy allocate."""
    running = tracemalloc.is_tracing()
    if not running:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not running:
            tracemalloc.stop()
