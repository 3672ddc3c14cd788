"""Retry and drop entries of quarantine, in steps of one transaction each, while others write.

A retried record is applied from its bytes with its own ts, as if it arrived now. In a table without ts, it is refused
if its key was written since. A retried document is mapped again as it is now, for one view. A retried group is rebuilt
from its contributions. Invariants:

- an accepted entry leaves quarantine in the transaction that applies it;
- every other entry stays as it is, and the outcome gives the reason;
- of several rejected records for one key the last one counts, as on arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.cache import PenstockError, Reader, Writer
from penstock.core import MOST_BYTES, Snapshot, retry_holds
from penstock.flow import StreamNode
from penstock.gateway import (
    REJECTED,
    Outcome,
    RejectedRecord,
    TableBatch,
    TableNode,
    counted,
    read_rejects,
    release,
    rest,
    superseded,
)
from penstock.mapreduce import Holds, ViewNode, Writes, rest_rows, resting_db
from penstock.recovery.quarantine.entries import (
    EntryFilter,
    Left,
    QuarantineKind,
    Settled,
    document_id,
    group_id,
    record_id,
)
from penstock.recovery.quarantine.entry_list import held_documents, held_groups, listed, rejected_records, views_of
from penstock.recovery.quarantine.quarantined_records import aimed, ready
from penstock.views import Progress, Stream

if TYPE_CHECKING:
    from penstock.core import Core

__all__ = [
    "Foreign",
    "OneStoreRetries",
    "QuarantineRetries",
    "absent_entries",
    "restated_groups",
    "undropped_groups",
]

_RECORDS = 1_000  # records that one step takes at most
_DOCUMENTS = 256
_NO_GROUP = (
    "a group can't be dropped: its result is that of all its documents; correct the reducer and retry, or correct the "
    "documents"
)
_BUILT = "its view is being built anew, and takes its documents again; run this once that is done"
_T = TypeVar("_T")
Step = Callable[[Writer, Writes], Settled]
Foreign = Callable[[str, TableBatch], Mapping[int, int]]
"""A function that finds records whose keys other partitions own: place in the batch → owner."""


class QuarantineRetries(Protocol):
    """The operations that retry and drop entries of a store."""

    def retry(self, wanted: EntryFilter) -> Settled:
        """Retry the selected entries."""
        ...

    def drop(self, wanted: EntryFilter) -> Settled:
        """Drop the selected records and held documents."""
        ...


class OneStoreRetries:
    """Retries and drops in one store, whose writer uses this lock.

    A partition of several has no `remake`: its caller handles groups and missing ids. `found` has the ids of the
    selected entries that exist. `foreign` finds records whose keys other partitions own; a store of one partition has
    none.
    """

    def __init__(
        self,
        core: Core,
        lock: AbstractContextManager[Any],
        remake: Callable[[str, Sequence[bytes]], None] | None,
        progress: Progress | None = None,
        foreign: Foreign | None = None,
    ) -> None:
        self._foreign = foreign
        self._core = core
        self._lock = lock
        self._remake = remake
        self._progress = progress
        self._done = self._total = 0
        self.found: frozenset[str] = frozenset()

    def retry(self, wanted: EntryFilter) -> Settled:
        """Retry the selected entries."""
        return self._all(wanted, self._take_records, self._tell_again, self._retry_groups)

    def drop(self, wanted: EntryFilter) -> Settled:
        """Drop the selected records and held documents; groups can't be dropped."""
        return self._all(wanted, self._drop_records, self._rest, self._keep_groups)

    def _all(
        self,
        wanted: EntryFilter,
        records: Callable[[Sequence[int], Writer, Writes], Settled],
        documents: Callable[[ViewNode, Sequence[bytes]], Settled],
        groups: Callable[[ViewNode, Sequence[tuple[bytes, bytes]]], Settled],
    ) -> Settled:
        with self._lock:
            self._core.ready()
            reader = self._core.store.read()
        with reader:
            found = self._find(reader, wanted)
        self._total, self.found = found.entries, frozenset(found.ids)
        settled = Settled()
        # The newest records go first: an older record of the same key then meets the newer one.
        for chunk in reversed(list(_chunks(found.records))):

            def step(writer: Writer, writes: Writes, part: Sequence[int] = chunk) -> Settled:
                return records(part, writer, writes)

            settled += self._amend(step, len(chunk))
        for view, keys in found.documents:
            settled += documents(view, keys)
        for view, own in found.groups:
            settled += groups(view, own) if own else Settled()
        return settled if self._remake is None else settled + absent_entries(wanted, found.ids, self._reasons)

    def _reasons(self, ids: frozenset[str]) -> dict[str, str]:
        """Return the reasons of entries that nobody can retry: condition values above the limit of a join."""
        with Snapshot(self._core) as snap:
            return {own.id: own.reason for own in listed(snap, EntryFilter(ids))}

    def _find(self, reader: Reader, wanted: EntryFilter) -> _SelectedEntries:
        """Find the selected entries."""
        out = _SelectedEntries()
        views = self._visible_views(reader, wanted)
        if wanted.of_kind(QuarantineKind.RECORD):
            for number, own in out.first(rejected_records(reader, wanted), wanted):
                out.records.append((number, len(own.received.data)))
            out.ids.update(record_id(number) for number, _ in out.records)
        for view, visible in views if wanted.of_kind(QuarantineKind.DOCUMENT) else ():
            found = ((key, document_id(view.name, key), rests) for key, *_, rests in held_documents(reader, visible))
            mine = ((key, name) for key, name, rests in found if wanted.has(name) and (wanted.resting or not rests))
            pairs = list(out.first(mine, wanted))
            out.documents.append((view, [key for key, _ in pairs]))
            out.ids.update(name for _, name in pairs)
        grouped = self._remake is not None and wanted.of_kind(QuarantineKind.GROUP)
        for view, visible in views if grouped else ():
            many = self._core.state.held_groups.get(view.name, 0)
            every = ((key, whole) for key, whole, _ in held_groups(reader, visible, many, wanted))
            own_groups = list(out.first(every, wanted))
            out.groups.append((view, own_groups))
            out.ids.update(group_id(view.name, key) for key, _ in own_groups)
        return out

    def _visible_views(self, reader: Reader, wanted: EntryFilter) -> list[tuple[ViewNode, ViewNode]]:
        """Return the selected views, each with the generation that readers see, if there is one."""
        visible = self._core.schema(reader).views
        out: list[tuple[ViewNode, ViewNode]] = []
        for view in views_of([*self._core.views.values(), *self._core.joins.sides.values()], wanted):
            seen = view if view.building is None else visible.get(view.name)
            if seen is not None:
                out.append((view, seen))
        return out

    def _amend(self, step: Step, entries: int) -> Settled:
        with self._lock:
            out = self._core.amend(step)
        self._tell(entries)
        return out

    def _tell(self, entries: int) -> None:
        self._done += entries
        if self._progress is not None and self._total:
            self._progress(self._done, self._total)

    # -- records

    def _drop_records(self, numbers: Sequence[int], writer: Writer, writes: Writes) -> Settled:
        found = read_rejects(writer, numbers)
        release({number: reject.table for number, reject in found.items()}, writes)
        if any(reject.lost for reject in found.values()):  # only the remaining rejects tell the counts by table
            left, before = counted(writer, found), self._core.state.kept
            writes.kept.update({name: left.get(name, 0) - before.get(name, 0) for name in {*left, *before}})
        return Settled(dropped=len(found))

    def _take_records(self, numbers: Sequence[int], writer: Writer, writes: Writes) -> Settled:
        tables: dict[str, dict[int, RejectedRecord]] = {}
        out, found = Settled(), read_rejects(writer, numbers)
        for number, reject in found.items():
            try:
                own = aimed(self._core.app, reject)
            except PenstockError as error:
                out += Settled.of_left([Left(record_id(number), str(getattr(error, "reason", error)))])
            else:
                tables.setdefault(own.table, {})[number] = own
        for name, rejects in tables.items():
            node = self._core.tables.get(name)
            if not name:
                out += Settled.of_left([Left(record_id(n), reject.reason) for n, reject in rejects.items()])
            elif node is None:
                out += Settled.of_left([Left(record_id(n), "its table is not there any more") for n in rejects])
            else:
                out += self._take(node, rejects, {n: found[n].table for n in rejects}, writer, writes)
        return out

    def _take(
        self,
        node: TableNode,
        rejects: dict[int, RejectedRecord],
        tables: Mapping[int, str],
        writer: Writer,
        writes: Writes,
    ) -> Settled:
        """Retry records of one table; `kept` has the table name under which quarantine counts each."""
        name = node.table.name
        self._core.make_room(node, len(rejects))
        left: dict[int, str] = {}
        batch, numbers = ready(rejects, left)
        foreign = {} if self._foreign is None or not batch.n else self._foreign(name, batch)
        if foreign:
            left.update((numbers[place], self._why_foreign(owner)) for place, owner in foreign.items())
            batch, numbers = ready({n: r for n, r in rejects.items() if n not in left}, left)
        if not node.table.has_ts and batch.n:
            late = superseded(node, writer, batch, [rejects[number].tail for number in numbers])
            left.update((numbers[place], reason) for place, reason in late.items())
            batch, numbers = ready({n: r for n, r in rejects.items() if n not in left}, left)
        taken: dict[int, int] = {}
        if batch.n:
            report = self._core.retake(writer, name, batch, writes)
            outcomes = bytes(report.outcome)
            for place, number in enumerate(numbers):
                if outcomes[place] == REJECTED:
                    left[number] = report.rejected[place]
                else:
                    taken[number] = outcomes[place]
        release({number: tables[number] for number in taken}, writes)
        kinds = list(taken.values())
        counted = Settled(kinds.count(Outcome.APPLIED), kinds.count(Outcome.EQUAL), kinds.count(Outcome.LATE))
        return counted + Settled.of_left([Left(record_id(n), left[n]) for n in sorted(left)])

    def _why_foreign(self, owner: int) -> str:
        exchange = self._core.exchange
        assert exchange is not None, "the only partition owns all keys"
        return f"its key belongs to partition {owner}, and this lies with {exchange.partition}; put it anew"

    # -- documents

    def _tell_again(self, view: ViewNode, keys: Sequence[bytes]) -> Settled:
        def step(writer: Writer, writes: Writes, node: ViewNode, holds: Holds) -> list[bytes]:
            return retry_holds(self._core, node, writer, holds, writes)

        return self._documents(view.name, keys, step, False)

    def _rest(self, view: ViewNode, keys: Sequence[bytes]) -> Settled:
        def step(writer: Writer, writes: Writes, node: ViewNode, holds: Holds) -> list[bytes]:
            if node.of_rows:
                rest_rows(node, writer, holds, writes)
                return list(holds)
            own = self._core.tables[node.view.source.name]
            if isinstance(own, StreamNode):
                return own.drop(node, holds, writes)
            return rest(own, node, writer, holds, writes)

        return self._documents(view.name, keys, step, True)

    def _node(self, name: str) -> ViewNode:
        """Return the node of a view, or of a side of a join."""
        return self._core.views[name] if name in self._core.views else self._core.joins.sides[name]

    def _documents(
        self,
        view: str,
        keys: Sequence[bytes],
        step: Callable[[Writer, Writes, ViewNode, Holds], list[bytes]],
        resting: bool,
    ) -> Settled:
        """Run `step` on held documents of a view, a few at a time; `resting` means that they are dropped."""
        out = Settled()
        for a in range(0, len(keys), _DOCUMENTS):
            part = keys[a : a + _DOCUMENTS]
            if self._node(view).building is not None:
                out += Settled.of_left([Left(document_id(view, key), _BUILT) for key in part])
                self._tell(len(part))
                continue

            def one(writer: Writer, writes: Writes, part: Sequence[bytes] = part) -> Settled:
                node = self._node(view)
                holds = {key: (own.whole, own.hold) for key, own in node.remembered(writer).held(part).items()}
                if not holds:
                    return Settled()
                present = set(step(writer, writes, node, holds))
                writes.changed = writes.changed or bool(present)
                gone = [key for key in holds if key not in present]
                return Settled.of_left([Left(document_id(view, key), "its document is not there") for key in gone])

            lost = self._amend(one, len(part))
            out += lost + self._after(view, part, resting, lost)
        return out

    def _after(self, view: str, keys: Sequence[bytes], resting: bool, lost: Settled) -> Settled:
        """Count the documents that the view now accepts, or that rest. Report the others with their reasons."""
        node = self._node(view)
        gone = {own.id for own in lost.why}
        keys = [key for key in keys if document_id(view, key) not in gone]
        with self._core.store.read() as reader:
            if resting and isinstance(node.view.source, Stream):
                return Settled(dropped=len(keys) - len(node.remembered(reader).held(keys)))
            if resting:
                return Settled(dropped=sum(row is not None for row in reader.get_many(resting_db(node.number), keys)))
            still = node.remembered(reader).held(keys)
        held = [Left(document_id(view, key), own.hold.reason) for key, own in still.items()]
        return Settled(released=len(keys) - len(held)) + Settled.of_left(held)

    # -- groups

    def _retry_groups(self, view: ViewNode, groups: Sequence[tuple[bytes, bytes]]) -> Settled:
        if self._core.views[view.name].building is not None:
            return Settled.of_left([Left(group_id(view.name, key), _BUILT) for key, _ in groups])
        assert self._remake is not None, "a partition looks for no groups"
        self._remake(view.name, [whole for _, whole in groups])
        self._tell(len(groups))
        with self._core.store.read() as reader:
            return restated_groups(reader, view, [key for key, _ in groups])

    def _keep_groups(self, view: ViewNode, groups: Sequence[tuple[bytes, bytes]]) -> Settled:
        return undropped_groups(view, [key for key, _ in groups])


