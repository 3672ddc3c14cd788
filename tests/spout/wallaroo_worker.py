"""A worker that sends numbered documents to a listening spout, and a store that takes them until it is killed."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Self, TypeVar
from unittest import mock

import msgspec

import penstock as ps
from penstock.cache.lmdb.lmdb_transaction import LmdbWriter
from penstock.connector import (
    FIRST_RTAG,
    SINK_VERSION,
    Coordinator,
    DecideTransaction,
    Hello,
    MemoryCoordinatorState,
    PrepareTransaction,
    ReadyToSend,
    SendBytes,
    SessionFailed,
    StartSession,
    VoteReceived,
)
from penstock.spout import SPOUTS, ListeningSpout, SpoutBatch, WorkerRow
from tests.waiting import PATIENCE

T = TypeVar("T")
COOKIE = "Penstock-Test"
ODD = b"no document"
"""A message that the table rejects. The count of rejections shows each commit that came twice."""


class Killed(Exception):
    """The process ends here, as a kill would end it. Its text tells the phases before and after."""


PHASES = BEFORE_PHASE_1, BEFORE_VOTE, BEFORE_PHASE_2, BEFORE_COMMIT = (
    "data and phase 1",
    "phase 1 and vote",
    "vote and phase 2",
    "phase 2 and commit",
)
NEW_SESSION = "a connection and data"
Phases = Counter[tuple[str, str]]  # kills by side, and by the phases before and after


def shop() -> ps.App:
    app = ps.App("shop")
    orders = app.table("orders", key="id")
    orders.view("sums", key="name", reduce={"n": ps.count(), "sum": ps.sum("v")})
    return app


@contextmanager
def kill_at(commit: int | None) -> Iterator[None]:
    """Raise before this commit of the process: the files stay as a kill after the commit before it leaves them."""
    numbers, real = count(1), LmdbWriter._commit_now

    def commit_now(self: LmdbWriter) -> None:
        if next(numbers) == commit:
            raise Killed
        real(self)

    with mock.patch.object(LmdbWriter, "_commit_now", commit_now):
        yield


class Store:
    """An engine whose thread takes the batches of a spout, until it is killed or stopped."""

    def __init__(
        self,
        path: Path,
        partitions: int | None,
        port: int = 0,
        more: str = "",
        app: ps.App | None = None,
        scheme: str = "wallaroo",
    ) -> None:
        apart: dict[str, Any] = {} if partitions is None else {"partitions": partitions, "processes": False}
        self.engine = ps.open(app or shop(), path, **apart)
        spout = SPOUTS.open(f"{scheme}://127.0.0.1:{port}?cookie={COOKIE}&name=test{more}", "orders")
        assert isinstance(spout, ListeningSpout)
        self.spout = spout
        self.address = spout.address
        self.killed = False
        self.phase = NEW_SESSION  # of the step that is not durable yet
        self._stop = threading.Event()
        self.ended = threading.Event()
        self.gate = threading.Event()  # the store takes no step while it is not set
        self.gate.set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.spout.begin(self.engine.remembered)
            while not self._stop.is_set():
                batch = self.spout.next_batch(100, 0.05) if self.gate.wait(0.05) else None
                if batch is not None:
                    self.phase = self._phase(batch)
                    for done, _ in self.engine.load("orders", [batch]):
                        self.spout.committed(done)
        except Killed:
            self.killed = True
        finally:
            self.ended.set()
            self.spout.close()

    def _phase(self, batch: SpoutBatch) -> str:
        """Return the phases around a step of a worker's state."""
        known = None if batch.source is None else self.engine.remembered(batch.source)
        rows = [WorkerRow() if note is None else _decoded(note) for note in (known and known.note, batch.note)]
        if rows[0].vote is not None:
            return BEFORE_COMMIT
        return NEW_SESSION if rows[1].vote is None else BEFORE_VOTE

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.engine.close()

    def stop(self) -> bool:
        """End the thread; return whether it was killed."""
        self._stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.killed


