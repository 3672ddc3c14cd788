"""A partition that serves the stages of batches, which a driver commits by its manifest.

A stage takes records or productions. The last one of a turn writes the changelog. Whether the batch counts is known
when the next turn begins: its base is the state version of this turn, or an earlier one. Invariants:

- the local copy has the rows of a decided state version, at every moment and after every kill;
- a request of an older turn than the newest one changes nothing and is refused;
- a repeated request of a turn gets the answer of the first one, so a batch counts once;
- records are taken only if the offsets before them are those that the base has.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.cache import LmdbStore, PenstockError, TurnStore
from penstock.core import Resume
from penstock.partitions.exchange.exchange import exchange_of
from penstock.partitions.member import Member, Tables
from penstock.partitions.state.local_copy import LocalCopy
from penstock.partitions.state.turns import (
    BatchTurn,
    Blob,
    ChainLink,
    OldTurn,
    Report,
    SnapshotFile,
    StateVersion,
    Taken,
)
from penstock.recovery import Production, StoredProduction
from penstock.views import Counts

__all__ = ["OffsetMoved", "OffsetRange", "StatePartition", "TurnElsewhere"]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offset of the first record of a source partition in a batch, and the offset after the last one."""

    first: int
    resume: Resume


class TurnElsewhere(PenstockError):
    """A stage came to a process that has not done the stages before it. The driver repeats the batch.

    >>> print(TurnElsewhere(0, BatchTurn(1, 7, 0)))
    partition 0 has no stage before this one of turn (1, 7, 0); repeat the batch
    """

    def __init__(self, partition: int, turn: BatchTurn) -> None:
        super().__init__(partition, turn)
        self.partition, self.turn = partition, turn

    def __str__(self) -> str:
        return f"partition {self.partition} has no stage before this one of turn {tuple(self.turn)}; repeat the batch"


class OffsetMoved(PenstockError):
    """A batch does not begin at the offset that the state has. Records would be lost, or count twice.

    >>> print(OffsetMoved("orders", 100, 90))
    the batch begins at offset 100 of 'orders', and the state has 90; keep Spark's checkpoint and the state together
    """

    def __init__(self, source: str, first: int, known: int) -> None:
        super().__init__(source, first, known)
        self.source, self.first, self.known = source, first, known

    def __str__(self) -> str:
        return (
            f"the batch begins at offset {self.first} of {self.source!r}, and the state has {self.known}; "
            "keep Spark's checkpoint and the state together"
        )


class _Open:
    """The partition at work on its local copy. `version` is the decided state version."""

    def __init__(self, member: Member, copy: LmdbStore, store: TurnStore, version: StateVersion) -> None:
        self.member = member
        self.copy = copy
        self.store = store
        self.version = version
        self.links: list[ChainLink] = []  # changelogs of the undecided turn


