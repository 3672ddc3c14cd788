"""What writes a store, here or in another process: one protocol, and what can be wrong with a process that holds it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Protocol, Self

from penstock.cache import PenstockError, Tell
from penstock.core.upkeep.compaction import Compacted, Progress
from penstock.generations.refill import Refilled
from penstock.recovery import Checked, Repaired, Settled, Wanted
from penstock.spout import Record, Remembered, SpoutBatch
from penstock.views import App, Counts, Migrated

__all__ = ["HolderLost", "HolderSilent", "Writer", "as_equal", "parted"]


class HolderSilent(PenstockError):
    """The process that holds the store does not answer.

    >>> print(HolderSilent("state", "process 4711", 10.0))
    the store at state is held by process 4711, which has not answered for 10 s; see whether it is stopped or hangs, \
end it, then run this again
    """

    def __init__(self, path: str, holder: str, seconds: float, done: str = "") -> None:
        super().__init__(path, holder, seconds, done)
        self.path = path
        self.holder = holder
        self.seconds = seconds
        self.done = done

    def __str__(self) -> str:
        known = f" ({self.done})" if self.done else ""
        return (
            f"the store at {self.path} is held by {self.holder}, which has not answered for {self.seconds:g} s{known}; "
            "see whether it is stopped or hangs, end it, then run this again"
        )


class HolderLost(PenstockError):
    """The process that held the store ended while it had work in hand; `done` says what is committed.

    >>> print(HolderLost("state", "process 4711", "2 records are in, and what it was given last may be too"))
    process 4711, which held the store at state, ended before it answered: 2 records are in, and what it was given \
last may be too; run this again, what is done already changes nothing
    """

    def __init__(self, path: str, holder: str, done: str) -> None:
        super().__init__(path, holder, done)
        self.path = path
        self.holder = holder
        self.done = done

    def __str__(self) -> str:
        return (
            f"{self.holder}, which held the store at {self.path}, ended before it answered: {self.done}; run this "
            "again, what is done already changes nothing"
        )


class Writer(Protocol):
    """What writes a store, here or there: the writing half of an engine, every call durable when it returns."""

    @property
    def holder(self) -> str | None:
        """The process that the work is handed over to, in words; None where this one holds the store."""
        ...

    def put(self, table: str, doc: Any, ts: Any = None) -> Counts:
        """Put one document."""
        ...

    def delete(self, table: str, key: Any, ts: Any = None) -> Counts:
        """Delete the document with this key."""
        ...

    def put_many(self, table: str, docs: Any, strict: bool = False, batch: int | None = None) -> Counts:
        """Put many documents."""
        ...

    def post(self, records: Iterable[Record]) -> Counts:
        """Take records of any tables as one transaction, reposts among them before it; their offsets mean nothing."""
        ...

    def ingest(self, records: Iterable[Record], source: str, resume: int) -> Counts:
        """Take records of several tables, and the offset after them."""
        ...

    def load(
        self, table: str, batches: Iterable[SpoutBatch], long: bool | None = None
    ) -> Generator[tuple[SpoutBatch, Counts]]:
        """Take a spout's batches; gives each with its counts as it is durable."""
        ...

    def remembered(self, source: str) -> Remembered | None:
        """Where the store stands in a source."""
        ...

    def settle(self) -> None:
        """Wait until all that was taken before shows in every view."""
        ...

    def compact(self, progress: Progress | None = None) -> Compacted:
        """Give back what old versions take."""
        ...

    def repost(self, values: Mapping[str, Sequence[Any]], progress: Progress | None = None) -> list[Repaired]:
        """Post values of tables that may once have been told; what was repaired."""
        ...

    def restate(self, name: str, key_or_group: Any = None, progress: Progress | None = None) -> list[Repaired]:
        """Make right what views say; what was repaired."""
        ...

    def retry(self, wanted: Wanted, progress: Progress | None = None) -> Settled:
        """Try again what is in quarantine; what became of it."""
        ...

    def drop(self, wanted: Wanted, progress: Progress | None = None) -> Settled:
        """Let go of what is in quarantine; what became of it."""
        ...

    def check(self, fix: bool = False, progress: Progress | None = None) -> Checked:
        """Read all of the store and hold views against the documents; what is wrong."""
        ...

    def migrate(self, app: App, progress: Progress | None = None) -> Migrated:
        """Build what is left of views that are to be as this app has them; what changed."""
        ...

    def begin_refill(self, tables: Sequence[str], app: App) -> int:
        """Tables of this app are made anew elsewhere from now on; the seed that they are made with."""
        ...

    def refill(self, folder: str, progress: Tell | None = None) -> Refilled:
        """Take over what was made of them, in one transaction; where their sources go on."""
        ...

    def close(self) -> None:
        """Let go of the store, or of its holder."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object, /) -> None: ...


def parted(records: Iterable[Record]) -> tuple[list[Record], dict[str, list[Any]]]:
    """Records without the reposts among them, and the values that those post, by table."""
    rest: list[Record] = []
    values: dict[str, list[Any]] = {}
    for record in records:
        if record.repost:
            values.setdefault(record.table, []).append(record.doc)
        else:
            rest.append(record)
    return rest, values


def as_equal(values: Mapping[str, Sequence[Any]]) -> Counts:
    """How reposts count: they change no document."""
    return Counts(equal=sum(map(len, values.values())))
