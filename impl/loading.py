"""From what a user types to an implementation: an installed name, a file, a module, or an object in one."""

import difflib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from gnomon.impl.declaration import Declaration
from gnomon.impl.frameworks import imported_by

COUNTS = (
    "parameter_count",
    "score_bytes",
    "cache_bytes",
    "crossing_length",
    "path_length",
    "operation_count",
    "traffic",
)
# Of rows of a table and scores on them.
TABLES = (
    "split_rows",
    "pipeline",
    "protocol",
    "score_record",
    "compare_scores",
    "gap",
    "split_difference",
    "token_windows",
    "continuation_score",
    "worksheet",
)
OPERATIONS = (
    "linear",
    "relu",
    "gelu",
    "gelu_tanh",
    "silu",
    "softmax",
    "attention",
    "multi_head_attention",
    "feed_forward",
    "embedding",
    "layer_norm",
    "rms_norm",
    "rope",
    "sinusoidal_positions",
    "alibi_slopes",
    "block",
    "model",
    "convolution",
    "recurrence",
    "vjp",
    "evaluate",
    "cross_entropy",
    "next_token_loss",
    "tempered",
    "initial_parameters",
    "rounded",
    "total",
    "dropout",
    "checkpointed_dropout",
    "loss_scaler",
    "master_step",
    "share_under_floor",
    "optimiser",
    "schedule",
    "clip_by_global_norm",
    "factor_of_two",
    "trainer",
    "additive_attention",
    "random_labels",
    "recall",
    *COUNTS,
    "tokeniser",
    "train_byte_pairs",
    "encode_byte_pairs",
    *TABLES,
)
# What an operation that takes any keyword is taken to have.
_ATTENTION = {"mask", "causal", "window", "scale", "softcap", "sink", "bias", "heads", "kv_heads", "positions"}
_LOSS = {"ignore_index", "reduction", "temperature"}
_TABLE = {"groups", "times", "labels", "equality", "parts", "seed", "stride", "start"}
_OTHER = {"dilation", "kernel", "eps", "base", "rotary_width", "layout", "scaling"}
_STEPS = {"rate", "momentum", "betas", "epsilon", "weight_decay", "limit"}
_TRAINING = _STEPS | {"kind", "peak", "warmup", "total", "minimum"}
ANY_KEYWORD = frozenset(_ATTENTION | _LOSS | _TABLE | _TRAINING | _OTHER)
_EXTRAS = {
    "torch": "torch",
    "jax": "jax",
    "flax": "flax",
    "equinox": "equinox",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "transformers": "transformers",
    "matplotlib": "labs",
    "mlx": "mlx",
    "mlx_lm": "mlx",
    "x_transformers": "x-transformers",
    "transformer_lens": "transformer-lens",
    "torchtune": "torchtune",
    "optax": "optax",
    "tokenizers": "tokenizers",
    "tiktoken": "tokenizers",
    "sentencepiece": "tokenizers",
    "regex": "tokenizers",
    "sklearn": "sklearn",
    "pandas": "tables",
    "pyarrow": "tables",
}


MODEL = "model:"  # before the target of a black box, where implementations are named
TOKENISER = "tokeniser:"  # and before that of a tokeniser


class CannotLoad(Exception):
    """The implementation could not be had; the message says why and what to do."""


@dataclass(frozen=True, slots=True, eq=False)
class Implementation:
    """What is under test: its name, its declaration, the operations that it offers and their other paths.

    home: what a stand-alone snippet imports to reach it.
    """

    name: str
    declaration: Declaration
    operations: Mapping[str, Callable[..., Any]]
    paths: Mapping[str, Mapping[str, Callable[..., Any]]]
    home: str

    def keywords(self, operation: str) -> frozenset[str]:
        """Our names of the keywords that the operation's signature has."""
        return keywords(self.operations[operation], tuple(self.declaration.keywords.items()))


@cache
def keywords(function: Callable[..., Any], renamed: tuple[tuple[str, str], ...]) -> frozenset[str]:
    """The keywords of a signature, by our names; one that takes any keyword has all of them."""
    own = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in own):
        return ANY_KEYWORD
    back = {theirs: ours for ours, theirs in renamed}
    return frozenset(back.get(p.name, p.name) for p in own)


def installed() -> dict[str, EntryPoint]:
    """The implementations that installed packages offer by name, ours included."""
    return {e.name: e for e in entry_points(group="gnomon.implementations")}


def load(name: str) -> Implementation:
    """The implementation that the name stands for."""
    if name.startswith(MODEL):
        from gnomon.impl.blackbox import black_box

        return black_box(name.removeprefix(MODEL))
    if name.startswith(TOKENISER):
        from gnomon.impl.tokenisers import tokeniser_of

        return tokeniser_of(name.removeprefix(TOKENISER))
    points = installed()
    module, _, attribute = name.partition(":")
    if module in points:
        return _installed(name, points[module], attribute)
    if module.endswith(".py") or "/" in module:
        return described(name, attribute_of(from_file(Path(module)), module, attribute), f"runpy:{name}")
    return described(name, attribute_of(_from_module(name, module), module, attribute), name)


