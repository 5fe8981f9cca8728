"""`gnomon reach` and `gnomon random-labels`: how far back a model recalls, and what a training procedure remembers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from rich.markup import escape

from gnomon.impl.blackbox import black_box
from gnomon.impl.loading import CannotLoad, load_thing
from gnomon.impl.recall import NEAREST
from gnomon.impl.reference import numpy_reference
from gnomon.props.box import Box, Input, box
from gnomon.props.laboratories import NotRunnable, columns, save
from gnomon.props.model_cases import FixedCase
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.props.report import console
from gnomon.props.running import writable
from gnomon.props.subject import Subject
from gnomon.props.summary import Exit
from gnomon.spec.evaluators import Floats
from gnomon.spec.model import Tokens
from gnomon.spec.statistics import binomial_counts, share_interval

OUTSIDE = 0.01  # with which probability a share lies outside the interval that is printed
LEAK = 1e-9  # with which probability a procedure without a leak is said to have one
SECONDS_A_MINUTE = 60


@dataclass(frozen=True, slots=True)
class Seen:
    """What was recalled at a distance."""

    distance: int
    right: int
    asked: int

    @property
    def share(self) -> float:
        """The share that was right."""
        return self.right / self.asked

    @property
    def interval(self) -> tuple[float, float]:
        """The shares of which one lies outside with a probability of at most OUTSIDE."""
        return share_interval(self.right, self.asked, OUTSIDE)


@dataclass(frozen=True, slots=True)
class Reach:
    """Recall at every distance that was tried, and why there is none beyond."""

    target: str
    vocabulary: int
    seen: Sequence[Seen]
    ended: str

    @property
    def far(self) -> Seen | None:
        """The last distance of those, from the nearest on, at which at least half is recalled."""
        last = None
        for s in self.seen:
            if s.share < 1 / 2:
                break
            last = s
        return last

    @property
    def lost(self) -> Seen | None:
        """The first distance from which on the interval is under a half."""
        under = [s.interval[1] < 1 / 2 for s in self.seen]
        return next((s for i, s in enumerate(self.seen) if all(under[i:])), None)


def distances(longest: int) -> list[int]:
    """From the nearest on, each about √2 times the one before."""
    steps = [round(NEAREST * 2 ** (i / 2)) for i in range(64)]
    return [*[d for d in dict.fromkeys(steps) if d < longest], longest]


def run_reach(target: str, plot: Path | None, *, longest: int, asked: int, minutes: float, seed: int) -> None:
    """Print recall against distance, and what follows from it, and write its plot."""
    place = writable(plot) or Path("gnomon-reach.png")
    try:
        found = reach_of(target, longest, asked, minutes, seed)
    except (CannotLoad, Declined, ImplementationFailed) as reason:
        raise NotRunnable(f"cannot run {target}: {reason}") from reason
    table = columns("tokens back", "recalled", "of", "share", f"{1 - OUTSIDE:.0%} interval")
    for s in found.seen:
        low, high = s.interval
        table.add_row(str(s.distance), str(s.right), str(s.asked), f"{s.share:.2f}", f"{low:.2f} to {high:.2f}")
    console.print(table)
    for sentence in sentences(found):
        console.print(escape(sentence))
    save(lambda figure: draw(figure, found), place)
    console.print(f"plot: {escape(str(place))}")


def reach_of(target: str, longest: int, asked: int, minutes: float, seed: int) -> Reach:
    """Recall at distances up to the longest, or until the model refuses or the time is over."""
    implementation = black_box(target)
    subject = Subject(implementation, implementation.declaration.dtypes[-1])
    held = subject.fixed
    if held is None or not held.causal:
        raise Declined("recall is asked of a causal model of tokens")
    if held.ids <= NEAREST + 1:
        raise Declined(f"{held.ids} tokens are too few to ask with: more than {NEAREST + 1} are needed")
    model, seen, until = box(subject, FixedCase(held=held)), list[Seen](), monotonic() + minutes * SECONDS_A_MINUTE
    for distance in distances(longest):
        if monotonic() > until:
            return Reach(target, held.ids, seen, f"the {minutes:g} minutes were over after {seen[-1].distance}")
        try:
            right = numpy_reference.recall(
                logits(model), vocabulary=held.ids, distance=distance, asked=asked, seed=seed
            )
        except ImplementationFailed as refusal:
            if not seen:
                raise
            return Reach(target, held.ids, seen, f"{distance + NEAREST - 1} tokens are refused: {refusal}")
        seen.append(Seen(distance, right, asked))
    return Reach(target, held.ids, seen, "")


def logits(model: Box) -> Callable[[Tokens], Floats]:
    """The model as a function of token ids; the calls are not kept."""

    def call(tokens: Tokens) -> Floats:
        model.subject.calls.clear()
        return model(Input(tokens))

    return call


def sentences(found: Reach) -> list[str]:
    """How far it recalls, from where on it does not, and how much it takes."""
    last, far, lost = found.seen[-1], found.far, found.lost
    said = [f"Guessing is right once in {found.vocabulary}."]
    if far is None:
        said.append(f"{found.target} does not recall at all, not even {found.seen[0].distance} tokens back.")
    elif far is last:
        said.append(f"{found.target} recalls at least half from {far.distance} tokens back, the farthest tried.")
    else:
        beyond = "" if lost is None else f" and, with all that chance allows, not from {lost.distance} on"
        said.append(f"{found.target} recalls at least half up to {far.distance} tokens back{beyond}.")
    if far is not last:
        used = NEAREST if far is None else far.distance
        said.append(f"It takes {last.distance} without a word: a buffer of that size, of which it uses {used}.")
    return said + ([f"Nothing beyond was tried: {found.ended}."] if found.ended else [])


def draw(figure: Any, found: Reach) -> None:
    """Recall against distance with its interval, and what guessing gives."""
    axes, back = figure.subplots(), [s.distance for s in found.seen]
    axes.plot(back, [s.share for s in found.seen], marker="o", label="recalled")
    axes.fill_between(back, *zip(*(s.interval for s in found.seen), strict=True), alpha=0.2)
    axes.axhline(1 / found.vocabulary, linestyle=":", label="guessing")
    axes.set(xscale="log", xlabel="tokens between the answer and where it is due", ylabel="share", ylim=(0, 1.02))
    axes.set_xticks(back, [str(d) for d in back])
    axes.minorticks_off()
    axes.legend()


def run_random_labels(target: str, *, items: int, held_out: int, width: int, classes: int, seed: int) -> Exit:
    """Print what a training procedure makes of random labels; to know held-out ones is a leak, and a failure."""
    try:
        train = load_thing(target)
    except CannotLoad as reason:
        raise NotRunnable(str(reason)) from reason
    inputs = np.random.default_rng((seed, 1)).standard_normal((items + held_out, width))
    try:
        found = numpy_reference.random_labels(train, inputs, classes=classes, held_out=held_out, seed=seed)
    except Exception as error:
        raise NotRunnable(f"{target} raised {type(error).__name__}: {error}") from error
    table = columns("random labels", "right", "of", "share", f"{1 - OUTSIDE:.0%} interval")
    for name, what, of in (("training", "learned", items), ("held_out", "held out", held_out)):
        low, high = share_interval(found[name], of, OUTSIDE)
        table.add_row(what, str(found[name]), str(of), f"{found[name] / of:.2f}", f"{low:.2f} to {high:.2f}")
    console.print(table)
    least, most = binomial_counts(held_out, 1 / classes, LEAK)
    leaks = not least <= found["held_out"] <= most
    for sentence in about_labels(target, found, items, classes, leaks):
        console.print(escape(sentence))
    return Exit.VIOLATED if leaks else Exit.CONFORMS


def about_labels(target: str, found: Any, items: int, classes: int, leaks: bool) -> list[str]:
    """What its training score is worth, and whether held-out labels were known to it."""
    share = found["training"] / items
    whole = f"{target} memorises: it has all {items} random labels right" if share == 1 else (
        f"{target} has {share:.0%} of {items} random labels right"
    )  # fmt: skip
    capacity = f"{whole}, where guessing has {1 / classes:.0%}; so much of a training score says capacity alone."
    if leaks:
        return [capacity, "Held-out labels were drawn apart from everything and can not be known: the score leaks."]
    return [capacity, "On held-out items it is right as often as guessing is, as it has to be."]
