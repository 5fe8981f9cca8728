"""The norms of the stream: LayerNorm centres and scales each position's features, RMSNorm only scales them."""

from typing import Any

from gnomon.spec.constants import ONE, exactly
from gnomon.spec.evaluators import Evaluator, Quantity


def layer_norm(E: Evaluator, x: Any, weight: Any, bias: Any = None, *, eps: float, offset: bool = False) -> Quantity:
    """(x − mean)/√(variance + ε)·weight + bias over the features, the variance over n, not n − 1.

    x `[..., width]`, weight and bias `[width]`; offset: the gain is 1 + weight. Source: Ba et al. 2016.
    """
    scaled = _gained(E, E.standardise(E.number(x), exactly(eps), centred=True), weight, offset)
    return E.store(scaled if bias is None else E.store(scaled, "normed") + E.number(bias), "out")


def rms_norm(E: Evaluator, x: Any, weight: Any, *, eps: float, offset: bool = False) -> Quantity:
    """x/√(mean square + ε)·weight over the features. Source: Zhang and Sennrich 2019."""
    return E.store(_gained(E, E.standardise(E.number(x), exactly(eps), centred=False), weight, offset), "out")


def _gained(E: Evaluator, standard: Quantity, weight: Any, offset: bool) -> Quantity:
    gain = E.number(weight)
    return E.store(standard, "normed") * (gain + E.constant(ONE) if offset else gain)
