"""A snapshot: all views and tables of a store at one position, until it is closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from penstock.cache import (
    Closed,
    DefinitionError,
    PenstockError,
    Reader,
    checked,
    decode_key,
    encode_entry,
    key_text,
    naming,
)
from penstock.core.damage_names import database_labels
from penstock.core.generation_switch import former_schema, former_state
from penstock.core.metadata.source_offsets import read_spout_state
from penstock.core.metadata.store_state import StateRow, read_state
from penstock.core.reading.document_facts import DocumentFacts, document_facts
from penstock.core.reading.document_joins import DocumentJoin, document_joins
from penstock.core.reading.group_weights import Weight, weight_of
from penstock.core.reading.join_weights import JoinWeight, weigh_join
from penstock.core.reading.visibility import read_spans, saved_position
from penstock.core.reading.why_answers import why_of
from penstock.core.schema import Schema
from penstock.flow import read_watermarks
from penstock.gateway import TableReader, TableReading
from penstock.join import StoredJoin
from penstock.mapreduce import ViewNode, entries_of, held_db, rows_db
from penstock.spout import Remembered
from penstock.views import Contribution, Position, Progress, Stream, View, ViewReader, position_text

if TYPE_CHECKING:
    from penstock.core.commit import Core

Consistency = Literal["eventual", "position"]


def must_be_known(consistency: str) -> None:
    """Raise DefinitionError for an unknown `consistency`."""
    if not isinstance(consistency, str) or consistency not in ("eventual", "position"):
        raise DefinitionError(f"consistency= is {key_text(consistency)}; write 'eventual' or 'position'")


class Snapshot:
    """One read transaction, made by `engine.snapshot()`. Later writes do not appear in it.

    >>> import penstock as ps
    >>> app = ps.App("shop")
    >>> users = app.table("users", key="id")
    >>> with ps.open(app, None) as engine, engine.snapshot() as snap:
    ...     counts = engine.put("users", {"id": 7, "name": "Sue"})
    ...     7 in snap.table("users"), snap.position, engine.snapshot().position
    (False, 0, 1)
    """

    def __init__(self, core: Core) -> None:
        reader = core.store.read()
        with core.naming():
            state = read_state(reader)
        self._begin(core, reader, state)

    def _begin(self, core: Core, reader: Reader, state: StateRow) -> None:
        self._core = core
        self._reader: Reader | None = reader
        self._state = state
        with core.naming():
            self._schema = core.schema(reader)
        self._views: dict[str, ViewReader] = {}
        self._logs: dict[str, TableReader] = {}
        self._held: dict[str, tuple[frozenset[bytes], frozenset[bytes]]] = {}

    def show_former(self) -> None:
        """Show the former generation of a switch that other partitions may not have made.

        Called before anything is read.
        """
        unfinished = self._schema.catalog.unfinished
        if unfinished is not None:
            self._state = former_state(self._state, unfinished)
            self._schema = former_schema(self._schema.catalog)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<snapshot at {position_text(self.position)}>"

    @property
    def parts(self) -> Sequence[Snapshot]:
        """The snapshots of its partitions; for a single store the snapshot itself."""
        return (self,)

    @property
    def starts(self) -> Sequence[int]:
        """The first hash of each partition."""
        return (0,)

    def owners(self, keys: Sequence[bytes]) -> Sequence[int]:
        """Return the partition that owns each encoded key."""
        return [0] * len(keys)

    @property
    def state(self) -> StateRow:
        """The state of the store in this snapshot."""
        return self._state

    @property
    def schema(self) -> Schema:
        """The tables and views of this snapshot."""
        return self._schema

    @property
    def position(self) -> Position:
        """The store's commit number: one more for each transaction that changed content.

        snap.position
        """
        return self._state.position

    def is_newest(self) -> bool:
        """Return True if the store has no later commit. It takes no lock, so it is cheaper than another snapshot.

        snap.is_newest()
        """
        return self.reader().is_newest()

    @property
    def followed(self) -> Position:
        """The oldest position from which the feed can be followed."""
        return self._state.followed

    @property
    def saved(self) -> Position:
        """The position up to which all changes are known to be saved: that of the snapshot, but for early sets.

        snap.saved
        """
        return saved_position(self._state, read_spans(self.reader(), self._state))

    @checked
    def as_of(self, view: str) -> Position | None:
        """Return the position of a view that stays behind while its next generation is built; else None."""
        return self._schema.as_of(view)

    @property
    def sources(self) -> dict[str, int]:
        """The offset, next to read, of each source.

        snap.sources["file:a"]
        """
        return dict(self._state.sources)

    def remembered(self, source: str) -> Remembered | None:
        """Return the offset and spout state of a source partition, for the start of its spout; None if it has none.

        spout.begin(snap.remembered)
        """
        offset = self._state.sources.get(source)
        return None if offset is None else Remembered(offset, self._spout_state(source))

    def _spout_state(self, source: str) -> bytes:
        with self.naming():
            return read_spout_state(self.reader(), source)

    @checked
    def view(self, name: str) -> ViewReader:
        """A view's groups and results.

        snap.view("namecount")["Joe"]
        """
        found = self._views.get(name)
        if found is None:
            node = self._schema.view(name, self.reader())
            parent = node.view.source.name
            source = self._schema.join(parent) if parent in self._schema.joins else self._schema.views.get(parent)
            found = self._views[name] = ViewReader(
                name,
                self.reader,
                rows_db(node.number),
                node.reduce.codec,
                lambda: self.held(name)[0],
                lambda groups, progress: self._why(node, source, groups, progress),
                self.as_of(name),
                node.view.index,
                self._closed(node.view),
            )
        return found

    def _closed(self, view: View) -> Callable[[Any], bool] | None:
        """Return the function that tells if the window of a group is closed; None if the view has no window."""
        window = view.window
        if window is None:
            return None
        state = read_watermarks(self.reader()).streams.get(view.source.name)

        def closed(group: Any) -> bool:
            end = window.end(group)
            return state is not None and end is not None and end <= state.low

        return closed

    def naming(self) -> AbstractContextManager[None]:
        """Return a context that names damage in the users' terms."""
        return naming(lambda: database_labels(self._schema.catalog))

    def _why(
        self, view: ViewNode, source: ViewNode | StoredJoin | None, groups: Sequence[bytes], progress: Progress | None
    ) -> list[list[Contribution]]:
        if isinstance(view.view.source, Stream):
            raise PenstockError(
                f"view {view.name!r} is on the stream {view.view.source.name!r}, which stores no records, so none can "
                "be listed; read the row of the group, with ps.count() among its reducers"
            )
        as_of = self.as_of(view.name)
        if as_of is not None and not view.keeps:
            raise PenstockError(
                f"view {view.name!r} stands at position {position_text(as_of)} while it is built anew, and its "
                "documents have gone on; ask why once it is complete"
            )
        with self.naming():
            return why_of(self, view, source, groups, progress)

    @checked
    def table(self, name: str) -> TableReading:
        """A table's documents.

        snap.table("users")[7]
        """
        return self.log(name)

    def log(self, name: str) -> TableReader:
        """Return a table's documents, with access to its log."""
        found = self._logs.get(name)
        if found is None:
            visible = self._schema.table(name)
            found = self._logs[name] = TableReader(
                visible.table, visible.number, visible.seed, self.reader, self._core.tails, lambda: self._held_of(name)
            )
        return found

    @checked
    def stored(self, table: str, key: Any) -> DocumentFacts | None:
        """Return the stored line of a key, and its contributions to each view; None if it was never stored.

        snap.stored("users", 7).told
        """
        views = [view for view in self._schema.views_on(table) if self._schema.as_of(view.name) is None]
        with self.naming():
            return document_facts(views, self.reader(), self.log(table), key)

    @checked
    def document_joins(self, table: str, key: Any, document: dict[str, Any]) -> list[DocumentJoin]:
        """Return the joins that the current document of a key takes part in.

        snap.document_joins("orders", 7, snap.table("orders")[7])
        """
        with self.naming():
            return list(document_joins(self, table, key, document))

    def stored_joins(self, name: str) -> Iterator[tuple[StoredJoin, Reader]]:
        """Yield a join as each partition has it, with the reader of that partition."""
        for part in self.parts:
            yield part.schema.join(name), part.reader()

    def weight(self, view: str, hot: int) -> Weight:
        """Measure the groups of a view in one scan of its rows, and return the heaviest.

        snap.weight("revenue", hot=5).hot
        """
        with self.naming():
            return weight_of(self.reader(), self._schema.view(view, self.reader()), hot)

    def join_weight(self, join: str, largest: int) -> JoinWeight:
        """Measure the sides of a join in one scan of their entries, and return its largest condition values.

        snap.join_weight("sold", largest=5).pairs
        """
        with self.naming():
            return weigh_join(self.stored_joins(join), largest)

    def close(self) -> None:
        """Close the snapshot.

        snap.close()
        """
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def reader(self) -> Reader:
        """Return the read transaction. Raise Closed after `close`."""
        if self._reader is None:
            raise Closed("the snapshot")
        return self._reader

    def held(self, view: str) -> tuple[frozenset[bytes], frozenset[bytes]]:
        """Return the groups of a view to which held documents contribute, and the keys of these documents."""
        found = self._held.get(view)
        if found is None:
            groups: set[bytes] = set()
            keys: set[bytes] = set()
            node = self._schema.view(view, self.reader())
            index = node.view.index
            with self.naming():
                for _, (whole, _, pairs) in node.remembered(self.reader()).all_held():
                    keys.add(whole)
                    groups.update(entries_of(whole, pairs) if index else (group for group, _ in pairs))
                    if index:  # a view of an earlier version of Penstock has no rank of 0
                        groups.update(encode_entry((decode_key(group), decode_key(whole))) for group, _ in pairs)
            found = self._held[view] = frozenset(groups), frozenset(keys)
        return found

    @checked
    def holds(self, view: str) -> list[dict[str, Any]]:
        """Return the documents that a view holds: keys, reasons and tracebacks."""
        node = self._schema.view(view, self.reader())
        out: list[dict[str, Any]] = []
        with self.naming():
            for _, (whole, hold, _) in node.remembered(self.reader()).all_held():
                key = node.view.source.shown_key(decode_key(whole))
                out.append({"key": key, "reason": hold.reason, "traceback": hold.trace})
        return out

    @checked
    def holds_any(self, view: str) -> bool:
        """Return True if a view holds a document or a group."""
        number = self._schema.view(view, self.reader()).number
        return bool(self._state.held_groups.get(view) or self.reader().count(held_db(number)))

    def _held_of(self, table: str) -> frozenset[bytes]:
        out: set[bytes] = set()
        for view in self._schema.views_on(table):
            out |= self.held(view.name)[1]
        return frozenset(out)
