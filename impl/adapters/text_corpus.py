"""A text to train tokenisers on that every Python has: its own help topics. And how a trained one is offered."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pydoc_data.topics import topics
from typing import Any

from gnomon.impl.declaration import Declaration

# Of texts alone; that arrays would be float64 says nothing here.
TEXTS_ONLY = Declaration(dtypes=("float64",), families=())


@cache
def lines(characters: int = 10**9) -> tuple[str, ...]:
    """The lines of the help topics in the order of their names, as many as have so many characters together."""
    found: list[str] = []
    for name in sorted(topics):
        for line in topics[name].splitlines():
            if not line.strip():
                continue
            characters -= len(line)
            if characters < 0:
                return tuple(found)
            found.append(line)
    return tuple(found)


@dataclass(eq=False)
class Part:
    """A tokeniser that is made when it is first asked for."""

    make: Callable[[], Any]
    declaration: Declaration = field(default_factory=lambda: TEXTS_ONLY)
    made: Any = None

    def tokeniser(self) -> Any:
        """The tokeniser."""
        if self.made is None:
            self.made = self.make()
        return self.made
