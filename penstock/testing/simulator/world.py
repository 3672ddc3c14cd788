"""One simulated machine with the operations on it.

Its parts are the engine on a simulated disk, sources, a publisher with its downstream, a reader, a subscriber, and an
operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.mapreduce import rows_db
from penstock.spout import Record
from penstock.testing.simulator.checks import (
    Finding,
    Opened,
    Wrong,
    at_rest,
    changed_rows,
    demand,
    shown_rows,
    stored_group,
)
from penstock.testing.simulator.client import calls_of
from penstock.testing.simulator.fault_plan import Operate, OperatorAction, PutMode
from penstock.testing.simulator.faults import Fault
from penstock.testing.simulator.machine import Machine, RecordsInFlight, source_name
from penstock.testing.simulator.operator import holds_any
from penstock.testing.simulator.publisher import Link

_POLLS = 4
_BUILD_LIMIT = 1 << 10


class World(Machine):
    """A simulated machine, and everything that can be done to it."""

    def name(self, named: Mapping[tuple[str, Any], str]) -> None:
        """Name the places of these groups, by (view, group): changes of rows are red_…, published changes are pub_…."""
        self._named = {group: f"pub_{name}" for group, name in named.items()}
        self.pub.named = self._named
        rows = {
            (rows_db(self.core.views[view].number), stored_group(group)): name for (view, group), name in named.items()
        }
        self.disk.name_rows({row: f"red_{name}" for row, name in rows.items()})

    # -- what is done

    def deliver(self, partition: int, n: int, back: int = 0, twice: int = 0) -> None:
        """Deliver the next n records of a source, after `back` earlier ones. The first `twice` records come twice."""
        log, acked = self.partitions[partition], self.acked[partition]
        start, end = max(0, acked - back), min(len(log), acked + n)
        records = tuple(log[start : min(end, start + twice)]) + tuple(log[start:end])
        self._flying = RecordsInFlight(records, source_name(partition), end)
        self._freely = (self.lenient or bool(self._exempt)) and any(record.repost for record in records)
        self.engine.ingest(records, source_name(partition), end)
        self._landed(self.core.state.position)
        self.acked[partition] = end

    def write(self, how: PutMode, records: Sequence[Record]) -> None:
        """Put records as a client. After a fault the client repeats the calls that did not return."""
        self._owed.extend((how, part) for part in calls_of(how, records))
        self._put_owed()

    def poll(self) -> None:
        """Run the publisher."""
        with self.engine.snapshot() as snap:
            self.pub.poll(snap, snap.schema.views)

    def route(self, link: Link, arrive: int = 0) -> None:
        """Deliver some late changes, then set the way in which downstream answers."""
        self.downstream.arrive(self._choose, arrive)
        self.downstream.link = link

    def look(self) -> None:
        """Check the snapshot that a reader has kept. If there is none, check the whole store and keep a snapshot."""
        if self._open_snapshot is None:
            self.check()
            demand(self.subscriber.follow(self.engine))
            snap = self.engine.snapshot()
            self._open_snapshot = snap, shown_rows(snap)
            return
        (snap, before), self._open_snapshot = self._open_snapshot, None
        with snap:
            demand(changed_rows(before, shown_rows(snap)))

    def forget(self) -> None:
        """Drop the caches of all tables, as when memory runs out."""
        for node in self.core.tables.values():
            node.forget()

    def reopen(self, clean: bool) -> None:
        """Close or kill the engine, and open it. The armed fault strikes during the opening."""
        strike = self.points.arm(None)
        if clean:
            self._let_go()
            self.engine.close()
        self._recover(None if clean else Fault.CRASH, strike)

    def change(self, app: int, clean: bool) -> None:
        """Close or kill the engine, and open it with another app."""
        strike = self.points.arm(None)
        with self.engine.snapshot() as snap:
            self.frozen.leave(snap)
        self.app = self.apps[app]
        self.oracle.turn(self.app)
        self._building, self._changing = False, True
        self._tell(f"its views from now on: {', '.join(view.name for view in self.app.views())}")
        self.points.arm(strike)
        self.reopen(clean)

    def build(self, steps: int, limit: int) -> None:
        """Run some steps of building views, or of deleting replaced ones."""
        for _ in range(steps):
            more = self.core.build_step(limit)
            self._check_position(self.core.state.position, False)
            if not more:
                return

    def fail(self, on: bool) -> None:
        """Make the service that map functions ask fail from now on, or work."""
        if self.outage is not None:
            self.outage.on = on
            self.lenient = self.lenient or on

    def repair(self, action: Operate) -> None:
        """Let an operator repair a correct store. Only held documents and groups may change."""
        held = holds_any(self.engine)
        self._freely = held or bool(self._exempt)
        found = list(self.operator.repaired(self.engine, self.app, self.oracle, action, self._exempt))
        if action.how is OperatorAction.RETRY and (self.outage is None or not self.outage.on):
            self.lenient = False
        with self.engine.snapshot() as snap:  # without a change, the engine's memory may still be in doubt
            position = snap.position
        self._check_position(position, False)
        if not held:
            demand(found)

    # -- what must hold

    def heal(self) -> None:
        """End all faults; build, deliver and publish everything; then run all checks."""
        self.points.arm(None)
        self.fail(False)
        self.downstream.link = Link.UP
        self.downstream.arrive(self._choose)
        if self._open_snapshot is not None:
            self.look()
        self._deliver_all()
        while self.core.build is not None or self.core.catalog.trash:
            self.build(1, _BUILD_LIMIT)
        if self.lenient:
            self.repair(Operate(OperatorAction.RETRY, record=Record("", None, None)))
        for _ in range(_POLLS):
            self.poll()
            if not self.pub.pending:
                break
        self.check()
        demand(self.subscriber.follow(self.engine))
        demand(self._at_rest())

    def _deliver_all(self) -> None:
        for partition, log in enumerate(self.partitions):
            while self.acked[partition] < len(log):
                before = self.acked[partition]
                self._tell(f"{source_name(partition)} delivers the rest")
                self.deliver(partition, len(log))
                if self.acked[partition] == before:
                    raise Wrong([Finding("progress", f"source {source_name(partition)!r}", "is not read to its end")])

    def _at_rest(self) -> Iterator[Finding]:
        if self.pub.pending:
            yield Finding("pending", "the node that publishes", f"{len(self.pub.pending)} groups are pending for ever")
        yield from self.operator.quarantine(self.engine, self.oracle)
        opened = Opened(self.engine, self.core)
        yield from at_rest(opened, self.oracle, self.downstream, self._exempt)
