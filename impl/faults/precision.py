"""Attention that knows in which format its arguments are stored."""

from typing import Any

import numpy as np

from gnomon.impl.reference import Array, NumpyReference
from gnomon.spec.precision import FORMATS


class Storing(NumpyReference):
    """The storage format is at hand where scores and weights are made."""

    storage: np.dtype[Any] = np.dtype(np.float64)

    def attention(self, query: Array, key: Array, value: Array, **options: Any) -> Array:
        """Attention of the reference, its storage format noted."""
        self.storage = query.dtype
        return super().attention(query, key, value, **options)

    @property
    def smallest(self) -> Any:
        """The storage format's smallest number, in the arithmetic."""
        arithmetic = np.float64 if self.storage == np.float64 else np.float32
        return arithmetic(-FORMATS[self.storage.name].largest)
