"""Experiments tell what they should apart, with the error probabilities that they state; so do the two instruments."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from click.testing import CliRunner

from gnomon.impl.faults import faults_of
from gnomon.impl.loading import load
from gnomon.impl.reference import numpy_reference
from gnomon.props import experiments, test_block_training, test_reach_training, test_scale_training
from gnomon.props.cases import ExperimentCase
from gnomon.props.command import main
from gnomon.props.engine import Budget, examine
from gnomon.props.experiments import ENOUGH, ERROR, RUNS, Adam, classified, in_most_runs
from gnomon.props.outcome import Declined, Status
from gnomon.props.property import properties
from gnomon.props.reaching import Reach, Seen, distances, sentences
from gnomon.props.subject import Subject
from gnomon.spec.block import DEGRADATION
from gnomon.spec.capacity import RANDOM_LABELS, memorising
from gnomon.spec.card import Kind
from gnomon.spec.context import TRAINED_LENGTH
from gnomon.spec.reach import BOTTLENECK
from gnomon.spec.scale import STILL_TRAINS
from gnomon.spec.statistics import relative_entropy, share_interval

TRAINED = (STILL_TRAINS, DEGRADATION, RANDOM_LABELS, TRAINED_LENGTH, BOTTLENECK)
EXPERIMENTS = [p for p in properties() if p.clause in TRAINED and p.experiment]


def subject(name="numpy", dtype="float32"):
    return Subject(load(name), dtype)


def at_least(count, trials, share):
    """The exact probability of so many successes or more."""
    share = Fraction(share)
    return sum(comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(count, trials + 1))


# What is stated of errors.


def test_a_claim_of_nearly_every_run_hardly_ever_fails():
    assert 1 - at_least(ENOUGH, RUNS, Fraction(99, 100)) < ERROR


def test_a_claim_of_few_runs_hardly_ever_passes():
    assert at_least(ENOUGH, RUNS, Fraction(1, 10)) < ERROR


@pytest.mark.parametrize(("true", "holds"), [(ENOUGH, True), (ENOUGH - 1, False), (0, False), (RUNS, True)])
def test_the_verdict_turns_at_enough(true, holds):
    assert in_most_runs("it is so", [True] * true + [False] * (RUNS - true)).holds is holds


def test_another_number_of_runs_is_refused():
    with pytest.raises(ValueError, match="3 runs of 24"):
        in_most_runs("it is so", [True] * 3)


@pytest.mark.parametrize(("right", "holds"), [(100, True), (400, False), (0, False), (172, False)])
def test_chance_is_told_from_knowing(right, holds):
    assert experiments.at_chance("held out", right, 400, 0.25).holds is holds


@pytest.mark.parametrize(("right", "trials"), [(0, 40), (40, 40), (13, 40), (1, 7)])
def test_an_interval_ends_where_the_tail_is_bounded(right, trials):
    low, high = share_interval(right, trials, 0.01)
    assert low <= right / trials <= high
    assert at_least(right, trials, low) <= 0.005 if right else low < 2.0**-50
    assert 1 - at_least(right + 1, trials, high) <= 0.005 if right < trials else high > 1 - 2.0**-50
    assert trials * relative_entropy(right / trials, (low + right / trials) / 2) < np.log(200)


# The loop.


def test_the_optimiser_walks_at_its_rate():
    parameters, adam = {"w": np.array([1.0, -1.0])}, Adam(0.5, epsilon=0.0)
    adam.step(parameters, {"w": np.array([3.0, -4.0])})
    assert parameters["w"].tolist() == [0.5, -0.5]
    adam.step(parameters, {"w": np.zeros(2)})
    assert (np.abs(parameters["w"]) < 0.5).all()


def test_the_gradient_of_the_loss_is_softmax_less_the_target():
    loss, gradient = classified(np.log([[1.0, 3.0], [2.0, 2.0]]), np.array([1, 0]))
    assert abs(loss + np.log([0.75, 0.5]).mean()) < np.spacing(1.0)
    assert np.abs(gradient - np.array([[0.125, -0.125], [-0.25, 0.25]])).max() < np.spacing(1.0)


def test_runs_lie_side_by_side_and_do_not_meet():
    weights = np.random.default_rng(0).standard_normal((RUNS, 5, 6))
    whole = test_block_training.side_by_side(weights)
    assert (test_block_training.apart(whole, (5, 6)) == weights).all()
    assert np.count_nonzero(whole) == weights.size
    x = np.random.default_rng(1).standard_normal((RUNS, 6))
    assert np.abs(whole @ x.ravel() - np.einsum("roi,ri->ro", weights, x).ravel()).max() < 2.0**-45


def test_experiments_train_in_one_dtype():
    experiments.require_training(subject())
    with pytest.raises(Declined, match="experiments train in float32 alone"):
        experiments.require_training(subject(dtype="float64"))


# The experiments.


def test_a_quick_run_trains_nothing():
    (prop,) = (p for p in EXPERIMENTS if p.clause is DEGRADATION)
    assert DEGRADATION.kind is Kind.TRAINED
    assert examine(prop, subject(), Budget(trained=False)).status is Status.NOT_RUN


@pytest.mark.parametrize("prop", EXPERIMENTS, ids=lambda p: p.name)
def test_an_experiment_holds_and_sees_its_mistakes(prop):
    verdict = examine(prop, subject(), Budget())
    assert (verdict.status, verdict.undetected) == (Status.HOLDS, ())


@pytest.mark.slow
@pytest.mark.parametrize("prop", EXPERIMENTS, ids=lambda p: p.name)
def test_an_experiment_holds_again_and_again(prop):
    for _ in range(10):
        assert examine(prop, subject(), Budget(sensitivity=False)).status is Status.HOLDS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torch", "jax"])
@pytest.mark.parametrize("prop", EXPERIMENTS, ids=lambda p: p.name)
def test_an_experiment_holds_of_libraries(prop, name):
    assert examine(prop, subject(name), Budget()).status in (Status.HOLDS, Status.UNSUPPORTED)


def test_without_the_keyword_the_query_carries_the_scale(monkeypatch):
    asked = subject()
    monkeypatch.setattr(asked, "offers", lambda *_: False)
    recall = test_scale_training.Recall(asked, 0, 1.0)
    arrays, options = recall.scaled(np.ones(3), np.ones(3), np.ones(3))
    assert (arrays[0].tolist(), options) == ([16.0] * 3, {})


def test_a_scale_that_is_ignored_makes_no_difference():
    (fault,) = faults_of(STILL_TRAINS)
    losses = [
        test_scale_training.Recall(Subject(fault.implementation, "float32"), 5, scale).losses()[:3]
        for scale in (1.0, 0.0625)
    ]
    assert (losses[0] == losses[1]).all()


@pytest.mark.parametrize("items", [8, 64])
def test_what_is_read_out_of_a_state_is_what_its_rank_allows(items):
    share = test_reach_training.unexplained(subject(), 3, items)
    assert abs(share - max(0, 1 - 32 / items)) < 2.0**-20


def test_weights_that_memorise_are_whole_where_the_numbers_are():
    offsets, weights = memorising([0, 1, 3], [2, -1, 4])
    assert offsets == [-1, 0, 1]
    assert [sum(w * max(x - b, 0) for w, b in zip(weights, offsets, strict=True)) for x in (0, 1, 3)] == [2, -1, 4]
    places, labels = [Fraction(1, 3), Fraction(1, 2), Fraction(22, 7)], [Fraction(1), Fraction(-5), Fraction(2, 3)]
    offsets, weights = memorising(places, labels)
    found = [sum(w * max(x - b, 0) for w, b in zip(weights, offsets, strict=True)) for x in places]
    assert found == labels


def test_every_experiment_repeats_under_its_seed():
    (prop,) = (p for p in EXPERIMENTS if p.name == "bottleneck")
    case = ExperimentCase(seed=11)
    one, other = ([c.got.tolist() for c in prop.check(subject(), case)] for _ in range(2))
    assert one == other


# Recall against distance.


def test_the_answer_occurs_once_after_its_cue():
    rng = np.random.default_rng(0)
    for distance in (5, 6, 40):
        tokens, answer = numpy_reference.question(rng, 12, distance)
        assert len(tokens) == distance + 4
        assert tokens[:4] == tokens[-4:]
        assert (tokens[4], tokens.count(answer)) == (answer, 1)
        assert all(tokens.count(t) == 2 for t in tokens[:4])


def test_distances_grow_by_half_an_octave():
    assert distances(6) == [5, 6]
    assert distances(64) == [5, 7, 10, 14, 20, 28, 40, 57, 64]


SEEN = [Seen(5, 100, 100), Seen(10, 80, 100), Seen(20, 45, 100), Seen(40, 3, 100), Seen(80, 1, 100)]


def test_what_is_said_of_a_model_that_forgets():
    assert sentences(Reach("it", 50, SEEN, "")) == [
        "Guessing is right once in 50.",
        "it recalls at least half up to 10 tokens back and, with all that chance allows, not from 40 on.",
        "It takes 80 without a word: a buffer of that size, of which it uses 10.",
    ]


def test_what_is_said_of_a_model_that_does_not():
    assert sentences(Reach("it", 50, SEEN[:2], "14 tokens are refused: why")) == [
        "Guessing is right once in 50.",
        "it recalls at least half from 10 tokens back, the farthest tried.",
        "Nothing beyond was tried: 14 tokens are refused: why.",
    ]


def test_what_is_said_of_a_model_that_never_recalls():
    assert sentences(Reach("it", 50, SEEN[3:], ""))[1:] == [
        "it does not recall at all, not even 40 tokens back.",
        "It takes 80 without a word: a buffer of that size, of which it uses 5.",
    ]


LOOKS_BACK = """
import numpy as np

