"""Searches over tokenisers: where two cut otherwise, which texts one cannot tell apart, which ids no text has."""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from operator import index

from gnomon.props.tokenising import FRAGMENTS, Ids, Tokens

ENOUGH = 100  # ids that no text has, of which more would say no more
LONGEST = 24  # characters of a text that is looked for


@dataclass(frozen=True, slots=True)
class Cut:
    """A text, and the pieces that two tokenisers cut it into."""

    text: str
    one: tuple[str | bytes, ...]
    other: tuple[str | bytes, ...]


def differing(one: Tokens, other: Tokens, texts: Iterable[str]) -> Cut | None:
    """The first of the texts that two tokenisers cut differently.

    Pieces are compared by how many bytes of the text each stands for.
    """
    for text in texts:
        cuts = [t.pieces(text) for t in (one, other)]
        if lengths(cuts[0]) != lengths(cuts[1]):
            return Cut(text, *cuts)
    return None


def parts(*samples: str) -> list[str]:
    """Every part of the samples once, the shortest first."""
    found = {s[i : i + size]: None for s in samples for size in range(1, LONGEST + 1) for i in range(len(s) - size + 1)}
    return sorted(found, key=len)


def lengths(pieces: Iterable[str | bytes]) -> tuple[int, ...]:
    """How many bytes each piece stands for; those that stand for none are left out."""
    sizes = (len(p if isinstance(p, bytes) else p.encode("utf-8", "surrogatepass")) for p in pieces)
    return tuple(size for size in sizes if size)


# Texts that have the same ids.


def _without(*characters: str) -> Callable[[str], str]:
    """A change that leaves these characters out."""
    return lambda text: "".join(c for c in text if c not in characters)


def _unaccented(text: str) -> str:
    bare = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", bare)


