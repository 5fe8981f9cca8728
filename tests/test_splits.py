"""Splits, pipelines and scores: each verdict by hand, wrong input in one sentence, and the instruments on files."""

import resource
import sys
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from click.testing import CliRunner
from commanding import python

from gnomon.impl.loading import described, load
from gnomon.impl.reference import NumpyReference
from gnomon.impl.scores import Score, score
from gnomon.props.command import main
from gnomon.props.engine import Budget, examine
from gnomon.props.judge import Violation
from gnomon.props.leakage_cases import PipelineCase, ScoreCase, SplitCase, WorksheetCase, checked_pairs
from gnomon.props.outcome import ImplementationFailed, Status
from gnomon.props.property import properties
from gnomon.props.subject import Subject
from gnomon.props.test_leakage import counts_of, noise_score
from gnomon.spec import capacity, evaluation, leakage
from gnomon.spec.evaluators import Float64

FEW = Budget(cases=15, sensitivity=False)


def by_name(name):
    return next(p for p in properties() if p.name == name)


def verdict(name, thing, budget=FEW):
    implementation = described("mine", thing, "mine")
    return examine(by_name(name), Subject(implementation, "float64"), budget)


# The specification, counted out.


@pytest.mark.parametrize("items", [1, 2, 7, 12])
@pytest.mark.parametrize("error", [Fraction(1, 3), Fraction(1, 50), Fraction(1, 4096)])
def test_the_limit_of_chance_is_that_of_all_outcomes(items, error):
    heads = [sum(outcome) for outcome in product((0, 1), repeat=items)]
    limit = leakage.most_by_chance(items, error)
    above = Fraction(sum(h > limit for h in heads), 2**items)
    at_least = Fraction(sum(h >= limit for h in heads), 2**items)
    assert above <= error < at_least


def test_texts_are_alike_by_what_is_read():
    alike = ["Straße  eins", " strasse\tEINS ", "STRASSE eins"]
    assert len(set(leakage.keys(alike, "text"))) == 1
    assert len(set(leakage.keys(alike, "exact"))) == 3
    assert leakage.text_key("ﬁne") == leakage.text_key("FINE")
    assert leakage.text_key("a b") != leakage.text_key("ab")


def test_numbers_are_alike_up_to_three_digits():
    assert leakage.rounded_key([1.0001, 2.0]) == leakage.rounded_key([0.9999, 2.0])
    assert leakage.rounded_key([1.001, 2.0]) != leakage.rounded_key([1.0, 2.0])


@pytest.mark.parametrize(("window", "stride"), [(w, s) for w in (2, 3, 5) for s in range(1, w)])
def test_a_token_is_scored_in_the_first_window_that_reaches_it(window, stride):
    for place in range(1, 20):
        begins = [b for b in range(0, 20, stride) if b + window > place]
        assert evaluation.begin(place, window, stride) == begins[0] < place
    assert evaluation.begin(7, 0, 0) == 0


def test_the_gap_and_its_error_are_those_of_two_means():
    training, held_out = np.array([1.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0])
    E = Float64()
    assert capacity.gap(E, training, held_out)[0] == 0.25
    assert capacity.squared_error(E, training, held_out)[0] == 0.25 / 4 + 0.5 / 2


def test_the_error_of_a_difference_counts_groups():
    """Two groups of two rows, all of whose differences are the group's own: as much as two rows would tell."""
    random, grouped, groups = np.zeros(4), np.array([1.0, 1.0, 3.0, 3.0]), np.array([5, 5, 9, 9])
    assert evaluation.split_difference(Float64(), random, grouped)[0] == 2
    assert evaluation.squared_error(Float64(), random, grouped, groups)[0] == 1  # variance 2 over 2


# Every reference of a score.