class Worker:
    """One worker. Its decisions survive, and all data since the last decided commit is sent again."""

    def __init__(self, name: str = "w1") -> None:
        self.name = name
        self.state = MemoryCoordinatorState()
        self.sent: list[bytes] = []  # every message that is committed or will be, in order
        self.decided = 0  # transactions
        self.coordinator: Coordinator | None = None
        self._rtags = count(FIRST_RTAG)
        self._numbers = count(1)
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

    def connect(self, address: tuple[str, int]) -> None:
        """Connect, settle an open transaction, and send again all data after the last commit."""
        self.cut()
        self._socket = socket.create_connection(address, timeout=PATIENCE)
        hello = Hello(SINK_VERSION, COOKIE, "app", self.name)
        self.coordinator = Coordinator(hello, f"app-w-{self.name}-id-1".encode(), self.state, self._rtags)
        self._do(StartSession())
        at, offset = self._wait(ReadyToSend).offset, 0
        for body in self.sent:
            if offset >= at:
                self._do(SendBytes(body))
            offset += len(body)
        self._flush()

    def send(self, *bodies: bytes) -> None:
        self.sent += bodies
        for body in bodies:
            self._do(SendBytes(body))
        self._flush()

    def prepare(self) -> bool:
        """Ask for a vote."""
        self._do(PrepareTransaction(f"app-w-{self.name}-id-1:c_id={next(self._numbers)}"))
        return self._wait(VoteReceived).commit

    def decide(self, reach: bool = True) -> None:
        """Decide to commit. Without `reach` the decision is durable, and the connection is cut before it is sent."""
        self.decided += 1
        if reach:
            self._do(DecideTransaction(True))
            self._flush()
        else:
            self.state.decide(True)
            self.cut()

    @property
    def is_cut(self) -> bool:
        return self._socket is None

    def cut(self) -> None:
        """End the connection, and wait until the store has ended its side: then it accepts this worker again."""
        if self._socket is not None:
            with self._socket, suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
                while self._socket.recv(1 << 16):
                    pass
            self._socket = None

    def fence(self) -> None:
        """Return after everything that was sent took effect."""
        assert self.prepare()
        self._do(DecideTransaction(True))
        self._flush()
        assert self.prepare()
        self.state.decide(False)
        self.cut()

    def _do(self, command: object) -> None:
        assert self.coordinator is not None, "connect first"
        self.coordinator.session.do(command)

    def _flush(self) -> None:
        assert self.coordinator is not None, "connect first"
        assert self._socket is not None, "connect first"
        self._socket.sendall(self.coordinator.session.outgoing())

    def _wait(self, kind: type[T]) -> T:
        """Return the next event of a kind; ConnectionError if the session ends before."""
        assert self.coordinator is not None, "connect first"
        assert self._socket is not None, "connect first"
        session, reason = self.coordinator.session, "the connection ended"
        while True:
            self._flush()
            for event in session.events():
                if isinstance(event, kind):
                    return event
                reason = event.text if isinstance(event, SessionFailed) else reason
            data = b"" if session.over else self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError(reason)
            session.receive(data)


def _decoded(note: bytes) -> WorkerRow:
    try:
        return msgspec.msgpack.decode(note, type=WorkerRow)
    except msgspec.DecodeError:  # another kind of spout, which has no state
        return WorkerRow()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def message(n: int) -> bytes:
    """Return a message. Messages of one document have different values, so an old one that comes late shows."""
    return ODD if n % 11 == 10 else json.dumps({"id": n % 7, "name": f"n{n % 3}", "v": n}).encode()


def expected(sent: list[bytes]) -> tuple[dict[int, Any], int]:
    """Return the documents by key, and the number of rejected messages."""
    documents = {doc["id"]: doc for doc in (json.loads(body) for body in sent if body != ODD)}
    return documents, sum(body == ODD for body in sent)


def found(engine: Any) -> tuple[dict[int, Any], int]:
    """Return the documents of a store by key, and the number of rejected messages."""
    with engine.snapshot() as snap:
        read = {key: snap.table("orders").get(key) for key in range(7)}
    return {key: doc for key, doc in read.items() if doc is not None}, engine.status()["tables"]["orders"]["rejected"]