UNKNOWN = "one character it does not know and another"
_OTHERS = str.maketrans({"𠮷": "𝒳", "の": "ท", "👍": "👎"})
CHANGES: dict[str, Callable[[str], str]] = {
    "a capital letter and a small one": str.lower,
    "an accent and none": _unaccented,
    "composed and decomposed characters": lambda s: unicodedata.normalize("NFD", s),
    "a compatibility character and its plain form": lambda s: unicodedata.normalize("NFKC", s),
    "one space and two": lambda s: s.replace("  ", " "),
    "a space before the text and none": lambda s: s.removeprefix(" "),
    "a space after the text and none": lambda s: s.removesuffix(" "),
    "a tabulator and a space": lambda s: s.replace("\t", " "),
    "a line feed and a space": lambda s: s.replace("\n", " "),
    "a carriage return and none": _without("\r"),
    "a no-break space and a space": lambda s: s.replace("\u00a0", " "),
    "a character of no width and none": _without("\u200b"),
    "a control character and none": _without("\x00", "\x1b"),
    "the sign ▁ and a space": lambda s: s.replace("▁", " "),
    UNKNOWN: lambda s: s.translate(_OTHERS),
    "the name of the unknown token and an unknown character": lambda s: s.replace("[UNK]", "𠮷").replace("<unk>", "𠮷"),
    "the name of a byte and the byte": lambda s: s.replace("<0x0A>", "\n"),
}
PROBES = (
    "A", "É", "é", "ﬁ", "½", "²", "a  b", " a", "  a", "a ", "a\tb", "a\nb", "a\r\nb", "a\u00a0b", "a\u200bb",
    "a\x00b", "a\x1bb", "▁a", "a▁b", "𠮷", "の", "👍", "a 𠮷", "[UNK]", "<unk>", "a<0x0A>b", "Straße", "각",
    "q\u0307\u0323",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Confusion:
    """Two texts that have the same ids, and what they differ in."""

    difference: str
    one: str
    other: str


def confusions(tokens: Tokens) -> list[Confusion]:
    """For each kind of change a pair of texts that differ by it alone and have the same ids, where there is one."""
    found = (_confused(tokens, name, change) for name, change in CHANGES.items())
    return [pair for pair in found if pair is not None]


def _confused(tokens: Tokens, name: str, change: Callable[[str], str]) -> Confusion | None:
    for text in PROBES:
        other = change(text)
        ids = _ids(tokens, text)
        if other == text or ids is None or ids != _ids(tokens, other):
            continue
        if name == UNKNOWN or text.isascii() or ids != _ids(tokens, _masked(text)):  # else it knows neither
            return Confusion(name, text, other)
    return None


def _masked(text: str) -> str:
    """The text with a character that hardly any vocabulary has in place of each outside ASCII."""
    return "".join(c if c.isascii() else "𐂃" for c in text)


def _ids(tokens: Tokens, text: str) -> Ids | None:
    """The ids of a text, none where the tokeniser raises, which others are asked about. Called bare: there are many."""
    try:
        return tuple(map(index, tokens.own.encode(text)))
    except Exception:
        return None


# Texts of which the ids in a row are not those of the joined text.


def not_a_sum(tokens: Tokens, sample: Sequence[str]) -> tuple[str, str] | None:
    """Two texts whose ids in a row are not those of the joined text, the shortest of the sample."""
    for text in sorted(sample, key=len):
        for cut in range(1, len(text)):
            one, other = text[:cut], text[cut:]
            if tokens.encode(one) + tokens.encode(other) != tokens.encode(text):
                return one, other
    return None


# Ids that no text has.

_AROUND = ("", " ", "a", "e", "s", "n", "z", "I", "x ", "0", "-", "(", "\n", "\n\n", "東", "é", "ß", "ا", "ж")
_STRIDE = 61  # code points between two that are tried, prime so that all ends of their bytes occur
_CHUNK = 48


def unreached(tokens: Tokens) -> list[int]:
    """The first ids of the vocabulary that no text tried has and that are not declared so.

    Tried are characters from everywhere, and for each id its own text or bytes among others.
    """
    key = id(tokens.own)  # which the run keeps
    if key not in _unreached:
        _unreached[key] = _searched(tokens)
    return _unreached[key]


_unreached: dict[int, list[int]] = {}


def _searched(tokens: Tokens) -> list[int]:
    missing = set(range(tokens.vocabulary)) - tokens.unreachable
    for text in (*FRAGMENTS, *_everywhere()):
        missing -= set(_ids(tokens, text) or ())
    if tokens.has("encode_bytes"):
        missing -= {i for n in range(256) for i in tokens.encode_bytes(bytes([n]))}
    missing -= set(tokens.encode("", special=True)) if tokens.has("begin") else set()
    for name, i in tokens.special.items() if tokens.asks("encode", "special") else ():
        missing -= {i} & set(tokens.encode(name, special=True))
    return list(islice((i for i in sorted(missing) if not _reached(tokens, i)), ENOUGH))


def _everywhere() -> Iterator[str]:
    """Characters of one to four bytes, in short texts."""
    points = [n for n in (*range(1, 0x800), *range(0x800, 0x110000, _STRIDE)) if not 0xD800 <= n < 0xE000]
    for start in range(0, len(points), _CHUNK):
        yield "".join(map(chr, points[start : start + _CHUNK]))


def _reached(tokens: Tokens, i: int) -> bool:
    """Whether some text that has to do with the id has it."""
    own = _bytes(tokens, i)
    if own and tokens.has("encode_bytes", "decode_bytes"):
        return i in tokens.encode_bytes(own)
    try:
        names = [own.decode()] if own else []
    except UnicodeDecodeError:
        return any(i in (_ids(tokens, text) or ()) for text in _completed(own))
    plain = {form for name in names for form in (name, name.lstrip("#"), name.replace("▁", " "), name.strip())}
    texts = (before + form + after for form in sorted(plain) for before, after in product(_AROUND, ("", " ", "a")))
    return any(i in (_ids(tokens, text) or ()) for text in texts)


def _bytes(tokens: Tokens, i: int) -> bytes:
    """What an id alone is decoded to; nothing where it can not be."""
    try:
        own = tokens.own.decode_bytes if tokens.has("decode_bytes") else tokens.own.decode
        part = own([i])
        return part if isinstance(part, bytes) else str(part).encode()
    except Exception:
        return b""


def _completed(part: bytes) -> Iterator[str]:
    """Texts whose bytes have this part, which begins or ends inside a character."""
    heads = [b"", b"\xc3", *(bytes([lead, 0x90]) for lead in (0xE1, 0xE3, 0xF0)), b"\xe4", b"\xf0\x9f\x98", b"\xf0\x9f"]
    heads += [bytes([lead]) for lead in (*range(0xC2, 0xF5),)]
    tails = [b"", *(bytes([n]) + rest for n in range(0x80, 0xC0) for rest in (b"", b"\x80", b"\x80\x80"))]
    for head, tail in product(heads, tails):
        try:
            yield (head + part + tail).decode()
        except UnicodeDecodeError:
            continue
