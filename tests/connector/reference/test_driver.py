"""The driver plays histories against a sink on loopback that runs the oracle, so the two outcomes are equal."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.connector.reference.driver import fenced, played
from tests.connector.reference.frames import encoded, split
from tests.connector.reference.histories import histories, refused
from tests.connector.reference.judgement import Step, differences, judged
from tests.connector.reference.oracle import Oracle
from tests.connector.reference.sink.cases import CASES, Case
from tests.connector.reference.sink.test_planted_bugs import MISTAKES, planted

# One case for each kind of end: a fault, a cut, a kill, and a second connection.
SOCKETS = {"round", "no tag", "second connection", "cut in a frame", "kill between the phases", "error of a worker"}


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, oracle: Oracle) -> None:
        self.oracle, self.lock, self.numbers = oracle, threading.Lock(), count(1)
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(socketserver.BaseRequestHandler):
    """One connection. It asks the oracle frame by frame."""

    def handle(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with server.lock:
            number, oracle, rest = next(server.numbers), server.oracle, b""
        while number not in oracle.closed and (received := self.request.recv(1 << 16)):
            frames, rest = split(rest + received)
            with server.lock:
                replies = [reply for frame in frames for reply in oracle.step(number, frame)]
            self.request.sendall(b"".join(encoded(reply) for reply in replies if reply != ("closed",)))
        with server.lock:
            oracle.step(number, ("cut", b""))


class _OracleSink:
    """A sink whose every answer is the oracle's."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.server = _Server(oracle)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self) -> _OracleSink:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", int(self.server.server_address[1])

    def restart(self) -> None:
        with self.server.lock:
            self.oracle.step(0, ("kill",))

    def wait(self) -> int:
        raise AssertionError("this sink never ends by itself")

    def committed(self, worker: str) -> bytes:
        state = self.oracle.workers.get(worker)
        return state.data[: state.committed] if state else b""


def wrong(history: list[Step], make: Callable[..., Any] = Oracle, pieces: int | None = None) -> list[str]:
    """Return the differences between a sink that runs an oracle and the right oracle."""
    steps = fenced(history)
    with _OracleSink(make(refused(history))) as sink:
        return differences(steps, judged(steps, refused(history)), played(history, sink, pieces))


@pytest.mark.parametrize("case", [case for case in CASES if case.name in SOCKETS], ids=lambda case: case.name)
def test_a_case_has_one_outcome_with_and_without_sockets(case: Case) -> None:
    assert wrong(case.history, pieces=1) == []


@settings(max_examples=6)
@given(histories(most=12), st.sampled_from([None, 333]))
def test_a_drawn_history_has_one_outcome_with_and_without_sockets(history: list[Step], pieces: int | None) -> None:
    assert wrong(history, pieces=pieces) == []


def test_the_driver_finds_mistakes_of_a_sink() -> None:
    [history] = [case.history for case in CASES if case.name == "data between the phases, then abort"]
    for name in ("an abort keeps the bytes", "an abort commits", "a commit keeps the transaction open"):
        assert wrong(history, planted(*MISTAKES[name])) != [], name
