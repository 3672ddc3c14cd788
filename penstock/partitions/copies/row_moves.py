"""The move of a store's rows to the partitions that will own them: no map and no reducer runs.

    the log       living lines and tombstones, with their emissions, to the owner of the key
    held, resting with the document or the row that is held
    views         rows, tree nodes and remembered emissions of view rows, to the owner of the group
    joins         entries, holds by `limit=`, and emissions and holds of rows, to the owner of the condition value
    null values   rows with a null condition value, to the owner of the document
    quarantine    to the owner of the record's key, if it can be read; else to the first partition

Invariants:

- the content of a snapshot moves, and dead lines stay behind. Nodes not written yet stay a log of items, which is split
  by the owners of their groups;
- in a table without ts, lines and rejected records keep their order. Each line keeps its former number, plus the
  lengths of this table's logs in the partitions before its own. The `tail` of a record changes in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from penstock.cache import (
    KeyKind,
    KeyTooLong,
    PenstockError,
    Segment,
    decode_key,
    encode_key,
    is_long,
    read_mark,
    record_key,
    stored_key,
    unpack,
    unseal,
)
from penstock.core import Resume, Snapshot, StateRow
from penstock.gateway import RejectedRecord, first_numbers, keep_rejected, rejects_from
from penstock.join import encoded_keys, entry_owners, row_keys
from penstock.mapreduce import (
    Emissions,
    FunctionMapper,
    Groups,
    IndexReduce,
    KeyRanges,
    TreeReduce,
    ViewNode,
    Writes,
    emissions_db,
    group_of_node,
    held_db,
    log_by_owner,
    node_log_db,
    nodes_db,
    resting_db,
    rows_db,
)
from penstock.partitions.copies.repartition_target import DocumentLines, RepartitionTarget
from penstock.recovery import held_groups, key_of_reject
from penstock.views import Join

__all__ = ["RowMoves", "Tell"]

Tell = Callable[[str, int, int], None]
_TOGETHER = 1 << 12  # rows in one search for owners
_GROUPS = 1 << 16  # groups of a function view in memory at once
Pair = tuple[bytes, bytes]
Whose = Callable[[Sequence[Pair]], list[bytes]]  # returns the owning key of each row


class RowMoves:
    """All content of a snapshot on its way to new stores; `ranges` say which of these owns a key."""

    def __init__(self, snap: Snapshot, targets: Sequence[RepartitionTarget], ranges: KeyRanges, tell: Tell) -> None:
        self._snap = snap
        self._targets = targets
        self._ranges = ranges
        self._tell = tell
        self._held_groups: list[dict[str, int]] = [{} for _ in targets]
        self._done = 0
        self._total = sum(self._extents())

    def _extents(self) -> Iterator[int]:
        reader = self._snap.reader()
        for node in self._snap.schema.tables.values():
            for part in self._snap.parts:
                yield sum(map(len, part.log(node.table.name).segments()))
        for view in (*self._snap.schema.views.values(), *self._snap.schema.sides):
            for db in (rows_db, held_db, resting_db, nodes_db):
                yield reader.count(db(view.number))
            if view.of_rows:
                yield reader.count(emissions_db(view.number))

    def run(self) -> None:
        """Move everything, and write the state of each new store."""
        for name in self._snap.schema.tables:
            self._table(name)
        for view in (*self._snap.schema.views.values(), *self._snap.schema.sides):
            self._view(view)
        for join in self._snap.schema.joins:
            self._join(join)
        rejects = self._rejects()
        for i, left in enumerate(rejects):
            self._finish(i, left)
        self._tell("moving", self._total, self._total)

    def _passed(self, n: int) -> None:
        self._done += n
        self._tell("moving", min(self._done, self._total), self._total)

    # -- documents

    def _table(self, name: str) -> None:
        views = [v for v in self._snap.schema.views_on(name) if isinstance(v.mapper, FunctionMapper)]
        ordered = self._must_keep_order(name)
        for target in self._targets:
            target.begin(name, sum(self._tails(name)))
        groups = {view.number: Groups() for view in views}
        for i, part in enumerate(self._snap.parts):
            before = sum(self._tails(name)[:i])
            for segment in part.log(name).segments():
                self._segment(name, part, segment, views, groups, before if ordered else None)
                self._passed(len(segment))
                if any(own.size > _GROUPS for own in groups.values()):
                    for target in self._targets:
                        target.flush(groups)
                    groups = {view.number: Groups() for view in views}
        for target in self._targets:
            target.end(groups)
        moved = sum(target.living for target in self._targets)
        expected = sum(read_mark(part.reader(), self._number(name)).present for part in self._snap.parts)
        if moved != expected:
            raise PenstockError(
                f"table {name!r} says that it has {expected:,} documents and {moved:,} were found; run "
                "`penstock check`, and repartition again"
            )

    def _number(self, table: str) -> int:
        return self._snap.schema.tables[table].number

    def _tails(self, table: str) -> list[int]:
        return [read_mark(part.reader(), self._number(table)).tail for part in self._snap.parts]

    def _must_keep_order(self, table: str) -> bool:
        """Return True if a retry needs the order of lines and rejected records, because the table has no ts."""
        has_ts = self._snap.schema.tables[table].table.has_ts
        return not has_ts and bool(self._snap.state.kept.get(table))

    def _segment(
        self,
        name: str,
        part: Snapshot,
        segment: Segment,
        views: Sequence[ViewNode],
        groups: dict[int, Groups],
        before: int | None,
    ) -> None:
        """Give each living line of a segment to its owner."""
        every = np.arange(len(segment))
        at = every[part.log(name).newest(segment.k0, segment.k1, segment.base + every)]
        if not at.size:
            return
        k0, k1 = segment.k0[at], None if segment.k1 is None else segment.k1[at]
        owners = self._ranges.of_lanes(k0, k1)
        by_view = {view.number: _stored_emissions(part, view, groups[view.number], segment) for view in views}
        for owner in np.unique(owners).tolist():
            mine = owners == owner
            own = at[mine]
            numbers = None
            if before is not None:
                numbers = before + first_numbers(self._number(name), part.reader(), segment.base, own)
            self._targets[owner].add(
                DocumentLines(
                    k0[mine],
                    None if k1 is None else k1[mine],
                    segment.lines(own),
                    None if segment.gone is None else segment.gone[own],
                    numbers,
                    {number: emissions.take(own) for number, emissions in by_view.items()},
                ),
                groups,
            )

    # -- views

    def _view(self, view: ViewNode) -> None:
        reader, number = self._snap.reader(), view.number
        join, source = view.view.source, self._snap.schema.views.get(view.view.source.name)
        held, remembered = held_db(number), view.remembered(reader)

        def by_held(rows: Sequence[Pair]) -> list[bytes]:
            wholes = [remembered.held_in(key, row).whole for key, row in rows]
            return [_row_owner(join, own) if isinstance(join, Join) else _owned(source, own) for own in wholes]

        def by_resting(rows: Sequence[Pair]) -> list[bytes]:
            keys = [key for key, _ in rows]
            found = zip(keys, reader.get_many(held, keys), strict=True)
            return by_held([(key, row) for key, row in found if row is not None])

        self._move(rows_db(number), lambda rows: [_owned(view, _whole(view, *row)) for row in rows])
        self._move(held, by_held)
        self._move(resting_db(number), by_resting)
        if source is not None:
            self._move(emissions_db(number), lambda rows: self._of_rows(source, [key for key, _ in rows]))
        if isinstance(join, Join):
            self._joined_emissions(view, join)
        if isinstance(view.reduce, TreeReduce):
            self._move(nodes_db(number), lambda rows: self._of_rows(view, [group_of_node(key) for key, _ in rows]))
            log = log_by_owner(reader, node_log_db(number), len(view.reduce.stored_fields), self._owners)
            for owner, row in log.items():
                self._targets[owner].put(node_log_db(number), [row])
        self._count_held(view)

    def _joined_emissions(self, view: ViewNode, join: Join) -> None:
        """Move the remembered emissions of joined rows. A long key is found among the rows of the join."""
        db, reader = emissions_db(view.number), self._snap.reader()
        wanted = {key for key, _ in reader.scan(db) if is_long(key)}
        owners = dict[bytes, bytes]()
        for stored, own in self._snap.stored_joins(join.name) if wanted else ():
            for rows in stored.rows(own):
                found = zip(map(stored_key, encoded_keys(rows)), row_keys(rows), strict=True)
                owners.update((key, encode_key(join.owner_of(row))) for key, row in found if key in wanted)
        if len(owners) < len(wanted):
            raise PenstockError(
                f"view {view.name!r} remembers a row of join {join.name!r} that is not there; run `penstock check "
                "--fix`, and repartition again"
            )
        self._move(db, lambda rows: [owners.get(key) or _row_owner(join, key) for key, _ in rows])

    def _join(self, name: str) -> None:
        """Move the entries of the sides of a join, and the condition values above its limit."""
        for home, (join, reader) in enumerate(self._snap.stored_joins(name)):
            for side in join.sides:
                for entries in () if side.index is None else side.index.all(reader):
                    owners = entry_owners(entries, self._ranges, home)
                    for owner in np.unique(owners).tolist():
                        self._targets[owner].put_entries(side.view.name, entries.take(owners == owner))
        db = held_db(self._snap.schema.catalog.entries[name].number)
        self._move(db, lambda rows: [unpack(unseal(key, row, db))[0] for key, row in rows])

    def _count_held(self, view: ViewNode) -> None:
        many = self._snap.state.held_groups.get(view.name, 0)
        wholes = [whole for _, whole, _ in held_groups(self._snap.reader(), view, many)]
        for owner in self._owners(wholes):
            counts = self._held_groups[owner]
            counts[view.name] = counts.get(view.name, 0) + 1

    def _of_rows(self, source: ViewNode, keys: Sequence[bytes]) -> list[bytes]:
        """Return the owning keys of view rows, by their stored keys; the row of a shortened key has the whole key."""
        cut = [key for key in dict.fromkeys(keys) if is_long(key)]
        wholes = dict(zip(keys, keys, strict=True))
        for key, row in zip(cut, self._snap.reader().get_many(rows_db(source.number), cut), strict=True):
            if row is None:
                raise PenstockError(
                    f"what is remembered of view {source.name!r} has a group that is not there; run `penstock check "
                    "--fix`, and repartition again"
                )
            wholes[key] = _whole(source, key, row)
        return [_owned(source, wholes[key]) for key in keys]

    def _owners(self, keys: Sequence[bytes]) -> list[int]:
        owners: list[int] = self._ranges.of_encoded(keys).tolist()
        return owners

    def _move(self, db: str, whose: Whose) -> None:
        for n in self._given(db, self._snap.reader().scan(db), whose):
            self._passed(n)

    def _given(self, db: str, rows: Iterator[Pair], whose: Whose) -> Iterator[int]:
        """Add rows to the stores of their owners in chunks; yield the size of each chunk."""
        while chunk := list(islice(rows, _TOGETHER)):
            parted: dict[int, list[Pair]] = {}
            for owner, row in zip(self._owners(whose(chunk)), chunk, strict=True):
                parted.setdefault(owner, []).append(row)
            for owner, own in parted.items():
                self._targets[owner].put(db, own)
            yield len(chunk)

    # -- what is left

    def _rejects(self) -> list[Writes]:
        """Return the quarantine rows of each new store."""
        out = [Writes() for _ in self._targets]
        for i, part in enumerate(self._snap.parts):
            for _, reject in rejects_from(part.reader()):
                if reject.lost:
                    raise PenstockError(
                        "a row of quarantine is damaged, and nobody can tell whose it is; `penstock quarantine list` "
                        "names it, drop it, and repartition again"
                    )
                owner = self._owner_of(reject)
                before = sum(self._tails(reject.table)[:i]) if reject.table in self._snap.schema.tables else 0
                writes = out[owner]
                keep_rejected([reject], writes.numbered, {reject.table: before + reject.tail}, writes)
        return out

    def _owner_of(self, reject: RejectedRecord) -> int:
        shown = self._snap.schema.tables.get(reject.table)
        key = None if shown is None else key_of_reject(reject, shown.table)
        try:
            return self._ranges.of(encode_key(key)) if key is not None else 0
        except (KeyKind, KeyTooLong):
            return 0

    def _finish(self, number: int, left: Writes) -> None:
        """Write the state of one new store: the old state, at a position higher than all old ones."""
        snap, old = self._snap, self._snap.state
        position = 1 + max(part.state.position for part in snap.parts)
        state = StateRow(
            position=position,
            epoch=old.epoch,
            sources=old.sources,
            ts=old.ts,
            rejected=old.rejected if number == 0 else {},
            held_groups=self._held_groups[number],
            quarantined=left.numbered,
            kept=dict(left.kept),
            followed=position,
        )
        found = {source: snap.remembered(source) for source in old.sources}
        resumes = {source: Resume(own.offset, own.note) for source, own in found.items() if own is not None}
        self._targets[number].finish(state, resumes, left)


def _stored_emissions(part: Snapshot, view: ViewNode, groups: Groups, segment: Segment) -> Emissions:
    """Return the stored emissions of the lines of a segment."""
    return view.remembered(part.reader(), groups).block(record_key(segment.base), len(segment))


def _whole(view: ViewNode, key: bytes, row: bytes) -> bytes:
    """Return the whole key of a view row."""
    if not is_long(key):
        return key
    whole = view.reduce.codec.decode(key, row, f"view {view.name!r}").whole
    assert whole is not None, "a long key stands whole in its row"
    return whole


def _row_owner(join: Join, key: bytes) -> bytes:
    """Return the key that owns a joined row, by the encoded key of the row."""
    return encode_key(join.owner_of(decode_key(key)))


def _owned(view: ViewNode | None, whole: bytes) -> bytes:
    """Return the key that owns a view row, or a document if `view` is None: an index row lies with its group."""
    if view is None or not isinstance(view.reduce, IndexReduce):
        return whole
    entry: Any = decode_key(whole)
    return encode_key(entry[0])
