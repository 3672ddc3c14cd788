"""The calls of an engine about streams: their watermarks, and statements about the watermark of a source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from penstock.cache import ArgumentKind, DefinitionError, checked, parse_rfc3339
from penstock.engine.calls.protocol import EngineStore
from penstock.flow import FAR, AsideRecord, Watermark, micros_of_value
from penstock.views import App, Stream, View

__all__ = ["StreamCalls"]


class StreamCalls(ABC):
    """The calls about streams, for a store of any kind."""

    store: EngineStore

    @abstractmethod
    def flush(self) -> None:
        """Wait until all earlier puts are durable."""

    def watermarks(self, name: str | None = None) -> list[Watermark]:
        """Return the low watermark of each stream, or of one: its time, its lag and the reason why it is not higher.

        engine.watermarks("searches")[0].reason
        """
        app = self.store.state.app
        streams = app.streams() if name is None else [app.stream_of(name)]
        self.store.state.must_be_open()
        return self.store.watermarks(streams)

    def late(self, name: str) -> Iterator[AsideRecord]:
        """Iterate over the late records that a view with late="keep" set aside, the oldest first.

        `name` is the view, or STREAM.VIEW.

        for record in engine.late("counts"):
            print(record.source, record.offset, record.delay, record.record)
        """
        state = self.store.state
        state.must_be_open()
        stream, view = consumer_of(state.app, name)
        return self.store.late(view.name, stream)

    @checked
    def advance(self, stream: str, low: Any, source: str = "put") -> None:
        """State that no record of a source partition older than `low` will come.

        `low` is a number in the stream's unit, or RFC 3339 text. From then on only such statements count for this
        source partition. A lower one than before changes nothing.

        engine.advance("searches", 1_700_000_000)
        """
        state = self.store.state
        state.must_be_writable()
        own = state.app.stream_of(stream)
        micros = _micros(low, own.unit)
        if not isinstance(source, str) or not source:
            raise ArgumentKind("source", source, "give the name of a source partition, such as 'put'")
        self.flush()
        self.store.advance(stream, source, micros)

    @checked
    def rest(self, sources: Sequence[str], ended: bool = False) -> None:
        """Report that nothing is left to read from source partitions of streams; with `ended` none will follow either.

        The time of `idle=` runs from the first such report after a record. Source partitions of other tables are left
        out.

        engine.rest(["searches=file:/data/monday.jsonl"], ended=True)
        """
        self.store.state.must_be_writable()
        if self.store.state.app.streams():
            self.flush()
            self.store.rest(list(sources), ended)

    def tick(self) -> None:
        """Let the streams see the clock: a source partition may have become idle.

        engine.tick()
        """
        self.store.state.must_be_writable()
        self.flush()
        self.store.tick()


def consumer_of(app: App, name: str) -> tuple[Stream, View]:
    """Return the stream and the view of a name, VIEW or STREAM.VIEW. Raise an error unless it keeps late records."""
    known = {view.name: view for view in app.views()}
    for stream in app.streams():
        own = name.removeprefix(f"{stream.name}.")
        if own in known and known[own].source is stream:
            known[name] = known[own]
    view = known.get(name) or app.view_of(name)
    if not isinstance(view.source, Stream) or view.late != "keep":
        raise DefinitionError(f"view {view.name!r} sets no late records aside; define it on a stream, with late='keep'")
    return view.source, view


def _micros(low: Any, unit: str) -> int:
    """Return the microseconds of a time that a caller gave."""
    found: int | None = None
    if isinstance(low, str):
        try:
            found = parse_rfc3339(low) // 1000
        except ValueError:
            found = None
    elif isinstance(low, int | float) and not isinstance(low, bool) and low == low and abs(low) != float("inf"):
        found = micros_of_value(low, unit)
    if found is None or not -FAR <= found <= FAR:
        raise ArgumentKind("low", low, f"give a number in {unit}, or a text such as '2024-01-31T08:00:00Z'")
    return found
