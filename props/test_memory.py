"""V.5 held to an implementation: what it counts of scores, cache and traffic, and the memory that it takes."""

import functools
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from hypothesis import strategies as st

from gnomon.impl.frameworks import numpy_dtype
from gnomon.impl.loading import Implementation
from gnomon.props.cases import AttentionCase, CountCase, count_cases
from gnomon.props.judge import Comparison, between, close, same
from gnomon.props.outcome import Declined
from gnomon.props.peak import CannotMeasure, peak_bytes
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.spec import memory as spec
from gnomon.spec.configuration import CONFIGURATIONS

Comparisons = Iterator[Comparison]


@checks(spec.SCORE_MATRIX, count_cases(), needs=("score_bytes",))
def score_matrix(subject: Subject, case: CountCase) -> Comparisons:
    """The bytes are those of batch times heads square matrices."""
    c, sizes = case.configuration, {"batch": case.batch, "item": case.item}
    got = subject.count("score_bytes", c, case.length, **sizes)
    yield same("bytes of the scores", got, spec.score_bytes(c, case.length, **sizes))


@checks(
    spec.SCORE_MATRIX,
    count_cases(name=st.sampled_from(("", *CONFIGURATIONS))),
    needs=("crossing_length",),
)
def crossing(subject: Subject, case: CountCase) -> Comparisons:
    """The crossing is the first length at which the scores take more than the weights."""
    c = case.configuration
    got = subject.count("crossing_length", c, batch=case.batch)
    yield same("length at which the scores pass the weights", got, spec.crossing_length(c, batch=case.batch))


@checks(spec.CACHE, count_cases(), needs=("cache_bytes",))
def cache(subject: Subject, case: CountCase) -> Comparisons:
    """The bytes are those of keys and values of every layer and key-value head."""
    c, sizes = case.configuration, {"batch": case.batch, "item": case.item}
    got = subject.count("cache_bytes", c, case.length, **sizes)
    yield same("bytes of the cache", got, spec.cache_bytes(c, case.length, **sizes))


@checks(
    spec.CACHE, st.sampled_from(tuple(spec.CACHE_PER_TOKEN)).map(lambda n: CountCase(name=n)),
    needs=("cache_bytes",), mistakes=(),
)  # fmt: skip
def published_cache(subject: Subject, case: CountCase) -> Comparisons:
    """The bytes a token are the published ones."""
    got = subject.count("cache_bytes", case.configuration, 1)
    yield same(f"bytes a token of {case.name} ", got, spec.CACHE_PER_TOKEN[case.name])


# V.5.3. What is measured is the rise of resident memory, repeatable to some hundred KiB. At the longer length a score
# matrix of 16 bits takes 32 MiB, and what does not keep it takes one to three: half of the matrix lies far from both.
# The exponent of linear memory is held to the middle of one and two, a peak eight times as high at four times the
# length; arguments count, for they are there, and are known exactly where little else is seen.
MIDDLE = 0.5
LONG, TIMES = 4096, 4


