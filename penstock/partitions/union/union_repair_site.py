"""Where the repair of a store of several partitions works: one view of all of them, and steps at each.

A view is compared by the process that serves the store, which reads all partitions: what their documents contribute is
built beside in a store for each partition, of the groups that this one owns, and held against what it has. Where
nothing differs nobody waited. Else others write nothing while it is compared once more, and groups are replaced by who
has them, step by step, from the store beside. Invariants:

- what is replaced was compared while nothing was written; what is on its way, since a damaged group keeps its partition
  from taking it, is taken off the view beside, and is taken once that is mended;
- a row that lies with a partition that doesn't own its group is an orphan there;
- what a step changes at other partitions has arrived there, and is told with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any, Protocol

from penstock.cache import MemoryStore, PenstockError, Store, encode_key, is_long, open_lmdb, read_mark, stored_key
from penstock.core import Catalog, Snapshot
from penstock.mapreduce import KeyRanges, ViewNode, is_sets, same_result
from penstock.partitions.handle_protocol import PartitionHandle
from penstock.recovery import (
    IN_MEMORY,
    STEP,
    GroupReplacement,
    Mended,
    RebuildIncomplete,
    Repaired,
    ReplacedGroup,
    Shadows,
    ViewComparison,
    consistent,
    delayed,
    folder_store,
    owed_back,
    parts_of,
    scanned,
    scratch_folder,
)
from penstock.remote import repaired_of_data
from penstock.views import ABSENT, App, Progress, Table, View

__all__ = ["PartitionedSite", "RepairedStore"]

_ATTEMPTS = 5
_CUTS = 1_000


class RepairedStore(Protocol):
    """The store that is repaired, as far as a repair must know it."""

    def snapshot(self) -> Snapshot:
        """A snapshot of each partition."""
        ...

    def still(self, settled: bool = True) -> AbstractContextManager[None]:
        """Within it nothing is written by others; at its beginning nothing is on its way that can be taken."""
        ...

    def carry(self) -> list[str]:
        """Wait until nothing is on its way, or nobody takes what is; by whom, and why."""
        ...


class PartitionedSite:
    """The partitions of a store; `folders` are theirs, where each has a process of its own or lies on the disk."""

    def __init__(
        self,
        app: App,
        held: RepairedStore,
        seats: Sequence[PartitionHandle],
        ranges: KeyRanges,
        folders: Sequence[str] | None,
        away: bool,
    ) -> None:
        self.app = app
        self._held = held
        self._handles = seats
        self._ranges = ranges
        self._folders = folders
        self._away = away
        with held.snapshot() as snap:
            self.catalog: Catalog = snap.schema.catalog
            self.views: Mapping[str, ViewNode] = snap.schema.views

    @property
    def places(self) -> int:
        """How many partitions there are."""
        return len(self._handles)

    @property
    def folders(self) -> Sequence[str]:
        """The folders of the partitions; none of a store in memory."""
        return self._folders or []

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """All of it, with nothing on its way but what can't be taken."""
        with ExitStack() as stack:
            with self._held.still(settled=False):
                snap = stack.enter_context(self._cut())
            yield snap

    def owner(self, key: bytes) -> int:
        """The partition that owns a key."""
        return self._ranges.of(key)

    def step(self, place: int, do: str, *what: Any) -> tuple[Any, list[Repaired]]:
        """A step at one partition: what it gives, and what it changed there and elsewhere."""
        changed: list[Repaired] = []
        with self._held.still(settled=False):
            for seat in self._handles:
                seat.repair("note")
            try:
                out = self._handles[place].repair(do, *what)
            finally:
                self._held.carry()
                for seat in self._handles:
                    changed += repaired_of_data(seat.repair("noted"))
        return out, changed

    @contextmanager
    def scratch(self, table: Table) -> Iterator[Store]:
        """A store for a while: in memory for what is small."""
        with self._held.snapshot() as snap:
            small = self._small(snap, table)
        if small or self._folders is None:
            yield MemoryStore()
            return
        with folder_store(self._folders[0]) as store:
            yield store

    def compared(
        self, name: str, asked: Sequence[bytes] | None, fix: bool, progress: Progress | None
    ) -> ViewComparison:
        """Hold a view, or these of its groups, against what its documents contribute, and make it right if asked to."""
        with self.snapshot() as snap:
            found, _ = self._compared(name, asked, snap, False, progress)
        if not fix or found.right:
            return found
        out = ViewComparison()
        for _ in range(_ATTEMPTS):
            with self._held.still(settled=False), self._cut() as snap:
                found, done = self._compared(name, asked, snap, True, progress)
            out.said += found.said
            out.replaced += found.replaced
            if done:
                return out
        raise RebuildIncomplete

    def _compared(
        self, name: str, asked: Sequence[bytes] | None, snap: Snapshot, fix: bool, progress: Progress | None
    ) -> tuple[ViewComparison, bool]:
        """How a view is, and whether what is wrong was replaced, if that was asked."""
        view = self.views[name]
        with ExitStack() as stack:
            stores, there = self._beside(stack, self._small(snap, view.view.table))
            shadows = Shadows(view.view, view.number, stores, asked, self._ranges)
            menders = [GroupReplacement(shadow) for shadow in shadows.each]
            pairs = list(zip(menders, snap.parts, strict=True))
            void = not all(mender.readable(part.reader()) for mender, part in pairs)
            if asked is None or not void:
                scanned(snap, self.views, shadows, shadows.add, progress)
                _take_off(snap, view, shadows)
                wrong = [mender.differing(part.reader()) for mender, part in pairs]
                replaced = [
                    replace(one, place=place)
                    for place, (mender, part) in enumerate(pairs)
                    for one in mender.described(part.reader(), wrong[place])
                ]
                done = fix and self._replaced(snap, view, there, wrong, asked or ())
                return ViewComparison(self._said(view, replaced, menders), replaced, void), done
        return self._compared(name, None, snap, fix, progress)

    @contextmanager
    def _cut(self) -> Iterator[Snapshot]:
        """A snapshot of all of it, in which whatever one is owed and has not taken is stored."""
        for _ in range(_CUTS):
            with self._held.snapshot() as snap:
                if _fit(snap.parts):
                    yield snap
                    return
        raise PenstockError("partitions did not come to rest for as long as they were asked; run this again")

    def _beside(self, stack: ExitStack, small: bool) -> tuple[list[Store], list[Any]]:
        """A store for a while for each partition, and how it is reached from there."""
        stores: list[Store] = []
        there: list[Any] = []
        for place in range(self.places):
            if self._folders is None or (small and not self._away):
                stores.append(MemoryStore())
                there.append(stores[-1])
                continue
            folder = stack.enter_context(scratch_folder(self._folders[place]))
            store = open_lmdb(folder, sync=False)
            stack.callback(store.close)
            stores.append(store)
            there.append(folder if self._away else store)
        return stores, there

    def _small(self, snap: Snapshot, table: Table) -> bool:
        number = snap.schema.tables[table.name].number
        return sum(read_mark(part.reader(), number).present for part in snap.parts) <= IN_MEMORY

    def _replaced(
        self, snap: Snapshot, view: ViewNode, there: list[Any], wrong: list[list[bytes]], asked: Sequence[bytes]
    ) -> bool:
        """Have groups replaced by who has them; whether nothing came in between. What can't be read behind is void."""
        wholes = [group for group in asked if is_long(stored_key(group))]
        for place, (seat, part) in enumerate(zip(self._handles, snap.parts, strict=True)):
            taken = [(other, number) for other, (_, number) in part.state.taken.items()]
            if isinstance(view.view.source, View):
                seat.repair("rows_anew", view.view.source.name)
            for a in range(0, max(len(wrong[place]), 1), STEP):
                if not seat.repair("mend", view.name, there[place], wrong[place][a : a + STEP], wholes, taken):
                    return False
        return True

    def _said(
        self, view: ViewNode, replaced: Sequence[ReplacedGroup], menders: Sequence[GroupReplacement]
    ) -> list[Repaired]:
        """What is said of groups: of one that lay where it is not owned, what its owner shows instead."""
        orphans: list[Repaired] = []
        others: list[Repaired] = []
        for one in replaced:
            said = one.repaired
            owner = self._ranges.of(encode_key(said.group[0] if view.view.index else said.group))
            if owner == one.place:
                others.append(said)
                continue
            new = menders[owner].wanted(one.key)
            same = said.old is not ABSENT and new is not ABSENT and same_result(said.old, new)
            what = Mended.CONTENT if same and said.what is Mended.RESULT else said.what
            orphans.append(replace(said, new=new, what=what))
        return orphans + others


