"""Compare the index of a side of a join with the documents, and replace the entries that differ.

The entries follow from the documents as the contributions of any field view do, so a scan of documents makes them.
The documents of a side that is a view are its rows. The partition that owns its condition value has an entry. A pair
that a production in flight names is not compared: the production sets it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from penstock.cache import Writer
from penstock.core import Core, Snapshot
from penstock.join import (
    Entries,
    EntryChanges,
    StoredSide,
    changed_entries,
    changes_payload,
    entry_owners,
    read_changes,
)
from penstock.mapreduce import KeyRanges, Writes, is_entries
from penstock.recovery.productions.delayed_productions import delayed
from penstock.recovery.productions.numbered_productions import numbers_of, owed_back, parts_of

__all__ = ["EntryDifferences", "put_entries", "replace_entries", "side_differences"]

_Pairs = set[tuple[bytes | None, bytes]]


@dataclass(frozen=True, slots=True)
class EntryDifferences:
    """The entries that one index lacks, and those that it has and no document of its partition's values."""

    missing: list[Entries]
    extra: list[Entries]

    def __len__(self) -> int:
        return sum(map(len, (*self.missing, *self.extra)))

    def payload(self) -> bytes:
        """Return the changes that mend the index, as a log row has them."""
        width = next(own.width for own in (*self.missing, *self.extra))
        minus, plus = (Entries.join([Entries.none(width), *own]) for own in (self.extra, self.missing))
        return changes_payload(EntryChanges.of(minus, plus))


def replace_entries(core: Core, writer: Writer, join: str, side: str, writes: Writes) -> None:
    """Remove entries that the documents don't have, and put those that the index lacks."""
    with Snapshot(core) as snap:  # nothing was written since
        found = side_differences(snap, join, side)
    for own in found:
        if len(own):
            put_entries(core, writer, join, side, own.payload(), writes)


def put_entries(core: Core, writer: Writer, join: str, side: str, changes: bytes, writes: Writes) -> None:
    """Change entries of an index as a payload says. The views on the join are repaired afterwards."""
    index = core.joins.sides[f"{join}:{side}"].index
    assert index is not None, "it has entries that differ"
    own = read_changes(changes, index.width)
    index.stage(writer, own.entries.take(own.gone), own.put(), writes)
    writes.changed = True


def side_differences(snap: Snapshot, join: str, side: str, ranges: KeyRanges | None = None) -> list[EntryDifferences]:
    """Compare the indexes of a side with the documents, by partition. A key side has none. All are in memory."""
    parts = [(_stored(own.sides, side), reader) for own, reader in snap.stored_joins(join)]
    indexes = [own.index for own, _ in parts if own.index is not None]
    if not indexes:
        return []
    made = [list[Entries]() for _ in parts]
    for home, (own, reader) in enumerate(parts):
        for entries in _indexed(own.documents.all(reader)):
            owners = np.zeros(len(entries), np.int64) if ranges is None else entry_owners(entries, ranges, home)
            for owner in np.unique(owners).tolist():
                made[owner].append(entries.take(owners == owner))
    out: list[EntryDifferences] = []
    for at, (index, (_, reader)) in enumerate(zip(indexes, parts, strict=True)):
        waiting = _in_flight(snap, index.number, index.width, at)
        none = Entries.none(index.width)
        extra, missing = changed_entries(Entries.join([none, *index.all(reader)]), Entries.join([none, *made[at]]))
        out.append(EntryDifferences(_but(missing, waiting), _but(extra, waiting)))
    return out


def _stored(sides: Sequence[StoredSide], name: str) -> StoredSide:
    return next(own for own in sides if own.view.side == name)


def _indexed(parts: Iterator[Entries]) -> Iterator[Entries]:
    """Yield the entries that an index has. A null condition value is not in one."""
    for entries in parts:
        null = entries.null()
        yield entries if null is None else entries.take(~null)


def _in_flight(snap: Snapshot, number: int, width: int, to: int) -> _Pairs:
    """Return the pairs of condition value and key that sets on their way to a partition name."""
    out: _Pairs = set()
    for of, receiver, _, taken in numbers_of([part.state for part in snap.parts]):
        if receiver != to:
            continue
        sender = snap.parts[of].reader()
        waiting = [row.parts for row in delayed(sender) if row.receiver == to]
        for parts in chain(waiting, map(parts_of, owed_back(sender, to, taken))):
            for part in parts:
                if part[0] == number and is_entries(part):
                    out.update((value, key) for value, key, _ in read_changes(part[1], width).entries.listed())
    return out


def _but(entries: Entries, waiting: _Pairs) -> list[Entries]:
    """Return the entries but those of these pairs; none if there are none."""
    own = entries.take(np.array([one[:2] not in waiting for one in entries.listed()], bool)) if waiting else entries
    return [own] if len(own) else []
