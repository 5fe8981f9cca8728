"""Algebra for proofs: arrays whose sizes are symbols, and the few rules that finite sums obey."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import sympy
from sympy import Dummy, Mod, Sum, floor
from sympy.core.traversal import bottom_up

from gnomon.spec.evaluators import Mask, Quantity
from gnomon.spec.symbolic import Symbolic

Expr = Any
Size = Any
_HEIGHTS = tuple(Dummy(f"k_{height}", integer=True) for height in range(16))


class Family:
    """An array of any sizes, symbols among them, that is given by its entry at each index."""

    def __init__(self, shape: tuple[Size, ...], entry: Callable[..., Expr]) -> None:
        self.shape, self.entry = shape, entry

    def __getitem__(self, index: tuple[Expr, ...]) -> Expr:
        """The entry there; leading indices that it lacks are dropped and axes of length one repeat."""
        own = index[len(index) - len(self.shape) :]
        return self.entry(*(sympy.S.Zero if n == 1 else i for i, n in zip(own, self.shape, strict=True)))

    def map(self, function: Callable[..., Expr], *others: Any) -> "Family":
        """The function of the entries of this family and of others, broadcast as NumPy does."""
        families = [self, *(o if isinstance(o, Family) else Family((), lambda o=o: o) for o in others)]
        rank = max(len(f.shape) for f in families)
        axes = zip(*((1,) * (rank - len(f.shape)) + f.shape for f in families), strict=True)
        return Family(tuple(map(_broadcast, axes)), lambda *index: function(*(f[index] for f in families)))

    def __add__(self, other: Any) -> "Family":
        return self.map(lambda a, b: a + b, other)

    def __sub__(self, other: Any) -> "Family":
        return self.map(lambda a, b: a - b, other)

    def __mul__(self, other: Any) -> "Family":
        return self.map(lambda a, b: a * b, other)

    def __truediv__(self, other: Any) -> "Family":
        return self.map(lambda a, b: a / b, other)

    def __matmul__(self, other: "Family") -> "Family":
        k, terms, rows = Dummy("k", integer=True), _broadcast((self.shape[-1], other.shape[-2])), self.shape[-2:-1]

        def entry(*index: Expr) -> Expr:
            *lead, i, j = index
            if terms == 1:
                return self[*lead, i, sympy.S.Zero] * other[*lead, sympy.S.Zero, j]
            return Sum(self[*lead, i, k] * other[*lead, k, j], (k, 0, terms - 1))

        lead = max(self.shape[:-2], other.shape[:-2], key=len)
        return Family((*lead, *rows, other.shape[-1]), entry)

    def swapaxes(self, first: int, second: int) -> "Family":
        """The same entries with two axes exchanged."""

        def exchange(items: tuple[Any, ...]) -> tuple[Any, ...]:
            moved = list(items)
            moved[first], moved[second] = moved[second], moved[first]
            return tuple(moved)

        return Family(exchange(self.shape), lambda *index: self.entry(*exchange(index)))

    def reshape(self, *shape: Size) -> "Family":
        """The last axis cut in two, or the last two merged, as a row-major reshape does."""
        if len(shape) > len(self.shape):
            return Family(shape, lambda *index: self.entry(*index[:-2], index[-2] * shape[-1] + index[-1]))
        inner = self.shape[-1]
        return Family(shape, lambda *at: self.entry(*at[:-1], floor(at[-1] / inner), Mod(at[-1], inner)))


def _broadcast(sizes: tuple[Size, ...]) -> Size:
    """The one size of an axis besides 1; two different symbols are not known to be equal."""
    distinct = set(sizes) - {1}
    if len(distinct) > 1:
        raise ValueError(f"sizes {sorted(map(str, distinct))} meet on one axis")
    return distinct.pop() if distinct else 1


class AnySize(Symbolic):
    """The equations over families: what it gives holds for every size at once."""

    def number(self, x: Any) -> Quantity:
        """The family itself."""
        return x

    def constant(self, c: Any) -> Expr:
        """The constant, or the symbol that stands for any."""
        return c if isinstance(c, sympy.Expr) else super().constant(c)

    def exp(self, a: Family) -> Family:
        """e to the a."""
        return a.map(sympy.exp)

    def cos(self, a: Family) -> Family:
        """The cosine."""
        return a.map(sympy.cos)

    def sin(self, a: Family) -> Family:
        """The sine."""
        return a.map(sympy.sin)

    def select(self, mask: Mask | None, a: Quantity) -> Quantity:
        """`a`: no mask has a size that is a symbol."""
        if mask is not None:
            raise NotImplementedError("a mask has definite sizes")
        return a

    def total(self, a: Family) -> Family:
        """The sum over the last axis."""
        k = Dummy("k", integer=True)
        last = a.shape[-1]
        return Family((*a.shape[:-1], 1), lambda *at: Sum(a[*at[:-1], k], (k, 0, last - 1)))


class _Matrix:
    """A matrix expression that answers to the names of NumPy's arrays."""

    def __init__(self, of: Expr) -> None:
        self.of = of

    def swapaxes(self, _first: int, _second: int) -> "_Matrix":
        return _Matrix(self.of.T)

    def __matmul__(self, other: "_Matrix") -> "_Matrix":
        return _Matrix(self.of * other.of)

    def __mul__(self, factor: Expr) -> "_Matrix":
        return _Matrix(factor * self.of)


