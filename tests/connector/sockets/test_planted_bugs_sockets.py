"""Bugs planted in the code of sockets: a check finds each of them, and passes without it."""

from __future__ import annotations

import logging
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Thread

import pytest

from penstock.cache import PenstockError
from penstock.connector import (
    CREDITS,
    FIRST_RTAG,
    PATIENCE,
    AcceptorServer,
    Coordinator,
    DataReceived,
    Hello,
    LogSummary,
    MemoryCoordinatorState,
    SendBytes,
    SessionSocket,
    SessionState,
    Sink,
    Source,
    StartSession,
    StreamRegistry,
)
from penstock.connector.sockets import acceptor_server
from penstock.connector.sockets.state_folder import StateFolder
from tests.connector.reference.frames import encoded, split
from tests.connector.sockets.listening_worker import ListeningWorker
from tests.connector.sockets.test_session_socket import Ends
from tests.harness.planting import Bug
from tests.spout.wallaroo_connector import STREAM, Connector
from tests.spout.wallaroo_worker import COOKIE, Worker

LIMIT = 2000
"""Turns after which a check gives up."""
without_progress = 60.0
"""Seconds of a source without progress. They are short while a bug is planted that stops it."""


@contextmanager
def serving(folder: Path, kind: type[Sink] = Sink) -> Iterator[Sink]:
    """Run a sink in a thread."""
    sink = kind("0", COOKIE, folder=str(folder / "state"))
    thread = Thread(target=served, args=(sink,))
    thread.start()
    try:
        yield sink
    finally:
        sink.stop()
        thread.join()


def served(sink: Sink) -> None:
    with suppress(KeyboardInterrupt):
        sink.serve()


@contextmanager
def ended_pair() -> Iterator[Ends]:
    ends = Ends()
    try:
        yield ends
    finally:
        ends.link.close()
        ends.peer.close()


# -- checks: each raises an error if the code is wrong


def a_worker_returns(folder: Path) -> None:
    with serving(folder) as sink, Worker() as worker:
        for _ in range(2):
            worker.connect(sink.address)
            worker.cut()


def a_second_connection_leaves_the_first_alone(folder: Path) -> None:
    with serving(folder) as sink, Worker() as worker:
        worker.connect(sink.address)
        for _ in range(50):  # the server may close a refused connection after the next one has come
            with Worker() as other, pytest.raises(ConnectionError, match="already active"):
                other.connect(sink.address)


def an_error_is_reported(folder: Path) -> None:
    class Full(Sink):
        def write(self, worker: str, offset: int, body: bytes) -> None:
            raise OSError("the disk is full")

    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("penstock")
    log.addHandler(handler)
    try:
        with serving(folder, Full) as sink, Worker() as worker:
            worker.connect(sink.address)
            worker.send(b"a")
            with suppress(OSError):
                worker.prepare()
    finally:
        log.removeHandler(handler)
    assert any("the disk is full" in line for line in said)


def an_interrupted_vote_is_not_stored(folder: Path) -> None:
    class Interrupted(Sink):
        def prepare(self, worker: str, txn: str) -> bool:
            raise KeyboardInterrupt

    with serving(folder, Interrupted) as sink, Worker() as worker:
        worker.connect(sink.address)
        worker.send(b"a")
        with suppress(OSError):
            worker.prepare()
    with closing(StateFolder(str(folder / "state"))) as states:
        assert LogSummary.of(states.log("w1").records).vote is None


def large_bytes_arrive(folder: Path) -> None:
    mine, peer = socket.socketpair()
    mine.setblocking(False)
    peer.setblocking(False)
    state = MemoryCoordinatorState()
    session = Coordinator(Hello("v0.0.1", COOKIE, "app", "w1"), b"app-w-w1-id-7", state, count(FIRST_RTAG)).session
    session.do(StartSession())
    received = b""
    with closing(SessionSocket(session, mine)) as link, peer:
        peer.sendall(encoded(("ok", 500)) + encoded(("notify_ack", True, 1, 0)))
        peer.sendall(encoded(("uncommitted", FIRST_RTAG, [])))
        for _ in range(LIMIT):
            link.turn(0.0)
            with suppress(BlockingIOError):
                received += peer.recv(1 << 20)
            if session.state is SessionState.READY:
                break
        body = bytes(8 << 20)
        session.do(SendBytes(body))
        for _ in range(LIMIT):
            link.turn(0.0)
            with suppress(BlockingIOError):
                received += peer.recv(1 << 20)
            if len(received) > len(body):
                break
    frames, rest = split(received)
    arrived = (frames[-1][-1], rest) == (body, b"")
    assert arrived, "the whole body"  # pytest would explain the difference of 8 MB for a minute


