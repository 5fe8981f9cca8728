"""Tokenisers: what they may lack, what is said of wrong ones, that right ones hold, and what the command prints."""

import json
import random
from importlib import import_module
from types import SimpleNamespace

import pytest
from commanding import gnomon, python

from gnomon.impl import Declaration
from gnomon.impl.faults import faults
from gnomon.impl.loading import CannotLoad, described, load
from gnomon.impl.reference import NumpyReference
from gnomon.impl.tokenisers import tokeniser_of
from gnomon.props.cases import MalformedCase, read_case
from gnomon.props.engine import Budget, examine
from gnomon.props.outcome import Declined, ImplementationFailed, Status
from gnomon.props.property import properties
from gnomon.props.segmenting import CHANGES, PROBES, confusions, differing, not_a_sum, parts, unreached
from gnomon.props.subject import Subject
from gnomon.props.tokenising import FRAGMENTS, BytePairCase, TextCase, alike, tokens
from gnomon.spec.catalogue import find

FEW = Budget(cases=20, shrink=False, sensitivity=False)
OF_TOKENISERS = [p for p in properties() if p.needs == ("tokeniser",)]


class Bytes:
    """Every byte is a token."""

    vocabulary, lossless = 256, True

    def encode(self, text):
        return list(text.encode())

    def decode(self, ids):
        return bytes(ids).decode("utf-8", "replace")


def implementation(made):
    thing = SimpleNamespace(tokeniser=lambda: made, declaration=Declaration(dtypes=("float64",), families=()))
    return described("mine", thing, "mine:mine")


def watched(made):
    return tokens(Subject(implementation(made), "float64"))


def verdicts(made, budget=FEW):
    subject = Subject(made if hasattr(made, "operations") else implementation(made), "float64")
    return {p.name: examine(p, subject, budget) for p in OF_TOKENISERS}


def broken(found):
    return {name: v.message for name, v in found.items() if v.status in (Status.VIOLATED, Status.ERROR)}


# Cases.


@pytest.mark.parametrize("text", [*FRAGMENTS, "", ",=%'\"", "\ud800", "text=a,before=b"], ids=ascii)
def test_a_case_is_read_back_as_it_prints(text):
    case = TextCase(text=text, before=text[::-1], number=len(text))
    assert read_case(str(case)) == case
    assert str(case).isascii()
    assert "'" not in str(case)


@pytest.mark.parametrize("text", ["text,texts=a", "text,number=-1", "text,number=x", "bytepair,letters=0"])
def test_a_malformed_case_is_refused(text):
    with pytest.raises(MalformedCase):
        read_case(text)


def test_sequences_are_compared_to_their_ends():
    assert alike("x", "ab", "ab").holds
    assert not alike("x", "ab", "abc").holds
    assert not alike("x", [], [0]).holds
    assert str(alike("what came back of 'abc'", "ab", "abc")) == (
        "what came back of 'abc': 'ab' where 'abc' is due, [2]: got -1, wanted 99 ± 0"
    )


# What may be lacking.


def test_what_is_not_there_is_unsupported():
    found = verdicts(SimpleNamespace(encode=lambda text: list(text.encode())))
    assert broken(found) == {}
    assert found["ids_in_the_vocabulary"].message == "its tokeniser has no vocabulary"
    assert found["text_comes_back"].message == "its tokeniser has no decode"
    assert found["streams_join"].message == "its tokeniser has no stream"
    assert found["special_unasked"].message == "its tokeniser names no special tokens"
    assert found["parts_are_encoded_otherwise"].message == "every text tried has the ids of its characters in a row"
    assert found["same_ids_again"].status is Status.HOLDS


def test_what_declares_nothing_is_not_held_to_it():
    made = Bytes()
    made.lossless = False
    found = verdicts(made)
    assert found["text_comes_back"].message == "its tokeniser does not declare itself lossless"
    assert found["text_comes_back"].status is Status.UNSUPPORTED


# What is wrong.

