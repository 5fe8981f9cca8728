"""The factor-of-two instrument: does a conclusion survive half and double the rate that it was come to at?"""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass

import click
from rich.console import Console
from rich.table import Table

from gnomon.impl.loading import CannotLoad, attribute_of, from_file

Procedure = Callable[[float], object]


@dataclass(frozen=True, slots=True)
class Survival:
    """What a procedure concluded at half, at the whole and at double its rate."""

    rates: tuple[float, float, float]
    conclusions: tuple[object, object, object]

    @property
    def robust(self) -> bool:
        """Whether it is one conclusion."""
        half, whole, double = self.conclusions
        return bool(half == whole and double == whole)


def survives(procedure: Procedure, rate: float) -> Survival:
    """The conclusions of a procedure at a rate and at a factor of two on either side."""
    rates = rate / 2, rate, 2 * rate
    half, whole, double = (procedure(own) for own in rates)
    return Survival(rates, (half, whole, double))


def factor_of_two(procedure: Procedure, rate: float) -> bool:
    """Whether the conclusion survives: the operation that I.3.5 asks of an implementation."""
    return survives(procedure, rate).robust


def procedure_of(target: str) -> Procedure:
    """The function that stands for `module:function` or `./file.py:function`."""
    from pathlib import Path

    module, _, name = target.partition(":")
    if not name:
        raise CannotLoad(f"{target} names no function: give it as module:function or ./file.py:function")
    if "" not in sys.path:
        sys.path.insert(0, "")  # a module in the folder where the command was typed
    try:
        found = from_file(Path(module)) if module.endswith(".py") else importlib.import_module(module)
    except ImportError as error:
        raise CannotLoad(f"{module} cannot be imported: {error}") from error
    procedure: Procedure = attribute_of(found, module, name)
    if not callable(procedure):
        raise CannotLoad(f"{target} is no function: it has to take a rate and return a conclusion")
    return procedure


def print_survival(target: str, rate: float) -> int:
    """Print the conclusions at the three rates and what follows; 0 if it survives, 1 if it does not."""
    try:
        found = survives(procedure_of(target), rate)
    except CannotLoad as reason:
        raise click.UsageError(str(reason)) from reason
    table = Table("rate", "conclusion", box=None)
    for own, conclusion in zip(found.rates, found.conclusions, strict=True):
        table.add_row(f"{own:g}", str(conclusion))
    console = Console(highlight=False)
    console.print(table)
    verdict = "survives" if found.robust else "does not survive"
    console.print(f"the conclusion at {rate:g} {verdict} a factor of two in the rate (I.3.5)")
    return 0 if found.robust else 1


def print_bands(name: str, dtype: str, seed: int | None) -> int:
    """Print the band of usable rates of plain descent and of Adam, with both ends, over fresh problems."""
    import secrets

    import numpy as np

    from gnomon.impl.loading import load
    from gnomon.props.bands import BUDGET, GRID, TARGET, bands, ensemble
    from gnomon.props.outcome import Declined
    from gnomon.props.subject import Subject

    own = secrets.randbits(32) if seed is None else seed
    problems = ensemble(own)
    console, table = Console(highlight=False), Table("optimiser", "problems", "from", "to", "rates", "ends", box=None)
    halves = {"quadratics": slice(None, problems.half), "logistic regressions": slice(problems.half, None)}
    try:
        subject = Subject(load(name), dtype)
        found = {"plain descent": bands(subject, "sgd", problems), "Adam": bands(subject, "adam", problems)}
    except (CannotLoad, Declined) as reason:
        raise click.UsageError(str(reason)) from reason
    for optimiser, band in found.items():
        for kind, part in halves.items():
            ends = np.array([band.ends(i) for i in range(len(problems.start))])[part]
            reached = ends[~np.isnan(ends).any(-1)]
            low, high = np.median(reached, axis=0) if len(reached) else (np.nan, np.nan)
            widths, closed = band.widths[part], band.ended[part]
            table.add_row(optimiser, kind, f"{low:.3g}", f"{high:.3g}", f"{np.median(widths):g}",
                          f"{closed.sum()} of {len(closed)}")  # fmt: skip
    console.print(f"{len(problems.start)} problems, {BUDGET} steps to {TARGET:.0%} of the loss; "
                  f"rates from {GRID[0]:.3g} to {GRID[-1]:.3g} by factors of two; seed {own}")  # fmt: skip
    console.print(table)
    adam, trials = found["Adam"], len(problems.start)
    wider = int(np.count_nonzero(adam.widths > found["plain descent"].widths))
    ended = int(np.count_nonzero(adam.ended))
    console.print(
        f"Adam's band is the wider one for {wider} of {trials} problems, and has two ends for {ended} (I.3.4)"
    )
    return 0
