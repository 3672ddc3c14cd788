"""Turns, state versions, and the messages between the tasks of a batch and the process of a partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from penstock.cache import PenstockError

__all__ = [
    "BatchTurn",
    "Blob",
    "ChainLink",
    "OldTurn",
    "Report",
    "SnapshotFile",
    "StateVersion",
    "Taken",
    "changelog_name",
    "snapshot_name",
]


class BatchTurn(NamedTuple):
    """One try of a driver to process a batch. Turns are ordered."""

    run: int
    batch: int
    attempt: int


class OldTurn(PenstockError):
    """A request of a turn that a newer one has replaced: its sender is a zombie, and must end.

    >>> print(OldTurn(BatchTurn(1, 7, 0), BatchTurn(2, 7, 0)))
    turn (1, 7, 0) is over since turn (2, 7, 0) began; end the process that sent this
    """

    def __init__(self, turn: BatchTurn, newest: BatchTurn) -> None:
        super().__init__(turn, newest)
        self.turn, self.newest = turn, newest

    def __str__(self) -> str:
        return f"turn {tuple(self.turn)} is over since turn {tuple(self.newest)} began; end the process that sent this"


class ChainLink(msgspec.Struct, frozen=True, array_like=True):
    """A changelog of a chain: its batch and its id."""

    batch: int
    id: str


class SnapshotFile(msgspec.Struct, frozen=True, array_like=True):
    """A snapshot file: the batch and the id of its state version, its bytes, and the CRC32C of them."""

    batch: int
    id: str
    bytes: int
    crc: int


class StateVersion(msgspec.Struct, frozen=True, array_like=True):
    """A state version of one partition: a snapshot file, or an empty store, and the changelogs after it."""

    snapshot: SnapshotFile | None = None
    chain: tuple[ChainLink, ...] = ()

    @property
    def id(self) -> str:
        """Return the id of the last changelog; "" for an empty store."""
        return self.ids[-1]

    @property
    def ids(self) -> list[str]:
        """Return the ids of the state versions from the snapshot file on."""
        return ["" if self.snapshot is None else self.snapshot.id, *(link.id for link in self.chain)]

    def after(self, links: Sequence[ChainLink]) -> StateVersion:
        """Return the state version after more changelogs."""
        return StateVersion(self.snapshot, (*self.chain, *links))

    def over(self, snapshot: SnapshotFile) -> StateVersion:
        """Return the same state version on a newer snapshot file. The file's state version is one of the chain."""
        return StateVersion(snapshot, self.chain[self.ids.index(snapshot.id) :])


class Blob(msgspec.Struct, frozen=True, array_like=True):
    """The productions of one execution for one receiver, by number and data.

    `execution` is the id of the execution that made them: a second one may make others.
    """

    turn: BatchTurn
    level: int
    sender: int
    receiver: int
    execution: str
    epoch: int
    productions: list[tuple[int, bytes]]


class Taken(msgspec.Struct, frozen=True, array_like=True):
    """The answer of a stage: the id of its execution, its productions, and the counts of its records."""

    execution: str
    blobs: list[Blob]
    counts: list[list[int]] = []


class Report(msgspec.Struct, frozen=True, array_like=True):
    """The end of a turn at one partition.

    `executions` has the id of each stage. `sent` has the (level, receiver) of each blob that it made, and `received`
    the (level, sender, execution) of each that it applied. `links` are its changelogs. `kinds` are the kinds of ts by
    table, and `sources` the offsets, both after the turn.
    """

    turn: BatchTurn
    partition: int
    executions: list[str]
    sent: list[tuple[int, int]]
    received: list[tuple[int, int, str]]
    links: list[ChainLink]
    position: int
    counts: list[list[int]]
    kinds: dict[str, str] = {}
    sources: dict[str, int] = {}


def changelog_name(partition: int, link: ChainLink) -> str:
    """Return the name of a changelog in its state.

    >>> changelog_name(3, ChainLink(41, "ab12"))
    'log/3/000000000041-ab12'
    """
    return f"log/{partition}/{link.batch:012}-{link.id}"


def snapshot_name(partition: int, snapshot: SnapshotFile) -> str:
    """Return the name of a snapshot file in its state."""
    return f"snapshot/{partition}/{snapshot.batch:012}-{snapshot.id}"
