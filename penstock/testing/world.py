"""One simulated machine: the engine on a simulated disk, sources before it, what it publishes to after it, a reader.

Whatever is done to it is done by one caller, and each thing that is done may be hit by a fault. Then the world finds
out, as an operator would, what is in and what is not, tells the oracle exactly that, and checks all that must hold.
Invariants:

- the oracle has, in the order of their commits, the records of every commit that is in the store, and no other;
- a source gives up a record only after the call that took it has returned;
- a client puts a record again until a call with it has returned.

Definitions that change in the middle, and several partitions of one store, are to come in here: the first as one more
action, the second as several `Disk`s with a network between them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from penstock.cache import BatchRejected, Limits, StoreFull
from penstock.engine import Core, Engine, Snapshot, open_on
from penstock.mapreduce import rows_db
from penstock.spout import Record
from penstock.testing.checks import (
    HASH_SEED,
    Finding,
    Opened,
    Wrong,
    at_rest,
    demand,
    differences,
    moved,
    shown_of,
    stored_group,
)
from penstock.testing.client import calls_of, is_list, put_by
from penstock.testing.disk import Disk
from penstock.testing.faults import Crash, Fault, Interrupted, Points, Strike
from penstock.testing.oracle import Oracle
from penstock.testing.plan import How
from penstock.testing.pub import Downstream, Link, Pub
from penstock.views import App

_OPENINGS, _POLLS = 8, 4


@dataclass(frozen=True, slots=True)
class Flying:
    """Records on their way into a commit: of a source with the offset after them, or of a client."""

    records: tuple[Record, ...]
    source: str | None = None
    resume: int = 0


class Witness(Protocol):
    """Somebody who is told what happens, to explain it."""

    def committing(self, world: World, flying: Flying) -> None:
        """These records are in; the oracle has not been told yet."""
        ...

    def committed(self, world: World) -> None:
        """Now it has."""
        ...

    def happened(self, world: World, text: str) -> None:
        """Something else happened."""
        ...


class World:
    """All of it, and what can be done to it."""

    engine: Engine
    core: Core

    def __init__(
        self,
        app: App,
        partitions: Sequence[Sequence[Record]] = (),
        limits: Limits | None = None,
        synced: bool = True,
        seed: int = 0,
        exempt: Collection[str] = (),
        witness: Witness | None = None,
        points: Points | None = None,
    ) -> None:
        self.app = app
        self.partitions = partitions
        self.acked = [0] * len(partitions)
        self.points = points or Points()
        self.disk = Disk(self.points, synced=synced)
        self.pub_disk = Disk(self.points, "pub ", synced)
        self.downstream = Downstream()
        self.oracle = Oracle(app)
        self.sources: dict[str, int] = {}
        self.position = self.epoch = self.faults = 0
        self._named: dict[tuple[str, Any], str] = {}
        self._limits = limits or Limits()
        self._exempt = frozenset(exempt)
        self._choose = Random(seed)
        self._witness = witness
        self._flying: Flying | None = None
        self._owed: deque[tuple[How, tuple[Record, ...]]] = deque()  # by a client, until it is told that they are in
        self._kept: tuple[Snapshot, dict[str, Any]] | None = None
        self._open()

    def name(self, named: Mapping[tuple[str, Any], str]) -> None:
        """Give the places of these groups, by (view, group), names: their rows are red_…, their changes pub_…."""
        self._named = {group: f"pub_{name}" for group, name in named.items()}
        self.pub.named = self._named
        rows = {
            (rows_db(self.core.views[view].number), stored_group(group)): name for (view, group), name in named.items()
        }
        self.disk.name_rows({row: f"red_{name}" for row, name in rows.items()})

    # -- what is done

    def deliver(self, partition: int, n: int, back: int = 0, twice: int = 0) -> None:
        """A source hands over its next n records, from `back` before them on, the first `twice` of them twice."""
        log, acked = self.partitions[partition], self.acked[partition]
        start, end = max(0, acked - back), min(len(log), acked + n)
        records = tuple(log[start : min(end, start + twice)]) + tuple(log[start:end])
        self._flying = Flying(records, source_name(partition), end)
        self.engine.ingest(records, source_name(partition), end)
        self._landed(self.core.state.position)
        self.acked[partition] = end

    def write(self, how: How, records: Sequence[Record]) -> None:
        """A client puts records; what it is not told that is in, it puts again after the fault."""
        self._owed.extend((how, part) for part in calls_of(how, records))
        self._put_owed()

    def poll(self) -> None:
        """The node that publishes looks."""
        with self.engine.snapshot() as snap:
            self.pub.poll(snap)

    def route(self, link: Link, arrive: int = 0) -> None:
        """Some of what is late arrives; downstream answers so from now on."""
        self.downstream.arrive(self._choose, arrive)
        self.downstream.link = link

    def look(self) -> None:
        """A reader checks the snapshot that it has kept, or else all that it sees, and keeps its snapshot."""
        if self._kept is None:
            self.check()
            snap = self.engine.snapshot()
            self._kept = snap, shown_of(snap, self.app)
            return
        (snap, before), self._kept = self._kept, None
        with snap:
            demand(moved(before, shown_of(snap, self.app)))

    def forget(self) -> None:
        """Memory is dropped, as where it ran out."""
        for node in self.core.tables.values():
            node.forget()

    def reopen(self, clean: bool) -> None:
        """The engine is closed, or lost, and opened; what strikes meanwhile strikes its opening."""
        strike = self.points.arm(None)
        if clean:
            self._let_go()
            self.engine.close()
        self._recover(None if clean else Fault.CRASH, strike)

    # -- what happens to it

    def during(self, act: Callable[[], None], strike: Strike | None = None, again: Strike | None = None) -> bool:
        """Do something while a fault may strike, and recover from it; whether it was done to its end."""
        self.points.arm(strike)
        done = self._survives(act, again)
        if not done:
            self._survives(self._put_owed, None)
        return done

    def _survives(self, act: Callable[[], None], again: Strike | None) -> bool:
        try:
            act()
        except Crash as crash:
            self.faults += 1
            self._tell(str(crash))
            self._recover(crash.fault, again)
            return False
        except (Interrupted, StoreFull) as fault:
            self._explained(fault)
            self.faults += 1
            assert self.points.last is not None, "explained"
            self._tell(f"{self.points.last[0].value} at {self.points.last[1]}")
            self.points.arm(None)
            self._settle()
            self.pub = self._new_pub()  # as whoever runs it would, after an error
            return False
        except Wrong:
            raise
        except Exception as error:
            raise Wrong([Finding("raised", "engine", f"{type(error).__name__}: {error}")]) from error
        finally:
            self.points.arm(None)
        return True

    def _explained(self, error: BaseException) -> None:
        if self.points.last is None or self.points.last[0].ends_process:
            raise Wrong([Finding("raised", "engine", f"{type(error).__name__}: {error}")]) from error

    def _recover(self, fault: Fault | None, again: Strike | None) -> None:
        """What is left is opened, whatever strikes meanwhile."""
        self._let_go()
        for _ in range(_OPENINGS):
            self._end(fault)
            self.points.arm(again)
            again = None
            try:
                self._open()
            except Crash as crash:
                self._tell(f"while it was opened: {crash}")
                fault = crash.fault
            except (Interrupted, StoreFull) as error:
                self._explained(error)
                self._tell(f"while it was opened: {error}")
                fault = Fault.CRASH
            except Exception as error:
                raise Wrong([Finding("raised", "opening", f"{type(error).__name__}: {error}")]) from error
            else:
                break
            finally:
                self.points.arm(None)
        self._tell(f"opened at position {self.core.state.position}")
        self._settle()
        self._sweep()
        self.check()

    def _sweep(self) -> None:
        """Views whose code keeps what it closes over are other ones at each opening: they are built anew."""
        while self.core.sweep_step():
            pass
        self.position = self.core.state.position

    def _end(self, fault: Fault | None) -> None:
        for disk in (self.disk, self.pub_disk):
            if fault is Fault.POWER:
                disk.lose_power(self._choose)
            else:
                disk.end_process()

    def _open(self) -> None:
        self.engine, self.core = open_on(self.app, self.disk.open(), self._limits, HASH_SEED)
        self.pub = self._new_pub()
        if self.core.state.epoch <= self.epoch:
            text = f"epoch {self.core.state.epoch} after {self.epoch}"
            raise Wrong([Finding("position", "store", f"{text}: an opening must count it up")])
        self.epoch = self.core.state.epoch

    def _new_pub(self) -> Pub:
        pub = Pub([v.name for v in self.app.views()], self.pub_disk.open(), self.downstream, self.points)
        pub.named = self._named
        return pub

    def _let_go(self) -> None:
        if self._kept is not None:
            self._kept[0].close()
            self._kept = None

    # -- commits

    def _put_owed(self) -> None:
        while self._owed:
            self._put(*self._owed[0])
            self._owed.popleft()

    def _put(self, how: How, records: tuple[Record, ...]) -> None:
        """Hand records of a client to the engine; when this returns they are in, or refused as they must be."""
        strict = how is How.STRICT and is_list(records)
        refused = strict and any(self.oracle.tables[r.table].refuses(r) for r in records)
        self._flying = Flying(records)
        try:
            put_by(self.engine, how, records)
        except BatchRejected:
            if not refused:
                raise
            self._flying = None
            return
        if refused:
            raise Wrong([Finding("strict", "store", f"took a batch with a record that must be rejected: {records}")])
        self._landed(self.core.state.position)

    def _landed(self, position: int) -> None:
        """What was on its way is in, and the store stands here."""
        flying, self._flying = self._flying, None
        assert flying is not None, "something was handed over"
        if self._witness is not None:
            self._witness.committing(self, flying)
        records: Iterable[Record] = flying.records
        if flying.source is not None:
            done = self.sources.get(flying.source, 0)
            records = [r for r in flying.records if (r.offset or 0) >= done]
            self.sources[flying.source] = max(done, flying.resume)
        changed = self.oracle.take(records)
        if self._witness is not None:
            self._witness.committed(self)
        self._stands(position, changed)

    def _settle(self) -> None:
        """Find out whether what was on its way is in."""
        with self.engine.snapshot() as snap:
            position, sources = snap.position, snap.sources
        demand(self._lost(position, sources))
        flying = self._flying
        if flying is None:
            self._stands(position, False)
        elif self._is_in(flying, position, sources):
            self._tell("it was in")
            self._landed(position)
        else:
            self._flying = None
            self._stands(position, False)

    def _is_in(self, flying: Flying, position: int, sources: Mapping[str, int]) -> bool:
        if flying.source is None:
            return position > self.position
        return sources.get(flying.source, 0) > self.sources.get(flying.source, 0)

    def _stands(self, position: int, changed: bool) -> None:
        """The store stands here, one commit further where that changed content."""
        if position != self.position + changed:
            self.check()  # says more
            what = "changed" if changed else "didn't change"
            text = f"stands at position {position}, and at {self.position} before a commit that {what} content"
            raise Wrong([Finding("position", "store", text)])
        self.position = position

    def _lost(self, position: int, sources: dict[str, int]) -> Iterator[Finding]:
        if position < self.position:
            yield Finding("lost", "store", f"stands at position {position}, and a commit at {self.position} returned")
        for name, offset in self.sources.items():
            if sources.get(name, 0) < offset:
                text = f"stands at offset {sources.get(name, 0)}, and {offset} was acknowledged"
                yield Finding("lost", f"source {name!r}", text)

    # -- what must hold

    def check(self) -> None:
        """All that must hold at any moment."""
        with self.engine.snapshot() as snap:
            demand(differences(snap, self.oracle, self._exempt))

    def heal(self) -> None:
        """No fault from now on: everything is delivered and published, and then all must hold."""
        self.points.arm(None)
        self.downstream.link = Link.UP
        self.downstream.arrive(self._choose)
        if self._kept is not None:
            self.look()
        for partition, log in enumerate(self.partitions):
            while self.acked[partition] < len(log):
                before = self.acked[partition]
                self._tell(f"{source_name(partition)} delivers the rest")
                self.deliver(partition, len(log))
                if self.acked[partition] == before:
                    raise Wrong([Finding("progress", f"source {source_name(partition)!r}", "is not read to its end")])
        for _ in range(_POLLS):
            self.poll()
            if not self.pub.pending:
                break
        self.check()
        demand(self._at_rest())

    def _at_rest(self) -> Iterator[Finding]:
        if self.pub.pending:
            yield Finding("pending", "the node that publishes", f"{len(self.pub.pending)} groups are pending for ever")
        yield from at_rest(Opened(self.engine, self.core), self.oracle, self.downstream.rows, self._exempt)

    def _tell(self, text: str) -> None:
        if self._witness is not None:
            self._witness.happened(self, text)


def source_name(partition: int) -> str:
    """What a partition is called."""
    return f"source:{partition}"