class Matrices(Symbolic):
    """The equations over matrix expressions of symbolic sizes; a bias is a row."""

    def number(self, x: Any) -> Quantity:
        """The expression, wrapped once."""
        return x if isinstance(x, _Matrix) else _Matrix(x)

    def affine(self, x: _Matrix, weight: _Matrix, bias: _Matrix) -> Quantity:
        """x·weight with the bias under every row."""
        return _Matrix(x.of * weight.of + sympy.OneMatrix(x.of.rows, 1) * bias.of)

    def store(self, a: _Matrix, site: str) -> Expr:
        """The expression, unwrapped."""
        return a.of


def size(names: str) -> Any:
    """Symbols for sizes: positive integers."""
    return sympy.symbols(names, integer=True, positive=True)


def index(names: str) -> Any:
    """Symbols for positions: integers from 0."""
    return sympy.symbols(names, integer=True, nonnegative=True)


def real(names: str, **assumptions: bool) -> Any:
    """Symbols for real numbers."""
    return sympy.symbols(names, real=True, **assumptions)


def family(name: str, *shape: Size, **assumptions: bool) -> Family:
    """A family of real numbers about which no more is known than is assumed."""
    entries = sympy.IndexedBase(name, real=True, **assumptions)
    return Family(shape, lambda *at: entries[at])


def array(name: str, *shape: int, **assumptions: bool) -> Any:
    """An array of real symbols, all different."""
    symbols = [real(f"{name}{'_'.join(map(str, at))}", **assumptions) for at in product(*map(range, shape))]
    return np.array(symbols, dtype=object).reshape(shape)


def zero(*differences: Any) -> bool:
    """Whether every entry of every difference is zero, by the rules of algebra and of finite sums."""
    entries = [e for d in differences for e in np.ravel(np.asarray(d, object))]
    return bool(entries) and all(_is_zero(e) for e in entries)


def by_exponentials(difference: Expr) -> Expr:
    """The expression with every sine and cosine written by exponentials, among which products are sums."""
    return difference.rewrite(sympy.exp)


def no_matrix(difference: Expr) -> bool:
    """Whether a matrix expression is the zero matrix, by distributing and cancelling alone."""
    return bool(difference.expand().doit().is_ZeroMatrix)


def _is_zero(difference: Expr) -> bool:
    """Each sum is made canonical and then stands for itself in a rational function that must cancel."""
    canonical = bottom_up(canonical_sums(sympy.sympify(difference)), _named)
    names = {s: Dummy() for s in canonical.atoms(Sum)}
    numerator, _ = sympy.fraction(sympy.together(canonical.xreplace(names)))
    return bool(sympy.expand(numerator) == 0)


def _named(e: Expr) -> Expr:
    """The sum with each variable named by its height; as_dummy() gives nested variables one name (SymPy 1.14)."""
    if not isinstance(e, Sum):
        return e
    result = e.function
    for k, first, last in e.limits:
        inner = (height for height, name in enumerate(_HEIGHTS) if name in result.atoms(Dummy))
        name = _HEIGHTS[max(inner, default=-1) + 1]
        result = Sum(result.xreplace({k: name}), (name, first, last))
    return result


def canonical_sums(expression: Expr) -> Expr:
    """The expression expanded, with every sum taken term by term and free of constant factors."""
    return bottom_up(expression, _expanded)


