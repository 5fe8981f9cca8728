"""Proofs for III.1: a look-up is a product with one-hot vectors, and names are only names."""

from sympy import Function, KroneckerDelta

from gnomon.spec.embedding import LOOK_UP, embedding
from gnomon.spec.proofs import Equation, Scope, proves
from gnomon.spec.proofs.algebra import AnySize, Expr, Family, family, index, picked, size, zero


class Table(Family):
    """A family of rows that a family of ids can pick from."""

    def __getitem__(self, ids: Family | tuple[Expr, ...]) -> Expr:
        """The rows that the ids name, or the entry at an index."""
        if isinstance(ids, Family):
            return Family((*ids.shape, self.shape[-1]), lambda *at: self.entry(ids[at[:-1]], at[-1]))
        return super().__getitem__(ids)


E = AnySize()
batch, time, vocabulary, width = size("batch time vocabulary width")
at = index("b t c")
NAME, MOVED = Function("i", integer=True), Function("pi", integer=True)
IDS = Family((batch, time), lambda b, t: NAME(b, t))
TABLE = Table((vocabulary, width), family("e", vocabulary, width).entry)


@proves(
    LOOK_UP,
    Scope.GENERAL,
    argument="In the product with one-hot vectors the sum over the vocabulary meets each row times a Kronecker delta, "
    "and one term is left.",
)
def one_hot_product(embedding: Equation = embedding) -> bool:
    """The row of id i is Σ_v δ(v, i)·E_v."""
    one_hot = Family((batch, time, vocabulary), lambda b, t, v: KroneckerDelta(v, NAME(b, t)))
    return zero(picked((one_hot @ TABLE)[at]) - embedding(E, TABLE, IDS)[at])


@proves(
    LOOK_UP,
    Scope.GENERAL,
    argument="The relabelled table has at v the row that was at π(v), so its row at i is the row at π(i).",
)
def any_names(embedding: Equation = embedding) -> bool:
    """Rows in another order, looked up by where they stand now, are the rows looked up by where they stood."""
    relabelled = Table(TABLE.shape, lambda v, c: TABLE.entry(MOVED(v), c))
    stood = Family(IDS.shape, lambda b, t: MOVED(NAME(b, t)))
    return zero(embedding(E, relabelled, IDS)[at] - embedding(E, TABLE, stood)[at])
