"""The writer of a store that another process holds: that one does the work, and its answers are taken at its word.

Invariants:

- an answer comes after the commit, and one that is still to come is never taken for that of another question: whatever
  breaks in between ends the connection;
- threads take turns.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Self

from penstock.cache import BatchRejected, Closed, ForkedStore, PenstockError, Tell, encode_key
from penstock.core.input.batches import Batch, batches_of
from penstock.core.schema import described
from penstock.core.upkeep.compaction import Compacted, Progress
from penstock.generations.refill import Refilled
from penstock.recovery import Checked, Repaired, Settled, Wanted
from penstock.remote.socket_wire import PROTOCOL, Gone, Silent, Wire, connect
from penstock.remote.wire_messages import (
    batch_data,
    checked_of_data,
    counts_of_data,
    error_of,
    record_data,
    repaired_of_data,
    spout_batch_data,
    values_data,
)
from penstock.remote.writer_protocol import HolderLost, HolderSilent, as_equal, parted
from penstock.spout import Record, Remembered, SpoutBatch
from penstock.views import App, Counts, Migrated

__all__ = ["RemoteWriter"]

_READING = ("remembered", "memory", "settle")
_TAKING = ("write", "ingest", "load")


class RemoteWriter:
    """The store is open in another process, which does the work."""

    def __init__(self, wire: Wire, path: str, holder: str, patience: float) -> None:
        self.holder = holder
        self._wire: Wire | None = wire
        self._path = path
        self._patience = patience
        self._pid = os.getpid()
        self._done = Counts()
        self._turn = threading.Lock()

    @classmethod
    def reach(cls, path: str, holder: str, patience: float) -> RemoteWriter:
        """A connection to who holds the store; Gone where nobody answers there."""
        try:
            wire = connect(path, patience)
        except Silent:
            raise HolderSilent(path, holder, patience) from None
        try:
            if wire.uid != os.geteuid():
                raise PenstockError(
                    f"the store at {path} is held by {holder} of user {wire.uid}, and this is user {os.geteuid()}; run "
                    "this as that user"
                )
            hello = wire.receive(patience)
            if isinstance(hello, dict) and "failed" in hello:
                raise error_of(hello["failed"], holder)
            if not isinstance(hello, dict) or hello.get("penstock") != PROTOCOL:
                raise PenstockError(
                    f"the store at {path} is held by {holder}, another version of penstock that takes no work from "
                    "this one; run the same version, or end that process"
                )
        except Silent:
            wire.close()
            raise HolderSilent(path, holder, patience) from None
        except BaseException:
            wire.close()
            raise
        return cls(wire, path, holder, patience)

    @property
    def lost(self) -> bool:
        """Whether it is of no use any more: its holder has ended or fell silent."""
        return self._wire is None

    def put(self, table: str, doc: Any, ts: Any = None) -> Counts:
        """Put one document."""
        batch = Batch(origin="put")
        batch.add(doc, ts)
        return self._write(table, batch)

    def delete(self, table: str, key: Any, ts: Any = None) -> Counts:
        """Delete the document with this key."""
        batch = Batch(origin="delete")
        batch.delete(key, ts)
        return self._write(table, batch)

    def put_many(self, table: str, docs: Any, strict: bool = False, batch: int | None = None) -> Counts:
        """Put many documents."""
        total = Counts()
        for part in batches_of(docs, batch):
            try:
                total += self._write(table, part, strict)
            except BatchRejected as error:
                raise BatchRejected(total.applied + total.equal, error.rejections) from None
        return total

    def post(self, records: Iterable[Record]) -> Counts:
        """Take records of any tables as one transaction; reposts among them before that."""
        rest, values = parted(records)
        if values:
            self.repost(values)
        tables: dict[str, Batch] = {}
        for record in rest:
            batch = tables.setdefault(record.table, Batch(unit="record", origin="post"))
            if record.doc is None:
                batch.delete(record.key, record.ts)
            else:
                batch.add(record.doc, record.ts)
        data = {name: [batch_data(b)] for name, b in tables.items()}
        return self._counted("write", tables=data, strict=False, atomic=True) + as_equal(values)

    def ingest(self, records: Iterable[Record], source: str, resume: int) -> Counts:
        """Take records of several tables, and the offset after them."""
        return self._counted("ingest", records=[record_data(r) for r in records], source=source, resume=resume)

    def load(
        self, table: str, batches: Iterable[SpoutBatch], long: bool | None = None
    ) -> Generator[tuple[SpoutBatch, Counts]]:
        """Take a spout's batches; gives each with its counts as it is durable."""
        for batch in batches:
            yield batch, self._counted("load", table=table, batch=spout_batch_data(batch))

    def remembered(self, source: str) -> Remembered | None:
        """Where the store stands in a source."""
        found = self._ask("remembered", None, source=source)
        return None if found is None else Remembered(*found)

    def settle(self) -> None:
        """Wait until all that was taken before shows in every view."""
        self._ask("settle", None)

    def compact(self, progress: Progress | None = None) -> Compacted:
        """Give back what old versions take."""
        return Compacted.of(self._ask("compact", _hearing(progress)))

    def repost(self, values: Mapping[str, Sequence[Any]], progress: Progress | None = None) -> list[Repaired]:
        """Post values of tables that may once have been told."""
        return repaired_of_data(self._ask("repost", _hearing(progress), values=values_data(values)))

    def restate(self, name: str, key_or_group: Any = None, progress: Progress | None = None) -> list[Repaired]:
        """Make right what views say."""
        asked = None if key_or_group is None else encode_key(key_or_group)
        return repaired_of_data(self._ask("restate", _hearing(progress), name=name, asked=asked))

    def check(self, fix: bool = False, progress: Progress | None = None) -> Checked:
        """Read all of the store and hold views against the documents."""
        return checked_of_data(self._ask("check", _hearing(progress), fix=fix))

    def retry(self, wanted: Wanted, progress: Progress | None = None) -> Settled:
        """Try again what is in quarantine."""
        return Settled.of_data(self._ask("retry", _hearing(progress), wanted=wanted.asked()))

    def drop(self, wanted: Wanted, progress: Progress | None = None) -> Settled:
        """Let go of what is in quarantine."""
        return Settled.of_data(self._ask("drop", _hearing(progress), wanted=wanted.asked()))

    def migrate(self, app: App, progress: Progress | None = None) -> Migrated:
        """Build what is left of views that are to be as this app has them; its holder must have the same ones."""
        return Migrated.of(self._ask("migrate", _hearing(progress), wanted=described(app)))

    def begin_refill(self, tables: Sequence[str], app: App) -> int:
        """Tables of this app are made anew elsewhere from now on; the seed that they are made with."""
        seed: int = self._ask("begin_refill", None, tables=list(tables), wanted=described(app))
        return seed

    def refill(self, folder: str, progress: Tell | None = None) -> Refilled:
        """Take over what was made of them; its holder reads that folder."""
        hear = None if progress is None else lambda at: progress(at["what"], at["done"], at["total"])
        return Refilled.of(self._ask("refill", hear, folder=os.path.abspath(folder)))

    def memory(self) -> dict[str, Any]:
        """What its process takes, by table and view."""
        said: dict[str, Any] = self._ask("memory", None)
        return said

    def close(self) -> None:
        """Let go of the holder. Closing twice is nothing."""
        wire, self._wire = self._wire, None
        if wire is not None:
            (wire.close if self._pid == os.getpid() else wire.drop)()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, table: str, batch: Batch, strict: bool = False) -> Counts:
        return self._counted("write", tables={table: [batch_data(batch)]}, strict=strict)

    def _counted(self, do: str, **what: Any) -> Counts:
        counts = counts_of_data(self._ask(do, None, **what))
        self._done += counts
        return counts

    def ask(self, do: str, **what: Any) -> Any:
        """Have one thing done there that tells nothing before its end; its result."""
        return self._ask(do, None, **what)

    def _ask(self, do: str, hear: Callable[[dict[str, Any]], None] | None, **what: Any) -> Any:
        """Have one thing done there; its result. Threads take turns."""
        if self._pid != os.getpid():
            raise ForkedStore(self._path, self._pid)
        with self._turn:
            answer = self._answer({"do": do, **what}, hear)
        if "failed" in answer:
            raise error_of(answer["failed"], self.holder)
        return answer["done"]

    def _answer(self, asked: dict[str, Any], hear: Callable[[dict[str, Any]], None] | None) -> dict[str, Any]:
        if self._wire is None:
            raise Closed(f"the writer of the store at {self._path}")
        try:
            self._wire.send(asked)
            while True:
                answer: dict[str, Any] = self._wire.receive(self._patience)
                if "done" in answer or "failed" in answer:
                    return answer
                if "at" in answer and hear is not None:
                    hear(answer["at"])
        except Silent:
            self.close()
            raise HolderSilent(self._path, self.holder, self._patience, self._known(asked)) from None
        except Gone:
            self.close()
            raise HolderLost(self._path, self.holder, self._known(asked)) from None
        except BaseException:
            self.close()  # an answer that is still to come would be taken for the next one's
            raise

    def _known(self, asked: dict[str, Any]) -> str:
        """What is known to be committed, where an answer never came."""
        if asked["do"] in _READING or (asked["do"] == "check" and not asked["fix"]):
            return "it was only to read, so that nothing was changed"
        if asked["do"] not in _TAKING:
            return "what it was to do may be done, or a part of it"
        n = self._done.records
        if not n:
            return "what it was given may be in or not"
        return f"{n:,} record{' is' if n == 1 else 's are'} in, and what it was given last may be too"


def _hearing(progress: Progress | None) -> Callable[[dict[str, Any]], None] | None:
    """How far the holder says it is, as progress."""
    return None if progress is None else lambda at: progress(at["done"], at["total"])
