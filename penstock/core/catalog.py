"""What a store says of itself: its format, its definitions and their numbers, and where it stands.

Rows of `meta`: the catalog, written when definitions change; how far views under way are built, written with each step
of that; the state, written with every batch; a note for each source whose spout leaves one, written with the batches of
that source; and a note for each table whose index was made anew, until function views are right again. Invariant: a
number is given once, so that databases of two generations never meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import msgspec

from penstock.cache import META, Reader, StoreFormat, Writer, seal, unseal
from penstock.mapreduce import Writes

FORMAT = 1
_CATALOG, _STATE, _BUILT = b"catalog", b"state", b"built"


class Next(msgspec.Struct, array_like=True, frozen=True):
    """The generation of a view that readers don't see yet; its number is 0 where there will be none."""

    number: int
    definition: dict[str, Any]


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """One definition: its number in the store, 0 while readers see nothing of it, and what it was defined as.

    A view that gives way to `next` stays what it was at the position `as_of`.
    """

    number: int
    definition: dict[str, Any]
    as_of: int | None = None
    next: Next | None = None

    @property
    def written(self) -> int:
        """The number of the generation that batches are told to."""
        return self.number if self.next is None else self.next.number

    @property
    def target(self) -> dict[str, Any]:
        """What it is, or is becoming."""
        return self.definition if self.next is None else self.next.definition


class Former(msgspec.Struct, array_like=True, frozen=True):
    """A generation that readers saw up to a position, of which the feed has changes still."""

    name: str
    number: int
    definition: dict[str, Any]
    until: int


class Unfinished(msgspec.Struct, frozen=True):
    """A switch of one partition that other partitions may not have made yet.

    Readers see these entries, as of this position, until all partitions have switched. `held_groups` is that of the
    state then. The switch of a refill changes more of the state, so it keeps all of it.
    """

    entries: dict[str, Entry]
    held_groups: dict[str, int]
    position: int
    state: State | None = None


class Ready(msgspec.Struct, frozen=True):
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
    ready: Ready | None = None

    @property
    def first(self) -> int:
        """The lowest number that is being filled, which no other refill has; 0 if there is none yet."""
        return min(self.filling.values(), default=0)

    def answer(self) -> tuple[dict[str, int], tuple[str, ...]]:
        """Where the sources go on that were read elsewhere, and which of them go back, once all is ready."""
        sources = {} if self.ready is None else self.ready.sources
        return sources, tuple(name for name, offset in sources.items() if offset < self.sources.get(name, 0))


class Identity(msgspec.Struct, array_like=True, frozen=True):
    """One partition of a store: its number, and the first and the last hash that it owns."""

    number: int
    first: int
    last: int


class Catalog(msgspec.Struct, frozen=True):
    """The definitions of a store.

    `since` is there while views are being built: for each table whose documents are told anew the records, from the
    first to the last, that were there before. `trash` is what databases are to be emptied, `refill` says which tables
    are made anew elsewhere. `partition` is there if the store is one partition of several. `unfinished` is there until
    all partitions of a store have made the same switch.
    """

    format: int
    app: str
    seed: int
    entries: dict[str, Entry]
    last: int = 0  # the highest number that was ever given, where that is not of an entry
    since: dict[str, tuple[int, int]] | None = None
    former: tuple[Former, ...] = ()
    trash: tuple[str, ...] = ()
    refill: Refill | None = None
    partition: Identity | None = None
    unfinished: Unfinished | None = None

    def highest(self) -> int:
        """The highest number that was ever given."""
        return max([self.last, *(max(e.number, e.written) for e in self.entries.values())])


class Built(msgspec.Struct, frozen=True):
    """How far views under way are built.

    By table the record up to which documents are told; by view, whose rows are, the stored key before which they are
    (None: all), and how many that was.
    """

    documents: dict[str, int] = {}
    rows: dict[str, tuple[bytes | None, int]] = {}


class State(msgspec.Struct, frozen=True):
    """Where a store stands; committed with the data."""

    position: int = 0
    epoch: int = 0
    sources: dict[str, int] = {}
    ts: dict[str, str] = {}
    rejected: dict[str, int] = {}
    held_groups: dict[str, int] = {}
    quarantined: int = 0  # records that were ever put into quarantine
    kept: dict[str, int] = {}  # by table: how many are there
    fed: int = 0  # changes that were ever fed
    fed_bytes: int = 0
    followed: int = 0  # the oldest position that the feed can be followed from
    sent: dict[int, int] = {}  # by partition the number of the last production that it is owed
    taken: dict[int, tuple[int, int]] = {}  # by partition its epoch, and the number of its last one that was taken
    batch: int = 0  # the number of the last batch that whoever serves the store gave this partition
    guard: dict[int, tuple[int, int, int]] = {}  # by partition how new the last sets are that were taken of it
    early: bool = False  # some view was ever to be told early
    counted: bool = False  # the store keeps digests of its keys
    told_at: dict[int, int] = {}  # by partition the position that shows its early set, unless that is known to be saved
    unheard: dict[int, int] = {}  # by partition that was not reached since, the last batch that was in before that
    batches: dict[int, int] = {}  # by partition the number of the last production that has its records of a batch


class _Format(msgspec.Struct):
    """What any version reads of a catalog."""

    format: Any = None


