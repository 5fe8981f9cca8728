"""Proofs for V.2: the variance of the logits, the entropy of the weights and their Jacobian."""

from sympy import KroneckerDelta, Poly, Sum, diff, exp, expand_log, log, prod

from gnomon.spec.attention import softmax
from gnomon.spec.proofs import Equation, Scope, proves
from gnomon.spec.proofs.algebra import (
    AnySize,
    Expr,
    array,
    canonical_sums,
    cut,
    family,
    index,
    nonnegative,
    picked,
    real,
    size,
    zero,
)
from gnomon.spec.scale import ENTROPY, SATURATION, UNIT_VARIANCE, declared_scale
from gnomon.spec.symbolic import Symbolic

E, S = AnySize(), Symbolic()
keys = size("keys")
i, j, k = index("i j k")
x = family("x", keys)


def over_keys(f: Expr, at: Expr) -> Expr:
    """The sum over all keys."""
    return Sum(f, (at, 0, keys - 1))


@proves(
    UNIT_VARIANCE,
    Scope.GENERAL,
    argument="The mean of the square is a double sum over features c and e of E[q_c q_e]·E[k_c k_e], by "
    "independence; for variance 1 and means μ and ν these are δ_ce + μ² and δ_ce + ν². The variance is "
    "β²d(1 + μ² + ν²): for means of 0 it is d where β = 1, and 1 where β = 1/√d.",
)
def at_every_width(scores: Equation = E.scores) -> bool:
    """The logit of entries of mean 0 and variance 1 has variance β²d."""
    d, e, (beta, mu, nu) = size("d"), index("e"), real("beta mu nu")
    q, key = family("q", 1, d), family("k", 1, d)
    logit = scores(q, key, beta)[0, 0]
    (total,) = logit.atoms(Sum)
    ((c, _, _),) = total.limits
    entries = q[0, c] * q[0, e] * key[0, c] * key[0, e]
    moments = (KroneckerDelta(c, e) + mu**2) * (KroneckerDelta(c, e) + nu**2)
    pairs = total.function * total.function.subs(c, e) / entries * moments
    square = picked(canonical_sums(Sum(pairs, (e, 0, d - 1), (c, 0, d - 1)))) * (logit / total) ** 2
    variance = square - (logit / total * d * mu * nu) ** 2
    return zero(variance - beta**2 * d * (1 + mu**2 + nu**2))


@proves(
    UNIT_VARIANCE,
    Scope.SIZES,
    sizes="head widths 1 to 6",
    argument="The square of the logit is multiplied out and every monomial replaced by its mean: 1 if each entry "
    "in it is squared, else 0.",
)
def scaled_has_variance_one(scores: Equation = S.scores) -> bool:
    """Under the declared scale the variance is 1 and the mean 0, exactly."""
    for width in range(1, 7):
        q, key = array("q", 1, width), array("k", 1, width)
        logit = scores(q, key, declared_scale("1/sqrt(head_width)", width))[0, 0]
        for power, wanted in ((1, 0), (2, 1)):
            terms = Poly(logit**power, *q[0], *key[0]).terms()
            mean = sum(c * prod({0: 1, 1: 0, 2: 1}[n] for n in exponents) for exponents, c in terms)
            if not zero(mean - wanted):
                return False
    return True


@proves(
    ENTROPY,
    Scope.GENERAL,
    argument="The entropy of softmax(βs) is differentiated and the sums of e^{βs}, s·e^{βs} and s²·e^{βs} "
    "compared. The variance is half the sum of p_i p_j (s_i − s_j)², so for β ≥ 0 the slope is at most 0, and the "
    "larger β = 1 has no more entropy than β = 1/√d.",
)
def falls_with_the_scale(softmax: Equation = softmax) -> bool:
    """The slope of the entropy is −β times the variance of the scores, which is a sum of squares."""
    beta = real("beta")
    p, s = softmax(E, x * beta), x
    entropy = -over_keys(p[(j,)] * expand_log(log(p[(j,)]), force=True), j)
    mean, square = over_keys(p[(j,)] * s[(j,)], j), over_keys(p[(j,)] * s[(j,)] ** 2, j)
    inner = canonical_sums(over_keys(p[(j,)] * (s[(i,)] - s[(j,)]) ** 2, j))
    spread = over_keys(p[(i,)] * inner, i) / 2
    return zero(diff(entropy, beta) + beta * (square - mean**2), spread - (square - mean**2))


def jacobian(softmax: Equation, of: Expr, by: Expr) -> Expr:
    """The derivative of the weight of one key by the logit of another."""
    return picked(diff(softmax(E, x)[(of,)], x[(by,)]))


