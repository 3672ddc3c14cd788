"""Drawn histories of streams: one engine beside the serial oracle, and the same events in other cuts."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import msgspec

import penstock as ps
from penstock.engine import Engine, open_on
from penstock.flow import NEVER, StreamState
from penstock.gateway import TableBatch
from penstock.spout import SpoutBatch
from tests.harness.histories import Failed, LastingStore
from tests.oracle.serial import Serial, Stream

SECOND = 1_000_000
SPOUT = "asia"
SOURCES = ("eu", "us", SPOUT)


class Clock:
    """A clock that a test moves."""

    def __init__(self, time: int) -> None:
        self.time = time

    def now(self) -> int:
        """Return the time."""
        return self.time

    def wake_at(self, when: int | None) -> None:
        """Note nothing: the test reads the clock itself."""


class Definition:
    """The arguments of a drawn stream, in seconds."""

    def __init__(self, choose: Random) -> None:
        self.lateness = choose.choice((0, 0, 2, 5))
        self.idle = choose.choice((None, 10, 20))
        self.ahead = choose.choice((5, 300))
        self.expected = choose.choice(((), (), ("eu", "us")))

    def app(self) -> ps.App:
        """Return an app with the stream, a view of each kind on it, and a view on one of these."""
        app = ps.App("drawn")
        stream = app.stream(
            "s", ts="at", lateness=self.lateness, idle=self.idle, ahead=self.ahead, sources=self.expected or None
        )
        sums = {"n": ps.count(), "total": ps.sum("n")}
        by_key = stream.view("by_key", key="k", reduce=sums)
        stream.view("newest", key="k", reduce={"at": ps.max("at"), "last": ps.last("n")})
        by_key.view("sizes", key="value.n", reduce=ps.count())
        stream.view("tumbling", key=(ps.window("at", "10s"), "k"), reduce=ps.count())
        stream.view("kept", key=(ps.window("at", "10s", every="5s"), "k"), reduce=ps.count(), late="keep")
        stream.view("hopping", key=ps.window("at", "10s", every="4s", offset="1s"), reduce=ps.max("n"))

        @stream.view(reduce=ps.count())
        def letters(record: Any) -> Any:
            return [record["k"][0], record["n"] % 3]

        return app

    def oracle(self, now: int) -> Serial:
        """Return the serial oracle of the stream."""
        idle = None if self.idle is None else self.idle * SECOND
        own = Stream(self.lateness * SECOND, idle, self.ahead * SECOND, self.expected)
        return Serial({"s": own}, now, now)


def events_of(choose: Random, many: int) -> list[tuple[Any, ...]]:
    """Draw events: batches of one source, statements, reports, waits, and falls of the clock."""
    out: list[tuple[Any, ...]] = []
    now = 1000
    for _ in range(many):
        kind = choose.random()
        source = choose.choice(SOURCES)
        if kind < 0.6:
            records = [_record(choose, now) for _ in range(choose.randint(1, 12))]
            out.append(("put", source, records))
        elif kind < 0.65:
            out.append(("state", source, now - choose.randint(0, 20)))
        elif kind < 0.72:
            out.append(("rest", [source], choose.random() < 0.5))
        elif kind < 0.76:
            out.append(("clock", choose.randint(900, now)))
        else:
            now += choose.choice((1, 3, 12, 25))
            out.append(("clock", now))
    return out


def _record(choose: Random, now: int) -> dict[str, Any]:
    ts: float = now - choose.randint(0, 15)
    if choose.random() < 0.1:
        ts = now + choose.randint(1, 400)
    if choose.random() < 0.2:
        ts += 0.25
    key: Any = choose.choice(("a", "b", "cc")) if choose.random() < 0.97 else 7  # no function takes 7
    return {"at": ts, "k": key, "n": choose.randint(0, 9)}


class Run:
    """One run of events in one cut; `cut` draws the sizes of batches, and None leaves them whole."""

    def __init__(self, definition: Definition, cut: Random | None, failing: Random | None = None) -> None:
        self.app = definition.app()
        self.clock = Clock(1000 * SECOND)
        self.store = LastingStore()
        self.serial = definition.oracle(self.clock.time)
        self._cut = cut
        self._failing = failing
        self._offsets: Counter[str] = Counter()
        self.given: list[dict[str, Any]] = []
        self.kept: Counter[Any] = Counter()  # the contributions to windows that were open
        self.aside: list[tuple[str, int, float]] = []  # source, offset and ts of records with one to a closed window
        self.engine = self._open()

    def _open(self) -> Engine:
        engine, self.core = open_on(self.app, self.store, seed=1, clock=self.clock)
        return engine

    def reopen(self) -> None:
        """Close the store and open it again, as after a crash."""
        self.engine.close()
        self.clock.time = max(self.clock.time, self.serial.now)  # a reading that changed nothing is not stored
        self.engine = self._open()
        self.serial.opened = max(self.serial.now, self.clock.time)

    def event(self, event: tuple[Any, ...]) -> None:
        """Run one event at the engine and at the oracle."""
        kind, *own = event
        serial = self.serial
        if kind == "clock":
            self.clock.time = own[0] * SECOND
            self._try(lambda: self.engine.tick())
            serial.clock(self.clock.time)
        elif kind == "state":
            self._try(lambda: self.engine.advance("s", own[1], own[0]))
            serial.clock(self.clock.time)
            serial.state("s", own[0], own[1] * SECOND)
        elif kind == "rest":
            self._try(lambda: self.engine.rest(own[0], own[1]))
            serial.clock(self.clock.time)
            serial.rest(own[0], own[1])
        else:
            self._put(*own)

    def _put(self, source: str, records: list[dict[str, Any]]) -> None:
        left = records
        while left:
            n = len(left) if self._cut is None else self._cut.randint(1, len(left))
            part, left = left[:n], left[n:]
            start = self._offsets[source]
            self._offsets[source] = start + n
            take = self._load if source == SPOUT else self._ingest
            self._try(lambda part=part, start=start, take=take: take(source, part, start))
            self.serial.clock(self.clock.time)
            for place, doc in enumerate(part, start):
                self.serial.record("s", source, int(doc["at"] * SECOND), source != SPOUT)
                self._keep(source, place, doc)
            self.given += part

    def _keep(self, source: str, offset: int, doc: dict[str, Any]) -> None:
        """Count a record in its open windows, by the watermark after its event."""
        low = self.serial.streams["s"].low
        starts = starts_of(doc["at"], 10, 5, 0)
        late = [start for start in starts if low is not None and (start + 10) * SECOND <= low]
        self.kept.update((start, doc["k"]) for start in starts if start not in late)
        if late:
            self.aside.append((source, offset, doc["at"]))

    def _ingest(self, source: str, docs: list[dict[str, Any]], start: int) -> None:
        records = [ps.Record("s", None, doc, offset=start + i) for i, doc in enumerate(docs)]
        self.engine.ingest(records, source, start + len(docs))

    def _load(self, source: str, docs: list[dict[str, Any]], start: int) -> None:
        """Load a batch of a spout, which reports by itself when nothing is left to read."""
        lines = [msgspec.json.encode(doc) for doc in docs]
        places = range(start, start + len(docs))
        batch = SpoutBatch(TableBatch(lines), source, start=start, resume=places.stop, offsets=places)
        for _ in self.engine.load("s", [batch]):
            pass

    def _try(self, work: Any) -> None:
        """Do a piece of work; its commit may fail, and the store is then opened again and asked once more."""
        if self._failing is not None and self._failing.random() < 0.3:
            self.store.fails_in = 0
            try:
                work()
            except Failed:
                self.reopen()
            self.store.fails_in = -1
        work()

    @property
    def state(self) -> StreamState:
        """The stored state of the stream."""
        return self.core.watermarks.row.streams.get("s", StreamState())

    def check(self) -> None:
        """Compare the numbers with the oracle's."""
        own, wanted = self.state, self.serial.streams["s"]
        assert own.low == _stored(wanted.low), "the watermark"
        assert (own.records, own.late) == (wanted.records, wanted.late), "records and late ones"
        assert own.top == _stored(wanted.top)
        for name, source in wanted.sources.items():
            found = own.sources[name]
            assert found.low == _stored(source.low), f"the source watermark of {name}"
            assert (found.given, found.ended, found.ahead) == (source.given, source.ended, source.ahead)

    def check_rows(self) -> None:
        """Compare the rows with a loop over all records."""
        count = Counter(doc["k"] for doc in self.given)
        total: Counter[Any] = Counter()
        for doc in self.given:
            total[doc["k"]] += doc["n"]
        with self.engine.snapshot() as snap:
            assert dict(snap.view("by_key").items()) == {k: {"n": n, "total": total[k]} for k, n in count.items()}
            assert dict(snap.view("sizes").items()) == Counter(count.values())
            letters = Counter(letter for doc in self.given if doc["k"] != 7 for letter in (doc["k"][0], doc["n"] % 3))
            assert dict(snap.view("letters").items()) == letters
            newest = {k: max(doc["at"] for doc in self.given if doc["k"] == k) for k in count}
            assert {k: row["at"] for k, row in snap.view("newest").items()} == newest
            assert len(snap.holds("letters")) == count[7]
        assert (report := self.engine.check()).ok, report

    def check_windows(self) -> None:
        """Compare the rows of windows, their flags and the feed of closed ones with loops over all records."""
        tumbling = Counter((start, doc["k"]) for doc in self.given for start in starts_of(doc["at"], 10, 10, 0))
        hopping: dict[float, int] = {}
        for doc in self.given:
            for start in starts_of(doc["at"], 10, 4, 1):
                hopping[start] = max(hopping.get(start, 0), doc["n"])
        low = self.serial.streams["s"].low
        closed = {name: self._closed_in_feed(name) for name in ("tumbling", "hopping")}
        late = [(own.source, own.offset, own.ts) for own in self.engine.late("kept")]
        assert late == self.aside, "the late records that were set aside"
        with self.engine.snapshot() as snap:
            assert dict(snap.view("kept").items()) == dict(self.kept), "contributions to open windows"
            for name, wanted in (("tumbling", dict(tumbling)), ("hopping", hopping)):
                rows = list(snap.view(name).items())
                assert dict(rows) == wanted
                starts = [row.key[0] if name == "tumbling" else row.key for row in rows]
                over = [low is not None and (start + 10) * SECOND <= low for start in starts]
                assert [row.final for row in rows] == over, "the flags of closed windows"
                final = dict(snap.view(name).items(final=True))
                assert final == {row.key: row.value for row, ends in zip(rows, over, strict=True) if ends}
                assert closed[name] == final, "the feed of closed windows"

    def _closed_in_feed(self, view: str) -> dict[Any, Any]:
        """Return the rows that the feed of closed windows leaves; each change must follow the one before."""
        out: dict[Any, Any] = {}
        for change in self.engine.changes(view, final=True):
            assert change.old == out.get(change.group, ps.ABSENT), "a change does not follow the one before"
            assert change.old != change.new, "a closed group comes again"
            out[change.group] = change.new
        return out


