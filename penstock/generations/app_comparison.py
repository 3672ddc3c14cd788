"""Compare an app with a store before anything is done, and begin the generations that adapt the store.

Tables can't change. Each view that changed or is new, and each view on it, gets a next generation: empty, with a number
of its own. A view that the app has dropped gets none. `build` fills the generations. Invariants:

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
from penstock.core import FORMAT, BuildState, Catalog, CatalogEntry, Described, NextGeneration, PartitionIdentity
from penstock.join import side_dbs
from penstock.mapreduce import view_dbs
from penstock.views import Changed, Kind, difference, sources_of


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
        if entry.target["kind"] == "table":
            if name not in wanted:
                raise DefinitionChanged(name, "it is in the store and not in the app")
            if wanted[name] != entry.definition:
                raise DefinitionChanged(name, _table_difference(entry.definition, wanted[name]))
        elif name in wanted and wanted[name]["kind"] != entry.target["kind"]:
            raise DefinitionChanged(name, f"it was a {entry.target['kind']} and is a {wanted[name]['kind']}")
    out = Agreement(wanted)
    for name, definition in wanted.items():
        if definition["kind"] != "table":
            change = _change(known, out.changes, name, definition)
            if change is not None:
                out.changes[name] = change
    for name in known.entries:
        if name not in wanted:
            out.changes[name] = Changed(name, Kind.DROPPED)
    out.goes_on = known.since is not None and agrees(known, wanted)
    return out


def _change(known: Catalog, before: dict[str, Changed], name: str, definition: Described) -> Changed | None:
    entry = known.entries.get(name)
    if entry is None or not entry.number:
        return Changed(name, Kind.NEW)
    if definition["kind"] == "view":
        text = difference(entry.definition, definition)
    else:
        text = _table_difference(entry.definition, definition)
    if text:
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
    return all(d["kind"] != "view" or not difference(targets[name], d) for name, d in wanted.items())


def refused(changes: dict[str, Changed]) -> DefinitionChanged:
    """Return the error for views that must not change."""
    first, *others = changes.values()
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
            self._trash += [*view_dbs(number), *side_dbs(number)]

    def _changed(self, entries: dict[str, CatalogEntry], name: str, entry: CatalogEntry) -> None:
        """Make the entry of a view to build or drop. Without documents the change is complete at once.

        In a partitioned store the change is complete only after all partitions have it.
        """
        definition = self._agreement.wanted.get(name)
        alone = self._agreement.numbers is None
        both = [d for d in (entry.definition, definition) if d]
        full = any(map(self._has_documents, both))
        if full:
            must_keep_joins(self._known, self._agreement.wanted, {name: self._agreement.changes[name]})
        if alone and not full:
            self._discard(entry.number)
            if definition is not None:
                entries[name] = CatalogEntry(self._number(name), definition)
        elif definition is not None or entry.number:
            following = (
                NextGeneration(0, {"kind": "view"})
                if definition is None
                else NextGeneration(self._number(name), definition)
            )
            as_of = self._position if entry.as_of is None and entry.number else entry.as_of
            entries[name] = CatalogEntry(entry.number, entry.definition, as_of, following)

    def _has_documents(self, definition: Described) -> bool:
        tables = [d["name"] for d in below(definition, self._agreement.wanted, self._known) if d["kind"] == "table"]
        entries = [entry for name in tables if (entry := self._known.entries.get(name)) is not None]
        return any(read_mark(self._reader, entry.number).tail > 0 for entry in entries)

    def _spans(self, entries: dict[str, CatalogEntry]) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield, for each table with views to build, its first record and the end of its log."""
        sources = {e.next.definition["source"] for e in entries.values() if e.next is not None and e.next.number}
        for name, entry in entries.items():
            if name in sources and entry.definition.get("kind") == "table":
                first = next(segments_from(self._reader, entry.number, 0), None)
                tail = read_mark(self._reader, entry.number).tail
                yield name, (tail if first is None else first.base, tail)


def is_join(definition: Described) -> bool:
    """Return True for a join, and for a side of one."""
    return definition["kind"] in ("join", "side")


def below(definition: Described, wanted: Mapping[str, Described], known: Catalog) -> Iterator[Described]:
    """Yield a definition and all that it is made of."""
    yield definition
    for name in sources_of(definition):
        own = wanted[name] if name in wanted else known.entries[name].definition
        yield from below(own, wanted, known)


def must_keep_joins(known: Catalog, wanted: Mapping[str, Described], changes: Mapping[str, Changed]) -> None:
    """Raise DefinitionError if a change is one of a join, or of a view on one; the store has documents."""
    for name, change in changes.items():
        entry = known.entries.get(name)
        for definition in (wanted.get(name), None if entry is None else entry.definition):
            for own in below(definition, wanted, known) if definition else ():
                if is_join(own):
                    raise join_refused(own["name"] if own["kind"] == "join" else own["join"], change)


def join_refused(join: str, change: Changed) -> DefinitionError:
    """Return the error for a change of a join, or of a view on one, in a store that has documents."""
    change_text = {Kind.NEW: "is new", Kind.DROPPED: "is in the store and not in the app"}.get(change.kind, "differs")
    own = f"{change.view!r} of the join {join!r}" if change.view != join else f"the join {join!r}"
    return DefinitionError(
        f"{own.replace(join + ':', '')} {change_text}, and this store has documents already; a join and its views "
        "are made with an empty store, so take that definition back, or load into a new path"
    )


def _table_difference(old: Described, new: Described) -> str:
    parts = [k for k in dict.fromkeys([*old, *new]) if old.get(k) != new.get(k)]
    return "; ".join(f"{k} was {repr_of(old.get(k))} and is {repr_of(new.get(k))}" for k in parts)
