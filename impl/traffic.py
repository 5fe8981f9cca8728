"""Attention on a machine with a fast and a slow memory, which counts every number that passes between them.

The arithmetic is carried out, forward and backward, so that what is counted is known to compute attention.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = tuple[Array, ...]

STREAMED = 8  # rows that pass through fast memory at a time, past a tile that stays


class Machine:
    """A fast memory of so many numbers before a slow one without end; `moved` counts what passes between them."""

    def __init__(self, fast: int):
        self.fast, self.held, self.moved = fast, 0, 0

    def forward(self, query: Array, key: Array, value: Array) -> Arrays:
        """The output, and what the gradients need beside it."""
        raise NotImplementedError

    def backward(self, query: Array, key: Array, value: Array, slope: Array, out: Array, kept: Array) -> Arrays:
        """The gradients of query, key and value, given that of the output."""
        raise NotImplementedError

    def room(self, *arrays: Array) -> Arrays:
        """The arrays, held in fast memory until they are dropped."""
        self.held += sum(a.size for a in arrays)
        if self.held > self.fast:
            raise MemoryError(f"{self.held} numbers are held in a fast memory of {self.fast}")
        return arrays

    def drop(self, *arrays: Array) -> None:
        """Fast memory without the arrays."""
        self.held -= sum(a.size for a in arrays)

    def load(self, *slow: Array) -> Arrays:
        """Copies of the arrays in fast memory."""
        self.moved += sum(a.size for a in slow)
        return self.room(*(a.copy() for a in slow))

    def store(self, slow: Array, fast: Array) -> None:
        """What is in fast memory, written to slow memory."""
        self.moved += fast.size
        slow[...] = fast

    def tiles(self, length: int, each: int, beside: int = 0) -> Iterator[slice]:
        """The rows in the largest tiles that fit, `each` numbers a row, beside so many others."""
        rows = (self.fast - beside) // each
        if rows < 1:
            raise NotImplementedError(f"a fast memory of {self.fast} numbers holds no row of this size")
        return pieces(length, rows)


def pieces(length: int, size: int = STREAMED) -> Iterator[slice]:
    """The slices of that size, and what is left."""
    return (slice(start, min(start + size, length)) for start in range(0, length, size))


class Standard(Machine):
    """Scores and weights are written to slow memory and read back."""

    def forward(self, query: Array, key: Array, value: Array) -> Arrays:
        """The output and the weights: scores, softmax and average one after the other."""
        out, (scores, weights) = np.zeros_like(value), np.zeros((2, len(query), len(key)))
        self.outer(query, key, scores)
        for rows in self.tiles(len(query), len(key)):
            (tile,) = self.read_back(scores[rows])
            tile *= query.shape[1] ** -0.5
            tile -= tile.max(-1, keepdims=True)
            np.exp(tile, out=tile)
            tile /= tile.sum(-1, keepdims=True)
            self.store(weights[rows], tile)
            self.drop(tile)
        self.inner(weights, value, out)
        return out, weights

    def backward(self, query: Array, key: Array, value: Array, slope: Array, out: Array, kept: Array) -> Arrays:
        """The gradients from the weights that were kept, by way of those of the scores."""
        slopes, steps = np.zeros((3, *value.shape)), np.zeros_like(kept)
        self.inner(kept.T, slope, slopes[2])
        self.outer(slope, value, steps)
        for rows in self.tiles(len(query), 2 * len(key)):
            weights, step = self.read_back(kept[rows], steps[rows])
            step -= (weights * step).sum(-1, keepdims=True)
            step *= weights * query.shape[1] ** -0.5
            self.store(steps[rows], step)
            self.drop(weights, step)
        self.inner(steps, key, slopes[0])
        self.inner(steps.T, query, slopes[1])
        return tuple(slopes)

    def outer(self, a: Array, b: Array, out: Array) -> None:
        """The products of all rows of `a` with all rows of `b`: a tile of `a` stays, `b` passes by."""
        width = a.shape[1]
        for rows in self.tiles(len(a), width + STREAMED, STREAMED * width):
            (left,) = self.load(a[rows])
            for columns in pieces(len(b)):
                (right,) = self.load(b[columns])
                (product,) = self.room(left @ right.T)
                self.store(out[rows, columns], product)
                self.drop(right, product)
            self.drop(left)

    def inner(self, matrix: Array, b: Array, out: Array) -> None:
        """The matrix times `b`: a tile of the result stays, the matrix and `b` pass by."""
        width = b.shape[1]
        for rows in self.tiles(len(matrix), width + STREAMED, STREAMED * width):
            (total,) = self.room(np.zeros_like(out[rows]))
            for columns in pieces(len(b)):
                (left,), (right,) = self.read_back(matrix[rows, columns]), self.load(b[columns])
                total += left @ right
                self.drop(left, right)
            self.store(out[rows], total)
            self.drop(total)

    def read_back(self, *matrices: Array) -> Arrays:
        """What was written before, in fast memory again."""
        return self.load(*matrices)


class Tiles(Machine):
    """Scores stay in fast memory, tile by tile."""

    def forward(self, query: Array, key: Array, value: Array) -> Arrays:
        """The output and the logarithm of every row's mass: a tile of queries stays, keys and values pass by."""
        (length, width), out, masses = query.shape, np.zeros_like(value), np.zeros((len(query), 1))
        for rows in self.tiles(length, 2 * width + STREAMED + 4, 2 * STREAMED * width):
            (tile,) = self.load(query[rows])
            mean, top, total = self.room(np.zeros_like(out[rows]), masses[rows] - np.inf, masses[rows].copy())
            for columns in pieces(len(key)):
                self.meet(tile, self.passing(rows, key[columns], value[columns]), mean, top, total)
            self.store(out[rows], mean / total)
            self.store(masses[rows], top + np.log(total))
            self.drop(tile, mean, top, total)
        return out, masses

    def passing(self, rows: slice, key: Array, value: Array) -> Arrays:
        """Keys and values, read anew for each tile of queries."""
        return self.load(key, value)

    def meet(self, query: Array, pair: Arrays, mean: Array, top: Array, total: Array) -> None:
        """The online softmax: sum and average so far are rescaled to the new maximum and added to."""
        key, value = pair
        (mass,) = self.room(query @ key.T * query.shape[1] ** -0.5)
        higher, kept = self.room(np.maximum(top, mass.max(-1, keepdims=True)), np.empty_like(top))
        kept[...], top[...] = np.exp(top - higher), higher
        np.exp(mass - top, out=mass)
        total[...] = total * kept + mass.sum(-1, keepdims=True)
        mean[...] = mean * kept + mass @ value
        self.drop(key, value, mass, higher, kept)

    def backward(self, query: Array, key: Array, value: Array, slope: Array, out: Array, kept: Array) -> Arrays:
        """The gradients with the weights computed again: a tile of keys and values stays, queries pass by."""
        width, slopes, means = key.shape[1], np.empty((3, *key.shape)), self.means(slope, out)
        self.store(slopes[0], np.zeros_like(query))
        for columns in self.tiles(len(key), 4 * width + 2 * STREAMED, STREAMED * (3 * width + 2)):
            pair = self.load(key[columns], value[columns])
            sums = self.room(np.zeros_like(pair[0]), np.zeros_like(pair[1]))
            for rows in pieces(len(query)):
                passing = self.load(query[rows], slope[rows], kept[rows], means[rows], slopes[0][rows])
                self.descend(pair, sums, passing)
                self.store(slopes[0][rows], passing[-1])
                self.drop(*passing)
            for whole, own in zip(slopes[1:], sums, strict=True):
                self.store(whole[columns], own)
            self.drop(*pair, *sums)
        return tuple(slopes)

    def means(self, slope: Array, out: Array) -> Array:
        """The mean gradient of every row's weights: the row's output times the gradient of that."""
        means = np.empty((len(out), 1))
        for rows in self.tiles(len(out), 2 * out.shape[1]):
            pair = self.load(slope[rows], out[rows])
            self.store(means[rows], (pair[0] * pair[1]).sum(-1, keepdims=True))
            self.drop(*pair)
        return means

    def descend(self, pair: Arrays, sums: Arrays, passing: Arrays) -> None:
        """The gradients of a tile of keys and values, and of the queries that pass by, each added to."""
        (key, value), (query, slope, logarithm, mean, query_slope) = pair, passing
        scale = query.shape[1] ** -0.5
        (weights,) = self.room(np.exp(query @ key.T * scale - logarithm))
        (step,) = self.room(weights * (slope @ value.T - mean) * scale)
        sums[0][...] += step.T @ query
        sums[1][...] += weights.T @ slope
        query_slope += step @ key
        self.drop(weights, step)


class Traffic:
    """The count of an implementation that runs attention both ways."""

    standard: type[Machine] = Standard
    tiles: type[Machine] = Tiles

    def traffic(self, length: int, head_width: int, *, fast: int, tiled: bool = False, backward: bool = False) -> int:
        """The numbers that one head moves between slow memory and a fast one of `fast` numbers."""
        machine = (self.tiles if tiled else self.standard)(fast)
        arrays = np.zeros((4, length, head_width))
        kept = machine.forward(*arrays[:3])
        if backward:
            machine.backward(*arrays, *kept)
        return machine.moved
