"""A trained model from the folder of its checkpoint, as transformers loads it: offline, no foreign code, no pickle."""

import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when transformers is imported

import torch
import transformers
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gnomon.impl.adapters import transformers_models
from gnomon.impl.adapters.transformers_models import Decoder, Family, Model, family_of
from gnomon.impl.adapters.transformers_weights import names, state
from gnomon.impl.declaration import Declaration, Held
from gnomon.impl.loading import CannotLoad, Implementation
from gnomon.spec.configuration import Configuration
from gnomon.spec.shapes import parameter_shapes

SAFETENSORS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle")
# What older versions saved beside the parameters, and the families compute for themselves.
BUFFERS = re.compile(r"(^|\.)(position_ids|rotary_emb\.inv_freq|(attn|attention)\.(bias|masked_bias))$")
_MANY = 3  # names in a sentence

Shapes = dict[str, tuple[int, ...]]


def implementation(target: str) -> Implementation:
    """The model in the folder as an implementation of nothing but itself."""
    checkpoint = Checkpoint(target)
    checkpoint.require_tensors()
    family, c = checkpoint.family, checkpoint.configuration
    held = Held(
        vocabulary=c.vocabulary, causal=c.causal, context=max(0, c.positions - c.position_offset),
        positions=c.position_kind, outputs=c.vocabulary if c.output == "logits" else c.width, configuration=c,
        parameters=checkpoint.parameters, code=checkpoint.code,
    )  # fmt: skip
    declaration = Declaration(
        framework="torch", dtypes=("float64", "float32") if family.wide else ("float32",), families=(family.name,),
        fixed=held,
    )  # fmt: skip
    paths = {"model": {"eager": checkpoint.model_eager}} if family.fused else {}
    return Implementation(target, declaration, {"model": checkpoint.model}, paths, target)


