"""What repairs do in the transactions of one store, or of one partition of several: a few groups or documents a step.

A step is asked for in plain data, so that another process can do it, and finds out for itself what is left to do: one
that is asked for twice does nothing twice. Invariant: what a step's transactions change is in `fed` once they are
committed, but for `mend`, whose asker has compared and knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from penstock.cache import Digest, LmdbWriter, Store, Writer, decode_key, decode_keys, open_lmdb, reindex
from penstock.core import Snapshot, forget_reindexed, note_reindexed
from penstock.gateway import retell
from penstock.generations import refill_step
from penstock.mapreduce import Fed, RowDelta, RowReading, Writes, fed_told, same_result
from penstock.recovery.quarantine.entries import Wanted
from penstock.recovery.quarantine.retry_drop import Foreign, Releasing
from penstock.recovery.repair.emission_repair import relearn, relearn_untold
from penstock.recovery.repair.fresh_map import Mapping, same_pairs
from penstock.recovery.repair.group_replacement import Mender
from penstock.recovery.repair.rebuilt_view import Shadow
from penstock.recovery.repair.remembered import forget, gone_of, remembered
from penstock.recovery.repair_report import Mended, Repaired
from penstock.views import ABSENT, Row

if TYPE_CHECKING:
    from penstock.core import Core

__all__ = ["STEP", "Steps", "changes_of", "take_step"]

STEP = 64
"""Groups, rows or documents that one step is of, at most."""


class Steps:
    """Steps of one store, whose writer is behind this lock; `foreign` finds records that other partitions own."""

    def __init__(
        self, core: Core, lock: AbstractContextManager[Any], fed: list[Fed], foreign: Foreign | None = None
    ) -> None:
        self._foreign = foreign
        self._core = core
        self._lock = lock
        self._fed = fed

    # -- groups

    def mend(
        self,
        view: str,
        there: Store | str,
        keys: Sequence[bytes],
        wholes: Sequence[bytes],
        taken: Sequence[tuple[int, int]],
    ) -> bool:
        """Replace those of these groups that are not what stands in a store beside, which is here or in a folder.

        `wholes` are the encodings of those that are too long to be stored whole, as far as they are known; `taken` says
        what of other partitions the store beside has. Where more was taken since, nothing is done.
        """
        with _reached(there) as store, self._lock:
            self._core.ready()
            if {other: number for other, (_, number) in self._core.state.taken.items()} != dict(taken):
                return False
            node = self._core.views[view]
            mender = Mender(Shadow(node.view, node.number, store, wholes))
            self._core.amend(lambda writer, writes: mender.mend(writer, self._core.views[view], keys, writes))
        return True

    def rows_anew(self, view: str) -> None:
        """Have the rows of a view read again before others are told of them."""
        with self._lock:
            self._core.ready()
            self._core.views[view].reduce.forget()

    # -- what is remembered

    def relearn(self, view: str) -> list[list[Any]]:
        """Make anew what is damaged of what a view remembers: where each was, and the groups that it is about."""
        return [[one.where, list(one.groups)] for one in relearn(self._core, view, self._amend, self.read_anew)]

    def relearn_untold(self, view: str, start: int) -> list[Any]:
        """Map documents from a record on that a view was not told of; the next record, and the rows that were made."""
        with self._lock:
            following, learnt = relearn_untold(self._core, view, start, self._amend)
            self._core.forget()
        return [following, [[one.where, list(one.groups)] for one in learnt]]

    def forget(self, view: str, db: str, keys: Sequence[bytes]) -> None:
        """Forget what a view remembers, or holds, of documents or rows that are not there any more."""

        def step(writer: Writer, writes: Writes) -> None:
            node = self._core.views[view]
            found = zip(keys, writer.get_many(db, keys), strict=True)
            with Snapshot(self._core) as snap:  # nobody has written since
                still = gone_of(snap, node, db, [(key, row) for key, row in found if row is not None])
            forget(node, still, writer, writes)
            if still and not node.chained:
                writes.after.append(self._core.tables[node.view.source.name].forget)

        self._amend(step)

    def retell_rows(self, view: str, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Map rows of the source that changed, where what a view remembers of them no longer fits, or it holds them.

        They are named by their keys, and by the encodings of their groups.
        """

        def step(writer: Writer, writes: Writes) -> None:
            node = self._core.views[view]
            mapping, deltas = Mapping(node.view), list[RowDelta]()
            source = self._core.views[node.view.source.name].reduce
            held = node.read_holds(writer, [key for key, _ in rows])
            for key, whole in rows:
                group, raw = decode_key(whole), writer.get_many(source.db, [key])[0]
                told = remembered(writer, node, key)
                if raw is None:
                    forget(node, [key] if told is not None else [], writer, writes)
                    continue
                state = source.codec.decode(key, raw, f"view {node.view.source.name!r}")
                new = Row(group, source.codec.result(state))
                [mapped] = mapping.pairs([Row(*new)])
                if mapped is not None and (key in held or not same_pairs(told or [], mapped)):
                    deltas.append(RowDelta(key, group, None, new))
            writes.changed |= bool(deltas)  # what is no longer held is content, whatever it counts
            node.on_rows(writer, deltas, writes)

        self._amend(step)

    # -- documents

    def retell(self, table: str, keys: Sequence[bytes]) -> None:
        """Tell the views on a table again of these documents, by the encodings of their keys."""
        named = list(map(decode_key, keys))
        self._amend(lambda writer, writes: retell(self._core.tables[table], writer, named, writes))

    def release(self, do: str, wanted: dict[str, Any]) -> list[Any]:
        """Retry or drop records and documents of a partition: what became of them, and how many there were.

        Where they were asked for by their ids, also those that there were.
        """
        releasing, asked = Releasing(self._core, self._lock, None, foreign=self._foreign), Wanted.of(**wanted)
        settled = releasing.retry(asked) if do == "retry" else releasing.drop(asked)
        found = releasing.found
        return [settled.data(), len(found), [] if asked.ids is None else sorted(found)]

    def refill(self, do: str, *what: Any) -> Any:
        """Take a step of a refill."""
        with self._lock:
            return refill_step(self._core, do, *what)

    def complete(self, digests: dict[str, Digest]) -> None:
        """Correct the digests of databases by what a check has counted."""
        with self._lock:
            self._core.ready()
            with self._core.store.write() as writer:
                if isinstance(writer, LmdbWriter):
                    writer.complete({db: Digest(*digest) for db, digest in digests.items()})

    def count(self, digests: dict[str, Digest]) -> None:
        """Give digests to databases that a walk has counted for the first time."""
        with self._lock:
            self._core.ready()
            with self._core.store.write() as writer:
                if isinstance(writer, LmdbWriter):
                    writer.complete_uncounted({db: Digest(*digest) for db, digest in digests.items()})

    def reindex(self, table: str) -> None:
        """Make the index of a table anew; writers wait for it, since they could not go by the damaged one."""
        with self._lock:
            node = self._core.tables[table]
            with self._core.store.write() as writer:
                reindex(writer, node.number, node.table.has_ts)
                note_reindexed(writer, node.number)
            self._core.forget()

    def retold(self, table: str) -> None:
        """Forget that the index of a table was made anew: all views on it are right."""
        with self._lock, self._core.store.write() as writer:
            forget_reindexed(writer, self._core.tables[table].number)

    def read_anew(self) -> None:
        """Memory is read again before it is next used."""
        with self._lock:
            self._core.forget()

    def _amend(self, change: Callable[[Writer, Writes], object]) -> None:
        """A transaction whose changes of views are repairs."""

        def step(writer: Writer, writes: Writes) -> None:
            writes.feeding = True
            change(writer, writes)
            writes.after.append(lambda: self._fed.extend(writes.fed))

        with self._lock:
            self._core.amend(step)