def load_thing(name: str) -> Any:
    """The implementation of an installed name; else whatever a module or a file has after the colon."""
    module, _, attribute = name.partition(":")
    if module in installed():
        return load(name)
    found = from_file(Path(module)) if module.endswith(".py") or "/" in module else _from_module(name, module)
    return attribute_of(found, module, attribute)


def _installed(name: str, point: EntryPoint, part: str) -> Implementation:
    """What an installed name stands for, or the part of it after a colon: `transformers:gpt-neox`."""
    found, part = guarded_import(name, point.load), part.replace("-", "_")
    if part and not hasattr(found, part):
        parts = sorted(n.replace("_", "-") for n, v in vars(found).items() if _is_part(v))
        raise CannotLoad(f"{name.partition(':')[0]} has no part {part}: it has {', '.join(parts) or 'none'}")
    thing, home = (getattr(found, part), f"{point.value}:{part}") if part else (found, point.value)
    return described(name, thing, home)


def _is_part(thing: Any) -> bool:
    return not isinstance(thing, type) and isinstance(getattr(thing, "declaration", None), Declaration)


def described(name: str, thing: Any, home: str) -> Implementation:
    """The operations and the declaration of a module or an object."""
    operations = {op: getattr(thing, op) for op in OPERATIONS if callable(getattr(thing, op, None))}
    if not operations:
        raise CannotLoad(
            f"{name} offers none of the known operations: define a function named one of {', '.join(OPERATIONS)}"
        )
    declaration = _declaration(name, thing)
    return Implementation(name, declaration, operations, _paths(name, thing, declaration), home)


def _paths(name: str, thing: Any, declaration: Declaration) -> dict[str, dict[str, Callable[..., Any]]]:
    def resolve(path: Callable[..., Any] | str) -> Callable[..., Any]:
        found = getattr(thing, path, None) if isinstance(path, str) else path
        if not callable(found):
            raise CannotLoad(f"{name} declares the path {path!r} and has no function of that name")
        return found

    return {op: {label: resolve(path) for label, path in paths.items()} for op, paths in declaration.paths.items()}


def _declaration(name: str, thing: Any) -> Declaration:
    given = getattr(thing, "declaration", None)
    if given is None:
        module = thing if isinstance(thing, ModuleType) else sys.modules[type(thing).__module__]
        return replace(Declaration(), framework=imported_by(module))
    if not isinstance(given, Declaration):
        raise CannotLoad(f"{name}.declaration is a {type(given).__name__}: it has to be a gnomon.impl.Declaration")
    return given


def from_file(path: Path) -> ModuleType:
    """The module that the file holds."""
    if not path.is_file():
        raise CannotLoad(f"there is no file {path}: give the path of a Python file, or the name of a module")
    name = f"checked {path.stem}"  # a name that no import can mean: a file called json.py must not become json
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CannotLoad(f"{path} is no Python file: its name has to end in .py")
    sys.path.append(str(path.parent.resolve()))  # its neighbours can be imported, and libraries come before them
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    guarded_import(str(path), partial(spec.loader.exec_module, module))
    return module


def _from_module(name: str, module: str) -> ModuleType:
    if "" not in sys.path:
        sys.path.insert(0, "")  # a module in the folder where the command was typed
    if not exists(module):
        raise CannotLoad(_unknown(name, module))
    found: ModuleType = guarded_import(name, lambda: importlib.import_module(module))
    return found


def attribute_of(found: Any, module: str, attribute: str) -> Any:
    """What stands after the colon, a part of a part allowed; nothing there means the module itself."""
    for part in attribute.split(".") if attribute else ():
        if not hasattr(found, part):
            raise CannotLoad(f"the module {module} has no {attribute}: check the name after the colon")
        found = getattr(found, part)
    return found


def exists(module: str) -> bool:
    """Whether a module of that name can be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def _unknown(name: str, module: str) -> str:
    known = sorted(installed())
    near = difflib.get_close_matches(name, known, 1)
    guess = f"did you mean {near[0]}?" if near else f"installed names are {', '.join(known)}."
    return f"there is no implementation {name} and no module {module!r}: {guess} A file is given by its path."


def guarded_import(name: str, action: Callable[[], Any]) -> Any:
    """The result of importing; whatever goes wrong becomes one sentence."""
    try:
        return action()
    except ModuleNotFoundError as missing:
        raise CannotLoad(_missing(name, missing)) from missing
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise CannotLoad(
            f"{name} failed while it was imported: {type(error).__name__}: {error}. Import it by hand to see where."
        ) from error


def _missing(name: str, missing: ModuleNotFoundError) -> str:
    package = (missing.name or "").partition(".")[0]
    if package in _EXTRAS:
        extra = f"pip install 'gnomon[{_EXTRAS[package]}]'"
        return f"{name} needs {package}, which is not installed: {extra}"
    return f"{name} imports {missing.name}, which is not installed: install it, or mend the import"
