"""III.1 held to a tokeniser: what goes in comes out, ids are what they should be, and nothing is smuggled in."""

from collections.abc import Iterator, Sequence

import numpy as np
from hypothesis import strategies as st

from gnomon.props.judge import Comparison, between, same
from gnomon.props.outcome import Declined
from gnomon.props.property import checks
from gnomon.props.segmenting import Confusion, confusions, differing, not_a_sum, parts, unreached
from gnomon.props.subject import Subject
from gnomon.props.tokenising import (
    BYTE_PAIRS,
    FRAGMENTS,
    NUMBERS,
    TEXTS,
    BytePairCase,
    TextCase,
    Tokens,
    alike,
    listed,
    shown,
    text_cases,
    tokens,
)
from gnomon.spec import bytepairs
from gnomon.spec import embedding as spec

Comparisons = Iterator[Comparison]

TOKENISER = ("tokeniser",)
ONCE = st.just(TextCase())  # for what is asked of the tokeniser and not of a text
WITH_NUMBER = text_cases(before=TEXTS, number=NUMBERS)
CODE = "  def f(x):\n    return x  # twice\n"
SAMPLE = (
    "The 127 lowest offers, 1000000 in all, are read as tokens. Don't\u00a0ask: naïve cafe\u0301s in 東京 "
    f"count 👍🏽 too.\n{CODE}"
)


@checks(spec.ENCODING_IS_A_FUNCTION, text_cases(), needs=TOKENISER, mistakes=(spec.IDS_PAST_THE_VOCABULARY,))
def ids_in_the_vocabulary(subject: Subject, case: TextCase) -> Comparisons:
    """Every id, those of special tokens included, is one of the vocabulary."""
    t = tokens(subject, "vocabulary")
    names = t.special if t.asks("encode", "special") else ()
    named = [i for name in names for i in t.encode(name + case.text, special=True)]
    ids = np.array([*t.encode(case.text), *t.special.values(), *named])
    yield between(f"ids of {shown(case.text)}, ", ids, 0, t.vocabulary - 1, 0)


@checks(
    spec.ENCODING_IS_A_FUNCTION, text_cases(before=TEXTS), needs=TOKENISER,
    mistakes=(spec.STATE_BETWEEN_CALLS, spec.CACHED_LIST_SHARED),
)  # fmt: skip
def same_ids_again(subject: Subject, case: TextCase) -> Comparisons:
    """The ids of a text are the same after others, and after a caller has changed the list that it got."""
    t = tokens(subject)
    t.encode("")
    first = t.encode(case.text)
    t.encode(case.before)
    yield alike(f"ids of {shown(case.text)} after those of {shown(case.before)}", t.encode(case.text), first)
    given = t.own.encode(case.text)
    if isinstance(given, list):
        given.append(0)
    yield alike(f"ids of {shown(case.text)} after a change of the list", t.encode(case.text), first)


TEXT_LOST = (
    spec.EATEN_LEADING_SPACE,
    spec.SPACES_MOVED,
    spec.SILENT_NORMALISATION,
    spec.LINE_ENDS_UNIFIED,
    spec.SPLIT_CHARACTERS_REPLACED,
    spec.BYTE_TOKENS_SPELT,
)


def lossless(subject: Subject, *members: str) -> Tokens:
    """Its tokeniser, if that declares that nothing is lost."""
    t = tokens(subject, *members)
    if not t.lossless:
        raise Declined("its tokeniser does not declare itself lossless")
    return t


@checks(spec.LOSSLESS, text_cases(), needs=TOKENISER, mistakes=TEXT_LOST)
def text_comes_back(subject: Subject, case: TextCase) -> Comparisons:
    """Decoding what was encoded gives the text, as its declared normalisation leaves it."""
    t = lossless(subject, "decode")
    for own in (case.text, *(name + case.text for name in sorted(t.special)[:1])):
        text = t.normalised(own)
        yield alike(f"what came back of {shown(text)}", t.back(text), text)


