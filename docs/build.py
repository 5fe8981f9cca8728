"""The pages that are made from the cards: one per topic, and the list of clauses in the index.

python docs/build.py                  write them
python docs/build.py --check          name those that are not current, and exit with 1
python docs/build.py --table [NAME]   hold these implementations, or all of `OPERATIONS_OF` and `MODELS_OF`, to every
                                      clause, then write the pages; rows that were measured so before are kept
python docs/build.py --matrix         try every fault against every clause, then write the pages
"""

import argparse
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import date
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args, get_type_hints

from gnomon.impl.faults import Fault, faults, faults_of
from gnomon.props.command import USUAL
from gnomon.props.property import Property, properties
from gnomon.spec.card import Card, Clause, Mistake, Proposition
from gnomon.spec.catalogue import TOPICS, find, foundations, order, propositions
from gnomon.spec.conventions import Conventions
from gnomon.spec.proofs import proofs

DOCS = Path(__file__).parent
FOLDER = DOCS / "propositions"
INDEX = DOCS / "index.md"
MATRIX = DOCS / "matrix.jsonl"
TABLE = DOCS / "table.json"

DTYPE = "float32"
LIBRARIES = (
    "numpy", "torch", "jax", "jaxlib", "flax", "equinox", "onnx", "onnxruntime", "transformers", "x-transformers",
    "mlx", "mlx-lm", "transformer-lens", "torchtune",
)  # fmt: skip
# What is measured where no name is given: libraries of operations, then whole models. All of the latter but
# torch-encoder and the other families of transformers build a Llama.
OPERATIONS_OF = ("numpy", "torch", "torch-sdpa", "torch-mha", "jax", "flax", "equinox", "onnxruntime", "onnx-reference")
MODELS_OF = (
    "numpy", "transformers:llama", "onnxruntime-model", "onnx-reference-model", "equinox-model", "x-transformers",
    "mlx", "transformer-lens", "torchtune", "torch-encoder", "transformers:mistral", "transformers:qwen2",
    "transformers:qwen3", "transformers:gemma", "transformers:gemma2", "transformers:phi3", "transformers:olmo2",
    "transformers:cohere", "transformers:falcon", "transformers:gpt2", "transformers:gpt-neox", "transformers:gptj",
    "transformers:opt", "transformers:bloom", "transformers:bert",
)  # fmt: skip
UNMEASURED = ("unsupported", "not-run")
BEGIN, END = "<!-- from here to the end mark written by docs/build.py -->\n", "<!-- end mark -->\n"
GENERATED = "<!-- written by docs/build.py from the cards: change those, not this page -->"
MATRIX_HEAD = (
    "# The kill matrix",
    "",
    "Each faulty implementation against every clause, by `gnomon faults --matrix`. A fault is rejected where its own",
    "clause finds a violation, and argued where its card says why it cannot be told from rounding there. The last",
    "column has every clause that rejects it in some dtype, from fewer cases.",
    "",
)
NO_TABLE = "No implementation has been measured for this page: `python docs/build.py --table` does it."

_COMMAND = "from gnomon.props.command import main; main(prog_name='gnomon')"
_REPORT = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")

Table = dict[str, Any]


# Words and links.


def plain(text: str) -> str:
    """The text with what Markdown would read as a mark made literal."""
    return re.sub(r"([*_|<`$])", r"\\\1", text)


def topic_of(proposition: Proposition) -> str:
    """The topic in whose module the proposition is written."""
    for topic in TOPICS:
        module = import_module(f"gnomon.spec.{topic}")
        names = [name for name, value in vars(module).items() if value is proposition]
        if any(f"\n{name} = Proposition(" in inspect.getsource(module) for name in names):
            return topic
    raise LookupError(f"no module of gnomon.spec writes {proposition.number}")


def address(card: Card, folder: str = "") -> str:
    """Page and anchor of a card, seen from beside its page or from above the folder."""
    proposition = card.proposition if isinstance(card, Clause) else card
    return f"{folder}{topic_of(proposition)}.md#{card.number}"


def link(card: Card, folder: str = "") -> str:
    """The card's number and slug, linked."""
    return f"[{card.number} {card.slug}]({address(card, folder)})"


def heading(depth: int, card: Card) -> list[str]:
    """The card's heading, with its number as anchor."""
    return [f'<a id="{card.number}"></a>', "", f"{'#' * depth} {card.number} {card.slug}"]


def code(thing: Any) -> str:
    """The source of a function or a class."""
    return f"```python\n{inspect.getsource(thing).rstrip()}\n```"


