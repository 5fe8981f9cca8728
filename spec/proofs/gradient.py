"""Proofs for II.2: reverse mode gives SymPy's own derivative, and a small change is the same map turned round."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import sympy
from sympy import Dummy, Pow

from gnomon.spec.attention import attention, softmax
from gnomon.spec.constants import ONE, Constant, inverse_root
from gnomon.spec.embedding import embedding
from gnomon.spec.evaluators import Evaluator, Mask, Quantity
from gnomon.spec.gradient import DERIVATIVE, PAIRING
from gnomon.spec.linear import activate, feed_forward, linear
from gnomon.spec.loss import cross_entropy
from gnomon.spec.norms import layer_norm, rms_norm
from gnomon.spec.proofs import Equation, Scope, proves
from gnomon.spec.proofs.algebra import Expr, array, canonical_sums, real
from gnomon.spec.reverse import jvp, vjp
from gnomon.spec.rotary import turn
from gnomon.spec.symbolic import Symbolic

S = Symbolic()
EPSILON = real("epsilon", positive=True)
SEEN = np.tril(np.ones((2, 2), bool))
ANGLES = array("theta", 1, 2)
Use = Callable[[Evaluator, Mapping[str, Any]], Quantity]
Steps = Mapping[str, tuple[Use, Mapping[str, tuple[int, ...]]]]  # every equation with the sizes of its arrays


class AnyEpsilon(Symbolic):
    """Symbols in which the one constant of a norm is a symbol too."""

    def constant(self, c: Constant) -> Quantity:
        """The symbol that stands for any."""
        return EPSILON


def _activated(name: str) -> Use:
    return lambda E, a: activate(E, name, a["x"])


def _attended(E: Evaluator, a: Mapping[str, Any], allowed: Mask | None = None) -> Quantity:
    return attention(E, a["query"], a["key"], a["value"], allowed=allowed, scale=inverse_root(3))


def _gated(E: Evaluator, a: Mapping[str, Any]) -> Quantity:
    return feed_forward(E, a["x"], a, "silu")


def _turned(layout: str) -> Use:
    return lambda E, a: turn(E, E.number(a["x"]), E.cos(E.number(ANGLES)), E.sin(E.number(ANGLES)), layout)


def _lost(E: Evaluator, a: Mapping[str, Any]) -> Quantity:
    return cross_entropy(E, a["logits"], np.array([2, 0]), reduction="none")


LAYERS: Steps = {
    "linear": (lambda E, a: linear(E, a["x"], a["weight"], a["bias"]), {"x": (2, 3), "weight": (2, 3), "bias": (2,)}),
    "gated": (_gated, {"x": (1, 1), "up_weight": (1, 1), "gate_weight": (1, 1), "down_weight": (2, 1)}),
    "embedding": (lambda E, a: embedding(E, a["table"], np.array([0, 2, 0])), {"table": (3, 2)}),
    **{name: (_activated(name), {"x": (2,)}) for name in ("relu", "gelu", "gelu_tanh", "silu")},
}
WEIGHTS: Steps = {
    "softmax": (lambda E, a: softmax(E, a["logits"]), {"logits": (1, 3)}),
    "masked": (lambda E, a: E.softmax(E.number(a["logits"]), SEEN), {"logits": (2, 2)}),
    "loss": (_lost, {"logits": (2, 3)}),
}
ATTENTIONS: Steps = {
    "shared": (lambda E, a: _attended(E, a), {"query": (2, 1, 1), "key": (1, 2, 1), "value": (1, 2, 1)}),
    "causal": (
        lambda E, a: _attended(E, a, allowed=SEEN),
        {"query": (1, 2, 1), "key": (1, 2, 1), "value": (1, 2, 2)},
    ),
}
NORMS: Steps = {
    "layer_norm": (
        lambda E, a: layer_norm(E, a["x"], a["weight"], a["bias"], eps=1.0),
        {"x": (1, 2), "weight": (2,), "bias": (2,)},
    ),
    "centred": (lambda E, a: E.standardise(E.number(a["x"]), ONE, centred=True), {"x": (1, 3)}),
    "rms_norm": (lambda E, a: rms_norm(E, a["x"], a["weight"], eps=1.0), {"x": (1, 3), "weight": (3,)}),
}
ROTATIONS: Steps = {layout: (_turned(layout), {"x": (1, 4)}) for layout in ("half", "interleaved")}


def vanishes(difference: Expr) -> bool:
    """Whether an expression is zero as a rational function of roots, exponentials and other functions.

    Each function stands for itself once its argument is expanded, a power of an exponential for that power; a root
    does so with its square known.
    """
    written = canonical_sums(sympy.sympify(difference)).replace(sympy.exp, _power)
    named = written.xreplace({f: Dummy() for f in written.atoms(sympy.Function)})
    roots: dict[Expr, Expr] = {p.base: Dummy() for p in named.atoms(Pow) if p.exp.is_Rational and p.exp.q == 2}
    named = named.replace(lambda e: isinstance(e, Pow) and e.base in roots, lambda e: roots[e.base] ** (2 * e.exp))
    numerator = sympy.expand(sympy.fraction(sympy.together(named))[0])
    for base, root in roots.items():
        numerator = sympy.rem(numerator, sympy.fraction(sympy.together(root**2 - base))[0], root)
    return bool(sympy.expand(numerator) == 0)


def _power(exponent: Expr) -> Expr:
    """The exponential of an integer times a term, as that power of the term's own."""
    factor, term = exponent.as_coeff_Mul()
    return sympy.Function("exponential")(term) ** factor if factor.is_Integer else sympy.exp(exponent)


