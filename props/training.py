"""Calls of training that take or give arrays by name, and the conventions of clipping and schedules, measured."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gnomon.props.outcome import ImplementationFailed
from gnomon.props.subject import Subject, guarded
from gnomon.spec.descent import Schedule
from gnomon.spec.evaluators import Floats

Named = Mapping[str, Floats]


def named(subject: Subject, operation: str, result: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Floats]:
    """Arrays by name, each checked for its kind, shape and dtype."""
    if not isinstance(result, Mapping) or set(result) != set(shapes):
        what = f"the names {', '.join(map(str, result))}" if isinstance(result, Mapping) else type(result).__name__
        raise ImplementationFailed(f"{operation} returned {what} where arrays named {', '.join(shapes)} are due")
    return {name: subject.taken(operation, result[name], shape) for name, shape in shapes.items()}


def clip(subject: Subject, gradients: Named, limit: float, scale: float | None, path: str | None = None) -> Named:
    """What clipping makes of gradients, which are given as those of a scaled loss where there is a scale."""
    given = {"limit": limit} | ({} if scale is None else {"scale": scale})
    subject.require("clip_by_global_norm", *given)
    renamed = subject.implementation.declaration.keywords
    handed = subject.hand({n: g * (1.0 if scale is None else scale) for n, g in gradients.items()})
    keywords = {renamed.get(n, n): v for n, v in given.items()}
    result = guarded("clip_by_global_norm", subject.function("clip_by_global_norm", path), [handed], keywords)
    return named(subject, "clip_by_global_norm", result, {n: g.shape for n, g in gradients.items()})


def rate_at(subject: Subject, schedule: Schedule, step: int) -> float:
    """The rate of its schedule at a step."""
    told = {"kind": schedule.kind, "peak": schedule.peak, "warmup": schedule.warmup, "total": schedule.total}
    return subject.number("schedule", step, **told | ({"minimum": schedule.minimum} if schedule.minimum else {}))


def clip_epsilon(subject: Subject) -> str:
    """What is added to the norm: a gradient of 2^-18 under a limit of 2^-20 keeps a quarter, or less."""
    (kept,) = clip(subject, {"g": np.array([2.0**-18])}, 2.0**-20, None)["g"] / 2.0**-18
    near = {"0": 0.25, "1e-6": 2.0**-20 / (2.0**-18 + 10.0**-6)}
    return min(near, key=lambda name: float(np.abs(kept - near[name])))


def first_rate(subject: Subject) -> str:
    """The rate at step 0 of a warm-up of four steps, and at the last step but one of a fall of four."""
    line = Schedule(kind="linear", peak=1.0, warmup=4, total=8)
    seen = rate_at(subject, line, 0), rate_at(subject, line, 7)
    return {(0.0, 0.25): "zero", (0.25, 0.25): "share", (0.25, 0.0): "ahead"}.get(seen, "other")


def after_end(subject: Subject) -> str:
    """Whether a cosine two steps past its end is at its minimum of zero."""
    curve = Schedule(kind="cosine", peak=1.0, warmup=2, total=6)
    return "minimum" if rate_at(subject, curve, 8) < rate_at(subject, curve, 5) else "on"


def try_out(subject: Subject, operation: str) -> None:
    """A small case of an operation of training."""
    from gnomon.props.stepping import Optimiser
    from gnomon.spec.descent import Rule

    weight = {"w": np.ones(2)}
    if operation == "optimiser":
        Optimiser(subject, Rule(kind="sgd", rate=0.5), weight).step(weight)
    elif operation == "schedule":
        rate_at(subject, Schedule(kind="linear", peak=1.0, warmup=1, total=2), 0)
    elif operation == "clip_by_global_norm":
        clip(subject, weight, 1.0, None)
    elif operation == "trainer":
        from gnomon.props.model_cases import ModelCase
        from gnomon.props.test_descent_training import Trainer, batches

        case = ModelCase(family=subject.implementation.declaration.families[0], time=3)
        Trainer(subject, case, case.parameters(subject.precision.storage)).step(batches(case))
    else:
        guarded(operation, subject.function(operation, None), [lambda rate: rate > 0, 0.5], {})