def where(thing: Any) -> str:
    """A link to the file of a function or a class."""
    path = "/".join(thing.__module__.split(".")[1:]) + ".py"
    return f"[{path}](../../{path})"


def reported(seen: str) -> str:
    """A report, linked where it names a repository and an issue."""
    return _REPORT.sub(r"[\g<0>](https://github.com/\1/issues/\2)", plain(seen))


# The page of a topic.


def page(topic: str, table: Table | None) -> str:
    """Every proposition of a topic with its clauses."""
    parts = [GENERATED, f"# {topic.capitalize()}", measured_how(table)]
    for proposition in propositions():
        if topic_of(proposition) == topic:
            parts += proposition_part(proposition, topic)
            parts += [part for clause in proposition.clauses for part in clause_part(clause, table)]
    return "\n\n".join(parts) + "\n"


def proposition_part(proposition: Proposition, topic: str) -> Iterator[str]:
    """What the card of a proposition says."""
    yield "\n".join(heading(2, proposition))
    yield plain(proposition.statement)
    yield f"$$\n{proposition.formula}\n$$"
    yield f"**Source.** {plain(proposition.source)}"
    yield f"**Equations.** [spec/{topic}.py](../../spec/{topic}.py)"
    if proposition.said:
        yield f"**Often said.** {plain(proposition.said)}"
        yield f"**In fact.** {plain(proposition.so)}"
    yield from rests_on(proposition)
    yield "\n".join(f"- {link(c)}: {plain(c.statement)}" for c in proposition.clauses)


def clause_part(clause: Clause, table: Table | None) -> Iterator[str]:
    """What the card of a clause says, how it is checked and what it rejects."""
    yield "\n".join(heading(3, clause))
    yield plain(clause.statement)
    yield f"$$\n{clause.formula}\n$$"
    yield (
        f"**Kind** {clause.kind} · **level** {' and '.join(clause.level)} · **since** {clause.since} · "
        f"**source** that of {link(clause.proposition)}"
    )
    yield from rests_on(clause)
    yield from proven(clause)
    if clause.conventions:
        yield "**Reads the conventions** " + "; ".join(map(choices, clause.conventions)) + "."
    if table is not None:
        yield f"**Which implementations hold it.** {held_by(clause, table)}"
    for prop in own_properties(clause):
        yield from property_part(prop)
    if clause.control:
        yield f"**Control**, in place of a mistake or beside it: {plain(clause.control)}."
    for mistake in clause.mistakes:
        yield from mistake_part(clause, mistake)


def rests_on(card: Card) -> Iterator[str]:
    """Links to what the card rests on directly."""
    below = foundations(card)
    if below:
        yield f"**Rests on** {', '.join(map(link, below))}."


def proven(clause: Clause) -> Iterator[str]:
    """How far each proof reaches and how it goes."""
    found = proofs(clause)
    for proof in found:
        yield f"**Proof**, {plain(proof.label)}: {plain(proof.argument)} ({where(proof.run)}, `{proof.name}`)"
    if not found:
        yield "**Proof.** None is carried here; the clause is checked."


def choices(axis: str) -> str:
    """A convention with its admissible choices."""
    known = [c for hint in _flat(get_type_hints(Conventions)[axis]) for c in get_args(hint) or ()]
    return f"[`{axis}`](../interface.md#conventions) ({', '.join(known)})"


def _flat(hint: Any) -> list[Any]:
    """The literal types of a hint that may allow None."""
    inner = get_args(hint)
    return [hint] if all(isinstance(a, str) for a in inner) else [a for a in inner if a is not type(None)]


def own_properties(clause: Clause) -> list[Property]:
    """The properties that check a clause."""
    return [p for p in properties() if p.clause is clause]


def property_part(prop: Property) -> Iterator[str]:
    """A property and its source."""
    needs = f"; needs {', '.join(f'`{n}`' for n in prop.needs)}" if prop.needs else ""
    yield f"**Property** `{prop.id}` in {where(prop.check)}{needs}:"
    yield code(prop.check)


def mistake_part(clause: Clause, mistake: Mistake) -> Iterator[str]:
    """A usual mistake, and the faulty implementation that commits it, folded."""
    yield f"#### Mistake {mistake.slug}"
    lines = [f"- **Wrong:** {plain(mistake.wrong)}.", f"- **Effect:** {plain(mistake.effect)}."]
    if mistake.seen:
        lines.append(f"- **Seen in** {', '.join(map(reported, mistake.seen))}.")
    hunters = [p for p in own_properties(clause) if mistake in p.mistakes]
    if len(own_properties(clause)) > 1:
        lines.append(f"- **To be rejected by** {' or '.join(f'`{p.id}`' for p in hunters)}.")
    lines += [f"- **Not asked for in {d}:** {plain(why)}." for d, why in mistake.unseen.items()]
    yield "\n".join(lines)
    for fault in faults_of(clause):
        if fault.mistake is mistake:
            yield from fault_part(fault_class(fault))


