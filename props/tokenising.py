"""A tokeniser under test, watched: what it gives is checked for its kind, and what it lacks is declined."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import index
from typing import Any, Self
from urllib.parse import quote, unquote

from hypothesis import strategies as st

from gnomon.impl.loading import Implementation
from gnomon.props.cases import SEEDS, Case, MalformedCase, Strategy
from gnomon.props.judge import Comparison, same
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.props.subject import Call, Subject, guarded

Ids = tuple[int, ...]

LONGEST = 60  # characters of a text that are shown


# Texts.

# What tokenisers have stumbled over, each with what is next to it where that matters.
FRAGMENTS = (
    " ", "  ", "    ", "\t", "\n", "\r\n", "\n\n\t ", "\u00a0", "\u2003", "\u3000", "\u200b", "\ufeff",
    "\x00", "\x1b", "\x7f", "\u2028",
    "a", "A", "the", " the", "Hello,", " world", "don't", "it's", "aaaa", "abababab", "lowest", "naïve", "Straße", "ǅ",
    "ﬁ",
    "0", "7", "10", "127", "1000000", "3.14159", "1e-05", "٣٤", "²", "½", "①", "Ⅷ",
    "e\u0301", "é", "n\u0303\u0323", "\u1e9b\u0323", "\u0301", "q\u0307\u0323", "각", "\u1100\u1161\u11a8",
    "東京", "の", "天気", "漢\U000e0100", "𠮷", "ไทย", "नमस्ते", "שָׁלוֹם", "السلام", "\u202eabc\u202c", "\u200f",
    "👩‍👩‍👧‍👦", "👍🏽", "🇫🇷", "🏳️‍🌈", "☺️", "𝒳", "\U0010ffff", "\uffff", "\ufffd", "\ue000",
    "a\r\nb", ".\r\n\r\n", "x = 1\r\n",
    "def f(x):\n    return x\n", "<p>", "if (a != b) {", "x_1", "C:\\", "http://a.b/c?d=%20", "--", "...", "__",
    "▁", "▁the", "Ġ", "##ing", "<0x0A>", "<unk>", "[UNK]", "@@ ", "</w>",
)  # fmt: skip
PLAIN = "ab 1é東👍"  # characters of one, two, three and four bytes
TEXTS: Strategy = st.one_of(
    st.lists(st.sampled_from(FRAGMENTS), max_size=6).map("".join),
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=3)), max_size=5).map("".join),
    st.text(max_size=12),
    st.text(PLAIN, max_size=10),
    st.lists(st.sampled_from(FRAGMENTS), min_size=7, max_size=14).map("".join),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCase(Case):
    """A text, what stands before it where that matters, and a number to choose by; printed percent-encoded."""

    text: str = ""
    before: str = ""
    number: int = 0

    def __str__(self) -> str:
        parts = {"text": _coded(self.text), "before": _coded(self.before), "number": str(self.number or "")}
        return ",".join(["text", *(f"{name}={value}" for name, value in parts.items() if value)])

    @classmethod
    def read(cls, parts: list[str]) -> Self:
        """The case with the given fields."""
        given = dict(part.partition("=")[::2] for part in parts)
        if wrong := given.keys() - {"text", "before", "number"}:
            raise MalformedCase(f"TextCase has no field {min(wrong)!r}; it has text, before, number")
        number = given.pop("number", "0")
        if not number.isdecimal():
            raise MalformedCase(f"cannot read {','.join(parts)!r}: number is a whole number")
        text, before = (unquote(given.get(name, ""), errors="surrogatepass") for name in ("text", "before"))
        return cls(text=text, before=before, number=int(number))


def _coded(text: str) -> str:
    return quote(text, safe=" ", errors="surrogatepass")


def text_cases(**given: Strategy) -> Strategy:
    """Cases of a text; a keyword gives another field."""
    return st.builds(TextCase, text=given.pop("text", TEXTS), **given)


NUMBERS = st.integers(0, 2**16)


@dataclass(frozen=True, slots=True, kw_only=True)
class BytePairCase(Case):
    """Words over a small alphabet, and how many merges are learned from them."""

    letters: int = 1
    words: int = 1
    length: int = 1
    merges: int = 1

    def corpus(self) -> dict[tuple[str, ...], int]:
        """Words with how often each occurs; the shorter the alphabet the more ties."""
        rng = self.rng
        lengths = rng.integers(1, self.length + 1, self.words)
        drawn = ["abcdefgh"[: self.letters] for _ in lengths]
        words = [tuple(a[int(i)] for i in rng.integers(0, len(a), n)) for a, n in zip(drawn, lengths, strict=True)]
        return {word: int(times) for word, times in zip(words, rng.integers(1, 5, self.words), strict=True)}

    def word(self) -> tuple[str, ...]:
        """Another word, twice as long."""
        letters = "abcdefgh"[: self.letters]
        rng = self.rng.spawn(1)[0]
        return tuple(letters[int(i)] for i in rng.integers(0, self.letters, 2 * self.length))


BYTE_PAIRS: Strategy = st.builds(
    BytePairCase,
    seed=SEEDS,
    letters=st.integers(1, 4),
    words=st.integers(1, 8),
    length=st.integers(1, 10),
    merges=st.integers(1, 12),
)


# The tokeniser.


@dataclass(eq=False)
class Tokens:
    """The tokeniser of a subject; a member that it lacks raises `Declined`, one that fails `ImplementationFailed`."""

    subject: Subject
    own: Any

    def has(self, *members: str) -> bool:
        """Whether it has all of these."""
        return all(getattr(self.own, member, None) is not None for member in members)

    def require(self, *members: str) -> None:
        """Decline unless it has all of these."""
        for member in members:
            if not self.has(member):
                raise Declined(f"its tokeniser has no {member}")

    def encode(self, text: str, *, special: bool = False) -> Ids:
        """The ids of a text."""
        options = {"special": True} if special else {}
        return self._ids("encode", text, options)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids."""
        return self._text("decode", list(ids), self._call("decode", list(ids)))

    def back(self, text: str) -> str:
        """What decoding gives of the ids of a text."""
        result = self.decode(self.encode(text))
        self._note(f"t.decode(t.encode({text!r}))")
        return result

    def encode_bytes(self, data: bytes) -> Ids:
        """The ids of bytes."""
        return self._ids("encode_bytes", data, {})

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of ids."""
        given = list(ids)
        result = self._call("decode_bytes", given)
        if not isinstance(result, bytes | bytearray):
            raise ImplementationFailed(f"decode_bytes gave {shown(result)} for {shown(given)} where bytes are due")
        return bytes(result)

    def stream(self, ids: Iterable[int], prompt: Iterable[int] = ()) -> list[str]:
        """The pieces of ids one by one, after a prompt."""
        given, before = list(ids), list(prompt)
        options = {"prompt": before} if before else {}
        pieces = self._call("stream", given, consume=list, **options)
        return [self._text("stream", given, piece) for piece in pieces]

    def normalised(self, text: str) -> str:
        """What it makes of a text before it cuts it: the text itself unless it says otherwise."""
        return self._text("normalise", text, self._call("normalise", text)) if self.has("normalise") else text

    def split(self, text: str) -> list[str]:
        """The words of a text that no token crosses."""
        return [self._text("split", text, word) for word in self._call("split", text, consume=list)]

    @property
    def lossless(self) -> bool:
        """Whether it says of itself that nothing is lost."""
        return bool(getattr(self.own, "lossless", False))

    @property
    def vocabulary(self) -> int:
        """How many ids it says it has."""
        self.require("vocabulary")
        return _whole("vocabulary", self.own.vocabulary)

    @property
    def special(self) -> Mapping[str, int]:
        """Its special tokens by what spells them."""
        own = getattr(self.own, "special", None) or {}
        if not isinstance(own, Mapping) or not all(isinstance(name, str) and name for name in own):
            raise ImplementationFailed(f"special is {shown(own)} where a mapping from texts to ids is due")
        return {name: _whole(f"the special token {name}", i) for name, i in own.items()}

    @property
    def begin(self) -> int:
        """The id that it puts before a text when special tokens are meant."""
        self.require("begin")
        return _whole("begin", self.own.begin)

    @property
    def unreachable(self) -> set[int]:
        """The ids that it says no text has."""
        return {_whole("an unreachable id", i) for i in getattr(self.own, "unreachable", None) or ()}

    @property
    def merges(self) -> list[tuple[bytes, bytes]]:
        """Its merges, the first learned first, in bytes."""
        self.require("merges")
        pairs = list(self.own.merges)
        if not all(len(pair) == 2 and all(isinstance(part, bytes) for part in pair) for pair in pairs):
            raise ImplementationFailed(f"merges begins with {shown(pairs[:2])} where pairs of bytes are due")
        return pairs

    def asks(self, method: str, keyword: str) -> bool:
        """Whether the method's signature has the keyword."""
        try:
            own = inspect.signature(getattr(self.own, method)).parameters.values()
        except (TypeError, ValueError):  # of a compiled function
            return False
        return any(p.name == keyword or p.kind is p.VAR_KEYWORD for p in own)

    def require_special(self) -> Mapping[str, int]:
        """Its special tokens; decline where it has none, or can not be asked for them."""
        if not self.special:
            raise Declined("its tokeniser names no special tokens")
        return self.special

    def refuses(self, text: str) -> bool:
        """Whether encoding raises an error of any kind."""
        try:
            self.encode(text)
        except ImplementationFailed as failure:
            if isinstance(failure.__cause__, Exception):
                return True
            raise
        return False

    def pieces(self, text: str) -> tuple[str | bytes, ...]:
        """The tokens of a text, each by the part of it that it stands for, as far as that can be seen."""
        if self.has("spans"):
            return tuple(text[start:end] for start, end in self._call("spans", text, consume=list))
        ids = self.encode(text)
        if self.has("decode_bytes"):
            return tuple(self.decode_bytes([i]) for i in ids)
        self.require("decode")
        return tuple(self.decode([i]) for i in ids)

    def _note(self, expression: str) -> None:
        """Keep what was called, for the code that a failure prints."""
        self.subject.calls.append(Call("tokeniser", (expression,), {}))

    def _ids(self, name: str, given: str | bytes, options: Mapping[str, Any]) -> Ids:
        result = self._call(name, given, **options)
        try:
            return tuple(index(i) for i in result)
        except TypeError as error:
            raise ImplementationFailed(
                f"{name} gave {shown(result)} for {shown(given)} where a list of whole numbers is due"
            ) from error

    def _text(self, name: str, given: Any, result: Any) -> str:
        if not isinstance(result, str):
            raise ImplementationFailed(f"{name} gave {shown(result)} for {shown(given)} where text is due")
        return result

    def _call(self, name: str, given: Any, consume: Callable[[Any], Any] | None = None, **options: Any) -> Any:
        """What a method gives; what it raises is told with what it was given."""
        self.require(name)
        said = ", ".join([repr(given), *(f"{n}={v!r}" for n, v in options.items())])
        expression = f"t.{name}({said})"
        self._note(f"list({expression})" if consume else expression)
        method = getattr(self.own, name)
        function = method if consume is None else lambda *a, **o: consume(method(*a, **o))
        return _called(name, function, given, options)


