"""A property: a clause, where its cases come from, and how one case is checked."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from gnomon.props.cases import Case, MalformedCase, Strategy, read_case
from gnomon.props.judge import Comparison
from gnomon.props.subject import Subject
from gnomon.spec.card import Clause, Level, Mistake
from gnomon.spec.catalogue import order

Check = Callable[[Subject, Any], Iterator[Comparison]]

_properties: list["Property"] = []
_WHOLE = {Level.BLOCK, Level.MODEL}


@dataclass(frozen=True, slots=True, eq=False)
class Property:
    """One way to hold an implementation to a clause.

    cases: the strategy of its cases for a subject. needs: the operations without which it is unsupported.
    mistakes: those of the clause that this property has to reject. share: its part of the budget of cases. plain:
    whether a declined case may be asked again without what many decline (`Case.plain`). experiment: its
    one case is an `ExperimentCase`, a sample or a training run of stated error probability under a seed of its own.
    """

    clause: Clause
    name: str
    cases: Callable[[Subject], Strategy]
    check: Check
    needs: tuple[str, ...]
    mistakes: tuple[Mistake, ...]
    share: float
    plain: bool
    experiment: bool

    @property
    def id(self) -> str:
        """Clause, slug and, where it adds something, the property's own name."""
        own = self.name.replace("_", "-")
        return f"{self.clause.number}-{self.clause.slug}" + ("" if own == self.clause.slug else f"-{own}")

    def dtypes(self, offered: Sequence[str]) -> Sequence[str]:
        """Those of the offered dtypes in which it is judged: one where none enters, and one for an experiment."""
        usual = "float32" if self.experiment and "float32" in offered else offered[0]
        return (usual,) if self.experiment or self.clause.of_no_dtype else offered

    def read_case(self, text: str) -> Case:
        """The case that a failure of this property printed."""
        case: Case = read_case(text)
        kind: type[Case] = get_type_hints(self.check)["case"]
        if not isinstance(case, kind):
            raise MalformedCase(f"{self.name} takes no {type(case).__name__}")
        return case


def checks(
    clause: Clause,
    cases: Strategy | Callable[[Subject], Strategy],
    *,
    needs: tuple[str, ...] = ("attention",),
    mistakes: tuple[Mistake, ...] | None = None,
    share: float = 1.0,
    plain: bool = True,
    experiment: bool = False,
) -> Callable[[Check], Property]:
    """Make a function from a subject and a case to comparisons the property of a clause."""

    def register(check: Check) -> Property:
        drawn = cases if callable(cases) else lambda _: cases
        own = _shown(clause, needs) if mistakes is None else mistakes
        found = Property(clause, check.__name__, drawn, check, needs, own, share, plain, experiment)
        _properties.append(found)
        return found

    return register


def _shown(clause: Clause, needs: tuple[str, ...]) -> tuple[Mistake, ...]:
    """The mistakes that show where the property looks: in a single operation, or in a block or a model."""
    if set(clause.level) <= _WHOLE:
        return clause.mistakes
    return tuple(m for m in clause.mistakes if m.whole == bool({"block", "model"} & set(needs)))


def properties() -> tuple[Property, ...]:
    """Every property, in the order of their clauses."""
    from gnomon.props.collection import load_all

    load_all()
    return tuple(sorted(_properties, key=_place))


def _place(prop: Property) -> tuple[tuple[int, ...], str, int]:
    """Clause, module and line, whatever was imported first."""
    return order(prop.clause.number), prop.check.__module__, prop.check.__code__.co_firstlineno
