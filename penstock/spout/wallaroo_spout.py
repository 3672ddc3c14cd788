"""Receive documents from Wallaroo workers: a sink that they connect to, with two-phase commit.

Each worker is a source partition. Sessions run in threads of their own. A durable step of a session is a batch, which
the reader of this spout commits. Invariants:

- a session continues with a step's answer only after `committed` was called with its batch;
- a worker has at most one step on its way, so its steps are committed in their order;
- after `close` no session waits for a step.
"""

from __future__ import annotations

import threading
from collections import deque

from penstock.cache import hidden
from penstock.connector import HostClosed, ParticipantRegistry, ParticipantServer
from penstock.spout.errors import SourceUnreadable
from penstock.spout.protocol import Contract, Recall, SpoutBatch
from penstock.spout.wallaroo_records import MessageFormat
from penstock.spout.wallaroo_state import StoredWorker

__all__ = ["WallarooSpout"]


class WallarooSpout:
    """The spout of one listening address. `name` is the part of its source partitions' names before the worker."""

    def __init__(self, text: str, host: str, port: int, cookie: str, name: str, format: MessageFormat) -> None:
        self.name = hidden(text)
        self.contract = Contract(True, "a worker keeps its data until it is committed here, by two-phase commit")
        self.ended = False
        self.source = name
        self._format = format
        self._recall: Recall | None = None
        self._changed = threading.Condition()
        self._steps: deque[SpoutBatch] = deque()
        self._waiting: dict[str, SpoutBatch] = {}  # by source partition: the step that is not durable yet
        self._workers: dict[str, StoredWorker] = {}  # by worker: the state of its last session
        self._closed = False
        self._error: BaseException | None = None
        registry = ParticipantRegistry(self._open, self._retire)
        try:
            self._server = ParticipantServer(host, port, cookie, registry, self._failed)
        except OSError as error:
            raise SourceUnreadable(
                self.name, f"can't listen there: {error.strerror or error}", "choose another port, or end its user"
            ) from None
        self.address = self._server.address

    def begin(self, recall: Recall) -> None:
        """Accept workers, each of which continues at its stored state."""
        self._recall = recall
        self._server.start()

    def next_batch(self, limit: int, wait: float = 0.0) -> SpoutBatch | None:
        """Return the next step of a worker. It is one transaction, with any number of documents."""
        with self._changed:
            if not self._steps and self._error is None and wait:
                self._changed.wait_for(lambda: self._steps or self._error is not None or self._closed, wait)
            if self._error is not None:
                raise self._error
            return self._steps.popleft() if self._steps else None

    def lag(self) -> int | None:
        """Return the bytes that were received and are not committed."""
        return sum(worker.received - worker.committed for worker in list(self._workers.values()))

    def committed(self, batch: SpoutBatch) -> None:
        """Let the session of this step continue."""
        with self._changed:
            if batch.source is not None and self._waiting.get(batch.source) is batch:
                del self._waiting[batch.source]
                self._changed.notify_all()

    def close(self) -> None:
        """End all sessions. Steps that are not durable never get an answer, so their workers repeat them."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._server.close()
        self.ended = True

    def _save(self, batch: SpoutBatch) -> None:
        """Hand a step over, and wait until it is durable."""
        source = batch.source
        assert source is not None, "each worker is a source partition"
        with self._changed:
            if self._closed:
                raise HostClosed
            assert source not in self._waiting, "a worker has one session"
            self._waiting[source] = batch
            self._steps.append(batch)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._closed or self._waiting.get(source) is not batch)
            if self._waiting.get(source) is batch:
                raise HostClosed

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

    def _failed(self, error: BaseException) -> None:
        """End the reader of this spout with an error of a session's thread."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()