def starts_of(time: float, size: int, every: int, offset: int) -> list[int]:
    """Return the starts of the windows that contain a time, found one by one."""
    return [start for start in range(int(time) - size - 1, int(time) + 1) if is_start(start, time, size, every, offset)]


def is_start(start: int, time: float, size: int, every: int, offset: int) -> bool:
    """Return True if a window begins here and contains the time."""
    return (start - offset) % every == 0 and start <= time < start + size


def _stored(time: int | None) -> int:
    return NEVER if time is None else time


def run(seed: int, many: int = 25, rows: bool = True) -> None:
    """Run one drawn history in several cuts, and compare all of them; without `rows` their numbers alone."""
    choose = Random(seed)
    definition, events = Definition(choose), events_of(choose, many)
    runs = [
        Run(definition, None),
        Run(definition, Random(seed)),
        Run(definition, Random(seed + 1), Random(seed + 2)),
    ]
    low = NEVER
    for event in events:
        for own in runs:
            own.event(event)
            own.check()
        assert runs[0].state.low >= low, "a watermark fell"
        low = runs[0].state.low
        assert runs[1].state == runs[0].state, "the state depends on the cut"
        if rows and choose.random() < 0.2:
            runs[choose.randint(0, 2)].check_windows()
    runs[2].reopen()
    runs[2].check()
    first, other, _ = (own.engine.digest() for own in runs)  # an opening is an event: idle time begins with it
    assert first == other, "the content depends on the cut"
    for own in runs:
        if rows:
            own.check_rows()
            own.check_windows()
        own.engine.close()
