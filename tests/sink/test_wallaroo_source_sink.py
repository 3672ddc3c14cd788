"""A view as a source connector: the worker's point decides, credits are kept, and each refusal names the next step."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest

from penstock.connector import ConnectorFault, stream_id_of
from penstock.connector.sockets.socket_address import address_of
from penstock.sink import SinkBusy, SinkTaken, WallarooSourceSink, wallaroo_source_log, wallaroo_source_sink
from penstock.sink.change_lines import change_line
from tests.connector.sockets.listening_worker import COOKIE, ListeningWorker
from tests.sink.wallaroo_source import changes_at, give
from tests.sink.wallaroo_source import opened as opened_at
from tests.spout.wallaroo_worker import free_port

STREAM = stream_id_of(b"c1/by name")


def opened(folder: Path, address: str, cookie: str = COOKIE, name: str = "c1") -> WallarooSourceSink:
    return opened_at(folder, address_of(address), name, cookie)


def bodies(end: int, first: int = 1) -> list[bytes]:
    """Return the messages of positions."""
    own = (one for position in range(first, end + 1) for one in changes_at(position))
    return [(json.dumps(change_line(one, "value")) + "\n").encode() for one in own]


def settle(sink: WallarooSourceSink) -> None:
    """Tend until the worker has acknowledged all messages."""
    until(sink, lambda: not sink._open.waiting)


def until(sink: WallarooSourceSink, done: Callable[[], bool]) -> None:
    while not done():
        sink.tend(0.05)


@pytest.fixture
def worker() -> Iterator[ListeningWorker]:
    made = ListeningWorker(each=1)
    yield made
    made.stop()


@pytest.mark.parametrize(("life", "restart"), [(0, False), (7, False), (7, True)], ids=["steady", "lost", "restarted"])
def test_each_message_arrives_once_and_in_order(life: int, restart: bool, tmp_path: Path) -> None:
    worker = ListeningWorker(life, restart=restart)
    with closing(opened(tmp_path, worker.address)) as sink:
        assert sink.begin() is None
        give(sink, 0, 20)
        sink.finish()
    worker.stop()
    assert [body for _, _, body in worker.kept] == bodies(20)
    assert [(stream, number) for stream, number, _ in worker.kept] == [(STREAM, n + 1) for n in range(len(bodies(20)))]
    assert (worker.connections > 1) == bool(life)
    assert worker.least >= 0, "credits are kept"


@pytest.mark.parametrize("point", [None, 1, 5])
def test_a_worker_with_an_older_point_gets_the_messages_after_it(
    worker: ListeningWorker, tmp_path: Path, point: int | None
) -> None:
    with closing(opened(tmp_path, worker.address)) as sink:
        sink.begin()
        give(sink, 0, 10)
        settle(sink)
        worker.restore(STREAM, point)
        sink._open._disconnect("the test cuts the connection")
        before = worker.connections
        until(sink, lambda: worker.connections > before)
        settle(sink)
        give(sink, 10, 12)
        sink.finish()
    assert [number for _, number, _ in worker.kept] == [n + 1 for n in range(len(bodies(12)))]
    assert [body for _, _, body in worker.kept] == bodies(12)


def test_the_next_run_continues_at_the_position_and_after_the_point(worker: ListeningWorker, tmp_path: Path) -> None:
    with closing(opened(tmp_path, worker.address)) as sink:
        sink.begin()
        give(sink, 0, 5)
    with closing(opened(tmp_path, worker.address)) as sink:
        assert sink.begin() == 5
        give(sink, 5, 9)
        sink.finish()
    assert [body for _, _, body in worker.kept] == bodies(9)


def test_a_point_before_the_kept_messages_is_refused(
    worker: ListeningWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wallaroo_source_log, "_LONG", 1)
    with closing(opened(tmp_path, worker.address)) as sink:
        sink.begin()
        give(sink, 0, 6)
        settle(sink)
        give(sink, 6, 12)
        settle(sink)
        sink._open._disconnect("the test cuts the connection")
        worker.restore(STREAM, 1)
        words = (
            r"view 'by name': the worker asks for messages after 1, which it had acknowledged, and "
            r"this store has those from \d+ on; restore the newest state of the worker, or give this sink another name="
        )
        with pytest.raises(SinkTaken, match=words):
            until(sink, lambda: False)


def test_a_point_of_another_store_is_refused(worker: ListeningWorker, tmp_path: Path) -> None:
    worker.points[STREAM] = 7
    with closing(opened(tmp_path, worker.address)) as sink:
        sink.begin()
        words = (
            "has message 7 of stream 'c1/by name', and this store has sent 0 messages: .* give this sink another name="
        )
        with pytest.raises(SinkTaken, match=words):
            until(sink, lambda: False)
    assert worker.kept == []


def test_a_wrong_cookie_is_named(worker: ListeningWorker, tmp_path: Path) -> None:
    with closing(opened(tmp_path, worker.address, "other")) as sink:
        sink.begin()
        words = "wallaroo.source://there: the worker refused: Bad cookie; compare both configurations"
        with pytest.raises(SinkTaken, match=words):
            until(sink, lambda: False)


def test_a_worker_that_comes_later_gets_all_messages(tmp_path: Path) -> None:
    said: list[str] = []
    port = free_port()
    with closing(opened(tmp_path, f"127.0.0.1:{port}")) as sink:
        sink.say = said.append
        sink.begin()
        give(sink, 0, 5)
        for _ in range(3):
            sink.tend(0.05)
        worker = ListeningWorker(each=1, port=port)
        settle(sink)
        sink.finish()
    worker.stop()
    assert [body for _, _, body in worker.kept] == bodies(5)
    assert said == [
        "wallaroo+source://there: Connection refused; waiting for the worker",
        "wallaroo+source://there: the worker answers again",
    ]


def test_a_worker_that_never_comes_ends_the_run_with_the_next_step(tmp_path: Path) -> None:
    with (
        closing(opened(tmp_path, f"127.0.0.1:{free_port()}")) as sink,
        mock.patch.object(wallaroo_source_sink, "_LAST", 0.1),
    ):
        sink.begin()
        sink.stopped = lambda: True
        give(sink, 0, 5)
        words = "has not acknowledged .* bytes of view 'by name': Connection refused; the next run sends them"
        with pytest.raises(ConnectorFault, match=words):
            sink.finish()


def test_a_refused_stream_is_named_and_tried_again(worker: ListeningWorker, tmp_path: Path) -> None:
    said: list[str] = []
    worker.refusals = 2
    with closing(opened(tmp_path, worker.address)) as sink:
        sink.say = said.append
        sink.begin()
        give(sink, 0, 5)
        settle(sink)
        sink.finish()
    assert [body for _, _, body in worker.kept] == bodies(5)
    assert said[0].endswith(
        "the worker refused stream 'c1/by name' for now: another connection may have it; waiting for the worker"
    )


def test_a_full_queue_waits_for_acknowledgements(
    worker: ListeningWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wallaroo_source_sink, "MOST_WAITING", 300)
    with closing(opened(tmp_path, worker.address)) as sink:
        sink.begin()
        for position in range(1, 31):
            give(sink, position - 1, position)
            assert sink._open.waiting <= 300
        sink.finish()
    assert [body for _, _, body in worker.kept] == bodies(30)


def test_a_change_that_is_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wallaroo_source_sink, "LARGEST_MESSAGE", 20)
    with closing(opened(tmp_path, "127.0.0.1:9")) as sink:
        sink.begin()
        words = "view 'by name': a change of group 1 has .* bytes, too many for a message; send this view to a file"
        with pytest.raises(SinkTaken, match=words):
            give(sink, 0, 1)


def test_a_bad_name_and_a_second_process_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SinkTaken, match="'two words' is no name of a connector; add name= with letters"):
        opened(tmp_path, "127.0.0.1:9", name="two words").begin()
    sink = opened(tmp_path, "127.0.0.1:9")
    asked: list[str] = []

    def other(what: str) -> str:
        asked.append(what)
        return "process 4711"

    sink.claim = other
    with pytest.raises(SinkBusy, match="process 4711 writes it"):
        sink.begin()
    assert asked == ["wallaroo+source 127.0.0.1:9 c1/by name"]
    sink.tend()
    sink.finish()
    sink.close()
