"""A spout that listens, whose sessions run in threads of their own. The reader of the spout commits their batches.

Invariants:

- a session continues after a batch only once `committed` was called with it;
- a source partition has at most one batch on its way, so its batches are committed in their order;
- after `close` no session waits for a batch.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from penstock.cache import hidden
from penstock.connector import HostClosed, SessionServer
from penstock.spout.errors import SourceUnreadable
from penstock.spout.protocol import Contract, Recall, SpoutBatch

__all__ = ["ListeningSpout"]


class ListeningSpout:
    """The spout of one listening address. `name` is the part of its source partitions' names before the peer."""

    peers = "peers"
    """The programs that connect to it."""

    def __init__(self, text: str, name: str, contract: Contract, opened: Callable[[], SessionServer]) -> None:
        self.name = hidden(text)
        self.contract = contract
        self.ended = False
        self.source = name
        self._recall: Recall | None = None
        self._changed = threading.Condition()
        self._steps: deque[SpoutBatch] = deque()
        self._waiting: dict[str, SpoutBatch] = {}  # by source partition: the batch that is not durable yet
        self._closed = False
        self._error: BaseException | None = None
        try:
            self._server = opened()
        except OSError as error:
            raise SourceUnreadable(
                self.name, f"can't listen there: {error.strerror or error}", "choose another port, or end its user"
            ) from None
        self.address = self._server.address

    def begin(self, recall: Recall) -> None:
        """Accept connections, each of which continues at its stored state."""
        self._recall = recall
        self._server.start()

    def next_batch(self, limit: int, wait: float = 0.0) -> SpoutBatch | None:
        """Return the next batch of a session. It is one transaction, with any number of documents."""
        with self._changed:
            if not self._steps and self._error is None and wait:
                self._changed.wait_for(lambda: self._steps or self._error is not None or self._closed, wait)
            if self._error is not None:
                raise self._error
            return self._steps.popleft() if self._steps else None

    def lag(self) -> int | None:
        """Return the bytes that were received and are not committed."""
        return None

    def committed(self, batch: SpoutBatch) -> None:
        """Let the session of this batch continue."""
        with self._changed:
            if batch.source is not None and self._waiting.get(batch.source) is batch:
                del self._waiting[batch.source]
                self._changed.notify_all()

    def close(self) -> None:
        """End all sessions. Batches that are not durable never get an answer, so their peers repeat them."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._server.close()
        self.ended = True

    def _save(self, batch: SpoutBatch) -> None:
        """Hand a batch over, and wait until it is durable."""
        source = batch.source
        assert source is not None, "each peer has source partitions of its own"
        with self._changed:
            if self._closed:
                raise HostClosed
            assert source not in self._waiting, "a source partition has one session"
            self._waiting[source] = batch
            self._steps.append(batch)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._closed or self._waiting.get(source) is not batch)
            if self._waiting.get(source) is batch:
                raise HostClosed

    def _failed(self, error: BaseException) -> None:
        """End the reader of this spout with an error of a session's thread."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()
