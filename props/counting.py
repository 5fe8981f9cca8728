"""`gnomon count`: where the parameters of a model are, and from which length on scores and cache outgrow them."""

import difflib
import json
from pathlib import Path

import click
from rich.table import Table

from gnomon.impl.configurations import BadConfiguration, read_configuration
from gnomon.props.report import console
from gnomon.spec import memory, parameters
from gnomon.spec.configuration import CONFIGURATIONS, Configuration

_VOCABULARY_OF_2017 = 37000  # "about 37000" is all that the paper says


def configuration(name: str) -> Configuration:
    """The model of that name, or of that local file or folder; anything else is a usage error."""
    if name in CONFIGURATIONS:
        return CONFIGURATIONS[name]
    if "/" in name or name.endswith(".json"):
        try:
            return read_configuration(Path(name))
        except BadConfiguration as error:
            raise click.UsageError(str(error)) from error
    near = difflib.get_close_matches(name, CONFIGURATIONS, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(CONFIGURATIONS)}; a file is given by its path"
    raise click.UsageError(f"there is no configuration {name}: {hint}")


def counted(c: Configuration, batch: int, item: int) -> dict[str, int]:
    """Every number that is printed, by name."""
    return {
        "embedding": parameters.embedding_parameters(c),
        "attention of all blocks": parameters.attentions(c) * parameters.attention_parameters(c),
        "feed-forward of all blocks": parameters.networks(c) * parameters.feed_forward_parameters(c),
        "norms of all blocks": parameters.block_norm_parameters(c),
        "final norm, unembedding, pooler": parameters.head_parameters(c),
        "parameters": parameters.parameter_count(c),
        "bytes of the weights": parameters.parameter_count(c) * item,
        "bytes of cache a token": memory.cache_bytes(c, 1, item=item),
        "length at which the scores of a layer pass the weights": memory.crossing_length(c, batch=batch),
        "length at which the cache passes the weights": memory.cache_crossing_length(c, batch=batch),
    }


def print_counts(name: str, batch: int, item: int, as_json: bool) -> None:
    """The split of the parameters, the memory, and the sentence that follows from them."""
    c = configuration(name)
    numbers = counted(c, batch, item)
    if as_json:
        click.echo(json.dumps({"configuration": name, "batch": batch, "bytes": item, **numbers}))
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for label, number in numbers.items():
        table.add_row(label, f"{number:,}")
    console.print(table)
    ratio = numbers["feed-forward of all blocks"] / numbers["attention of all blocks"]
    console.print(f"{name}: the feed-forward networks hold {ratio:.2f} times the parameters of attention")


def print_paper_table() -> None:
    """The 2017 paper's sizes beside weights counted at 37000 tokens, and the vocabulary that each row implies."""
    table = Table(box=None, pad_edge=False)
    for heading in ("row", "printed, millions", f"counted at {_VOCABULARY_OF_2017}", "vocabulary implied"):
        table.add_column(heading, justify="left" if heading == "row" else "right")
    for row in parameters.SIZES_OF_2017:
        counted_here = parameters.encoder_decoder_weights(row, _VOCABULARY_OF_2017) / 10**6
        table.add_row(row.name, str(row.millions), f"{counted_here:.1f}", str(parameters.implied_vocabulary(row)))
    console.print(table)
    implied = [parameters.implied_vocabulary(row) for row in parameters.SIZES_OF_2017]
    console.print(
        f"No single vocabulary fits: the rows imply from {min(implied)} to {max(implied)}. "
        "The printed figures are recalled, and weights are counted without biases and norms."
    )
