"""Losses and temperature in the functions of PyTorch."""

import torch
from torch import Tensor
from torch.nn import functional


def cross_entropy(
    logits: Tensor, targets: Tensor, *, ignore_index: int | None = None, reduction: str = "mean"
) -> Tensor:
    """`functional.cross_entropy` over positions laid end to end."""
    loss = functional.cross_entropy(
        logits.flatten(0, -2), targets.flatten(), reduction=reduction, ignore_index=unused(ignore_index)
    )
    return loss.reshape(targets.shape) if reduction == "none" else loss


def cross_entropy_module(
    logits: Tensor, targets: Tensor, *, ignore_index: int | None = None, reduction: str = "mean"
) -> Tensor:
    """The same by an `nn.CrossEntropyLoss` that is given the vocabulary as the second axis."""
    module = torch.nn.CrossEntropyLoss(ignore_index=unused(ignore_index), reduction=reduction)
    loss: Tensor = module(logits.movedim(-1, 1), targets)
    return loss


def cross_entropy_steps(
    logits: Tensor, targets: Tensor, *, ignore_index: int | None = None, reduction: str = "mean"
) -> Tensor:
    """The same by `log_softmax` and `nll_loss`."""
    flat = functional.log_softmax(logits, dim=-1).flatten(0, -2)
    loss = functional.nll_loss(flat, targets.flatten(), reduction=reduction, ignore_index=unused(ignore_index))
    return loss.reshape(targets.shape) if reduction == "none" else loss


def unused(ignore_index: int | None) -> int:
    """The id that does not count; an id of no word where every target does."""
    return -100 if ignore_index is None else ignore_index


def next_token_loss(logits: Tensor, tokens: Tensor, *, ignore_index: int | None = None) -> Tensor:
    """The mean loss of every position but the last against the token after it."""
    return cross_entropy(logits[:, :-1], tokens[:, 1:], ignore_index=ignore_index)


def tempered(logits: Tensor, *, temperature: float) -> Tensor:
    """The softmax of the logits over the temperature."""
    return torch.softmax(logits / temperature, dim=-1)
