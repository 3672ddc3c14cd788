"""A snapshot over all partitions of a store: it shows the same as a snapshot of a store of one partition.

The code for one partition also reads views here, from one reader over the snapshots of all partitions. Invariants:

- the owner of a group has its row, tree and the emissions of the row. The owner of a key has its document and the
  emissions of the document. So nothing is stored twice;
- each partition is shown at a commit of its own, which `position` names;
- all partitions show one generation of each view: the former one until all of them have switched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.cache import Closed, MergedReader, PenstockError, Reader, checked, decode_key, encode_key
from penstock.core import Catalog, DocumentFacts, Snapshot, StateRow
from penstock.core import Passed as PartitionedProgress
from penstock.gateway import PartitionedTable, TableReader, TableReading
from penstock.join import StoredJoin
from penstock.mapreduce import KeyRanges, ViewNode
from penstock.recovery import first_delayed, numbers_of, unconfirmed_batches
from penstock.spout import Remembered
from penstock.views import Contribution, Position, Progress

if TYPE_CHECKING:
    from penstock.core import Core

__all__ = ["PartitionedSnapshot", "Switching", "snapshots_at_rest", "together", "unlike"]


class Switching(PenstockError):
    """An error: partitions switched while a snapshot began at one after the other."""

    def __init__(self, partition: int, name: str) -> None:
        super().__init__(partition, name)
        self.partition, self.name = partition, name

    def __str__(self) -> str:
        return (
            f"partition {self.partition} has {self.name!r} as another definition than partition 0; partitions switch "
            "one after the other, so try again. If that stays, open the store to write, for example with `penstock run`"
        )


class PartitionedSnapshot(Snapshot):
    """A snapshot of each partition, by their cores, as one; `ranges` say which of them owns a key."""

    def __init__(self, cores: Sequence[Core], ranges: KeyRanges) -> None:
        partitions: list[Snapshot] = []
        try:
            for core in cores:
                partitions.append(Snapshot(core))
            if unlike([partition.schema.catalog for partition in partitions]) is not None:
                for partition in partitions:
                    partition.show_former()
            _must_agree(partitions)
        except BaseException:
            for partition in partitions:
                partition.close()
            raise
        self._begin(
            cores[0],
            MergedReader([partition.reader() for partition in partitions]),
            together([p.state for p in partitions]),
        )
        self._schema = partitions[0].schema
        self._parts = tuple(partitions)
        self._ranges = ranges
        self._spanned: dict[str, PartitionedTable] = {}

    @property
    def parts(self) -> Sequence[Snapshot]:
        """The snapshots of the partitions."""
        return self._parts

    @property
    def position(self) -> Position:
        """The positions of all partitions, in their order."""
        return tuple(partition.position for partition in self._parts)

    @property
    def followed(self) -> Position:
        """The oldest position that the feed can be followed from."""
        return tuple(partition.followed for partition in self._parts)

    @property
    def saved(self) -> Position:
        """The positions of all partitions up to which all changes are known to be saved."""
        return tuple(partition.saved for partition in self._parts)

    @checked
    def as_of(self, view: str) -> Position | None:
        """Return the positions that a view shows if it is not updated while another generation is built, else None."""
        own = [partition.as_of(view) for partition in self._parts]
        if all(position is None for position in own):
            return None
        return tuple(p.position if o is None else o for p, o in zip(self._parts, own, strict=True))

    def remembered(self, source: str) -> Remembered | None:
        """Return the lowest offset of a source with its spout state; None if a partition has not begun the source."""
        found = [partition.remembered(source) for partition in self._parts]
        known = [own for own in found if own is not None]
        return min(known, key=lambda own: own.offset) if len(known) == len(found) else None

    @checked
    def table(self, name: str) -> TableReading:
        """Return the reader of a table's documents.

        snap.table("users")[7]
        """
        found = self._spanned.get(name)
        if found is None:
            shown = self.schema.table(name)
            partitions = [partition.log(name) for partition in self._parts]
            found = self._spanned[name] = PartitionedTable(
                shown.table, partitions, self.owners, lambda: self._held_of(name)
            )
        return found

    def log(self, name: str) -> TableReader:
        """Raise an error: each partition has its own log, which the snapshots in `parts` return."""
        raise PenstockError(
            f"table {name!r} has a log in each of {len(self._parts)} partitions, and this asks for one of all; "
            "ask the snapshots in snap.parts"
        )

    @checked
    def stored(self, table: str, key: Any) -> DocumentFacts | None:
        """Return the stored facts of a key, with its emissions by view; None if the key was never stored.

        snap.stored("users", 7).told
        """
        self.schema.table(table)
        return self._parts[self.owners([encode_key(key)])[0]].stored(table, key)

    def close(self) -> None:
        """Close the snapshot.

        snap.close()
        """
        for partition in self._parts:
            partition.close()
        self._reader = None

    def reader(self) -> Reader:
        """Return the reader over all partitions; raise Closed after `close`."""
        if self._reader is None:
            raise Closed("the snapshot")
        return self._reader

    @property
    def starts(self) -> Sequence[int]:
        """The first hash of each partition."""
        return self._ranges.starts

    def owners(self, keys: Sequence[bytes]) -> Sequence[int]:
        """Return the partition that owns each encoded key."""
        owners: list[int] = self._ranges.of_encoded(keys).tolist()
        return owners

    def _why(
        self, view: ViewNode, source: ViewNode | StoredJoin | None, groups: Sequence[bytes], progress: Progress | None
    ) -> list[list[Contribution]]:
        """Return the contributions of groups; a view that stores none scans the documents of each partition."""
        if view.keeps or source is not None:
            return super()._why(view, source, groups, progress)
        out: list[list[Contribution]] = [[] for _ in groups]
        passed = PartitionedProgress(len(self._parts), progress)
        for i, partition in enumerate(self._parts):
            own = partition.view(view.name).why_many(map(decode_key, groups), progress=passed.of(i))
            for found, more in zip(out, own, strict=True):
                found += more
        for found in out:
            found.sort(key=lambda one: (encode_key(one.key), one.rank))
        return out


def together(states: Sequence[StateRow]) -> StateRow:
    """Combine the states of partitions into one: counts are added, and a source has its lowest offset."""
    sources = set.intersection(*(set(state.sources) for state in states))
    return StateRow(
        position=sum(state.position for state in states),
        epoch=max(state.epoch for state in states),
        sources={source: min(state.sources[source] for state in states) for source in sorted(sources)},
        ts={name: kind for state in states for name, kind in state.ts.items()},
        rejected=_added([state.rejected for state in states]),
        held_groups=_added([state.held_groups for state in states]),
        quarantined=sum(state.quarantined for state in states),
        kept=_added([state.kept for state in states]),
        fed=sum(state.fed for state in states),
        fed_bytes=sum(state.fed_bytes for state in states),
    )


def snapshots_at_rest(partitions: Sequence[Snapshot]) -> bool:
    """Return True if nothing is in flight: productions are applied, none is delayed, and early sets are saved."""
    states = [partition.state for partition in partitions]
    early = [unconfirmed_batches(partition.reader()) for partition in partitions]
    return all(first_delayed(partition.reader()) is None for partition in partitions) and all(
        sent == taken and early[to].get(of, 0) <= states[of].unheard.get(to, states[of].batch)
        for of, to, sent, taken in numbers_of(states)
    )


def _added(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for own in counts for name in own)
    return {name: sum(own.get(name, 0) for own in counts) for name in names}


def _must_agree(partitions: Sequence[Snapshot]) -> None:
    """Raise Switching unless all partitions have the same definitions under the same numbers."""
    found = unlike([partition.schema.catalog for partition in partitions])
    if found is not None:
        raise Switching(*found)


def unlike(catalogs: Sequence[Catalog]) -> tuple[int, str] | None:
    """Return the first partition and name whose generation differs from partition 0; None if all agree.

    Sides of joins may differ: each partition reads its own, and one with other fields gives the same rows.
    """
    entries = [{name: e for name, e in own.entries.items() if e.number} for own in catalogs]
    shown = [{n: (e.number, e.definition) for n, e in own.items() if e.definition["kind"] != "side"} for own in entries]
    for i, own in enumerate(shown):
        for name in dict.fromkeys([*shown[0], *own]):
            if own.get(name) != shown[0].get(name):
                return i, name
    return None
