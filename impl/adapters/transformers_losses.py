"""The loss of causal language models in Hugging Face's transformers, and its warper of temperature."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when transformers is imported

import torch
from torch import Tensor
from transformers.generation.logits_process import TemperatureLogitsWarper
from transformers.loss.loss_utils import ForCausalLMLoss, fixed_cross_entropy

from gnomon.impl.declaration import Declaration
from gnomon.spec.conventions import Conventions
from gnomon.spec.precision import FUSED


def cross_entropy(logits: Tensor, targets: Tensor, *, ignore_index: int = -100) -> Tensor:
    """The mean that the losses of its models end in."""
    loss: Tensor = fixed_cross_entropy(logits.flatten(0, -2).float(), targets.flatten(), ignore_index=ignore_index)
    return loss


def next_token_loss(logits: Tensor, tokens: Tensor, *, ignore_index: int = -100) -> Tensor:
    """The loss of a model that was given its input as labels."""
    loss: Tensor = ForCausalLMLoss(logits, tokens, logits.shape[-1], ignore_index=ignore_index)
    return loss


def tempered(logits: Tensor, *, temperature: float) -> Tensor:
    """The softmax of what its warper leaves of the logits."""
    warped: Tensor = TemperatureLogitsWarper(temperature)(torch.empty(0), logits)
    return torch.softmax(warped, dim=-1)


# The loss is taken in float32 whatever the logits are; those that were warped are of the format that they had.
declaration = Declaration(
    framework="torch",
    dtypes=("float32", "bfloat16", "float16"),
    sites=FUSED | {"logits"},
    conventions=Conventions(all_ignored="nan"),
    families=(),
)