@dataclass(eq=False)
class Checkpoint:
    """A folder with `config.json` and weights; what is wrong with it is one sentence."""

    target: str
    networks: dict[tuple[str, str], Model] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder itself."""
        return Path(self.target)

    # What it says.

    @cached_property
    def given(self) -> dict[str, Any]:
        """Its `config.json`, of a model whose code is in transformers."""
        path = self.folder / "config.json"
        if not path.is_file():
            raise CannotLoad(f"{self.target} has no config.json: a checkpoint's folder holds one beside its weights")
        given = self.read_json(path)
        if "auto_map" in given:
            raise CannotLoad(f"{path} names code of its own (auto_map), which is not run")
        if "quantization_config" in given:
            raise CannotLoad(f"{path} says that the weights are quantised: only those of floating point can be checked")
        return given

    def read_json(self, path: Path) -> dict[str, Any]:
        """The object in a file."""
        try:
            given = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise CannotLoad(f"{path} is not a JSON file: {error}") from error
        if not isinstance(given, dict):
            raise CannotLoad(f"{path} holds no JSON object")
        return given

    @cached_property
    def hugging(self) -> Any:
        """Their configuration."""
        kind = self.given.get("model_type")
        known = [family.name.replace("-", "_") for family in transformers_models.ALL]
        if kind not in known:
            raise CannotLoad(f"{self.target} is of the family {kind!r}; known are {', '.join(known)}")
        try:
            return transformers.AutoConfig.from_pretrained(self.target, local_files_only=True, trust_remote_code=False)
        except Exception as error:
            raise CannotLoad(f"{self.target}/config.json makes no {kind}: {_said(error)}") from error

    @cached_property
    def family(self) -> Family:
        """The family."""
        return family_of(self.hugging)

    @cached_property
    def configuration(self) -> Configuration:
        """The configuration in our words."""
        try:
            return self.family.configuration_of(self.hugging)
        except (NotImplementedError, ZeroDivisionError, TypeError) as error:
            raise CannotLoad(f"{self.target} is a model that has no description here: {_said(error)}") from error

    # What it holds.

    @cached_property
    def files(self) -> dict[str, Path]:
        """The file of every tensor; the index says which where there are several."""
        index, whole = self.folder / INDEX, self.folder / SAFETENSORS
        if index.is_file():
            shards = self.read_json(index).get("weight_map")
            if not isinstance(shards, dict):
                raise CannotLoad(f"{index} has no weight_map")
            return {name: self.folder / Path(str(shard)).name for name, shard in shards.items()}
        if whole.is_file():
            return dict.fromkeys(self.opened(whole), whole)
        pickles = sorted(p.name for pattern in PICKLES for p in self.folder.glob(pattern))
        if pickles:
            raise CannotLoad(
                f"{self.target} has its weights in {pickles[0]} alone, a pickle, which can run code and is not read: "
                "save it again with safe_serialization=True"
            )
        raise CannotLoad(f"{self.target} has neither {SAFETENSORS} nor {INDEX}")

    def opened(self, path: Path) -> Shapes:
        """The shape of every tensor in a file, read from its head."""
        if not path.is_file():
            raise CannotLoad(f"{self.folder / INDEX} names {path.name}, which is not there")
        try:
            with safe_open(path, "pt") as tensors:
                return {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise CannotLoad(f"{path} can not be read: {_said(error)}") from error

    @cached_property
    def shapes(self) -> Shapes:
        """The shape of every tensor that is there."""
        found: Shapes = {}
        for path in dict.fromkeys(self.files.values()):
            found |= self.opened(path)
        return {name: found[name] for name in self.files if name in found}

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor that is there."""
        found: dict[str, Tensor] = {}
        for path in dict.fromkeys(self.files.values()):
            with safe_open(path, "pt") as tensors:
                found |= {name: tensors.get_tensor(name) for name in self.shapes if self.files[name] == path}
        return found

    # Whether that is what it says.

    def due(self) -> Shapes:
        """The shape of every tensor that there should be, names without the base's prefix."""
        c = self.configuration
        empty = {name: torch.empty(shape, device="meta") for name, shape in parameter_shapes(c).items()}
        return {name: tuple(t.shape) for name, t in state(names(self.family.name, c), c, empty, "").items()}

    def require_tensors(self) -> None:
        """Nothing missing, nothing left over, nothing of another shape."""
        base, due = f"{names(self.family.name, self.configuration).base}.", self.due()
        named = {n.removeprefix(base): n for n in self.shapes if not BUFFERS.search(n)}
        spare = {"lm_head.weight"} if self.configuration.tied else set()
        self._refuse("lacks", [n for n in due if n not in named and n not in spare])
        self._refuse("has tensors that its config.json does not call for:",
                     [own for n, own in named.items() if n not in due | self.pooler])  # fmt: skip
        found = {n: self.shapes[named[n]] for n in due if n in named}
        odd = [f"{named[n]} {list(s)} where {list(due[n])} is due" for n, s in found.items() if s != due[n]]
        self._refuse("has tensors of another shape:", odd)

    @property
    def pooler(self) -> Shapes:
        """A layer that a sequence's first token may go through, which nobody asks for here."""
        width = self.configuration.width
        return {"pooler.dense.weight": (width, width), "pooler.dense.bias": (width,)} if self.family.pools else {}

    def _refuse(self, what: str, wrong: list[str]) -> None:
        more = f" and {len(wrong) - _MANY} more" if len(wrong) > _MANY else ""
        if wrong:
            raise CannotLoad(f"{self.target} {what} {', '.join(wrong[:_MANY])}{more}")

    def parameters(self) -> dict[str, Any]:
        """What it holds by our names, exact in float64."""
        own = self.family.canonical(self.tensors(), self.configuration)
        return {name: tensor.to(torch.float64).numpy() for name, tensor in own.items()}

    # The model.

    def model(self, configuration: Any, parameters: Mapping[str, Tensor]) -> Model:
        """The model as transformers loads it, in the dtype of the parameters, which are not read."""
        return self.loaded(_dtype(parameters), "sdpa" if self.family.fused else "eager")

    def model_eager(self, configuration: Any, parameters: Mapping[str, Tensor]) -> Model:
        """The same with attention written out step by step."""
        return self.loaded(_dtype(parameters), "eager")

    def loaded(self, dtype: torch.dtype, attention: str) -> Model:
        """The model, loaded once."""
        key = str(dtype), attention
        if key not in self.networks:
            kind = Decoder if self.configuration.causal else Model
            self.networks[key] = kind(self.family, self.configuration, self._network(dtype, attention).eval())
        return self.networks[key]

    def _network(self, dtype: torch.dtype, attention: str) -> Any:
        logits = self.configuration.output == "logits"
        auto: Any = transformers.AutoModelForCausalLM if logits else transformers.AutoModel
        try:
            network, told = auto.from_pretrained(
                self.target, local_files_only=True, trust_remote_code=False, use_safetensors=True, dtype=dtype,
                attn_implementation=attention, output_loading_info=True,
            )  # fmt: skip
        except Exception as error:
            raise CannotLoad(f"transformers can not load {self.target}: {_said(error)}") from error
        drawn = [n for n in sorted(told["missing_keys"]) if not re.search(r"(^|\.)pooler\.", n)]
        self._refuse("is loaded by transformers without", drawn)
        return network

    def code(self, dtype: str, options: Collection[str]) -> tuple[tuple[str, ...], str]:
        """Lines that load the model, and the call."""
        auto, given = ("AutoModelForCausalLM", "logits") if self.configuration.output == "logits" else (
            "AutoModel", "last_hidden_state"
        )  # fmt: skip
        theirs = {"positions": "position_ids", "mask": "attention_mask"}
        lines = (
            "import transformers",
            f"model = transformers.{auto}.from_pretrained({self.target!r}, dtype=torch.{dtype})",
        )
        told = "".join(f", {theirs.get(n, n)}={n}" for n in options)
        return lines, f"model(input_ids=tokens{told}).{given}"


def _dtype(parameters: Mapping[str, Tensor]) -> torch.dtype:
    return next(iter(parameters.values())).dtype


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
