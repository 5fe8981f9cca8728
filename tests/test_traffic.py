"""The counting machine computes attention and its gradients, holds no more than it has, and counts what it moves."""

from math import ceil

import numpy as np
import pytest

from gnomon.impl.reference import numpy_reference
from gnomon.impl.traffic import STREAMED, Machine, Standard, Tiles
from gnomon.spec.memory import least_traffic

NEAR = 1e-13  # a few hundred roundings of numbers of order one
SIZES = [(37, 4, 256), (64, 8, 512), (96, 2, 192), (50, 16, 4096)]
MACHINES = pytest.mark.parametrize("machine", [Standard, Tiles])


def arrays(length, width, seed=0):
    return np.random.default_rng(seed).standard_normal((4, length, width))


def attention(query, key, value):
    scores = query @ key.T / np.sqrt(query.shape[1])
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    return weights @ value


def numerical_slope(inputs, which, slope, step=2.0**-17):
    """The gradient of the sum of slope·attention by central differences, of one entry after the other."""
    found = np.zeros_like(inputs[which])
    for place in np.ndindex(found.shape):
        moved = [[a.copy() for a in inputs] for _ in range(2)]
        moved[0][which][place] += step
        moved[1][which][place] -= step
        up, down = ((attention(*m) * slope).sum() for m in moved)
        found[place] = (up - down) / (2 * step)
    return found


class Watched:
    """A machine that notes the most it held."""

    def __init__(self, fast):
        super().__init__(fast)
        self.most = 0

    def room(self, *given):
        held = super().room(*given)
        self.most = max(self.most, self.held)
        return held


@MACHINES
@pytest.mark.parametrize(("length", "width", "fast"), SIZES)
def test_the_run_computes_attention(machine, length, width, fast):
    query, key, value, _ = arrays(length, width)
    out, _ = machine(fast).forward(query, key, value)
    assert np.abs(out - attention(query, key, value)).max() < NEAR


@MACHINES
def test_the_run_computes_the_gradients(machine):
    *inputs, slope = arrays(9, 3)
    ran = machine(128)
    slopes = ran.backward(*inputs, slope, *ran.forward(*inputs))
    for which, found in enumerate(slopes):
        assert np.abs(found - numerical_slope(inputs, which, slope)).max() < 1e-8


@MACHINES
@pytest.mark.parametrize(("length", "width", "fast"), SIZES)
def test_fast_memory_is_used_within_its_size_and_left_empty(machine, length, width, fast):
    ran = type("Watching", (Watched, machine), {})(fast)
    given = arrays(length, width)
    ran.backward(*given, *ran.forward(*given[:3]))
    assert ran.held == 0
    assert ran.most <= fast


def test_a_full_memory_is_noticed():
    machine = Machine(8)
    machine.load(np.zeros(6))
    with pytest.raises(MemoryError, match=r"^9 numbers are held in a fast memory of 8$"):
        machine.room(np.zeros(3))


@pytest.mark.parametrize("tiled", [False, True])
def test_a_memory_that_holds_no_row_is_declined(tiled):
    with pytest.raises(NotImplementedError, match=r"^a fast memory of 40 numbers holds no row of this size$"):
        numpy_reference.traffic(64, 8, fast=40, tiled=tiled)


@pytest.mark.parametrize(("length", "width", "fast"), [(128, 4, 256), (256, 8, 512), (1024, 64, 98304)])
def test_the_counts_are_those_of_the_closed_forms(length, width, fast):
    stays = ceil(length / ((fast - STREAMED * width) // (width + STREAMED)))
    written = 4 * length**2 + 2 * length * width + 2 * stays * length * width
    assert numpy_reference.traffic(length, width, fast=fast) == written
    stays = ceil(length / ((fast - 2 * STREAMED * width) // (2 * width + STREAMED + 4)))
    tiled = 2 * length * width + length + 2 * stays * length * width
    assert numpy_reference.traffic(length, width, fast=fast, tiled=True) == tiled


def test_the_count_does_not_depend_on_the_numbers():
    for machine in (Standard, Tiles):
        moved = set()
        for seed in range(2):
            ran = machine(256)
            ran.forward(*arrays(48, 4, seed)[:3])
            moved.add(ran.moved)
        assert len(moved) == 1


def fewest_stretches(length, width, fast):
    """The fewest stretches of `fast` transfers in which all scores can be formed, by trying every split of 2·fast."""
    rows = 2 * fast // width
    most = max(a * (rows - a) for a in range(rows + 1))
    return ceil(length**2 / most)


@pytest.mark.parametrize(("length", "width", "fast"), [(64, 4, 64), (256, 8, 512), (512, 16, 512), (96, 3, 100)])
def test_the_least_traffic_is_below_what_every_split_needs(length, width, fast):
    least = least_traffic(length, width, fast, tiled=True)
    assert least <= max(4 * length * width, (fewest_stretches(length, width, fast) - 1) * fast)
    assert least_traffic(length, width, fast, tiled=False) == 4 * length * (length + width)
