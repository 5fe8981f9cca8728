"""The command: check, smoke, datasheet, faults, prove, list, explain, graph."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gnomon.props.running import ONE_THREAD
from gnomon.spec.card import Level

os.environ.update(ONE_THREAD)  # before anything imports NumPy

QUICK, USUAL, THOROUGH = 15, 60, 1000
OF_A_MODEL = 4, 10, 100  # the same, where each case is some passes through a trained model
DTYPES = ("float64", "float32", "bfloat16", "float16")
EIGHT_AND_SIXTEEN = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")

impl_argument = click.argument("implementation", metavar="IMPLEMENTATION")
level_option = click.option(
    "--level", "levels", multiple=True, type=click.Choice([str(level) for level in Level]),
    help="Only clauses of this level.",
)  # fmt: skip
dtype_option = click.option("--dtype", "dtypes", multiple=True, type=click.Choice(DTYPES), help="Only this dtype.")
clause_option = click.option(
    "--clause", "numbers", multiple=True, metavar="V.4.2", help="Only this clause, or all of a proposition."
)
workers_option = click.option(
    "--workers", type=click.IntRange(1), default=min(2, os.cpu_count() or 1), show_default=True, help="Processes."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gnomon")
def main() -> None:
    """An executable specification of the transformer, and a conformance suite for its implementations."""


def budget(quick: int, usual: int, thorough: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options that say how long to look."""

    def options(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in (
            click.option("--quick", "cases", flag_value=quick, type=int,
                         help=f"{quick} cases per property and dtype, and nothing that trains."),
            click.option("--thorough", "cases", flag_value=thorough, type=int, help=f"{thorough} cases."),
            click.option("--cases", "cases", type=click.IntRange(1), default=usual, show_default=True, help="So many."),
            click.option("--seed", type=click.IntRange(0), help="Draw other cases, and repeat experiments."),
            click.option("--timeout", type=click.FloatRange(1), default=120.0, show_default=True,
                         help="Seconds after which a property is given up and its process replaced."),
        ):  # fmt: skip
            command = option(command)
        return command

    return options


def judging_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which case, what is excused, what is required and where verdicts go."""
    for option in (
        click.option("--json", "jsonl", type=click.Path(path_type=Path), help="Write every verdict as a line of JSON."),
        click.option("--require", metavar="N|SET", help="Fail unless N clauses, or all of a frozen set, hold."),
        click.option("--waivers", type=click.Path(path_type=Path), help="A TOML file of violations that are excused."),
        click.option("--case", metavar="TEXT", help="Judge one case, as a failure printed it."),
    ):
        command = option(command)
    return command


@main.command()
@impl_argument
@clause_option
@level_option
@dtype_option
@budget(QUICK, USUAL, THOROUGH)
@workers_option
@judging_options
def check(implementation: str, **options: Any) -> None:
    """Hold IMPLEMENTATION to every clause: an installed name, a module, module:object or a file."""
    from gnomon.props.checking import check_implementation

    sys.exit(check_implementation(implementation, untrained=options["cases"] == QUICK, **options))


@main.command("check-model")
@click.argument("target", metavar="TARGET")
@clause_option
@dtype_option
@budget(*OF_A_MODEL)
@workers_option
@judging_options
def check_model(target: str, **options: Any) -> None:
    """Hold a model that is there to every clause that can be: the folder of a checkpoint, or a function that loads it.

    TARGET is a folder with config.json and *.safetensors, or module:function or ./file.py:function for a function that
    returns the model.
    """
    from gnomon.props.checking import check_implementation

    sys.exit(check_implementation(target, model=True, **options))


@main.command("check-tokenizer")
@click.argument("target", metavar="TARGET")
@clause_option
@budget(QUICK, USUAL, THOROUGH)
@workers_option
@judging_options
def check_tokenizer(target: str, **options: Any) -> None:
    """Hold a tokeniser that is there to every clause on text, and print what was measured of it.

    TARGET is a tokenizer.json, a folder that has one, a *.model of sentencepiece, or module:function or
    ./file.py:function for a function that returns the tokeniser.
    """
    from gnomon.props.checking import check_implementation

    sys.exit(check_implementation(target, dtypes=(), tokeniser=True, **options))


@main.command()
@impl_argument
@dtype_option
@click.option("--timeout", type=click.FloatRange(1), default=60.0, show_default=True, help="Seconds for each call.")
def smoke(implementation: str, dtypes: tuple[str, ...], timeout: float) -> None:
    """Ask only whether IMPLEMENTATION can be run at all: one small call of every operation."""
    from gnomon.props.checking import smoke_report

    sys.exit(smoke_report(implementation, dtypes, timeout))


@main.command()
@impl_argument
@dtype_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def datasheet(implementation: str, dtypes: tuple[str, ...], as_json: bool) -> None:
    """Measure the conventions of IMPLEMENTATION from outside and set them beside the declared ones."""
    from gnomon.props.datasheet import print_datasheet

    sys.exit(print_datasheet(implementation, dtypes, as_json))


@main.command()
@clause_option
@dtype_option
@workers_option
@click.option("--matrix", is_flag=True, help="Try every fault against every clause and print who rejects whom.")
@click.option("--cases", type=click.IntRange(1), default=USUAL, show_default=True, help="Cases per property.")
@click.option("--json", "jsonl", type=click.Path(path_type=Path), help="Write every fate as a line of JSON.")
def faults(**options: Any) -> None:
    """Show that each clause rejects its own faulty implementations, and that the controls hold."""
    from gnomon.props.faultreport import run_faults

    sys.exit(run_faults(**options))


@main.command()
@clause_option
def prove(numbers: tuple[str, ...]) -> None:
    """Run the symbolic proofs and print for which sizes each one is."""
    from gnomon.props.pages import print_proofs

    sys.exit(print_proofs(_cards(numbers)))


@main.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool) -> None:
    """List all propositions and clauses by number."""
    from gnomon.props.pages import print_list

    print_list(as_json)


@main.command()
@click.argument("number", metavar="V.4.2")
def explain(number: str) -> None:
    """Print the card of a clause or a proposition."""
    from gnomon.props.pages import print_card

    print_card(*_cards((number,)))


@main.command()
@click.argument("number", metavar="V.4.2")
def graph(number: str) -> None:
    """Walk back what a clause or a proposition rests on."""
    from gnomon.props.pages import print_graph

    print_graph(*_cards((number,)))


@main.command()
@click.argument("configuration", metavar="CONFIG")
@click.option("--batch", type=click.IntRange(1), default=1, show_default=True, help="Rows at once.")
@click.option("--bytes", "item", type=click.IntRange(1), default=2, show_default=True, help="Bytes a number.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def count(configuration: str, batch: int, item: int, as_json: bool) -> None:
    """Count the parameters, scores and cache of CONFIG: a named model, a config.json, or `2017` with its table."""
    from gnomon.props.counting import print_counts, print_paper_table

    print_counts(configuration, batch, item, as_json)
    if configuration == "2017" and not as_json:
        print_paper_table()


@main.command("check-split")
@click.argument("target", metavar="TARGET")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--groups", metavar="COLUMN", help="The column of groups that no split may tear apart.")
@click.option("--time", metavar="COLUMN", help="The column of times: held-out rows have to be later.")
@click.option("--labels", metavar="COLUMN", help="The column of labels, for a split that wants them.")
@click.option("--copies", type=click.Choice(("exact", "text", "rounded")), help="Which rows count as copies.")
@click.option("--column", "compared", multiple=True, metavar="COLUMN", help="Copies by this column, not by all.")
@click.option("--parts", type=click.IntRange(1), default=5, show_default=True, help="Parts, for a split that asks.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="A seed, for a split that asks.")
def check_split(target: str, file: Path, **options: Any) -> None:
    """Hold a split of your own to VIII.4.1, VIII.4.4 and VIII.5.1 on the rows of FILE, a .csv or .parquet.

    TARGET is module:function or ./file.py:function, called with the rows and what it takes of groups, times, labels,
    parts and seed, for pairs of training and held-out indices; an object with scikit-learn's method split; or an
    installed name, such as sklearn:group-kfold.
    """
    from gnomon.props.instruments import check_split as check_rows

    sys.exit(check_rows(target, file, **options))


@main.command("check-pipeline")
@click.argument("target", metavar="TARGET")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--labels", metavar="COLUMN", help="The column of labels in FILE.")
@click.option("--kind", type=click.Choice(("numbers", "text")), default="numbers", show_default=True,
              help="What rows are made of where no file is given.")  # fmt: skip
def check_pipeline(target: str, file: Path | None, labels: str | None, kind: str) -> None:
    """Hold a pipeline of your own to VIII.4.2: what it learns must not move with held-out rows.

    TARGET is module:function or ./file.py:function for a function of nothing that makes an object with a method
    fit(rows, labels), or fit(rows, labels, train) that is given all rows; or for a function of rows, labels and train
    that returns what it learnt.
    """
    from gnomon.props.instruments import check_pipeline as check_learning

    sys.exit(check_learning(target, file, labels, kind))


@main.group()
def objective() -> None:
    """The worksheet of laboratory 7: what you want, what you train on, and what the second omits."""


@objective.command("init")
@click.argument("file", type=click.Path(path_type=Path))
def objective_init(file: Path) -> None:
    """Write a worksheet to fill in."""
    from gnomon.props.objectives import init_worksheet

    sys.exit(init_worksheet(file))


@objective.command("check")
@click.argument("file", type=click.Path(path_type=Path))
def objective_check(file: Path) -> None:
    """Refuse a worksheet in which a term of the objective got lost, and print where each one went."""
    from gnomon.props.objectives import check_worksheet

    sys.exit(check_worksheet(file))


@main.command()
@click.argument("target", metavar="MODEL")
@click.option("--longest", type=click.IntRange(6), default=512, show_default=True, help="The farthest, in tokens.")
@click.option("--asked", type=click.IntRange(10), default=100, show_default=True, help="Questions at each distance.")
@click.option("--minutes", type=click.FloatRange(0.01), default=10.0, show_default=True, help="No new distance after.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the questions.")
@click.option("--plot", type=click.Path(path_type=Path), help="Where the plot goes, ./gnomon-reach.png unless named.")
def reach(target: str, plot: Path | None, **options: Any) -> None:
    """Measure how far back MODEL recalls, against how much it takes: the answer at the far end, farther and farther.

    MODEL is given as to check-model: the folder of a checkpoint, module:function or ./file.py:function. A few random
    tokens and the one that followed them stand at the beginning, random tokens fill the middle, and the same few end
    the text; what followed them is due.
    """
    from gnomon.props.reaching import run_reach

    run_reach(target, plot, **options)


@main.command("random-labels")
@click.argument("target", metavar="TRAIN")
@click.option("--items", type=click.IntRange(2), default=96, show_default=True, help="To learn.")
@click.option("--held-out", type=click.IntRange(2), default=400, show_default=True, help="To be asked afterwards.")
@click.option("--width", type=click.IntRange(1), default=8, show_default=True, help="Numbers an item.")
@click.option("--classes", type=click.IntRange(2), default=4, show_default=True, help="Labels to draw from.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of items, labels and training.")
def random_labels(target: str, **options: int) -> None:
    """Give the procedure TRAIN random labels: what it has right of them is capacity, and of held-out ones a leak.

    TRAIN is module:function or ./file.py:function, called with inputs [items, width], labels [items] and a seed; it
    returns a function from inputs to labels.
    """
    from gnomon.props.reaching import run_random_labels

    sys.exit(run_random_labels(target, **options))


@main.command()
@click.argument("number", metavar="N", type=int)
@click.option("--impl", metavar="NAME", help="What to run in laboratory 2; in 1 two tokenisers, with a comma.")
@click.option("--config", multiple=True, metavar="CONFIG", help="A model of laboratory 4 or 5, as `count` takes it.")
@click.option("--plot", type=click.Path(path_type=Path), help="Where the plot goes, ./gnomon-lab-N.png unless named.")
def lab(number: int, plot: Path | None, **options: Any) -> None:
    """Run laboratory N of the source: print a table, write a plot, say what follows."""
    from gnomon.props.laboratories import run_laboratory

    run_laboratory(number, plot, **options)


@main.command()
@click.argument("implementation", metavar="IMPLEMENTATION", default="numpy")
@click.option("--format", type=click.Choice(EIGHT_AND_SIXTEEN), default="float16", show_default=True)
@click.option("--scale", type=click.FloatRange(1), default=65536.0, show_default=True, help="The scale of the loss.")
@click.option("--steps", type=click.IntRange(1), default=400, show_default=True, help="How long the training is.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the training.")
@click.option(
    "--gradients", "given", type=click.Path(path_type=Path), metavar="FILE",
    help="Gradients of your own in place of the training: an .npz file of arrays by name.",
)  # fmt: skip
@click.option("--plot", type=click.Path(path_type=Path), help="Where the plot goes, ./gnomon-underflow.png otherwise.")
def underflow(implementation: str, **options: Any) -> None:
    """Measure which share of gradients a format loses under its floor, with a loss scale and without (VIII.1.5).

    IMPLEMENTATION, numpy unless another is named, trains a small model whose gradients are measured.
    """
    from gnomon.props.underflow import run_underflow

    run_underflow(implementation, **options)


@main.command("factor-of-two")
@click.argument("procedure", metavar="PROCEDURE")
@click.option("--rate", required=True, type=float, help="The rate at which the conclusion was come to.")
def factor_of_two(procedure: str, rate: float) -> None:
    """Ask whether the conclusion of PROCEDURE survives half and double the rate.

    PROCEDURE is module:function or ./file.py:function for a function that takes a rate and returns a conclusion.
    """
    from gnomon.props.rates import print_survival

    sys.exit(print_survival(procedure, rate))


@main.command("bands")
@impl_argument
@click.option("--dtype", type=click.Choice(DTYPES[:2]), default="float32", show_default=True, help="In this dtype.")
@click.option("--seed", type=click.IntRange(0), help="Repeat the problems of a run.")
def bands(implementation: str, dtype: str, seed: int | None) -> None:
    """Print the band of usable rates of IMPLEMENTATION's plain descent and Adam, with both ends, on fresh problems."""
    from gnomon.props.rates import print_bands

    sys.exit(print_bands(implementation, dtype, seed))


def _cards(numbers: tuple[str, ...]) -> list[Any]:
    from gnomon.spec.catalogue import find

    try:
        return [find(number) for number in numbers]
    except KeyError as error:
        raise click.UsageError(error.args[0]) from error
