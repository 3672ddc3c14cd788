"""A session over a socket: a round of a coordinator, a lost peer, a silent peer, and the last bytes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import pytest

from penstock.connector import (
    FIRST_RTAG,
    PATIENCE,
    Coordinator,
    DecideTransaction,
    Disconnected,
    Hello,
    MemoryCoordinatorState,
    PrepareTransaction,
    ReadyToSend,
    SendBytes,
    SessionFailed,
    SessionSocket,
    SessionState,
    StartSession,
    VoteReceived,
)
from tests.connector.memory_sink import MemorySink
from tests.connector.reference.frames import COOKIE, encoded, split


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Ends:
    """Both ends of a connection: a coordinator, and the socket of its peer."""

    def __init__(self) -> None:
        mine, self.peer = socket.socketpair()
        mine.setblocking(False)
        self.clock = Clock()
        self.state = MemoryCoordinatorState()
        hello = Hello("v0.0.1", COOKIE, "app", "w1")
        session = Coordinator(hello, b"app-w-w1-id-7", self.state, count(FIRST_RTAG)).session
        session.do(StartSession())
        self.link = SessionSocket(session, mine, self.clock)


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.link.close()
    made.link.close()
    made.peer.close()


def test_a_round_of_a_coordinator(ends: Ends) -> None:
    sink, seen = MemorySink(), []
    link, session = ends.link, ends.link.session
    for _ in range(12):
        link.turn(0.0)
        ends.peer.setblocking(False)
        with suppress(BlockingIOError):
            ends.peer.sendall(sink.receive(1, ends.peer.recv(1 << 16)))
        for event in link.turn(0.0):
            seen.append(event)
            if isinstance(event, ReadyToSend):
                session.do(SendBytes(b"abc"))
                session.do(PrepareTransaction("t1"))
            elif isinstance(event, VoteReceived):
                session.do(DecideTransaction(True))
    assert seen == [ReadyToSend(0), VoteReceived("t1", True)]
    assert sink.output.published == {"w1": b"abc"}
    assert ends.state.committed == 3


def test_a_peer_that_closes_ends_the_session(ends: Ends) -> None:
    ends.link.turn(0.0)
    ends.peer.close()
    events = []
    while not ends.link.session.over:
        events += ends.link.turn(0.0)
    assert events == [Disconnected()]
    assert ends.link.reason in ("the peer closed the connection", "Connection reset by peer", "Broken pipe")


def test_a_silent_peer_ends_the_session_after_its_patience(ends: Ends) -> None:
    patience = PATIENCE[SessionState.HANDSHAKE]
    ends.link.turn(0.0)
    ends.clock.now = patience
    assert ends.link.turn(0.0) == []
    ends.clock.now = patience + 0.1
    assert [type(event) for event in ends.link.turn(0.0)] == [SessionFailed]
    assert ends.link.session.over


def test_the_reason_of_a_fault_is_sent_before_the_end(ends: Ends) -> None:
    ends.link.turn(0.0)
    ends.peer.recv(1 << 16)
    ends.peer.sendall(encoded(("ok", 1)))
    while not ends.link.session.over:
        ends.link.turn(0.0)
    ends.link.close()
    frames, _ = split(ends.peer.recv(1 << 16))
    assert frames == [("error", "OK grants 1 credits, and a worker needs 2")]