def _numbers(parts: Sequence[Snapshot]) -> Iterator[tuple[Snapshot, int, int, int]]:
    """For each two partitions: the sender, to whom, the last number given, and the last one taken."""
    for to, part in enumerate(parts):
        for of, sender in enumerate(parts):
            if of != to:
                yield sender, to, sender.state.sent.get(to, 0), part.state.taken.get(of, (0, 0))[1]


def _fit(parts: Sequence[Snapshot]) -> bool:
    """Whether these snapshots of partitions fit together."""
    states = [part.state for part in parts]
    taken = [{other: number for other, (_, number) in state.taken.items()} for state in states]
    return consistent([part.reader() for part in parts], [state.sent for state in states], taken)


def _take_off(snap: Snapshot, view: ViewNode, shadows: Shadows) -> None:
    """Take off what is on its way to groups of a view: it will be told of that, the last first."""
    wanted = None if shadows.asked is None else frozenset(shadows.asked)
    for sender, to, _, taken in _numbers(snap.parts):
        waiting = [row.parts for row in delayed(sender.reader()) if row.receiver == to]
        for parts in chain(reversed(waiting), map(parts_of, owed_back(sender.reader(), to, taken))):
            for part in reversed(parts):
                if part[0] == view.number and not is_sets(part):  # what sets say they may say again
                    shadows.each[to].take_off(part, wanted)
