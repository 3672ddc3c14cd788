"""The commands that read: one result, the documents behind it, the rows of a view, one document.

All of them work while another process writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import click

from penstock.cli.command_frame import command, load_app, open_reader, table_by_name, view_by_name
from penstock.cli.context import NO, WRONG, Context
from penstock.cli.exit_errors import ExitError
from penstock.cli.json_values import dumps, group_of, pretty, spelt
from penstock.cli.name_completion import table_names, view_names
from penstock.cli.progress import Bar, progress
from penstock.cli.rows_output import OutputColumn, emit, format_option
from penstock.cli.running.feed_history import show_history
from penstock.engine import DocumentFacts, DocumentJoin, Snapshot
from penstock.views import App, Contribution, FieldMap, Progress, Row, View


@command(
    "get",
    app=True,
    store=True,
    examples=[
        "penstock get namecount Joe",
        "penstock get revenue '[\"NO\", 1]'",
        "penstock get ages '\"7\"'",
    ],
)
@click.argument("view", shell_complete=view_names)
@click.argument("group")
def get(ctx: Context, view: str, group: str) -> int | None:
    """Print the result of GROUP in VIEW, as JSON.

    GROUP is JSON, a list where groups are tuples. Text that isn't JSON is taken as text. Exits with 1 if there is no
    such group.
    """
    app = load_app(ctx)
    wanted = group_of(group)
    with _snapshot(ctx, app) as snap:
        definition = view_by_name(snap, view)
        _print_age(ctx, snap, view)
        try:
            row = snap.view(view).row(wanted)
        except KeyError:
            raise _no_group(definition, group, wanted) from None
        click.echo(pretty(row.value) if ctx.terminal else dumps(row.value))
        if row.held:
            ctx.note(f"held: it is the last good result; `penstock status` says what {view!r} can't take")
    return None


@command(
    "query",
    app=True,
    store=True,
    examples=[
        "penstock query namecount",
        "penstock query namecount --prefix J --limit 10",
        "penstock query revenue --level 1 --format csv",
        "penstock query revenue --start '[\"NO\", 2]' --stop '[\"NO\", 5]' --reverse",
    ],
)
@click.argument("view", shell_complete=view_names)
@click.option("--prefix", metavar="GROUP", help="Only groups with this prefix: a text, or a list of the first parts.")
@click.option("--start", metavar="GROUP", help="Only groups from this one on.")
@click.option("--stop", metavar="GROUP", help="Only groups before this one.")
@click.option(
    "--through", metavar="GROUP", help="Only groups up to this one. A list includes the groups with this prefix."
)
@click.option("--reverse", is_flag=True, help="Print the last group first.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Print at most N rows.")
@click.option(
    "--level",
    type=click.IntRange(min=0),
    metavar="N",
    help="Add up results by the first N parts of each group; 0 for one grand total.",
)
@format_option
def query(ctx: Context, /, view: str, level: int | None, format: str | None, **range_: Any) -> None:
    """Print the rows of VIEW, in the order of their groups: key and value, streamed from one snapshot.

    Groups are JSON. Text that isn't JSON is taken as text. Tables and CSV show a value of several fields as a column
    for each. While VIEW can't accept some document, a column `held` marks rows that show their last good result.
    """
    app = load_app(ctx)
    asked = {name: value for name, value in range_.items() if value is not None}
    asked |= {name: group_of(asked[name]) for name in ("prefix", "start", "stop", "through") if name in asked}
    with _snapshot(ctx, app) as snap:
        definition = view_by_name(snap, view)
        _print_age(ctx, snap, view)
        reader = snap.view(view)
        rows = reader.items(**asked) if level is None else reader.rollup(level, **asked)
        columns: list[str | OutputColumn] = ["key", OutputColumn("value", _fields(definition.fields))]
        if snap.holds_any(view):
            emit(ctx, _with_held(rows), [*columns, "held"], format)
        else:
            emit(ctx, rows, columns, format)


@command(
    "why",
    app=True,
    store=True,
    examples=[
        "penstock why namecount Joe",
        "penstock why namecount Joe --documents",
        "penstock why namecount Joe --history",
        "penstock why revenue '[\"NO\", 1]' --format csv",
    ],
)
@click.argument("view", shell_complete=view_names)
@click.argument("group")
@click.option("--documents", is_flag=True, help="Print the documents themselves, too.")
@click.option("--history", is_flag=True, help="Print the changes that led to the result instead, the oldest first.")
@format_option
def why(ctx: Context, view: str, group: str, documents: bool, history: bool, format: str | None) -> None:
    """Print the keys of the documents behind the result of GROUP in VIEW, with the contribution of each.

    GROUP is JSON, a list where groups are tuples. Text that isn't JSON is taken as text. For a plain index, GROUP is
    the group that documents are mapped to. If VIEW keeps no contributions, the command scans all documents once. `rank`
    distinguishes values that a function yielded for one document. Exits with 1 if there is no such group.

    With --history it prints a row for each commit that changed the result, also of a group that was removed. It goes
    back as far as the feed of changes. A line on standard error gives the feed's first position.
    """
    if history and documents:
        raise ExitError("--history and --documents exclude each other; leave one out", WRONG)
    app = load_app(ctx)
    wanted = group_of(group)
    if history:
        with open_reader(ctx, app) as engine:
            show_history(ctx, engine, view, wanted, format)
        return
    with _snapshot(ctx, app) as snap:
        definition = view_by_name(snap, view)
        _print_age(ctx, snap, view)
        reader = snap.view(view)
        exists = definition.index or wanted in reader
        with ExitStack() as stack:
            found = reader.why(wanted, progress=_bar(ctx, view, stack)) if exists else []
        if not found:
            if exists and not definition.index:
                raise ExitError(f"view {view!r} has a result for {dumps(wanted)} and no document behind it", NO)
            raise _no_group(definition, group, wanted)
        _show_why(ctx, definition, found, documents, format)


@command(
    "doc",
    app=True,
    store=True,
    examples=["penstock doc users 7", "penstock doc users 7 --raw", "penstock doc orders '[\"NO\", 1]'"],
)
@click.argument("table", shell_complete=table_names)
@click.argument("key")
@click.option("--raw", is_flag=True, help="Print only the document, as it is stored.")
def doc(ctx: Context, table: str, key: str, raw: bool) -> int | None:
    """Print the document of TABLE with this KEY, its emission in each view, and its matches in each join.

    KEY is JSON, a list where the table has several key fields. Text that isn't JSON is taken as text. For a join it
    prints the side, the condition with the value of the document, and the number of matches. Exits with 1 if there is
    no such document. In a pipe it is one JSON object.
    """
    app = load_app(ctx)
    wanted = group_of(key)
    with _snapshot(ctx, app) as snap:
        table_by_name(snap, table)
        stored = snap.stored(table, wanted)
        if stored is None or stored.document is None:
            gone = "" if stored is None or stored.ts is None else f": it was deleted as of ts {dumps(stored.ts)}"
            raise ExitError(f"table {table!r} has no document {dumps(wanted)}{_read_as(key, wanted)}{gone}", NO)
        if raw:
            as_it_came = stored.line[:1] == b"{"
            click.echo(stored.line.decode() if as_it_came else dumps(stored.document))
        else:
            joins = snap.document_joins(table, wanted, stored.document)
            if ctx.terminal:
                _show(ctx, stored, joins)
            else:
                click.echo(dumps(_data(stored, joins)))
    return None


@contextmanager
def _snapshot(ctx: Context, app: App) -> Iterator[Snapshot]:
    with open_reader(ctx, app) as engine, engine.snapshot() as snap:
        yield snap


def _print_age(ctx: Context, snap: Snapshot, view: str) -> None:
    """Print a note if a view is older than the snapshot."""
    as_of = snap.view(view).as_of
    if as_of is not None:
        ctx.note(
            f"{view} is being built anew, and stands at position {spelt(as_of)} of {spelt(snap.position)} until then"
        )


def _fields(fields: Sequence[str] | None) -> tuple[str, ...]:
    """Return the fields of a row as columns, or none if a name would collide with another column."""
    return () if fields is None or "key" in fields or "held" in fields else tuple(fields)


def _with_held(rows: Iterator[Row]) -> Iterator[tuple[Any, Any, bool]]:
    return ((row.key, row.value, row.held) for row in rows)


def _show_why(ctx: Context, view: View, found: list[Contribution], documents: bool, format: str | None) -> None:
    by_function = not isinstance(view.map, FieldMap)
    columns: list[str | OutputColumn] = ["key", "rank"] if by_function else ["key"]
    names: dict[str, None] = {}
    valued = True
    if isinstance(view.map, FieldMap) and view.map.value is None:
        # Values are maps of the fields that reducers read, if they read any.
        names = dict.fromkeys(name for one in found if one.value is not None for name in one.value)
        valued = bool(names)
    if valued:
        clear = names.keys().isdisjoint(("key", "held", "document"))
        columns.append(OutputColumn("value", tuple(names) if clear else ()))
    held = any(one.held for one in found)
    columns += ["held"] * held + ["document"] * documents

    def row(one: Contribution) -> Iterator[Any]:
        yield one.key
        if by_function:
            yield one.rank
        if valued:
            yield one.value
        if held:
            yield one.held
        if documents:
            yield one.document

    emit(ctx, (tuple(row(one)) for one in found), columns, format)


def _bar(ctx: Context, view: str, stack: ExitStack) -> Progress:
    """Return a function that reports the progress of a scan. The bar is drawn until the stack is closed."""
    bars: list[Bar] = []
    passed = 0

    def tell(done: int, total: int) -> None:
        nonlocal passed
        if not bars:
            bars.append(stack.enter_context(progress(ctx, f"why {view}", total)))
        bars[0].advance(done - passed, done - passed)
        passed = done

    return tell


def _no_group(view: View, text: str, value: Any) -> ExitError:
    hint = _read_as(text, value)
    if not hint and isinstance(view.map, FieldMap) and not view.map.key.single:
        fields = [".".join(path) for path in view.map.key.paths]
        if not isinstance(value, tuple) or len(value) != len(fields):
            hint = f" (its groups are lists, of {', '.join(fields)})" if fields else " (its one group is [])"
    return ExitError(f"view {view.name!r} has no group {dumps(value)}{hint}", NO)


def _read_as(text: str, value: Any) -> str:
    """Return a hint on how an argument was read, if the user may have meant something else."""
    if isinstance(value, str) and text == value and text[:1] in ("[", "{", '"'):
        return " (it was read as text, since it is no JSON)"
    if isinstance(value, int | float | bool | None):
        return f" (for the text, write '\"{text}\"')"
    return ""


def _data(stored: DocumentFacts, joins: list[DocumentJoin]) -> dict[str, Any]:
    out: dict[str, Any] = {"key": stored.key, "document": stored.document}
    if stored.ts is not None:
        out["ts"] = stored.ts
    out["views"] = {
        state.view: {"told": state.pairs, **({} if state.held is None else {"held": state.held})}
        for state in stored.told
    }
    if joins:
        out["joins"] = [_join_data(own) for own in joins]
    return out


def _join_data(own: DocumentJoin) -> dict[str, Any]:
    out: dict[str, Any] = {"join": own.join, "how": own.how, "side": own.side, "on": own.on, "value": own.value}
    out |= {"matches": {own.other: own.matches}, "views": own.views}
    out |= {"filtered": True} if own.filtered else {}
    return out | ({} if own.held is None else {"held": own.held})


def _show(ctx: Context, stored: DocumentFacts, joins: list[DocumentJoin]) -> None:
    click.echo(pretty(stored.document))
    if stored.ts is not None:
        click.echo(f"ts {dumps(stored.ts)}")
    if stored.told:
        click.echo()
        silent = [(state.view, "nothing", "") for state in stored.told if not state.pairs]
        pairs = [(state.view, dumps(group), value) for state in stored.told for group, value in state.pairs]
        emit(ctx, pairs + silent, ["view", "group", "value"], "table")
    if joins:
        click.echo()
        emit(ctx, map(_join_row, joins), ["join", "kind", "side", "on", "value", "matches", "views"], "table")
    holds = [(state.view, state.held) for state in stored.told] + [(own.join, own.held) for own in joins]
    for name, held in holds:
        if held is not None:
            click.echo(f"held: {name}: {held}")


def _join_row(own: DocumentJoin) -> tuple[Any, ...]:
    matches = "left out by the filter" if own.filtered else f"{own.matches:,} {own.other}"
    return own.join, own.how, own.side, own.on, dumps(own.value), matches, ", ".join(own.views)
