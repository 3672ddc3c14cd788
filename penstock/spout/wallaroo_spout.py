"""Receive documents from Wallaroo workers: a sink that they connect to, with two-phase commit.

Each worker is a source partition. A durable step of a session is a batch.
"""

from __future__ import annotations

from penstock.connector import ParticipantRegistry, ParticipantServer
from penstock.spout.listening_spout import ListeningSpout
from penstock.spout.protocol import Contract
from penstock.spout.wallaroo_records import MessageFormat
from penstock.spout.wallaroo_state import StoredWorker

__all__ = ["WallarooSpout"]


class WallarooSpout(ListeningSpout):
    """The spout of one listening address. `name` is the part of its source partitions' names before the worker."""

    peers = "workers"

    def __init__(self, text: str, host: str, port: int, cookie: str, name: str, format: MessageFormat) -> None:
        self._format = format
        self._workers: dict[str, StoredWorker] = {}  # by worker: the state of its last session
        registry = ParticipantRegistry(self._open, self._retire)
        contract = Contract(True, "a worker keeps its data until it is committed here, by two-phase commit")
        super().__init__(text, name, contract, lambda: ParticipantServer(host, port, cookie, registry, self._failed))

    def lag(self) -> int | None:
        """Return the bytes that were received and are not committed."""
        return sum(worker.received - worker.committed for worker in list(self._workers.values()))

    def _open(self, worker: str) -> StoredWorker:
        """Return the stored state of a worker whose session begins."""
        assert self._recall is not None, "sessions begin after the spout"
        source = f"{self.source}/{worker}"
        known = self._recall(source)
        self._workers[worker] = StoredWorker(source, known, self._format, self._save, worker in self._workers)
        return self._workers[worker]

    def _retire(self, worker: str) -> None:
        self._open(worker).retire()
        del self._workers[worker]
