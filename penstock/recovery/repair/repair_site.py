"""A repair site: one store, or the partitions of one. This module has the site of one store.

Both sites offer the same operations: consistent snapshots, the comparison and repair of a view, and steps in the
transactions of each place. The shadow of one store is built from a snapshot. Contributions that arrive meanwhile are
spooled and applied to it. So the view and its shadow are at one position when they are compared for the last time and
groups are replaced. Invariants:

- the lock is held for steps of a few groups, never for a scan;
- a repair whose spool is incomplete starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from penstock.cache import MemoryStore, Store, StoreDamaged, Writer, is_long, read_mark
from penstock.core import Catalog, Passed, Snapshot
from penstock.mapreduce import Contributions, FeedChanges, IndexReduce, ViewNode, Writes
from penstock.recovery.repair.group_replacement import GroupReplacement, ReplacedGroup
from penstock.recovery.repair.join_scan import JoinScan
from penstock.recovery.repair.repair_errors import RebuildIncomplete, Unreadable
from penstock.recovery.repair.repair_steps import STEP, RepairSteps, changes_of, take_step
from penstock.recovery.repair.scratch_store import folder_store
from penstock.recovery.repair.side_repair import side_differences
from penstock.recovery.repair.view_rebuild import Dictionaries, RebuildListener, Shadow, hearing
from penstock.recovery.repair_report import Repaired
from penstock.views import App, Join, Progress, Table, View

if TYPE_CHECKING:
    from penstock.core import Core

__all__ = ["OneSite", "Site", "ViewComparison", "fits_in_memory", "scanned", "temporary_store"]

_IN_MEMORY = 100_000  # documents up to which the shadow is kept in memory


@dataclass(slots=True)
class ViewComparison:
    """The outcome of a comparison: the report, and the groups that are, or would be, replaced."""

    repaired: list[Repaired] = field(default_factory=list)
    replaced: list[ReplacedGroup] = field(default_factory=list)
    void: bool = False  # deferred nodes are unreadable

    @property
    def right(self) -> bool:
        """Return True if there is nothing to replace."""
        return not self.replaced and not self.void


class Site(Protocol):
    """The store or partitions on which a repair works."""

    @property
    def app(self) -> App:
        """The app of the store."""
        ...

    @property
    def catalog(self) -> Catalog:
        """The numbers of its tables and views."""
        ...

    @property
    def views(self) -> Mapping[str, ViewNode]:
        """Its views, to read their rows."""
        ...

    @property
    def places(self) -> int:
        """The number of its places: its partitions, or one."""
        ...

    @property
    def folders(self) -> Sequence[str]:
        """The folders of its places; empty for a store in memory."""
        ...

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """Open a snapshot of all places, with only undeliverable messages in flight; `parts` are the places."""
        ...

    def owner(self, key: bytes) -> int:
        """Return the place that owns a key."""
        ...

    def compared(
        self, name: str, asked: Sequence[bytes] | None, fix: bool, progress: Progress | None
    ) -> ViewComparison:
        """Compare a view, or these groups, with its documents' contributions. With `fix` replace the wrong groups."""
        ...

    def compare_side(self, join: str, side: str, fix: bool) -> int:
        """Return the number of entries of a side that differ from the documents. With `fix` replace them."""
        ...

    def step(self, place: int, do: str, *what: Any) -> tuple[Any, list[Repaired]]:
        """Run a step at one place. Return its result, and its changes at any place."""
        ...

    def scratch(self, tables: Sequence[Table]) -> AbstractContextManager[Store]:
        """Open a temporary store for data as large as these tables."""
        ...


