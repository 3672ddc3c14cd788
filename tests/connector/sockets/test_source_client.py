"""The source over sockets: exactly once through lost connections, its checks, and its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.connector import ConnectorFault, Source, stream_id_of
from tests.connector.sockets.listening_worker import COOKIE, ListeningWorker

A, B = stream_id_of(b"a"), stream_id_of(b"b")


@pytest.fixture
def worker() -> Iterator[ListeningWorker]:
    made = ListeningWorker()
    yield made
    made.stop()


@pytest.mark.parametrize(("life", "restart"), [(0, False), (7, False), (7, True)], ids=["steady", "lost", "restarted"])
def test_each_message_arrives_once_and_in_order(life: int, restart: bool) -> None:
    worker = ListeningWorker(life, restart=restart)
    with Source(worker.address, COOKIE, "i1") as source:
        for number in range(20):
            source.send("a", number, b"a%d" % number)
            source.send("b", number * 2, b"b%d" % number)
    worker.stop()
    assert [body for stream, _, body in worker.kept if stream == A] == [b"a%d" % n for n in range(20)]
    assert [body for stream, _, body in worker.kept if stream == B] == [b"b%d" % n for n in range(20)]
    assert (worker.connections > 1) == bool(life)


def test_a_program_continues_after_the_last_committed_message(worker: ListeningWorker) -> None:
    with Source(worker.address, COOKIE, "i1") as source:
        assert source.committed("a") is None
        source.send("a", 4, b"x")
    with Source(worker.address, COOKIE, "i1") as source:
        assert source.committed("a") == 4
        source.send("a", 4, b"x")
        source.send("a", 5, b"y")
    assert worker.kept == [(A, 4, b"x"), (A, 5, b"y")]


def test_an_exception_closes_without_waiting(worker: ListeningWorker) -> None:
    source = Source(worker.address, COOKIE, "i1")

    def interrupted() -> None:
        with source:
            source.send("a", 1, b"x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert worker.kept == []
    with pytest.raises(ConnectorFault, match="the source is closed; make another one"):
        source.send("a", 2, b"x")


def test_another_cookie_is_final(worker: ListeningWorker) -> None:
    with pytest.raises(ConnectorFault, match="the worker refused: Bad cookie; compare both"):
        Source(worker.address, "other", "i1").send("a", 1, b"x")


def test_a_worker_that_is_not_there_is_named_with_the_reason(worker: ListeningWorker) -> None:
    worker_address = worker.address
    other = ListeningWorker()
    gone = other.address
    other.stop()
    assert gone != worker_address
    with pytest.raises(
        ConnectorFault, match=r"no progress for 0.1 s \(Connection refused\); see whether the worker runs"
    ):
        Source(gone, COOKIE, "i1", patience=0.1).send("a", 1, b"x")


@pytest.mark.parametrize(
    ("number", "body", "words"),
    [
        (3, b"", "message 3 is empty"),
        (2, b"x", "message 2 comes after 2; let ids increase"),
        (2**64 - 1, b"x", "is no id"),
        (3, bytes((16 << 20) + 1), "of 16,777,217 bytes; send between 1 and 16,777,216 bytes"),
    ],
    ids=["empty", "old", "huge id", "huge body"],
)
def test_a_wrong_message_is_refused(worker: ListeningWorker, number: int, body: bytes, words: str) -> None:
    with Source(worker.address, COOKIE, "i1") as source:
        source.send("a", 2, b"x")
        with pytest.raises(ConnectorFault, match=words):
            source.send("a", number, body)
    assert worker.kept == [(A, 2, b"x")]


def test_a_worker_that_forgot_committed_messages_is_named(worker: ListeningWorker) -> None:
    source = Source(worker.address, COOKIE, "i1")
    for number in range(3):
        source.send("a", number, b"x")
    while source.committed("a") != 2:
        pass
    worker.points.clear()
    source._disconnect("the test cuts the connection")
    with pytest.raises(ConnectorFault, match="has committed message None, and had committed 2 before"):
        source.send("a", 3, b"x")


@pytest.mark.parametrize("address", ["", "host", "host:", "host:x", "host:65536", ":-1"])
def test_a_wrong_address_is_refused(address: str) -> None:
    with pytest.raises(ConnectorFault, match="this is no address; write HOST:PORT"):
        Source(address, COOKIE, "i1")
