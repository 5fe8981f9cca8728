"""Proofs for VIII.2: weights that take any labels."""

import numpy as np
import sympy
from sympy import Symbol

from gnomon.spec.capacity import ANY_LABELS, memorising, two_layers
from gnomon.spec.proofs import Equation, Scope, proves
from gnomon.spec.proofs.algebra import array, zero
from gnomon.spec.symbolic import Symbolic

S = Symbolic()


@proves(
    ANY_LABELS,
    Scope.SIZES,
    sizes="1 to 5 points of 1 to 3 features",
    argument="Points stand in a direction at any place, each a positive distance after the one before; the first "
    "feature of each is what puts it there. Rectified differences are then zero or sums of distances, and the network "
    "with the given weights leaves no difference to the labels, which are symbols as well.",
)
def any_labels(network: Equation = two_layers) -> bool:
    """The network with the given weights has every label, wherever the points stand."""
    return all(_taken(network, n, features) for n in range(1, 6) for features in range(1, 4))


def _taken(network: Equation, n: int, features: int) -> bool:
    first, gaps = Symbol("x", real=True), [Symbol(f"g_{i}", positive=True) for i in range(1, n)]
    places = [first + sum(gaps[:i]) for i in range(n)]
    direction = np.array([sympy.Integer(1), *(Symbol(f"a_{i}", real=True) for i in range(1, features))], object)
    points = array("z", n, features)
    points[:, 0] = np.array(places, object) - points[:, 1:] @ direction[1:]
    labels = [Symbol(f"y_{i}", real=True) for i in range(n)]
    offsets, weights = (np.array(a, object) for a in memorising(places, labels))
    out = network(S, points, direction, offsets, weights)
    return zero(out[:, 0] - np.array(labels, object))
