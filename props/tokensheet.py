"""The datasheet of a tokeniser: what it says of itself, and what a few hundred texts show."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rich.markup import escape
from rich.table import Table

from gnomon.impl.loading import load
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.props.report import console
from gnomon.props.segmenting import confusions, not_a_sum
from gnomon.props.subject import Subject
from gnomon.props.tokenising import FRAGMENTS, Tokens, shown, tokens

_BLANKS = (" a", "a ", "a  b", "a\tb", "a\nb", "a\r\nb", "  a\n    b")
_RARE = "𠮷", "𝒳", "ท"  # characters that few vocabularies have
_DIGITS = "1234567"


@dataclass(frozen=True, slots=True)
class Line:
    """A question, what the tokeniser says of it and what was seen."""

    question: str
    declared: str
    measured: str


def print_tokensheet(name: str) -> None:
    """Print what was measured of a tokeniser beside what it declares."""
    implementation = load(name)
    table = Table(title=f"datasheet of {escape(implementation.name)}", box=None, pad_edge=False, title_justify="left")
    for heading in ("", "declared", "measured"):
        table.add_column(heading)
    for line in tokensheet(tokens(Subject(implementation, "float64"))):
        table.add_row(line.question, escape(line.declared), escape(line.measured))
    console.print(table)


def tokensheet(t: Tokens) -> list[Line]:
    """Every question with what is declared and what was measured, or why it could not be."""
    texts = [text for text in FRAGMENTS if not _raised(t, text)]
    said = "yes" if t.lossless else "no"
    asked: tuple[tuple[str, str, Callable[[], str]], ...] = (
        ("texts it raises on", "", partial(_raises, t)),
        ("ids", _said(t, "vocabulary"), partial(_range, t, texts)),
        ("lossless", said, partial(_lossless, t, texts)),
        ("lossless of bytes", "takes bytes" if t.has("encode_bytes") else "takes none", partial(_of_bytes, t)),
        ("normalises", "yes" if t.has("normalise") else "no", partial(_same_ids, t)),
        ("spaces and lines", "", partial(_blanks, t)),
        ("characters it does not know", "", partial(_unknown, t)),
        ("digits", "", partial(_digits, t)),
        ("half a surrogate pair", "", partial(_half, t)),
        ("special tokens", ", ".join(t.special) or "none", partial(_special, t)),
        ("encoded otherwise than its parts", "", partial(_parts, t)),
        ("tokens a character", "", partial(_rate, t, texts)),
    )
    return [Line(question, declared, _attempt(measure)) for question, declared, measure in asked]


def _attempt(measure: Callable[[], str]) -> str:
    try:
        return measure()
    except (Declined, ImplementationFailed) as reason:
        return f"not measured: {reason}"


def _said(t: Tokens, member: str) -> str:
    return str(getattr(t.own, member)) if t.has(member) else "not declared"


def _raised(t: Tokens, text: str) -> str:
    """What encoding raises, nothing if it does not."""
    try:
        t.encode(text)
    except (Declined, ImplementationFailed) as reason:
        return str(reason)
    return ""


def _raises(t: Tokens) -> str:
    reasons = [reason for text in FRAGMENTS if (reason := _raised(t, text))]
    return f"{len(reasons)} of {len(FRAGMENTS)}: {reasons[0]}" if reasons else f"none of {len(FRAGMENTS)}"


def _range(t: Tokens, texts: Sequence[str]) -> str:
    seen = {i for text in texts for i in t.encode(text)}
    return f"{len(seen)} different ones, from {min(seen)} to {max(seen)}" if seen else "none seen"


def _lossless(t: Tokens, texts: Sequence[str]) -> str:
    t.require("decode")
    lost = [(text, back) for text in texts if (back := t.decode(t.encode(text))) != text]
    if not lost:
        return f"yes, {len(texts)} of {len(texts)} texts came back"
    text, back = min(lost, key=lambda pair: len(pair[0]))
    return f"no, {len(texts) - len(lost)} of {len(texts)} texts came back; {shown(text)} came back as {shown(back)}"


def _of_bytes(t: Tokens) -> str:
    t.require("encode_bytes", "decode_bytes")
    lost = [n for n in range(256) if t.decode_bytes(t.encode_bytes(bytes([n]))) != bytes([n])]
    return f"no, the byte {lost[0]} is lost" if lost else "yes, every byte came back"


def _same_ids(t: Tokens) -> str:
    found = confusions(t)
    if not found:
        return "no two texts tried have the same ids"
    told = "; ".join(f"{c.difference} ({shown(c.one)}, {shown(c.other)})" for c in found)
    return f"the same ids have {told}"


def _blanks(t: Tokens) -> str:
    t.require("decode")
    lost = [text for text in _BLANKS if t.decode(t.encode(text)) != text]
    return f"changed in {', '.join(map(shown, lost))}" if lost else "kept"


def _unknown(t: Tokens) -> str:
    ids = [t.encode(c) for c in _RARE]
    if ids[0] == ids[1]:
        return f"one and the same for all: {list(ids[0])}"
    numbers = [len(i) for i in ids]
    if t.has("decode") and all(t.decode(i) == c for i, c in zip(ids, _RARE, strict=True)):
        return (
            f"several tokens each, as for bytes: {numbers}" if min(numbers) > 1 else f"tokens of their own: {numbers}"
        )
    return f"{numbers} tokens, which do not come back"


def _digits(t: Tokens) -> str:
    return f"{_DIGITS} is {' | '.join(str(p) if isinstance(p, str) else p.decode() for p in t.pieces(_DIGITS))}"


def _half(t: Tokens) -> str:
    text = "a\ud800b"
    if t.refuses(text):
        return "refused"
    return f"taken, and comes back as {shown(t.decode(t.encode(text)))}" if t.has("decode") else "taken"


def _special(t: Tokens) -> str:
    if not t.special:
        return "not measured: it names none"
    taken = [name for name, i in t.special.items() if i in t.encode(f"a {name} b")]
    unasked = f"taken from any text that spells them: {', '.join(taken)}" if taken else "not taken from text"
    if not t.asks("encode", "special"):
        return f"{unasked}; it can not be asked for them"
    missing = [name for name, i in t.special.items() if i not in t.encode(f"a {name} b", special=True)]
    return f"{unasked}; asked for, {'not taken: ' + ', '.join(missing) if missing else 'taken'}"


def _parts(t: Tokens) -> str:
    found = not_a_sum(t, [text for text in FRAGMENTS if text.isprintable()])
    return f"{shown(found[0])} and {shown(found[1])} joined" if found else "no text tried"


def _rate(t: Tokens, texts: Sequence[str]) -> str:
    characters = sum(map(len, texts))
    return f"{sum(len(t.encode(text)) for text in texts) / characters:.2f}" if characters else "no text tried"
