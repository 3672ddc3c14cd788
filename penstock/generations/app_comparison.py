"""Compare an app with a store before anything is done, and begin the generations that adapt the store.

Tables can't change. Each view or join that changed or is new gets a next generation: empty, with a number of its own.
So does all that stands on it. One that the app has dropped gets none. `build` fills the generations. If only the fields
of a side differ, its join and the views on it stay. Invariants:

- one transaction of the opening writes all that it begins, so a build survives a crash;
- if the same app opens the store again, a build continues; an app with other views begins again;
- without documents there is nothing to build: the app's views are current at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from penstock.cache import DefinitionChanged, DefinitionError, Reader, read_mark, repr_of, segments_from
from penstock.core import BASES, FORMAT, BuildState, Catalog, CatalogEntry, Described, NextGeneration, PartitionIdentity
from penstock.join import join_dbs
from penstock.views import Changed, Kind, difference, shown_join, sources_of


@dataclass(slots=True)
class Agreement:
    """The differences between a store and an app.

    `wanted` has all definitions of the app, `changes` the views to build or drop. `goes_on` means that the store is
    already building exactly these. In a partitioned store, `numbers` has the number of each name, which is the same in
    all partitions.
    """

    wanted: dict[str, Described]
    changes: dict[str, Changed] = field(default_factory=dict)
    goes_on: bool = False
    numbers: Mapping[str, int] | None = None


def compared(known: Catalog, wanted: dict[str, Described]) -> Agreement:
    """Compare a catalog with the definitions of an app. Raise DefinitionChanged if a table differs."""
    for name, entry in known.entries.items():
        if entry.target["kind"] in BASES:
            if name not in wanted:
                raise DefinitionChanged(name, "it is in the store and not in the app")
            if _fixed(wanted[name]) != _fixed(entry.definition):
                raise DefinitionChanged(name, _table_difference(_fixed(entry.definition), _fixed(wanted[name])))
        elif name in wanted and wanted[name]["kind"] != entry.target["kind"]:
            raise DefinitionChanged(name, f"it was a {entry.target['kind']} and is a {wanted[name]['kind']}")
    out = Agreement(wanted)
    for name, definition in wanted.items():
        if definition["kind"] not in BASES:
            change = _change(known, out.changes, name, definition)
            if change is not None:
                out.changes[name] = change
    for name in known.entries:
        if name not in wanted:
            out.changes[name] = Changed(name, Kind.DROPPED)
    out.goes_on = known.since is not None and agrees(known, wanted)
    return out


def _fixed(definition: Described) -> Described:
    """Return the part of a definition of a table or stream that can't change."""
    if definition["kind"] != "stream":
        return definition
    return {name: definition.get(name) or None for name in ("kind", "ts", "broker_ts", "unit", "id")}


def _change(known: Catalog, before: dict[str, Changed], name: str, definition: Described) -> Changed | None:
    entry = known.entries.get(name)
    if entry is None or not entry.number:
        return Changed(name, Kind.NEW)
    if text := difference(entry.definition, definition):
        return Changed(name, Kind.CHANGED, text)
    source = next((source for source in sources_of(definition) if source in before), None)
    if source is not None:
        return Changed(name, Kind.FOLLOWS, f"it is on {source}")
    if entry.as_of is not None:
        return Changed(name, Kind.FOLLOWS, "it was left behind while another definition was built")
    return None


def agrees(known: Catalog, wanted: dict[str, Described]) -> bool:
    """Return True if a store has these definitions, or is building them."""
    targets = {name: e.target for name, e in known.entries.items() if e.written}
    if targets.keys() != wanted.keys():
        return False
    return all(d["kind"] in BASES or not difference(targets[name], d) for name, d in wanted.items())


def refused(changes: dict[str, Changed]) -> DefinitionChanged:
    """Return the error for views that must not change."""
    first, *others = [change for change in changes.values() if ":" not in change.view] or changes.values()
    what = {Kind.NEW: "it is new", Kind.DROPPED: "it is in the store and not in the app"}.get(first.kind, first.why)
    more = f" (and {len(others)} more: {', '.join(other.view for other in others)})" if others else ""
    return DefinitionChanged(first.view, f"{what}{more}", built=True)


def created(
    app: str,
    wanted: Mapping[str, Described],
    seed: int | None,
    numbers: Mapping[str, int] | None = None,
    partition: PartitionIdentity | None = None,
) -> Catalog:
    """Make the catalog of an empty store; `seed` is for the hashes of keys, and is random by default."""
    known = numbers or {}
    entries = {name: CatalogEntry(known.get(name, i), d) for i, (name, d) in enumerate(wanted.items(), 1)}
    return Catalog(FORMAT, app, secrets.randbits(63) if seed is None else seed, entries, partition=partition)


def begun(reader: Reader, known: Catalog, agreement: Agreement, position: int) -> tuple[Catalog, BuildState | None]:
    """Return the catalog that serves the app, and the progress of the build (None if there is none to begin)."""
    if agreement.goes_on:
        return known, None
    begin = _Beginning(reader, known, agreement, position)
    return begin.catalog(), begin.built


