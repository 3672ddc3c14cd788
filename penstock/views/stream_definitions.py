"""Define streams: named sequences of records without documents and versions.

Invariant: a definition is checked completely when it is made, and never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.cache import UNITS, DefinitionError, duration_of, duration_text, key_text
from penstock.views.definitions import BROKER, Definitions, Merge, Source, Table
from penstock.views.document_paths import parse_path
from penstock.views.name_form import check_name
from penstock.views.view_maps import Key

__all__ = ["Stream", "check_no_streams", "make_stream", "stream_from", "stream_refused", "streams_below"]

_NO_KEY = Key((), False)


@dataclass(frozen=True, slots=True, eq=False)
class Stream(Table):
    """A named sequence of records with a `ts`, made by `App.stream`. It stores no records and has no documents.

    `lateness`, `idle` and `ahead` are microseconds. `expected` names the source partitions that must come first.

    >>> import penstock as ps
    >>> ps.App("web").stream("searches", ts="at", lateness="2s").lateness
    2000000
    """

    unit: str
    lateness: int
    idle: int | None
    ahead: int
    expected: tuple[str, ...]
    ids: int  # the time for which ids are known; `key` is the path of the id, if there is one

    @property
    def has_watermark(self) -> bool:
        """True: it has one."""
        return True

    def unit_of_windows(self, view: str) -> str:
        """Return the unit of numeric times."""
        return self.unit

    def describe(self) -> dict[str, object]:
        """Return the stream as plain data."""
        return {
            "kind": "stream",
            "name": self.name,
            "ts": None if self.ts is None else list(self.ts),
            "broker_ts": self.broker_ts,
            "unit": self.unit,
            "lateness": duration_text(self.lateness),
            "idle": None if self.idle is None else duration_text(self.idle),
            "ahead": duration_text(self.ahead),
            "expected": list(self.expected),
            "id": [list(path) for path in self.key.paths],
            "ids": duration_text(self.ids),
        }


def make_stream(
    app: Definitions,
    name: object,
    ts: object,
    unit: object,
    lateness: object,
    idle: object,
    ahead: object,
    sources: Any,
    id: object = None,
    ids: object = "10m",
) -> Stream:
    """Check the arguments of `App.stream`, and return the stream."""
    check_name("stream", name)
    assert isinstance(name, str), "checked"
    what = f"of stream {name!r}"
    if not isinstance(ts, str):
        raise DefinitionError(f"ts= {what} is {key_text(ts)}; write the path of a field, or {BROKER!r}")
    if not isinstance(unit, str) or unit not in UNITS:
        raise DefinitionError(
            f"unit= {what} is {key_text(unit)}; write 's', 'ms' or 'us', the unit of ts that are numbers"
        )
    if sources is not None and (
        not isinstance(sources, tuple | list) or not all(isinstance(own, str) and own for own in sources) or not sources
    ):
        raise DefinitionError(
            f"sources= {what} is {key_text(sources)}; write a tuple of names of source partitions, such as ('eu', 'us')"
        )
    if id is not None and not isinstance(id, str):
        raise DefinitionError(f"id= {what} is {key_text(id)}; write the path of a field that tells records apart")
    kept = duration_of(ids, f"ids= {what}", unit)
    if not kept:
        raise DefinitionError(f"ids= {what} is {key_text(ids)}; write the time for which a repeated id is recognized")
    return Stream(
        app,
        name,
        app.size,
        _NO_KEY if id is None else Key.of(id, f"id= {what}"),
        None if ts == BROKER else parse_path(ts, f"ts= {what}"),
        ts == BROKER,
        Merge.REPLACE,
        None,
        None,
        unit,
        duration_of(lateness, f"lateness= {what}", unit),
        None if idle is None else duration_of(idle, f"idle= {what}", unit),
        duration_of(ahead, f"ahead= {what}", unit),
        () if sources is None else tuple(dict.fromkeys(sources)),
        kept,
    )


def stream_from(app: Definitions, described: Mapping[str, Any]) -> Stream:
    """Return the stream of a stored definition."""
    unit, lateness, idle, ahead = (described[name] for name in ("unit", "lateness", "idle", "ahead"))
    made = make_stream(app, described["name"], BROKER, unit, lateness, idle, ahead, described["expected"] or None)
    path = described["ts"]
    id_paths = tuple(tuple(own) for own in described.get("id", ()))
    return replace(
        made,
        ts=None if path is None else tuple(path),
        broker_ts=described["broker_ts"],
        key=Key(id_paths, True) if id_paths else _NO_KEY,
        ids=duration_of(described.get("ids", "10m"), "ids="),
    )


def streams_below(source: Source) -> list[Stream]:
    """Return the streams at the base of a view or join."""
    return [table for table in source.tables if isinstance(table, Stream)]


def check_no_streams(streams: Iterable[Stream], what: str, instead: str) -> None:
    """Raise DefinitionError for an app with streams: an operation knows nothing of their watermarks yet."""
    for stream in streams:
        raise DefinitionError(f"{what} can't take the stream {stream.name!r}; {instead}")


def stream_refused(name: str) -> DefinitionError:
    """Return the error for a call that needs the documents of a table, and got a stream."""
    return DefinitionError(f"{name!r} is a stream, and a stream has no documents; put the correction")
