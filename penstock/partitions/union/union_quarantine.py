"""Retry and drop the quarantine entries of a store of several partitions.

Each partition in turn settles its rejected records and the held documents of its views. A held group is restated from
the documents of all partitions. Invariant: an entry has the id that lists show. The id of a record ends in the number
of its partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.mapreduce import ViewNode
from penstock.partitions.handle_protocol import PartitionHandle
from penstock.recovery import (
    EntryFilter,
    QuarantineKind,
    Restatement,
    Settled,
    Site,
    absent_entries,
    group_id,
    held_groups,
    restated_groups,
    undropped_groups,
    views_of,
)
from penstock.views import Progress

__all__ = ["PartitionedRetries"]


class PartitionedRetries:
    """Retries and drops of one store; `learn` is called when a partition may have found the kind of a table's ts."""

    def __init__(
        self, site: Site, handles: Sequence[PartitionHandle], learn: Callable[[], None], progress: Progress | None
    ) -> None:
        self._site = site
        self._handles = handles
        self._learn = learn
        self._progress = progress

    def retry(self, wanted: EntryFilter) -> Settled:
        """Retry the entries that match, and return the outcome."""
        return self._all("retry", wanted)

    def drop(self, wanted: EntryFilter) -> Settled:
        """Drop the records and held documents that match, and return the outcome."""
        return self._all("drop", wanted)

    def _all(self, do: str, wanted: EntryFilter) -> Settled:
        settled, found, n = Settled(), set[str](), 0
        alone = len(self._handles) == 1  # its records have ids without a number of the partition
        for place, handle in enumerate(self._handles):
            if wanted.limit is None or n < wanted.limit:
                own = wanted if alone else _within(wanted, place)
                own = replace(own, limit=None if wanted.limit is None else wanted.limit - n)
                data, many, ids = handle.repair("release", do, own.asked())
                self._learn()
                outcome = Settled.of_data(data)
                settled += outcome if alone else _named(outcome, place)
                found.update(ids if alone else (_name(name, place) for name in ids))
                n += many
            self._tell(place + 1)
        if wanted.of_kind(QuarantineKind.GROUP):
            for view in views_of(self._site.views.values(), wanted):
                groups = self._held(view, wanted, n)
                found.update(group_id(view.name, key) for key, _ in groups)
                n += len(groups)
                settled += self._groups(do, view, groups)
        self._tell(len(self._handles) + 1)
        return settled + absent_entries(wanted, found)

    def _tell(self, done: int) -> None:
        if self._progress is not None:
            self._progress(done, len(self._handles) + 1)

    def _held(self, view: ViewNode, wanted: EntryFilter, done: int) -> list[tuple[bytes, bytes]]:
        """Return the held groups of a view that match, as pairs of stored and whole keys."""
        with self._site.snapshot() as snap:
            many = snap.state.held_groups.get(view.name, 0)
            groups = [(key, whole) for key, whole, _ in held_groups(snap.reader(), view, many, wanted)]
        return groups if wanted.limit is None else groups[: max(0, wanted.limit - done)]

    def _groups(self, do: str, view: ViewNode, groups: Sequence[tuple[bytes, bytes]]) -> Settled:
        """Restate held groups, and return the outcome; a drop leaves them held."""
        keys = [key for key, _ in groups]
        if not groups or do == "drop":
            return undropped_groups(view, keys)
        Restatement(self._site, None).view(view.name, [whole for _, whole in groups])
        with self._site.snapshot() as snap:
            return restated_groups(snap.reader(), view, keys)


def _within(wanted: EntryFilter, place: int) -> EntryFilter:
    """Return the filter for one partition: its records by their ids there, and all documents, which may be anywhere."""
    others = frozenset(name for name in wanted.ids or () if not name.startswith("r"))
    own = wanted.within(place)
    return own if own.ids is None else replace(own, ids=frozenset(n for n in own.ids if n.startswith("r")) | others)


def _name(name: str, place: int) -> str:
    return f"{name}@{place}" if name.startswith("r") else name


def _named(settled: Settled, place: int) -> Settled:
    return replace(settled, why=tuple(replace(left, id=_name(left.id, place)) for left in settled.why))
