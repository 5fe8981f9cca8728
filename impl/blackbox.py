"""Black boxes: a model that is loaded as it is, by a function of the user's or from the folder of a checkpoint."""

import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from operator import index
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gnomon.impl.declaration import Declaration, Fixed, Held
from gnomon.impl.frameworks import Framework, NotAnArray, framework, imported_by
from gnomon.impl.loading import CannotLoad, Implementation, attribute_of, exists, from_file, guarded_import
from gnomon.spec.precision import FORMATS

METHODS = ("new_cache", "reorder_cache", "crop_cache")
PRECISIONS = ("float64", "float32")
_ALONE = "its load takes no dtype, so there is no second precision from which to learn what rounding does to it"


def black_box(target: str) -> Implementation:
    """The model that a target stands for: a checkpoint's folder, or a function that returns one, `module:load`."""
    if Path(target).is_dir():
        return _checkpoint(target)
    module, colon, name = target.partition(":")
    if "/" in module and not module.endswith(".py"):
        raise CannotLoad(
            f"there is no folder {target}: a checkpoint is given by the path of its folder, and nothing is downloaded"
        )
    found = _module(target, module)
    if not colon and not hasattr(found, "load"):
        raise CannotLoad(f"{target} has no function load: name the one that returns the model, as in {target}:load")
    return _Loader(target, found, attribute_of(found, module, name or "load")).implementation()


def _module(target: str, module: str) -> ModuleType:
    if module.endswith(".py"):
        return from_file(Path(module))
    if "" not in sys.path:
        sys.path.insert(0, "")  # a module in the folder where the command was typed
    if not exists(module):
        raise CannotLoad(
            f"there is no module {module!r} and no folder {target}: a model is given as module:function, as "
            "./file.py:function or as the folder of a checkpoint"
        )
    found: ModuleType = guarded_import(target, partial(importlib.import_module, module))
    return found


def _checkpoint(target: str) -> Implementation:
    try:
        from gnomon.impl.adapters import transformers_checkpoint
    except ModuleNotFoundError as missing:
        raise CannotLoad(
            f"{target} is a folder, and to load a checkpoint {missing.name} is needed, which is not installed: "
            "pip install 'gnomon[transformers]'"
        ) from missing
    return transformers_checkpoint.implementation(target)


@dataclass(eq=False)
class Boxed:
    """A loaded model, called by our names of keywords; of its other methods those that a model may have."""

    model: Callable[..., Any]
    renamed: Mapping[str, str]
    outputs: int = 0  # numbers that it gives a token
    dtype: str = ""  # of those numbers

    @property
    def keywords(self) -> frozenset[str]:
        """Our names of the keywords that its signature names; one that takes any keyword is taken to read none."""
        try:
            own = inspect.signature(getattr(self.model, "forward", self.model)).parameters.values()
        except (TypeError, ValueError):
            return frozenset()
        back = {theirs: ours for ours, theirs in self.renamed.items()}
        return frozenset(back.get(p.name, p.name) for p in own if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))

    def __call__(self, tokens: Any, **options: Any) -> Any:
        """What the model gives for the tokens."""
        return self.model(tokens, **{self.renamed.get(n, n): v for n, v in options.items()})

    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            return getattr(self.model, name)
        raise AttributeError(name)


@dataclass(eq=False)
class Loaded:
    """The models that a loader has given, by dtype."""

    arrays: Framework
    load: Callable[[str], Boxed]
    models: dict[str, Boxed] = field(default_factory=dict)

    def model(self, configuration: Any, parameters: Mapping[str, Any]) -> Boxed:
        """The model in the dtype of the parameters, which are not read."""
        _, dtype = self.arrays.take(next(iter(parameters.values())))
        if dtype not in self.models:
            try:
                self.models[dtype] = self.load(dtype)
            except CannotLoad as reason:
                raise NotImplementedError(str(reason)) from reason
        return self.models[dtype]


