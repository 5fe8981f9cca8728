"""A tokeniser in NumPy's company: byte-level byte-pair encoding, in small steps that a fault can replace."""

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

Symbol = str | bytes
Merge = tuple[Symbol, Symbol]
Word = tuple[Symbol, ...]

BEGIN, END = "<|begin|>", "<|end|>"
# Beyond what 16 bits hold, so that ids which are kept in 16 bits are others.
SPECIAL = {BEGIN: 2**16, END: 2**16 + 1}
# A word with the space before it, up to three digits, signs, and blanks of which the last goes with what follows.
WORDS = re.compile(r" ?[^\W\d_]+| ?\d{1,3}| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s")
LEARNED = 160  # merges

TEXT = """\
A model reads numbers, not text. Before the first layer a tokeniser cuts the text into pieces and gives each its number
in a list that was made once, from other text, and is never changed afterwards. What was frequent there is one piece
here, and what was rare is many: a common word is a single number, a name may be five, and a number such as 1234567
falls apart into pieces that have little to do with its digits.

    def attend(query, key, value):
        for row in range(len(query)):
            scores = [dot(query[row], other) for other in key]
            yield weighted(value, softmax(scores))

The same word is another piece after a space, with a capital letter, or before a full stop. Ten, 10 and 10.0 share
nothing. Größe, façade, naïve; 東京の天気, привет, שלום, नमस्ते.
"""