def _called(name: str, function: Callable[..., Any], given: Any, options: Mapping[str, Any]) -> Any:
    try:
        return guarded(name, function, [given], options)
    except ImplementationFailed as failure:
        cause = failure.__cause__
        message = " ".join(str(cause).split())[:300]
        raise ImplementationFailed(
            f"{name} raised {type(cause).__name__}{': ' if message else ''}{message} for {shown(given)}"
        ) from cause


def _whole(what: str, value: Any) -> int:
    try:
        return index(value)
    except TypeError as error:
        raise ImplementationFailed(f"{what} is {shown(value)} where a whole number is due") from error


def shown(value: Any) -> str:
    """A value in a sentence, cut where it is long."""
    text = ascii(value) if isinstance(value, str | bytes) else repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


@cache
def _made(implementation: Implementation) -> Any:
    return guarded("tokeniser", implementation.operations["tokeniser"], [], {})


def tokens(subject: Subject, *members: str) -> Tokens:
    """The subject's tokeniser, made once, which has to have these members."""
    subject.require("tokeniser")
    found = Tokens(subject, _made(subject.implementation))
    if not callable(getattr(found.own, "encode", None)):
        kind = type(found.own).__name__
        raise ImplementationFailed(f"tokeniser returned something of type {kind}, which has no method encode")
    found.require(*members)
    return found


