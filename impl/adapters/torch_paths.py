"""Ways of calling a torch function that must not change what it computes."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from torch import Tensor


def recorded_gradients(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same function while autograd records it: its floating arguments require gradients."""

    @wraps(function)
    def recorded(*arrays: Tensor, **keywords: Any) -> Tensor:
        return function(*(a.detach().requires_grad_() for a in arrays), **keywords).detach()

    return recorded
