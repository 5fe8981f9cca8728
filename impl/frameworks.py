"""Arrays across frameworks: exact float64 numbers in, the framework's own arrays out, and back without loss."""

from collections.abc import Callable
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
    dtypes of the matrix products that are computed while a call runs.
    """

    name: str
    give: Callable[[Array, str], Any]
    take: Callable[[Any], tuple[Array, str]]
    arrange: Callable[[Any, str], Any] | None
    products: Callable[[Callable[[], object]], frozenset[str]] | None = None


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
    return Framework("torch", give, take, arrange, _torch_products)


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

    return Framework("jax", give, take, None)


def framework(name: str) -> Framework:
    """The framework of that name, imported now."""
    if name == "numpy":
        return Framework("numpy", _give_numpy, _take_numpy, _arrange_numpy)
    return {"torch": _torch, "jax": _jax}[name]()


def imported_by(module: ModuleType) -> Literal["numpy", "torch", "jax"]:
    """The framework that a module imports, NumPy if it imports no other."""
    names = {v.__name__.partition(".")[0] for v in vars(module).values() if isinstance(v, ModuleType)}
    return "torch" if "torch" in names else "jax" if "jax" in names else "numpy"