def test_a_score_prints_what_it_is_of_and_refuses_others():
    reference, rows = NumpyReference(), np.arange(8.0)
    one, other = (
        reference.score_record(v, metric="accuracy", rows=rows, train=np.arange(6), held=np.array(held))
        for v, held in ((0.5, [6, 7]), (0.25, [7]))
    )
    assert one - one == 0
    assert one.split != other.split
    with pytest.raises(
        ValueError, match=r"the scores are of different splits \(\w{8} and \w{8}\): score both models on"
    ):
        one - other
    with pytest.raises(ValueError, match="accuracy and loss are different metrics"):
        one - Score(0.5, "loss", one.split)


def test_a_score_of_ones_own_is_made_of_lists_and_masks():
    rows = [[1, 2], [3, 4], [5, 6]]
    by_list = score(0.5, metric="accuracy", rows=rows, train=[1, 0], held=[2])
    by_mask = score(0.25, metric="accuracy", rows=np.array(rows), train=[True, True, False], held=[False, False, True])
    assert by_list - by_mask == 0.25
    with pytest.raises(ValueError, match="the scores are of different splits"):
        by_list - score(0.25, metric="accuracy", rows=rows, train=[1], held=[2])


def test_a_fingerprint_is_the_same_in_another_process():
    code = (
        "from gnomon.impl.scores import score; print(score(1, metric='m', rows=['a', 'b'], train=[0], held=[1]).split)"
    )
    assert python("-c", code).out.strip() == score(0, metric="m", rows=["a", "b"], train=[0], held=[1]).split


def test_a_fingerprint_is_that_of_the_table_whatever_holds_it():
    reference = NumpyReference()
    prints = {
        reference.fingerprint(rows, np.arange(2), np.array([2]))
        for rows in (np.array([1.0, 2, 3]), np.array([1.0, 2, 4]), np.array([1, 2, 3]), np.array(["1", "2", "3"]),
                     np.array([1, "a", None], object), np.array([[1.0], [2], [3]]))
    }  # fmt: skip
    assert len(prints) == 6
    strided = np.arange(6.0)[::2]
    assert reference.fingerprint(strided, np.arange(2), np.array([2])) == reference.fingerprint(
        strided.copy(), np.arange(2), np.array([2])
    )


# What comes back is looked at before it is judged.