_STEPS: dict[str, Callable[..., Any]] = {
    "mend": Steps.mend,
    "rows_anew": Steps.rows_anew,
    "relearn": Steps.relearn,
    "relearn_untold": Steps.relearn_untold,
    "forget": Steps.forget,
    "retell_rows": Steps.retell_rows,
    "retell": Steps.retell,
    "release": Steps.release,
    "complete": Steps.complete,
    "count": Steps.count,
    "refill": Steps.refill,
    "reindex": Steps.reindex,
    "retold": Steps.retold,
    "read_anew": Steps.read_anew,
}


def take_step(steps: Steps, do: str, *what: Any) -> Any:
    """Take a step by its name."""
    return _STEPS[do](steps, *what)


def changes_of(core: Core, fed: Sequence[Fed]) -> list[Repaired]:
    """What changed, as repairs."""
    by_number = {node.number: node for node in core.views.values()}
    out: list[Repaired] = []
    for part in fed:
        node = by_number[part.view]
        codec: RowReading = node.reduce.codec
        told = fed_told(part, codec)
        for group, old, new in zip(decode_keys(told.groups), told.old, told.new, strict=True):
            same = old is not ABSENT and new is not ABSENT and same_result(old, new)
            what = Mended.CONTENT if same else Mended.RESULT
            out.append(Repaired(node.name, group, old, new, what))
    return out


@contextmanager
def _reached(there: Store | str) -> Iterator[Store]:
    """A store beside, that of another process by its folder."""
    if not isinstance(there, str):
        yield there
        return
    store = open_lmdb(there, readonly=True)
    try:
        yield store
    finally:
        store.close()