def _expanded(e: Expr) -> Expr:
    if isinstance(e, Sum):
        return _linear(e)
    if isinstance(e, sympy.exp):
        return sympy.Mul(*map(sympy.exp, sympy.Add.make_args(_distributed(e.exp))))
    return _distributed(e) if isinstance(e, sympy.Expr) else e


def _distributed(e: Expr) -> Expr:
    return sympy.expand(e, power_exp=False)  # which would make a product of the exponential of a sum


def _linear(total: Expr) -> Expr:
    result = total.function
    for k, first, last in total.limits:
        terms = (t.as_independent(k, as_Add=False) for t in sympy.Add.make_args(_distributed(result)))
        result = sympy.Add(*(factor * _sum(rest, k, first, last) for factor, rest in terms))
    return _distributed(result)


def _sum(summand: Expr, k: Expr, first: Expr, last: Expr) -> Expr:
    if first == last:
        return summand.subs(k, first)
    return last - first + 1 if summand == 1 else Sum(summand, (k, first, last))


def over_sums(expression: Expr, rule: Callable[[Expr, Expr, Expr, Expr], Expr | None]) -> Expr:
    """The expression with each sum replaced by rule(summand, variable, first, last), where that is something."""

    def apply(e: Expr) -> Expr:
        if not isinstance(e, Sum):
            return e
        result = e.function
        for limits in e.limits:
            changed = rule(result, *limits)
            result = Sum(result, limits) if changed is None else changed
        return result

    return bottom_up(expression, apply)


def reordered(expression: Expr, permutation: Expr, count: Size) -> Expr:
    """Every sum over all `count` things that meets its variable j only as π(j) becomes the sum over j."""

    def rule(summand: Expr, j: Expr, first: Expr, last: Expr) -> Expr | None:
        i = Dummy("i", integer=True)
        plain = summand.xreplace({permutation(j): i})
        alone = last == count - 1 and plain.has(i) and not plain.has(j)
        return Sum(plain, (i, first, last)) if alone else None

    return over_sums(expression, rule)


def cut(expression: Expr, at: Size, end: Size) -> Expr:
    """Every sum over 0 … at+end−1 becomes the sum over the first `at` terms plus the sum over the rest."""

    def rule(summand: Expr, j: Expr, first: Expr, last: Expr) -> Expr | None:
        if last != at + end - 1:
            return None
        rest = summand.subs(j, j + at)
        return Sum(summand, (j, first, at - 1)) + Sum(rest, (j, 0, end - 1))

    return over_sums(expression, rule)


def divided(expression: Expr, count: Size, width: Size) -> Expr:
    """Every sum over 0 … count·width−1 becomes the double sum over quotient and remainder by the width."""

    def divide(summand: Expr, f: Expr, first: Expr, last: Expr) -> Expr | None:
        i, c = Dummy("i", integer=True), Dummy("c", integer=True)
        parts = {floor(f / width): i, Mod(f, width): c, f: i * width + c}
        double = Sum(summand.xreplace(parts), (c, 0, width - 1), (i, 0, count - 1))
        return double if last == count * width - 1 else None

    def remain(summand: Expr, c: Expr, first: Expr, last: Expr) -> Expr | None:
        own = {floor(c / width): sympy.S.Zero, Mod(c, width): c}
        return Sum(summand.xreplace(own), (c, first, last)) if last == width - 1 else None

    split = over_sums(expression, divide).replace(floor, lambda quotient: floor(sympy.expand(quotient)))
    return over_sums(split, remain)


def picked(expression: Expr) -> Expr:
    """Every sum of f(j)·δ(j,k) becomes f(k); k is meant to lie in the range."""

    def rule(summand: Expr, j: Expr, first: Expr, last: Expr) -> Expr | None:
        delta = next((d for d in summand.atoms(sympy.KroneckerDelta) if d.has(j)), None)
        if delta is None:
            return None
        (k,) = (a for a in delta.args if a != j)
        return summand.xreplace({delta: sympy.S.One}).subs(j, k)

    return over_sums(expression, rule)


def nonnegative(*expressions: Any) -> bool:
    """Whether every expression is seen to be at least 0 from the signs of its symbols alone."""
    entries = [e for d in expressions for e in np.ravel(np.asarray(d, object))]
    return bool(entries) and all(sympy.factor(sympy.expand(e)).is_nonnegative is True for e in entries)


def permutations(n: int) -> Iterator[list[int]]:
    """Generators of all permutations of n things: exchange the first two, and turn the circle."""
    yield [1, 0, *range(2, n)]
    yield [*range(1, n), 0]
