"""The steps of repairs: transactions of one store or one partition, for a few groups or documents each.

The arguments of a step are plain data, so another process can run it. A step finds out itself what work is left, so
repeating it is harmless. Invariant: after the commit, `fed` has the changes of the step's transactions, except for
`mend`, whose caller has compared and knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from penstock.cache import Digest, LmdbWriter, Store, Writer, decode_key, decode_keys, open_lmdb, reindex
from penstock.core import Snapshot, forget_reindexed, mark_reindexed
from penstock.gateway import refresh_documents
from penstock.generations import refill_step
from penstock.mapreduce import FeedChanges, RowDelta, RowReading, Writes, result_changes, same_result
from penstock.recovery.quarantine.entries import EntryFilter
from penstock.recovery.quarantine.retry_drop import Foreign, OneStoreRetries
from penstock.recovery.repair.emission_repair import repair_emissions, repair_missing_emissions
from penstock.recovery.repair.fresh_map import FreshMap, same_pairs
from penstock.recovery.repair.group_replacement import GroupReplacement
from penstock.recovery.repair.remembered_emissions import forget, gone_of, remembered_emission
from penstock.recovery.repair.side_repair import put_entries, replace_entries
from penstock.recovery.repair.view_rebuild import Shadow
from penstock.recovery.repair_report import Mended, Repaired
from penstock.views import ABSENT, Row

if TYPE_CHECKING:
    from penstock.core import Core

__all__ = ["STEP", "RepairSteps", "changes_of", "take_step"]

STEP = 64
"""The largest number of groups, rows or documents of one step."""


class RepairSteps:
    """Steps of one store, whose writer uses this lock; `foreign` finds records that other partitions own."""

    def __init__(
        self, core: Core, lock: AbstractContextManager[Any], fed: list[FeedChanges], foreign: Foreign | None = None
    ) -> None:
        self._foreign = foreign
        self._core = core
        self._lock = lock
        self._fed = fed

    # -- groups

    def replace_groups(
        self,
        view: str,
        rebuilt: Store | str,
        keys: Sequence[bytes],
        wholes: Sequence[bytes],
        taken: Sequence[tuple[int, int]],
    ) -> bool:
        """Replace the groups that differ from a shadow, which is in this process or in a folder.

        `wholes` has the known encodings of long groups. `taken` has the numbers of the productions in the shadow, by
        partition. Return False, without a change, if the store has applied others.
        """
        with _reached(rebuilt) as store, self._lock:
            self._core.ready()
            if {other: number for other, (_, number) in self._core.state.taken.items()} != dict(taken):
                return False
            node = self._core.views[view]
            replacement = GroupReplacement(Shadow(node.view, node.number, store, wholes))
            self._core.amend(
                lambda writer, writes: replacement.replace_groups(writer, self._core.views[view], keys, writes)
            )
        return True

    def rows_anew(self, view: str) -> None:
        """Forget cached rows of a view before its rows are read for chained views."""
        with self._lock:
            self._core.ready()
            self._core.views[view].reduce.forget()

    # -- what is remembered

    def repair_emissions(self, view: str) -> list[list[Any]]:
        """Replace damaged remembered rows of a view. Return the place and affected groups of each."""
        return [
            [one.where, list(one.groups)] for one in repair_emissions(self._core, view, self._amend, self.read_anew)
        ]

    def repair_missing_emissions(self, view: str, start: int) -> list[Any]:
        """Map documents without remembered emission, from a record on. Return the next record and the written rows."""
        with self._lock:
            following, repairs = repair_missing_emissions(self._core, view, start, self._amend)
            self._core.forget()
        return [following, [[one.where, list(one.groups)] for one in repairs]]

    def forget(self, view: str, db: str, keys: Sequence[bytes]) -> None:
        """Forget the remembered emissions and holds of documents or parent rows that are gone."""

        def step(writer: Writer, writes: Writes) -> None:
            node = self._core.views[view]
            found = zip(keys, writer.get_many(db, keys), strict=True)
            with Snapshot(self._core) as snap:  # nothing was written since
                still = gone_of(snap, node, db, [(key, row) for key, row in found if row is not None])
            forget(node, still, writer, writes)
            if still and not node.of_rows:
                writes.after.append(self._core.tables[node.view.source.name].forget)

        self._amend(step)

    def replace_entries(self, join: str, side: str) -> None:
        """Replace the entries of a side's index that differ from the documents."""
        self._amend(lambda writer, writes: replace_entries(self._core, writer, join, side, writes))

    def put_entries(self, join: str, side: str, changes: bytes, taken: Sequence[tuple[int, int]]) -> bool:
        """Change entries of a side's index, unless the partition has applied other productions than `taken`."""
        with self._lock:
            self._core.ready()
            if {other: number for other, (_, number) in self._core.state.taken.items()} != dict(taken):
                return False
            self._core.amend(lambda writer, writes: put_entries(self._core, writer, join, side, changes, writes))
        return True

    def refresh_rows(self, view: str, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Map changed parent rows again, if the view holds them or their remembered emissions differ.

        They are named by their keys and by the encodings of their groups.
        """

        def step(writer: Writer, writes: Writes) -> None:
            node = self._core.views[view]
            mapping, deltas = FreshMap(node.view), list[RowDelta]()
            source = self._core.views[node.view.source.name].reduce
            held = node.read_holds(writer, [key for key, _ in rows])
            for key, whole in rows:
                group, raw = decode_key(whole), writer.get_many(source.db, [key])[0]
                remembered = remembered_emission(writer, node, key)
                if raw is None:
                    forget(node, [key] if remembered is not None else [], writer, writes)
                    continue
                state = source.codec.decode(key, raw, f"view {node.view.source.name!r}")
                new = Row(group, source.codec.result(state))
                [mapped] = mapping.pairs([Row(*new)])
                if mapped is not None and (key in held or not same_pairs(remembered or [], mapped)):
                    deltas.append(RowDelta(key, group, None, new))
            writes.changed |= bool(deltas)  # the end of a hold changes content, even if no result changes
            node.on_rows(writer, deltas, writes)

        self._amend(step)

    # -- documents

    def refresh_documents(self, table: str, keys: Sequence[bytes]) -> None:
        """Restate these documents, given by the encodings of their keys, in the views on a table."""
        named = list(map(decode_key, keys))
        self._amend(lambda writer, writes: refresh_documents(self._core.tables[table], writer, named, writes))

    def release(self, do: str, wanted: dict[str, Any]) -> list[Any]:
        """Retry or drop records and documents of a partition. Return the outcome and the number of entries.

        If they were selected by id, return also the ids that exist.
        """
        releasing, asked = (
            OneStoreRetries(self._core, self._lock, None, foreign=self._foreign),
            EntryFilter.of(**wanted),
        )
        settled = releasing.retry(asked) if do == "retry" else releasing.drop(asked)
        found = releasing.found
        return [settled.data(), len(found), [] if asked.ids is None else sorted(found)]

    def refill(self, do: str, *what: Any) -> Any:
        """Run a step of a refill."""
        with self._lock:
            return refill_step(self._core, do, *what)

    def complete(self, digests: dict[str, Digest]) -> None:
        """Set the digests of databases to those that a check has counted."""
        with self._lock:
            self._core.ready()
            with self._core.store.write() as writer:
                if isinstance(writer, LmdbWriter):
                    writer.complete({db: Digest(*digest) for db, digest in digests.items()})

    def count(self, digests: dict[str, Digest]) -> None:
        """Store digests of databases that a walk has counted for the first time."""
        with self._lock:
            self._core.ready()
            with self._core.store.write() as writer:
                if isinstance(writer, LmdbWriter):
                    writer.complete_uncounted({db: Digest(*digest) for db, digest in digests.items()})

    def reindex(self, table: str) -> None:
        """Rebuild the index of a table; writers wait for it, because the damaged index would mislead them."""
        with self._lock:
            node = self._core.tables[table]
            with self._core.store.write() as writer:
                reindex(writer, node.number, node.table.has_ts)
                mark_reindexed(writer, node.number)
            self._core.forget()

    def clear_reindexed(self, table: str) -> None:
        """Delete the note that a table's index was rebuilt: all views on it are right."""
        with self._lock, self._core.store.write() as writer:
            forget_reindexed(writer, self._core.tables[table].number)

    def read_anew(self) -> None:
        """Clear the caches, so that they are read from the store again."""
        with self._lock:
            self._core.forget()

    def _amend(self, change: Callable[[Writer, Writes], object]) -> None:
        """Run a transaction, and note its changes of views as repairs."""

        def step(writer: Writer, writes: Writes) -> None:
            writes.feeding = True
            change(writer, writes)
            writes.after.append(lambda: self._fed.extend(writes.fed))

        with self._lock:
            self._core.amend(step)


_STEPS: dict[str, Callable[..., Any]] = {
    "mend": RepairSteps.replace_groups,
    "rows_anew": RepairSteps.rows_anew,
    "relearn": RepairSteps.repair_emissions,
    "repair_missing_emissions": RepairSteps.repair_missing_emissions,
    "forget": RepairSteps.forget,
    "refresh_rows": RepairSteps.refresh_rows,
    "replace_entries": RepairSteps.replace_entries,
    "put_entries": RepairSteps.put_entries,
    "refresh_documents": RepairSteps.refresh_documents,
    "release": RepairSteps.release,
    "complete": RepairSteps.complete,
    "count": RepairSteps.count,
    "refill": RepairSteps.refill,
    "reindex": RepairSteps.reindex,
    "clear_reindexed": RepairSteps.clear_reindexed,
    "read_anew": RepairSteps.read_anew,
}


def take_step(steps: RepairSteps, do: str, *what: Any) -> Any:
    """Run a step by its name."""
    return _STEPS[do](steps, *what)


def changes_of(core: Core, fed: Sequence[FeedChanges]) -> list[Repaired]:
    """Convert entries of the feed to repairs."""
    by_number = {node.number: node for node in core.views.values()}
    out: list[Repaired] = []
    for part in fed:
        node = by_number[part.view]
        codec: RowReading = node.reduce.codec
        changes = result_changes(part, codec)
        for group, old, new in zip(decode_keys(changes.groups), changes.old, changes.new, strict=True):
            same = old is not ABSENT and new is not ABSENT and same_result(old, new)
            what = Mended.CONTENT if same else Mended.RESULT
            out.append(Repaired(node.name, group, old, new, what))
    return out


@contextmanager
def _reached(rebuilt: Store | str) -> Iterator[Store]:
    """Open the shadow's store: by its folder, if another process has made it."""
    if not isinstance(rebuilt, str):
        yield rebuilt
        return
    store = open_lmdb(rebuilt, readonly=True)
    try:
        yield store
    finally:
        store.close()
