"""Faults of I.4.5: worksheets that hide what the loss omits."""

from collections.abc import Mapping, Sequence

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import NumpyReference
from gnomon.spec.loss import HIDDEN_OMISSION, OMISSION_BY_LIKENESS, REASON_MISSING


@commits(HIDDEN_OMISSION)
class HiddenOmission(NumpyReference):
    """What is listed is listed, and nobody asks for the rest."""

    def require_told(self, objective: Sequence[str], loss: Sequence[str], omitted: Mapping[str, str]) -> None:
        pass


@commits(OMISSION_BY_LIKENESS)
class OmissionByLikeness(NumpyReference):
    """A term is among others if it is a part of one."""

    def require_told(self, objective: Sequence[str], loss: Sequence[str], omitted: Mapping[str, str]) -> None:
        alike = [term for term in objective if any(term in other for other in (*loss, *omitted))]
        super().require_told([term for term in objective if term not in alike], loss, omitted)


@commits(REASON_MISSING)
class ReasonMissing(NumpyReference):
    """A reason may be empty."""

    def require_reasons(self, omitted: Mapping[str, str]) -> None:
        pass
