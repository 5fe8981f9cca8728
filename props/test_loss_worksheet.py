"""I.4.5 held to an implementation that checks worksheets: what the loss omits is told."""

from collections.abc import Iterator
from typing import Any

from gnomon.props.judge import Comparison, same
from gnomon.props.leakage_cases import WORKSHEETS, WorksheetCase, asked
from gnomon.props.outcome import ImplementationFailed
from gnomon.props.property import checks
from gnomon.props.subject import Subject
from gnomon.props.test_capacity import refused
from gnomon.spec import loss as spec

Comparisons = Iterator[Comparison]


@checks(spec.WORKSHEET, WORKSHEETS, needs=("worksheet",))
def worksheet(subject: Subject, case: WorksheetCase) -> Comparisons:
    """A complete record gives what it omits; without one of its omissions, or a reason, it is refused."""
    record = case.record
    due = [term for term in record["objective"] if term in record["omitted"]]
    yield same(f"whether the omitted terms are {due}", _terms(asked(subject, "worksheet", record)) == due, True)
    for term in due:
        rest = {name: reason for name, reason in record["omitted"].items() if name != term}
        yield same(f"refusal without {term!r}", refused(subject, "worksheet", record | {"omitted": rest}), True)
        bare = record | {"omitted": record["omitted"] | {term: " "}}
        yield same(f"refusal of {term!r} without a reason", refused(subject, "worksheet", bare), True)


def _terms(found: Any) -> list[str]:
    try:
        return [str(term) for term in found]
    except TypeError as error:
        raise ImplementationFailed(f"worksheet returned {found!r} where the omitted terms are due") from error
