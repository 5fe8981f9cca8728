"""SentencePiece trained here: byte-pair encoding that falls back to bytes, and plain Unigram as it comes."""

import io
from collections.abc import Sequence
from typing import Any

import sentencepiece

from gnomon.impl.adapters.text_corpus import Part, lines
from gnomon.impl.loading import CannotLoad

VOCABULARY = 600
SPACE = "▁"  # by which the library writes a space
NEVER = (0xC0, 0xC1, *range(0xF5, 0x100))  # bytes that no UTF-8 has


class Text:
    """A processor by our names. It can not be asked for control symbols in a text."""

    def __init__(self, own: sentencepiece.SentencePieceProcessor, *, lossless: bool = False, normalises: bool = True):
        self.own, self.lossless = own, lossless
        self.vocabulary = own.get_piece_size()
        ids = range(self.vocabulary)
        self.special = {own.id_to_piece(i): i for i in ids if own.is_control(i)}
        self.normalise = self._normalised if normalises else None
        self.unreachable = set(self.special.values()) | {i for i in ids if own.is_byte(i) and self._never(i)}
        if any(own.is_byte(i) for i in ids):
            self.unreachable.add(own.unk_id())

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        ids: list[int] = self.own.encode(text)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids."""
        text: str = self.own.decode(list(ids))
        return text

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where each piece stands in the text; the library counts bytes."""
        data = text.encode()
        pieces = self.own.encode(text, return_type="proto").pieces
        return [(len(data[: p.begin].decode()), len(data[: p.end].decode())) for p in pieces]

    def _normalised(self, text: str) -> str:
        return str(self.own.normalize(text)).replace(SPACE, " ")

    def _never(self, i: int) -> bool:
        """Whether no character is written with the byte: it is none of UTF-8, or its character has a piece."""
        byte = int(self.own.id_to_piece(i)[3:5], 16)
        piece = SPACE if byte == ord(" ") else chr(byte)
        return byte in NEVER or (byte < 128 and self.own.piece_to_id(piece) != self.own.unk_id())


def load(path: str) -> Text:
    """The tokeniser that a model file holds."""
    try:
        return Text(sentencepiece.SentencePieceProcessor(model_file=path))
    except (OSError, RuntimeError) as error:
        raise CannotLoad(f"{path} is no model that sentencepiece can read: {' '.join(str(error).split())}") from error


def _trained(**options: Any) -> sentencepiece.SentencePieceProcessor:
    """A processor with a model trained on the corpus."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines(120_000)), model_writer=model, vocab_size=VOCABULARY, minloglevel=2,
        num_threads=1, **options,
    )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def _byte_fallback() -> Text:
    own = _trained(
        model_type="bpe", byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=False,
        remove_extra_whitespaces=False,
    )  # fmt: skip
    return Text(own, lossless=True, normalises=False)


def _plain() -> Text:
    return Text(_trained(model_type="unigram"))


byte_fallback, plain = Part(_byte_fallback), Part(_plain)
