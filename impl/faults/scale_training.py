"""Faults of V.2 that show when something is learned."""

from typing import Any

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import Array, NumpyReference
from gnomon.spec.scale import SCALE_KEYWORD_IGNORED


@commits(SCALE_KEYWORD_IGNORED)
class ScaleKeywordIgnored(NumpyReference):
    """The keyword is taken and not passed on."""

    def attention(self, query: Array, key: Array, value: Array, *, scale: float | None = None, **rest: Any) -> Array:
        return super().attention(query, key, value, **rest)
