"""Tokenisers that are there: a file of one, or a function of the user's that returns one."""

import importlib
import sys
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

from gnomon.impl.declaration import Declaration
from gnomon.impl.loading import TOKENISER, CannotLoad, Implementation, attribute_of, exists, from_file, guarded_import

FILE = "tokenizer.json"
_ADAPTERS = {  # by the library that a tokeniser's class comes from
    "tokenizers": "tokenizers_text",
    "tiktoken": "tiktoken_text",
    "sentencepiece": "sentencepiece_text",
}


def tokeniser_of(target: str) -> Implementation:
    """The tokeniser that a target stands for, as an implementation of nothing else."""
    made = _read(target) if _is_path(target) else _returned(target)
    if not callable(getattr(made, "encode", None)):
        raise CannotLoad(f"{target} gave something of type {type(made).__name__}, which has no method encode")
    declaration = Declaration(dtypes=("float64",), families=())
    return Implementation(target, declaration, {"tokeniser": lambda: made}, {}, TOKENISER + target)


def code(target: str) -> list[str]:
    """Lines that make the same tokeniser, `t`."""
    if _is_path(target):
        return [
            "from gnomon.impl.tokenisers import tokeniser_of",
            f"t = tokeniser_of({target!r}).operations['tokeniser']()",
        ]
    module, _, name = target.partition(":")
    name = name or "load"
    first = name.partition(".")[0]
    if module.endswith(".py"):
        return ["import runpy", f"t = runpy.run_path({module!r})[{first!r}]{name.removeprefix(first)}()"]
    return [f"from {module} import {first}", f"t = {name}()"]


def _is_path(target: str) -> bool:
    return ".py" not in target and (Path(target).exists() or target.endswith((".json", ".model")) or "/" in target)


@cache
def _read(target: str) -> Any:
    """The tokeniser of a file, or of a folder that has one."""
    path = Path(target) / FILE if Path(target).is_dir() else Path(target)
    if not path.is_file():
        raise CannotLoad(f"there is no file {path}: a tokeniser is given by its {FILE} or as module:function")
    name = "sentencepiece_text" if path.suffix == ".model" else "tokenizers_text"
    return _adapter(name, target).load(str(path))


@cache
def _adapter(name: str, target: str) -> Any:
    """The module that knows a library."""
    return guarded_import(target, partial(importlib.import_module, f"gnomon.impl.adapters.{name}"))


@cache
def _returned(target: str) -> Any:
    """What the user's function returns, a tokeniser of a known library by our names."""
    module, colon, name = target.partition(":")
    found = _module(target, module)
    if not colon and not hasattr(found, "load"):
        raise CannotLoad(f"{target} has no function load: name the one that returns the tokeniser, as in {target}:load")
    thing = attribute_of(found, module, name or "load")
    made = thing if hasattr(thing, "encode") and not isinstance(thing, type) else _called(target, thing)
    return _by_our_names(target, made)


def _module(target: str, module: str) -> ModuleType:
    if module.endswith(".py"):
        return from_file(Path(module))
    if "" not in sys.path:
        sys.path.insert(0, "")  # a module in the folder where the command was typed
    if not exists(module):
        raise CannotLoad(
            f"there is no module {module!r} and no file {target}: a tokeniser is given as module:function, as "
            f"./file.py:function or as a {FILE}"
        )
    found: ModuleType = guarded_import(target, partial(importlib.import_module, module))
    return found


def _called(target: str, function: Callable[[], Any]) -> Any:
    if not callable(function):
        raise CannotLoad(f"{target} is of type {type(function).__name__}: a function that returns a tokeniser is due")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        message = " ".join(str(error).split())[:300]
        raise CannotLoad(f"{target} raised {type(error).__name__}{': ' if message else ''}{message}") from error


def _by_our_names(target: str, made: Any) -> Any:
    """The tokeniser as it is, or what an adapter makes of one of a library."""
    made = getattr(made, "backend_tokenizer", made)  # of transformers
    library = type(made).__module__.partition(".")[0]
    return _adapter(_ADAPTERS[library], target).Text(made) if library in _ADAPTERS else made
