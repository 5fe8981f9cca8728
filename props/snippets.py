"""What a failure says: the comparison, the case, the mistake it looks like, a line that replays it, and code."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.impl.declaration import Held
from gnomon.impl.faults import Fault, faults, faults_of
from gnomon.impl.loading import TOKENISER
from gnomon.impl.tokenisers import code
from gnomon.props.judge import Comparison, Violation
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.props.property import Property
from gnomon.props.subject import Call, Subject
from gnomon.spec.parameters import parameter_count

_SMALL = 1_000_000  # parameters; faults of all clauses are tried on no larger model
_VJP = "vjp of "  # before the operation, in a call that asks for gradients
_LONGEST_LITERAL = 4096  # numbers in one array of a snippet; a shrunk case stays far below


_suspects: list[Fault] = []  # what earlier failures looked like: most likely the cause of the next one too


def replay_line(prop: Property, subject: Subject, case: Any) -> str:
    """The command that judges exactly this case again."""
    name = subject.implementation.name
    if subject.implementation.home.startswith(TOKENISER):
        return f"gnomon check-tokenizer {name} --clause {prop.clause.number} --case '{prop.name}:{case}'"
    command = "check" if subject.fixed is None else "check-model"
    return f"gnomon {command} {name} --clause {prop.clause.number} --dtype {subject.dtype} --case '{prop.name}:{case}'"


def failure_text(
    prop: Property, subject: Subject, case: Any, what: Comparison | str, suspect: Fault | None, replay: str
) -> str:
    """The failure as it is printed."""
    verb = "violated" if isinstance(what, Comparison) else "could not be judged"
    lines = [
        f"{prop.clause.number} {prop.clause.slug} {verb} by {subject.implementation.name} in {subject.dtype}",
        f"  {prop.clause.statement}",
        f"  {what}",
        f"  case: {_readable(case)}",
    ]
    if suspect is not None:
        lines.append(f"  looks like: {suspect.mistake.slug} ({suspect.clause.number}): {suspect.mistake.wrong}")
    return "\n".join([*lines, f"  replay: {replay}"])


def _readable(case: Any) -> str:
    return str(case).replace(",", ", ").replace("=", " ")


def suspected(prop: Property, subject: Subject, case: Any, seen: Comparison) -> Fault | None:
    """The first fault that misses by the same amount in the same case: one of the clause's own, or of another."""
    own = faults_of(prop.clause)
    held = subject.fixed
    if held is not None and held.parameters is None:
        return None  # a fault is built of parameters
    large = held is not None and parameter_count(held.shape) > _SMALL
    alone = large or prop.experiment or prop.needs == ("tokeniser",)  # all faults would take minutes or say nothing
    for fault in own if alone else dict.fromkeys((*own, *_suspects, *faults())):
        missed = _miss(prop, Subject(fault.implementation, subject.dtype, subject.precision, like=held), case)
        told = missed is not None and (missed.what == seen.what or not prop.clause.of_no_dtype)  # counts are often one
        if missed is not None and told and missed.got.shape == seen.got.shape and _alike(missed, seen):
            _suspects.insert(0, fault)
            return fault
    return None


def _miss(prop: Property, faulty: Subject, case: Any) -> Comparison | None:
    try:
        return next((c for c in prop.check(faulty, case) if c.margin > 1), None)
    except (Declined, ImplementationFailed, Violation):
        return None


def _alike(missed: Comparison, seen: Comparison) -> bool:
    """Whether two implementations miss alike: where no bound was asked for, the largest that was has to do."""
    room = seen.allowed + missed.allowed
    bounded = [a.allowed[np.isfinite(a.allowed)].max(initial=0.0) for a in (seen, missed)]
    same_nature = np.where(np.isfinite(room), room, sum(bounded))
    return Comparison(seen.what, missed.got, seen.got, same_nature).margin <= 1


def snippet(prop: Property, subject: Subject, what: Comparison | str) -> str:
    """Code that makes the last call again with nothing but the implementation and its framework."""
    if not subject.calls:
        return ""
    call = subject.calls[-1]
    if subject.fixed is not None:
        return _of_fixed(subject, subject.fixed, call, what)
    if call.operation == "tokeniser":
        home = subject.implementation.home
        made = [*_imports(subject, call)[1:], "", "t = tokeniser()"]
        if home.startswith(TOKENISER):
            made = code(home.removeprefix(TOKENISER))
        return "\n".join([*made, f"print({call.arrays[0]})", f"# {what}"])
    if any(np.size(a) > _LONGEST_LITERAL for a in _numbers(call)):
        return ""
    if call.operation.startswith(_VJP):
        return _of_gradient(subject, call, what)
    target = f"{call.operation}  # by the path {call.path!r}" if call.path else call.operation
    lines = [*_imports(subject, call), ""]
    lines += [f"{name} = {_literal(subject, value)}" for name, value in _named(subject, call)]
    names = [name for name, _ in _named(subject, call)]
    positional, rest = names[: len(call.arrays)], names[len(call.arrays) :]
    renamed = subject.implementation.declaration.keywords
    if call.operation == "model":
        target, positional = f"{target}({', '.join(positional[:2])})", positional[2:]
    arguments = ", ".join([*positional, *(f"{renamed.get(n, n)}={n}" for n in rest)])
    return "\n".join([*lines, f"print({target}({arguments}))" if not call.path else f"# {target}", f"# {what}"])


