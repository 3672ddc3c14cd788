"""The commands for streams: watermarks, and the statement of a source watermark."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.command_frame import command, load_app, open_reader, open_writer
from penstock.cli.context import DONE, WRONG, Context
from penstock.cli.exit_errors import ExitError
from penstock.cli.json_values import loads
from penstock.cli.name_completion import stream_names, view_names
from penstock.cli.rows_output import emit, format_option
from penstock.flow import AsideRecord, SourceWatermark, Watermark
from penstock.views import App, nearest

_STREAMS = ("stream", "watermark", "lag", "records", "late", "waits for")
_LATE = ("stream", "source", "offset", "ts", "watermark", "delay", "record")
_SOURCES = ("source", "watermark", "state", "newest", "ahead", "why")


@command(
    "watermarks",
    app=True,
    store=True,
    examples=["penstock watermarks", "penstock watermarks searches --all", "penstock watermarks --format json"],
)
@click.argument("stream", required=False, shell_complete=stream_names)
@click.option("--all", "every", is_flag=True, help="Print each source partition of STREAM, and its state.")
@format_option
def watermarks(ctx: Context, stream: str | None, every: bool, format: str | None) -> int:
    """Print the low watermark of STREAM, or of all streams, its lag, and the reason why it is not higher.

    The watermark is the time up to which all records have arrived. A row names the source partition that the watermark
    waits for. Exit code 2: the app has no such stream.
    """
    app = load_app(ctx)
    if every and stream is None:
        raise click.UsageError("--all prints the source partitions of one stream; name it")
    _must_know(app, stream)
    with open_reader(ctx, app) as engine:
        found = engine.watermarks(stream)
    if every:
        emit(ctx, map(_source_row, found[0].sources if found else ()), _SOURCES, format)
    else:
        emit(ctx, map(_row, found), _STREAMS, format)
    return DONE


@command(
    "advance",
    app=True,
    store=True,
    examples=[
        "penstock advance searches --to 2026-01-31T10:05:00Z",
        "penstock advance searches --to 1769853900 --source eu",
    ],
)
@click.argument("stream", shell_complete=stream_names)
@click.option("--to", "low", metavar="TIME", required=True, help="A number in the stream's unit, or RFC 3339 text.")
@click.option("--source", default="put", show_default=True, help="The source partition.")
def advance(ctx: Context, stream: str, low: str, source: str) -> int:
    """State that no record of a source partition of STREAM older than TIME will come.

    From then on only such statements raise the watermark of this source partition. A watermark never falls: an earlier
    TIME changes nothing.
    """
    app = load_app(ctx)
    _must_know(app, stream)
    try:
        value: Any = loads(low)
    except ValueError:
        value = low
    with open_writer(ctx, app) as writer:
        writer.advance(stream, value, source)
    return DONE


@command(
    "late",
    app=True,
    store=True,
    examples=["penstock late counts", "penstock late searches.counts --format json"],
)
@click.argument("view", shell_complete=view_names)
@format_option
def late(ctx: Context, view: str, format: str | None) -> int:
    """List the late records that VIEW, defined with late="keep", set aside, the oldest first.

    STREAM.VIEW names the same. A row has the source partition, the offset if it is known, the ts and the watermark at
    the arrival. The delay behind it is in seconds.
    """
    app = load_app(ctx)
    with open_reader(ctx, app) as engine:
        emit(ctx, map(_late_row, engine.late(view)), _LATE, format)
    return DONE


def _late_row(own: AsideRecord) -> list[Any]:
    return [own.stream, own.source, own.offset, own.ts, own.watermark, own.delay, own.record]


def _must_know(app: App, name: str | None) -> None:
    names = [stream.name for stream in app.streams()]
    if name is None or name in names:
        return
    near = nearest(name, names)
    hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(names)}" if names else "the app has none yet"
    raise ExitError(f"there is no stream named {name!r}; {hint}", WRONG)


def _row(own: Watermark) -> list[Any]:
    return [own.name, own.text, own.lag, own.records, own.late, own.reason]


def _source_row(own: SourceWatermark) -> list[Any]:
    return [own.source, own.time, own.state, own.newest, own.ahead, own.reason]
