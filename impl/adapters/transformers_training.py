"""Training steps of the networks of Hugging Face's transformers: their own loss, gradients gathered, plain descent."""

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from gnomon.impl.adapters.transformers_models import Model
from gnomon.impl.adapters.transformers_weights import canonical


class Trainer:
    """A network in training, stepped by `torch.optim.SGD` after `clip_grad_norm_`."""

    def __init__(self, model: Model, rate: float, limit: float | None, frozen: Collection[str]):
        if model.network.dtype == torch.float64:
            raise NotImplementedError("transformers takes its loss in float32 whatever the network is")
        self.model, self.limit = model, limit
        theirs = dict(model.network.named_parameters())
        still = alone(model, theirs, frozen)
        for name, parameter in theirs.items():
            parameter.requires_grad_(name not in still)
        moving = [p for name, p in theirs.items() if name not in still]
        self.optimizer = torch.optim.SGD(moving, lr=rate)

    def step(self, batches: Sequence[Tensor]) -> dict[str, Tensor]:
        """The parameters after one step on these micro-batches of token ids `[rows, time]`."""
        count = sum(tokens[:, 1:].numel() for tokens in batches)
        with torch.enable_grad():
            for tokens in batches:
                output = self.model.network(input_ids=tokens, labels=tokens, num_items_in_batch=count, use_cache=False)
                output.loss.backward()
        if self.limit is not None:
            torch.nn.utils.clip_grad_norm_(self.optimizer.param_groups[0]["params"], self.limit)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return {name: p.detach().clone() for name, p in self.model.parameters().items()}

    def __call__(self, tokens: Tensor) -> Tensor:
        """The logits of the network as it is now."""
        return self.model(tokens)


def alone(model: Model, theirs: Mapping[str, Tensor], frozen: Collection[str]) -> set[str]:
    """The network's names of what is frozen; one tensor that holds frozen and moving parameters is declined."""
    numbers = {name: torch.full_like(p, i) for i, (name, p) in enumerate(theirs.items())}
    own = {n: {int(i) for i in p.flatten().tolist()} for n, p in canonical(model.names, model.c, numbers).items()}
    still = set[int]().union(*(held for n, held in own.items() if n in frozen))
    moving = set[int]().union(*(held for n, held in own.items() if n not in frozen))
    if still & moving:
        raise NotImplementedError("the network holds frozen and moving parameters in one tensor")
    return {name for i, name in enumerate(theirs) if i in still}
