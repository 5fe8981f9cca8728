"""Convolutions, linear recurrences and the lengths of paths in NumPy, in small steps that a fault can replace."""

import numpy as np

from gnomon.impl.numpy_operations import Array, Parameters, wide
from gnomon.impl.tape import asarray


class NumpyReach:
    """What came before attention, over `[batch, time, width]`; 16-bit arguments are computed in float32."""

    def convolution(
        self, x: Array, weight: Array, bias: Array | None = None, *, dilation: int = 1, causal: bool = False
    ) -> Array:
        """The kernel's weighted sums at every position, zeros beyond the ends; weight `[out, in, kernel]`."""
        if not causal and weight.shape[-1] % 2 == 0:
            raise ValueError(f"a kernel of {weight.shape[-1]} has no middle")
        padded = self.padded(wide(x), (weight.shape[-1] - 1) * dilation, dilation, causal)
        out = sum(
            padded[:, i * dilation : i * dilation + x.shape[1]] @ wide(weight)[..., tap].T
            for i, tap in self.taps(weight.shape[-1])
        )
        return np.asarray(out if bias is None else out + wide(bias), x.dtype)

    def padded(self, x: Array, span: int, dilation: int, causal: bool) -> Array:
        """The sequence with `span` zeros more, all before it where causal."""
        before = span if causal else span // 2
        return np.pad(x, ((0, 0), (before, span - before), (0, 0)))

    def taps(self, kernel: int) -> list[tuple[int, int]]:
        """Each place in the window and the tap that belongs there."""
        return [(i, i) for i in range(kernel)]

    def recurrence(self, x: Array, weight: Array) -> Array:
        """h_t = W h_{t−1} + x_t from h = 0 on, every state `[batch, time, width]`; weight `[width, width]`."""
        states = [np.zeros_like(wide(x)[:, 0])]
        for t in range(x.shape[1]):
            states.append(self.step(states[-1], wide(x)[:, t], wide(weight)))
        return np.stack(states[1:], axis=1).astype(x.dtype)

    def step(self, state: Array, x: Array, weight: Array) -> Array:
        """The state after one more input."""
        return np.asarray(state @ weight.T + x)

    def additive_attention(self, query: Array, key: Array, value: Array, parameters: Parameters) -> Array:
        """The values averaged under softmax over the keys of vᵀtanh(W·query + U·key), `[batch, queries, width]`."""
        (batch, queries, _), keys = query.shape, key.shape[1]
        own, seen = (
            wide(x) @ wide(parameters[f"{n}_weight"]).swapaxes(0, 1) for n, x in (("query", query), ("key", key))
        )
        bent = self.bent(own.reshape(batch, queries, 1, -1), seen.reshape(batch, 1, keys, -1))
        scores = (bent @ wide(parameters["score_weight"]).reshape(-1, 1)).reshape(batch, queries, keys)
        return asarray(self.over_keys(scores) @ wide(value), query.dtype)

    def bent(self, query: Array, key: Array) -> Array:
        """The tanh of the sum of a projected query and a projected key."""
        return asarray(np.tanh(query + key))

    def over_keys(self, scores: Array) -> Array:
        """The softmax over the last axis of `[batch, queries, keys]`."""
        mass = np.exp(scores - scores.max(-1, keepdims=True))
        return asarray(mass / mass.sum(-1, keepdims=True))

    # Counts, in whole numbers, of a layer of that name.

    def path_length(self, layer: str, distance: int, *, kernel: int = 2) -> int:
        """How many steps or layers lie between positions so far apart."""
        layers = {"convolution": self.undilated, "dilated": self.dilated}
        return layers[layer](distance, kernel) if layer in layers else {"recurrence": distance, "attention": 1}[layer]

    def undilated(self, distance: int, kernel: int) -> int:
        """How many convolutions reach that far."""
        return -(-distance // (kernel - 1))

    def dilated(self, distance: int, kernel: int) -> int:
        """How many convolutions of dilation 1, k, k², … reach that far: together k to their number, less 1."""
        depth = 1
        while kernel**depth <= distance:
            depth += 1
        return depth

    def operation_count(self, layer: str, length: int, width: int, *, kernel: int = 2) -> int:
        """The multiplications of one layer on one sequence; attention's scale takes one a score."""
        if layer == "attention":
            return self.score_products(width) * length**2
        return (length - 1) * width**2 if layer == "recurrence" else length * self.tap_products(width) * kernel

    def score_products(self, width: int) -> int:
        """The multiplications that one pair of positions takes."""
        return 2 * width + 1

    def tap_products(self, width: int) -> int:
        """The multiplications that one tap takes at one position."""
        return width**2
