"""The command that shows the state of a store: tables, views, path, and the writing process.

On a terminal it is a page, which --watch redraws every second. Elsewhere it is one JSON object, or one per line with
--watch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from datetime import datetime
from io import StringIO
from typing import Any

import click

from penstock.cache import size_text, writer_name
from penstock.cli.command_frame import command, load_app, open_reader
from penstock.cli.context import WRONG, Context
from penstock.cli.exit_errors import ExitError
from penstock.cli.json_values import dumps, spelt
from penstock.cli.progress import progress
from penstock.cli.rows_output import cell_text, emit
from penstock.engine import Engine, memory_of_holder
from penstock.remote import claims, is_stopped

_EVERY = 1.0  # seconds
_FORMATS = ("table", "json")
_DATA = "data.mdb"


@command(
    "status",
    app=True,
    store=True,
    examples=[
        "penstock status",
        "penstock status --watch",
        "penstock status --digest",
        "penstock status | jq .position",
        "penstock status -v --format json | jq .views.revenue.holds",
    ],
)
@click.option("--watch", is_flag=True, help="Print it again every second, until Ctrl-C.")
@click.option(
    "--digest", is_flag=True, help="Add the digest of all content. Stores with equal content have equal digests."
)
@click.option("--format", "format", type=click.Choice(_FORMATS), help="The format (a table on a terminal, else json).")
def status(ctx: Context, watch: bool, digest: bool, format: str | None) -> None:
    """Show tables, views, position, sources, held documents, sizes, the last commit, and the writer.

    In a pipe it is one JSON object, with --watch one each second. It counts the first 20 documents that a view can't
    accept by reason, each reason with the first key. With -v it lists each of them with its traceback.
    """
    for_people = ctx.terminal if format is None else format == "table"
    if watch and digest:
        raise ExitError(
            "--digest reads all content, which is too much for each second of --watch; leave one out", WRONG
        )
    with open_reader(ctx, load_app(ctx)) as engine:
        if watch:
            with suppress(KeyboardInterrupt):
                _watch(ctx, for_people, lambda: _asked(ctx, for_people, read(engine, ctx.store, False)))
        else:
            with progress(ctx, "reading all content", None) if digest else nullcontext():
                data = _asked(ctx, for_people, read(engine, ctx.store, digest))
            click.echo(_page(ctx, data) if for_people else dumps(data))


def _asked(ctx: Context, for_people: bool, data: dict[str, Any]) -> dict[str, Any]:
    """Return the status with as many details of held documents as the user asked for."""
    if not for_people and not ctx.verbose:
        for view in (*data["views"].values(), *data["joins"].values()):
            view["holds"] = _by_reason(view["holds"])
    return data


def _by_reason(holds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Count documents that are held by their reason, the most frequent first.

    >>> _by_reason([{"key": 7, "reason": "odd", "traceback": "…"}, {"key": 8, "reason": "odd", "traceback": "…"}])
    [{'reason': 'odd', 'documents': 2, 'first': 7}]
    """
    found: dict[str, dict[str, Any]] = {}
    for hold in holds:
        own = found.setdefault(hold["reason"], {"reason": hold["reason"], "documents": 0, "first": hold["key"]})
        own["documents"] += 1
    return sorted(found.values(), key=lambda own: -own["documents"])


def _watch(ctx: Context, for_people: bool, look: Callable[[], dict[str, Any]]) -> None:
    if not (for_people and ctx.terminal):
        while True:
            click.echo(_page(ctx, look()) + "\n" if for_people else dumps(look()))
            time.sleep(_EVERY)
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(no_color=not ctx.color), auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            live.update(Text.from_ansi(_page(ctx, look())), refresh=True)
            time.sleep(_EVERY)


def read(engine: Engine, store: str, digest: bool) -> dict[str, Any]:
    """Return the status of a store, with the facts that only its files and its writer know."""
    data = engine.status()
    del data["readonly"]
    try:
        folders = [os.path.join(store, part["folder"]) for part in data.get("partitions", ())] or [store]
        written = max(os.stat(os.path.join(folder, _DATA)).st_mtime for folder in folders)
        last = datetime.fromtimestamp(written).astimezone()
        data["committed"] = last.isoformat(timespec="seconds")
    except OSError:
        data["committed"] = None
    data["owner"] = writer_name(store)
    data["reading"] = [{**one, "state": "stopped"} if is_stopped(one["pid"]) else one for one in claims(store)]
    memory = None if data["owner"] is None else memory_of_holder(store)
    data["memory"] = None if memory is None else memory["memory"]
    for kind in ("tables", "views", "joins"):
        for name, about in data[kind].items():
            about["memory"] = None if memory is None else memory.get(kind, {}).get(name)
    if digest:
        data["digest"] = engine.digest()
    return data


