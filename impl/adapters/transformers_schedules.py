"""The schedules with warm-up of Hugging Face's transformers, on an optimiser that has nothing else to do."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when transformers is imported

import torch
from transformers import optimization

from gnomon.impl.declaration import Declaration
from gnomon.spec.conventions import Conventions


def schedule(step: int, *, kind: str, peak: float, warmup: int, total: int, minimum: float = 0.0) -> float:
    """The rate that the scheduler gives at a step."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=peak)
    if kind == "constant":
        scheduler = optimization.get_constant_schedule_with_warmup(optimizer, warmup)
    elif kind == "cosine" and minimum:
        scheduler = optimization.get_cosine_with_min_lr_schedule_with_warmup(optimizer, warmup, total, min_lr=minimum)
    elif minimum:
        raise NotImplementedError("transformers has no linear schedule that ends above zero")
    else:
        make = {
            "linear": optimization.get_linear_schedule_with_warmup,
            "cosine": optimization.get_cosine_schedule_with_warmup,
        }[kind]
        scheduler = make(optimizer, warmup, total)
    return float(scheduler.lr_lambdas[0](step) * peak)


declaration = Declaration(
    framework="torch",
    dtypes=("float64",),  # a schedule is a number of Python, whatever is trained
    conventions=Conventions(first_rate="zero", after_end="on"),
    families=(),
)
