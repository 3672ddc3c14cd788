"""The workers of a simulation: coordinators that send the same output to all sinks, in one transaction.

The coordinators and their log are those of production. A transaction is decided to commit once, after the votes of all
sinks. A lost connection or an abort vote aborts it in all sinks: their sessions end, and begin again after the last
commit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, count
from random import Random

from penstock.connector import (
    DATA_STREAM,
    FIRST_RTAG,
    SINK_VERSION,
    Coordinator,
    DecideTransaction,
    Hello,
    MessageFrame,
    NameWorkers,
    OpenTransaction,
    PrepareTransaction,
    SendBytes,
    SessionFailed,
    SessionState,
    StartSession,
    VoteReceived,
)
from penstock.sink import SinkLog
from penstock.testing.connector.connector_output import message
from penstock.testing.connector.simulated_files import SimulatedFiles
from penstock.testing.connector.simulated_sink import ACTIVE, COOKIE
from penstock.testing.simulator.checks import Finding, Wrong
from penstock.testing.simulator.faults import Points

_LOG = "/worker/connector/sink.log"
_LONGEST_LOG = 600  # bytes, so that logs are replaced


class SharedTransaction:
    """The state of one worker towards one of its sinks. All its sinks share the log."""

    def __init__(self, log: SinkLog) -> None:
        self.open: OpenTransaction | None = None
        self._log = log

    @property
    def committed(self) -> int:
        return self._log.committed

    def prepare(self, transaction: OpenTransaction) -> None:
        if self._log.open is None:
            self._log.prepare(transaction)
        self.open = transaction

    def decide(self, commit: bool) -> None:
        if self._log.open is not None:
            self._log.decide(commit)
        self.open = None

    def is_committed(self, transaction: str) -> bool:
        return self._log.is_committed(transaction)


@dataclass(slots=True)
class SinkLink:
    """A session with one sink. `sent` messages are on their way or there."""

    connection: int
    coordinator: Coordinator
    sent: int = 0
    voted: bool = False

    @property
    def state(self) -> SessionState:
        """The state of the session."""
        return self.coordinator.session.state


@dataclass(slots=True)
class SimulatedWorker:
    """A worker with a fixed output. Its host keeps the output, so only the log is durable."""

    number: int
    sinks: int
    messages: int
    points: Points
    is_up: bool = False
    has_left: bool = False
    produced: int = 0  # messages that the sinks should have by now
    links: dict[int, SinkLink] = field(default_factory=dict)  # by sink
    decided: list[int] = field(default_factory=lambda: [0])  # ends of the transactions that were decided to commit
    end_of_open: int | None = None  # the end of the transaction without a decision
    files: SimulatedFiles = field(init=False)
    bodies: list[bytes] = field(init=False)
    offsets: list[int] = field(init=False)
    _log: SinkLog | None = None
    _rtags: count[int] = field(default_factory=lambda: count(FIRST_RTAG))

    def __post_init__(self) -> None:
        self.files = SimulatedFiles(self.points, self.prefix)
        self.bodies = [message(self.name, number) for number in range(self.messages)]
        self.offsets = list(accumulate(map(len, self.bodies), initial=0))

    @property
    def name(self) -> str:
        """The name of the worker."""
        return f"w{self.number}"

    @property
    def prefix(self) -> str:
        """The begin of the names of its places."""
        return f"worker {self.number} "

    @property
    def log(self) -> SinkLog:
        """The log of the running process."""
        assert self._log is not None, "the process runs"
        return self._log

    def output(self, end: int) -> bytes:
        """Return the output before an offset."""
        return b"".join(self.bodies)[:end]

    def start(self) -> None:
        """Start the process at its last decision."""
        self._log = SinkLog(_LOG, self.name, self._stream.encode(), self.files, _LONGEST_LOG)
        self.is_up = True
        if self.end_of_open == self._log.committed:  # it was killed after its decision was durable
            self.decided.append(self._log.committed)
        self.end_of_open = None
        if not self.decided[-1] == self._log.committed == self.offsets[self._position]:
            text = f"its log is at {self._log.committed}, message {self._position}, and {self.decided[-1]} was decided"
            raise Wrong([Finding("decision", self.name, text)])
        self._rewind()

    def end(self) -> None:
        """End the process, and all its connections."""
        self.is_up = False
        self.links.clear()
        self.files.end_process()

    def lose_power(self, choose: Random) -> None:
        """Lose everything that is not durable."""
        self.files.lose_power(choose)

    # -- steps

    def connect(self, sink: int, connection: int) -> None:
        """Begin a session."""
        hello = Hello(SINK_VERSION, COOKIE, "app", self.name)
        coordinator = Coordinator(hello, self._stream.encode(), SharedTransaction(self.log), self._rtags)
        self.links[sink] = SinkLink(connection, coordinator)
        coordinator.session.do(StartSession())

    def produce(self, most: int, skipped: int | None = None) -> None:
        """Send further messages to all sinks. The link to `skipped` loses one of them, which leaves a gap."""
        if self.end_of_open is None:
            self.produced = min(self.messages, self.produced + most)
            self._catch_up(skipped)

    def trail(self, most: int) -> None:
        """Send messages while a transaction is open, as other workers may."""
        if self.end_of_open is not None:
            self.produced = min(self.messages, self.produced + most)
            for link in self.links.values():
                for body in self.bodies[link.sent : self.produced]:
                    link.coordinator.session.send(MessageFrame(DATA_STREAM, link.coordinator.offset, 0, b"", body))
                    link.coordinator.offset += len(body)
                link.sent = self.produced

    def prepare(self) -> None:
        """End a transaction, and ask all sinks for their votes."""
        if self.end_of_open is None and self._is_ready():
            self._catch_up()
            self.end_of_open = self.offsets[self.produced]
            self.log.next_position = self.produced
            transaction = f"{self._stream}:c_id={self.log.number + 1}"
            for link in self.links.values():
                link.voted = False
                link.coordinator.session.do(PrepareTransaction(transaction))

    def decide(self, commit: bool) -> bool:
        """Decide the open transaction. A commit needs the votes of all sinks. Return whether it was committed."""
        if self.end_of_open is None:
            return False
        if not commit:
            self.roll_back()
        elif all(link.voted for link in self.links.values()):
            for link in self.links.values():
                link.coordinator.session.do(DecideTransaction(True))
            self.decided.append(self.end_of_open)
            self.end_of_open = None
            return True
        return False

    def name_left(self, names: tuple[str, ...]) -> None:
        """Name workers that left."""
        for link in self.links.values():
            if link.state is SessionState.READY:
                link.coordinator.session.do(NameWorkers(names))

    def receive(self, sink: int, data: bytes) -> None:
        """Take bytes of a sink. No bytes are the end of the connection."""
        link = self.links[sink]
        if data:
            link.coordinator.session.receive(data)
        else:
            link.coordinator.session.lost()
        for event in link.coordinator.session.events():
            if isinstance(event, VoteReceived):
                link.voted = event.commit
            elif isinstance(event, SessionFailed) and ACTIVE not in event.text:
                raise Wrong([Finding("protocol", f"{self.name}, sink {sink}", f"the session ended: {event.text}")])
        if link.coordinator.session.over:
            del self.links[sink]
            if self.end_of_open is not None:
                self.roll_back()
        elif self.end_of_open is None:
            self._catch_up()

    def roll_back(self) -> None:
        """Abort the open transaction in all sinks."""
        if self.log.open is not None:
            self.log.decide(False)
        self.end_of_open = None
        self.links.clear()
        self._rewind()

    # -- parts

    @property
    def _position(self) -> int:
        """The number of messages that the last decision covers."""
        position = self.log.position
        return position if isinstance(position, int) else 0

    def _is_ready(self) -> bool:
        ready = [link for link in self.links.values() if link.state is SessionState.READY]
        return len(ready) == self.sinks

    @property
    def _stream(self) -> str:
        return f"app-w-{self.name}-id-1"

    def _rewind(self) -> None:
        """Continue after the last commit."""
        self.produced = self.offsets.index(self.log.committed)

    def _catch_up(self, skipped: int | None = None) -> None:
        """Send the messages that a sink does not have yet."""
        for sink, link in self.links.items():
            coordinator = link.coordinator
            if link.state is not SessionState.READY:
                continue
            link.sent = max(link.sent, self.offsets.index(self.log.committed))
            for body in self.bodies[link.sent : self.produced]:
                if sink == skipped:
                    coordinator.offset += len(body)
                    skipped = None
                else:
                    coordinator.session.do(SendBytes(body))
            link.sent = self.produced
