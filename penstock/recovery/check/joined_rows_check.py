"""The rows and the sides of joins for a check: recomputed from the documents, and compared with the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.cache import Reader, decode_key, key_text, stored_key
from penstock.core import Snapshot
from penstock.join import check_side, encoded_keys, row_documents
from penstock.mapreduce import Groups, Pairs, ViewNode, copies, held_db
from penstock.recovery.check.emission_differences import differing
from penstock.recovery.oracle.plain_joins import Accepted, RecomputedJoin, joined, view_documents
from penstock.recovery.oracle.plain_values import Rank, at, rank
from penstock.recovery.repair.fresh_map import FreshMap
from penstock.views import FieldMap, Join, SideView, Source, View, shown_join

__all__ = ["SideCheck", "accepted_documents", "checked_side", "joined_documents", "joined_emissions", "side_holds"]


@dataclass(slots=True)
class SideCheck:
    """The check of a side: its faults, and the number of holds."""

    faults: list[str]
    held: int = 0


def checked_side(
    snap: Snapshot, view: SideView, read: Callable[[Reader, str], Iterable[tuple[bytes, bytes]]]
) -> SideCheck:
    """Check the index of a side. `read` yields the intact rows of a database, and reports the others."""
    out = SideCheck([])
    for stored, reader in snap.stored_joins(view.join):
        index = next(own.index for own in stored.sides if own.view.side == view.side)
        faults = () if index is None else check_side(index, reader)  # a key side has none
        out.faults += [f"join {shown_join(view.join)!r}, side {view.side!r}: {fault}" for fault in faults]
        out.held += sum(1 for _ in read(reader, held_db(snap.schema.catalog.entries[view.name].number)))
        if view.side == stored.sides[0].view.side:
            out.held += sum(1 for _ in stored.limited(reader))  # condition values with too many rows
    return out


def side_holds(snap: Snapshot, join: Join) -> bool:
    """Return True if a side of a join holds a document. It counts with its last accepted version, which is gone."""
    views = ((side.view, side.number) for side in snap.schema.sides)
    own = [number for view, number in views if isinstance(view, SideView) and shown_join(view.join) == join.name]
    below = (side.source for side in join.sides if isinstance(side.source, Join))
    return any(snap.reader().count(held_db(number)) for number in own) or any(side_holds(snap, j) for j in below)


def joined_documents(snap: Snapshot, join: Join) -> tuple[list[tuple[Any, Any]], list[str]]:
    """Return the rows of a join by key, recomputed from the documents of its sides, and the faults of its holds.

    A held document counts with its last accepted version, which its held row has.
    """
    accepted = accepted_documents(snap, join)
    found = joined(join, {side.name: _documents(snap, side.source) for side in join.sides}, accepted)
    return found.rows, [*_wrong_holds(join, found, accepted), *_wrong_limits(snap, join, found)]


def accepted_documents(snap: Snapshot, join: Join) -> dict[str, dict[Rank, tuple[Any, Any]]]:
    """Return the held documents by side and rank of the key: the key, and the last accepted version.

    That version has the fields that the join and its readers read. It is None if there is none.
    """
    out: dict[str, dict[Rank, tuple[Any, Any]]] = {}
    for node in snap.schema.sides_of(join.name):
        for _, held in node.remembered(snap.reader()).all_held():
            assert isinstance(node.view, SideView), "it is one of the sides"
            key = decode_key(held.whole)
            out.setdefault(node.view.side, {})[rank(key)] = key, _accepted(node, held.pairs)
    return out


def _accepted(node: ViewNode, pairs: Pairs) -> Any:
    """Return a document with the fields of its entry in a side, which is its contribution there."""
    if not pairs:
        return None
    [(group, values)] = pairs
    assert isinstance(node.view.map, FieldMap), "a side has no function"
    key, value = node.view.map.key, decode_key(group)
    parts = value if isinstance(value, tuple) and not key.single else (value,)
    fields = dict(zip(node.reduce.fields, values, strict=True))
    if () in fields:
        return fields[()]
    out: dict[str, Any] = {}
    for path, own in [*fields.items(), *zip(key.paths, parts, strict=True)]:
        if path and own is not None and at(out, path) is None:
            inner = out
            for name in path[:-1]:
                inner = inner.setdefault(name, {})
            inner[path[-1]] = own
    return out


def _wrong_holds(join: Join, found: RecomputedJoin, accepted: Mapping[str, Accepted]) -> Iterator[str]:
    """Yield a message for each document that a join holds without a reason, or should hold."""
    for side in join.sides:
        wanted, known = found.held.get(side.name, {}), accepted.get(side.name, {})
        where = f"join {join.name!r}, side {side.name!r}"
        for own in known.keys() - wanted.keys():
            yield (
                f"{where}: it holds {key_text(side.source.shown_key(known[own][0]))}, which it could take; run "
                f"`penstock quarantine retry --view {join.name}`"
            )
        for own in wanted.keys() - known.keys():
            key, reason = wanted[own]
            yield (
                f"{where}: it counts {key_text(side.source.shown_key(key))}, which it should hold: {reason}; run "
                "`penstock check --fix`"
            )


def _wrong_limits(snap: Snapshot, join: Join, found: RecomputedJoin) -> Iterator[str]:
    """Yield a message for each condition value that is wrongly above the limit, or not."""
    above = set[Rank]()
    for stage in join.stages:
        single = len(stage.steps()[1][-1].pairs) == 1
        for stored, reader in snap.stored_joins(stage.name):
            values = (decode_key(own.value) for own in stored.limited(reader))
            above |= {rank((value,) if single else value) for value in values}
    for text, n in (("above", len(above - found.above.keys())), ("not above", len(found.above.keys() - above))):
        if n:
            yield (
                f"join {join.name!r}: {n:,} condition values are {text} limit={join.limit:,} in the store alone; load "
                "the documents into a new path, and report it"
            )


def _documents(snap: Snapshot, source: Source) -> list[tuple[Any, Any]]:
    """Return the documents of a side by key."""
    if isinstance(source, Join):
        return joined_documents(snap, source)[0]
    if isinstance(source, View):
        return view_documents(snap.view(source.name).items())
    return list(snap.table(source.name).items())


def joined_emissions(snap: Snapshot, view: ViewNode, unsure: set[bytes]) -> int:
    """Count the joined rows that would now yield another emission."""
    mapping, n = FreshMap(view.view), 0
    join = snap.schema.join(view.view.source.name)
    for rows in join.rows(snap.reader()):
        groups = Groups()
        keys = list(map(stored_key, encoded_keys(rows)))
        found = view.remembered(snap.reader(), groups).emissions(keys)
        remembered = [[] if own is None else own.pairs(0, groups) for own in found]
        n += differing(mapping, copies(row_documents(join.row_sides, rows)), remembered, unsure)
    return n
