"""The commands for single records: put, delete, post. Each call is one transaction."""

from __future__ import annotations

from typing import Any

import click

from penstock.cache import RecordError
from penstock.cli.command_frame import command, input_of, load_app, open_writer, table_of
from penstock.cli.commands.load import take_lines
from penstock.cli.commands.repair import print_repairs
from penstock.cli.context import DONE, WRONG, Context
from penstock.cli.exit_errors import ExitError
from penstock.cli.files.lossless_json import read_keys
from penstock.cli.json_values import group_of, loads, object_of
from penstock.cli.name_completion import input_names, table_names
from penstock.cli.rows_output import format_option, print_outcome
from penstock.engine import post as post_records
from penstock.engine import split_reposts
from penstock.spout import Record, opened
from penstock.views import App


@command(
    "put",
    app=True,
    store=True,
    examples=[
        """penstock put users '{"id": 7, "name": "Sue", "ts": 1}'""",
        """penstock put users '{"id": 7, "name": "Joe", "ts": 2}' '{"id": 8, "name": "Sam", "ts": 1}'""",
    ],
)
@click.argument("table", shell_complete=input_names)
@click.argument("documents", metavar="JSON...", nargs=-1, required=True)
def put(ctx: Context, table: str, documents: tuple[str, ...]) -> int:
    """Put documents into TABLE, each a JSON object in single quotes.

    All of them are one transaction. The command prints how many were applied, equal to the stored document, or late. A
    rejected document is named, and the exit code is 1. For files use `penstock load`.
    """
    app = load_app(ctx)
    input_of(app, table)
    for place, text in enumerate(documents, 1):
        object_of(text, _named(place, documents))
    return _write(ctx, app, [Record(table, None, text.encode("utf-8", "surrogateescape")) for text in documents])


@command(
    "delete",
    app=True,
    store=True,
    examples=[
        "penstock delete users 7",
        "penstock delete users 7 8 --ts 12",
        """penstock delete orders '["NO", 1]'""",
        "penstock delete users --from left.csv",
        "cut -f1 left.tsv | penstock delete users --from -",
    ],
)
@click.argument("table", shell_complete=table_names)
@click.argument("keys", metavar="[KEY...]", nargs=-1)
@click.option("--ts", metavar="TS", help="As of this ts, a number or RFC 3339 text (else the current version's).")
@click.option(
    "--from",
    "files",
    metavar="FILE",
    multiple=True,
    type=click.Path(allow_dash=True),
    help="Delete the keys in this file of JSON lines or CSV, plain or packed; - is standard input.",
)
@click.option("--format-in", metavar="FORMAT", help="jsonl, csv or tsv, also packed (else by the file's name).")
def delete(
    ctx: Context, table: str, keys: tuple[str, ...], ts: str | None, files: tuple[str, ...], format_in: str | None
) -> int:
    """Delete the documents of TABLE with these keys.

    A KEY is JSON, a list where the table has several key fields. Text that isn't JSON is taken as text. All of them are
    one transaction. A key without a document counts as equal: it was deleted already.

    With --from each line of the FILE is a key as JSON, or a map with the key's fields. A row of CSV is such a map. Many
    lines are several transactions. A line without a key is rejected with its number, and the exit code is 1. After an
    interruption the same command deletes the rest.
    """
    app = load_app(ctx)
    target = table_of(app, table)
    if bool(keys) == bool(files):
        raise click.UsageError("give keys, or a file of keys with --from FILE")
    when = None if ts is None else _ts_of(ts)
    if not files:
        return _write(ctx, app, [Record(table, group_of(key), None, when) for key in keys])
    return take_lines(ctx, app, target, files, format_in, lambda batch: read_keys(batch, target, when), keys=True)


@command(
    "post",
    app=True,
    store=True,
    examples=["""penstock post '{"topic": "users(id)", "ts": 3, "id": 7, "name": "Sue"}'"""],
)
@click.argument("records", metavar="JSON...", nargs=-1, required=True)
@format_option
def post(ctx: Context, records: tuple[str, ...], format: str | None) -> int:
    """Put records that name their own table, each a JSON object in single quotes.

    "topic" is the table, optionally with its key in parentheses. "ts" is the record's ts. All other fields are the
    document. All of them are one transaction. A ts of 0 posts an old value: its remaining contributions are removed
    first, as by `penstock repost`, and the repaired groups are printed as rows.
    """
    app = load_app(ctx)
    known = [opened(app, object_of(text, _named(place, records))) for place, text in enumerate(records, 1)]
    rest, values = split_reposts(known)
    if not values:
        return _write(ctx, app, rest)
    with open_writer(ctx, app) as writer:
        try:
            print_repairs(ctx, writer.repost_many(values), format)
        except RecordError as error:
            raise ExitError(f"a value can't have been a document of its table: {error.reason}", WRONG) from None
        return print_outcome(ctx, post_records(writer, rest)) if rest else DONE


def _write(ctx: Context, app: App, records: list[Record]) -> int:
    with open_writer(ctx, app) as writer:
        return print_outcome(ctx, post_records(writer, records))


def _named(place: int, all_of_them: tuple[str, ...]) -> str:
    return "the argument" if len(all_of_them) == 1 else f"argument {place} of {len(all_of_them)}"


def _ts_of(text: str) -> Any:
    try:
        value = loads(text)
    except ValueError:
        return text
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ExitError(f"--ts is {text}; write a number, or a time such as 2024-01-31T12:00:00Z", WRONG)
    return value