class StatePartition:
    """One partition of a state, on one local copy. `start` makes its member on an open store."""

    def __init__(self, copy: LocalCopy, start: Callable[[TurnStore], Member]) -> None:
        self._copy = copy
        self._start = start
        self._lock = threading.Lock()
        self._open: _Open | None = None
        self._turn = BatchTurn(-1, -1, -1)
        self._answers: list[Taken | Report] = []  # of the stages of the newest turn
        self._received: list[tuple[int, int, str]] = []
        self._sent: list[tuple[int, int]] = []

    @property
    def partition(self) -> int:
        """Return the number of the partition."""
        return self._copy.partition

    def take(
        self,
        turn: BatchTurn,
        base: StateVersion,
        tables: Tables,
        offsets: Mapping[str, OffsetRange],
        kinds: Mapping[str, str],
    ) -> Taken:
        """Begin a turn on its base: apply the records of a batch and the offsets after them."""
        with self._lock:
            if self._begin(turn):
                own = self._stand(base)
                self._must_follow(own, offsets)
                sources = {source: own_range.resume for source, own_range in offsets.items()}
                counts = own.member.take(tables, sources, turn.batch + 1, kinds)
                self._answers.append(self._taken(own, list(map(_outcomes, counts))))
            return self._kept(0)

    def _begin(self, turn: BatchTurn) -> bool:
        """Begin a turn, unless it has begun. Refuse one that is older than the newest."""
        if turn < self._turn:
            raise OldTurn(turn, self._turn)
        if turn == self._turn and self._answers:
            return False
        self._turn = turn
        self._answers, self._received, self._sent = [], [], []
        return True

    def _kept(self, level: int) -> Taken:
        answer = self._answers[level]
        assert isinstance(answer, Taken), "only the last stage of a turn reports"
        return answer

    def _stand(self, base: StateVersion) -> _Open:
        """Decide the last turn, and return the partition at this state version."""
        own = self._open
        if own is not None and own.links and base.id == own.links[-1].id:
            own.store.keep_turn([self._copy.mark(own.links[-1])])
            own.version, own.links = base, []
            return own
        if own is not None and (own.version.id != base.id or own.store.changes()):
            self.close()
        if self._open is None:
            copy = self._copy.open(base)
            store = TurnStore(copy)
            self._open = _Open(self._start(store), copy, store, base)
        return self._open

    def _must_follow(self, own: _Open, offsets: Mapping[str, OffsetRange]) -> None:
        known = own.member.core.state.sources
        for source, own_range in offsets.items():
            if source in known and known[source] != own_range.first:
                raise OffsetMoved(source, own_range.first, known[source])

    def _taken(self, own: _Open, counts: list[list[int]]) -> Taken:
        """Return the end of a stage: its productions by receiver."""
        exchange, level = exchange_of(own.member.core), len(self._answers)
        execution = secrets.token_hex(16)
        by_receiver: dict[int, list[tuple[int, bytes]]] = {}
        for receiver, production in exchange.handed:
            by_receiver.setdefault(receiver, []).append((production.number, production.data))
        exchange.handed.clear()
        epoch = own.member.core.state.epoch
        blobs = [
            Blob(self._turn, level, self.partition, receiver, execution, epoch, productions)
            for receiver, productions in sorted(by_receiver.items())
        ]
        self._sent += [(level, blob.receiver) for blob in blobs]
        return Taken(execution, blobs, counts)

    def receive(self, turn: BatchTurn, level: int, blobs: Sequence[Blob]) -> Taken:
        """Apply the productions of the stage before, and return those that follow from them. `level` begins at 1."""
        with self._lock:
            own = self._at_level(turn, level)
            if own is not None:
                self._apply(own, blobs)
                self._answers.append(self._taken(own, []))
            return self._kept(level)

    def end(self, turn: BatchTurn, level: int, blobs: Sequence[Blob]) -> Report:
        """Apply the productions of the stage before, which leave none, and write the changelog of the turn."""
        with self._lock:
            own = self._at_level(turn, level)
            if own is not None:
                self._apply(own, blobs)
                last = self._taken(own, [])
                if last.blobs:
                    raise PenstockError(f"stage {level} of {tuple(turn)} has productions, and no stage follows it")
                self._answers.append(self._sealed(own, last))
            answer = self._answers[level]
            assert isinstance(answer, Report), "a stage is repeated as it was"
            return answer

    def _at_level(self, turn: BatchTurn, level: int) -> _Open | None:
        """Return the partition for a stage; None if the stage is done. Refuse one without the stages before it."""
        if turn < self._turn:
            raise OldTurn(turn, self._turn)
        if turn > self._turn or self._open is None or level > len(self._answers):
            raise TurnElsewhere(self.partition, turn)
        return None if level < len(self._answers) else self._open

    def _apply(self, own: _Open, blobs: Sequence[Blob]) -> None:
        level = len(self._answers) - 1
        for blob in sorted(blobs, key=lambda blob: blob.sender):
            if (blob.turn, blob.level, blob.receiver) != (self._turn, level, self.partition):
                raise TurnElsewhere(self.partition, blob.turn)
            owed = tuple(StoredProduction(number, data) for number, data in blob.productions)
            own.member.receive(Production(blob.sender, blob.epoch, owed))
            self._received.append((level, blob.sender, blob.execution))

    def _sealed(self, own: _Open, last: Taken) -> Report:
        """Write the changelog, and report the turn. The turn stays undecided."""
        link = ChainLink(self._turn.batch, secrets.token_hex(16))
        self._copy.write_changelog(own.version.id, link, own.store.changes())
        own.links = [link]
        state = own.member.core.state
        stages = [answer for answer in self._answers if isinstance(answer, Taken)]
        return Report(
            self._turn,
            self.partition,
            [*(stage.execution for stage in stages), last.execution],
            self._sent,
            self._received,
            own.links,
            state.position,
            stages[0].counts,
            dict(state.ts),
            dict(state.sources),
        )

    def snapshot(self) -> SnapshotFile | None:
        """Write a snapshot file of the last decided state version; None if there is none yet.

        The next batch goes on meanwhile.
        """
        with self._lock:
            own = self._open
            if own is None or not own.version.id:
                return None
            copy = own.copy
        return self._copy.write_snapshot(copy)

    def close(self) -> None:
        """Close the partition. An undecided turn is dropped."""
        own, self._open = self._open, None
        if own is not None:
            own.member.close()


def _outcomes(counts: Counts) -> list[int]:
    """Return the numbers of the records of a batch by outcome."""
    return [counts.applied, counts.equal, counts.late, counts.held, counts.rejected]
