"""Casts, sums, dropout, loss scaling and master copies of PyTorch: GradScaler, SGD, checkpoint."""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils import checkpoint


def rounded(x: Tensor, *, format: str) -> Tensor:
    """The tensor cast to the format and back."""
    narrow: torch.dtype = getattr(torch, format)
    return x.to(narrow).to(x.dtype)


def total(x: Tensor) -> Tensor:
    """The sum over the last axis."""
    return x.sum(-1)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """A place in which torch draws by that seed, and after which by its own state again."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def dropout(x: Tensor, *, share: float, seed: int) -> Tensor:
    """`functional.dropout` in training."""
    with seeded(seed):
        return functional.dropout(x, share)


def dropout_module(x: Tensor, *, share: float, seed: int) -> Tensor:
    """The same by an `nn.Dropout` that trains."""
    with seeded(seed):
        thinned: Tensor = torch.nn.Dropout(share)(x)
    return thinned


def checkpointed(reentrant: bool, x: Tensor, upstream: Tensor, *, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Dropout whose forward pass is run again in the backward pass, after torch has drawn other numbers."""
    x = x.detach().requires_grad_()
    thin: Callable[[Tensor], Tensor] = functools.partial(functional.dropout, p=share)
    with seeded(seed):
        output = checkpoint.checkpoint(thin, x, use_reentrant=reentrant)
        torch.rand(1)
        (gradient,) = torch.autograd.grad(output, x, upstream) if not reentrant else through(output, x, upstream)
    return output.detach(), gradient


def through(output: Tensor, x: Tensor, upstream: Tensor) -> tuple[Tensor]:
    """The gradient by `backward`, which is all that a reentrant checkpoint takes part in."""
    torch.autograd.backward(output, upstream)
    assert x.grad is not None
    return (x.grad,)


checkpointed_dropout = functools.partial(checkpointed, False)
checkpointed_reentrant = functools.partial(checkpointed, True)


class Scaled:
    """A `GradScaler` around `optim.SGD` on parameters that are wider than their gradients."""

    def __init__(self, parameters: Mapping[str, Tensor], rate: float, scale: float, clip: float | None):
        self.held = {name: torch.nn.Parameter(p.clone()) for name, p in parameters.items()}
        self.optimiser = torch.optim.SGD(self.held.values(), lr=rate)
        self.scaler = torch.amp.GradScaler(device="cpu", init_scale=scale)
        self.clip = clip
        self.scaler.scale(torch.zeros(()))  # its scale is made at the first loss

    @property
    def scale(self) -> float:
        """What the next loss is multiplied by."""
        return float(self.scaler.get_scale())

    def step(self, gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The parameters after a step on gradients of the scaled loss."""
        for name, parameter in self.held.items():
            parameter.grad = gradients[name].to(parameter.dtype)
        if self.clip is not None:
            self.scaler.unscale_(self.optimiser)
            torch.nn.utils.clip_grad_norm_(self.held.values(), self.clip)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        return {name: parameter.detach().clone() for name, parameter in self.held.items()}


def loss_scaler(parameters: Mapping[str, Tensor], *, rate: float, scale: float, clip: float | None = None) -> Scaled:
    """Plain descent from these parameters on gradients of the scaled loss."""
    return Scaled(parameters, rate, scale, clip)


def master_step(parameter: Tensor, gradient: Tensor, *, rate: float, steps: int) -> Tensor:
    """Steps of `optim.SGD` on a copy in float32, stored after each of them."""
    stored = parameter.clone()
    master = torch.nn.Parameter(parameter if parameter.dtype == torch.float64 else parameter.float())
    optimiser = torch.optim.SGD([master], lr=rate)
    for _ in range(steps):
        master.grad = gradient.to(master.dtype)
        optimiser.step()
        stored.copy_(master.detach())
    return stored


def share_under_floor(gradients: Mapping[str, Tensor], *, format: str, scale: float = 1.0) -> float:
    """Of the gradients that are not zero, the share that is zero in the format once it is scaled."""
    every = torch.cat([g.flatten() for g in gradients.values()])
    alive = every[every != 0]
    narrow: torch.dtype = getattr(torch, format)
    lost = (alive * scale).to(narrow).to(torch.float32) == 0
    return float(lost.double().mean()) if len(alive) else 0.0
