"""Training steps of a whole model in NumPy, in small steps that a fault can replace."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from gnomon.impl.numpy_operations import Array, wide
from gnomon.spec.configuration import Configuration

Gradients = dict[str, Array]


class NumpyTraining:
    """Plain descent on the mean loss of next tokens, gradients gathered over micro-batches."""

    def trainer(
        self,
        configuration: Configuration,
        parameters: Mapping[str, Array],
        *,
        rate: float,
        limit: float | None = None,
        frozen: Collection[str] = (),
    ) -> "Trainer":
        """What trains a model of the configuration from these parameters on."""
        return Trainer(self, configuration, parameters, rate, limit, frozen)

    def trained_model(self, configuration: Configuration, held: Gradients, steps: int) -> Any:
        """The model with the parameters to which so many steps have led."""
        return self.model(configuration, held)  # type: ignore[attr-defined]

    def kept_parameters(self, parameters: Mapping[str, Array]) -> Gradients:
        """The parameters as the trainer's own."""
        return {name: np.array(p) for name, p in parameters.items()}

    def left_over(self, gradients: Gradients) -> Gradients:
        """What stays in the buffers of gradients after a step."""
        return {}

    def gathered(self, trainer: "Trainer", batches: Sequence[Array]) -> Gradients:
        """The gradient of the mean loss over all micro-batches."""
        total, model = trainer.buffers, self.trained_model(trainer.configuration, trainer.held, trainer.steps)
        for tokens in batches:
            own = model.vjp(tokens, self.above(model(tokens), tokens, self.loss_divisor(tokens, batches)))
            total = self.micro_batch_added(total, {n: wide(g) for n, g in own.items()}, trainer.limit)
        return self.limited(total, trainer.limit)

    def micro_batch_added(self, total: Gradients, own: Gradients, limit: float | None) -> Gradients:
        """The gradients so far and those of one more micro-batch."""
        return {name: own[name] + total[name] if name in total else own[name] for name in own}

    def loss_divisor(self, tokens: Array, batches: Sequence[Array]) -> float:
        """What the summed loss of a micro-batch is divided by: the number of targets in all of them."""
        return float(sum(targets(t) for t in batches))

    def above(self, logits: Array, tokens: Array, divisor: float) -> Array:
        """The gradient of the loss by the logits."""
        inner = wide(logits[:, :-1])
        mass = np.exp(inner - inner.max(-1, keepdims=True))
        slope = mass / mass.sum(-1, keepdims=True) - np.eye(logits.shape[-1], dtype=mass.dtype)[tokens[:, 1:]]
        upstream = np.zeros(logits.shape, mass.dtype)
        upstream[:, :-1] = slope / divisor
        return upstream.astype(logits.dtype)

    def limited(self, total: Gradients, limit: float | None) -> Gradients:
        """The gradients under the limit on their common norm."""
        norm = math.sqrt(sum(float(np.square(g).sum(dtype=np.float64)) for g in total.values()))
        factor = limit / norm if limit is not None and norm > limit else 1.0
        return {name: g * factor for name, g in total.items()}

    def moving(self, name: str, frozen: Collection[str]) -> bool:
        """Whether a parameter is trained."""
        return name not in frozen


class Trainer:
    """A model in training: parameters, and buffers of gradients, which are empty between steps."""

    def __init__(
        self, operations: NumpyTraining, configuration: Configuration, parameters: Mapping[str, Array], rate: float,
        limit: float | None, frozen: Collection[str],
    ):  # fmt: skip
        self.operations, self.configuration = operations, configuration
        self.held, self.rate, self.limit, self.frozen = operations.kept_parameters(parameters), rate, limit, frozen
        self.buffers: Gradients = {}
        self.steps = 0

    def step(self, batches: Sequence[Array]) -> Gradients:
        """The parameters after one step on these micro-batches of token ids `[rows, time]`."""
        gradients = self.operations.gathered(self, batches)
        for name, g in gradients.items():
            if self.operations.moving(name, self.frozen):
                self.held[name][...] = (wide(self.held[name]) - self.rate * g).astype(self.held[name].dtype)
        self.buffers, self.steps = self.operations.left_over(gradients), self.steps + 1
        return {name: p.copy() for name, p in self.held.items()}

    def __call__(self, tokens: Array) -> Array:
        """The logits of the model as it is now."""
        model = self.operations.trained_model(self.configuration, self.held, self.steps)
        return np.asarray(model(tokens))


def targets(tokens: Array) -> int:
    """How many tokens of a micro-batch are predicted."""
    return int(tokens[:, 1:].size)