WRONG = {
    "encode gave 'abc' for 'abc' where a list of whole numbers is due": {"encode": lambda text: text},
    "encode gave None for 'abc' where a list of whole numbers is due": {"encode": lambda text: None},
    "encode gave [1.5] for 'abc' where a list of whole numbers is due": {"encode": lambda text: [1.5]},
    "encode raised ValueError: no such text for 'abc'": {"encode": lambda text: int_of(text)},
    "decode gave b'abc' for [97, 98, 99] where text is due": {"decode": bytes},
    "decode raised TypeError for [97, 98, 99]": {"decode": lambda ids: raising(TypeError)},
    "stream gave 97 for [97, 98, 99] where text is due": {"stream": lambda ids: iter(ids)},
    "vocabulary is 'many' where a whole number is due": {"vocabulary": "many"},
    "special is ['<s>'] where a mapping from texts to ids is due": {"special": ["<s>"]},
    "the special token <s> is '1' where a whole number is due": {"special": {"<s>": "1"}},
    "merges begins with [('a', 'b')] where pairs of bytes are due": {"merges": [("a", "b")]},
    "decode_bytes gave 'abc' for [97, 98, 99] where bytes are due": {"decode_bytes": lambda ids: bytes(ids).decode()},
}


def int_of(text):
    raise ValueError("no such text")


def raising(error):
    raise error


@pytest.mark.parametrize("told", WRONG)
def test_what_is_wrong_is_said_in_one_sentence(told):
    made = Bytes()
    vars(made).update(WRONG[told])
    with pytest.raises(ImplementationFailed) as failed:
        all_asked(watched(made))
    assert str(failed.value) == told


def all_asked(t):
    """Everything that it has is asked for once."""
    ids = t.encode("abc")
    for member in ("stream", "decode", "decode_bytes"):
        if t.has(member):
            getattr(t, member)(ids)
    for member in ("vocabulary", "special", "merges"):
        if t.has(member):
            getattr(t, member)


def test_a_text_in_a_message_is_cut():
    made = Bytes()
    made.encode = int_of
    with pytest.raises(ImplementationFailed, match=r"no such text for 'a{59}…$"):
        watched(made).encode("a" * 10**6)


def test_what_is_no_tokeniser_is_said():
    with pytest.raises(ImplementationFailed, match=r"^tokeniser returned something of type int, which has no method"):
        watched(3)


def test_a_method_that_declines_is_unsupported():
    made = Bytes()
    made.decode = lambda ids: raising(NotImplementedError("one way only"))
    with pytest.raises(Declined, match=r"^one way only$"):
        watched(made).decode([1])


# Right ones hold, whatever they are like.


class Words:
    """Known words, characters and one token for all else; ids in any order, two special tokens among them."""

    def __init__(self, rng):
        known = rng.sample(sorted({w for f in FRAGMENTS for w in f.split() if len(w) > 1}), 20)
        names = ["", *known, *"abcdefghijklmnopqrstuvwxyz ", "<s>", "</s>"]
        rng.shuffle(names)
        self.id_of = {name: i for i, name in enumerate(names)}
        self.names, self.vocabulary = names, len(names)
        self.special = {name: self.id_of.pop(name) for name in ("<s>", "</s>")}
        self.begin, self.longest = self.special["<s>"], max(map(len, self.id_of))
        # A word that is made of others is not reached, for the shortest is taken first.
        self.unreachable = [i for name, i in self.id_of.items() if len(name) > 1 and self._first(name) != name]

    def _first(self, text):
        return next((text[:n] for n in range(1, min(self.longest, len(text)) + 1) if text[:n] in self.id_of), "")

    def encode(self, text, *, special=False):
        if special:
            text = text.removeprefix("<s>")
            parts = text.split("</s>")
            ids = [self.begin]
            for place, part in enumerate(parts):
                inner = [[*self.encode(p), self.begin] for p in part.split("<s>")]
                ids += ([self.special["</s>"]] if place else []) + [i for p in inner for i in p][:-1]
            return ids
        ids = []
        while text:
            word = self._first(text)
            ids.append(self.id_of[word])
            text = text[len(word) or 1 :]
        return ids

    def decode(self, ids):
        return "".join(self.names[i] or "?" for i in ids)

    def stream(self, ids, *, prompt=()):
        return [self.decode([i]) for i in ids]


