"""Gradients that are wrong in one way each, as proofs and comparisons have to notice."""

from collections.abc import Callable
from typing import Any

from gnomon.spec.constants import Constant
from gnomon.spec.evaluators import Quantity
from gnomon.spec.reverse import Recorded, Reverse, jvp


def pulled_by(kind: type[Reverse]) -> Callable[..., Any]:
    """What `vjp` would be if its record were of that kind."""

    def false_vjp(E: Any, equation: Any, arguments: Any, upstream: Any) -> tuple[Quantity, dict[str, Quantity]]:
        R = kind(E)
        leaves = {name: R.argument(x) for name, x in arguments.items()}
        out = R.number(equation(R, leaves))
        return out.value, dict(zip(leaves, R.pulled(out, upstream, list(leaves.values())), strict=True))

    return false_vjp


class NoRankOneTerm(Reverse):
    """A softmax whose gradient is p·g."""

    def softmax(self, scores: Recorded, allowed: Any = None) -> Recorded:
        p = self.E.softmax(scores.value, allowed)
        return Recorded(self, p, ((scores, lambda g: p * g),))

    def weigh(self, scores: Recorded, value: Recorded, allowed: Any) -> Recorded:
        return self.matmul(self.softmax(scores, allowed), value)


class MissingFactor(Reverse):
    """Scores whose gradient is that of the products."""

    def scores(self, query: Recorded, key: Recorded, scale: Constant) -> Recorded:
        product = self.matmul(query, key.swapaxes(-1, -2))
        value = self.E.scores(query.value, key.value, scale)
        return Recorded(self, value, ((product, lambda g: g),))


class TurnedForwards(Reverse):
    """A rotation whose gradient is turned as the features are."""

    def sin(self, a: Recorded) -> Recorded:
        return -super().sin(a)


class LastUseAlone(Reverse):
    """An array that is used twice gets the gradient of one use."""

    def _summed(self, parts: Any, shape: tuple[int, ...]) -> Quantity:
        return super()._summed(parts[:1], shape)


class MeanForgotten(Reverse):
    """A standardised row whose gradient is that of a row without a mean, and a mean square that is a constant."""

    def standardise(self, x: Recorded, epsilon: Constant, centred: bool) -> Recorded:
        y = self.E.standardise(x.value, epsilon, centred)
        inverse = self.E.inverse_spread(x.value, epsilon)
        return Recorded(self, y, ((x, lambda g: g * inverse),))


def doubled(*arguments: Any) -> Quantity:
    """Twice the change."""
    return jvp(*arguments) * 2
