"""What the command prints of the specification itself: the list, a card, what it rests on, its proofs."""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import click
from rich.markup import escape
from rich.tree import Tree

from gnomon.props.report import console
from gnomon.props.summary import Exit
from gnomon.spec.card import Card, Clause, Proposition
from gnomon.spec.catalogue import foundations, propositions


def print_list(as_json: bool) -> None:
    """Every proposition with its clauses."""
    if as_json:
        click.echo(json.dumps([_record(c) for p in propositions() for c in p.clauses]))
        return
    for proposition in propositions():
        console.print(f"[bold]{proposition.number}[/] {escape(proposition.statement)}")
        for clause in proposition.clauses:
            console.print(f"  {clause.number:8} {clause.slug:20} {escape(clause.statement)}")


def _record(clause: Clause) -> dict[str, Any]:
    return {
        "number": clause.number,
        "slug": clause.slug,
        "statement": clause.statement,
        "kind": str(clause.kind),
        "level": [str(level) for level in clause.level],
        "since": clause.since,
        "mistakes": [asdict(replace(m, unseen=dict(m.unseen))) for m in clause.mistakes],
    }


def print_card(card: Card) -> None:
    """Everything that the card says."""
    console.print(f"[bold]{card.number} {card.slug}[/]")
    for line in card_lines(card):
        console.print(escape(line))


def card_lines(card: Card) -> Iterator[str]:
    """The card as lines of plain text."""
    yield card.statement
    yield f"  formula    {card.formula}"
    if isinstance(card, Clause):
        yield from _clause_lines(card)
    else:
        yield from _proposition_lines(card)
    rests = ", ".join(f"{c.number} {c.slug}" for c in foundations(card))
    if rests:
        yield f"  rests on   {rests}"


def _proposition_lines(card: Proposition) -> Iterator[str]:
    yield f"  source     {card.source}"
    if card.said:
        yield f"  said       {card.said}"
        yield f"  in fact    {card.so}"
    for clause in card.clauses:
        yield f"  {clause.number:8}   {clause.slug}: {clause.statement}"


def _clause_lines(card: Clause) -> Iterator[str]:
    from gnomon.spec.proofs import proofs

    yield f"  source     {card.proposition.source}"
    yield f"  decided    {card.kind}, at the level of {' and '.join(card.level)}; since {card.since}"
    for proof in proofs(card):
        yield f"  proof      {proof_label(proof)}: {proof.argument}"
    if card.conventions:
        yield f"  reads      the declared {', '.join(card.conventions)}"
    if card.control:
        yield f"  control    {card.control}"
    for mistake in card.mistakes:
        yield f"  mistake    {mistake.slug}: {mistake.wrong}; {mistake.effect}"
        if mistake.seen:
            yield f"             seen in {', '.join(mistake.seen)}"
        for dtype, reason in mistake.unseen.items():
            yield f"             not seen in {dtype}: {reason}"


def proof_label(proof: Any) -> str:
    """For which sizes a proof holds."""
    return f"{proof.scope} ({proof.sizes})" if proof.sizes else str(proof.scope)


def print_graph(card: Card) -> None:
    """The card and, below it, what it rests on, and so on down."""
    console.print(_grown(card, Tree(_label(card))), soft_wrap=False)


def _grown(card: Card, tree: Tree) -> Tree:
    for below in foundations(card):
        _grown(below, tree.add(_label(below)))
    return tree


def _label(card: Card) -> str:
    return f"[bold]{card.number}[/] {card.slug}: {escape(card.statement)}"


def print_proofs(cards: list[Card]) -> Exit:
    """Run the proofs of the given cards, of all if none is given; one that fails is our fault."""
    from gnomon.spec.proofs import proofs

    wanted = {c for card in cards for c in (card.clauses if isinstance(card, Proposition) else (card,))}
    chosen = [p for p in proofs() if not cards or p.clause in wanted]
    if not chosen:
        raise click.UsageError("none of these clauses carries a proof; `gnomon prove` runs all there are")
    outcomes = [_proved(p) for p in chosen]
    console.print(f"{sum(outcomes)} of {len(outcomes)} proofs go through")
    return Exit.CONFORMS if all(outcomes) else Exit.SUITE_FAILED


def _proved(proof: Any) -> bool:
    started = time.perf_counter()
    proved: bool = proof.run()
    mark = "[green]proved[/]" if proved else "[bold red]fails[/]"
    took = time.perf_counter() - started
    console.print(
        f"{mark} {proof.clause.number:7} {proof_label(proof)}: {escape(proof.argument)} [dim]({took:.2f} s)[/]"
    )
    return proved