class _Beginning:
    """The start of one build."""

    def __init__(self, reader: Reader, known: Catalog, agreement: Agreement, position: int) -> None:
        self._reader = reader
        self._known = known
        self._agreement = agreement
        self._position = position
        self._last = known.highest()
        self._trash: list[str] = []
        self.built: BuildState | None = None

    def catalog(self) -> Catalog:
        """Return the catalog with the next generations."""
        known, changes = self._known, self._agreement.changes
        entries: dict[str, CatalogEntry] = {}
        for name, entry in known.entries.items():
            own = entry
            if entry.next is not None:  # begun for another app
                self._discard(entry.next.number)
                own = CatalogEntry(entry.number, entry.definition, entry.as_of)
            if name in changes:
                self._changed(entries, name, own)
            else:
                definition = self._agreement.wanted.get(name, own.definition)
                entries[name] = msgspec.structs.replace(own, definition=definition)
        for name, definition in self._agreement.wanted.items():
            if name in known.entries:
                continue
            if name in changes:
                self._changed(entries, name, CatalogEntry(0, {}))
            else:
                entries[name] = CatalogEntry(self._number(name), definition)
        since = dict(self._spans(entries)) if any(e.next is not None for e in entries.values()) else None
        if since is not None:
            self.built = BuildState(documents={name: first for name, (first, _) in since.items()})
        return msgspec.structs.replace(
            known, entries=entries, last=self._last, since=since, trash=(*known.trash, *self._trash)
        )

    def _number(self, name: str) -> int:
        given = self._agreement.numbers
        number = self._last + 1 if given is None else given[name]
        self._last = max(self._last, number)
        return number

    def _discard(self, number: int) -> None:
        if number:
            self._trash += join_dbs(number)

    def _changed(self, entries: dict[str, CatalogEntry], name: str, entry: CatalogEntry) -> None:
        """Make the entry of a view to build or drop. Without documents the change is complete at once.

        In a partitioned store the change is complete only after all partitions have it.
        """
        definition = self._agreement.wanted.get(name)
        self._must_not_be_on_stream(name, definition)
        alone = self._agreement.numbers is None
        both = [d for d in (entry.definition, definition) if d]
        if alone and not any(map(self._has_documents, both)):
            self._discard(entry.number)
            if definition is not None:
                entries[name] = CatalogEntry(self._number(name), definition)
        elif definition is not None or entry.number:
            following = (
                NextGeneration(0, {"kind": entry.definition["kind"]})
                if definition is None
                else NextGeneration(self._number(name), definition)
            )
            as_of = self._position if entry.as_of is None and entry.number else entry.as_of
            if (
                definition is not None
                and definition["kind"] == "side"
                and definition["join"] not in self._agreement.changes
            ):
                as_of = None  # it serves its join until the other one is complete
            entries[name] = CatalogEntry(entry.number, entry.definition, as_of, following)

    def _has_documents(self, definition: Described) -> bool:
        """Return True if a table below a definition has documents; below a side or a prefix, a table of its join.

        A stream counts if the definition is on rows of a view on it: a view on the stream itself begins empty.
        """
        own = definition.get("source")
        bases = [d["name"] for d in self._below(definition) if d["kind"] == "table"]
        bases += [d["name"] for d in self._below(definition) if d["kind"] == "stream" and d["name"] != own]
        return any(map(self._has_records, bases))

    def _has_records(self, base: str) -> bool:
        """Return True if a table or stream of the store ever took a record."""
        entry = self._known.entries.get(base)
        return entry is not None and read_mark(self._reader, entry.number).tail > 0

    def _must_not_be_on_stream(self, name: str, definition: Described | None) -> None:
        """Raise DefinitionError for a changed view on a stream, whose records are gone."""
        change = self._agreement.changes[name]
        own = None if definition is None else self._agreement.wanted.get(definition.get("source", ""))
        if change.kind is not Kind.CHANGED or own is None or own["kind"] != "stream":
            return
        if self._has_records(own["name"]):
            raise DefinitionError(
                f"view {name!r} changed ({change.why}), and it is on the stream {own['name']!r}, which stores no "
                "records to build it from; give the changed view another name, or take the definition back"
            )

    def _below(self, definition: Described) -> Iterator[Described]:
        """Yield a definition and all that it is made of."""
        yield definition
        join = shown_join(
            definition["join"] if definition["kind"] == "side" else definition["name"]
        )  # of a side or a prefix
        for name in [*sources_of(definition), *([join] if join != definition["name"] else [])]:
            entry, wanted = self._known.entries.get(name), self._agreement.wanted.get(name)
            for own in (wanted, None if entry is None else entry.definition):
                if own:
                    yield from self._below(own)

    def _spans(self, entries: dict[str, CatalogEntry]) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield, for each table with views to build, its first record and the end of its log."""
        following = [e.next.definition for e in entries.values() if e.next is not None and e.next.number]
        sources = {definition["source"] for definition in following if definition["kind"] != "join"}
        for name, entry in entries.items():
            if name in sources and entry.definition.get("kind") == "table":
                first = next(segments_from(self._reader, entry.number, 0), None)
                tail = read_mark(self._reader, entry.number).tail
                yield name, (tail if first is None else first.base, tail)


def _table_difference(old: Described, new: Described) -> str:
    parts = [k for k in dict.fromkeys([*old, *new]) if old.get(k) != new.get(k)]
    return "; ".join(f"{k} was {repr_of(old.get(k))} and is {repr_of(new.get(k))}" for k in parts)
