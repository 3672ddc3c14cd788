"""The commands that export tables and views to files, and import such a file into a table.

Everything is streamed from one snapshot. A file gets its name when it is complete, so an incomplete one never has that
name. The end of the name selects the packing.
"""

from __future__ import annotations

import gzip
import importlib
import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, BinaryIO, Protocol, cast

import click

from penstock.cache import MissingExtra
from penstock.cli.command_frame import command, load_app, open_reader, table_of, view_by_name
from penstock.cli.commands.load import take_lines
from penstock.cli.context import WRONG, Context
from penstock.cli.exit_errors import ExitError
from penstock.cli.files.csv_parquet_export import FileColumns, write_csv, write_parquet
from penstock.cli.files.lossless_json import portable_lines, read_portable
from penstock.cli.json_values import dumps
from penstock.cli.name_completion import all_names, table_names
from penstock.cli.progress import progress
from penstock.cli.rows_output import must_be_csv, safe_option
from penstock.engine import Snapshot
from penstock.gateway import document_of, unwrap
from penstock.views import Table, View

_FORMATS = ("jsonl", "csv", "parquet")
_PACKED = ("gz", "zst")
_Written = Callable[[BinaryIO, FileColumns, Iterable[dict[str, Any]], Callable[[int], None]], None]
_REPORT_EVERY = 1024  # lines between two reports of progress


@command(
    "export",
    app=True,
    store=True,
    examples=[
        "penstock export users -o users.jsonl.gz",
        "penstock export namecount --format csv",
        "penstock export users | penstock --store other import users -",
    ],
)
@click.argument("name", shell_complete=all_names)
@click.option(
    "--format", "format", type=click.Choice(_FORMATS), help="The format (else by the name of FILE, else jsonl)."
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(),
    help="The output file (else standard output). Names in .gz and .zst are packed.",
)
@safe_option
def export(ctx: Context, name: str, format: str | None, output: str | None, safe: bool) -> None:
    """Write the current content of NAME, documents of a table or rows of a view, to a file or standard output.

    JSON lines of a table lose nothing: they include deletions and each ts, and `penstock import` restores the table.
    Values without a JSON form are written as {"$decimal": "1.50"}, {"$bytes": "base64"}, {"$float": "nan"}.

    CSV and Parquet have only documents: a column for each field, null where a document has no value. Lists, maps and
    columns of several types are JSON in their cells. With --safe, text that begins with =, +, -, @, a tab or a carriage
    return has a single quote before it. So it doesn't read back as the same text. A row of a view is `key` and `value`,
    or a column for each field of its value.
    """
    kind, packing = _kind(format, output)
    if safe:
        must_be_csv(kind)
    app = load_app(ctx)
    with open_reader(ctx, app) as engine, engine.snapshot() as snap:
        if name not in snap.schema.catalog.entries:
            app.lookup(name)
        what = snap.schema.tables[name].table if name in snap.schema.tables else view_by_name(snap, name)
        source: _Source = _TableDocuments(snap, what) if isinstance(what, Table) else _Rows(snap, what)
        rows_on_terminal = output is None and ctx.terminal
        quiet_context = replace(ctx, quiet=True) if rows_on_terminal else ctx
        with progress(quiet_context, name, source.total) as bar, _output(output, packing) as out:
            _write(source, kind, out, lambda n: bar.advance(n, n), safe)
    left = f"; {source.deletions:,} deletions are not in it" if kind != "jsonl" and source.deletions else ""
    if output is not None or left:
        ctx.note(f"{output or 'standard output'}: {source.total - source.deletions:,} {source.unit}{left}")


@command(
    "import",
    app=True,
    store=True,
    examples=["penstock import users users.jsonl.gz", "penstock import users -"],
)
@click.argument("table", shell_complete=table_names)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.option("--again", is_flag=True, help="Start at the first line, also of files that were imported before.")
@click.option("--format-in", metavar="FORMAT", help="jsonl, csv, tsv or parquet (else by the file's name).")
def import_(ctx: Context, table: str, files: tuple[str, ...], again: bool, format_in: str | None) -> int:
    """Put documents that `penstock export` wrote to a FILE into TABLE, and deletions from JSON lines of a table.

    It works as `penstock load`, and also decodes the special forms in JSON lines: {"$decimal": "1.50"} is a Decimal,
    {"$delete": 7, "$ts": 3} a deletion. Rows of a view become documents with a field key, for a table by "key".
    """
    app = load_app(ctx)
    target = table_of(app, table)
    return take_lines(ctx, app, target, files, format_in, read_portable, again)


