"""The objective worksheet: what is wanted, what the loss sees of it, and what it leaves out, which has to be said."""

from collections.abc import Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]


class NumpyWorksheet:
    """A record of an objective and a loss, which is refused if a term of the objective got lost between them."""

    def worksheet(self, record: Record) -> list[str]:
        """The omitted terms, in the order of the objective; a record that hides one is a ValueError with the reason.

        record: `objective` and `loss`, the names of their terms; `omitted`, the reason for each term left out.
        """
        objective, loss, omitted = record["objective"], record["loss"], record["omitted"]
        self.require_terms(objective)
        self.require_reasons(omitted)
        self.require_told(objective, loss, omitted)
        self.require_sense(objective, loss, omitted)
        return [term for term in objective if term in omitted]

    def require_terms(self, objective: Sequence[str]) -> None:
        """Refuse an objective that says nothing, or says something twice."""
        if not objective:
            raise ValueError("the objective has no term: say what you want, one term for each thing")
        twice = sorted({term for term in objective if objective.count(term) > 1})
        if twice:
            raise ValueError(f"the objective lists {listed(twice)} more than once")

    def require_reasons(self, omitted: Mapping[str, str]) -> None:
        """Refuse an omission without a reason."""
        bare = [term for term, reason in omitted.items() if not reason.strip()]
        if bare:
            raise ValueError(f"no reason is given for leaving out {listed(bare)}")

    def require_told(self, objective: Sequence[str], loss: Sequence[str], omitted: Mapping[str, str]) -> None:
        """Refuse a term that is neither in the loss nor listed as omitted."""
        hidden = [term for term in objective if not self.among(term, loss) and not self.among(term, omitted)]
        if hidden:
            raise ValueError(f"{listed(hidden)}: in the objective, and neither in the loss nor listed as omitted")

    def require_sense(self, objective: Sequence[str], loss: Sequence[str], omitted: Mapping[str, str]) -> None:
        """Refuse an omission of what is in the loss, or of what nobody wanted."""
        both = [term for term in omitted if self.among(term, loss)]
        if both:
            raise ValueError(f"{listed(both)}: both in the loss and listed as omitted")
        unwanted = [term for term in omitted if term not in objective]
        if unwanted:
            raise ValueError(f"{listed(unwanted)}: listed as omitted, and no term of the objective")

    def among(self, term: str, terms: Sequence[str] | Mapping[str, str]) -> bool:
        """Whether a term is one of several."""
        return term in list(terms)


def listed(terms: Sequence[str]) -> str:
    """Terms in a sentence."""
    return ", ".join(f"{term!r}" for term in terms)