def _page(ctx: Context, data: dict[str, Any]) -> str:
    """Return the page for people."""
    sizes = data["store"]
    memory = "" if data["memory"] is None else f", {size_text(data['memory'])} of memory"
    lines = [
        f"app       {data['app']}",
        f"store     {cell_text(data['path'])}, {size_text(sizes['bytes'])}",
        f"position  {spelt(data['position'])}, epoch {data['epoch']:,}, last commit {data['committed'] or 'unknown'}",
        f"writer    {data['owner'] or 'nobody'}{memory}",
    ]
    building = data["building"]
    if building is not None:
        share = 100 * building["done"] // max(building["total"], 1)
        lines.append(f"building  {', '.join(building['views'])}, {share} %; `penstock migrate` does the rest now")
        if building["trouble"] is not None:
            lines.append(f"          it stopped, and is tried again: {cell_text(building['trouble'])}")
    if "digest" in data:
        lines.append(f"digest    {data['digest']}")
    lines += _scrub(data["scrub"])
    parts = [
        "\n".join(lines),
        *(table.rstrip() for table in _tables(ctx, data)),
        "\n".join((*_unmatched(data), *_held(data))),
    ]
    return "\n\n".join(filter(None, parts))


def _scrub(scrub: dict[str, Any]) -> Iterator[str]:
    """Yield the lines on the last scrub, and on the damage that it found."""
    damaged, uncounted = scrub["damaged"], scrub["uncounted"]
    if scrub["ended"] is None:
        text = "never; `penstock check` walks all pages, and `penstock run` does so in the background"
    else:
        text = f"{scrub['ended']}, {scrub['seconds']:g} s, {f'{len(damaged)} damaged' if damaged else 'no damage'}"
    yield f"scrub     {text}"
    for line in damaged:
        yield f"          {cell_text(line)}"
    if uncounted:
        yield f"          {uncounted} databases have no digest until a check or scrub has counted them"


def _tables(ctx: Context, data: dict[str, Any]) -> Iterator[str]:
    tables = [
        [name, t["documents"], t["tombstones"], t["rejected"], t["log"]["segments"], t["log"]["unfolded"]]
        for name, t in data["tables"].items()
    ]
    if tables or not data["streams"]:
        yield _drawn(ctx, tables, ["table", "documents", "deleted", "rejected", "log segments", "unfolded"])
    streams = [
        [name, s["text"], s["lag"], s["records"], s["late"], s["rejected"], s["reason"]]
        for name, s in data["streams"].items()
    ]
    if streams:
        yield _drawn(ctx, streams, ["stream", "watermark", "lag", "records", "late", "rejected", "waits for"])
    views = [[name, v["source"], v["groups"], v["held"], v["held_groups"]] for name, v in data["views"].items()]
    if views:
        yield _drawn(ctx, views, ["view", "of", "groups", "held documents", "held groups"])
    joins = [[name, ", ".join(j["sources"]), j["held"], j["above_limit"]] for name, j in data["joins"].items()]
    if joins:
        yield _drawn(ctx, joins, ["join", "of", "held documents", "values above the limit"])
    if "partitions" in data:
        own = ("folder", "position", "epoch", "documents")
        parts = [[*(part[name] for name in own), size_text(part["bytes"])] for part in data["partitions"]]
        yield _drawn(ctx, parts, ["partition", "position", "epoch", "documents", "size"])
    if data["sources"]:
        yield _drawn(ctx, [[name, offset] for name, offset in data["sources"].items()], ["source", "offset"])
    if data["reading"]:
        reading = [[r["source"], r["pid"], r["state"], r["lag"], r["rate"]] for r in data["reading"]]
        yield _drawn(ctx, reading, ["reads", "process", "state", "behind", "records/s"])


def _unmatched(data: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each side of a join that has documents, none of them with a condition value."""
    sources = {name: t["documents"] for name, t in data["tables"].items()}
    sources |= {name: v["groups"] for name, v in data["views"].items()}
    for name, join in data["joins"].items():
        for own in join["empty"]:
            n = sources.get(own["source"], 0)
            if n:
                yield f"join {name}: 0 of {n:,} {own['source']} match, since none has {' and '.join(own['paths'])}"


def _held(data: dict[str, Any]) -> Iterator[str]:
    for name, view in (*data["views"].items(), *data["joins"].items()):
        for hold in view["holds"]:
            yield f"held: {name} can't take {dumps(hold['key'])}: {cell_text(hold['reason'])}"
        if view["held"] > len(view["holds"]):
            yield f"held: {name} can't take {view['held'] - len(view['holds']):,} more"
    for name, join in data["joins"].items():
        for own in join["largest"]:
            matches = " × ".join(f"{n:,}" for n in own["matches"])
            yield f"held: {name} has no rows for {dumps(own['value'])}: {matches} matches are above the limit"
    n = sum(own["quarantined"] for kind in ("tables", "streams") for own in data[kind].values())
    if n:
        yield f"rejected: {n:,} record{'s are' if n > 1 else ' is'} kept; `penstock quarantine` lists them"


def _drawn(ctx: Context, rows: list[list[Any]], columns: list[str]) -> str:
    out = StringIO()
    emit(ctx, rows, columns, "table", out)
    return out.getvalue()
