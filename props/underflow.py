"""`gnomon underflow`: what share of gradients a format loses under its floor, without a scale and with one.

Of gradients that are given, or of a small model that learns some lines here by heart, from text that every Python has:
its help topics. Late gradients are the small ones, and it is soon late for few lines.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.markup import escape
from rich.table import Table

from gnomon.impl.loading import CannotLoad, load
from gnomon.props.box import Box, Input, built
from gnomon.props.experiments import Adam, classified
from gnomon.props.laboratories import NotRunnable, columns, save
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.props.report import console
from gnomon.props.running import writable
from gnomon.props.subject import Subject
from gnomon.spec.configuration import Configuration, Rotary
from gnomon.spec.evaluators import Floats
from gnomon.spec.formats import LAYOUTS, Layout, share_over_ceiling, share_under_floor
from gnomon.spec.model import Tokens
from gnomon.spec.shapes import parameter_shapes

Named = Mapping[str, Floats]

RATE, BATCH, LENGTH = 0.01, 4, 24
SCALES = tuple(2.0**k for k in range(0, 33, 2))
_LETTERS = 128
_PLACE = "gnomon-underflow.png"


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """The gradients at one time, and what is said of that time."""

    when: str
    loss: float | None
    gradients: Named

    @property
    def every(self) -> Floats:
        """The sizes of all gradients that are not zero."""
        sizes = np.abs(np.concatenate([g.ravel() for g in self.gradients.values()]))
        return np.asarray(sizes[sizes != 0])


@dataclass(eq=False)
class Training:
    """A decoder of two layers that learns to continue the same few lines letter by letter."""

    subject: Subject
    seed: int
    parameters: dict[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng, text = np.random.default_rng(self.seed), letters()
        self.rows = text[rng.integers(0, len(text) - LENGTH - 1, (BATCH, 1)) + np.arange(LENGTH + 1)]
        for name, shape in parameter_shapes(self.configuration).items():
            wide = rng.standard_normal(shape) / shape[-1] ** 0.5
            self.parameters[name] = np.ones(shape) if len(shape) == 1 else wide

    @property
    def configuration(self) -> Configuration:
        """The shape of a Llama, of some twenty thousand parameters."""
        return Configuration(
            vocabulary=_LETTERS, width=32, layers=2, heads=4, kv_heads=2, head_width=8, feed_forward=64, rotary=Rotary()
        )

    def moment(self, step: int) -> Moment:
        """The loss and its gradients."""
        model, given = self.model(), Input(self.rows[:, :-1])
        logits = model(given)
        loss, slope = classified(logits.reshape(-1, _LETTERS), self.rows[:, 1:].ravel())
        gradients = model.gradients(given, slope.reshape(logits.shape))
        self.subject.calls.clear()
        return Moment(f"after {step} steps", loss, gradients)

    def model(self) -> Box:
        """The model as it is now."""
        return built(self.subject, self.configuration, self.parameters)

    def moments(self, steps: int) -> Iterator[Moment]:
        """The gradients before the first step, halfway and after the last."""
        adam = Adam(RATE)
        for step in range(steps + 1):
            moment = self.moment(step)
            if step in (0, steps // 2, steps):
                yield moment
            adam.step(self.parameters, moment.gradients)


def letters() -> Tokens:
    """The help topics of Python as numbers below 128, in the order of their names."""
    from pydoc_data.topics import topics

    codes = np.frombuffer("\n".join(topics[name] for name in sorted(topics)).encode(), np.uint8)
    return codes[codes < _LETTERS].astype(np.int64)


def run_underflow(
    implementation: str, format: str, scale: float, steps: int, seed: int, given: Path | None, plot: Path | None
) -> None:
    """Print the shares and what follows from them, and write the plot."""
    place, layout = writable(plot) or Path(_PLACE), LAYOUTS[format]
    moments = [read(given)] if given is not None else trained(implementation, steps, seed)
    console.print(shares(moments, layout, scale))
    for sentence in told(moments[-1], layout, scale):
        console.print(escape(sentence))
    save(lambda figure: draw(figure, moments, layout, scale), place)
    console.print(f"plot: {escape(str(place))}")


def trained(name: str, steps: int, seed: int) -> list[Moment]:
    """The gradients of the small training by an implementation, in the widest dtype that it declares first."""
    try:
        implementation = load(name)
        return list(Training(Subject(implementation, implementation.declaration.dtypes[0]), seed).moments(steps))
    except (CannotLoad, Declined, ImplementationFailed) as reason:
        raise NotRunnable(f"cannot train with {name}: {reason}") from reason


def read(path: Path) -> Moment:
    """The gradients of a file of NumPy arrays by name."""
    try:
        with np.load(path) as arrays:
            gradients = {name: arrays[name].astype(np.float64) for name in arrays.files}
    except (OSError, ValueError, AttributeError) as error:
        raise click.UsageError(f"{path} is no .npz file of arrays: {error}") from error
    if not any(np.any(g) for g in gradients.values()):
        raise click.UsageError(f"{path} holds no gradient that is not zero")
    return Moment(path.name, None, gradients)


def shares(moments: Sequence[Moment], layout: Layout, scale: float) -> Table:
    """A row for each time."""
    table = columns("gradients", "loss", "not zero", "under the floor", f"scaled by {scale:g}", "beyond the largest")
    for m in moments:
        under = (share_under_floor(m.gradients, layout, s) for s in (1.0, scale))
        over = share_over_ceiling(m.gradients, layout, scale)
        loss = "" if m.loss is None else f"{m.loss:.3f}"
        table.add_row(m.when, loss, f"{m.every.size:,}", *(f"{share:.2%}" for share in (*under, over)))
    return table


def told(last: Moment, layout: Layout, scale: float) -> list[str]:
    """What the last gradients lose, where most of it, and which scales lose nothing."""
    bare, scaled = (share_under_floor(last.gradients, layout, s) for s in (1.0, scale))
    over = share_over_ceiling(last.gradients, layout, scale)
    beyond = f", and {over:.2%} pass its largest number {layout.largest:g}" if over else ""
    return [
        f"{last.when}: of {last.every.size:,} gradients that are not zero {layout.name} loses {bare:.2%} under its "
        f"floor of {layout.smallest / 2:.3g}, and {scaled:.2%} once they are scaled by {scale:g}{beyond}.",
        _about_tensors(last, layout),
        _about_scales(last, layout),
    ]


def _about_tensors(last: Moment, layout: Layout) -> str:
    lost = {n: share_under_floor({n: g}, layout, 1.0) for n, g in last.gradients.items()}
    worst = max(lost, key=lambda name: lost[name])
    return f"Most of them without a scale in {worst}: {lost[worst]:.2%}." if lost[worst] else "No tensor loses any."


def _about_scales(last: Moment, layout: Layout) -> str:
    safe = [s for s in SCALES if not share_over_ceiling(last.gradients, layout, s)]
    if not safe:
        return "Every scale that was tried puts some of them beyond the largest number."
    best = min(safe, key=lambda s: share_under_floor(last.gradients, layout, s))
    left = share_under_floor(last.gradients, layout, best)
    return f"The smallest scale that does best without an overflow is {best:g}, which loses {left:.2%}."


def draw(figure: Any, moments: Sequence[Moment], layout: Layout, scale: float) -> None:
    """The sizes beside the range of the format, and the shares lost against the scale."""
    sizes, swept = figure.subplots(1, 2)
    for m in moments:
        sizes.hist(np.log2(m.every), bins=np.arange(-48, 8), histtype="step", label=m.when)
    sizes.axvline(np.log2(layout.smallest / 2), color="black", label=f"floor of {layout.name}")
    sizes.axvline(np.log2(layout.smallest / 2 / scale), color="black", linestyle=":", label=f"scaled by {scale:g}")
    sizes.set(xlabel="log₂ of the size of a gradient", ylabel="gradients")
    for m in moments:
        under = [share_under_floor(m.gradients, layout, s) for s in SCALES]
        (line,) = swept.plot(SCALES, under, marker="o", label=m.when)
        over = [share_over_ceiling(m.gradients, layout, s) for s in SCALES]
        swept.plot(SCALES, over, linestyle="--", color=line.get_color())
    swept.set(xscale="log", xlabel="scale", ylabel="share lost (dashed: to overflow)")
    for axes in (sizes, swept):
        axes.legend()
