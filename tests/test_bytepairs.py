"""Byte-pair encoding as it is defined, beside how it is computed: every short word under every list of merges."""

from itertools import pairwise, product

import pytest

from gnomon.impl.reference import NumpyReference
from gnomon.spec import bytepairs
from gnomon.spec.bytepairs import TOY_CORPUS, TOY_MERGES, encode, marked, merge, proper, train

NUMPY = NumpyReference()
LETTERS = "ab"
WORDS = [word for size in range(7) for word in product(LETTERS, repeat=size)]


def lists(size, symbols=LETTERS, merges=()):
    """Every proper list of so many merges over the letters."""
    if not size:
        yield merges
        return
    for left, right in product(symbols, repeat=2):
        if left + right not in symbols:
            yield from lists(size - 1, (*symbols, left + right), (*merges, (left, right)))


def one_at_a_time(word, merges):
    """The leftmost of the pairs of lowest rank is joined, until none is left."""
    word = list(word)
    while True:
        ranks = [(merges.index(pair), i) for i, pair in enumerate(pairwise(word)) if pair in merges]
        if not ranks:
            return word
        _, i = min(ranks)
        word[i : i + 2] = [word[i] + word[i + 1]]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_proper_list_means_the_same_however_it_is_applied(size):
    for merges in lists(size):
        assert proper(merges, set(LETTERS))
        for word in WORDS:
            due = encode(word, merges)
            assert one_at_a_time(word, merges) == due, (word, merges)
            assert NUMPY.encode_byte_pairs(word, merges) == due, (word, merges)


def test_a_list_that_is_not_proper_does_not():
    merges = [("ab", "a"), ("a", "b")]
    assert not proper(merges, set("ab"))
    assert encode("aba", merges) == ["ab", "a"]
    assert one_at_a_time("aba", merges) == ["aba"]


def test_the_merges_of_the_paper():
    assert train(TOY_CORPUS, 10) == list(TOY_MERGES)
    assert NUMPY.train_byte_pairs(TOY_CORPUS, 10) == list(TOY_MERGES)
    assert " ".join(encode([*"lowest", "</w>"], TOY_MERGES)) == "low est</w>"  # a word that the corpus has not


def test_every_small_corpus_is_learned_alike():
    short = [word for word in WORDS if 1 < len(word) < 5]
    for first, second in product(short[::2], short[::3]):
        corpus = {first: 2, second: 3}
        for mark in ("", "##"):
            assert NUMPY.train_byte_pairs(corpus, 5, continuation=mark) == train(corpus, 5, mark), corpus


def test_no_more_is_learned_than_there_is():
    assert train({("a", "b"): 1}, 9) == NUMPY.train_byte_pairs({("a", "b"): 1}, 9) == [("a", "b")]
    assert train({("a",): 1}, 9) == train({}, 9) == []


@pytest.mark.parametrize(
    ("word", "due"), [("aaa", ["aa", "a"]), ("aaaa", ["aa", "aa"]), ("baa", ["b", "aa"]), ("", [])]
)
def test_runs_are_joined_from_the_left(word, due):
    assert merge(word, ("a", "a")) == due


def test_continuations_are_marked_once():
    assert marked("abc", "##") == ["a", "##b", "##c"]
    assert bytepairs.joined("a", "##b", "##") == "ab"
    assert bytepairs.joined("##b", "##c", "##") == "##bc"
    assert encode(marked("abc", "##"), [("##b", "##c"), ("a", "##bc")], "##") == ["abc"]
