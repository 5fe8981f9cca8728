"""The smoke test: is the adapter broken before a single clause is asked? In a process of its own, with a limit.

Run as a module it is that process: it writes one line before and one after each call, so that a hang or a crash
leaves behind which call it was.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.impl.loading import COUNTS, MODEL, OPERATIONS, TABLES, TOKENISER, CannotLoad, Implementation, load
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.spec.configuration import CONFIGURATIONS

Example = tuple[tuple[Any, ...], dict[str, Any], tuple[int, ...]]

LIMIT_SECONDS = 60.0
_POLL_SECONDS = 0.02
_LOADING = "the import"


@dataclass(frozen=True, slots=True)
class Smoke:
    """What was found: dtype and operation to one sentence where it is broken, and what works."""

    works: tuple[tuple[str, str], ...] = ()
    broken: Mapping[tuple[str, str], str] = field(default_factory=dict)
    fatal: str = ""

    @property
    def passed(self) -> bool:
        """Whether anything at all can be run."""
        return not self.fatal and bool(self.works)


def smoke(name: str, dtypes: tuple[str, ...] = (), limit: float = LIMIT_SECONDS) -> Smoke:
    """Call every operation once per dtype, each within the limit; after a hang or a crash go on with the rest."""
    broken: dict[tuple[str, str], str] = {}
    while True:
        events, ending = _one_process(name, dtypes, sorted(broken), limit)
        fatal = next((e["fatal"] for e in events if "fatal" in e), "")
        works = tuple((e["dtype"], e["operation"]) for e in events if e.get("works"))
        broken |= {(e["dtype"], e["operation"]): e["broken"] for e in events if "broken" in e}
        unfinished = _unfinished(events)
        if fatal or (not ending and unfinished is None):
            return Smoke(works, broken, fatal)
        if unfinished is None or unfinished in broken:
            what = name.removeprefix(MODEL).removeprefix(TOKENISER)
            return Smoke(works, broken, f"{what} {ending or 'ended without a word'} during {_LOADING}")
        broken[unfinished] = f"{unfinished[1]} {ending or 'ended its process (os._exit or a crash)'} on a small input"


def _unfinished(events: list[dict[str, Any]]) -> tuple[str, str] | None:
    """The call that was begun and never ended."""
    begun = [e for e in events if e.get("begins")]
    ended = {(e["dtype"], e["operation"]) for e in events if "works" in e or "broken" in e}
    last = (begun[-1]["dtype"], begun[-1]["operation"]) if begun else None
    return last if last not in ended else None


def _one_process(
    name: str, dtypes: tuple[str, ...], skip: list[tuple[str, str]], limit: float
) -> tuple[list[dict[str, Any]], str]:
    """The events of one process, and how it ended if not by itself."""
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as log:
        arguments = json.dumps({"name": name, "dtypes": dtypes, "skip": skip, "log": log.name})
        command = [sys.executable, "-P", "-m", "gnomon.props.smoke", arguments]  # -P: no ./json.py in place of json
        nothing = subprocess.DEVNULL  # what an implementation prints is not ours
        with subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing) as process:
            ending = _awaited(process, Path(log.name), limit)
        return [json.loads(line) for line in log if line.strip()], ending


def _awaited(process: "subprocess.Popen[bytes]", log: Path, limit: float) -> str:
    """How a process ended if not by itself: each call has the limit, the import before them a minute at least."""
    size, since = 0, time.monotonic()
    while (code := process.poll()) is None:
        if (grown := log.stat().st_size) != size:
            size, since = grown, time.monotonic()
        allowed = limit if size else max(limit, LIMIT_SECONDS)
        if time.monotonic() - since > allowed:
            process.kill()
            return f"did not return within {allowed:g} seconds"
        time.sleep(_POLL_SECONDS)
    return "" if code == 0 else _ending(code)


def _ending(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended its process with exit code {code}"


def _example(operation: str) -> Example:
    """A small legal call of the operation: arrays, keywords and the shape that is due."""
    x = np.arange(-8, 8).reshape(1, 4, 4) / 8.0
    weight = np.eye(4)
    heads = x.reshape(1, 2, 4, 2)
    names = ("query", "key", "value", "output")
    calls: dict[str, Example] = {
        "attention": ((heads, heads, heads), {}, (1, 2, 4, 2)),
        "multi_head_attention": ((x, {f"{n}_weight": weight for n in names}), {"heads": 2}, (1, 4, 4)),
        "linear": ((x, weight), {}, (1, 4, 4)),
        "convolution": ((x, weight[..., None]), {}, (1, 4, 4)),
        "additive_attention": (
            (x, x, x, {f"{n}_weight": weight for n in names[:2]} | {"score_weight": weight[0]}),
            {},
            (1, 4, 4),
        ),
        "recurrence": ((x, weight), {}, (1, 4, 4)),
        "feed_forward": ((x, {"up_weight": weight, "down_weight": weight}), {"activation": "relu"}, (1, 4, 4)),
        "embedding": ((weight, np.arange(4)[None]), {}, (1, 4, 4)),
        "layer_norm": ((x, weight[0]), {"eps": 1.0}, (1, 4, 4)),
        "rms_norm": ((x, weight[0]), {"eps": 1.0}, (1, 4, 4)),
        "rope": ((heads, np.arange(4)), {}, (1, 2, 4, 2)),
        "sinusoidal_positions": ((np.arange(3), 4), {}, (3, 4)),
        "alibi_slopes": ((3,), {}, (3,)),
        "rounded": ((x,), {"format": "float16"}, (1, 4, 4)),
        "total": ((x,), {}, (1, 4)),
        "dropout": ((x,), {"share": 0.5, "seed": 0}, (1, 4, 4)),
        "master_step": ((weight, weight), {"rate": 0.5, "steps": 1}, (4, 4)),
        "cross_entropy": ((x, np.arange(4)[None]), {}, ()),
        "next_token_loss": ((x, np.arange(4)[None]), {}, ()),
        "tempered": ((x,), {"temperature": 2.0}, (1, 4, 4)),
    }
    return calls.get(operation, ((x,), {}, (1, 4, 4)))


def _trials(implementation: Implementation, dtypes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for dtype in dtypes or implementation.declaration.dtypes:
        for operation in OPERATIONS:
            if operation in implementation.operations:
                yield dtype, operation


def _child(arguments: dict[str, Any]) -> None:
    from gnomon.props.subject import Subject

    skip = {tuple(pair) for pair in arguments["skip"]}
    with Path(arguments["log"]).open("a", buffering=1) as log:
        try:
            implementation = load(arguments["name"])
        except CannotLoad as reason:
            log.write(json.dumps({"fatal": str(reason)}) + "\n")
            return
        for dtype, operation in _trials(implementation, tuple(arguments["dtypes"])):
            if (dtype, operation) not in skip:
                event = {"dtype": dtype, "operation": operation}
                log.write(json.dumps(event | {"begins": True}) + "\n")
                log.write(json.dumps(event | _tried(Subject(implementation, dtype), operation)) + "\n")


# Operations that take or give more than arrays, and the module of ours that makes a small call of each.
_TRIED_BY: Mapping[str, tuple[str, ...]] = {
    "format_cases": ("checkpointed_dropout", "loss_scaler", "share_under_floor"),
    "tokenising": ("tokeniser", "train_byte_pairs", "encode_byte_pairs"),
    "training": ("optimiser", "schedule", "clip_by_global_norm", "factor_of_two", "trainer"),
    "experiments": ("random_labels", "recall"),
    "leakage_cases": TABLES,
}


def _call(subject: Any, operation: str) -> None:
    module = next((m for m, operations in _TRIED_BY.items() if operation in operations), None)
    if module is not None:
        import_module(f"gnomon.props.{module}").try_out(subject, operation)
    elif operation in _CALLS:
        _CALLS[operation](subject, operation)
    elif operation in COUNTS:
        lengths = () if operation in ("parameter_count", "crossing_length") else (8,)
        subject.count(operation, CONFIGURATIONS["gpt2"], *lengths)
    else:
        arrays, options, shape = _example(operation)
        subject.call(operation, *arrays, shape=shape, **options)


def _call_initial(subject: Any, operation: str) -> None:
    from gnomon.props.model_cases import example

    subject.tensors(operation, example(subject.implementation.declaration.families[0]), deviation=1.0)


def _call_evaluate(subject: Any, operation: str) -> None:
    even = np.log(np.full((1, 2, 3), 1 / 3))
    subject.number(operation, lambda tokens: even, [np.array([0, 1, 2])], batch_size=1)


def _call_vjp(subject: Any, operation: str) -> None:
    """The gradient of the first of these operations that is there."""
    inner = next((o for o in ("linear", "softmax", "attention") if subject.offers(o)), "linear")
    arrays, options, shape = _example(inner)
    subject.vjp(inner, *arrays, upstream=np.ones(shape), **options)


def _call_model(subject: Any, operation: str) -> None:
    """A small model of the first family that is declared, or a block of it."""
    from gnomon.props.box import Input, block, box
    from gnomon.props.model_cases import FixedCase, ModelCase

    if subject.fixed is not None:
        ids = np.zeros((2, 1 if subject.fixed.context == 1 else 2), np.int64)
        box(subject, FixedCase(held=subject.fixed))(Input(ids))
        return
    for family in subject.implementation.declaration.families[:1]:
        case = ModelCase(family=family, heads=2, kv_heads=2, head_width=4, window=2, time=3)
        if operation == "block":
            block(subject, case)
        else:
            box(subject, case)(Input(case.tokens()))


_CALLS: Mapping[str, Callable[[Any, str], None]] = {
    "model": _call_model,
    "block": _call_model,
    "initial_parameters": _call_initial,
    "evaluate": _call_evaluate,
    "vjp": _call_vjp,
    "traffic": lambda subject, operation: subject.count(operation, 8, 4, fast=256),
    "path_length": lambda subject, operation: subject.count(operation, "attention", 8),
    "operation_count": lambda subject, operation: subject.count(operation, "attention", 8, 4),
}


def _tried(subject: Any, operation: str) -> dict[str, Any]:
    try:
        _call(subject, operation)
    except Declined:
        return {"works": True}  # it answers: what it declines is counted clause by clause
    except ImplementationFailed as failure:
        return {"broken": str(failure)}
    return {"works": True}


if __name__ == "__main__":
    _child(json.loads(sys.argv[1]))