class Folded(Bytes):
    """Small letters only, and it says so."""

    def normalise(self, text):
        return text.casefold()

    def encode(self, text):
        return list(self.normalise(text).encode())


class Split(NumpyReference):
    """Another rule of words, declared as such."""

    def words_of(self, text):
        return [text[i : i + 3] for i in range(0, len(text), 3)]


def split_in_threes():
    made = Split().tokeniser()
    made.split = Split().words_of
    made.unreachable = set(range(256, 2**16))  # which of the merges are left to be reached is of no interest here
    return made


@pytest.mark.parametrize("seed", range(4))
def test_word_tokenisers_hold(seed):
    found = verdicts(Words(random.Random(seed)))
    assert broken(found) == {}
    held = {name for name, v in found.items() if v.status is Status.HOLDS}
    assert held >= {"ids_in_the_vocabulary", "same_ids_again", "special_unasked", "special_asked", "begins_once"}
    assert held >= {"streams_join", "streams_go_on", "every_id_is_reached"}


@pytest.mark.parametrize("make", [Bytes, Folded, split_in_threes])
def test_other_right_tokenisers_hold(make):
    made = make()
    if make is not split_in_threes:
        made.unreachable = [0xC0, 0xC1, *range(0xF5, 0x100)]
    if make is Folded:
        made.unreachable = [*made.unreachable, *range(ord("A"), ord("Z") + 1)]
    found = broken(verdicts(made))
    if make is split_in_threes:
        assert set(found) <= {"every_id_is_reached"}
        return
    assert found == {}


def test_the_reference_holds():
    found = verdicts(load("numpy"), Budget(cases=60))
    assert {name: v.status for name, v in found.items() if v.status is not Status.HOLDS} == {}


# Searches.


def test_a_shortest_text_that_is_cut_otherwise_is_found():
    numpy = tokens(Subject(load("numpy"), "float64"))
    plain = watched(Bytes())
    cut = differing(numpy, plain, parts("the 127 words"))
    assert (cut.text, cut.one, cut.other) == ("th", (b"th",), ("t", "h"))
    assert differing(plain, plain, parts("the 127 words")) is None
    assert parts("aab") == ["a", "b", "aa", "ab", "aab"]


def test_each_change_is_made_in_some_probe():
    assert [name for name, change in CHANGES.items() if all(change(text) == text for text in PROBES)] == []


def test_what_is_confused_has_the_same_ids():
    made = Folded()
    found = {c.difference: (c.one, c.other) for c in confusions(watched(made))}
    assert found["a capital letter and a small one"] == ("A", "a")
    assert "one space and two" not in found
    assert all(made.encode(one) == made.encode(other) and one != other for one, other in found.values())
    assert confusions(watched(Bytes())) == []


def test_two_texts_are_found_whose_ids_do_not_add_up():
    numpy = tokens(Subject(load("numpy"), "float64"))
    one, other = not_a_sum(numpy, ["the", "that then"])
    assert numpy.encode(one) + numpy.encode(other) != numpy.encode(one + other)
    assert not_a_sum(watched(Bytes()), FRAGMENTS) is None


def test_ids_that_nothing_has_are_found():
    made = Bytes()
    assert unreached(watched(made)) == [0, 0xC0, 0xC1, *range(0xF5, 0x100)][1:]
    larger = Bytes()
    larger.vocabulary, larger.unreachable = 260, [0xC0, 0xC1, *range(0xF5, 0x100)]
    assert unreached(watched(larger)) == [256, 257, 258, 259]


# Real ones.

VIOLATED = {
    "tokenizers:byte-level": {"streams_go_on"},  # F41
    "tokenizers:wordpiece": set(),
    "tokenizers:unigram": {"special_unasked"},  # F42
    "tokenizers:minilm": set(),
    "tiktoken": {"no_text_is_refused"},  # F40
    "sentencepiece:byte-fallback": {"text_comes_back", "lossless_tells_apart"},  # F43
    "sentencepiece:plain": set(),
}