@functools.cache
def peaks(implementation: Implementation, dtype: str, case: AttentionCase) -> tuple[int, int]:
    """The peak memory of attention, its arguments included, at a part of the length and at all of it, measured once."""
    subject = Subject(implementation, dtype)
    _peak(subject, replace(case, queries=1, keys=1))  # what a first call sets up is not counted
    short, long = (_peak(subject, replace(case, queries=n, keys=n)) for n in (case.keys // TIMES, case.keys))
    return short, long


def _peak(subject: Subject, case: AttentionCase) -> int:
    arrays = case.arrays(subject.precision.storage)
    handed, shape = [subject.hand(a) for a in arrays], (*arrays[0].shape[:-1], case.value_width)
    call = partial(subject.invoke, "attention", handed, {}, shape, None)
    if subject.implementation.declaration.compiles:
        call()  # nor is the compilation for this shape
    try:
        risen = peak_bytes(call, traced=subject.framework.name == "numpy")
    except CannotMeasure as reason:
        raise Declined(str(reason)) from reason
    return risen + sum(a.size for a in arrays) * _itemsize(subject)


def _itemsize(subject: Subject) -> int:
    return numpy_dtype(subject.dtype).itemsize


@checks(spec.PEAK_MEMORY, st.just(AttentionCase(queries=LONG, keys=LONG, width=32, value_width=32)), plain=False)
def growth_of_memory(subject: Subject, case: AttentionCase) -> Comparisons:
    """A score matrix is there as a whole, or never so and the peak grows with the length alone, as declared."""
    declared = subject.implementation.declaration.memory
    if declared is None:
        raise Declined("it does not declare how its memory grows")
    short, long = peaks(subject.implementation, subject.dtype, case)
    share = min(1.0, long / (case.queries * case.keys * _itemsize(subject)))
    if declared == "linear":
        exponent = np.clip(math.log(long / short, TIMES), 1, 2)
        yield close("exponent of the peak memory in the length, one to two", exponent, 1, MIDDLE)
    yield close("peak memory in score matrices, up to one", share, float(declared == "quadratic"), MIDDLE)


# V.5.4. Fast memory is as large as a row of scores, at least.

DOUBLINGS = (1, 2, 4)
SIZES = ((64, 4), (96, 4), (128, 4), (128, 8), (160, 8))  # the shortest length, and a head width with d² < M < nd


def slope(sizes: list[int], counts: list[int]) -> float:
    """The exponent with which the counts grow, fitted."""
    return float(np.polyfit(np.log2(sizes), np.log2(counts), 1)[0])


@checks(
    spec.TRAFFIC,
    st.sampled_from(SIZES).map(lambda size: CountCase(length=size[0], head_width=size[1])),
    needs=("traffic",), mistakes=(spec.KEYS_READ_ONCE,), share=0.05,
)  # fmt: skip
def orders_of_traffic(subject: Subject, case: CountCase) -> Comparisons:
    """Fitted over doublings, the exponents in the length and in the size of fast memory are nearest to those due."""
    lengths, fasts = ([case.length * factor * n for n in DOUBLINGS] for factor in (1, DOUBLINGS[-1]))
    for tiled, (in_length, in_fast) in spec.TRAFFIC_ORDERS.items():
        word = "tiled" if tiled else "standard"
        moved = partial(_moved, subject, case.head_width, tiled=tiled)
        longer = slope(lengths, [moved(n, fasts[0]) for n in lengths])
        faster = slope(fasts, [moved(lengths[-1], m) for m in fasts])
        yield close(f"exponent of the {word} traffic in the length", longer, in_length, MIDDLE)
        yield close(f"exponent of the {word} traffic in fast memory", faster, in_fast, MIDDLE)


def _moved(subject: Subject, width: int, length: int, fast: int, *, tiled: bool) -> int:
    return subject.count("traffic", length, width, fast=fast, tiled=tiled)


@checks(
    spec.TRAFFIC,
    st.builds(
        CountCase, length=st.sampled_from((256, 384)), head_width=st.sampled_from((2, 4, 8)), seed=st.integers(0, 1)
    ),
    needs=("traffic",), share=0.1,
)  # fmt: skip
def least_traffic(subject: Subject, case: CountCase) -> Comparisons:
    """No count is below what the algorithm has to move, with fast memory for a row of scores or for two."""
    fast = case.length * (1 + case.seed)
    for tiled, word in ((False, "standard"), (True, "tiled")):
        least = spec.least_traffic(case.length, case.head_width, fast, tiled=tiled)
        got = _moved(subject, case.head_width, case.length, fast, tiled=tiled)
        yield between(f"numbers moved by {word} attention", got, least, math.inf, 0.0)


@checks(
    spec.TRAFFIC,
    st.just(CountCase(name="gpt2-medium", length=spec.MEASURED_LENGTH, batch=spec.MEASURED_BATCH, item=2)),
    needs=("traffic",), mistakes=(),
)  # fmt: skip
def measured_gigabytes(subject: Subject, case: CountCase) -> Comparisons:
    """The bytes of a layer, forward and backward, are half to twice the measured ones."""
    c = case.configuration
    for tiled, measured in spec.MEASURED_GIGABYTES.items():
        options = {"fast": spec.MEASURED_FAST, "tiled": tiled, "backward": True}
        moved = subject.count("traffic", case.length, c.head_width, **options)
        gigabytes = moved * case.batch * c.heads * case.item / 10**9
        what = f"gigabytes of {'tiled' if tiled else 'standard'} attention"
        yield between(what, gigabytes, measured / 2, measured * 2, 0.0)
