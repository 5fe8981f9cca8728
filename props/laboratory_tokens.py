"""Laboratory 1: one paragraph under two tokenisers, where they cut it otherwise, and what each cannot tell apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from gnomon.impl.loading import CannotLoad, load
from gnomon.props.laboratories import Finding, NotRunnable, columns, listed
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.props.segmenting import Confusion, Cut, confusions, differing, parts
from gnomon.props.subject import Subject
from gnomon.props.tokenising import Tokens, shown, tokens

# The paragraph, by what its parts are made of.
PARAGRAPH = {
    "words": "A tokeniser is made once and then it is the only eye that the model has. What it joins the model sees "
    "whole, and what it cuts the model has to put together again. ",
    "names": "Ask Wisława Szymborska in Kraków, or Zoë at the café: to them a rare name is one thing. ",
    "numbers": "Is 1000000 more than 999999, was 1789 before 1815, and what are 3.14159 and 1e-05? ",
    "code": "if total != 0:\n        mean = total / len(xs)\n",
    "scripts": "In Tokyo they say 言葉, in Moscow слово, in Cairo كلمة. ",
    "emoji": "👍🏽 👩‍👩‍👧‍👦 🇫🇷",
}
NUMBERS = "7 10 12 100 127 1000 1789 2026 31415 1000000"
USUAL = (
    "tokenizers:byte-level,sentencepiece:plain"  # of one size and trained on one text, so that only the rule differs
)


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """A tokeniser on the paragraph: tokens of each part, and texts that have the same ids."""

    name: str
    counts: tuple[int, ...]
    whole: int
    vocabulary: int
    comes_back: bool
    same: tuple[Confusion, ...]


def two_tokenisers(impl: str) -> Finding:
    """The counts, a shortest text that the two cut differently, and what becomes of texts under each."""
    names = impl.split(",")
    if len(names) != 2:
        raise click.UsageError(f"laboratory 1 compares two tokenisers: --impl {USUAL} names them")
    both = [_tokens(name) for name in names]
    try:
        seen = [_reader(name, t) for name, t in zip(names, both, strict=True)]
        words = [word for word in "".join(PARAGRAPH.values()).split() if word.isascii()]
        cuts = [differing(both[0], both[1], texts) for texts in (parts(*words), NUMBERS.split())]
    except (Declined, ImplementationFailed) as reason:
        raise NotRunnable(f"cannot run {' and '.join(names)}: {reason}") from reason
    table = columns("", "characters", *names)
    for row, (part, text) in enumerate(PARAGRAPH.items()):
        table.add_row(part, str(len(text)), *(str(r.counts[row]) for r in seen))
    table.add_row("the paragraph", str(sum(map(len, PARAGRAPH.values()))), *(str(r.whole) for r in seen))
    return Finding(table, _conclusions(seen, cuts), lambda figure: _draw(figure, seen))


def _tokens(name: str) -> Tokens:
    try:
        return tokens(Subject(load(name), "float64"))
    except (CannotLoad, Declined, ImplementationFailed) as reason:
        raise NotRunnable(f"cannot run {name}: {reason}") from reason


def _reader(name: str, t: Tokens) -> Reader:
    paragraph = "".join(PARAGRAPH.values())
    ids = t.encode(paragraph)
    counts = tuple(len(t.encode(text)) for text in PARAGRAPH.values())
    vocabulary = t.vocabulary if t.has("vocabulary") else 0
    back = t.has("decode") and t.decode(ids) == paragraph
    return Reader(name, counts, len(ids), vocabulary, back, tuple(confusions(t)))


def _conclusions(seen: Sequence[Reader], cuts: Sequence[Cut | None]) -> list[str]:
    """The counts, the texts that are cut differently, and what each tokeniser hides from a model."""
    one, other = seen
    characters = sum(map(len, PARAGRAPH.values()))
    few, many = sorted(seen, key=lambda r: r.whole)
    told = [
        f"The {characters} characters are {one.whole} tokens for {one.name} and {other.whole} for {other.name}, "
        + ("as many." if few.whole == many.whole else f"{many.whole / few.whole:.2f} times as many as for {few.name}.")
    ]
    found = [f"{shown(cut.text)} is {_told(cut.one)} and {_told(cut.other)}" for cut in cuts if cut is not None]
    if found:
        told.append(
            f"The shortest part of a word, and the first number, that they cut differently: {'; '.join(found)}."
        )
    else:
        told.append("They cut every part of a word of it, and the numbers tried, alike.")
    return told + [_hidden(r) for r in seen]


def _told(pieces: Sequence[str | bytes]) -> str:
    return " | ".join(shown(p) for p in pieces if p)


def _hidden(r: Reader) -> str:
    """What a model that reads through this tokeniser has no way to tell apart."""
    back = "comes back from its ids" if r.comes_back else "does not come back from its ids"
    if not r.same:
        return f"Under {r.name} the paragraph {back}, and no two texts tried have the same ids: nothing is hidden."
    kinds = listed([f"{c.difference} ({shown(c.one)}, {shown(c.other)})" for c in r.same])
    return f"Under {r.name} the paragraph {back}, and a model can no longer tell apart {kinds}."


def _draw(figure: Any, seen: Sequence[Reader]) -> None:
    """Tokens a character in each part of the paragraph."""
    axes, places = figure.subplots(), np.arange(len(PARAGRAPH))
    sizes = np.array([len(text) for text in PARAGRAPH.values()])
    for side, r in zip((-0.2, 0.2), seen, strict=True):
        axes.bar(places + side, np.array(r.counts) / sizes, width=0.4, label=f"{r.name}, {r.vocabulary} ids")
    axes.set_xticks(places, list(PARAGRAPH))
    axes.set(ylabel="tokens a character")
    axes.legend()
