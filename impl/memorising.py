"""The random-labels test in NumPy: whether a training procedure can memorise, and that this teaches it nothing."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Predict = Callable[[Array], Array]  # inputs [items, width] to labels [items]
Train = Callable[[Array, Array, int], Predict]  # inputs, labels and a seed


class NumpyMemorising:
    """Labels drawn at random, some of the items held out, the rest learned."""

    def random_labels(
        self, train: Train, inputs: Array, *, classes: int, held_out: int, seed: int
    ) -> Mapping[str, int]:
        """How many of its training items, and how many of the last `held_out`, the trained model has right."""
        labels = np.random.default_rng(seed).integers(0, classes, len(inputs))
        learned, rest = self.held_out_rows(np.arange(len(inputs)), held_out)
        predict = train(inputs[learned], labels[learned], seed)
        scored = self.rows_scored(learned, rest)
        return {
            "training": self.labels_right(predict, inputs[learned], labels[learned]),
            "held_out": self.labels_right(predict, inputs[scored], labels[scored]),
        }

    def held_out_rows(self, rows: Array, held_out: int) -> tuple[Array, Array]:
        """The rows to learn from, and those that are held out."""
        return rows[:-held_out], rows[-held_out:]

    def rows_scored(self, learned: Array, held_out: Array) -> Array:
        """The rows on which a model is asked what it has learned."""
        return held_out

    def labels_right(self, predict: Predict, inputs: Array, labels: Array) -> int:
        """How many predictions are the labels."""
        return int((np.asarray(predict(inputs)) == labels).sum())