class NumpyTokenising:
    """Byte-pair encoding: its training, its encoding, and a tokeniser of bytes that was trained by it."""

    def tokeniser(self) -> "Tokeniser":
        """A tokeniser over all bytes, some merges and two special tokens."""
        return Tokeniser(self, learned())

    def train_byte_pairs(self, corpus: Mapping[Word, int], merges: int, *, continuation: str = "") -> list[Merge]:
        """The merges learned from words and how often each occurs."""
        words = [(self.marked(word, continuation), self.weight(times)) for word, times in corpus.items()]
        found: list[Merge] = []
        while len(found) < merges and (counts := self.pair_counts(words)):
            pair = self.most_frequent(counts)
            found.append(pair)
            words = [(self.joined_everywhere(word, pair, continuation), times) for word, times in words]
        return found

    def encode_byte_pairs(self, word: Word, merges: Sequence[Merge], *, continuation: str = "") -> list[Symbol]:
        """The symbols of a word under these merges."""
        ranks = {pair: rank for rank, pair in enumerate(merges)}
        return self.merged(self.marked(word, continuation), ranks, continuation)

    def marked(self, word: Word, continuation: str) -> list[Symbol]:
        """The symbols of a word before any merge, each but the first behind the mark of a continuation."""
        if not continuation:
            return list(word)
        return [symbol if place == 0 else continuation + str(symbol) for place, symbol in enumerate(word)]

    def weight(self, times: int) -> int:
        """What a word adds to the count of each of its pairs."""
        return times

    def pair_counts(self, words: Sequence[tuple[Sequence[Symbol], int]]) -> dict[Merge, int]:
        """How often each pair of neighbours occurs, in the order in which they are met."""
        counts: dict[Merge, int] = {}
        for word, times in words:
            for pair in pairwise(word):
                counts[pair] = counts.get(pair, 0) + times
        return counts

    def most_frequent(self, counts: Mapping[Merge, int]) -> Merge:
        """The first of the most frequent pairs."""
        return max(counts, key=lambda pair: counts[pair])

    def merged(self, word: list[Symbol], ranks: Mapping[Merge, int], continuation: str = "") -> list[Symbol]:
        """The word when no pair of the list is left in it."""
        while known := [pair for pair in pairwise(word) if pair in ranks]:
            word = self.joined_everywhere(word, self.next_pair(known, ranks), continuation)
        return word

    def next_pair(self, known: Sequence[Merge], ranks: Mapping[Merge, int]) -> Merge:
        """The pair, of those in a word, that is joined next."""
        return min(known, key=lambda pair: ranks[pair])

    def joined_everywhere(self, word: Sequence[Symbol], pair: Merge, continuation: str = "") -> list[Symbol]:
        """The word with the pair joined from left to right."""
        out: list[Symbol] = []
        place = 0
        while place < len(word):
            here = tuple(word[place : place + 2]) == pair
            out.append(joined(*pair, continuation) if here else word[place])
            place += 2 if here else 1
        return out

    def words_of(self, text: str) -> list[str]:
        """The text cut into words, as encoding does it."""
        return WORDS.findall(text)

    def ids(self, text: str, tokens: Mapping[Symbol, int], ranks: Mapping[Merge, int]) -> list[int]:
        """The ids of text, in which bytes that are no UTF-8 stand as half surrogates."""
        words = (word.encode("utf-8", "surrogateescape") for word in self.words_of(text))
        return [tokens[symbol] for word in words for symbol in self.merged([bytes([b]) for b in word], ranks)]

    def checked(self, text: str) -> str:
        """The text, if it is one."""
        for place, character in enumerate(text):
            if "\ud800" <= character <= "\udfff":
                raise ValueError(f"the character {place} is {character!r}, half of a surrogate pair: this is no text")
        return text

    def with_special(self, tokeniser: "Tokeniser", text: str) -> list[int]:
        """The ids of a text in which special tokens are meant where they are spelt, after the one that begins."""
        parts = re.split("(" + "|".join(map(re.escape, tokeniser.special)) + ")", text)
        own = tokeniser.special
        ids = [i for part in parts for i in ([own[part]] if part in own else tokeniser.encode(part))]
        return self.opened(ids, tokeniser.begin)

    def opened(self, ids: list[int], begin: int) -> list[int]:
        """The ids after the one that begins, which is not put there twice."""
        return ids if ids[:1] == [begin] else [begin, *ids]

    def stored(self, ids: list[int]) -> list[int]:
        """The ids as they are kept."""
        return ids

    def text_of(self, tokens: Sequence[bytes]) -> str:
        """The text of tokens in a row."""
        return b"".join(tokens).decode("utf-8", "replace")

    def bytes_as_text(self, data: bytes) -> str:
        """Bytes as a text, with half surrogates for what is no UTF-8."""
        return data.decode("utf-8", "surrogateescape")

    def stream(self, prompt: Sequence[bytes], tokens: Sequence[bytes]) -> Iterator[str]:
        """The text of tokens one by one, after a prompt; what is no character yet waits for the next."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.decode(b"".join(prompt))
        for token in tokens:
            yield decoder.decode(token)
        yield decoder.decode(b"", final=True)


@dataclass(eq=False)
class Tokeniser:
    """Byte-level byte-pair encoding with two special tokens; ids between the merges and those are not in use."""

    steps: NumpyTokenising
    merges: tuple[Merge, ...]

    lossless = True
    special = SPECIAL
    begin = SPECIAL[BEGIN]
    vocabulary = max(SPECIAL.values()) + 1

    def __post_init__(self) -> None:
        made = [joined(*pair) for pair in self.merges]
        symbols = [*(bytes([b]) for b in range(256)), *(s for s in made if isinstance(s, bytes))]
        self.tokens: dict[Symbol, int] = {symbol: i for i, symbol in enumerate(symbols)}
        self.ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self.names = dict(enumerate(symbols)) | {i: name.encode() for name, i in self.special.items()}
        self.unreachable = range(len(symbols), min(self.special.values()))

    def piece(self, i: int) -> bytes:
        """The bytes of an id, none of one that is not in use."""
        if not 0 <= i < self.vocabulary:
            raise ValueError(f"there is no id {i}: ids are from 0 to {self.vocabulary - 1}")
        return self.names.get(i, b"")

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """The ids of a text; with `special`, of one in which special tokens are meant."""
        text = self.steps.checked(text)
        ids = self.steps.with_special(self, text) if special else self.steps.ids(text, self.tokens, self.ranks)
        return self.steps.stored(ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids, with U+FFFD for bytes that make no character."""
        return self.steps.text_of([self.piece(i) for i in ids])

    def encode_bytes(self, data: bytes) -> list[int]:
        """The ids of any bytes."""
        return self.steps.ids(self.steps.bytes_as_text(data), self.tokens, self.ranks)

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """The bytes of the ids."""
        return b"".join(self.piece(i) for i in ids)

    def split(self, text: str) -> list[str]:
        """The words that no token crosses."""
        return WORDS.findall(text)

    def stream(self, ids: Sequence[int], *, prompt: Sequence[int] = ()) -> Iterator[str]:
        """The text of the ids piece by piece, after those of a prompt."""
        return self.steps.stream(*([self.piece(i) for i in part] for part in (prompt, ids)))


def joined(left: Symbol, right: Symbol, continuation: str = "") -> Symbol:
    """The symbol that a merge makes; the mark of a continuation stands at its beginning alone."""
    if isinstance(left, str) and isinstance(right, str):
        return left + right.removeprefix(continuation)
    return bytes(left) + bytes(right)  # type: ignore[arg-type]


@cache
def learned() -> tuple[Merge, ...]:
    """The merges of the tokeniser, learned from the text above."""
    corpus: dict[Word, int] = {}
    for word in WORDS.findall(TEXT):
        symbols = tuple(bytes([b]) for b in word.encode())
        corpus[symbols] = corpus.get(symbols, 0) + 1
    return tuple(NumpyTokenising().train_byte_pairs(corpus, LEARNED))
