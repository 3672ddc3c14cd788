"""Test a view in three lines, on an engine in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from penstock.cache import BatchRejected, MemoryStore, duration_of
from penstock.engine import Engine, open_on
from penstock.flow import micros_of_value
from penstock.recovery import emission
from penstock.spout import Record
from penstock.views import App, Counts, Source


class _ManualClock:
    """A clock that moves only when a test moves it."""

    def __init__(self, time: int) -> None:
        self.time = time
        self.due: int | None = None

    def now(self) -> int:
        """Return the time."""
        return self.time

    def wake_at(self, when: int | None) -> None:
        """Note the next time at which the clock alone changes a watermark."""
        self.due = when


class TestEngine:
    """An engine in memory for tests. It raises if a document is rejected, or if a view holds one.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> users = app.table("users", key="id")
    >>> @users.view(reduce=ps.count())
    ... def initials(user):
    ...     yield user["name"][0]
    >>> engine = TestEngine(app)
    >>> counts = engine.put("users", {"id": 1, "name": "Sue"}, {"id": 2, "name": "Sam"})
    >>> engine.view("initials")
    {'S': 2}
    """

    __test__ = False  # pytest collects classes of such a name

    def __init__(self, app: App | Source, now: float = 0, **tables: Iterable[Mapping[str, Any]]) -> None:
        """Open the app. Streams get a clock of their own, which shows `now` seconds and moves only by `wait`."""
        own = app if isinstance(app, App) else app.app
        assert isinstance(own, App), "a source is part of an app"
        self.app = own
        self._clock = _ManualClock(micros_of_value(now, "s"))
        self._engine, self._core = open_on(self.app, MemoryStore(), clock=self._clock)
        for table, docs in tables.items():
            self.put(table, *docs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.close()

    @property
    def engine(self) -> Engine:
        """The engine itself, for operations that this class lacks."""
        return self._engine

    def put(self, table: str, *docs: Mapping[str, Any], source: str | None = None) -> Counts:
        """Put documents in one transaction. If one is rejected, raise BatchRejected and put none of them.

        `source` is the source partition of records of a stream, "put" by default.
        """
        if source is not None:
            return self._put_from(table, docs, source)
        counts = self._engine.put_many(table, list(docs), strict=True)
        assert isinstance(counts, Counts), "it commits at once"
        return counts

    def _put_from(self, table: str, docs: Iterable[Mapping[str, Any]], source: str) -> Counts:
        known = self._engine.remembered(source)
        start = 0 if known is None else known.offset
        records = [Record(table, None, doc, offset=start + i) for i, doc in enumerate(docs)]
        counts = self._engine.ingest(records, source, start + len(records))
        if counts.rejected:
            raise BatchRejected(counts.applied + counts.equal, counts.rejections)
        return counts

    def advance(self, stream: str, low: Any, source: str = "put") -> None:
        """State that no record of a source partition older than `low` will come."""
        self._engine.advance(stream, low, source)

    def wait(self, duration: str | float) -> None:
        """Move the clock of streams by a duration, such as "31s", and let them see it."""
        self._clock.time += duration_of(duration, "the duration of wait()")
        self._engine.tick()

    def watermark(self, stream: str) -> int | float | None:
        """Return the low watermark of a stream, in its unit; None before the first one."""
        return self._engine.watermarks(stream)[0].time

    def delete(self, table: str, key: Any, ts: Any = None) -> Counts:
        """Delete a document."""
        counts = self._engine.delete(table, key, ts)
        assert isinstance(counts, Counts), "it commits at once"
        return counts

    def view(self, name: str, held: bool = False) -> dict[Any, Any]:
        """Return all rows of a view. Raise AssertionError if the view holds a document, unless `held` is true."""
        with self._engine.snapshot() as snap:
            rows = dict(snap.view(name).items())
            if not held:
                for hold in snap.holds(name):
                    raise AssertionError(f"view {name!r} can't take document {hold['key']!r}: {hold['reason']}")
        return rows

    def told(self, name: str, doc: Mapping[str, Any]) -> list[Any]:
        """Return the emission of a document, sorted: groups, or (group, value) pairs. Put nothing."""
        view = self.app.view_of(name)
        return [group if value is None else (group, value) for group, value in emission(view, None, doc)]
