"""Losses and temperature in NumPy, in small steps that a fault can replace."""

from typing import Any

import numpy as np

from gnomon.impl.numpy_operations import Array, NumpyOperations, wide


class NumpyLosses(NumpyOperations):
    """Cross-entropy from logits, the loss of next tokens and tempered probabilities; 16 bits go through float32."""

    def cross_entropy(
        self, logits: Array, targets: Array, *, ignore_index: int | None = None, reduction: str = "mean"
    ) -> Array:
        """−log p(target): for each target with zero where it is ignored, their sum, or their mean."""
        scored = np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index
        losses = self.token_losses(wide(logits), np.where(scored, targets, 0))
        reduced = self.reduced(self.kept_losses(losses, scored), scored, reduction)
        return np.asarray(reduced).astype(logits.dtype)

    def token_losses(self, logits: Array, targets: Array) -> Array:
        """−log p(target) of every position, in the arithmetic."""
        return -np.take_along_axis(self.log_probabilities(logits), targets[..., None], axis=-1)[..., 0]

    def log_probabilities(self, logits: Array) -> Array:
        """The logits less their largest, less the logarithm of the sum of the exponentials of that."""
        shifted = logits - logits.max(-1, keepdims=True)
        return np.asarray(shifted - self.log_total(shifted))

    def log_total(self, shifted: Array) -> Array:
        """The logarithm of the sum of the exponentials."""
        return np.asarray(np.log(np.exp(shifted).sum(-1, keepdims=True)))

    def kept_losses(self, losses: Array, scored: Array) -> Array:
        """The losses of the targets that count, zero elsewhere."""
        return np.where(scored, losses, 0).astype(losses.dtype)

    def reduced(self, losses: Array, scored: Array, reduction: str) -> Any:
        """Each loss, their sum, or their mean over what counts."""
        if reduction == "none":
            return losses
        return losses.sum() if reduction == "sum" else self.mean_loss(losses, scored)

    def mean_loss(self, losses: Array, scored: Array) -> Any:
        """The sum over the number of targets that count."""
        return self.per_target(losses.sum(), self.denominator(scored))

    def denominator(self, scored: Array) -> int:
        """How many targets count."""
        return int(scored.sum())

    def per_target(self, total: Any, count: int) -> Any:
        """The sum over their number, zero where there is none."""
        return total / total.dtype.type(max(count, 1))

    def next_token_loss(self, logits: Array, tokens: Array, *, ignore_index: int | None = None) -> Array:
        """The mean loss of every position but the last against the token after it."""
        return self.cross_entropy(*self.next_tokens(logits, tokens), ignore_index=ignore_index)

    def next_tokens(self, logits: Array, tokens: Array) -> tuple[Array, Array]:
        """The logits of every position but the last, and the tokens after them."""
        return logits[:, :-1], tokens[:, 1:]

    def tempered(self, logits: Array, *, temperature: float) -> Array:
        """The probabilities of the logits over the temperature."""
        inner = wide(logits)
        return self.at_temperature(inner, inner.dtype.type(temperature)).astype(logits.dtype)

    def at_temperature(self, logits: Array, temperature: Any) -> Array:
        """The same in the arithmetic."""
        return np.asarray(np.exp(self.log_probabilities(logits / temperature)))