@checks(spec.LOSSLESS, WITH_NUMBER, needs=TOKENISER, mistakes=(spec.INVALID_BYTES_REPLACED,))
def bytes_come_back(subject: Subject, case: TextCase) -> Comparisons:
    """Any bytes come back, and those of a text have its ids."""
    t = lossless(subject, "encode_bytes", "decode_bytes")
    data = case.before.encode() + bytes([case.number % 256]) + case.text.encode()[1:]
    yield alike(f"what came back of {shown(data)}", t.decode_bytes(t.encode_bytes(data)), data)
    own = t.encode_bytes(case.text.encode())
    yield alike(f"ids of the bytes of {shown(case.text)}", own, t.encode(case.text))


@checks(spec.LOSSLESS, WITH_NUMBER, needs=TOKENISER, mistakes=(spec.SURROGATES_REPLACED,))
def no_text_is_refused(subject: Subject, case: TextCase) -> Comparisons:
    """Half of a surrogate pair among characters is refused, or comes back."""
    t = lossless(subject, "decode")
    wrong = case.before + chr(0xD800 + case.number % 0x800) + case.text
    back = wrong if t.refuses(wrong) else t.back(wrong)
    yield alike(f"what came back of {shown(wrong)}, which is no text", back, wrong)


def told(pairs: Sequence[tuple[str, str]]) -> str:
    """Merges as a file of them has them."""
    return "\n".join(f"{left} {right}" for left, right in pairs)


@checks(
    spec.MERGES_BY_RANK, BYTE_PAIRS, needs=("train_byte_pairs",),
    mistakes=(spec.TIES_BY_THE_LAST, spec.WORDS_COUNTED_ONCE, spec.MERGED_FROM_THE_RIGHT),
)  # fmt: skip
def merges_learned(subject: Subject, case: BytePairCase) -> Comparisons:
    """Of a corpus of words the merges are learned that counting anew after each one gives."""
    corpus = case.corpus()
    got, due = learn(subject, corpus, case.merges), bytepairs.train(corpus, case.merges)
    yield alike(f"the merges of {corpus}", told(got), told(due))


@checks(spec.MERGES_BY_RANK, st.just(BytePairCase()), needs=("train_byte_pairs",), mistakes=(spec.TIES_BY_THE_LAST,))
def merges_of_the_paper(subject: Subject, case: BytePairCase) -> Comparisons:
    """Of low, lower, newest and widest, as often as the paper has them, the paper's merges are learned."""
    got = learn(subject, dict(bytepairs.TOY_CORPUS), len(bytepairs.TOY_MERGES))
    yield alike("the merges of low, lower, newest and widest", told(got), told(bytepairs.TOY_MERGES))


@checks(
    spec.MERGES_BY_RANK, BYTE_PAIRS, needs=("train_byte_pairs", "encode_byte_pairs"), mistakes=(spec.MARK_ON_THE_FIRST,)
)
def continuations_marked(subject: Subject, case: BytePairCase) -> Comparisons:
    """Where continuations are marked, every symbol of a word but the first is, in training and in encoding."""
    corpus, mark = case.corpus(), "##"
    due = bytepairs.train(corpus, case.merges, mark)
    got = learn(subject, corpus, case.merges, continuation=mark)
    yield alike(f"the marked merges of {corpus}", told(got), told(due))
    word = next(iter(corpus))
    marked = bytepairs.encode(bytepairs.marked(word, mark), due, mark)
    yield alike(f"the marked symbols of {word}", cut(subject, word, due, continuation=mark), " ".join(marked))


@checks(
    spec.MERGES_BY_RANK, BYTE_PAIRS, needs=("encode_byte_pairs",),
    mistakes=(spec.LONGEST_MATCH, spec.LEFT_TO_RIGHT, spec.MERGED_FROM_THE_RIGHT),
)  # fmt: skip
def merges_applied(subject: Subject, case: BytePairCase) -> Comparisons:
    """A word, and every short word of two letters, is cut as applying each merge in turn cuts it."""
    letters = "abcdefgh"[: case.letters]
    merges = proper(bytepairs.train(case.corpus(), case.merges), letters)
    for word in (case.word(), *short_words(letters[:2])):
        due = " ".join(bytepairs.encode(word, merges))
        yield alike(f"the symbols of {''.join(word)} under {merges}", cut(subject, word, merges), due)