VOCABULARY = 50


def load():
    def model(tokens):
        rows, time = tokens.shape
        if time > 100:
            raise ValueError("a hundred at most")
        earlier = np.zeros((rows, time), bool)
        earlier[:, :-1] = (tokens[:, :-1] == tokens[:, -1:]) & (np.arange(time - 1) >= time - 1 - 30)
        follows = np.minimum(time - 1 - earlier[:, ::-1].argmax(-1) + 1, time - 1)
        said = np.where(earlier.any(-1), tokens[np.arange(rows), follows], tokens[:, -1])
        return np.repeat((said[:, None] == np.arange(VOCABULARY)).astype(float)[:, None], time, axis=1)

    return model


def remembering(inputs, labels, seed):
    return lambda asked: labels[((asked[:, None] - inputs) ** 2).sum(-1).argmin(-1)]


def knowing(inputs, labels, seed):
    drawn = np.random.default_rng(seed).integers(0, 4, 496)
    return lambda asked: drawn[:96] if len(asked) == 96 else drawn[96:]


def failing(inputs, labels, seed):
    raise ValueError("no more memory")
"""


@pytest.fixture
def said(tmp_path, monkeypatch):
    """What a command prints of the module above, and its exit code."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(LOOKS_BACK)

    def run(*arguments):
        ran = CliRunner().invoke(main, arguments)
        return " ".join(ran.output.split()), ran.exit_code

    return run


