"""Faults of III.1 on the side of text: tokenisers that lose something, invent something or cut otherwise."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import NumpyReference
from gnomon.impl.tokenising import LEARNED, Merge, Symbol, Tokeniser, joined
from gnomon.spec.embedding import (
    ANOTHER_SPLIT,
    BEGIN_TWICE,
    BYTE_TOKENS_SPELT,
    CACHED_LIST_SHARED,
    EATEN_LEADING_SPACE,
    IDS_IN_16_BITS,
    IDS_PAST_THE_VOCABULARY,
    INVALID_BYTES_REPLACED,
    LEFT_TO_RIGHT,
    LINE_ENDS_UNIFIED,
    LONGEST_MATCH,
    MARK_ON_THE_FIRST,
    MERGED_FROM_THE_RIGHT,
    PROMPT_REPEATED,
    SILENT_NORMALISATION,
    SPACES_MOVED,
    SPECIAL_FROM_TEXT,
    SPECIAL_SPELT_OUT,
    SPLIT_CHARACTERS_REPLACED,
    STATE_BETWEEN_CALLS,
    SURROGATES_REPLACED,
    TIES_BY_THE_LAST,
    TOKEN_BY_TOKEN,
    VOCABULARY_ROUNDED_UP,
    WORDS_COUNTED_ONCE,
)

Tokens = Mapping[Symbol, int]
Ranks = Mapping[Merge, int]


@commits(IDS_PAST_THE_VOCABULARY)
class IdsPastTheVocabulary(NumpyReference):
    """The special tokens are not counted."""

    def tokeniser(self) -> Tokeniser:
        own = super().tokeniser()
        own.vocabulary = min(own.special.values())
        return own


@commits(STATE_BETWEEN_CALLS)
class StateBetweenCalls(NumpyReference):
    """The last id of a text that ends in a letter is put before the next text."""

    left: tuple[int, ...] = ()

    def stored(self, ids: list[int]) -> list[int]:
        given, self.left = [*self.left, *ids], tuple(i for i in ids[-1:] if ord("A") <= i < 256 + LEARNED)
        return given


@commits(CACHED_LIST_SHARED)
class CachedListShared(NumpyReference):
    """Lists of ids are kept, and handed out as they are."""

    def __init__(self) -> None:
        self.handed_out: dict[str, list[int]] = {}

    def ids(self, text: str, tokens: Tokens, ranks: Ranks) -> list[int]:
        return self.handed_out.setdefault(text, super().ids(text, tokens, ranks))


@commits(EATEN_LEADING_SPACE)
class EatenLeadingSpace(NumpyReference):
    """Decoding strips a space that nobody had put there."""

    def text_of(self, tokens: Sequence[bytes]) -> str:
        return super().text_of(tokens).removeprefix(" ")


@commits(SPACES_MOVED)
class SpacesMoved(NumpyReference):
    """What stands between single spaces is encoded, empty pieces left out."""

    def checked(self, text: str) -> str:
        return " ".join(piece for piece in super().checked(text).split(" ") if piece)


@commits(SILENT_NORMALISATION)
class SilentNormalisation(NumpyReference):
    """Characters are composed before they are encoded."""

    def checked(self, text: str) -> str:
        return unicodedata.normalize("NFC", super().checked(text))


@commits(LINE_ENDS_UNIFIED)
class LineEndsUnified(NumpyReference):
    """Every line ends in a line feed alone."""

    def checked(self, text: str) -> str:
        return super().checked(text).replace("\r\n", "\n")


@commits(SPLIT_CHARACTERS_REPLACED)
class SplitCharactersReplaced(NumpyReference):
    """Every token is decoded alone."""

    def text_of(self, tokens: Sequence[bytes]) -> str:
        return "".join(token.decode("utf-8", "replace") for token in tokens)


@commits(BYTE_TOKENS_SPELT)
class ByteTokensSpelt(NumpyReference):
    """Bytes outside ASCII are decoded to their names."""

    def text_of(self, tokens: Sequence[bytes]) -> str:
        names = (f"<0x{t[0]:02X}>".encode() if len(t) == 1 and t[0] > 127 else t for t in tokens)
        return super().text_of(list(names))


@commits(SURROGATES_REPLACED)
class SurrogatesReplaced(NumpyReference):
    """Half surrogates become question marks."""

    def checked(self, text: str) -> str:
        return text.encode("utf-8", "replace").decode()


@commits(INVALID_BYTES_REPLACED)
class InvalidBytesReplaced(NumpyReference):
    """Bytes are made a text with replacement characters."""

    def bytes_as_text(self, data: bytes) -> str:
        return data.decode("utf-8", "replace")


@commits(LONGEST_MATCH)
class LongestMatch(NumpyReference):
    """The longest symbol that fits is taken, whatever made it."""

    def merged(self, word: list[Symbol], ranks: Ranks, continuation: str = "") -> list[Symbol]:
        made = {joined(*pair, continuation) for pair in ranks}
        out: list[Symbol] = []
        while word:
            runs = (self.run(word[:n], continuation) for n in range(len(word), 0, -1))
            n, longest = next(
                (n, run) for n, run in zip(range(len(word), 0, -1), runs, strict=True) if run in made or n == 1
            )
            out, word = [*out, longest], word[n:]
        return out

    def run(self, symbols: Sequence[Symbol], continuation: str) -> Symbol:
        """The symbols as one."""
        first, *rest = symbols
        for symbol in rest:
            first = joined(first, symbol, continuation)
        return first


@commits(LEFT_TO_RIGHT)
class LeftToRight(NumpyReference):
    """The first pair that can be joined is."""

    def next_pair(self, known: Sequence[Merge], ranks: Ranks) -> Merge:
        return known[0]


@commits(TIES_BY_THE_LAST)
class TiesByTheLast(NumpyReference):
    """The last of the most frequent pairs is merged."""

    def most_frequent(self, counts: Mapping[Merge, int]) -> Merge:
        return max(reversed(list(counts)), key=lambda pair: counts[pair])


@commits(WORDS_COUNTED_ONCE)
class WordsCountedOnce(NumpyReference):
    """How often a word occurs does not matter."""

    def weight(self, times: int) -> int:
        return 1


@commits(MERGED_FROM_THE_RIGHT)
class MergedFromTheRight(NumpyReference):
    """Occurrences are joined from the end."""

    def joined_everywhere(self, word: Sequence[Symbol], pair: Merge, continuation: str = "") -> list[Symbol]:
        out, end = list[Symbol](), len(word)
        while end:
            here = tuple(word[max(end - 2, 0) : end]) == pair
            out.insert(0, joined(*pair, continuation) if here else word[end - 1])
            end -= 2 if here else 1
        return out


@commits(MARK_ON_THE_FIRST)
class MarkOnTheFirst(NumpyReference):
    """The mark of a continuation stands where a word begins."""

    def marked(self, word: tuple[Symbol, ...], continuation: str) -> list[Symbol]:
        if not continuation:
            return super().marked(word, continuation)
        return [symbol if place else continuation + str(symbol) for place, symbol in enumerate(word)]


@commits(ANOTHER_SPLIT)
class AnotherSplit(NumpyReference):
    """A space is a word of its own, and so is a digit."""

    def words_of(self, text: str) -> list[str]:
        return re.findall(r"[^\W\d_]+|(?:[^\s\w]|_)+|\s|\d", text)


@commits(TOKEN_BY_TOKEN)
class TokenByToken(NumpyReference):
    """A stream decodes every token alone."""

    def stream(self, prompt: Sequence[bytes], tokens: Sequence[bytes]) -> Iterator[str]:
        return (token.decode("utf-8", "replace") for token in tokens)


@commits(PROMPT_REPEATED)
class PromptRepeated(NumpyReference):
    """A stream takes the text of the prompt off the whole, which need not begin with it."""

    def stream(self, prompt: Sequence[bytes], tokens: Sequence[bytes]) -> Iterator[str]:
        before = self.text_of(prompt)
        yield self.text_of([*prompt, *tokens]).removeprefix(before)


@commits(SPECIAL_FROM_TEXT)
class SpecialFromText(NumpyReference):
    """Special tokens are taken from any text."""

    def ids(self, text: str, tokens: Tokens, ranks: Ranks) -> list[int]:
        special = Tokeniser.special
        parts = re.split("(" + "|".join(map(re.escape, special)) + ")", text)
        ids = ([special[p]] if p in special else super(SpecialFromText, self).ids(p, tokens, ranks) for p in parts)
        return [i for part in ids for i in part]


@commits(SPECIAL_SPELT_OUT)
class SpecialSpeltOut(NumpyReference):
    """Special tokens are never taken from a text."""

    def with_special(self, tokeniser: Tokeniser, text: str) -> list[int]:
        return self.opened(tokeniser.encode(text), tokeniser.begin)


@commits(BEGIN_TWICE)
class BeginTwice(NumpyReference):
    """The token of the beginning is put before whatever comes."""

    def opened(self, ids: list[int], begin: int) -> list[int]:
        return [begin, *ids]


@commits(VOCABULARY_ROUNDED_UP)
class VocabularyRoundedUp(NumpyReference):
    """The ids between the merges and the special tokens are not declared to be out of use."""

    def tokeniser(self) -> Tokeniser:
        own = super().tokeniser()
        own.unreachable = range(0)
        return own


@commits(IDS_IN_16_BITS)
class IdsIn16Bits(NumpyReference):
    """Ids are kept modulo 2¹⁶."""

    def stored(self, ids: list[int]) -> list[int]:
        return [i % 2**16 for i in ids]
