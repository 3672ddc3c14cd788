"""The site of a repair in a store of several partitions: it reads all of them, and performs steps at each.

The process that serves the store rebuilds a view from the documents of all partitions. Each partition gets a temporary
store with the rebuilt groups that it owns. If the stored view does not differ, no writer waits. Else writers pause for
a second comparison. Then each partition replaces its groups that differ, in steps, from its temporary store.
Invariants:

- writers pause for the comparison that groups are replaced by. A damaged group can block productions in flight. The
  rebuilt groups leave these out, and the receiver applies them after the repair;
- a row in a partition that doesn't own its group is an orphan there;
- the changes of a step at other partitions have arrived there, and are reported with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any, Protocol

from penstock.cache import MemoryStore, PenstockError, Store, encode_key, is_long, open_lmdb, stored_key
from penstock.core import Catalog, Snapshot
from penstock.mapreduce import KeyRanges, ViewNode, is_sets, same_result
from penstock.partitions.handle_protocol import PartitionHandle
from penstock.recovery import (
    STEP,
    EntryDifferences,
    GroupReplacement,
    Mended,
    RebuildIncomplete,
    Repaired,
    ReplacedGroup,
    Shadows,
    ViewComparison,
    consistent,
    delayed,
    fits_in_memory,
    numbers_of,
    owed_back,
    parts_of,
    scanned,
    scratch_folder,
    side_differences,
    temporary_store,
)
from penstock.remote import repaired_of_data
from penstock.views import ABSENT, App, Progress, Table, View

__all__ = ["PartitionedSite", "RepairedStore"]

_ATTEMPTS = 5
_CUTS = 1_000


class RepairedStore(Protocol):
    """The store under repair, with the methods that a repair needs."""

    def snapshot(self) -> Snapshot:
        """Make a snapshot over all partitions."""
        ...

    def still(self, settled: bool = True) -> AbstractContextManager[None]:
        """Keep other writers out; before that, wait until all productions that can be applied have arrived."""
        ...

    def carry(self) -> list[str]:
        """Wait until nothing is in flight, or only refused productions; return why these are refused."""
        ...


class PartitionedSite:
    """The partitions of a store under repair; `folders` are their folders, or None for partitions in memory."""

    def __init__(
        self,
        app: App,
        held: RepairedStore,
        handles: Sequence[PartitionHandle],
        ranges: KeyRanges,
        folders: Sequence[str] | None,
        remote: bool,
    ) -> None:
        self.app = app
        self._held = held
        self._handles = handles
        self._ranges = ranges
        self._folders = folders
        self._remote = remote
        with held.snapshot() as snap:
            self.catalog: Catalog = snap.schema.catalog
            self.views: Mapping[str, ViewNode] = snap.schema.views

    @property
    def places(self) -> int:
        """The number of partitions."""
        return len(self._handles)

    @property
    def folders(self) -> Sequence[str]:
        """The folders of the partitions; empty for a store in memory."""
        return self._folders or []

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Yield a snapshot over all partitions, with nothing in flight but refused productions."""
        with ExitStack() as stack:
            with self._held.still(settled=False):
                snap = stack.enter_context(self._cut())
            yield snap

    def owner(self, key: bytes) -> int:
        """Return the partition that owns a key."""
        return self._ranges.of(key)

    def step(self, place: int, do: str, *what: Any) -> tuple[Any, list[Repaired]]:
        """Perform a step at one partition; return its result, and the changes at all partitions."""
        changed: list[Repaired] = []
        with self._held.still(settled=False):
            for handle in self._handles:
                handle.repair("collect")
            try:
                out = self._handles[place].repair(do, *what)
            finally:
                self._held.carry()
                for handle in self._handles:
                    changed += repaired_of_data(handle.repair("collected"))
        return out, changed

    def scratch(self, tables: Sequence[Table]) -> AbstractContextManager[Store]:
        """Return a temporary store; it is in memory if the tables are small."""
        with self._held.snapshot() as snap:
            return temporary_store(snap, tables, self.folders)

    def compared(
        self, name: str, asked: Sequence[bytes] | None, fix: bool, progress: Progress | None
    ) -> ViewComparison:
        """Compare a view, or these groups of it, with its documents; with `fix`, replace the groups that differ."""
        with self.snapshot() as snap:
            found, _ = self._compared(name, asked, snap, False, progress)
        if not fix or found.right:
            return found
        out = ViewComparison()
        for _ in range(_ATTEMPTS):
            with self._held.still(settled=False), self._cut() as snap:
                found, done = self._compared(name, asked, snap, True, progress)
            out.repaired += found.repaired
            out.replaced += found.replaced
            if done:
                return out
        raise RebuildIncomplete

    def compare_side(self, join: str, side: str, fix: bool) -> int:
        """Return the number of entries of a side that differ from the documents. With `fix` replace them."""
        for _ in range(_ATTEMPTS):
            with self._held.still(settled=False), self._cut() as snap:
                found = side_differences(snap, join, side, self._ranges)
                wrong = sum(map(len, found))
                if not fix or not wrong or self._put(snap, join, side, found):
                    return wrong
        raise PenstockError(f"join {join!r} could not be repaired while it changed; run this again")

    def _put(self, snap: Snapshot, join: str, side: str, found: Sequence[EntryDifferences]) -> bool:
        """Replace entries at their partitions; return False if one has applied a production since the snapshot."""
        places = zip(self._handles, snap.parts, found, strict=True)
        return all(
            handle.repair("put_entries", join, side, own.payload(), _taken(part))
            for handle, part, own in places
            if len(own)
        )

    def _compared(
        self, name: str, asked: Sequence[bytes] | None, snap: Snapshot, fix: bool, progress: Progress | None
    ) -> tuple[ViewComparison, bool]:
        """Compare a view; with `fix`, replace wrong groups. Return the comparison, and True if they were replaced."""
        view = self.views[name]
        with ExitStack() as stack:
            stores, targets = self._beside(stack, fits_in_memory(snap, view.view.tables))
            shadows = Shadows(view.view, view.number, stores, asked, self._ranges)
            replacements = [GroupReplacement(shadow) for shadow in shadows.each]
            pairs = list(zip(replacements, snap.parts, strict=True))
            void = not all(replacement.readable(part.reader()) for replacement, part in pairs)
            if asked is None or not void:
                scanned(snap, self.views, shadows, shadows.add, progress)
                _take_off(snap, view, shadows)
                wrong = [replacement.differing(part.reader()) for replacement, part in pairs]
                replaced = [
                    replace(one, place=place)
                    for place, (replacement, part) in enumerate(pairs)
                    for one in replacement.described(part.reader(), wrong[place])
                ]
                done = fix and self._replaced(snap, view, targets, wrong, asked or ())
                return ViewComparison(self._said(view, replaced, replacements), replaced, void), done
        return self._compared(name, None, snap, fix, progress)

    @contextmanager
    def _cut(self) -> Iterator[Snapshot]:
        """Yield a snapshot in which each production that is not applied yet is stored at its sender."""
        for _ in range(_CUTS):
            with self._held.snapshot() as snap:
                if consistent([part.reader() for part in snap.parts], [part.state for part in snap.parts]):
                    yield snap
                    return
        raise PenstockError("partitions did not come to rest for as long as they were asked; run this again")

    def _beside(self, stack: ExitStack, small: bool) -> tuple[list[Store], list[Any]]:
        """Make a temporary store for each partition; return them, and the store or folder that each partition gets."""
        stores: list[Store] = []
        targets: list[Any] = []
        for place in range(self.places):
            if self._folders is None or (small and not self._remote):
                stores.append(MemoryStore())
                targets.append(stores[-1])
                continue
            folder = stack.enter_context(scratch_folder(self._folders[place]))
            store = open_lmdb(folder, sync=False)
            stack.callback(store.close)
            stores.append(store)
            targets.append(folder if self._remote else store)
        return stores, targets

    def _replaced(
        self, snap: Snapshot, view: ViewNode, targets: list[Any], wrong: list[list[bytes]], asked: Sequence[bytes]
    ) -> bool:
        """Replace groups at their partitions; return False if one has applied a production since the snapshot."""
        wholes = [group for group in asked if is_long(stored_key(group))]
        for place, (handle, part) in enumerate(zip(self._handles, snap.parts, strict=True)):
            taken = _taken(part)
            if isinstance(view.view.source, View):
                handle.repair("rows_anew", view.view.source.name)
            for a in range(0, max(len(wrong[place]), 1), STEP):
                if not handle.repair("mend", view.name, targets[place], wrong[place][a : a + STEP], wholes, taken):
                    return False
        return True

    def _said(
        self, view: ViewNode, replaced: Sequence[ReplacedGroup], replacements: Sequence[GroupReplacement]
    ) -> list[Repaired]:
        """Return the report on groups, orphans first; the owner's result is the new one of an orphan."""
        orphans: list[Repaired] = []
        others: list[Repaired] = []
        for one in replaced:
            said = one.repaired
            owner = self._ranges.of(encode_key(said.group[0] if view.view.index else said.group))
            if owner == one.place:
                others.append(said)
                continue
            new = replacements[owner].wanted(one.key)
            same = said.old is not ABSENT and new is not ABSENT and same_result(said.old, new)
            what = Mended.CONTENT if same and said.what is Mended.RESULT else said.what
            orphans.append(replace(said, new=new, what=what))
        return orphans + others


def _taken(part: Snapshot) -> list[tuple[int, int]]:
    """Return the numbers of the productions that a partition has applied, by sender."""
    return [(other, number) for other, (_, number) in part.state.taken.items()]


def _take_off(snap: Snapshot, view: ViewNode, shadows: Shadows) -> None:
    """Subtract productions in flight from rebuilt groups, the last one first: the view will receive them later."""
    wanted = None if shadows.asked is None else frozenset(shadows.asked)
    for of, to, _, taken in numbers_of([part.state for part in snap.parts]):
        sender = snap.parts[of].reader()
        waiting = [row.parts for row in delayed(sender) if row.receiver == to]
        for parts in chain(reversed(waiting), map(parts_of, owed_back(sender, to, taken))):
            for part in reversed(parts):
                if part[0] == view.number and not is_sets(part):  # sets may be applied again
                    shadows.each[to].take_off(part, wanted)
