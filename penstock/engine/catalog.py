"""What a store says of itself: its format, its definitions and their numbers, and where it stands.

Two rows of `meta`: the catalog, written when definitions come; and the state, written with every batch.
"""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from penstock.cache import META, DefinitionChanged, Reader, StoreFormat, Writer, read_mark, seal, unseal
from penstock.views import App, Table, View

FORMAT = 1
_CATALOG, _STATE = b"catalog", b"state"


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """One definition: its number in the store, and what it was defined as."""

    number: int
    definition: dict[str, Any]


class Catalog(msgspec.Struct, frozen=True):
    """The definitions of a store."""

    format: int
    app: str
    seed: int
    entries: dict[str, Entry]


class State(msgspec.Struct, frozen=True):
    """Where a store stands; committed with the data."""

    position: int = 0
    epoch: int = 0
    sources: dict[str, int] = {}
    ts: dict[str, str] = {}
    rejected: dict[str, int] = {}
    held_groups: dict[str, int] = {}


def read_catalog(reader: Reader, path: str) -> Catalog | None:
    """The catalog, or None of an empty store; StoreFormat where this version doesn't read it."""
    row = reader.get_many(META, [_CATALOG])[0]
    if row is None:
        return None
    payload = unseal(_CATALOG, row, META)
    found = msgspec.msgpack.decode(payload)
    if found.get("format") != FORMAT:
        raise StoreFormat(path, found.get("format"), FORMAT)
    return msgspec.convert(found, Catalog)


def read_state(reader: Reader) -> State:
    """The state."""
    row = reader.get_many(META, [_STATE])[0]
    return State() if row is None else msgspec.msgpack.decode(unseal(_STATE, row, META), type=State)


def write_state(writer: Writer, state: State) -> None:
    """Write the state, within a batch."""
    writer.put_many(META, [(_STATE, seal(_STATE, msgspec.msgpack.encode(state)))])


def agree(reader: Reader, app: App, path: str) -> tuple[Catalog, bool]:
    """The catalog that serves this app in this store, and whether it has to be written.

    A definition that the store has must be the same; one that it hasn't can be added while its source is empty.
    """
    known = read_catalog(reader, path)
    entries = {} if known is None else dict(known.entries)
    number = 1 + max((e.number for e in entries.values()), default=0)
    fresh = known is None
    defined: list[Table | View] = [*app.tables(), *app.views()]
    for definition in defined:
        described = msgspec.msgpack.decode(msgspec.msgpack.encode(definition.describe()))
        entry = entries.get(definition.name)
        if entry is None:
            if isinstance(definition, View) and definition.table.name in entries and known is not None:
                _must_be_empty(reader, definition, known)
            entries[definition.name] = Entry(number, described)
            number, fresh = number + 1, True
        elif entry.definition != described:
            raise DefinitionChanged(definition.name, _difference(entry.definition, described))
    for name in entries:
        if name not in app.names():
            raise DefinitionChanged(name, "it is in the store and not in the app")
    seed = secrets.randbits(63) if known is None else known.seed
    return Catalog(FORMAT, app.name, seed, entries), fresh


def _must_be_empty(reader: Reader, view: View, known: Catalog) -> None:
    table = known.entries.get(view.table.name)
    if table is not None and read_mark(reader, table.number).tail:
        raise DefinitionChanged(view.name, f"it is new, and table {view.table.name!r} has documents already")


def write_catalog(writer: Writer, catalog: Catalog) -> None:
    """Write the catalog."""
    writer.put_many(META, [(_CATALOG, seal(_CATALOG, msgspec.msgpack.encode(catalog)))])


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    parts = [k for k in (*old, *(k for k in new if k not in old)) if old.get(k) != new.get(k)]
    return "; ".join(f"{k} was {old.get(k)!r} and is {new.get(k)!r}" for k in parts)
