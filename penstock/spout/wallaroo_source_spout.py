"""Receive documents from source connectors of the Wallaroo connector protocol, as the worker that they connect to.

Each stream is a source partition, whose offset is the point of reference and one. Invariants:

- documents and the point of their stream are one transaction, and the acknowledgement follows it;
- a stream that opens continues at its stored point, and messages up to it are dropped;
- in a store of several partitions, a message that some partition has is left out there. It is known by its id.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.connector import AcceptorServer, DataReceived, StreamRegistry
from penstock.spout.listening_spout import ListeningSpout
from penstock.spout.protocol import Contract, SpoutBatch
from penstock.spout.wallaroo_records import MessageFormat

__all__ = ["WallarooSourceSpout"]


class WallarooSourceSpout(ListeningSpout):
    """The spout of one listening address. `name` is the part of its source partitions' names before the stream."""

    peers = "source connectors"

    def __init__(self, text: str, host: str, port: int, cookie: str, name: str, format: MessageFormat) -> None:
        self._format = format
        self._offsets: dict[int, int] = {}  # by active stream: the offset after its last durable message
        registry = StreamRegistry(self._point)
        contract = Contract(True, "a connector sends again all messages that are not acknowledged")
        super().__init__(
            text, name, contract, lambda: AcceptorServer(host, port, cookie, registry, self._take, self._failed)
        )

    def lag(self) -> int | None:
        """Return the bytes that were received and are not committed."""
        with self._changed:
            return sum(len(line) for batch in self._waiting.values() for line in batch.records.lines)

    def _source(self, stream: int) -> str:
        """Return the name of a stream's source partition."""
        return f"{self.source}/{stream:016x}"

    def _point(self, stream: int) -> int | None:
        """Return the last message of a stream in every partition of the store, or None."""
        assert self._recall is not None, "sessions begin after the spout"
        known = self._recall(self._source(stream))
        self._offsets[stream] = 0 if known is None else known.offset
        return self._offsets[stream] - 1 if self._offsets[stream] else None

    def _take(self, stream: int, messages: Sequence[DataReceived]) -> None:
        """Save messages with the point after them."""
        found = self._format.take([message.body for message in messages])
        resume = messages[-1].message + 1
        self._save(
            SpoutBatch(
                found.batch,
                self._source(stream),
                self._offsets[stream],
                resume,
                raw=False,
                unit="message",
                skips=found.skips,
                refused=found.refused,
                received=found.received,
                offsets=[message.message for message in messages],
            )
        )
        self._offsets[stream] = resume
