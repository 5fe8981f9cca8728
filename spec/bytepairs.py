"""Byte-pair encoding as its paper defines it: merges are learned by count and applied in the order of learning.

Everything is counted anew and every merge is tried on every word: slow, and nothing to be got wrong. A word is a
sequence of symbols, of characters or of bytes; a merge is a pair of them, which it joins wherever they are neighbours.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

Symbol = TypeVar("Symbol", str, bytes)

# The vocabulary of the program in the paper, each word with its end and how often it occurs.
TOY_CORPUS: Mapping[tuple[str, ...], int] = {
    ("l", "o", "w", "</w>"): 5,
    ("l", "o", "w", "e", "r", "</w>"): 2,
    ("n", "e", "w", "e", "s", "t", "</w>"): 6,
    ("w", "i", "d", "e", "s", "t", "</w>"): 3,
}
# What that program prints; of pairs equally frequent it takes the one that it met first.
TOY_MERGES: tuple[tuple[str, str], ...] = (
    ("e", "s"), ("es", "t"), ("est", "</w>"), ("l", "o"), ("lo", "w"),
    ("n", "e"), ("ne", "w"), ("new", "est</w>"), ("low", "</w>"), ("w", "i"),
)  # fmt: skip


def marked(word: Sequence[str], continuation: str) -> list[str]:
    """The symbols of a word, each but the first behind the mark of a continuation."""
    return [symbol if place == 0 else continuation + symbol for place, symbol in enumerate(word)]


def joined(left: Symbol, right: Symbol, continuation: Symbol | None = None) -> Symbol:
    """The symbol that a merge makes; the mark of a continuation stands at its beginning alone."""
    return left + (right.removeprefix(continuation) if continuation else right)


def merge(word: Sequence[Symbol], pair: tuple[Symbol, Symbol], continuation: Symbol | None = None) -> list[Symbol]:
    """The word with every occurrence of the pair joined, from left to right: of three alike the first two."""
    merged: list[Symbol] = []
    rest = list(word)
    while rest:
        if tuple(rest[:2]) == pair:
            merged.append(joined(*pair, continuation))
            del rest[:2]
        else:
            merged.append(rest.pop(0))
    return merged


def encode(
    word: Sequence[Symbol], merges: Sequence[tuple[Symbol, Symbol]], continuation: Symbol | None = None
) -> list[Symbol]:
    """The word after each merge in turn, the first learned first."""
    for pair in merges:
        word = merge(word, pair, continuation)
    return list(word)


def pair_counts(words: Sequence[tuple[Sequence[str], int]]) -> dict[tuple[str, str], int]:
    """How often neighbours occur, words as often as they do; pairs stand in the order in which they are met."""
    counts: dict[tuple[str, str], int] = {}
    for word, times in words:
        for left, right in pairwise(word):
            counts[left, right] = counts.get((left, right), 0) + times
    return counts


def train(corpus: Mapping[tuple[str, ...], int], merges: int, continuation: str = "") -> list[tuple[str, str]]:
    """The merges that are learned one by one: the most frequent pair, of several the one met first.

    There are fewer where no pair is left. Pairs are met in the order of the words, and in each from left to right.
    """
    words = [(marked(word, continuation), times) for word, times in corpus.items()]
    learned: list[tuple[str, str]] = []
    for _ in range(merges):
        counts = pair_counts(words)
        if not counts:
            break
        best = max(counts, key=lambda pair: counts[pair])  # max keeps the first of equals
        learned.append(best)
        words = [(merge(word, best, continuation or None), times) for word, times in words]
    return learned


def proper(merges: Sequence[tuple[str, str]], alphabet: set[str]) -> bool:
    """Whether every merge joins what is there by then and makes a symbol that was not.

    Then "in the order of learning", "the lowest rank among the pairs that are there" and "one occurrence at a time" are
    one and the same; for other lists they need not be.
    """
    known = set(alphabet)
    for left, right in merges:
        if left not in known or right not in known or left + right in known:
            return False
        known.add(left + right)
    return True