@proves(
    SATURATION,
    Scope.GENERAL,
    argument="The quotient e^{x_i}/Σe^{x_j} is differentiated by x_k.",
)
def the_jacobian(softmax: Equation = softmax) -> bool:
    """The derivative of weight i by logit k is p_i·δ_ik − p_i·p_k."""
    p = softmax(E, x)
    return zero(jacobian(softmax, i, k) - p[(i,)] * KroneckerDelta(i, k) + p[(i,)] * p[(k,)])


@proves(
    SATURATION,
    Scope.GENERAL,
    argument="The trace of J is Σp_i(1 − p_i) = 1 − Σp². Its square less the square of the norm is the sum over "
    "i ≠ k of J_ii·J_kk − J_ik² = p_i p_k (1 − p_i − p_k), and the last factor is the sum of the other weights. "
    "Then for any weight m, here the first: 2(1 − m) − (1 − Σp²) = (1 − m)² + the squares of the others.",
)
def norm_below_trace(softmax: Equation = softmax) -> bool:
    """‖J‖ ≤ 1 − Σp² ≤ 2(1 − max p), by differences that are sums of products of weights."""
    p, rest = softmax(E, x), size("rest")
    at = {(a, b): jacobian(softmax, a, b) for a in (i, k) for b in (i, k)}
    minor = (at[i, i] * at[k, k] - at[i, k] * at[k, i]).subs(KroneckerDelta(i, k), 0)
    others = minor - p[(i,)] * p[(k,)] * (1 - p[(i,)] - p[(k,)])
    trace = over_keys(at[i, i], i) - (1 - over_keys(p[(i,)] ** 2, i))
    first, squares = p[(0,)], over_keys(p[(j,)] ** 2, j)
    slack = 2 * (1 - first) - (1 - squares) - (1 - first) ** 2 - Sum(p[(j + 1,)] ** 2, (j, 0, keys - 2))
    return zero(others, trace, cut(slack.subs(keys, rest + 1), 1, rest))


@proves(
    SATURATION,
    Scope.SIZES,
    sizes="3 keys",
    argument="Written in e^{x_j} > 0, each slack is a quotient of polynomials without a negative coefficient.",
)
def norm_written_out(softmax: Equation = softmax) -> bool:
    """The same chain for the Jacobian of the specification's softmax, differentiated entry by entry."""
    logits, masses = array("x", 3), array("a", 3, positive=True)
    p = softmax(S, logits)
    of_masses = {exp(logit): mass for logit, mass in zip(logits, masses, strict=True)}
    J = [[diff(a, logit).subs(of_masses) for logit in logits] for a in p]
    p = [a.subs(of_masses) for a in p]
    trace, norm = 1 - sum(a**2 for a in p), sum(a**2 for row in J for a in row)
    return nonnegative(trace**2 - norm, *(2 * (1 - a) - trace for a in p))


@proves(
    SATURATION,
    Scope.GENERAL,
    argument="With δ_k = u_k − ε and δ_j = ε − t_j, where u and t are at least 0, e^{2ε}p_j − p'_j is a sum of "
    "products of positive numbers with e^{u_k+t_j} − 1 ≥ 0. Hence p'_j ≤ e^{2ε}p_j, and p_j ≤ e^{2ε}p'_j with the "
    "sides exchanged. |p' − p|₁ is twice what the weights but the largest gain in sum where that one falls, and "
    "twice what they lose where it rises: at most 2(e^{2ε} − 1)(1 − max p) or 2(1 − e^{−2ε})(1 − max p), of which "
    "the first is the larger, by (e^ε − e^{−ε})².",
)
def finite_change(softmax: Equation = softmax) -> bool:
    """A change of the logits by at most ε multiplies no weight by more than e^{2ε}."""
    eps, t, u = real("epsilon"), real("t_j"), family("u", keys)
    before, after = softmax(E, x)[(j,)], softmax(E, x + (u - eps))[(j,)].subs(u[(j,)], 2 * eps - t)
    mass = [over_keys(exp(x[(i,)] + change), i) for change in (0, u[(i,)] - eps)]
    gains = exp(x[(j,)] + x[(i,)] + eps - t) * (exp(u[(i,)] + t) - 1)
    larger = (exp(2 * eps) - 1) - (1 - exp(-2 * eps)) - (exp(eps) - exp(-eps)) ** 2
    return zero(exp(2 * eps) * before - after - over_keys(gains, i) / (mass[0] * mass[1]), larger)
