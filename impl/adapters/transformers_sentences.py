"""A trained encoder of sentences with its tokeniser, from a folder; word order can be taken from it."""

import os
from functools import cached_property
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when transformers is imported

import numpy as np
import torch
import transformers

from gnomon.impl.adapters.transformers_checkpoint import Checkpoint
from gnomon.impl.adapters.transformers_models import Model
from gnomon.spec.configuration import Configuration

Array = np.ndarray[Any, np.dtype[Any]]


class Encoder:
    """The encoder in float64, as it was trained and with the vectors of its positions set to zero."""

    def __init__(self, folder: str) -> None:
        self.checkpoint = Checkpoint(folder)
        self.checkpoint.require_tensors()
        self.tokeniser = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )

    @property
    def configuration(self) -> Configuration:
        """Its shape."""
        return self.checkpoint.configuration

    @cached_property
    def parameters(self) -> dict[str, Array]:
        """Its parameters by our names."""
        return self.checkpoint.parameters()

    def ids(self, sentence: str) -> Array:
        """The token ids of a sentence, what marks its beginning and end included."""
        return np.array(self.tokeniser(sentence)["input_ids"])

    def pieces(self, ids: Array) -> list[str]:
        """What the ids stand for."""
        return list(self.tokeniser.convert_ids_to_tokens(ids.tolist()))

    def outputs(self, ids: Array, positions: bool) -> Array:
        """The last stream `[rows, time, width]` for rows of ids, with positions or without."""
        model = self.trained if positions else self.unplaced
        return model(torch.from_numpy(ids)).numpy()

    @cached_property
    def trained(self) -> Model:
        """The model as transformers loads it."""
        return self.checkpoint.loaded(torch.float64, "eager")

    @cached_property
    def unplaced(self) -> Model:
        """The same model, every row of its table of positions zero."""
        own = {name: torch.from_numpy(p) for name, p in self.parameters.items()}
        nothing = torch.zeros_like(own["position_embedding"])
        return self.checkpoint.family.model(self.configuration, {**own, "position_embedding": nothing})
