"""The examples of the connector protocol, with a worker that accepts sources."""

from __future__ import annotations

from pathlib import Path

from examples.connector.folder_source import send_folder
from tests.connector.sockets.listening_worker import COOKIE, ListeningWorker


def test_a_folder_is_sent_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"1\n2\n3\n")
    (tmp_path / "b.txt").write_bytes(b"4\n")
    worker = ListeningWorker()
    assert send_folder(tmp_path, worker.address, COOKIE) == 4
    with (tmp_path / "a.txt").open("ab") as file:
        file.write(b"5\n")
    assert send_folder(tmp_path, worker.address, COOKIE) == 1
    worker.stop()
    assert sorted(body for _, _, body in worker.kept) == [b"1\n", b"2\n", b"3\n", b"4\n", b"5\n"]