def _of_gradient(subject: Subject, call: Call, what: Comparison | str) -> str:
    """The same for a gradient, by the implementation's own `vjp` or as its framework differentiates."""
    if call.path:
        return ""
    plain = Call(call.operation.removeprefix(_VJP), call.arrays[:-1], call.options)
    own = replace(plain, operation="vjp") if "vjp" in subject.implementation.operations else plain
    given = [*_named(subject, plain), ("upstream", call.arrays[-1])]
    made = [f"{name} = {_literal(subject, value)}" for name, value in given]
    return "\n".join([*_imports(subject, own), "", *made, *_differentiated(subject, plain), f"# {what}"])


def _differentiated(subject: Subject, call: Call) -> list[str]:
    named, renamed = _named(subject, call), subject.implementation.declaration.keywords
    names = [n for n, _ in named[: len(call.arrays)]]
    options = "".join(f", {renamed.get(n, n)}={n}" for n, _ in named[len(names) :])
    listed, operation = ", ".join(names), call.operation
    if "vjp" in subject.implementation.operations:
        return [f"print(vjp({operation!r}, [{listed}], upstream{options}))"]
    if subject.framework.name == "jax":
        return ["import jax", f"print(jax.vjp(lambda {listed}: {operation}({listed}{options}), {listed})[1](upstream))"]
    leaves = [f"{n}.requires_grad_()" for n, a in named[: len(names)] if np.asarray(a).dtype.kind == "f"]
    grads = ", ".join(f"{leaf.partition('.')[0]}.grad" for leaf in leaves)
    return [*leaves, f"{operation}({listed}{options}).backward(upstream)", f"print({grads})"]


def _of_fixed(subject: Subject, held: Held, call: Call, what: Comparison | str) -> str:
    """The same for a black box; nothing where the call was made with more than ids, positions and padding."""
    numbers = {"tokens": call.arrays[0], **call.options}
    if any(np.size(a) > _LONGEST_LITERAL or np.ndim(a) != 2 for a in numbers.values()):
        return ""
    framework = {"torch": ["import torch"], "jax": ["import jax.numpy as jnp"]}.get(subject.framework.name, [])
    lines, expression = held.code(subject.dtype, tuple(call.options))
    given = [f"{name} = {_literal(subject, value)}" for name, value in numbers.items()]
    return "\n".join(["import numpy as np", *framework, *lines, "", *given, f"print({expression})", f"# {what}"])


def _numbers(call: Call) -> list[Any]:
    flat = [v for a in call.arrays for v in (a.values() if isinstance(a, Mapping) else [a])]
    return [*flat, *call.options.values()]


def _imports(subject: Subject, call: Call) -> list[str]:
    framework = subject.framework.name
    own = {"torch": ["import torch"], "jax": ["import jax.numpy as jnp"]}.get(framework, [])
    if subject.dtype == "bfloat16" and framework == "numpy":
        own = ["import ml_dtypes"]
    if call.options.get("scaling") or call.operation in ("model", "block"):
        own.append("from gnomon.spec.configuration import Configuration, Rotary, Scaling")
    return ["import numpy as np", *own, *_home(subject.implementation.home, call.operation)]


def _home(home: str, operation: str) -> list[str]:
    path = home.removeprefix("runpy:")
    module, _, attribute = path.partition(":")
    first, *rest = [*attribute.split("."), operation] if attribute else [operation]
    if path != home:
        lines = ["import runpy", f"{first} = runpy.run_path({module!r})[{first!r}]"]
    else:
        lines = [f"from {module} import {first}"]
    return [*lines, f"{operation} = {'.'.join([first, *rest])}"] if rest else lines


def _named(subject: Subject, call: Call) -> list[tuple[str, Any]]:
    layer = ("x", "weight", "bias")
    usual: dict[str, tuple[str, ...]] = {"attention": ("query", "key", "value")}
    usual |= dict.fromkeys(("linear", "layer_norm", "rms_norm"), layer)
    usual["embedding"] = ("table", "ids")
    usual |= {"rope": ("x", "positions"), "sinusoidal_positions": ("positions", "width"), "alibi_slopes": ("heads",)}
    usual |= {"convolution": layer, "recurrence": layer, "model": ("configuration", "parameters", "tokens")}
    usual |= {"cross_entropy": ("logits", "targets"), "next_token_loss": ("logits", "tokens"), "tempered": ("logits",)}
    names = usual.get(call.operation, ("x", "parameters"))
    return [*zip(names, call.arrays, strict=False), *call.options.items()]


def _literal(subject: Subject, value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{n!r}: {_literal(subject, v)}" for n, v in value.items()) + "}"
    if not isinstance(value, np.ndarray):
        return repr(value)
    if value.dtype == bool and subject.conventions.polarity == "block":
        value = ~value
    numbers = "[" + ", ".join(_number(v) for v in value.ravel().tolist()) + "]"
    kind = subject.dtype if value.dtype == np.float64 else str(value.dtype)
    return _array(subject.framework.name, numbers, kind) + f".reshape{value.shape}"


def _number(value: Any) -> str:
    return repr(value) if np.isfinite(value) else f"float({str(value)!r})"


def _array(framework: str, numbers: str, kind: str) -> str:
    if framework == "torch":
        return f"torch.tensor({numbers}, dtype=torch.{kind})"
    dtype = "ml_dtypes.bfloat16" if kind == "bfloat16" and framework == "numpy" else f"{kind!r}"
    return f"{'jnp' if framework == 'jax' else 'np'}.array({numbers}, dtype={dtype})"