def fault_class(fault: Fault) -> type:
    """The class of a fault."""
    module, _, name = fault.implementation.home.partition(":")
    found: type = getattr(import_module(module), name)
    return found


def fault_part(fault: type) -> Iterator[str]:
    """The source of a fault, folded."""
    yield f"<details><summary>The fault <code>{fault.__name__}</code></summary>"
    yield f"{where(fault)}"
    yield code(fault)
    yield "</details>"


# The index.


def index(written: str, table: Table | None) -> str:
    """The index as it is written, its marked part made anew."""
    before, begin, rest = written.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{INDEX.name} lacks the marks between which the clauses are listed")
    made = "\n\n".join([*clause_lists(), "## What holds where", measured_how(table), *matrix(table)])
    return f"{before}{begin}\n{made}\n\n{end}{after}"


def clause_lists() -> Iterator[str]:
    """Every proposition, with a table of its clauses."""
    for proposition in propositions():
        yield f"### {link(proposition, 'propositions/')}"
        yield plain(proposition.statement)
        rows = [f"| {link(c, 'propositions/')} | {plain(c.statement)} | {c.kind} |" for c in proposition.clauses]
        yield "\n".join(["| clause | statement | kind |", "|---|---|---|", *rows])


# The table of what holds where.


def read_table() -> Table | None:
    """The measured table, if there is one."""
    return json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else None


def measured_how(table: Table | None) -> str:
    """Under which conditions the table was measured."""
    if table is None:
        return f"*{NO_TABLE}*"
    named = ", ".join(table["implementations"]) or "none"
    libraries = ", ".join(f"{name} {number}" for name, number in table["libraries"].items())
    return (
        f"*Statuses measured with gnomon {table['gnomon']} in {table['dtype']}, {table['cases']} cases per property, "
        f"seed {table['seed']}, on {table['date']}, with {libraries}. Measured: "
        f"{named}. No other implementation and no other dtype.*"
    )


def held_by(clause: Clause, table: Table) -> str:
    """The implementations by their status, those that hold first."""
    found: dict[str, list[str]] = {"holds": []}
    for name, statuses in table["implementations"].items():
        found.setdefault(statuses.get(clause.number, "not-run"), []).append(name)
    return "; ".join(f"{status}: {', '.join(names) or 'none'}" for status, names in found.items()) + "."


def matrix(table: Table | None) -> Iterator[str]:
    """Clauses by implementations, operations and whole models apart, and why some could not be run."""
    if table is None:
        return
    measured = table["implementations"]
    whole = [name for name in MODELS_OF if name in measured]
    single = [name for name in measured if name not in whole or name in OPERATIONS_OF]
    for heading, names in (("Single operations", single), ("Whole models", whole)):
        if names:
            yield f"### {heading}"
            yield "\n".join(matrix_rows(names, measured))
    for name, families in table.get("families", {}).items():
        yield f"`{name}` is held to models of {', '.join(families)}."
    for name, reason in table["not run"].items():
        yield f"`{name}` could not be run: {plain(reason)}"