def listed(subject: Subject, operation: str, *arguments: Any, **options: Any) -> list[Any]:
    """What an operation that gives a list gives; the keywords that it has to have are named."""
    subject.require(operation, *options)
    result = guarded(operation, subject.implementation.operations[operation], list(arguments), options)
    if not isinstance(result, list | tuple):
        raise ImplementationFailed(f"{operation} gave {shown(result)} where a list is due")
    return list(result)


def try_out(subject: Subject, operation: str) -> None:
    """One small call of what has to do with text, to see whether it can be called at all."""
    word = ("a", "b", "a", "b")
    if operation == "tokeniser":
        tokens(subject).encode("a b")
    elif operation == "train_byte_pairs":
        listed(subject, operation, {word: 1}, 1)
    else:
        listed(subject, operation, word, [("a", "b")])


# Comparisons.

NOTHING = -1  # stands where one of two sequences has ended


def alike(what: str, got: Sequence[int] | str | bytes, want: Sequence[int] | str | bytes) -> Comparison:
    """Two sequences are the same, entry by entry; -1 stands where one has ended."""
    length = max(len(got), len(want))
    numbers = [[ord(c) for c in s] if isinstance(s, str) else list(s) for s in (got, want)]
    filled = [[*n, *[NOTHING] * (length - len(n))] for n in numbers]
    return same(f"{what}: {shown(got)} where {shown(want)} is due, ", *filled)