@pytest.mark.parametrize("name", VIOLATED)
def test_the_verdicts_on_libraries(name):
    pytest.importorskip(name.partition(":")[0])
    found = verdicts(load(name), Budget(cases=60, shrink=False))
    assert {n for n, v in found.items() if v.status is Status.VIOLATED} == VIOLATED[name]
    assert {n: v.message for n, v in found.items() if v.status in (Status.ERROR, Status.INSENSITIVE)} == {}


def test_minilm_declares_what_cannot_be_reached():
    t = pytest.importorskip("gnomon.impl.adapters.tokenizers_text").minilm.tokeniser()
    names = {t.by_id[i] for i in t.unreachable}
    assert {"[unused0]", "...", "##!", "##人"} <= names
    assert not {"the", "##ing", "人", "[UNK]"} & names


# Faults.


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [f for f in faults() if f.clause.number.startswith("III.1.") and not f.mistake.whole],
    ids=lambda f: f.mistake.slug,
)
def test_a_fault_of_tokens_breaks_no_other_promise_by_a_crash(fault):
    """It is wrong, and it runs: what it is rejected by is a comparison."""
    if "tokeniser" not in fault.implementation.operations or fault.clause.number == "III.1.7":
        return
    found = verdicts(fault.implementation, Budget(cases=10, shrink=False, sensitivity=False))
    assert {n: v.message for n, v in found.items() if v.status is Status.ERROR} == {}


# The command.

MINE = """
class Upper:
    vocabulary, lossless, special = 0x110000, True, {"<end>": 3}

    def encode(self, text, *, special=False):
        return [ord(c) for c in text.upper()]

    def decode(self, ids):
        return "".join(map(chr, ids))


class Picky(Upper):
    def encode(self, text):
        if not text.isascii():
            raise KeyError("no such letter")
        return [ord(c) for c in text]


def load():
    return Upper()


def picky():
    return Picky()


def fails():
    raise RuntimeError("the file is elsewhere")


three = 3
nothing = lambda: None
"""

REFUSED = {
    "mine:fails": "mine:fails raised RuntimeError: the file is elsewhere",
    "mine:nothing": "mine:nothing gave something of type NoneType, which has no method encode",
    "mine:three": "mine:three is of type int: a function that returns a tokeniser is due",
    "mine:four": "the module mine has no four: check the name after the colon",
    "./empty.py": "./empty.py has no function load: name the one that returns the tokeniser, as in ./empty.py:load",
    "./nowhere.py": "there is no file nowhere.py: give the path of a Python file, or the name of a module",
    "nowhere:load": "there is no module 'nowhere' and no file nowhere:load: a tokeniser is given as "
    "module:function, as ./file.py:function or as a tokenizer.json",
    "nowhere.json": "there is no file nowhere.json: a tokeniser is given by its tokenizer.json or as module:function",
    "folder": "there is no file folder/tokenizer.json: a tokeniser is given by its tokenizer.json or as",
    "broken.json": "broken.json is no tokenizer.json that tokenizers can read: ",
    "broken.model": "broken.model is no model that sentencepiece can read: ",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "broken.json").write_text('{"version": "1.0"')
    (tmp_path / "broken.model").write_bytes(b"\x00\x01")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("target", REFUSED)
def test_what_can_not_be_loaded_is_said_in_one_sentence(target, folder):
    with pytest.raises(CannotLoad) as refused:
        tokeniser_of(target)
    assert str(refused.value).startswith(REFUSED[target])
    assert "\n" not in str(refused.value)


def test_the_command_refuses_in_one_sentence(folder):
    ran = gnomon("check-tokenizer", "mine:fails", "--quick", "--workers", "1", cwd=folder)
    assert (ran.code, ran.err) == (3, "")
    assert ran.out == (
        "cannot run mine:fails raised RuntimeError: the file is elsewhere\n"
        "mine:fails cannot be checked: mend the above first\n"
    )


def test_a_clause_of_something_else_is_refused(folder):
    ran = gnomon("check-tokenizer", "mine:load", "--clause", "V.4.1", cwd=folder)
    assert ran.code == 2
    assert "V.4.1 says nothing of a tokeniser" in " ".join(ran.err.split())


