"""Arrays across frameworks: exact float64 numbers in, the framework's own arrays out, and back without loss."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
LAYOUTS = ("strided", "transposed", "broadcast")


class NotAnArray(TypeError):
    """What came back is no array of the declared framework."""


@dataclass(frozen=True, slots=True)
class Framework:
    """How arrays are handed to one framework and taken back.

    give: an exact float64, boolean or integer array in the dtype of that name. take: the result as float64 (or
    boolean or integer) and the name of its dtype. arrange: the same numbers behind a non-contiguous view. products: the
    dtypes of the matrix products that are computed while a call runs. vjp: from a function of arrays and mappings of
    them, its arguments and a gradient of its result to the gradients by the arguments, none by whole numbers.
    """

    name: str
    give: Callable[[Array, str], Any]
    take: Callable[[Any], tuple[Array, str]]
    arrange: Callable[[Any, str], Any] | None
    products: Callable[[Callable[[], object]], frozenset[str]] | None = None
    vjp: Callable[[Callable[..., Any], list[Any], Any], list[Any]] | None = None


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype of that name, bfloat16 included."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def _give_numpy(x: Array, dtype: str) -> Array:
    return np.array(x, numpy_dtype(dtype) if x.dtype == np.float64 else x.dtype)


def _take_numpy(x: Any) -> tuple[Array, str]:
    if not isinstance(x, np.ndarray | np.generic):
        raise NotAnArray(f"a {type(x).__name__} where a NumPy array was due")
    return _exact(np.asarray(x)), str(x.dtype)


def _exact(x: Array) -> Array:
    return x if x.dtype.kind in "biu" else x.astype(np.float64)


def _arrange_numpy(x: Array, layout: str) -> Array:
    if layout == "strided":
        buffer = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
        buffer[..., ::2] = x
        return buffer[..., ::2]
    if layout == "transposed":
        return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    return np.broadcast_to(x[:1], x.shape)


def _torch() -> Framework:
    import torch

    def give(x: Array, dtype: str) -> Any:
        tensor = torch.from_numpy(np.array(x))
        return tensor.to(getattr(torch, dtype)) if x.dtype == np.float64 else tensor

    def take(x: Any) -> tuple[Array, str]:
        if not isinstance(x, torch.Tensor):
            raise NotAnArray(f"a {type(x).__name__} where a torch tensor was due")
        plain = x.detach().to(torch.float64) if x.dtype.is_floating_point else x.detach()
        return plain.contiguous().numpy(), str(x.dtype).removeprefix("torch.")

    def arrange(x: Any, layout: str) -> Any:
        if layout == "strided":
            return torch.stack([x, torch.zeros_like(x)], -1).flatten(-2)[..., ::2]
        if layout == "transposed":
            return x.transpose(-1, -2).contiguous().transpose(-1, -2)
        return x[:1].expand(x.shape)

    torch.set_num_threads(1)
    return Framework("torch", give, take, arrange, _torch_products, _torch_vjp)


def _torch_vjp(function: Callable[..., Any], arguments: list[Any], upstream: Any) -> list[Any]:
    """What autograd gives; zeros by an argument on which, to its knowledge, nothing depends."""
    import torch

    taken = [_each(_torch_leaf, a) for a in arguments]
    flat = [x for a in taken for x in (a.values() if isinstance(a, dict) else [a]) if x.requires_grad]
    with torch.enable_grad():
        out = function(*taken)
    if not out.requires_grad:
        raise NotImplementedError("it records no gradients")
    found = iter(torch.autograd.grad(out, flat, upstream, allow_unused=True))

    def gradient(x: Any) -> Any:
        if not x.requires_grad:
            return None
        g = next(found)
        return torch.zeros_like(x) if g is None else g

    return [_each(gradient, a) for a in taken]


def _torch_leaf(x: Any) -> Any:
    return x.detach().requires_grad_() if x.dtype.is_floating_point else x


def _each(function: Callable[[Any], Any], argument: Any) -> Any:
    """The function of an array, or of each array of a mapping."""
    if isinstance(argument, Mapping):
        return {name: function(x) for name, x in argument.items()}
    return function(argument)


_TORCH_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "convolution", "_scaled_dot_product")


def _torch_products(call: Callable[[], object]) -> frozenset[str]:
    """The dtypes of the matrix products that torch computes while the call runs."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: set[str] = set()

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            if function.__name__.startswith(_TORCH_PRODUCTS):
                first = result[0] if isinstance(result, tuple) else result
                seen.add(str(first.dtype).removeprefix("torch."))
            return result

    with Watch():  # type: ignore[no-untyped-call]
        call()
    return frozenset(seen)


def _jax() -> Framework:
    import jax

    # Otherwise float64 arguments become float32 without a word.
    jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]

    def give(x: Array, dtype: str) -> Any:
        return jax.device_put(_give_numpy(x, dtype))  # asarray would compile a conversion per shape

    def take(x: Any) -> tuple[Array, str]:
        if not isinstance(x, jax.Array):
            raise NotAnArray(f"a {type(x).__name__} where a JAX array was due")
        return _exact(np.asarray(x)), str(x.dtype)

    def vjp(function: Callable[..., Any], arguments: list[Any], upstream: Any) -> list[Any]:
        moving = [i for i, a in enumerate(arguments) if isinstance(a, Mapping) or a.dtype.kind not in "biu"]

        def of_moving(*moved: Any) -> Any:
            given = dict(zip(moving, moved, strict=True))
            return function(*(given.get(i, a) for i, a in enumerate(arguments)))

        back = jax.vjp(of_moving, *(arguments[i] for i in moving))[1]
        found = dict(zip(moving, back(upstream), strict=True))
        return [found.get(i) for i in range(len(arguments))]

    return Framework("jax", give, take, None, vjp=vjp)


def framework(name: str) -> Framework:
    """The framework of that name, imported now."""
    if name == "numpy":
        return Framework("numpy", _give_numpy, _take_numpy, _arrange_numpy)
    return {"torch": _torch, "jax": _jax}[name]()


def imported_by(module: ModuleType) -> Literal["numpy", "torch", "jax"]:
    """The framework that a module imports, NumPy if it imports no other."""
    names = {v.__name__.partition(".")[0] for v in vars(module).values() if isinstance(v, ModuleType)}
    return "torch" if "torch" in names else "jax" if "jax" in names else "numpy"