def derived(steps: Steps, vjp: Equation, E: Evaluator = S) -> bool:
    """Whether every entry of every gradient is the derivative that SymPy takes of ⟨u, f⟩."""
    for equation, shapes in steps.values():
        arrays = {name: array(name, *shape) for name, shape in shapes.items()}
        out = equation(E, arrays)
        u = array("u", *out.shape)
        whole, (_, found) = (u * out).sum(), vjp(E, equation, arrays, u)
        pairs = ((g, x) for n, a in arrays.items() for g, x in zip(found[n].ravel(), a.ravel(), strict=True))
        if not all(vanishes(g - sympy.diff(whole, x)) for g, x in pairs):
            return False
    return True


def paired(steps: Steps, vjp: Equation, jvp: Equation, E: Evaluator = S) -> bool:
    """Whether the change along v is SymPy's, entry by entry, and what u meets of it what the gradient meets of v."""
    for equation, shapes in steps.values():
        arrays, along = ({n: array(f"{kind}{n}", *s) for n, s in shapes.items()} for kind in ("", "v"))
        step = sympy.Symbol("t", real=True)
        moved = equation(E, {n: a + step * along[n] for n, a in arrays.items()})
        due = np.frompyfunc(lambda f: sympy.diff(f, step).subs(step, 0), 1, 1)(moved)  # noqa: B023
        change, u = jvp(E, equation, arrays, along), array("u", *due.shape)
        found = vjp(E, equation, arrays, u)[1]
        inward = sum((found[n] * along[n]).sum() for n in arrays)
        if not all(map(vanishes, ((change - due).ravel()))) or not vanishes((u * change).sum() - inward):
            return False
    return True


@proves(
    PAIRING,
    Scope.SIZES,
    sizes="linear 3 to 2, gated unit of width 1, 3 rows of a table, 2 numbers to each activation, heads of width 4",
    argument="The change along v is the gradient's own transpose; it is SymPy's derivative of f(x + tv) at t = 0, and "
    "its product with u is that of v with the gradient.",
)
def pairing_of_layers(vjp: Equation = vjp, jvp: Equation = jvp) -> bool:
    """⟨u, Jv⟩ = ⟨Jᵀu, v⟩ through linear layers, activations, look-ups and rotations."""
    return paired(LAYERS, vjp, jvp) and paired(ROTATIONS, vjp, jvp)


@proves(
    PAIRING,
    Scope.SIZES,
    sizes="3 logits, 2 of them masked, 2 targets among 3 words, 2 query heads that share one of 2 keys",
    argument="The change along v is SymPy's, and its product with u that of v with the gradient; exponentials stand "
    "for themselves in a rational function that cancels.",
)
def pairing_of_weights(vjp: Equation = vjp, jvp: Equation = jvp) -> bool:
    """The same through a softmax, a loss, and attention with shared heads."""
    return paired(WEIGHTS, vjp, jvp) and paired({"shared": ATTENTIONS["shared"]}, vjp, jvp)


@proves(
    PAIRING,
    Scope.SIZES,
    sizes="rows of width 2, and of width 3 without a mean",
    argument="The change along v is SymPy's, and its product with u that of v with the gradient; epsilon is any "
    "positive number, and the root's square is known.",
)
def pairing_of_norms(vjp: Equation = vjp, jvp: Equation = jvp) -> bool:
    """The same through both norms."""
    return paired({n: NORMS[n] for n in ("layer_norm", "rms_norm")}, vjp, jvp, AnyEpsilon())


@proves(
    DERIVATIVE,
    Scope.SIZES,
    sizes="linear 3 to 2, gated unit of width 1, 3 rows of a table of which one is read twice, 2 numbers to each "
    "activation",
    argument="Reverse mode is run on symbols, SymPy differentiates ⟨u, f⟩ itself, and every entry of the difference "
    "is zero.",
)
def gradient_of_layers(vjp: Equation = vjp) -> bool:
    """The gradients of linear layers, gated units, look-ups and all activations."""
    return derived(LAYERS, vjp)


@proves(
    DERIVATIVE,
    Scope.SIZES,
    sizes="3 logits, a triangle of 2 by 2, 2 targets among 3 words",
    argument="Reverse mode on symbols gives what SymPy derives of ⟨u, f⟩: p·g − p·Σ p·g is the "
    "derivative of quotients of exponentials.",
)
def gradient_of_weights(vjp: Equation = vjp) -> bool:
    """The gradients of softmax, masked softmax and cross-entropy."""
    return derived(WEIGHTS, vjp)


@proves(
    DERIVATIVE,
    Scope.SIZES,
    sizes="2 query heads that share one of 2 keys, and 2 causal tokens, at the scale 1/√3",
    argument="Reverse mode on symbols gives what SymPy derives by queries, keys and values; a shared head's "
    "gradient is the sum over its readers.",
)
def gradient_of_attention(vjp: Equation = vjp) -> bool:
    """The gradients of attention with shared heads and under a mask."""
    return derived(ATTENTIONS, vjp)


@proves(
    DERIVATIVE,
    Scope.SIZES,
    sizes="LayerNorm of width 2, its standardised row of width 3, RMSNorm of width 3",
    argument="Reverse mode on symbols gives what SymPy derives, for any positive epsilon; the root's square is known.",
)
def gradient_of_norms(vjp: Equation = vjp) -> bool:
    """The gradients of both norms by row, gain and bias."""
    return derived(NORMS, vjp, AnyEpsilon())


@proves(
    DERIVATIVE,
    Scope.SIZES,
    sizes="heads of width 4 in both layouts, turned by any angles",
    argument="Reverse mode on symbols gives what SymPy derives: the gradient is turned back by the same angles.",
)
def gradient_of_rotations(vjp: Equation = vjp) -> bool:
    """The gradient of a rotation."""
    return derived(ROTATIONS, vjp)
