"""A partition at work beside others: what it takes, what it owes them, and how far it stands.

The same whether they are in one process, in processes of their own, or in the simulator: who carries productions is
not said here. Invariant: all that a member says it has is durable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.cache import BatchRejected
from penstock.engine.catalog import Resume, read_note
from penstock.engine.documents import Batch
from penstock.engine.parting import Parting, clear, receive
from penstock.recovery import Production, Sent, owed_after, pending
from penstock.views import Counts

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

MOST = 4 << 20
"""Bytes of productions that are sent at once, about."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a member is.

    By partition the numbers that it gave last, and that it took last; its sources; how much is stored that is owed.
    """

    sent: Sent
    taken: Sent
    sources: dict[str, int]
    epoch: int
    pending: int

    def data(self) -> list[Any]:
        """The same as plain data."""
        return [list(self.sent.items()), list(self.taken.items()), self.sources, self.epoch, self.pending]

    @classmethod
    def of_data(cls, data: list[Any]) -> Standing:
        """The standing that this is the data of."""
        sent, taken, *rest = data
        return cls(dict(map(tuple, sent)), dict(map(tuple, taken)), *rest)


class Member:
    """One partition, by its open engine."""

    def __init__(self, engine: Engine) -> None:
        parting = engine._core.parting
        assert parting is not None, "it was opened as a partition"
        self.engine = engine
        self.here = parting.here
        self._core = engine._core
        self._parting: Parting = parting

    @property
    def others(self) -> Sequence[int]:
        """The partitions that it may owe something."""
        return self._parting.others

    def take(
        self, tables: dict[str, list[Batch]], sources: Mapping[str, Resume] | None, strict: bool, dry: bool = False
    ) -> Counts:
        """One transaction of records that it owns, and the offsets after them; with `dry` it is only tried."""
        counts, _ = self.engine._write_each(tables, dict(sources or {}) or None, strict, dry)
        if strict and counts.rejected:
            raise BatchRejected(0, counts.rejections)
        return counts

    def receive(self, production: Production) -> int:
        """Take what another one sent; the number up to which all that it sent is durable here."""
        with self.engine._lock:
            return receive(self._core, production)

    def owed(self, other: int) -> Production | None:
        """What another one is owed and has not said to have."""
        number = self._parting.arrived.get(other, 0)
        if self._core.state.sent.get(other, 0) <= number:
            return None
        with self._core.store.read() as reader:
            found = owed_after(reader, other, number, MOST)
        return Production(self.here, self._core.state.epoch, found) if found else None

    def arrived(self, other: int, number: int) -> None:
        """Another one has all up to this number."""
        arrived = self._parting.arrived
        arrived[other] = max(number, arrived.get(other, 0))

    def clear(self) -> None:
        """Delete what has arrived."""
        with self.engine._lock:
            clear(self._core)

    def standing(self) -> Standing:
        """How far it is; what has arrived is deleted first."""
        with self.engine._lock:
            clear(self._core)
            state = self._core.state
            taken = {other: number for other, (_, number) in state.taken.items()}
            with self._core.store.read() as reader:
                return Standing(dict(state.sent), taken, dict(state.sources), state.epoch, pending(reader))

    def note(self, source: str) -> bytes:
        """What the spout of a source noted with its last batch."""
        with self._core.store.read() as reader:
            return read_note(reader, source)

    def compact(self) -> dict[str, Any]:
        """Give back what old versions take."""
        return self.engine.compact().data()

    def close(self) -> None:
        """Let go of the partition."""
        self.engine.close()
