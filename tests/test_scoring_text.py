"""Scores of text against sums written out: windows, a token before documents, continuations, windows of files."""

import numpy as np
import pytest

from gnomon.impl.reference import NumpyReference
from gnomon.props.test_evaluation import PIECES, _file, _tokens, encode
from gnomon.spec import evaluation
from gnomon.spec.evaluators import Float64

REFERENCE = NumpyReference()


def seen(tokens):
    """Log-probabilities by which the loss of a token is how many tokens were seen before it, whatever they are."""
    rows, time = tokens.shape
    return np.broadcast_to(-np.arange(1.0, time + 1)[None, :, None], (rows, time, 9))


def losses(length, window, stride):
    """How many tokens are seen before each that is scored, by walking through the windows."""
    found, reached = [], 1
    for begin in range(0, length, stride):
        end = min(begin + window, length)
        found += [place - begin for place in range(reached, end)]
        reached = max(reached, end)
        if end == length:
            break
    return found


@pytest.mark.parametrize("length", [2, 3, 5, 8, 13])
@pytest.mark.parametrize(("window", "stride"), [(2, 1), (3, 2), (4, 3), (5, 1), (20, 7)])
def test_windows_score_each_token_once(length, window, stride):
    due, document = losses(length, window, stride), np.zeros(length, int)
    assert len(due) == length - 1
    mean = sum(due) / len(due)
    assert REFERENCE.evaluate(seen, [document], batch_size=3, window=window, stride=stride) == mean
    assert evaluation.mean_loss(Float64(), seen, [document], window=window, stride=stride)[0] == mean


@pytest.mark.parametrize("start", [0, 4])
def test_a_token_before_a_document_makes_the_first_one_scored(start):
    documents = [np.zeros(3, int), np.zeros(1, int)]
    assert REFERENCE.evaluate(seen, documents, batch_size=2, start=start) == (1 + 2 + 3 + 1) / 4
    assert evaluation.mean_loss(Float64(), seen, documents, start=start)[0] == (1 + 2 + 3 + 1) / 4


def test_a_continuation_is_scored_after_all_of_its_context():
    assert REFERENCE.continuation_score(seen, encode, "ab", "c") == -len(encode("ab"))
    assert [PIECES[i] for i in encode("abc")] == ["abc"]  # a piece that spans the join
    assert REFERENCE.continuation_score(seen, encode, "a", "bcca") == -(1 + 2)  # bc, ca


def test_the_file_that_is_not_there_reads_alike_from_anywhere():
    whole = _tokens(0, 50).tobytes()
    assert all(_file(at, size) == whole[at : at + size] for at in range(20) for size in range(12))
    assert _file(2**32 + 2, 6) == _tokens(2**31 + 1, 3).tobytes()
    assert not np.array_equal(_tokens(0, 8), _tokens(2**30, 8))
    with pytest.raises(ValueError, match="no bytes lie at -2"):
        _file(-2, 2)


def test_windows_of_a_file_are_as_many_as_fit():
    read, length = (lambda at, size: bytes(range(at, at + size))), 3
    found = REFERENCE.token_windows(read, 6, length=length, width=1)
    assert [found[i].tolist() for i in range(len(found))] == [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]]
    assert [len(REFERENCE.token_windows(read, n, length=length, width=1)) for n in (0, 3, 4)] == [0, 0, 1]