def test_a_tokeniser_of_the_users_is_judged_and_measured(folder):
    lines = folder / "lines.jsonl"
    ran = gnomon(
        "check-tokenizer", "mine:load", "--cases", "20", "--workers", "1", "--json", str(lines), cwd=folder, jsonl=lines
    )
    assert (ran.code, ran.err) == (1, "")
    assert ran.statuses["III.1.1"] == "holds"
    assert ran.statuses["III.1.2"] == ran.statuses["III.1.6"] == "violated"
    assert set(ran.statuses) == {"III.1.1", "III.1.2", "III.1.3", "III.1.4", "III.1.5", "III.1.6", "III.1.10"}
    told = {line[:32].strip(): line[32:].strip() for line in ran.out.splitlines()}
    assert told["digits"].endswith("1234567 is 1 | 2 | 3 | 4 | 5 | 6 | 7")
    assert told["texts it raises on"].endswith(f"none of {len(FRAGMENTS)}")
    assert "'a' came back as 'A'" in told["lossless"]
    assert told["special tokens"].endswith("not taken from text; asked for, not taken: <end>")
    replay = next(line for line in ran.out.splitlines() if "replay: " in line and "text_comes_back" in line)
    assert "gnomon check-tokenizer mine:load --clause III.1.2 --case 'text_comes_back:text'" in replay
    again = gnomon("check-tokenizer", "mine:load", "--clause", "III.1.2", "--case", "text_comes_back:text",
                   "--workers", "1", cwd=folder)  # fmt: skip
    assert again.code == 1
    code = ran.out.partition("print(t.decode(t.encode('<end>')))")[0].rpartition("by hand:")[2]
    alone = python(
        "-c", "\n".join(line.strip() for line in code.splitlines()) + "print(t.decode(t.encode('<end>')))", cwd=folder
    )
    assert alone.out == "<END>\n"


def test_a_tokeniser_that_raises_on_some_text_is_told(folder):
    ran = gnomon("check-tokenizer", "mine:picky", "--clause", "III.1.1", "--quick", "--workers", "1", cwd=folder)
    assert ran.code == 3
    assert "encode raised KeyError: 'no such letter' for " in ran.out
    assert "could not be judged by mine:picky" in ran.out
    assert "Traceback" not in ran.out + ran.err


def test_a_tokenizer_json_is_judged(folder):
    tokenizers = pytest.importorskip("tokenizers")
    adapter = pytest.importorskip("gnomon.impl.adapters.tokenizers_text")
    adapter.byte_level.tokeniser().own.save(str(folder / "folder" / "tokenizer.json"))
    for target in ("folder", "folder/tokenizer.json"):
        made = tokeniser_of(target).operations["tokeniser"]()
        assert (made.vocabulary, made.lossless, made.special) == (600, True, {"<|end|>": 0})
    assert json.loads((folder / "folder" / "tokenizer.json").read_text())["version"] == "1.0"
    padded = tokenizers.Tokenizer.from_file("folder/tokenizer.json")
    padded.enable_padding(length=9)
    padded.enable_truncation(4)
    assert adapter.Text(padded).decode(adapter.Text(padded).encode("a longer text")) == "a longer text"


@pytest.mark.parametrize("name", ["tokenizers:byte-level", "tiktoken", "sentencepiece:plain"])
def test_what_a_library_makes_is_taken_as_it_is(name, folder):
    pytest.importorskip(name.partition(":")[0])
    own = load(name).operations["tokeniser"]()
    theirs = f"theirs_{name.partition(':')[0]}"  # a module is imported once
    (folder / f"{theirs}.py").write_text("own = None\n\n\ndef load():\n    return own\n")
    import_module(theirs).own = own.own
    made = tokeniser_of(theirs).operations["tokeniser"]()
    assert type(made) is type(own)
    assert made.encode("some text") == own.encode("some text")


def test_every_clause_of_tokenisers_is_asked():
    assert {p.clause.number for p in OF_TOKENISERS} == {
        n for n in ("III.1.1", "III.1.2", "III.1.3", "III.1.4", "III.1.5", "III.1.6", "III.1.10") if find(n)
    }
    assert read_case(str(BytePairCase(seed=3, letters=2))) == BytePairCase(seed=3, letters=2)
