"""The sink over sockets: shared cases, refusals, errors of the program, and its end."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from penstock.connector import ConnectorFault, LogSummary, Sink
from penstock.connector.sockets.state_folder import StateFolder
from tests.connector.reference.driver import Driver, fenced, played
from tests.connector.reference.frames import COOKIE, encoded, split
from tests.connector.reference.judgement import differences, judged
from tests.connector.reference.sink.cases import ABC, CASES, VOTE, Case, commit, hello, introduced, on
from tests.connector.sockets.listening_sink import ListeningSink
from tests.waiting import PATIENCE

NAMES = {
    "round",
    "refused",
    "second connection",
    "unknown tag",
    "wrong cookie",
    "data between the phases, then commit",
    "offsets of notify",
    "open vote",
    "gap, then a kill",
    "kill between the phases",
    "kill with an abort vote open",
    "cut in a frame",
}
CHOSEN = [case for case in CASES if case.name in NAMES]


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[ListeningSink]:
    made = ListeningSink(tmp_path / "state")
    yield made
    made.stop()


def test_the_chosen_cases_exist() -> None:
    assert {case.name for case in CHOSEN} == NAMES


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
def test_a_case_has_the_outcome_of_the_oracle(case: Case, tmp_path: Path) -> None:
    sink = ListeningSink(tmp_path / "state", case.refused)
    try:
        found = played(case.history, sink, pieces=7)
    finally:
        sink.stop()
    history = fenced(case.history)
    assert differences(history, judged(history, case.refused), found) == []


def test_the_reason_of_an_error_arrives_before_the_end_of_the_connection(sink: ListeningSink) -> None:
    with socket.create_connection(sink.address, PATIENCE) as peer:
        peer.sendall(encoded(hello(cookie="x")) + bytes(100_000))
        peer.shutdown(socket.SHUT_WR)
        received = b""
        while data := peer.recv(1 << 16):
            received += data
    assert split(received)[0] == [("error", "Bad cookie")]


def test_an_error_of_the_program_ends_its_session_only(
    sink: ListeningSink, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: object) -> None:
        raise OSError("the disk is full")

    driver = Driver(sink)
    for connection, frame in introduced(1, worker="w2"):
        driver.step(connection, frame)
    monkeypatch.setattr(sink.sink, "write", write)
    with caplog.at_level(logging.ERROR):
        answers = [driver.step(connection, frame) for connection, frame in introduced(2, ABC)]
    monkeypatch.undo()
    assert answers[-1].closed
    assert "write of the sink: the disk is full; the worker repeats it" in caplog.text
    assert driver.step(1, ("eos", 1)).replies == [("ack", 1, [(1, 0)])]
    history = introduced(3, ABC, VOTE, commit("t1"))
    assert [driver.step(*step).replies for step in history][-2] == [("vote", "t1", True)]
    driver.close()
    assert sink.committed("w1") == b"abc"


def test_a_state_survives_the_end_of_the_sink(sink: ListeningSink) -> None:
    assert played(introduced(1, ABC, VOTE), sink).open == {"w1": ["t1"]}
    sink.restart()
    assert played(on(1, hello(), commit("t1")), sink).committed == {"w1": b"abc"}


def test_an_interrupt_within_a_method_ends_the_sink_and_stores_no_vote(tmp_path: Path) -> None:
    class Interrupted(Sink):
        def prepare(self, worker: str, txn: str) -> bool:
            raise KeyboardInterrupt

    made = Interrupted("0", COOKIE, folder=str(tmp_path / "state"))
    received: list[bytes] = []

    def play() -> None:
        with socket.create_connection(made.address, PATIENCE) as peer:
            peer.sendall(b"".join(encoded(frame) for _, frame in introduced(1, ABC, VOTE)))
            while data := peer.recv(1 << 16):
                received.append(data)

    thread = Thread(target=play)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        made.serve()
    thread.join()
    assert "vote" not in [frame[0] for frame in split(b"".join(received))[0]]
    folder = StateFolder(str(tmp_path / "state"))
    assert LogSummary.of(folder.log("w1").records).vote is None
    folder.close()


def test_a_second_sink_with_the_folder_is_refused(tmp_path: Path) -> None:
    with (
        Sink("0", COOKIE, folder=str(tmp_path / "state")),
        pytest.raises(ConnectorFault, match="another process has this folder"),
    ):
        Sink("0", COOKIE, folder=str(tmp_path / "state"))


def test_a_used_port_is_named(sink: ListeningSink, tmp_path: Path) -> None:
    with pytest.raises(ConnectorFault, match=r"Address already in use.*; choose another port"):
        Sink(str(sink.address[1]), COOKIE, folder=str(tmp_path / "other"))


def test_a_sink_listens_on_loopback_unless_told_otherwise(sink: ListeningSink) -> None:
    assert sink.address[0] == "127.0.0.1"


def test_a_closed_sink_does_not_serve_again(tmp_path: Path) -> None:
    made = Sink("0", COOKIE, folder=str(tmp_path / "state"))
    made.close()
    made.close()
    made.stop()
    with pytest.raises(ConnectorFault, match="it is closed; make another one"):
        made.serve()
