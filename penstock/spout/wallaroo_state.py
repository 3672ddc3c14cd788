"""The durable state of one Wallaroo worker's stream, kept as the spout state of a source partition.

Each durable step of the protocol is a batch. A vote stores its messages in the spout state. A commit stores their
documents, with the spout state after it, in one transaction. Invariants:

- the offset of the source partition counts steps, so a store of several partitions recognizes a repeated step;
- a step comes again only with the same records. Its decision belongs to a stored vote, and a coordinator never changes
  a decision;
- the first session after a start stores the state anew unless a vote is open. So a step that reached only some
  partitions has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import msgspec

from penstock.connector import OpenVote
from penstock.gateway import TableBatch
from penstock.spout.protocol import Remembered, SpoutBatch
from penstock.spout.wallaroo_records import MessageFormat

__all__ = ["LARGEST_TRANSACTION", "StoredWorker", "WorkerRow"]

LARGEST_TRANSACTION = 256 << 20
"""The most bytes of a transaction, which are in memory until it ends. A larger one is aborted."""


class WorkerRow(msgspec.Struct, array_like=True, frozen=True):
    """The spout state of a worker. `bodies` are the messages that an open commit vote promises."""

    committed: int = 0
    name: bytes | None = None
    vote: OpenVote | None = None
    forced: bool = False
    bodies: tuple[bytes, ...] = ()

    @property
    def prepared(self) -> int:
        """The end of the open commit vote, or else `committed`."""
        return self.vote.end if self.vote is not None and self.vote.commit else self.committed


_decode_row = msgspec.msgpack.Decoder(WorkerRow).decode


class StoredWorker:
    """The state of one worker. `save` returns once a batch is durable, and raises if it can't become durable."""

    def __init__(
        self,
        source: str,
        known: Remembered | None,
        format: MessageFormat,
        save: Callable[[SpoutBatch], None],
        certain: bool,
    ) -> None:
        self._source = source
        self._step = 0 if known is None else known.offset
        self._row = WorkerRow() if known is None or not known.note else _decode_row(known.note)
        self._format = format
        self._save = save
        self._certain = certain  # every partition of the store has this state
        self._tail: list[bytes] = []  # messages after `prepared`
        self.received = self._row.prepared

    @property
    def prepared(self) -> int:
        return self._row.prepared

    @property
    def committed(self) -> int:
        return self._row.committed

    @property
    def vote(self) -> OpenVote | None:
        return self._row.vote

    @property
    def forced(self) -> bool:
        return self._row.forced

    def restore(self) -> None:
        self._cut()
        if not self._certain and self._row.vote is None:
            self._store(self._row, again=True)
        self._certain = True

    def retire(self) -> None:
        """Begin again at offset 0: the worker left its cluster. The documents of its commits stay.

        A transaction without a decision is kept under a name of its own.
        """
        if self._row.vote is not None:
            row = msgspec.msgpack.encode(self._row)
            self._save(SpoutBatch(TableBatch([]), f"{self._source}~{self._row.vote.transaction}", note=row, again=True))
        self._step = 0
        self._store(WorkerRow(), again=True)
        self._cut()

    def open_stream(self, name: bytes) -> None:
        if self._row.name != name:
            self._store(msgspec.structs.replace(self._row, name=name))

    def append(self, body: bytes) -> None:
        if self.received + len(body) - self.committed > LARGEST_TRANSACTION:
            self.force_abort(f"a transaction of more than {LARGEST_TRANSACTION:,} bytes")
        else:
            self._tail.append(body)
            self.received += len(body)

    def force_abort(self, reason: str) -> None:
        if not self.forced:
            self._store(msgspec.structs.replace(self._row, forced=True))

    def prepare(self, vote: OpenVote) -> bool:
        taken = self._messages_until(vote.end) if vote.commit else None
        if taken is None:
            vote = msgspec.structs.replace(vote, commit=False)
        bodies = tuple(self._tail[: taken or 0])
        self._store(msgspec.structs.replace(self._row, vote=vote, forced=False, bodies=bodies))
        del self._tail[: len(bodies)]
        return vote.commit

    def commit(self) -> None:
        row = msgspec.structs.replace(self._row, committed=self.prepared, vote=None, bodies=())
        self._store(row, self._row.bodies)

    def rollback(self) -> None:
        self._store(msgspec.structs.replace(self._row, vote=None, bodies=()))
        self._cut()

    def note_list(self, transactions: tuple[str, ...]) -> None:
        """Do nothing: the list follows from the stored vote."""

    def note_unknown(self, transaction: str, commit: bool) -> None:
        """Do nothing: a decision that comes a second time is usual after a lost connection."""

    def _cut(self) -> None:
        self._tail.clear()
        self.received = self.prepared

    def _messages_until(self, end: int) -> int | None:
        """Return the number of messages before an offset, or None if it is within a message."""
        ends = accumulate(map(len, self._tail), initial=self.committed)
        return next((n for n, at in enumerate(ends) if at == end), None)

    def _store(self, row: WorkerRow, bodies: Sequence[bytes] = (), again: bool = False) -> None:
        """Save a step, and only then remember it."""
        found = self._format.take(bodies)
        resume = self._step if again else self._step + 1
        self._save(
            SpoutBatch(
                found.batch,
                self._source,
                self._step,
                resume,
                msgspec.msgpack.encode(row),
                again,
                raw=False,
                unit="message",
                skips=found.skips,
                refused=found.refused,
                received=found.received,
            )
        )
        self._row, self._step = row, resume
