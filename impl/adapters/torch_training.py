"""`torch.optim`, and clipping by `torch.nn.utils` after `torch.amp.GradScaler` where the loss was scaled."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_


class Stepper:
    """An optimiser of torch with the parameters that it holds, copies of the caller's."""

    def __init__(self, kind: str, parameters: Mapping[str, Tensor], options: Mapping[str, Any], rate: float | Tensor):
        self.held = {name: torch.nn.Parameter(p.detach().clone()) for name, p in parameters.items()}
        make: Callable[..., torch.optim.Optimizer] = {
            "sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
        }[kind]  # fmt: skip
        self.optimizer = make(list(self.held.values()), lr=rate, **options)

    def step(self, gradients: Mapping[str, Tensor], *, rate: float | None = None) -> dict[str, Tensor]:
        """The parameters after one more step; one without a gradient stays."""
        own = self.optimizer.param_groups[0]
        usual = own["lr"]
        if rate is not None:
            own["lr"] = torch.full_like(usual, rate) if isinstance(usual, Tensor) else rate
        for name, parameter in self.held.items():
            parameter.grad = gradients[name].clone() if name in gradients else None
        self.optimizer.step()
        own["lr"] = usual
        return {name: p.detach().clone() for name, p in self.held.items()}


def _told(
    kind: str, momentum: float, betas: tuple[float, float], epsilon: float, weight_decay: float
) -> dict[str, Any]:
    own: dict[str, Any] = {"momentum": momentum} if kind == "sgd" else {"betas": betas, "eps": epsilon}
    return own | {"weight_decay": weight_decay}


def by_path(*, in_a_tensor: bool = False, **path: bool) -> Callable[..., Stepper]:
    """SGD, Adam or AdamW by a path of torch; with the rate in a tensor where that is asked for."""

    def optimiser_by_path(
        kind: str,
        parameters: Mapping[str, Tensor],
        *,
        rate: float,
        momentum: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> Stepper:
        own = torch.tensor(rate, dtype=torch.float64) if in_a_tensor else rate
        return Stepper(kind, parameters, _told(kind, momentum, betas, epsilon, weight_decay) | path, own)

    return optimiser_by_path


optimiser = by_path()  # as torch goes unasked, which on a CPU is tensor by tensor


def clip_by_global_norm(
    gradients: Mapping[str, Tensor], *, limit: float, scale: float | None = None, foreach: bool | None = None
) -> dict[str, Tensor]:
    """The gradients after `clip_grad_norm_`, unscaled before it where there is a scale."""
    held = {name: torch.nn.Parameter(torch.zeros_like(g)) for name, g in gradients.items()}
    for name, parameter in held.items():
        parameter.grad = gradients[name].clone()
    if scale is not None:
        _unscale(list(held.values()), scale)
    clip_grad_norm_(held.values(), limit, foreach=foreach)
    return {name: p.grad for name, p in held.items() if p.grad is not None}


def _unscale(parameters: list[torch.nn.Parameter], scale: float) -> None:
    """The gradients divided by the scale in place."""
    if parameters[0].dtype == torch.float16:
        raise NotImplementedError("torch.amp.GradScaler does not unscale gradients of float16")
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    scaler.scale(torch.zeros(()))  # which is when it makes its scale
    scaler.unscale_(torch.optim.SGD(parameters, lr=1.0))


def clip_one_by_one(gradients: Mapping[str, Tensor], *, limit: float, scale: float | None = None) -> dict[str, Tensor]:
    """The same, tensor by tensor."""
    return clip_by_global_norm(gradients, limit=limit, scale=scale, foreach=False)


PATHS: dict[str, dict[str, Callable[..., Any]]] = {
    "optimiser": {
        "foreach": by_path(foreach=True),
        "fused": by_path(fused=True),
        "rate in a tensor": by_path(in_a_tensor=True, foreach=False),
    },
    "clip_by_global_norm": {"tensor by tensor": clip_one_by_one},
}