def proper(merges: list[tuple[str, str]], letters: str) -> list[tuple[str, str]]:
    """As many of the merges as make a symbol each that was not there before."""
    sizes = range(len(merges), -1, -1)
    return merges[: next(n for n in sizes if bytepairs.proper(merges[:n], set(letters)))]


def short_words(letters: str) -> Iterator[tuple[str, ...]]:
    """Every word of one to five letters."""
    words: list[tuple[str, ...]] = [()]
    for _ in range(5):
        words = [(*word, letter) for word in words for letter in letters]
        yield from words


def learn(subject: Subject, corpus: dict[tuple[str, ...], int], merges: int, **options: str) -> list[tuple[str, str]]:
    """The merges that it learns."""
    return [(str(left), str(right)) for left, right in listed(subject, "train_byte_pairs", corpus, merges, **options)]


def cut(subject: Subject, word: tuple[str, ...], merges: list[tuple[str, str]], **options: str) -> str:
    """The symbols that it cuts a word into."""
    return " ".join(map(str, listed(subject, "encode_byte_pairs", word, merges, **options)))


@checks(spec.MERGES_BY_RANK, text_cases(), needs=TOKENISER, mistakes=(spec.ANOTHER_SPLIT,))
def words_cut_by_merges(subject: Subject, case: TextCase) -> Comparisons:
    """The tokens of a text are what its merges make of the bytes of each of its words."""
    t = tokens(subject, "split", "merges", "decode_bytes")
    words = t.split(case.text)
    yield alike(f"the words of {shown(case.text)} together", "".join(words), case.text)
    due = [symbol for word in words for symbol in by_merges(word.encode(), t.merges)]
    got = [t.decode_bytes([i]) for i in t.encode(case.text)]
    yield alike(f"the tokens of {shown(case.text)}", "|".join(map(repr, got)), "|".join(map(repr, due)))