def matrix_rows(names: list[str], measured: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """A line for each clause that any of them was held to."""
    yield f"| clause | {' | '.join(names)} |"
    yield "|---" * (len(names) + 1) + "|"
    for clause in (c for p in propositions() for c in p.clauses):
        statuses = [measured[name].get(clause.number, "not-run") for name in names]
        if any(status not in UNMEASURED for status in statuses):
            yield f"| {link(clause, 'propositions/')} | {' | '.join(statuses)} |"


def measure(names: list[str]) -> None:
    """Check each implementation and write what came of it; rows measured under other conditions go."""
    now = conditions()
    table = read_table()
    if table is None or any(table.get(key) != value for key, value in now.items()):
        table = now | {"implementations": {}, "families": {}, "not run": {}}
    for name in names:
        print(f"checking {name}", flush=True)
        found, reason = checked(name)
        built = families(name) if found else ()
        for part, value in (("implementations", found), ("families", built), ("not run", reason)):
            table[part].pop(name, None)
            table[part] |= {name: value} if value else {}
        written = table | {"date": date.today().isoformat()}
        TABLE.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


def conditions() -> Table:
    """Under which a table is measured; one that was measured under others is begun anew."""
    return {"gnomon": version("gnomon"), "dtype": DTYPE, "cases": USUAL, "seed": 0, "libraries": libraries()}


def checked(name: str) -> tuple[Mapping[str, str], str]:
    """The status of each clause, or in one sentence why there is none."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "run.jsonl"
        options = ["check", name, "--dtype", DTYPE, "--workers", "1", "--timeout", "600", "--json", str(out)]
        done = subprocess.run([sys.executable, "-c", _COMMAND, *options], capture_output=True, text=True, check=False)
        if out.exists():
            summary = json.loads(out.read_text(encoding="utf-8").splitlines()[-1])
            return summary["clauses"], ""
    said = (done.stdout + done.stderr).strip().splitlines() or ["it said nothing"]
    return {}, said[0]


def families(name: str) -> list[str]:
    """The families of models that an implementation of whole models declares, asked in a process of its own."""
    if name not in MODELS_OF:
        return []
    code = f"from gnomon.impl.loading import load; print(*load({name!r}).declaration.families)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()


def libraries() -> dict[str, str]:
    """The libraries that are installed, with their versions."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


# The kill matrix.


def measure_matrix() -> None:
    """Try every fault against every clause and keep the lines of JSON that come of it."""
    options = ["faults", "--matrix", "--json", str(MATRIX)]
    subprocess.run([sys.executable, "-c", _COMMAND, *options], check=False)


def read_matrix() -> list[Table]:
    """The lines that were kept, none if the matrix has not been measured."""
    if not MATRIX.exists():
        return []
    return [json.loads(line) for line in MATRIX.read_text(encoding="utf-8").splitlines()]


def matrix_page(lines: list[Table]) -> str:
    """Every fault with its fate in each dtype, and all the clauses that reject it somewhere."""
    found: dict[tuple[str, str], dict[str, Table]] = {}
    for line in (line for line in lines if line["kind"] == "fault"):
        found.setdefault((line["clause"], line["fault"]), {})[line["dtype"]] = line
    dtypes = list(dict.fromkeys(dtype for fates in found.values() for dtype in fates))
    rows = [_matrix_row(*key, found[key], dtypes) for key in sorted(found, key=lambda k: (order(k[0]), k[1]))]
    held = {line["control"] for line in lines if line["kind"] == "control" and not line["alarms"]}
    heading = [f"| clause | fault | {' | '.join(dtypes)} | rejected by |", "|---" * (len(dtypes) + 3) + "|"]
    return "\n".join(
        [*MATRIX_HEAD, f"Controls that hold under every clause: {', '.join(sorted(held))}.", "", *heading, *rows, ""]
    )


def _matrix_row(clause: str, fault: str, fates: dict[str, Table], dtypes: list[str]) -> str:
    cells = " | ".join(fates[d]["fate"] if d in fates else "" for d in dtypes)
    killers = sorted({k for line in fates.values() for k in line["killers"]}, key=order)
    return f"| {link(find(clause), 'propositions/')} | {fault} | {cells} | {' '.join(killers)} |"


# The command.


def pages() -> dict[Path, str]:
    """Every page that is made, with its text."""
    faults()  # loads them all, so that the pages do not depend on what was imported before
    table = read_table()
    made = {FOLDER / f"{topic}.md": page(topic, table) for topic in TOPICS}
    lines = read_matrix()
    made |= {MATRIX.with_suffix(".md"): matrix_page(lines)} if lines else {}
    return made | {INDEX: index(INDEX.read_text(encoding="utf-8"), table)}


def stale() -> list[Path]:
    """The pages whose text is not what the cards say now, and those that no topic has any more."""
    made = pages()
    old = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    return old + sorted(set(FOLDER.glob("*.md")) - set(made))


def main() -> int:
    """Write, check or measure, as asked."""
    parser = argparse.ArgumentParser(description="The pages that are made from the cards.")
    parser.add_argument("--check", action="store_true", help="name the pages that are not current and exit with 1")
    parser.add_argument("--table", nargs="*", metavar="NAME", help="measure these implementations, or the usual ones")
    parser.add_argument("--matrix", action="store_true", help="try every fault against every clause")
    asked = parser.parse_args()
    if asked.check:
        found = stale()
        for path in found:
            print(f"{path.relative_to(DOCS.parent)} is not current: python docs/build.py writes it")
        return int(bool(found))
    if asked.table is not None:
        measure(asked.table or list(dict.fromkeys((*OPERATIONS_OF, *MODELS_OF))))
    if asked.matrix:
        measure_matrix()
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