@dataclass(eq=False)
class _Loader:
    """A function that returns a model, the module that it stands in, and how both were named."""

    target: str
    module: ModuleType
    function: Any

    def implementation(self) -> Implementation:
        """The model as an implementation of nothing but itself."""
        self._require(callable(self.function), f"is of type {_kind(self.function)}: a function that returns a model")
        arrays = framework(self.declared.framework)
        loaded, alone = Loaded(arrays, partial(self._boxed, arrays)), ""
        for dtype in self.declared.dtypes if self._takes_dtype else ("",):
            try:
                model = self._boxed(arrays, dtype)
            except CannotLoad as reason:
                alone = alone or str(reason)
                continue
            loaded.models[model.dtype] = model
        if not loaded.models:
            raise CannotLoad(alone)
        return self._described(loaded, alone if self._takes_dtype else _ALONE)

    def _described(self, loaded: Loaded, alone: str) -> Implementation:
        outputs = {m.outputs for m in loaded.models.values()}
        self._require(len(outputs) == 1, f"gives {sorted(outputs)} numbers a token, by dtype: one and the same model")
        own = self.declared.fixed or Fixed()
        said = {f.name: getattr(own, f.name) for f in fields(Fixed)}
        for name, least in (("vocabulary", 0), ("context", 0), ("reach", 0)):
            said[name] = self._whole(name, said[name], least)
        model = next(iter(loaded.models.values())).model
        if not said["vocabulary"] and hasattr(model, "vocabulary"):
            said["vocabulary"] = self._whole("vocabulary", model.vocabulary, 1)
        held = Held(**said, outputs=outputs.pop(), alone=alone, code=self._code)
        declaration = replace(self.declared, dtypes=tuple(loaded.models), families=(), paths={}, fixed=held)
        return Implementation(self.target, declaration, {"model": loaded.model}, {}, self.target)

    @property
    def declared(self) -> Declaration:
        """The declaration beside the function, or what a module that declares nothing is taken to declare."""
        given = getattr(self.function, "declaration", getattr(self.module, "declaration", None))
        if given is None:
            return Declaration(framework=imported_by(self.module), dtypes=PRECISIONS)
        wrong = f"has a declaration of type {_kind(given)}: a gnomon.impl.Declaration"
        self._require(isinstance(given, Declaration), wrong)
        own: Declaration = given
        return own

    @property
    def _takes_dtype(self) -> bool:
        return "dtype" in Boxed(self.function, {}).keywords

    def _boxed(self, arrays: Framework, dtype: str) -> Boxed:
        """The model of that dtype, called once to see that it is one."""
        options = {"dtype": dtype} if dtype and self._takes_dtype else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = self.function(**options)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                raise CannotLoad(f"{self.target} raised {_said(error)}") from error
        self._require(
            callable(model), f"returned something of type {_kind(model)}: a model, to be called with token ids,"
        )
        boxed = Boxed(model, self.declared.keywords)
        boxed.outputs, boxed.dtype = self._tried(arrays, boxed)
        own = boxed.dtype
        self._require(dtype in ("", own), f"gives {own} where it was asked for {dtype}: what was asked for")
        return boxed

    def _tried(self, arrays: Framework, model: Boxed) -> tuple[int, str]:
        """How many numbers the model gives for a token, and of which dtype."""
        ids = arrays.give(np.zeros((1, 1), np.int64), "float32")
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                array, dtype = arrays.take(model(ids))
        except NotAnArray as error:
            raise CannotLoad(f"the model of {self.target} returned {error}{_HINT}") from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise CannotLoad(f"the model of {self.target} raised {_said(error)} for ids of shape (1, 1)") from error
        self._require_logits(array, dtype)
        return array.shape[-1], dtype

    def _require_logits(self, array: np.ndarray[Any, Any], dtype: str) -> None:
        what = f"the model of {self.target} returned"
        if array.ndim != 3 or array.shape[:2] != (1, 1) or not array.size:
            raise CannotLoad(f"{what} the shape {array.shape} for ids of shape (1, 1): (1, 1, vocabulary) is due")
        if dtype not in FORMATS:
            raise CannotLoad(f"{what} {dtype}: logits are floating-point numbers")
        if np.isnan(array).any():
            raise CannotLoad(f"{what} NaN for the first id alone")

    def _require(self, condition: bool, fault: str) -> None:
        """Refuse what is not as it should be; the sentence ends in what is due."""
        if not condition:
            raise CannotLoad(f"{self.target} {fault} is due")

    def _whole(self, name: str, value: Any, least: int) -> int:
        word = "a whole number above zero" if least else "a whole number"
        try:
            number = index(value)
        except TypeError:
            number = least - 1
        self._require(number >= least and not isinstance(value, bool), f"has the {name} {value!r}: {word}")
        return number

    def _code(self, dtype: str, options: Collection[str]) -> tuple[tuple[str, ...], str]:
        """Lines that load the model, and the call."""
        module, _, name = self.target.partition(":")
        name = name or "load"
        first = name.partition(".")[0]
        lines: tuple[str, ...] = (f"from {module} import {first}",)
        if module.endswith(".py"):
            lines = "import runpy", f"{first} = runpy.run_path({module!r})[{first!r}]"
        made = f"model = {name}({f'dtype={dtype!r}' if self._takes_dtype else ''})"
        renamed = self.declared.keywords
        return (*lines, made), f"model({', '.join(['tokens', *(f'{renamed.get(n, n)}={n}' for n in options)])})"


_HINT = "; where the framework is not imported at the top of the module, a declaration beside it says which one it is"


def _kind(thing: Any) -> str:
    return type(thing).__name__


def _said(error: BaseException) -> str:
    message = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}{': ' if message else ''}{message}"
