"""The calls of an engine with conditions and numbered writes, and the session that numbers the writes of a program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.cache import BatchRejected, DefinitionError
from penstock.core import (
    Batch,
    Conditions,
    Resume,
    SessionGap,
    WriteResult,
    batches_of,
    must_hold,
    number_documents,
    session_source,
)
from penstock.engine.calls.protocol import EngineStore
from penstock.views import Counts

__all__ = ["SessionCalls", "WriteSession"]


class SessionCalls(ABC):
    """The calls with conditions and sessions, for a store of any kind."""

    store: EngineStore

    @abstractmethod
    def flush(self) -> None:
        """Wait until all earlier puts are durable."""

    def session(self, name: str) -> WriteSession:
        """Return a session: its writes are numbered, and each document is applied exactly once.

        session = engine.session("importer")
        session.put_many("users", documents[session.upto :])
        """
        if not isinstance(name, str) or not name:
            raise DefinitionError("a session needs a name, as text")
        return WriteSession(self, name)

    def session_upto(self, session: str) -> int:
        """Return the last number that a session has stored; 0 for a new one.

        engine.session_upto("importer")
        """
        self.store.state.must_be_open()
        found = self.store.remembered(session_source(session))
        return 0 if found is None else max(found.offset - 1, 0)

    def write(
        self,
        tables: Mapping[str, Sequence[Batch]],
        strict: bool = False,
        session: str = "",
        number: int = 0,
        conditions: Conditions | None = None,
        dry_run: bool = False,
    ) -> WriteResult:
        """Write batches in one transaction per partition, if all conditions hold.

        With a session, `number` is that of the first document, from 1. Documents that the session has stored count as
        late, and change nothing. SessionGap refuses a number beyond the next one. A `dry_run` returns the counts, and
        stores nothing.

        engine.write({"users": [batch]}, conditions={"users": [(7, ps.ABSENT)]})
        """
        state = self.store.state
        state.must_be_writable(*tables, *(conditions or ()))
        self.flush()
        own = {name: list(batches) for name, batches in tables.items()}
        with state.lock:
            state.must_be_open()
            if session:
                return self._write_in_session(own, strict, session, number, conditions or {}, dry_run)
            self._must_hold(conditions or {})
            if dry_run:
                return WriteResult(self.store.tried(own))
            counts = self.store.write(own, None, strict, strict)
            if strict and counts.rejected:
                raise BatchRejected(0, counts.rejections)
            return WriteResult(counts)

    def write_if(
        self, table: str, batches: Sequence[Batch], strict: bool, conditions: Mapping[Any, Any] | None, dry_run: bool
    ) -> Counts:
        """Write batches of one table if the conditions on its keys hold."""
        wanted = {table: list(conditions.items())} if conditions else {}
        return self.write({table: batches}, strict, conditions=wanted, dry_run=dry_run).counts

    def _write_in_session(
        self,
        tables: dict[str, list[Batch]],
        strict: bool,
        session: str,
        number: int,
        conditions: Conditions,
        dry_run: bool,
    ) -> WriteResult:
        """Write numbered documents under the writer's lock."""
        upto = self.session_upto(session)
        if number < 1:
            raise DefinitionError(f"number= is {number}; the documents of a session are numbered from 1")
        if number > upto + 1:
            raise SessionGap(session, number, upto)
        after = number_documents(tables, number)
        if after <= upto + 1:
            self.store.state.meters.redelivered += after - number
            return WriteResult(Counts(late=after - number), upto)
        if number == upto + 1:  # else a part of it was admitted before
            self._must_hold(conditions)
        if dry_run:
            return WriteResult(self.store.tried(tables), upto)
        resume = Resume(after)
        return WriteResult(self.store.write_rest(tables, session_source(session), resume, strict), after - 1)

    def _must_hold(self, conditions: Conditions) -> None:
        if conditions:
            with self.store.snapshot() as snap:
                must_hold(self.store.state.app, snap, conditions)


class WriteSession:
    """The numbered writes of one program, made by `engine.session(name)`.

    After a crash the program continues after `upto`, or repeats its last writes from a lower `number`: documents that
    are stored count as late. Two programs don't write in one session at the same time.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> users = app.table("users", key="id")
    >>> with ps.open(app, None) as engine:
    ...     session = engine.session("importer")
    ...     print(session.put_many("users", [{"id": 1}, {"id": 2}]))
    ...     print(session.put_many("users", [{"id": 2}, {"id": 3}], number=2))
    ...     session.upto
    2 applied
    1 applied, 1 late
    3
    """

    def __init__(self, engine: SessionCalls, name: str) -> None:
        self._engine = engine
        self.name = name
        self.upto = engine.session_upto(name)
        """The last number that the session has stored."""

    def __repr__(self) -> str:
        return f"<session {self.name!r} up to {self.upto}>"

    def put(self, table: str, doc: Any, ts: Any = None, *, number: int | None = None) -> Counts:
        """Put one document. Without `number` it is the next one.

        session.put("users", {"id": 7, "name": "Sue"})
        """
        batch = Batch(origin="put")
        batch.add(doc, ts)
        return self._write(table, batch, False, number)

    def delete(self, table: str, key: Any, ts: Any = None, *, number: int | None = None) -> Counts:
        """Delete the document with this key.

        session.delete("users", 7)
        """
        batch = Batch(origin="delete")
        batch.delete(key, ts)
        return self._write(table, batch, False, number)

    def put_many(self, table: str, docs: Any, strict: bool = False, *, number: int | None = None) -> Counts:
        """Put many documents; `number` is that of the first one. Longer input is split, as by `engine.put_many`.

        session.put_many("users", open("users.jsonl", "rb"))
        """
        total, next_number = Counts(), number
        for batch in batches_of(docs, None):
            total += self._write(table, batch, strict, next_number)
            next_number = None if next_number is None else next_number + batch.size
        return total

    def _write(self, table: str, batch: Batch, strict: bool, number: int | None) -> Counts:
        first = self.upto + 1 if number is None else number
        done = self._engine.write({table: [batch]}, strict, self.name, first)
        self.upto = done.upto
        return done.counts