def restated_groups(reader: Reader, view: ViewNode, keys: Sequence[bytes]) -> Settled:
    """Return the outcome of held groups that were restated."""
    rows = zip(keys, reader.get_many(view.reduce.db, keys), strict=True)
    states = [(key, view.reduce.codec.decode(key, row, f"view {view.name!r}")) for key, row in rows if row]
    held = [Left(group_id(view.name, key), state.held[0]) for key, state in states if state.held is not None]
    return Settled(released=len(keys) - len(held)) + Settled.of_left(held)


def undropped_groups(view: ViewNode, keys: Sequence[bytes]) -> Settled:
    """Return the outcome of a drop of held groups: each stays held."""
    return Settled.of_left([Left(group_id(view.name, key), _NO_GROUP) for key in keys])


def absent_entries(
    wanted: EntryFilter, found: Set[str], reasons: Callable[[frozenset[str]], Mapping[str, str]] | None = None
) -> Settled:
    """Return the outcome for requested ids that are not among the found ones; `reasons` tells why some of them stay."""
    absent = (wanted.ids or frozenset()) - found
    why = reasons(absent) if absent and reasons is not None else {}
    return Settled.of_left([Left(own, why.get(own, "it is not in quarantine")) for own in sorted(absent)])


@dataclass(slots=True)
class _SelectedEntries:
    """The selected entries: record numbers with sizes, stored keys by view, groups with whole keys."""

    records: list[tuple[int, int]] = field(default_factory=list)
    documents: list[tuple[ViewNode, list[bytes]]] = field(default_factory=list)
    groups: list[tuple[ViewNode, list[tuple[bytes, bytes]]]] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    @property
    def entries(self) -> int:
        """Return the number of entries."""
        return len(self.ids)

    def first(self, found: Iterator[_T], wanted: EntryFilter) -> Iterator[_T]:
        """Limit an iterator to the entries that the selection still allows."""
        return islice(found, None if wanted.limit is None else max(0, wanted.limit - len(self.ids)))


def _chunks(numbers: Sequence[tuple[int, int]]) -> Iterable[list[int]]:
    """Split record numbers into chunks for one step each, by count and size."""
    part: list[int] = []
    total = 0
    for number, size in numbers:
        if part and (len(part) == _RECORDS or total + size > MOST_BYTES):
            yield part
            part, total = [], 0
        part.append(number)
        total += size
    if part:
        yield part
