"""A simulated machine: its open store, its commits, and its recovery after a fault.

One caller acts on the machine, and a fault may strike during each action. Then the machine finds out which records are
stored, as an operator would. It passes exactly those to the oracle, and runs the checks. Invariants:

- the oracle has exactly the records of the commits in the store, in the order of these commits;
- a source advances past a record only after the call that took it has returned;
- a client puts a record again until a call with it has returned;
- the position grows by one for each commit that changed content, and for each switch to built views.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from penstock.cache import BatchRejected, Limits, StoreFull
from penstock.engine import Core, Engine, Snapshot, open_on
from penstock.spout import Record
from penstock.testing.expected.expected_views import Oracle
from penstock.testing.simulator.app_changes import Frozen
from penstock.testing.simulator.checks import HASH_SEED, Finding, Wrong, demand, differences
from penstock.testing.simulator.client import is_list, put_by
from penstock.testing.simulator.disk import Disk
from penstock.testing.simulator.fault_plan import PutMode
from penstock.testing.simulator.faults import Crash, Fault, Interrupted, Points, Strike
from penstock.testing.simulator.operator import Operator
from penstock.testing.simulator.outage import Switch
from penstock.testing.simulator.publisher import Downstream, Pub
from penstock.testing.simulator.subscriber import Subscriber
from penstock.views import App

_OPENINGS = 8


@dataclass(frozen=True, slots=True)
class RecordsInFlight:
    """Records on their way into a commit: of a source, with the offset after them, or of a client."""

    records: tuple[Record, ...]
    source: str | None = None
    resume: int = 0


class Witness(Protocol):
    """An observer that is notified of events, to explain them."""

    def committing(self, world: Machine, flying: RecordsInFlight) -> None:
        """React to records that are stored, before the oracle takes them."""
        ...

    def committed(self, world: Machine) -> None:
        """React when the oracle has taken them."""
        ...

    def happened(self, world: Machine, text: str) -> None:
        """React to any other event."""
        ...


class Machine:
    """The state of a machine: its parts, how it opens its store, and the state to expect."""

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
        others: Sequence[App] = (),
        outage: Switch | None = None,
    ) -> None:
        self.app = app
        self.apps = (app, *others)
        self.outage = outage
        self.lenient = False  # views may hold documents that they could take by now
        self.partitions = partitions
        self.acked = [0] * len(partitions)
        self.points = points or Points()
        self.disk = Disk(self.points, synced=synced)
        self.pub_disk = Disk(self.points, "pub ", synced)
        self.downstream = Downstream()
        self.oracle = Oracle(app)
        self.sources: dict[str, int] = {}
        self.position = self.epoch = self.faults = 0
        self.subscriber = Subscriber()
        self.operator = Operator()
        self.struck: list[tuple[Fault, str]] = []
        self.frozen = Frozen()
        self._changing = False  # another app was opened on purpose, and its views are not complete
        self._building = False  # views were being built at the last check of the position
        self._reopened = False  # reopened, and the position was not checked yet
        self._freely = False  # a repair of held documents makes an unknown number of commits
        self._named: dict[tuple[str, Any], str] = {}
        self._limits = limits or Limits()
        self._exempt = frozenset(exempt)
        self._choose = Random(seed)
        self._witness = witness
        self._armed = False  # a fault was armed when the current action began
        self._again: Strike | None = None  # strikes during the recovery from the next fault
        self._flying: RecordsInFlight | None = None
        self._owed: deque[tuple[PutMode, tuple[Record, ...]]] = deque()  # calls of clients that have not returned
        self._open_snapshot: tuple[Snapshot, dict[str, Any]] | None = None
        self._open()

    # -- what happens to it

    def during(self, act: Callable[[], None], strike: Strike | None = None, again: Strike | None = None) -> bool:
        """Run an action while a fault may strike, and recover from it. Return whether the action completed.

        A fault that does not strike stays armed for the next action.
        """
        if strike is not None:
            self.points.arm(strike)
            self._again = again
        done = self._survives(act)
        if not done:
            self._survives(self._put_owed)
        return done

    def _survives(self, act: Callable[[], None]) -> bool:
        self._armed = self.points.armed
        try:
            act()
        except Crash as crash:
            self._count(crash.fault, crash.place)
            self._tell(str(crash))
            again, self._again = self._again, None
            self._recover(crash.fault, again)
            return False
        except (Interrupted, StoreFull) as fault:
            self._explained(fault)
            assert self.points.last is not None, "explained"
            self._count(*self.points.last)
            self._tell(f"{self.points.last[0].value} at {self.points.last[1]}")
            self.points.arm(None)
            self._settle()
            self.pub = self._new_pub()  # as its operator would, after an error
            return False
        except Wrong:
            raise
        except Exception as error:
            raise Wrong([Finding("raised", "engine", f"{type(error).__name__}: {error}")]) from error
        return True

    def _count(self, fault: Fault, place: str) -> None:
        self.faults += 1
        self.struck.append((fault, place))

    def _explained(self, error: BaseException) -> None:
        last = self.points.last
        if not self._armed or self.points.armed or last is None or last[0].ends_process:
            raise Wrong([Finding("raised", "engine", f"{type(error).__name__}: {error}")]) from error

    def _recover(self, fault: Fault | None, again: Strike | None) -> None:
        """Reopen the store, while another fault may strike."""
        self._let_go()
        for _ in range(_OPENINGS):
            self._end(fault)
            self.points.arm(again)
            self._armed, again = again is not None, None
            try:
                self._open()
            except Crash as crash:
                self.struck.append((crash.fault, f"opening: {crash.place}"))
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
        self._reopened = True
        self._settle()
        if not self._changing:
            self._build()
        self.check()

    def _build(self) -> None:
        """Finish all builds.

        After an opening, a view whose function has a closure may count as changed, and is built again.
        """
        while self.core.build_step():
            pass
        self.position = self.core.state.position
        self._building = False

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
        pub = Pub(self.pub_disk.open(), self.downstream, self.points)
        pub.named = self._named
        return pub

    def _let_go(self) -> None:
        if self._open_snapshot is not None:
            self._open_snapshot[0].close()
            self._open_snapshot = None

    # -- commits

    def _put_owed(self) -> None:
        while self._owed:
            self._put(*self._owed[0])
            self._owed.popleft()

    def _put(self, how: PutMode, records: tuple[Record, ...]) -> None:
        """Pass a client's records to the engine. On return they are stored, or correctly refused."""
        strict = how is PutMode.STRICT and is_list(records)
        refused = strict and any(self.oracle.tables[r.table].refuses(r) for r in records)
        self._flying = RecordsInFlight(records)
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
        """Record that the records in flight are stored, with the store at this position."""
        flying, self._flying = self._flying, None
        assert flying is not None, "something was handed over"
        if self._witness is not None:
            self._witness.committing(self, flying)
        records: Iterable[Record] = flying.records
        if flying.source is not None:
            done = self.sources.get(flying.source, 0)
            records = [r for r in flying.records if r.offset is None or r.offset >= done]
            self.sources[flying.source] = max(done, flying.resume)
        changed = self.oracle.take(records)
        if self._witness is not None:
            self._witness.committed(self)
        self._check_position(position, changed)

    def _settle(self) -> None:
        """Find out whether the records in flight are stored."""
        with self.engine.snapshot() as snap:
            position, sources, quarantined = snap.position, snap.sources, snap.state.quarantined
        demand(self._lost(position, sources))
        flying = self._flying
        if flying is None:
            self._check_position(position, False)
        elif self._is_in(flying, position, sources, quarantined):
            self._tell("it was in")
            self._landed(position)
        else:
            self._flying = None
            self._check_position(position, False)

    def _is_in(self, flying: RecordsInFlight, position: int, sources: Mapping[str, int], quarantined: int) -> bool:
        if flying.source is None:  # a rejected record is no content, but is in quarantine
            return position > self.position or quarantined > self.oracle.refused
        return sources.get(flying.source, 0) > self.sources.get(flying.source, 0)

    def _check_position(self, position: int, changed: bool) -> None:
        """Check the position: it grows by one if content changed, and by one if readers were switched."""
        before, self._building = self._building, self._is_building()
        switched = before and not self._building
        self._changing = self._changing and (self._building or bool(self.core.catalog.trash))
        further = position - self.position - changed - switched
        # At each opening, an app whose code differs may find its views switched, and start another build.
        unsteady = self._reopened and before and self._building and further == 1
        if further and not (unsteady or self._freely):
            self.check()  # its findings say more
            what = f"{'changed' if changed else 'did not change'} content"
            what += " and switched readers to other views" if switched else ""
            text = f"stands at position {position}, and at {self.position} before what {what}"
            raise Wrong([Finding("position", "store", text)])
        self.position, self._freely, self._reopened = position, False, False

    def _is_building(self) -> bool:
        """Return whether the store has a build in progress. After an error, the engine's memory is in doubt."""
        if not self._building and self.core.build is None:
            return False
        with self.engine.snapshot() as snap:
            return snap.schema.catalog.since is not None

    def _lost(self, position: int, sources: dict[str, int]) -> Iterator[Finding]:
        if position < self.position:
            yield Finding("lost", "store", f"stands at position {position}, and a commit at {self.position} returned")
        for name, offset in self.sources.items():
            if sources.get(name, 0) < offset:
                text = f"stands at offset {sources.get(name, 0)}, and {offset} was acknowledged"
                yield Finding("lost", f"source {name!r}", text)

    def _repaired(self) -> AbstractContextManager[None]:
        """Suspend the outage while the oracle calls functions."""
        return nullcontext() if self.outage is None else self.outage.repaired()

    def check(self) -> None:
        """Run the checks that must hold at any moment."""
        with self._repaired(), self.engine.snapshot() as snap:
            demand(self.frozen.differences(snap, self.app, self._exempt))
            demand(differences(snap, self.oracle, self._exempt, self.lenient))

    def _tell(self, text: str) -> None:
        if self._witness is not None:
            self._witness.happened(self, text)


def source_name(partition: int) -> str:
    """Return the name of a source partition."""
    return f"source:{partition}"
