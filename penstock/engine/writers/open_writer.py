"""A writer of a store wherever that is held: here, where nobody holds it, or else by the process that does.

`writer(path, app)` opens the store; where another process writes it already, its work is handed over to that one, and
what a call returns is committed there. A command is written once, for either. Invariants:

- a call returns what was committed, or raises; nothing is said to be done that may be lost;
- who holds the store is never waited for without a bound: one that is silent for `patience` seconds is `HolderSilent`,
  one that ends is `HolderLost`, and both say what is known to be committed;
- records that are put again change nothing, so that after either the same call can be made once more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Literal, Self

from penstock.cache import PenstockError, StoreInUse, Tell
from penstock.core.schema import described
from penstock.core.settings import Scrubbing
from penstock.core.upkeep.compaction import Compacted, Progress
from penstock.engine.engine import Engine
from penstock.engine.group_commit import Ticket
from penstock.engine.opening import open_engine
from penstock.generations.agreed_opening import MEMORY
from penstock.generations.refill import Refilled
from penstock.recovery import Checked, Repaired, Settled, Wanted
from penstock.remote.remote_writer import RemoteWriter
from penstock.remote.socket_wire import Gone
from penstock.remote.writer_protocol import Writer, as_equal, parted
from penstock.spout import Record, Remembered, SpoutBatch
from penstock.views import App, Counts, Migrated

__all__ = ["memory_of_holder", "writer"]

PATIENCE = 10.0
"""Seconds without a sign of life after which a holder counts as hanging; it gives one each second."""
_MEMORY = 2.0  # seconds that a look at the holder's memory may take
_AGAIN = 0.02


def writer(
    path: str | os.PathLike[str],
    app: App,
    *,
    patience: float | None = None,
    memory: int = MEMORY,
    listen: bool = True,
    migrate: Literal["auto", "refuse"] = "auto",
    scrub: Scrubbing | None = None,
) -> Writer:
    """The writer of the store at a path: opened here, or handed over to the process that holds it.

    >>> import tempfile, penstock as ps
    >>> app = ps.App("shop")
    >>> users = app.table("users", key="id")
    >>> with tempfile.TemporaryDirectory() as path, ps.open(app, path) as engine:
    ...     with writer(path, app) as other:
    ...         print(other.put("users", {"id": 7, "name": "Sue"}), "by us" if other.holder is None else "by the other")
    ...     with engine.snapshot() as snap:
    ...         print(snap.table("users")[7])
    1 applied by the other
    {'id': 7, 'name': 'Sue'}
    """
    where = os.fspath(path)
    patience = PATIENCE if patience is None else patience
    known, until = None, 0.0
    while True:
        try:
            return Here(open_engine(app, where, memory=memory, listen=listen, migrate=migrate, scrub=scrub))
        except StoreInUse as error:
            used = error
        if used.holder != known:  # many processes may hold the store one after the other
            known, until = used.holder, time.monotonic() + patience
        try:
            return RemoteWriter.reach(where, used.holder, patience)
        except Gone:  # it begins, or it has just ended, or it listens to nobody
            if time.monotonic() >= until:
                raise StoreInUse(where, f"{used.holder}, which takes no work from other processes") from None
        time.sleep(_AGAIN)


def memory_of_holder(path: str | os.PathLike[str], patience: float = _MEMORY) -> dict[str, Any] | None:
    """The memory of the process that holds a store, as it says itself; None where none does, or none says it.

    {"memory": bytes, "tables": {name: bytes}, "views": {name: bytes}}
    """
    try:
        with RemoteWriter.reach(os.fspath(path), "its holder", patience) as there:
            return there.memory()
    except (Gone, PenstockError):
        return None


class Here:
    """The store is open in this process."""

    holder = None

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def put(self, table: str, doc: Any, ts: Any = None) -> Counts:
        """Put one document."""
        return _durable(self.engine.put(table, doc, ts))

    def delete(self, table: str, key: Any, ts: Any = None) -> Counts:
        """Delete the document with this key."""
        return _durable(self.engine.delete(table, key, ts))

    def put_many(self, table: str, docs: Any, strict: bool = False, batch: int | None = None) -> Counts:
        """Put many documents."""
        return _durable(self.engine.put_many(table, docs, strict, batch))

    def post(self, records: Iterable[Record]) -> Counts:
        """Take records of any tables as one transaction; reposts among them before that."""
        rest, values = parted(records)
        if values:
            self.engine.repost_many(values)
        with self.engine.batch() as transaction:
            transaction.origin = "post"
            for record in rest:
                if record.doc is None:
                    transaction.delete(record.table, record.key, record.ts)
                else:
                    transaction.put(record.table, record.doc, record.ts)
        return transaction.counts + as_equal(values)

    def ingest(self, records: Iterable[Record], source: str, resume: int) -> Counts:
        """Take records of several tables, and the offset after them."""
        return self.engine.ingest(records, source, resume)

    def load(
        self, table: str, batches: Iterable[SpoutBatch], long: bool | None = None
    ) -> Generator[tuple[SpoutBatch, Counts]]:
        """Take a spout's batches; gives each with its counts as it is durable."""
        return self.engine.load(table, batches, long)

    def remembered(self, source: str) -> Remembered | None:
        """Where the store stands in a source."""
        with self.engine.snapshot() as snap:
            return snap.remembered(source)

    def settle(self) -> None:
        """Wait until all that was taken before shows in every view."""
        self.engine.settle()

    def compact(self, progress: Progress | None = None) -> Compacted:
        """Give back what old versions take."""
        return self.engine.compact(progress)

    def repost(self, values: Mapping[str, Sequence[Any]], progress: Progress | None = None) -> list[Repaired]:
        """Post values of tables that may once have been told."""
        return self.engine.repost_many(values, progress=progress)

    def restate(self, name: str, key_or_group: Any = None, progress: Progress | None = None) -> list[Repaired]:
        """Make right what views say."""
        return self.engine.restate(name, key_or_group, progress=progress)

    def check(self, fix: bool = False, progress: Progress | None = None) -> Checked:
        """Read all of the store and hold views against the documents."""
        return self.engine.check(fix, progress=progress)

    def retry(self, wanted: Wanted, progress: Progress | None = None) -> Settled:
        """Try again what is in quarantine."""
        return self.engine.retry(**wanted.asked(), progress=progress)

    def drop(self, wanted: Wanted, progress: Progress | None = None) -> Settled:
        """Let go of what is in quarantine."""
        return self.engine.drop(**wanted.asked(), progress=progress)

    def migrate(self, app: App, progress: Progress | None = None) -> Migrated:
        """Build what is left of views that changed; it was opened with this app."""
        return self.engine.migrate(progress)

    def begin_refill(self, tables: Sequence[str], app: App) -> int:
        """Tables of this app are made anew elsewhere from now on; the seed that they are made with."""
        return self.engine.begin_refill(tables, described(app))

    def refill(self, folder: str, progress: Tell | None = None) -> Refilled:
        """Take over what was made of them."""
        return self.engine.refill(folder, progress)

    def close(self) -> None:
        """Let go of the store."""
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _durable(answer: Counts | Ticket) -> Counts:
    return answer.result() if isinstance(answer, Ticket) else answer