WRONG = {
    "nothing": (None, "mine returned a NoneType where pairs of indices are due"),
    "no pair": ([], "mine returned no pair of training and held-out indices"),
    "a number": ([3], "mine, split 0, is a int where a pair of training and held-out indices is due"),
    "three": ([([0], [1], [2])], "mine, split 0, is a tuple where a pair of training and held-out indices is due"),
    "empty": ([([0], [])], "mine, split 0, held-out rows: there are none"),
    "halves": ([([0.5], [1])], "mine, split 0, training rows are a list where integers are due, the numbers of rows"),
    "too far": ([([0], [4])], "mine, split 0, held-out rows name row 4 of a table with rows 0 to 3"),
    "negative": ([([0], [1]), ([-1], [1])], "mine, split 1, training rows name row -1 of a table with rows 0 to 3"),
    "nested": ([([[0]], [1])], "mine, split 0, training rows are a list where integers are due, the numbers of rows"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_split_is_told_in_one_sentence(name):
    found, told = WRONG[name]
    with pytest.raises(ImplementationFailed) as failed:
        checked_pairs(found, 4, "mine")
    assert str(failed.value) == told


def test_indices_may_be_a_mask():
    ((train, held),) = checked_pairs([(np.array([True, False, True]), [1])], 3, "mine")
    assert (train.tolist(), held.tolist()) == ([0, 2], [1])


@pytest.mark.parametrize("found", [None, 3, (1,), (3, 2), (-1, 2), (0, 0), (0.5, 2), ("a", 2)])
def test_a_protocol_counts_in_whole_numbers(found):
    with pytest.raises(ImplementationFailed, match="where two whole numbers are due"):
        counts_of(found)


# Promises.


class Random:
    """A split that promises nothing but two sides."""

    def split_rows(self, rows, *, parts=2, seed=0):
        part = np.random.default_rng(seed).permutation(len(rows)) % parts
        return [(np.flatnonzero(part != p), np.flatnonzero(part == p)) for p in range(parts)]


class TakesGroups(Random):
    """The same, which takes groups and does not heed them."""

    def split_rows(self, rows, *, groups, parts=2, seed=0):
        return super().split_rows(rows, parts=parts, seed=seed)


def test_what_is_not_promised_is_not_asked():
    assert verdict("sides_apart", Random()).status is Status.HOLDS
    for name in ("copies_apart", "windows_apart", "later", "groups_whole"):
        found = verdict(name, Random())
        assert found.status is Status.UNSUPPORTED
        assert found.message.startswith("its split_rows has no keyword ")


def test_what_is_promised_and_not_kept_is_violated():
    found = verdict("groups_whole", TakesGroups())
    assert found.status is Status.VIOLATED
    assert "groups on both sides of split 0: got " in found.message
    assert verdict("sides_apart", TakesGroups()).status is Status.HOLDS


def test_a_split_that_raises_is_an_error():
    class Raises:
        def split_rows(self, rows, *, groups):
            raise KeyError("patient")

    found = verdict("groups_whole", Raises())
    assert found.status is Status.ERROR
    assert "split_rows raised KeyError: 'patient'" in found.message


# Cases.


@pytest.mark.parametrize("seed", range(30))
def test_cases_are_what_they_say(seed):
    case = SplitCase(seed=seed, groups=seed % 7 + 1, parts=seed % 4 + 2, named=bool(seed % 2), tied=seed % 3 == 0)
    assert len(case.rows) == len(case.group) == len(case.times) == len(case.labels) == case.size
    assert len(np.unique(case.group)) == case.members > case.parts
    assert len(np.unique(case.times)) > case.parts
    assert (len(np.unique(case.times)) < case.size) == case.tied
    assert np.bincount(case.labels).min() >= case.parts
    for equality in leakage.EQUALITIES:
        keys = leakage.keys(SplitCase(seed=seed, equality=equality, parts=case.parts).copied, equality)
        assert case.parts < len(set(keys)) < len(keys)


@pytest.mark.parametrize("step", leakage.STEPS)
def test_a_change_of_held_out_rows_leaves_the_others(step):
    case = PipelineCase(step=step, seed=3)
    for change in (1, 2):
        before, after = case.rows(), case.rows(change)
        assert before[case.train].tolist() == after[case.train].tolist() or step == "impute"
        assert np.array_equal(before[case.train].astype(str), after[case.train].astype(str))
        assert not np.array_equal(before[case.held].astype(str), after[case.held].astype(str))
    assert np.array_equal(case.labels()[case.train], case.labels(1)[case.train])
    assert (case.labels()[case.held] != case.labels(1)[case.held]).all()


CASES = (
    SplitCase(equality="text", tied=True),
    PipelineCase(step="encode"),
    ScoreCase(other=3),
    WorksheetCase(seen=2),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases_are_read_back_from_what_they_print(case):
    from gnomon.props.cases import read_case

    assert read_case(str(case)) == case


# Chance.


def test_an_honest_guess_and_one_that_knows_are_told_apart():
    def guess(rows, labels, seed):
        return int(labels[:30].sum()), 30

    right, answers = noise_score(guess, 5)
    most = leakage.most_by_chance(answers, leakage.CHANCE_ERROR / 2)
    assert answers - most <= right <= most < answers


@pytest.mark.parametrize("name", ["chosen-before-the-split", "copied-before-the-split", "selected-on-the-reported"])
@pytest.mark.parametrize("seed", range(5))
def test_a_leak_shows_whatever_the_seed(name, seed):
    from gnomon.impl.faults import faults
    from gnomon.props.cases import ExperimentCase
    from gnomon.props.engine import judge

    fault = next(f for f in faults() if f.mistake.slug == name)
    with pytest.raises(Violation):
        judge(by_name("chance_on_noise"), Subject(fault.implementation, "float64"), ExperimentCase(seed=seed))


# scikit-learn.

GROUPED = ("group-kfold", "group-kfold-shuffled", "group-shuffle-split", "leave-one-group-out", "leave-two-groups-out",
           "stratified-group-kfold")  # fmt: skip
UNGROUPED = ("shuffle-split", "kfold", "kfold-in-order", "repeated-kfold", "leave-one-out", "stratified-kfold",
             "stratified-shuffle-split", "time-series-split")  # fmt: skip
FITTED = {
    "scale": ("standard-scaler", "min-max-scaler", "robust-scaler", "quantile-transformer", "power-transformer"),
    "imputation": ("simple-imputer", "knn-imputer"),
    "selection": ("select-k-best",),
    "encoding": ("target-encoder", "one-hot-encoder", "ordinal-encoder"),
    "vocabulary": ("count-vectorizer", "tfidf-vectorizer"),
}


def of_sklearn(part, name, budget=FEW):
    pytest.importorskip("sklearn")
    return examine(by_name(name), Subject(load(f"sklearn:{part}"), "float64"), budget)


@pytest.mark.parametrize("part", [*GROUPED, *UNGROUPED])
def test_splitters_of_sklearn_keep_rows_apart(part):
    assert of_sklearn(part, "sides_apart").status is Status.HOLDS


@pytest.mark.parametrize("part", GROUPED)
def test_grouped_splitters_of_sklearn_keep_groups_whole(part):
    assert of_sklearn(part, "groups_whole").status is Status.HOLDS


@pytest.mark.parametrize("part", UNGROUPED)
def test_what_other_splitters_of_sklearn_do_not_promise_is_unsupported(part):
    assert of_sklearn(part, "groups_whole").status is Status.UNSUPPORTED


def test_the_splitter_of_series_keeps_time_and_windows():
    assert of_sklearn("time-series-split", "later").status is Status.HOLDS
    assert of_sklearn("time-series-split", "windows_apart").status is Status.HOLDS
    tied = of_sklearn("time-series-split", "later_among_ties")
    assert (tied.status, tied.message) == (
        Status.UNSUPPORTED,
        "TimeSeriesSplit is for rows that each have a time of their own",
    )


@pytest.mark.parametrize(("kind", "part"), [(k, p) for k, parts in FITTED.items() for p in parts])
def test_what_sklearn_fits_does_not_move(kind, part):
    found = of_sklearn(part, f"{kind}_unmoved", Budget(cases=15))
    assert (found.status, found.message) == (Status.HOLDS, "")


def test_the_protocol_of_sklearn_is_at_chance():
    assert of_sklearn("protocol", "chance_on_noise", Budget()).status is Status.HOLDS


# check-split.

SPLITS = """
import numpy as np


def sides(part):
    return [(np.flatnonzero(part != p), np.flatnonzero(part == p)) for p in range(part.max() + 1)]


def grouped(rows, *, groups, parts, seed):
    return sides(np.random.default_rng(seed).integers(0, parts, groups.max() + 1)[groups])


def random(rows, parts=5):
    return sides(np.arange(len(rows)) % parts)


def overlapping(rows):
    return [(np.arange(0, 8), np.arange(6, 12))]


def by_time(rows, times):
    order = np.argsort(times)
    return [(order[:6], order[6:])]


def empty(rows):
    return [(np.arange(len(rows)), [])]


def nothing(rows):
    return None


def raises(rows):
    raise RuntimeError("no such luck")


number = 3


class Like:
    def split(self, X, y=None, groups=None):
        yield from grouped(X, groups=groups, parts=2, seed=0)


like = Like()
"""
TABLE = """patient,day,score,note
a,2026-01-03,1.0001,Fine
a,2026-01-01,2,bad
b,2026-01-02,0.9999,fine
b,2026-01-04,4,b
c,2026-01-05,5,c
c,2026-01-06,6,d
d,2026-01-07,7,e
d,2026-01-08,8,f
e,2026-01-09,9,g
e,2026-01-10,10,h
f,2026-01-11,11,i
f,2026-01-12,12,j
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(SPLITS)
    (tmp_path / "visits.csv").write_text(TABLE)
    (tmp_path / "gaps.csv").write_text(TABLE.replace("b,2026-01-02", ",2026-01-02"))
    (tmp_path / "empty.csv").write_text("patient,day\n")
    (tmp_path / "torn.parquet").write_text("no parquet")
    (tmp_path / "notes.txt").write_text("patient\n")
    return tmp_path


def gnomon(*arguments):
    return CliRunner().invoke(main, list(arguments))


def said(ran):
    """What a refusal says beside how to ask for help."""
    return " ".join(ran.output.partition("Error: ")[2].split())


def test_a_split_that_keeps_groups_conforms(folder):
    ran = gnomon("check-split", "./mine.py:grouped", "visits.csv", "--groups", "patient", "--parts", "2")
    assert ran.exit_code == 0
    assert ran.output.splitlines()[-2:] == [
        "VIII.4.1 nothing-shared holds in 2 of 2 splits",
        "VIII.5.1 groups-whole holds in 2 of 2 splits",
    ]


def test_a_split_that_tears_groups_is_told_with_the_groups(folder):
    ran = gnomon("check-split", "./mine.py:random", "visits.csv", "--groups", "patient", "--parts", "2")
    assert ran.exit_code == 1
    assert (
        "VIII.5.1 groups-whole violated by ./mine.py:random: "
        "6 groups stand on both sides of split 0, among them a, b, c"
    ) in ran.output
    assert "VIII.4.1 nothing-shared holds in 2 of 2 splits" in ran.output


def test_rows_on_both_sides_are_counted(folder):
    ran = gnomon("check-split", "./mine.py:overlapping", "visits.csv")
    assert ran.exit_code == 1
    assert (
        "VIII.4.1 nothing-shared violated by ./mine.py:overlapping: 2 rows stand on both sides of split 0" in ran.output
    )


@pytest.mark.parametrize(
    ("equality", "column", "found"),
    [("exact", "note", 0), ("text", "note", 1), ("rounded", "score", 1), ("exact", "score", 0)],
)
def test_copies_are_counted_under_the_equality_that_is_named(folder, equality, column, found):
    options = ("--copies", equality, "--column", column)
    ran = gnomon("check-split", "./mine.py:by_time", "visits.csv", "--time", "day", *options)
    assert "VIII.4.4 later holds in 1 of 1 splits" in ran.output
    near = gnomon("check-split", "./mine.py:random", "visits.csv", "--parts", "3", *options)
    assert (near.exit_code, f"{found} rows have a copy on the other side" in near.output) == (
        min(found, 1),
        bool(found),
    )


def test_time_is_asked_for_where_it_is_named(folder):
    ran = gnomon("check-split", "./mine.py:random", "visits.csv", "--time", "day")
    assert ran.exit_code == 1
    assert "are no later than its last training row" in ran.output


def test_an_object_like_those_of_sklearn_is_a_splitter(folder):
    ran = gnomon("check-split", "./mine.py:like", "visits.csv", "--groups", "patient")
    assert (ran.exit_code, "VIII.5.1 groups-whole holds in 2 of 2 splits" in ran.output) == (0, True)


@pytest.mark.parametrize("name", ["numpy", "sklearn:group-kfold"])
def test_an_installed_splitter_is_taken_by_name(folder, name):
    if name.startswith("sklearn"):
        pytest.importorskip("sklearn")
    ran = gnomon("check-split", name, "visits.csv", "--groups", "patient", "--parts", "3")
    assert (ran.exit_code, "VIII.5.1 groups-whole holds in 3 of 3 splits" in ran.output) == (0, True)


def test_a_parquet_file_is_read_as_well(folder):
    pytest.importorskip("pyarrow")
    import pandas as pd

    pd.read_csv("visits.csv").to_parquet("visits.parquet")
    ran = gnomon("check-split", "./mine.py:random", "visits.parquet", "--groups", "patient", "--parts", "2")
    assert "6 groups stand on both sides of split 0" in ran.output


REFUSED = {
    ("./mine.py:random", "nowhere.csv"): "cannot read nowhere.csv: there is no such file",
    ("./mine.py:random", "notes.txt"): "cannot read notes.txt: its name has to end in .csv or .parquet",
    ("./mine.py:random", "empty.csv"): "empty.csv has no rows",
    ("./mine.py:random", "visits.csv", "--groups", "site"): "there is no column 'site': there are 'patient', 'day', "
    "'score', 'note'",
    ("./mine.py:random", "visits.csv", "--time", "note"): "the column 'note' holds no times, but 'Fine': numbers and "
    "dates like 2026-01-31 are",
    ("./mine.py:random", "gaps.csv", "--groups", "patient"): "the column 'patient' lacks a value in 1 of 12 rows, the "
    "first of them row 2: fill them in, or leave these rows out",
    ("./mine.py:grouped", "visits.csv"): "./mine.py:grouped needs groups: name their column with --groups",
    ("./mine.py:by_time", "visits.csv"): "./mine.py:by_time needs times: name their column with --time",
    ("./mine.py:random", "visits.csv", "--column", "note"): "--column says what copies are compared by: name an "
    "equality with --copies",
    ("./mine.py:random", "visits.csv", "--copies", "text", "--column", "site"): "there is no column 'site': there are "
    "'patient', 'day', 'score', 'note'",
}  # fmt: skip
NOT_RUN = {
    "./mine.py:empty": "./mine.py:empty, split 0, held-out rows: there are none",
    "./mine.py:nothing": "./mine.py:nothing returned a NoneType where pairs of indices are due",
    "./mine.py:raises": "./mine.py:raises raised RuntimeError: no such luck for (12, 4)",
    "./mine.py:number": "./mine.py:number is no function, and has no method split: name one, as in "
    "./mine.py:number:split",
    "./mine.py:lost": "the module ./mine.py has no lost: check the name after the colon",
    "./other.py:split": "there is no file other.py: give the path of a Python file, or the name of a module",
}


@pytest.mark.parametrize("arguments", REFUSED, ids=" ".join)
def test_bad_input_is_refused_in_one_sentence(folder, arguments):
    ran = gnomon("check-split", *arguments)
    assert (ran.exit_code, said(ran)) == (2, REFUSED[arguments])


@pytest.mark.parametrize("target", NOT_RUN)
def test_a_split_that_cannot_be_run_is_told_in_one_sentence(folder, target):
    ran = gnomon("check-split", target, "visits.csv")
    assert (ran.exit_code, said(ran)) == (3, NOT_RUN[target])


def test_a_broken_file_is_told(folder):
    ran = gnomon("check-split", "./mine.py:random", "torn.parquet")
    assert ran.exit_code == 2
    assert said(ran).startswith("cannot read torn.parquet: ")


def test_without_pandas_it_is_said_how_to_have_it(folder, monkeypatch):
    monkeypatch.delitem(sys.modules, "gnomon.impl.adapters.tables", raising=False)
    monkeypatch.delattr("gnomon.impl.adapters.tables", raising=False)
    monkeypatch.setitem(sys.modules, "pandas", None)
    ran = gnomon("check-split", "./mine.py:random", "visits.csv")
    assert (ran.exit_code, said(ran)) == (
        2,
        "a table is read with pandas, which is not installed: pip install 'gnomon[tables]'",
    )


def test_a_million_rows_take_less_than_five_seconds_and_a_gigabyte(folder):
    from commanding import gnomon as command

    rng = np.random.default_rng(0)
    groups, day = rng.integers(0, 50_000, 1_000_000), rng.integers(0, 3650, 1_000_000)
    lines = np.char.add(np.char.add(np.char.add("p", groups.astype("U6")), ","), day.astype("U4"))
    (folder / "large.csv").write_text("patient,day\n" + "\n".join(lines.tolist()) + "\n")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = command("check-split", "./mine.py:grouped", "large.csv", "--groups", "patient", cwd=folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ran.code == 0, ran.err
    assert "VIII.5.1 groups-whole holds in 5 of 5 splits" in ran.out
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 5
    assert after.ru_maxrss < 1_000_000 or before.ru_maxrss == after.ru_maxrss  # in kilobytes, the largest child so far


# check-pipeline.

PIPELINES = """
import numpy as np


class Scaler:
    def fit(self, rows, labels):
        self.mean = rows.mean(0)


class Leaks:
    def fit(self, rows, labels, train):
        self.mean, self.deviation = rows.mean(0), rows[train].std(0)


class Goes_on:
    count = 0

    def fit(self, rows, labels):
        self.count = self.count + len(rows)


class Dice:
    def fit(self, rows, labels):
        self.number = np.random.random()


class Raises:
    def fit(self, rows, labels):
        raise ValueError("no numbers")


class Columns:
    def fit(self, rows, labels):
        self.seen = {"days": set(rows["day"].astype(str)), "mean": rows["score"].mean()}


def no_pipeline():
    return 3


def words(rows, labels, train):
    return sorted({word for text in rows[train] for word in text.split()})


def all_words(rows, labels, train):
    return sorted({word for text in rows for word in text.split()})


number = 3
"""


@pytest.fixture
def pipelines(folder):
    (folder / "pipes.py").write_text(PIPELINES)
    return folder


def test_a_pipeline_that_learns_of_training_rows_alone_conforms(pipelines):
    ran = gnomon("check-pipeline", "./pipes.py:Scaler")
    assert (ran.exit_code, ran.output) == (
        0,
        "VIII.4.2 nothing-moves holds: 1 parts of what ./pipes.py:Scaler learnt of 40 rows are bit for bit the same, "
        "whatever the 20 held-out rows are\n",
    )
    assert gnomon("check-pipeline", "./pipes.py:words", "--kind", "text").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("./pipes.py:Leaks",), "violated by ./pipes.py:Leaks: mean moved for other held-out rows (1)"),
        (("./pipes.py:Goes_on",), "count moved after an earlier fit that the held-out rows were part of"),
        (("./pipes.py:all_words", "--kind", "text"), "moved for other held-out rows (2)"),
    ],
)
def test_what_moves_is_named(pipelines, arguments, told):
    ran = gnomon("check-pipeline", *arguments)
    assert (ran.exit_code, told in ran.output) == (1, True)


def test_a_pipeline_is_held_to_a_file(pipelines):
    ran = gnomon("check-pipeline", "./pipes.py:Columns", "visits.csv", "--labels", "patient")
    assert (ran.exit_code, "learnt of 8 rows" in ran.output) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("./pipes.py:Dice",), 3, "./pipes.py:Dice learns something else each time (number): give it a seed"),
        (("./pipes.py:no_pipeline",), 3, "./pipes.py:no_pipeline made a int, which has no method fit"),
        (("./pipes.py:number",), 3, "./pipes.py:number is no function: name one that makes a pipeline, as in "
         "./pipes.py:number:make"),
        (("./pipes.py:Raises",), 3, "fit of ./pipes.py:Raises raised ValueError: no numbers for (40, 5), (40,)"),
        (("./pipes.py:Scaler", "visits.csv"), 2, "name the column of the labels: --labels COLUMN"),
        (("./pipes.py:Scaler", "--labels", "note"), 2, "--labels names a column of a file: give the file too"),
        (("./pipes.py:Scaler", "visits.csv", "--labels", "site"), 2, "there is no column 'site': there are 'patient', "
         "'day', 'score', 'note'"),
    ],
)  # fmt: skip
def test_a_pipeline_that_cannot_be_run_is_told_in_one_sentence(pipelines, arguments, code, told):
    ran = gnomon("check-pipeline", *arguments)
    assert (ran.exit_code, said(ran)) == (code, told)


def test_a_pipeline_of_sklearn_is_held_to_it(pipelines):
    pytest.importorskip("sklearn")
    (pipelines / "sk.py").write_text(
        "from sklearn.feature_selection import SelectKBest\nfrom sklearn.pipeline import make_pipeline\n"
        "from sklearn.preprocessing import StandardScaler\n\n\ndef make():\n"
        "    return make_pipeline(StandardScaler(), SelectKBest(k=2))\n"
    )
    ran = gnomon("check-pipeline", "./sk.py:make")
    assert (ran.exit_code, "VIII.4.2 nothing-moves holds" in ran.output) == (0, True)
