"""The catalog of a store: its definitions and their numbers, and the progress of a build.

The catalog is written when definitions change, and the progress of a build with each of its steps. A table has a row
while its index was rebuilt and function views may lack documents. Invariant: a number is given once, so two generations
never share a database.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from penstock.cache import META, Reader, Writer, seal, unseal
from penstock.core.metadata.store_format import format_in_row, must_be_readable
from penstock.core.metadata.store_state import StateRow

_CATALOG, _BUILT = b"catalog", b"built"


BASES = ("table", "stream")
"""The kinds of definitions that take records, and can't change."""
JOIN_KINDS = ("join", "side")
"""The kinds of definitions of a join: its own, and those of its sides."""


class NextGeneration(msgspec.Struct, array_like=True, frozen=True):
    """The next generation of a view, hidden from readers; its number is 0 if the view is dropped."""

    number: int
    definition: dict[str, Any]


class CatalogEntry(msgspec.Struct, array_like=True, frozen=True):
    """One definition and its number in the store, which is 0 while readers can't see it.

    While a `next` generation is built, the view stays at the position `as_of`.
    """

    number: int
    definition: dict[str, Any]
    as_of: int | None = None
    next: NextGeneration | None = None

    @property
    def written(self) -> int:
        """The number of the generation to which batches are applied."""
        return self.number if self.next is None else self.next.number

    @property
    def target(self) -> dict[str, Any]:
        """The definition that is current or is being built."""
        return self.definition if self.next is None else self.next.definition


class FormerGeneration(msgspec.Struct, array_like=True, frozen=True):
    """A generation that readers saw up to a position, and that the feed still covers."""

    name: str
    number: int
    definition: dict[str, Any]
    until: int


class UnfinishedSwitch(msgspec.Struct, frozen=True):
    """A switch of one partition that other partitions may not have made yet.

    Readers see these entries, as of this position, until all partitions have switched. `held_groups` is that of the
    state then. The switch of a refill changes more of the state, so it keeps all of it.
    """

    entries: dict[str, CatalogEntry]
    held_groups: dict[str, int]
    position: int
    state: StateRow | None = None


class RefillSwitch(msgspec.Struct, frozen=True):
    """The changes of the state in the switch of a refill.

    They are offsets of sources, the spout state of some of them, and by table how many records were rejected.
    `untimed` are the tables without ts.
    """

    sources: dict[str, int]
    notes: dict[str, tuple[int, bytes]]
    rejected: dict[str, int]
    untimed: tuple[str, ...]


class Refill(msgspec.Struct, frozen=True):
    """Tables that are made anew elsewhere. `since` has the first record after the begin, by table.

    `sources` are the offsets at the begin, and `filling` the numbers that are being filled, by name. `kinds` are the
    kinds of ts of these tables, once the other store is copied. `ready` is there once only the switch is left.
    """

    since: dict[str, int]
    sources: dict[str, int]
    filling: dict[str, int] = {}
    kinds: dict[str, str] | None = None
    ready: RefillSwitch | None = None

    @property
    def first(self) -> int:
        """The lowest number that is being filled, which no other refill has; 0 if there is none yet."""
        return min(self.filling.values(), default=0)

    def answer(self) -> tuple[dict[str, int], tuple[str, ...]]:
        """Return the offsets of the source partitions read elsewhere, and those that go back, once all is ready."""
        sources = {} if self.ready is None else self.ready.sources
        return sources, tuple(name for name, offset in sources.items() if offset < self.sources.get(name, 0))


class PartitionIdentity(msgspec.Struct, array_like=True, frozen=True):
    """One partition of a store: its number, and the first and the last hash that it owns."""

    number: int
    first: int
    last: int


