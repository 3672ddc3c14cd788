"""The world of a simulation of two-phase commit: workers, sinks, their connections, and the checks.

check      condition
protocol   no session ends by ERROR, except that of a worker whose former session has not ended yet
sessions   a worker has at most one session with a sink
offsets    committed ≤ prepared ≤ received at each sink
agreed     a sink commits only transactions that the worker decided to commit
promise    when a worker decides to commit, each sink has its vote and the promised bytes durably
decision   a worker that starts again is at its last decision, with the message after it
raised     a process starts again after any fault
progress   without further faults, all output is committed everywhere, and no vote is open
output     each sink has exactly the committed output of each worker, also after a power loss
retired    the sinks hold no state of workers that left, and keep their output
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random

from penstock.cache import PenstockError
from penstock.connector import Participant
from penstock.testing.connector.connector_plan import ConnectorPlan, ConnectorStep
from penstock.testing.connector.simulated_sink import COOKIE, ProgramSink, SimulatedSink, StoreSink
from penstock.testing.connector.simulated_worker import SimulatedWorker
from penstock.testing.simulator.checks import Finding, Wrong, demand
from penstock.testing.simulator.faults import Crash, Fault, Points

Process = SimulatedSink | SimulatedWorker
_ROUNDS = 40  # of healing; each commits a transaction if nothing is wrong
_TURNS = 60  # exchanges until no bytes are on their way


@dataclass(slots=True)
class Connection:
    """A connection of a worker to a sink, with the bytes on their way."""

    number: int
    worker: SimulatedWorker
    sink: SimulatedSink
    to_sink: bytearray = field(default_factory=bytearray)
    to_worker: bytearray = field(default_factory=bytearray)
    is_cut: bool = False

    @property
    def at_worker(self) -> bool:
        """The worker has this connection."""
        link = self.worker.links.get(self.sink.number)
        return link is not None and link.connection == self.number

    @property
    def at_sink(self) -> bool:
        """The sink has this connection."""
        return self.number in self.sink.participants

    @property
    def moves(self) -> list[str]:
        """The directions in which bytes or the end of the connection can arrive."""
        found = []
        if self.at_sink and (self.to_sink or self.is_cut or not self.at_worker):
            found.append("to sink")
        if self.at_worker and (self.to_worker or self.is_cut or not self.at_sink):
            found.append("to worker")
        return found


class ConnectorWorld:
    """Everything in one run."""

    def __init__(self, plan: ConnectorPlan) -> None:
        self.points = Points()
        self.faults = 0
        self.sinks: list[SimulatedSink] = [
            (StoreSink if store else ProgramSink)(number, self.points) for number, store in enumerate(plan.stores)
        ]
        self.workers = [
            SimulatedWorker(number, len(self.sinks), messages, self.points)
            for number, messages in enumerate(plan.messages)
        ]
        self._choose = Random(plan.seed)
        self._numbers = count()
        self._connections: list[Connection] = []
        for process in self._processes():
            process.start()

    def do(self, step: ConnectorStep) -> None:
        """Run a step, then check."""
        if step.strike is not None:
            self.points.arm(step.strike)
        worker, sink = self.workers[step.a % len(self.workers)], self.sinks[step.b % len(self.sinks)]
        self._during(partial(self._act, step, worker, sink))
        self._check()

    def heal(self) -> None:
        """End all faults, commit all output, and check everything."""
        self.points.arm(None)
        for _ in range(_ROUNDS):
            self._start_all()
            for worker in self._present():
                self._round(worker, worker.messages)
            if not self._unfinished():
                break
        else:
            raise Wrong([Finding("progress", *self._unfinished()[0])])
        self._retire()
        demand(self._outputs())
        for process in self._processes():
            self._end(process, Fault.POWER)
        self._start_all()
        demand(self._outputs())

    # -- steps

    def _act(self, step: ConnectorStep, worker: SimulatedWorker, sink: SimulatedSink) -> None:
        match step.kind:
            case "connect":
                self._connect(worker, sink)
            case "deliver":
                moves = [(connection, way) for connection in self._connections for way in connection.moves]
                if moves:
                    connection, way = moves[step.a % len(moves)]
                    self._deliver(connection, way, step.c % 3 == 0)
            case "turn":
                self._turn()
            case "round":
                self._round(worker, 1 + step.c % 4)
            case "cut" if self._connections:
                self._cut(self._connections[step.a % len(self._connections)])
            case "kill" | "power":
                processes = self._processes()
                self._end(processes[step.a % len(processes)], Fault.CRASH if step.kind == "kill" else Fault.POWER)
            case "start":
                self._start_all()
            case "refuse" if sink.is_up:
                sink.refuse()
            case _ if worker.is_up:
                self._act_of_worker(step, worker, sink)
            case _:
                pass

    def _act_of_worker(self, step: ConnectorStep, worker: SimulatedWorker, sink: SimulatedSink) -> None:
        match step.kind:
            case "produce":
                worker.produce(1 + step.c % 4)
            case "gap":
                worker.produce(1 + step.c % 4, sink.number)
            case "prepare":
                worker.prepare()
            case "trail":
                worker.trail(1 + step.c % 3)
            case "decide":
                self._decide(worker)
            case "abort":
                worker.decide(False)
            case "leave" if len(self._present()) > 1 and worker.name not in dict(self._unfinished(worker.decided[-1])):
                self._end(worker, Fault.CRASH)
                worker.has_left = True
            case "name":
                worker.name_left((*(other.name for other in self.workers if other.has_left), worker.name))
            case _:
                pass

    def _round(self, worker: SimulatedWorker, most: int) -> None:
        """Connect a worker to all sinks, and commit a transaction of further messages."""
        for sink in self.sinks:
            self._during(partial(self._connect, worker, sink))
        self._turn()
        for act in (partial(worker.produce, most), worker.prepare, partial(self._decide, worker)):
            if worker.is_up:
                self._during(act)
            self._turn()
        self._check()

    def _decide(self, worker: SimulatedWorker) -> None:
        if worker.decide(True):
            demand(self._broken_promises(worker))

    def _connect(self, worker: SimulatedWorker, sink: SimulatedSink) -> None:
        if not worker.is_up or not sink.is_up or sink.number in worker.links or worker.end_of_open is not None:
            return
        connection = Connection(next(self._numbers), worker, sink)
        self._connections.append(connection)
        sink.participants[connection.number] = Participant(COOKIE)
        worker.connect(sink.number, connection.number)

    def _turn(self) -> None:
        """Let all bytes arrive."""
        self._flush()
        for _ in range(_TURNS):
            moves = [(connection, way) for connection in self._connections for way in connection.moves]
            if not moves:
                return
            for connection, way in moves:
                if way in connection.moves:
                    self._during(partial(self._deliver, connection, way, False))

    def _deliver(self, connection: Connection, way: str, cut: bool) -> None:
        """Let bytes arrive, or the end of the connection if there are none. With `cut`, only some of the bytes."""
        queue = connection.to_sink if way == "to sink" else connection.to_worker
        data = bytes(queue[: self._choose.randint(1, len(queue))] if cut and queue else queue)
        del queue[: len(data)]
        sink, worker = connection.sink, connection.worker
        if way == "to worker":
            worker.receive(sink.number, data)
        elif not data:
            sink.lost(connection.number)
        else:
            answer = sink.receive(connection.number, data)
            if not connection.is_cut:
                connection.to_worker += answer
            if sink.is_over(connection.number):
                sink.lost(connection.number)

    def _cut(self, connection: Connection) -> None:
        connection.is_cut = True
        for queue in (connection.to_sink, connection.to_worker):
            del queue[self._choose.randint(0, len(queue)) :]

    # -- processes

    def _during(self, act: Callable[[], None]) -> None:
        """Act. A fault ends the process that it strikes."""
        try:
            act()
        except Crash as crash:
            self.faults += 1
            self._end(self._process_at(crash.place), crash.fault)
        except OSError:  # of a worker whose disk is full; a sink ends its session
            self.faults += 1
            assert self.points.last is not None, "a full disk struck"
            self._end(self._process_at(self.points.last[1]), Fault.CRASH)
        self._flush()

    def _process_at(self, place: str) -> Process:
        kind, number = place.split()[:2]
        return self.sinks[int(number)] if kind == "sink" else self.workers[int(number)]

    def _end(self, process: Process, fault: Fault) -> None:
        process.end()
        if fault is Fault.POWER:
            process.lose_power(self._choose)
        for connection in self._connections:
            queue = connection.to_worker if process is connection.sink else connection.to_sink
            if process in (connection.sink, connection.worker):
                del queue[self._choose.randint(0, len(queue)) :]

    def _start_all(self) -> None:
        for process in self._processes():
            if not process.is_up and not (isinstance(process, SimulatedWorker) and process.has_left):
                try:
                    process.start()
                except (Crash, OSError) as fault:
                    self.faults += 1
                    self._end(process, fault.fault if isinstance(fault, Crash) else Fault.CRASH)
                except PenstockError as error:
                    if self.points.last is None or self.points.last[0] is not Fault.FAIL:
                        raise Wrong([Finding("raised", process.prefix.strip(), f"it can't start: {error}")]) from error
                    self._end(process, Fault.CRASH)

    def _processes(self) -> list[Process]:
        return [*self.sinks, *self.workers]

    def _present(self) -> list[SimulatedWorker]:
        return [worker for worker in self.workers if not worker.has_left]

    def _flush(self) -> None:
        """Put the bytes of all workers on the wire, and forget connections that nobody has."""
        for connection in self._connections:
            if connection.at_worker:
                data = connection.worker.links[connection.sink.number].coordinator.session.outgoing()
                if not connection.is_cut:
                    connection.to_sink += data
        self._connections = [c for c in self._connections if c.at_worker or c.at_sink]

    # -- checks

    def _check(self) -> None:
        demand(self._wrong_offsets())

    def _wrong_offsets(self) -> Iterator[Finding]:
        workers = {worker.name: worker for worker in self.workers}
        for sink in self.sinks:
            live = sink.live()
            if len(dict(live)) < len(live):
                yield Finding("sessions", f"sink {sink.number}", f"there are sessions of {[name for name, _ in live]}")
            for name, state in live:
                where, worker = f"sink {sink.number}, {name}", workers[name]
                if not state.committed <= state.prepared <= state.received:
                    text = f"received {state.received}, prepared {state.prepared}, committed {state.committed}"
                    yield Finding("offsets", where, text)
                if state.committed not in (*worker.decided, worker.end_of_open):
                    yield Finding("agreed", where, f"committed {state.committed}, and {worker.decided} was decided")

    def _broken_promises(self, worker: SimulatedWorker) -> Iterator[Finding]:
        end = worker.decided[-1]
        for sink in self.sinks:
            if isinstance(sink, ProgramSink) or sink.is_up:
                promised = sink.stored(worker.name).promised
                if promised < end:
                    text = f"it promised the bytes before {promised} durably, and {end} was decided"
                    yield Finding("promise", f"sink {sink.number}, {worker.name}", text)
                for text in sink.lost_promises(worker.name, worker.output(end)):
                    yield Finding("promise", f"sink {sink.number}, {worker.name}", text)

    def _unfinished(self, end: int | None = None) -> list[tuple[str, str]]:
        """Return each worker, by name, whose output before `end` is not committed everywhere, and the difference."""
        found = []
        for worker in self._present():
            wanted = worker.offsets[-1] if end is None else end
            for sink in self.sinks:
                stored = sink.stored(worker.name)
                if stored.committed != wanted or stored.vote is not None or worker.decided[-1] != wanted:
                    vote = "none" if stored.vote is None else stored.vote.transaction
                    text = f"sink {sink.number} has committed {stored.committed} of {wanted}, open: {vote}"
                    found.append((worker.name, text))
        return found

    def _outputs(self) -> Iterator[Finding]:
        outputs = {worker.name: worker.output(worker.decided[-1]) for worker in self.workers}
        for sink in self.sinks:
            for text in sink.differences(outputs):
                yield Finding("output", f"sink {sink.number}", text)

    def _retire(self) -> None:
        """Name all workers that left, and check that no sink has state of them."""
        left = tuple(worker.name for worker in self.workers if worker.has_left)
        if left:
            self._turn()
            for sink in self.sinks:
                self._connect(self._present()[0], sink)
            self._turn()
            self._present()[0].name_left(left)
            self._turn()
        for sink in self.sinks:
            for name in left:
                stored = sink.stored(name)
                if stored.committed or stored.vote is not None:
                    raise Wrong([Finding("retired", f"sink {sink.number}", f"it has state of {name}, which left")])