_decode_format = msgspec.msgpack.Decoder(_Format).decode
_decode_catalog = msgspec.msgpack.Decoder(Catalog).decode
_decode_built = msgspec.msgpack.Decoder(Built).decode
_decode_state = msgspec.msgpack.Decoder(State).decode


def added(counts: dict[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Counts by name, with these added."""
    return {**counts, **{name: counts.get(name, 0) + n for name, n in more.items() if n}}


def state_after(
    old: State, writes: Writes, refused: Mapping[str, int], sources: dict[str, int], kinds: dict[str, str], fed: bool
) -> State:
    """Return the state after a transaction that refused so many records by table.

    `kinds` are those of the ts of tables; `fed` tells if the feed is on.
    """
    position = old.position + writes.changed
    return msgspec.structs.replace(
        old,
        position=position,
        followed=old.followed if fed or not writes.changed else position,
        sources=sources,
        ts=kinds,
        rejected=added(old.rejected, refused),
        held_groups=added(old.held_groups, writes.held_groups),
        quarantined=old.quarantined + writes.numbered,
        kept=added(old.kept, writes.kept),
    )


@dataclass(frozen=True, slots=True)
class Resume:
    """Where a source goes on after a batch: the offset, and the note of its spout.

    The offset only grows, unless the source begins `again`.
    """

    offset: int
    note: bytes = b""
    again: bool = False


def read_catalog(reader: Reader, path: str) -> Catalog | None:
    """The catalog, or None of an empty store; StoreFormat where this version doesn't read it."""
    row = catalog_row(reader)
    return None if row is None else catalog_of(row, path)


def catalog_row(reader: Reader) -> bytes | None:
    """The row that the catalog is."""
    return reader.get_many(META, [_CATALOG])[0]


def catalog_of(row: bytes, path: str) -> Catalog:
    """The catalog that this row is; StoreFormat where this version doesn't read it."""
    payload = unseal(_CATALOG, row, META)
    try:
        format = _decode_format(payload).format
    except msgspec.ValidationError:
        format = None
    if format != FORMAT:
        raise StoreFormat(path, "unknown" if format is None else format, FORMAT)
    return _catalog_in(payload)


@lru_cache(maxsize=32)
def _catalog_in(payload: bytes) -> Catalog:
    """The catalog of a row, decoded once: it never changes, and openings and snapshots ask for it again and again."""
    return _decode_catalog(payload)


def row_of_catalog(catalog: Catalog) -> bytes:
    """The row that a catalog is stored as."""
    return seal(_CATALOG, msgspec.msgpack.encode(catalog))


def write_catalog(writer: Writer, catalog: Catalog) -> bytes:
    """Write the catalog; the row that it is."""
    row = row_of_catalog(catalog)
    writer.put_many(META, [(_CATALOG, row)])
    return row


def read_built(reader: Reader) -> Built:
    """How far views under way are built."""
    row = reader.get_many(META, [_BUILT])[0]
    return Built() if row is None else _decode_built(unseal(_BUILT, row, META))


def write_built(writer: Writer, built: Built | None) -> None:
    """Write how far views under way are built; None where none is under way."""
    if built is None:
        writer.delete_many(META, [_BUILT])
    else:
        writer.put_many(META, [(_BUILT, seal(_BUILT, msgspec.msgpack.encode(built)))])


def note_reindexed(writer: Writer, table: int) -> None:
    """Note that the index of a table was made anew: views may have been built while it lacked documents."""
    key = _reindexed(table)
    writer.put_many(META, [(key, seal(key, b""))])


def is_reindexed(reader: Reader, table: int) -> bool:
    """Return True until function views are told of the documents that they missed."""
    return reader.get_many(META, [_reindexed(table)])[0] is not None


def forget_reindexed(writer: Writer, table: int) -> None:
    """Forget that note."""
    writer.delete_many(META, [_reindexed(table)])


def _reindexed(table: int) -> bytes:
    return b"reindexed:%d" % table


def read_state(reader: Reader) -> State:
    """The state."""
    row = reader.get_many(META, [_STATE])[0]
    return State() if row is None else _decode_state(unseal(_STATE, row, META))


def write_state(writer: Writer, state: State) -> None:
    """Write the state, within a batch."""
    writer.put_many(META, [(_STATE, seal(_STATE, msgspec.msgpack.encode(state)))])


def read_note(reader: Reader, source: str) -> bytes:
    """What the spout of a source noted with its last batch; nothing if it noted nothing."""
    key = _note_key(source)
    row = reader.get_many(META, [key])[0]
    if row is None:
        return b""
    name, note = msgspec.msgpack.decode(unseal(key, row, META), type=tuple[str, bytes])
    assert name == source, f"the notes of {name!r} and {source!r} have one key"
    return note


def write_notes(writer: Writer, sources: Mapping[str, Resume]) -> None:
    """Write the notes of these sources, within a batch. A source that begins again loses its former note."""
    rows = [(_note_key(name), [name, resume.note]) for name, resume in sources.items() if resume.note or resume.again]
    writer.put_many(META, [(key, seal(key, msgspec.msgpack.encode(row))) for key, row in sorted(rows)])


def _note_key(source: str) -> bytes:
    """Names of sources hold paths, which may be longer than a key."""
    return b"source:" + blake2b(source.encode(), digest_size=32).digest()