def a_reset_ends_the_session(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        mine = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
    mine.setblocking(False)
    session = Coordinator(Hello("v0.0.1", COOKIE, "a", "w1"), b"s", MemoryCoordinatorState(), count(FIRST_RTAG)).session
    session.do(StartSession())
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    with closing(SessionSocket(session, mine)) as link:
        for _ in range(20):
            link.turn(0.0)
        assert session.over


def a_silent_peer_ends_the_session(folder: Path) -> None:
    with ended_pair() as ends:
        ends.link.turn(0.0)
        ends.clock.now = PATIENCE[SessionState.HANDSHAKE] + 1
        ends.link.turn(0.0)
        assert ends.link.session.over


def the_last_bytes_are_sent(folder: Path) -> None:
    with ended_pair() as ends:
        ends.link.turn(0.0)
        ends.peer.recv(1 << 16)
        ends.link.session.fail("the reason")
        ends.link.close()
        assert split(ends.peer.recv(1 << 16))[0] == [("error", "the reason")]


def each_message_arrives_once(folder: Path) -> None:
    worker = ListeningWorker(life=7)
    try:
        with Source(worker.address, "C", "i1", patience=without_progress) as source:
            for number in range(20):
                source.send("a", number, b"a%d" % number)
    finally:
        worker.stop()
    assert [body for _, _, body in worker.kept] == [b"a%d" % number for number in range(20)]


def credits_are_kept(folder: Path) -> None:
    worker = ListeningWorker(each=1)
    source = Source(worker.address, "C", "i1")
    try:
        for number in range(20):
            source.offer("a", number, b"x")
        while source.waiting:
            source.tend(0.05)
    finally:
        source.abort()
        worker.stop()
    assert worker.least >= 0


def a_refused_stream_is_tried_again(folder: Path) -> None:
    worker = ListeningWorker()
    worker.refusals = 2
    try:
        with Source(worker.address, "C", "i1", patience=without_progress) as source:
            source.send("a", 1, b"a")
    finally:
        worker.stop()


class Saved:
    """A server of connectors, which keeps messages in memory."""

    def __init__(self) -> None:
        self.kept: list[int] = []
        self.points: dict[int, int] = {}
        self.errors: list[BaseException] = []
        registry = StreamRegistry(self.points.get)
        self.server = AcceptorServer("127.0.0.1", 0, COOKIE, registry, self._save, self.errors.append)
        self.server.start()

    def _save(self, stream: int, messages: Sequence[DataReceived]) -> None:
        self.kept += [message.message for message in messages]
        self.points[stream] = self.kept[-1]

    def close(self) -> None:
        self.server.close()


def acknowledged_messages_are_saved(folder: Path) -> None:
    with closing(Saved()) as saved, Connector() as connector:
        connector.connect(saved.server.address)
        for number in range(1, 10):
            connector.send((number, b"x"))
            connector.settle()
            assert saved.kept == list(range(1, number + 1))
        connector.end()
        assert not saved.errors
        assert saved.points == {STREAM: 9}


def a_connector_returns(folder: Path) -> None:
    with closing(Saved()) as saved, Connector() as connector:
        for number in range(1, 4):
            connector.connect(saved.server.address)
            connector.send((number, b"x"))
            connector.settle()
            connector.cut()
        assert saved.kept == [1, 2, 3]


def a_refused_stream_gets_an_ack(folder: Path) -> None:
    with closing(Saved()) as saved, Connector() as connector, Connector() as other:
        connector.connect(saved.server.address)
        with pytest.raises(ConnectionError, match="StreamRefused"):
            other.connect(saved.server.address)
        connector.cut()
        other.patience(without_progress)
        other.until(lambda: other.role.credits >= CREDITS)
        other.open()
        other.send((1, b"x"))
        other.end()
        assert saved.kept == [1]


def a_server_that_closes_asks_for_a_restart(folder: Path) -> None:
    with Connector() as connector:
        with closing(Saved()) as saved:
            connector.connect(saved.server.address)
        with pytest.raises(ConnectionError, match="asks for a restart"):
            connector.listen()


SERVER, SOCKET = "connector.sockets.session_server:SessionServer.", "connector.sockets.session_socket:SessionSocket."
CLIENT, STREAMS = "connector.sockets.source_client:ConnectorSource.", "connector.sockets.source_client:ClientStream."
ACCEPTOR = "connector.sockets.acceptor_server:ConnectorConversation."
BUGS: list[tuple[Callable[[Path], None], Bug]] = [
    (a_worker_returns, Bug("a worker is never released", SERVER + "_serve", "talk.release()", "pass")),
    (
        a_second_connection_leaves_the_first_alone,
        Bug(
            "a refused connection releases the worker",
            "connector.sockets.participant_server:WorkerConversation.release",
            "self._participant.is_approved and",
            "",
        ),
    ),
    (an_error_is_reported, Bug("an error of the state is lost", SERVER + "_serve", "self._failed(error)", "pass")),
    (
        an_interrupted_vote_is_not_stored,
        Bug(
            "an interrupted call counts as done",
            "connector.sockets.connector_sink:Call.run",
            "self._error = HostClosed()",
            "self._result = True",
        ),
    ),
    (
        large_bytes_arrive,
        Bug("unsent bytes are lost", SOCKET + "_exchange", "del self._out[:sent]", "self._out.clear()"),
    ),
    (a_reset_ends_the_session, Bug("a failed socket is ignored", SOCKET + "turn", "self.session.lost()", "pass")),
    (a_silent_peer_ends_the_session, Bug("patience is endless", SOCKET + "_exchange", "self.session.expire()", "pass")),
    (
        the_last_bytes_are_sent,
        Bug("the last bytes are lost", SOCKET + "close", "self._out += self.session.outgoing()", "pass"),
    ),
    (each_message_arrives_once, Bug("lost messages count as sent", STREAMS + "leave", "self.sent = 0", "pass")),
    (
        each_message_arrives_once,
        Bug("the committed message is sent again", STREAMS + "take", "[0][0] <= point", "[0][0] < point"),
    ),
    (credits_are_kept, Bug("credits are ignored", CLIENT + "_fill", "role.credits > 0 and", "")),
    (
        a_refused_stream_is_tried_again,
        Bug("a refused stream is forgotten", CLIENT + "_stream_event", "known.asked, known.retry_at = False,", "_ ="),
    ),
    (
        acknowledged_messages_are_saved,
        Bug("ACK needs no save", ACCEPTOR + "answer", "self._save(stream, messages)", "pass"),
    ),
    (a_connector_returns, Bug("streams are never released", ACCEPTOR + "release", "self._acceptor.release()", "pass")),
    (
        a_refused_stream_gets_an_ack,
        Bug("a refused stream waits for ever", ACCEPTOR + "wake", "self.session.do(CompleteCheckpoint())", "pass"),
    ),
    (
        a_server_that_closes_asks_for_a_restart,
        Bug("a server closes without RESTART", ACCEPTOR + "leave", "self.session.do(RestartPeer())", "pass"),
    ),
]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor_server, "_RETRY", 0.05)


@pytest.mark.parametrize("check", dict.fromkeys(check for check, _ in BUGS), ids=lambda check: check.__name__)
def test_a_check_passes(check: Callable[[Path], None], tmp_path: Path) -> None:
    check(tmp_path)


@pytest.mark.parametrize(("check", "bug"), BUGS, ids=lambda value: value.name if isinstance(value, Bug) else "")
def test_a_planted_bug_is_found(
    check: Callable[[Path], None], bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug.plant(monkeypatch)
    monkeypatch.setattr(sys.modules[__name__], "without_progress", 1.0)
    with pytest.raises((AssertionError, OSError, PenstockError, pytest.fail.Exception)):
        check(tmp_path)
