"""A listening sink in a thread of the test, which the driver of the reference tests can play against."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

from penstock.connector import Sink
from tests.connector.memory_sink import Kills, MemoryOutput
from tests.connector.reference.frames import COOKIE


class OutputSink(Sink):
    """A sink whose four methods keep the bytes in memory."""

    def __init__(self, output: MemoryOutput, folder: Path) -> None:
        self.output = output
        super().__init__("0", COOKIE, folder=str(folder))

    def write(self, worker: str, offset: int, body: bytes) -> None:
        self.output.write(worker, offset, body)

    def prepare(self, worker: str, txn: str) -> bool:
        return self.output.prepare(worker, txn, 0)

    def commit(self, worker: str, txn: str, end: int) -> None:
        self.output.commit(worker, txn, end)

    def rollback(self, worker: str, end: int) -> None:
        self.output.rollback(worker, end)


class ListeningSink:
    """A sink that listens in a thread, and its restarts."""

    def __init__(self, folder: Path, refused: frozenset[str] = frozenset()) -> None:
        self.output = MemoryOutput(Kills(), refused)
        self._folder = folder
        self._start()

    def _start(self) -> None:
        self.sink = OutputSink(self.output, self._folder)
        self._thread = Thread(target=self.sink.serve)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        return self.sink.address

    def restart(self) -> None:
        """Start the sink again, as after a power loss."""
        self.stop()
        self.output.lose()
        self._start()

    def stop(self) -> None:
        """End the sink."""
        self.sink.stop()
        self._thread.join()

    def wait(self) -> int:
        raise AssertionError("the sink does not end by itself")

    def committed(self, worker: str) -> bytes:
        return self.output.published.get(worker, b"")
