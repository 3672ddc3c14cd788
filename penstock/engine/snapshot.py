"""A snapshot: all views and tables of a store at one position, for as long as it is held."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from penstock.cache import Closed, Reader, decode_key
from penstock.engine.catalog import State, read_state
from penstock.gateway import TableReader
from penstock.mapreduce import held_db, read_held, rows_db
from penstock.views import Table, ViewReader

if TYPE_CHECKING:
    from penstock.engine.core import Core


class Snapshot:
    """One read transaction; made by `engine.snapshot()`. What is written later does not show in it.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> users = app.table("users", key="id")
    >>> with ps.open(app, None) as engine, engine.snapshot() as snap:
    ...     counts = engine.put("users", {"id": 7, "name": "Sue"})
    ...     7 in snap.table("users"), snap.position, engine.snapshot().position
    (False, 0, 1)
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._reader: Reader | None = core.store.read()
        self._state = read_state(self._reader)
        self._views: dict[str, ViewReader] = {}
        self._tables: dict[str, TableReader] = {}
        self._held: dict[str, tuple[frozenset[bytes], frozenset[bytes]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<snapshot at {self._state.position}>"

    @property
    def state(self) -> State:
        """Where the store stands in this snapshot."""
        return self._state

    @property
    def position(self) -> int:
        """The store's commit number: one more for each transaction that changed content.

        snap.position
        """
        return self._state.position

    @property
    def sources(self) -> dict[str, int]:
        """The offset, next to read, of each source.

        snap.sources["file:a"]
        """
        return dict(self._state.sources)

    def view(self, name: str) -> ViewReader:
        """A view's groups and results.

        snap.view("namecount")["Joe"]
        """
        found = self._views.get(name)
        if found is None:
            view = self._core.app.view_of(name)
            node = self._core.views[view.name]
            found = self._views[name] = ViewReader(
                name, self.reader, rows_db(node.number), node.reduce.codec, lambda: self.held(name)[0]
            )
        return found

    def table(self, name: str) -> TableReader:
        """A table's documents.

        snap.table("users")[7]
        """
        found = self._tables.get(name)
        if found is None:
            table = self._core.app.table_of(name)
            node = self._core.tables[table.name]
            found = self._tables[name] = TableReader(
                table, node.number, node.seed, self.reader, self._core.tails, lambda: self._held_of(table)
            )
        return found

    def close(self) -> None:
        """Let go of it.

        snap.close()
        """
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def reader(self) -> Reader:
        """The read transaction; Closed once it is let go of."""
        if self._reader is None:
            raise Closed("the snapshot")
        return self._reader

    def held(self, view: str) -> tuple[frozenset[bytes], frozenset[bytes]]:
        """The groups of a view that count what held documents were last told, and the keys of those documents."""
        found = self._held.get(view)
        if found is None:
            groups: set[bytes] = set()
            keys: set[bytes] = set()
            db = held_db(self._core.views[view].number)
            for key, row in self.reader().scan(db):
                whole, _, pairs = read_held(key, row, db)
                keys.add(whole)
                groups.update(group for group, _ in pairs)
            found = self._held[view] = frozenset(groups), frozenset(keys)
        return found

    def holds(self, view: str) -> list[dict[str, Any]]:
        """What a view can't take: keys, reasons and tracebacks."""
        db = held_db(self._core.views[view].number)
        out: list[dict[str, Any]] = []
        for key, row in self.reader().scan(db):
            whole, hold, _ = read_held(key, row, db)
            out.append({"key": decode_key(whole), "reason": hold.reason, "traceback": hold.trace})
        return out

    def _held_of(self, table: Table) -> frozenset[bytes]:
        out: set[bytes] = set()
        for view in self._core.app.views():
            if view.source is table:
                out |= self.held(view.name)[1]
        return frozenset(out)