class OneSite:
    """The site of one store, whose writer uses this lock; a large shadow is built in the folder `path`."""

    def __init__(self, core: Core, lock: AbstractContextManager[Any], path: str | None) -> None:
        self._core = core
        self._lock = lock
        self._path = path
        self._fed: list[FeedChanges] = []
        self._steps = RepairSteps(core, lock, self._fed)

    @property
    def app(self) -> App:
        """The app of the store."""
        return self._core.app

    @property
    def catalog(self) -> Catalog:
        """The numbers of its tables and views."""
        return self._core.catalog

    @property
    def views(self) -> Mapping[str, ViewNode]:
        """Its views, the latest generation of each."""
        return self._core.views

    @property
    def places(self) -> int:
        """Always one."""
        return 1

    @property
    def folders(self) -> Sequence[str]:
        """Its folder; empty for a store in memory."""
        return [] if self._path is None else [self._path]

    def snapshot(self) -> Snapshot:
        """Open a snapshot of the store."""
        return Snapshot(self._core)

    def owner(self, key: bytes) -> int:
        """Return the only place."""
        return 0

    def step(self, place: int, do: str, *what: Any) -> tuple[Any, list[Repaired]]:
        """Run a step. Return its result and its changes."""
        self._fed.clear()
        out = take_step(self._steps, do, *what)
        return out, changes_of(self._core, self._fed)

    def scratch(self, tables: Sequence[Table]) -> AbstractContextManager[Store]:
        """Open a temporary store, in memory if the tables are small."""
        with self.snapshot() as snap:
            return temporary_store(snap, tables, self.folders)

    def compare_side(self, join: str, side: str, fix: bool) -> int:
        """Return the number of entries of a side that differ from the documents. With `fix` replace them."""
        with self.snapshot() as snap:
            wrong = sum(map(len, side_differences(snap, join, side)))
        if wrong and fix:
            self.step(0, "replace_entries", join, side)
        return wrong

    def compared(
        self, name: str, asked: Sequence[bytes] | None, fix: bool, progress: Progress | None
    ) -> ViewComparison:
        """Compare a view, or these groups, with its documents' contributions. With `fix` replace the wrong groups."""
        definition, number = self._core.views[name].view, self._core.views[name].number
        with self.scratch(definition.tables) as store:
            shadow = Shadow(definition, number, store, asked)
            with hearing(shadow.fields, asked) as heard, self._watched(name, heard if fix else None) as snap:
                replacement = GroupReplacement(shadow)
                if asked is None or replacement.readable(snap.reader()):
                    scanned(snap, self.views, shadow, shadow.add, progress)
                    wrong = replacement.differing(snap.reader())
                    if not fix:
                        return _comparison_text(replacement.described(snap.reader(), wrong))
                    readable = replacement.readable(snap.reader())
                    snap.close()
                    if readable and not wrong:
                        return ViewComparison()
                    return _comparison_text(self._replaced(name, shadow, heard, replacement, wrong))
        return self.compared(name, None, fix, progress)

    @contextmanager
    def _watched(self, name: str, heard: RebuildListener | None) -> Iterator[Snapshot]:
        """Open a snapshot. From then on spool the contributions that arrive."""
        source = self._core.views[name].view.source
        with self._lock:
            self._core.ready()
            if isinstance(source, View):
                self._core.views[source.name].reduce.forget()
            if heard is not None:
                self._core.watch(name, heard)
            snap = Snapshot(self._core)
        try:
            with snap:
                yield snap
        finally:
            with self._lock:
                self._core.watch(name, None)

    def _replaced(
        self, name: str, shadow: Shadow, heard: RebuildListener, replacement: GroupReplacement, wrong: list[bytes]
    ) -> list[ReplacedGroup]:
        keyed = not isinstance(shadow.node.reduce, IndexReduce) and not any(map(is_long, wrong))
        wanted = frozenset(wrong) if keyed else None
        out: list[ReplacedGroup] = []

        def catch_up() -> None:
            if heard.lost:
                raise RebuildIncomplete
            try:
                for sums in heard.drain():
                    shadow.hear(sums, wanted)
            except (StoreDamaged, AssertionError) as damage:
                raise RebuildIncomplete from damage  # the writer's caches have data that the store lacks

        catch_up()
        for a in range(0, max(len(wrong), 1), STEP):

            def step(
                writer: Writer, writes: Writes, part: Sequence[bytes] = wrong[a : a + STEP]
            ) -> list[ReplacedGroup]:
                catch_up()
                return replacement.replace_groups(writer, self._core.views[name], part, writes)

            with self._lock:
                out += self._core.amend(step)
        return out


def fits_in_memory(snap: Snapshot, tables: Sequence[Table]) -> bool:
    """Return True if a rebuilt view of these tables is kept in memory, which depends on the number of documents."""
    numbers = [snap.schema.tables[table.name].number for table in tables]
    return sum(read_mark(part.reader(), number).present for part in snap.parts for number in numbers) <= _IN_MEMORY


def temporary_store(snap: Snapshot, tables: Sequence[Table], folders: Sequence[str]) -> AbstractContextManager[Store]:
    """Return a temporary store for data as large as these tables, in memory or in the first of the folders."""
    return nullcontext(MemoryStore()) if not folders or fits_in_memory(snap, tables) else folder_store(folders[0])


def scanned(
    snap: Snapshot,
    views: Mapping[str, ViewNode],
    names: Dictionaries,
    add: Callable[[Contributions], None],
    progress: Progress | None,
) -> None:
    """Add all contributions of a view's documents, in the codes of `names`. Raise Unreadable for parent rows."""
    source, passed = names.view.source, Passed(len(snap.parts), progress)
    unreadable: list[bytes] = []
    for i, part in enumerate(snap.parts):
        scan = JoinScan(names.node, lambda: names.spaces, names.most, part.reader(), snap.reader(), passed.of(i))
        if isinstance(source, Table):
            found = scan.of_table(source, part.log(source.name))
        elif isinstance(source, Join):
            found = scan.of_join(part.schema.join(source.name))
        else:
            found = scan.of_rows(views[source.name])
        for contributions in found:
            add(contributions)
        unreadable += scan.unreadable
    if unreadable:
        raise Unreadable(unreadable)


def _comparison_text(replaced: list[ReplacedGroup]) -> ViewComparison:
    return ViewComparison([one.repaired for one in replaced], replaced)
