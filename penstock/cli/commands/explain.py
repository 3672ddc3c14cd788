"""The command that shows how tables and views depend on each other, and the cost of an update."""

from __future__ import annotations

from contextlib import nullcontext

import click

from penstock.cache import StoreMissing, read_mark, size_text
from penstock.cli.command_frame import command, load_app, open_reader
from penstock.cli.context import Context
from penstock.cli.drawing.join_order import order_facts
from penstock.cli.json_values import dumps
from penstock.cli.name_completion import all_names
from penstock.cli.progress import progress
from penstock.engine import JoinWeight, Weight, memory_of_holder
from penstock.views import (
    App,
    Definition,
    Join,
    Stream,
    Table,
    View,
    definition_forest,
    definition_sentence,
    graph_mermaid,
    graph_svg,
    graph_text,
    is_in_tree,
    side_paths,
    view_costs,
)

_HOT = 5


@command(
    "explain",
    app=True,
    store=True,
    examples=[
        "penstock explain",
        "penstock explain revenue",
        "penstock explain --format mermaid",
        "penstock explain --format svg > views.svg",
    ],
)
@click.argument("view", required=False, shell_complete=all_names)
@click.option(
    "--format", "format", type=click.Choice(["text", "mermaid", "svg"]), default="text", help="The format of the graph."
)
def explain(ctx: Context, view: str | None, format: str) -> None:
    """Show the graph of tables and views. For one VIEW (or table), also show its parts and the cost of an update.

    The command needs no store. If there is one, it adds the numbers of documents and groups. For one VIEW it reads all
    rows, to find the groups with the most contributions. For a join it reads the entries of all sides.
    """
    app = load_app(ctx)
    only = None if view is None else app.lookup(view)
    roots = definition_forest(app, only)
    if format == "mermaid":
        click.echo(graph_mermaid(roots))
    elif format == "svg":
        click.echo(graph_svg(roots, app.name))
    else:
        with progress(ctx, f"reading {view}", None) if isinstance(only, View | Join) else nullcontext():
            numbers, weight = _numbers(ctx, app, only)
        click.echo(graph_text(roots, numbers))
        if only is not None:
            facts = [*_facts(only, weight, numbers), *(_order(ctx, app, only) if isinstance(only, Join) else ())]
            memory = None if weight is None else memory_of_holder(ctx.store)
            if memory is not None:
                size = size_text(memory["views"].get(only.name, 0))
                facts.append(("memory", f"{size} in the process that writes"))
            wide = max(len(name) for name, _ in facts)
            click.echo("\n" + "\n".join(f"{name:{wide}}  {fact}" for name, fact in facts))


def _numbers(ctx: Context, app: App, only: Definition | None) -> tuple[dict[str, str], Weight | JoinWeight | None]:
    """Return the number of documents or groups by name, and the weight of the chosen view or join, from a store."""
    try:
        with open_reader(ctx, app) as engine, engine.snapshot() as snap:
            tables, views = snap.schema.tables, snap.schema.views
            out = {name: _many(len(snap.table(name)), "document") for name in app.names() if name in tables}
            marks = {name: own.number for name, own in snap.schema.streams.items()}
            out |= {name: _many(read_mark(snap.reader(), number).tail, "record") for name, number in marks.items()}
            out |= {name: _many(len(snap.view(name)), "group") for name in app.names() if name in views}
            if isinstance(only, Join) and only.name in snap.schema.joins:
                return out, snap.join_weight(only.name, _HOT)
            return out, snap.weight(only.name, _HOT) if isinstance(only, View) and only.name in views else None
    except StoreMissing:
        return {}, None


def _order(ctx: Context, app: App, join: Join) -> list[tuple[str, str]]:
    """Return the sizes of the prefixes of a join, and a better order. Both need a store, and more than two sides."""
    if join.prefix is None:
        return []
    try:
        with open_reader(ctx, app) as engine, engine.snapshot() as snap:
            return list(order_facts(snap, join))
    except StoreMissing:
        return []


def _many(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _facts(
    definition: Definition, weight: Weight | JoinWeight | None, numbers: dict[str, str]
) -> list[tuple[str, str]]:
    if isinstance(definition, Stream):
        return [
            ("is", definition_sentence(definition)),
            ("a record", "gets a number and goes to the views; the stream stores it only while a view holds it"),
        ]
    if isinstance(definition, Table):
        return [
            ("is", definition_sentence(definition)),
            ("an update", "reads the stored version of its key, writes a line of the log"),
        ]
    if isinstance(definition, Join):
        return [
            ("is", definition_sentence(definition)),
            ("rows", "are not kept; a view on it with reduce=None keeps them as an index"),
            (
                "an update",
                "writes the entry of its document in the index of its side, and changes a row for each match",
            ),
            ("limit", f"{definition.limit:,} rows of one condition value"),
            *(_join_weights(definition, weight, numbers) if isinstance(weight, JoinWeight) else ()),
        ]
    out = view_costs(definition)
    if isinstance(weight, Weight):
        out += _weights(definition, weight)
    return out


def _join_weights(join: Join, weight: JoinWeight, numbers: dict[str, str]) -> list[tuple[str, str]]:
    """Return the sizes of the sides, and the cost of a change of each."""
    out = []
    for own in weight.sides:
        side = join.side(own.name)
        if side is None:  # a prefix
            known, named = _many(own.entries, "row"), [".".join(one) for one, _ in join.steps()[1][-1].pairs]
        else:
            known, named = numbers.get(side.source.name, _many(own.entries, "document")), side_paths(join, side.name)
        paths = " and ".join(named)
        where = f"in {size_text(own.bytes)}" if own.bytes else "looked up by key"
        has = f"{own.entries:,} have {paths}, {where}" if own.entries else f"none has {paths}"
        each = f"one has {_rounded(own.average)} matches on average, {own.greatest:,} at most"
        out.append((f"side {own.name}", f"{own.matching:,} of {known} match; {has}; {each}"))
    average = _rounded(weight.pairs / weight.values) if weight.values else "0"
    pairs = f"{_many(weight.pairs, 'pair')} at {_many(weight.values, 'condition value')}"
    out.append(("matches", f"{pairs}, {average} at one on average"))
    if weight.largest:
        largest = ", ".join(f"{dumps(value)}: {left:,} × {right:,}" for value, left, right in weight.largest)
        out.append(("largest", largest))
    return out


def _rounded(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def _weights(view: View, weight: Weight) -> list[tuple[str, str]]:
    size = size_text(weight.bytes)
    out = [("rows", f"{weight.rows:,}, {size}, {_many(weight.contributions, 'contribution')}")]
    if weight.nodes:
        out.append(("trees", f"{_many(weight.nodes, 'node')} beside the rows, at most {weight.depth} deep"))
    elif not view.index and is_in_tree(view):
        out.append(("trees", "none: each group has so few contributions that its row holds them"))
    if weight.hot and weight.hot[0][1] > 1:
        hot = [f"{dumps(group)} {n:,} ({100 * n / weight.contributions:.0f} %)" for group, n in weight.hot]
        out.append(("hot groups", ", ".join(hot)))
    return out
