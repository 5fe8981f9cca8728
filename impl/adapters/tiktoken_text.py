"""tiktoken with ranks of its own, trained by the byte-pair encoding of the NumPy reference."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import regex
import tiktoken

from gnomon.impl.adapters.text_corpus import TEXTS_ONLY, lines
from gnomon.impl.tokenising import NumpyTokenising

WORDS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
MERGES, END = 250, "<|end|>"
NEVER = (0xC0, 0xC1, *range(0xF5, 0x100))  # bytes that no UTF-8 has

Pair = tuple[bytes, bytes]


class Text:
    """An encoding by our names; merges, where they are known, beside it."""

    lossless = True

    def __init__(self, own: tiktoken.Encoding, merges: Sequence[Pair] | None = None):
        self.own, self.merges = own, merges
        self.vocabulary = own.n_vocab
        self.special = {name: own.encode_single_token(name) for name in own.special_tokens_set}
        used = {*(own.encode_single_token(token) for token in own.token_byte_values()), *self.special.values()}
        self.unreachable = set(range(self.vocabulary)) - used | {own.encode_single_token(bytes([b])) for b in NEVER}
        self.split = self._split if merges is not None else None

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """The ids of a text."""
        ids: list[int] = self.own.encode(text, allowed_special="all" if special else set(), disallowed_special=())
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids."""
        text: str = self.own.decode(ids)
        return text

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """The bytes of ids."""
        found: bytes = self.own.decode_bytes(ids)
        return found

    def _split(self, text: str) -> list[str]:
        words: list[str] = regex.findall(WORDS, text)
        return words


def _trained() -> Text:
    counts = Counter(word for line in lines(60_000) for word in regex.findall(WORDS, line + "\n"))
    corpus: dict[Any, int] = {tuple(bytes([b]) for b in word.encode()): times for word, times in counts.items()}
    merges: list[Any] = NumpyTokenising().train_byte_pairs(corpus, MERGES)
    symbols = [*(bytes([b]) for b in range(256)), *(left + right for left, right in merges)]
    ranks = {symbol: rank for rank, symbol in enumerate(symbols)}
    own = tiktoken.Encoding("own", pat_str=WORDS, mergeable_ranks=ranks, special_tokens={END: len(symbols)})
    return Text(own, merges)


_made: list[Text] = []


def tokeniser() -> Text:
    """The tokeniser, trained when it is first asked for."""
    if not _made:
        _made.append(_trained())
    return _made[0]


declaration = TEXTS_ONLY
