"""The formats by their bits are those of NumPy and ml_dtypes, and the tails of the binomial are bounds."""

from fractions import Fraction
from math import comb

import ml_dtypes
import numpy as np
import pytest

from gnomon.impl.loading import load
from gnomon.spec.formats import E4M3FN, HALF, LAYOUTS, midpoints, nearest, spacing
from gnomon.spec.statistics import binomial_counts

NAMES = pytest.mark.parametrize("name", LAYOUTS)


def stored(name):
    return np.dtype(np.float16 if name == "float16" else getattr(ml_dtypes, name))


@NAMES
def test_every_code_spells_the_number_that_ml_dtypes_reads(name):
    dtype, layout = stored(name), LAYOUTS[name]
    codes = np.arange(layout.values.size).astype(np.uint16 if dtype.itemsize == 2 else np.uint8).view(dtype)
    with np.errstate(invalid="ignore"):
        read = codes.astype(np.float64)
    assert np.array_equal(read, layout.values, equal_nan=True)
    assert np.array_equal(np.signbit(read[~np.isnan(read)]), np.signbit(layout.values[~np.isnan(read)]))


@NAMES
def test_smallest_and_largest_are_those_of_finfo(name):
    layout, info = LAYOUTS[name], ml_dtypes.finfo(stored(name))
    assert layout.smallest == float(info.smallest_subnormal)
    assert layout.smallest_normal == float(info.smallest_normal)
    assert layout.largest == float(info.max)
    assert spacing(np.array([1.0, layout.smallest]), layout).tolist() == [float(info.eps), layout.smallest]


@NAMES
def test_the_nearest_number_is_what_ml_dtypes_casts_to(name):
    layout, near = LAYOUTS[name], midpoints(LAYOUTS[name]).astype(np.float32)
    with np.errstate(over="ignore"):
        beside = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(0))]
        x = np.concatenate([*beside, -near, np.float32([0.0, np.inf, -np.inf, np.nan])])
        cast = x.astype(stored(name)).astype(np.float64)
    assert np.array_equal(cast, nearest(x.astype(np.float64), layout), equal_nan=True)


def test_above_a_midpoint_by_less_than_float32_can_tell_is_above():
    x = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11, 1 - 2.0**-12 + 2.0**-40])
    assert nearest(x, HALF).tolist() == [1 + 2.0**-10, 1.0, 1.0]


@NAMES
def test_the_reference_rounds_float64_once(name):
    layout = LAYOUTS[name]
    points = midpoints(layout)[:-1]
    for x in (points, points * (1 + 2.0**-50), points * (1 - 2.0**-50), layout.values):
        got = load("numpy").operations["rounded"](x, format=name)
        assert np.array_equal(got, nearest(x, layout), equal_nan=True)


def test_a_format_without_infinity_has_one_nan_of_each_sign():
    assert np.isnan(E4M3FN.values).sum() == 2
    assert not np.isinf(E4M3FN.values).any()


@pytest.mark.parametrize("share", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10), Fraction(1, 100)])
@pytest.mark.parametrize("trials", [1, 7, 60, 300])
@pytest.mark.parametrize("probability", [Fraction(1, 20), Fraction(1, 10**9)])
def test_a_binomial_count_is_outside_no_more_often_than_said(trials, share, probability):
    low, high = binomial_counts(trials, float(share), float(probability))
    weight = [comb(trials, n) * share**n * (1 - share) ** (trials - n) for n in range(trials + 1)]
    assert sum(weight[:low], Fraction(0)) + sum(weight[high + 1 :], Fraction(0)) <= probability
    assert 0 <= low <= trials * share < high + 1 <= trials + 1


def test_enough_entries_tell_a_tenth_from_eleven_hundredths():
    (_, high), (low, _) = (binomial_counts(64**3, share, 1e-9) for share in (0.1, 0.11))
    assert high < low
