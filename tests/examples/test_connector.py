"""The examples of the connector protocol: a folder into a worker, and a worker into SQLite."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

from examples.connector.folder_source import send_folder
from examples.connector.sqlite_sink import SqliteSink
from tests.connector.reference.driver import Driver
from tests.connector.reference.frames import COOKIE
from tests.connector.reference.sink.cases import ABC, CUT, NEXT, VOTE, abort, commit, data, introduced, phase1
from tests.connector.sockets import listening_worker
from tests.connector.sockets.listening_worker import ListeningWorker


def test_a_folder_is_sent_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"1\n2\n3\n")
    (tmp_path / "b.txt").write_bytes(b"4\n")
    worker = ListeningWorker()
    assert send_folder(tmp_path, worker.address, listening_worker.COOKIE) == 4
    with (tmp_path / "a.txt").open("ab") as file:
        file.write(b"5\n")
    assert send_folder(tmp_path, worker.address, listening_worker.COOKIE) == 1
    worker.stop()
    assert sorted(body for _, _, body in worker.kept) == [b"1\n", b"2\n", b"3\n", b"4\n", b"5\n"]


def test_committed_bytes_are_rows_of_sqlite(tmp_path: Path) -> None:
    sink = SqliteSink(str(tmp_path / "out.db"), "0", COOKIE)
    thread = Thread(target=sink.serve)
    thread.start()
    try:
        driver = Driver(sink)  # type: ignore[arg-type]
        steps = introduced(1, ABC, VOTE, data(3, b"tail"), CUT) + introduced(2, commit("t1"), *NEXT)
        steps += introduced(2, data(5, b"x"), phase1("t3", (1, 5, 6)), abort("t3"))[3:]
        for connection, frame in steps:
            driver.step(connection, frame)
        driver.close()
    finally:
        sink.stop()
        thread.join()
    rows = "SELECT worker, offset, body FROM rows ORDER BY worker, offset"
    assert list(sink.db.execute(rows)) == [("w1", 0, b"abc"), ("w1", 3, b"de")]
    assert list(sink.db.execute("SELECT * FROM pieces")) == []
    sink.db.close()