def by_merges(word: bytes, merges: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
    """The word after each merge in turn; those are left out whose symbol does not occur in it."""
    able = [pair for pair in merges if pair[0] + pair[1] in word]
    return bytepairs.encode([bytes([b]) for b in word], able)


@checks(spec.SEGMENTED_DIFFERENTLY, text_cases(), needs=TOKENISER, share=0.3)
def nothing_against_itself(subject: Subject, case: TextCase) -> Comparisons:
    """The search finds no text that a tokeniser cuts otherwise than itself."""
    t = tokens(subject)
    yield same(
        "a text that it cuts otherwise than itself, found, ", differing(t, t, parts(case.text[:8])) is not None, False
    )


@checks(spec.SEGMENTED_DIFFERENTLY, ONCE, needs=TOKENISER)
def lossless_tells_apart(subject: Subject, case: TextCase) -> Comparisons:
    """Of a lossless tokeniser the search finds no two texts of the same ids, unless it normalises."""
    t = lossless(subject)
    if t.has("normalise"):
        raise Declined("its tokeniser normalises, so that texts may become one")
    found = confusions(t)
    yield (
        same("pairs of texts that have the same ids", len(found), 0)
        if not found
        else alike(
            f"the ids of {shown(found[0].one)} are those of {shown(found[0].other)}", found[0].one, found[0].other
        )
    )


def _told_alike(t: Tokens, pair: Confusion) -> Comparison:
    """The two texts, which would have to be one."""
    t.encode(pair.one)
    return alike(f"the ids of {shown(pair.one)} are those of {shown(pair.other)}", pair.one, pair.other)


@checks(spec.TEXTS_JOIN, ONCE, needs=TOKENISER, mistakes=())
def parts_are_encoded_otherwise(subject: Subject, case: TextCase) -> Comparisons:
    """Two texts are found whose ids in a row are not those of the joined text, if a token is of several characters."""
    t = tokens(subject)
    found = not_a_sum(t, [*FRAGMENTS, *SAMPLE.split(" ")])
    if found is None:
        raise Declined("every text tried has the ids of its characters in a row")
    one, other = found
    in_a_row = t.encode(one) + t.encode(other) == t.encode(one + other)
    yield same(f"the ids of {shown(one)} and {shown(other)} in a row those of the joined text", in_a_row, False)


@checks(spec.TEXTS_JOIN, text_cases(), needs=TOKENISER, mistakes=(spec.TOKEN_BY_TOKEN,))
def streams_join(subject: Subject, case: TextCase) -> Comparisons:
    """The pieces of a stream join to the decoded text."""
    t = tokens(subject, "stream", "decode")
    ids = t.encode(case.text)
    yield alike(f"the stream of {shown(case.text)}", "".join(t.stream(ids)), t.decode(ids))


@checks(spec.TEXTS_JOIN, text_cases(number=NUMBERS), needs=TOKENISER, mistakes=(spec.PROMPT_REPEATED,))
def streams_go_on(subject: Subject, case: TextCase) -> Comparisons:
    """After a prompt that ends anywhere, inside a character too, the pieces join to what it had not completed."""
    t = tokens(subject, "stream", "decode")
    if not t.asks("stream", "prompt"):
        raise Declined("its tokeniser's stream has no keyword prompt")
    ids = t.encode(case.text)
    place = case.number % (len(ids) + 1)
    whole, before = t.decode(ids), t.decode(ids[:place])
    had = next((n for n, (a, b) in enumerate(zip(whole, before, strict=False)) if a != b), min(len(whole), len(before)))
    if "\ufffd" in whole:
        return  # then what the prompt had completed cannot be told from what it had not
    got = "".join(t.stream(ids[place:], prompt=ids[:place]))
    yield alike(f"the stream of {shown(case.text)} after {place} of {len(ids)} tokens", got, whole[had:])


@checks(spec.SPECIAL_WHEN_ASKED, WITH_NUMBER, needs=TOKENISER, mistakes=(spec.SPECIAL_FROM_TEXT,))
def special_unasked(subject: Subject, case: TextCase) -> Comparisons:
    """Text that spells a special token has none among its ids."""
    t = tokens(subject)
    own = t.require_special()
    text = case.before + sorted(own)[case.number % len(own)] + case.text
    yield same(f"special tokens in the ids of {shown(text)}", len(set(t.encode(text)) & set(own.values())), 0)


def asked(subject: Subject) -> Tokens:
    """Its tokeniser, if it can be asked for special tokens."""
    t = tokens(subject)
    t.require_special()
    if not t.asks("encode", "special"):
        raise Declined("its tokeniser's encode has no keyword special")
    return t


@checks(spec.SPECIAL_WHEN_ASKED, WITH_NUMBER, needs=TOKENISER, mistakes=(spec.SPECIAL_SPELT_OUT,))
def special_asked(subject: Subject, case: TextCase) -> Comparisons:
    """A special token that is spelt where special tokens are meant is among the ids."""
    t = asked(subject)
    name = sorted(t.special)[case.number % len(t.special)]
    text = case.before + name + case.text
    found = t.special[name] in t.encode(text, special=True)
    yield same(f"the token {name} in the ids of {shown(text)}, asked for, ", found, True)


@checks(spec.SPECIAL_WHEN_ASKED, text_cases(), needs=TOKENISER, mistakes=(spec.BEGIN_TWICE,))
def begins_once(subject: Subject, case: TextCase) -> Comparisons:
    """The token of the beginning stands first and not twice, whether the text spells it or not."""
    t = asked(subject)
    names = ["", *(name for name, i in t.special.items() if i == t.begin)]
    for text in (name + case.text for name in names):
        first = [i == t.begin for i in t.encode(text, special=True)[:2]]
        yield alike(f"the beginning of the ids of {shown(text)}, asked for, ", [*first, False][:2], [True, False])


@checks(
    spec.PADDED_TABLE, ONCE, needs=TOKENISER, mistakes=(spec.VOCABULARY_ROUNDED_UP, spec.IDS_IN_16_BITS),
)  # fmt: skip
def every_id_is_reached(subject: Subject, case: TextCase) -> Comparisons:
    """A text is found for every id of the vocabulary but those that are declared unreachable."""
    t = tokens(subject, "vocabulary")
    missing = unreached(t)
    yield same(f"ids that no text was found to have, {shown(missing[:8])} the first, ", len(missing), 0)
