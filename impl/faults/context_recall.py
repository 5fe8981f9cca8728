"""Faults of VIII.3 in what measures recall."""

from collections.abc import Sequence

from gnomon.impl.faults.registry import commits
from gnomon.impl.reference import NumpyReference
from gnomon.spec.context import ANSWER_AT_THE_NEAR_END, QUESTION_ANSWERED


@commits(ANSWER_AT_THE_NEAR_END)
class AnswerAtTheNearEnd(NumpyReference):
    """The filler comes first."""

    def laid_out(self, cue: Sequence[int], answer: int, filler: Sequence[int]) -> list[int]:
        return [*filler, *cue, answer, *cue]


@commits(QUESTION_ANSWERED)
class QuestionAnswered(NumpyReference):
    """The answer follows the question."""

    def laid_out(self, cue: Sequence[int], answer: int, filler: Sequence[int]) -> list[int]:
        return [*super().laid_out(cue, answer, filler), answer]