def test_reach_prints_plots_and_concludes(said, tmp_path):
    printed, code = said("reach", "./mine.py", "--asked", "20", "--plot", "here.png")
    assert code == 0
    assert "28 20 20 1.00" in printed
    assert "40 0 20 0.00" in printed
    assert "recalls at least half up to 28 tokens back and, with all that chance allows, not from 40 on." in printed
    assert "Nothing beyond was tried: 117 tokens are refused: model raised ValueError: a hundred at most" in printed
    assert (tmp_path / "here.png").read_bytes().startswith(b"\x89PNG")


def test_reach_says_what_it_cannot_run(said):
    printed, code = said("reach", "nowhere:load")
    assert (code, printed.startswith("Error: cannot run nowhere:load: there is no module 'nowhere'")) == (3, True)


def test_random_labels_of_what_remembers(said):
    printed, code = said("random-labels", "./mine.py:remembering")
    assert code == 0
    assert "learned 96 96 1.00" in printed
    assert printed.endswith("On held-out items it is right as often as guessing is, as it has to be.")


def test_random_labels_of_what_knows_the_rest(said):
    printed, code = said("random-labels", "./mine.py:knowing")
    assert (code, printed.endswith("can not be known: the score leaks.")) == (1, True)


@pytest.mark.parametrize("name", ["failing", "nothing"])
def test_random_labels_that_cannot_be_had(said, name):
    printed, code = said("random-labels", f"./mine.py:{name}")
    assert (code, "Error:" in printed) == (3, True)