class Catalog(msgspec.Struct, frozen=True):
    """The definitions of a store.

    `since` is set while views are built: for each table that is read, the span of records from before the build.
    `trash` names the databases to empty, and `refill` the tables that are filled elsewhere. `partition` is set if the
    store is one partition of several. `unfinished` is set until all partitions have made the same switch.
    """

    format: int
    app: str
    seed: int
    entries: dict[str, CatalogEntry]
    last: int = 0  # the highest number ever given, if no entry has it
    since: dict[str, tuple[int, int]] | None = None
    former: tuple[FormerGeneration, ...] = ()
    trash: tuple[str, ...] = ()
    refill: Refill | None = None
    partition: PartitionIdentity | None = None
    unfinished: UnfinishedSwitch | None = None

    def highest(self) -> int:
        """Return the highest number ever given."""
        return max([self.last, *(max(e.number, e.written) for e in self.entries.values())])


class BuildState(msgspec.Struct, frozen=True):
    """The progress of a build.

    `documents` has by table the record up to which documents are mapped. `rows` has by parent view the stored key,
    and by join the place, before which rows are mapped (None: all). It has the number of these rows too.
    """

    documents: dict[str, int] = {}
    rows: dict[str, tuple[bytes | None, int]] = {}


def serving_sides(catalog: Catalog) -> dict[str, CatalogEntry]:
    """Return the sides that serve an unchanged join while their next generations, with other fields, are built."""
    return {
        name: entry
        for name, entry in catalog.entries.items()
        if entry.number
        and entry.as_of is None
        and entry.next is not None
        and entry.next.number
        and entry.definition["kind"] == "side"
    }


_decode_catalog = msgspec.msgpack.Decoder(Catalog).decode
_decode_built = msgspec.msgpack.Decoder(BuildState).decode


def read_catalog(reader: Reader, path: str) -> Catalog | None:
    """Read the catalog; None for an empty store. Raise StoreFormat if this version can't read it."""
    row = catalog_row(reader)
    return None if row is None else catalog_of(row, path)


def catalog_row(reader: Reader) -> bytes | None:
    """Read the row of the catalog."""
    return reader.get_many(META, [_CATALOG])[0]


def catalog_of(row: bytes, path: str) -> Catalog:
    """Decode the catalog from its row. Raise StoreFormat if this version can't read it."""
    payload = unseal(_CATALOG, row, META)
    must_be_readable(path, payload, format_in_row)
    return _catalog_in(payload)


@lru_cache(maxsize=32)
def _catalog_in(payload: bytes) -> Catalog:
    """Decode the catalog of a row, once: it never changes, and openings and snapshots ask for it often."""
    return _decode_catalog(payload)


def row_of_catalog(catalog: Catalog) -> bytes:
    """Encode the row of a catalog."""
    return seal(_CATALOG, msgspec.msgpack.encode(catalog))


def write_catalog(writer: Writer, catalog: Catalog) -> bytes:
    """Write the catalog, and return its row."""
    row = row_of_catalog(catalog)
    writer.put_many(META, [(_CATALOG, row)])
    return row


def read_built(reader: Reader) -> BuildState:
    """Read the progress of a build."""
    row = reader.get_many(META, [_BUILT])[0]
    return BuildState() if row is None else _decode_built(unseal(_BUILT, row, META))


def write_built(writer: Writer, built: BuildState | None) -> None:
    """Write the progress of a build; None if there is no build."""
    if built is None:
        writer.delete_many(META, [_BUILT])
    else:
        writer.put_many(META, [(_BUILT, seal(_BUILT, msgspec.msgpack.encode(built)))])


def mark_reindexed(writer: Writer, table: int) -> None:
    """Note that the index of a table was rebuilt: views may have been built while it lacked documents."""
    key = _reindexed(table)
    writer.put_many(META, [(key, seal(key, b""))])


def is_reindexed(reader: Reader, table: int) -> bool:
    """Return True until function views have mapped the documents that they missed."""
    return reader.get_many(META, [_reindexed(table)])[0] is not None


def forget_reindexed(writer: Writer, table: int) -> None:
    """Delete that note."""
    writer.delete_many(META, [_reindexed(table)])


def _reindexed(table: int) -> bytes:
    return b"reindexed:%d" % table