class _Source(Protocol):
    """A table or view to export."""

    unit: str
    total: int
    deletions: int
    first: tuple[str, ...]

    def lines(self) -> Iterator[bytes]:
        """Yield its content as JSON lines."""
        ...

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield its content as maps of columns. The columns `first` are in every file."""
        ...


class _TableDocuments:
    """The documents of a table, and in JSON lines its deletions."""

    unit = "documents"

    def __init__(self, snap: Snapshot, table: Table) -> None:
        self._reader = snap.table(table.name)
        self._table = table
        self._instants = snap.state.ts.get(table.name) == "text"
        self.deletions = self._reader.tombstones
        self.total = len(self._reader) + self.deletions
        roots = [path[0] for path in table.key.paths] + ([table.ts[0]] if table.ts else [])
        self.first = tuple(dict.fromkeys(roots))

    def lines(self) -> Iterator[bytes]:
        """Yield each document or deletion as lossless JSON."""
        for line in self._reader.lines():
            yield b"\n".join(portable_lines(self._table, line, self._instants))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the documents."""
        return (document_of(line) for line in self._reader.lines() if not unwrap(line).absent)


class _Rows:
    """The rows of a view."""

    unit = "rows"
    deletions = 0

    def __init__(self, snap: Snapshot, view: View) -> None:
        self._reader = snap.view(view.name)
        self.total = len(self._reader)
        self._fields = () if view.fields is None or "key" in view.fields or "held" in view.fields else view.fields
        self._held = snap.holds_any(view.name)
        self.first = ("key", *(self._fields or ("value",)), *(("held",) if self._held else ()))

    def lines(self) -> Iterator[bytes]:
        """Yield each row as an object of key and value."""
        for row in self._reader.items():
            fields = {"key": row.key, "value": row.value} | ({"held": True} if row.held else {})
            yield dumps(fields, exact=True).encode()

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each row with a column for each field of its value."""
        for row in self._reader.items():
            key = list(row.key) if isinstance(row.key, tuple) else row.key
            held = {"held": row.held} if self._held else {}
            if self._fields:
                yield {"key": key, **dict.fromkeys(self._fields), **(row.value or {}), **held}
            else:
                yield {"key": key, "value": row.value, **held}


def _write(source: _Source, kind: str, out: BinaryIO, tell: Callable[[int], None], safe: bool) -> None:
    if kind != "jsonl":
        written: _Written = partial(write_csv, safe=safe) if kind == "csv" else write_parquet
        written(out, FileColumns.of(source.rows(), source.first, typed=kind == "parquet"), source.rows(), tell)
        return
    n = 0
    for n, line in enumerate(source.lines(), 1):
        out.write(line + b"\n")
        if n % _REPORT_EVERY == 0:
            tell(_REPORT_EVERY)
    tell(n % _REPORT_EVERY)


def _kind(format: str | None, output: str | None) -> tuple[str, str | None]:
    """Return the format of a file, and its packing."""
    named = os.path.basename(output or "").lower().split(".")[1:]
    packing = named.pop() if named and named[-1] in _PACKED else None
    by_name = {"csv": "csv", "parquet": "parquet", "pq": "parquet"}.get(named[-1] if named else "", "jsonl")
    kind = format or by_name
    if kind == "parquet" and (output is None or packing is not None):
        reason = "Parquet goes to a file" if output is None else "Parquet is packed by itself"
        raise ExitError(f"{reason}; write -o FILE.parquet", WRONG)
    return kind, packing


@contextmanager
def _output(path: str | None, packing: str | None) -> Iterator[BinaryIO]:
    """Open the output. A file gets its name at the end."""
    if path is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    begun = f"{path}.{secrets.token_hex(8)}.partial"
    with ExitStack() as stack:
        stack.enter_context(_named(path, begun))
        file: BinaryIO = stack.enter_context(open(begun, "xb"))
        stack.callback(_forget, begun)
        with _packed(file, packing) as out:
            yield out
        file.flush()
        os.fsync(file.fileno())
        os.replace(begun, path)


@contextmanager
def _named(path: str, begun: str) -> Iterator[None]:
    """Name the requested file in errors of the system, instead of the temporary one."""
    try:
        yield
    except OSError as error:
        if error.filename in (None, begun):
            error.filename, error.filename2 = path, None
        raise


@contextmanager
def _packed(file: BinaryIO, packing: str | None) -> Iterator[BinaryIO]:
    """Yield a file that packs the bytes written to it."""
    if packing is None:
        yield file
    elif packing == "gz":
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packer:
            yield cast(BinaryIO, packer)
    else:
        try:
            zstd: Any = importlib.import_module("zstandard")
        except ImportError:
            raise MissingExtra("zstandard", "zstd") from None
        with zstd.ZstdCompressor().stream_writer(file, closefd=False) as packer:
            yield packer


def _forget(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
