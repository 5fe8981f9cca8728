"""Proofs for VII.2: the feed-forward network is twice the attention at full width, and more with fewer heads."""

from dataclasses import replace
from typing import Any

from sympy import expand, symbols

from gnomon.spec.configuration import Configuration
from gnomon.spec.parameters import PER_BLOCK, attention_parameters, feed_forward_parameters
from gnomon.spec.proofs import Equation, Scope, proves


def full_width() -> tuple[Configuration, Any, Any]:
    """A block of symbolic width and heads that fill it, four times as wide inside, without biases."""
    width, heads = symbols("d h", positive=True)
    sizes: dict[str, Any] = {"width": width, "heads": heads, "kv_heads": heads, "head_width": width / heads}
    return Configuration(vocabulary=1, layers=1, feed_forward=4 * width, gated=False, **sizes), width, heads


@proves(PER_BLOCK, Scope.GENERAL, argument="With d_ff = 4d the two counts are 8d² and 4d² as polynomials in d.")
def twice_the_attention(attention: Equation = attention_parameters) -> bool:
    """The feed-forward network has two parameters for each of attention."""
    block, width, _ = full_width()
    weights = expand(attention(block))
    return bool(weights == 4 * width**2 and expand(feed_forward_parameters(block) - 2 * weights) == 0)


@proves(
    PER_BLOCK,
    Scope.GENERAL,
    argument="Each key-value head given up takes its key and its value matrix from attention and nothing else.",
)
def more_with_fewer_heads(attention: Equation = attention_parameters) -> bool:
    """What attention loses is twice the width of the heads given up, for every feature."""
    block, width, heads = full_width()
    kept: Any = symbols("k", positive=True)
    lost = attention(block) - attention(replace(block, kv_heads=kept))
    return bool(expand(lost - 2 * width * (heads - kept) * width / heads) == 0)
