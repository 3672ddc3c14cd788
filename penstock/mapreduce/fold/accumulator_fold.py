"""The reduce node of accumulators: contributions that are added or removed change the rows of a view.

`fold` is pure: it reads the accumulators of the groups that change and returns a `GroupChanges`. Memory changes only by
`apply`, after the commit. Invariants:

- an accumulator in memory equals the group's row. A group that is not in memory is read before it is changed;
- a group has a row if and only if it has contributions;
- a group whose user reducer fails shows its last good result until the reducer accepts the owed values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.cache import Reader, StoreDamaged, Writer, error_text, pack
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.group_codes import Groups, local_codes
from penstock.mapreduce.fold.accumulators import Accumulators
from penstock.mapreduce.fold.feed_rows import FeedChanges, packed_columns, row_results
from penstock.mapreduce.fold.group_deltas import Delta, added
from penstock.mapreduce.fold.row_format import RowCodec, RowState
from penstock.mapreduce.fold.small_fold import FewContributions, SmallFold, one_by_one
from penstock.mapreduce.maps.emissions import Contributions
from penstock.mapreduce.maps.field_plan import cell_fields
from penstock.mapreduce.reducers.user_group import UserGroup
from penstock.views import ABSENT, GroupTotals, is_accumulator

Ints = NDArray[np.int64]


@dataclass(slots=True)
class GroupChanges:
    """The change that a batch makes to a view's groups: columns over the changed groups, before and after."""

    codes: NDArray[np.int64]
    old_n: Ints
    n: Ints
    old: list[GroupTotals]
    new: list[GroupTotals]
    held: dict[int, list[Any]] = field(default_factory=dict)  # by place: [error, last good result]
    released: set[int] = field(default_factory=set)  # places of groups that are held no longer

    @property
    def m(self) -> int:
        """Return the number of groups that change."""
        return int(self.codes.size)


class ViewChanges(Protocol):
    """The change that a batch makes to a view, for every kind of reducer."""

    @property
    def m(self) -> int:
        """Return the number of rows that change."""
        ...

    def keyed(self) -> list[tuple[bytes, Any]]:
        """Return the groups of all changed rows: their stored keys and their values."""
        ...

    def results(self, before: bool = False) -> list[Any]:
        """Return the results of all changed rows after the batch or before it; ABSENT if there is no row."""
        ...

    def rows(self) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
        """Return the rows to put and the keys to delete."""
        ...

    def new_keys(self) -> list[bytes] | None:
        """Return the keys of added rows, or None if they are unknown."""
        ...

    def newly_held(self) -> int:
        """Return the increase of the number of held groups."""
        ...

    def fed(self, view: int) -> FeedChanges:
        """Return the entry for the feed."""
        ...

    def stage(self, during: list[Callable[[Writer], None]], after: list[Callable[[], None]]) -> None:
        """Add the other writes to `during`, and the updates of memory after the commit to `after`."""
        ...


@dataclass(slots=True)
class _Accumulated:
    """The change of accumulators."""

    node: ReduceNode
    change: GroupChanges
    groups: Groups

    @property
    def m(self) -> int:
        return self.change.m

    def keyed(self) -> list[tuple[bytes, Any]]:
        return self.groups.keyed(self.change.codes)

    def results(self, before: bool = False) -> list[Any]:
        return self.node.results(self.change, before)

    def rows(self) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
        return self.node.rows(self.change, self.groups)

    def new_keys(self) -> list[bytes] | None:
        change, stored = self.change, self.groups.stored
        return [stored[code] for code in change.codes[(change.old_n == 0) & (change.n != 0)].tolist()]

    def newly_held(self) -> int:
        return self.node.newly_held(self.change)

    def fed(self, view: int) -> FeedChanges:
        node, change = self.node, self.change
        whole = [self.groups.whole(code) for code in change.codes.tolist()]
        old, new = (
            np.concatenate([n[None, :], *(t.lanes for t in totals)])
            for n, totals in ((change.old_n, change.old), (change.n, change.new))
        )
        odd = [
            [place, *(None if not s.n else node.codec.payload(s) for s in node.states(change, place))]
            for place in node.odd(change).nonzero()[0].tolist()
        ]
        lanes, width = packed_columns(np.concatenate((old, new)))
        return FeedChanges(view, whole, lanes, odd, width)

    def stage(self, during: list[Callable[[Writer], None]], after: list[Callable[[], None]]) -> None:
        if self.change.m:
            after.append(lambda: self.node.apply(self.change))


class ReduceNode:
    """The reducer of one view whose cells all have an inverse. It keeps no contributions."""

    def __init__(self, name: str, db: str, codec: RowCodec, complete: bool, few: int) -> None:
        self.name = name
        self.db = db
        self.codec = codec
        self.cells = tuple(cell for cell in codec.cells if is_accumulator(cell))
        self.fields = tuple(dict.fromkeys(field for cell in codec.cells for field in cell_fields(cell)))
        self.memory = Accumulators([cell.lanes for cell in self.cells], complete)
        self._linear = not any(isinstance(cell, UserGroup) for cell in self.cells)
        self._few = few  # the limit up to which contributions are folded one by one
        self._small_fold = SmallFold(self)

    @property
    def nbytes(self) -> int:
        """Estimate the bytes in use."""
        return self.memory.nbytes

    def forget(self) -> None:
        """Drop everything in memory."""
        self.memory = Accumulators([cell.lanes for cell in self.cells], False)

    def none(self) -> Contributions:
        """Return no contributions."""
        return Contributions(np.zeros(0, np.int32), {f: Column.nulls(0) for f in self.fields})

    def combined(self, groups: Groups, plus: Contributions, minus: Contributions) -> Delta | None:
        """Sum these contributions by group. Return None if a cell cannot sum without its former state."""
        if not self._linear:
            return None
        codes, loc = local_codes(np.concatenate((plus.code, minus.code)), groups.size)
        m, here, gone = int(codes.size), loc[: plus.n], loc[plus.n :]
        n = np.bincount(here, minlength=m) - np.bincount(gone, minlength=m)
        totals = [
            cell.update(
                GroupTotals.none(cell.lanes, m),
                cell.batch(here, m, plus.inputs[cell.field]),
                cell.batch(gone, m, minus.inputs[cell.field]),
            )
            for cell in self.cells
        ]
        return Delta(codes, n, totals)

    def folded(
        self,
        reader: Reader,
        groups: Groups,
        plus: Contributions,
        minus: Contributions,
        deltas: Sequence[Delta] = (),
    ) -> ViewChanges:
        """Return the change that these contributions and deltas make, in the form that views take."""
        if plus.n + minus.n <= self._few and not deltas:
            own = [one_by_one(side, self.fields) for side in (plus, minus)]
            change = self.folded_small(reader, groups, *own)
            if change is not None:
                return change
        return _Accumulated(self, self.fold(reader, groups, plus, minus, deltas), groups)

    def folded_small(
        self, reader: Reader, groups: Groups, plus: FewContributions, minus: FewContributions
    ) -> ViewChanges | None:
        """Fold a few contributions. Return None if columns have to do it."""
        return self._small_fold.fold(reader, groups, plus, minus)

    def fold(
        self,
        reader: Reader,
        groups: Groups,
        plus: Contributions,
        minus: Contributions,
        deltas: Sequence[Delta] = (),
    ) -> GroupChanges:
        """Return the change that these contributions and deltas make."""
        memory = self.memory
        memory.reach(groups.size)
        every = np.concatenate((plus.code, minus.code, *(delta.codes.astype(np.int32) for delta in deltas)))
        codes, loc = local_codes(every, groups.size)
        m, split = int(codes.size), plus.n
        if not memory.complete:
            self.load(reader, groups, codes[~memory.have[codes]])
        end = split + minus.n
        here, gone = loc[:split], loc[split:end]
        old_n = memory.n[codes]
        n = old_n + np.bincount(here, minlength=m) - np.bincount(gone, minlength=m)
        places = np.split(loc[end:], np.cumsum([delta.codes.size for delta in deltas[:-1]])) if deltas else []
        for at, delta in zip(places, deltas, strict=True):
            n[at] += delta.n
        if m and int(n.min()) < 0:
            group = groups.value(int(codes[int(n.argmin())]))
            raise StoreDamaged(f"view {self.name!r}, group {group!r}: it would have fewer contributions than none")
        old = [memory.totals(i, codes) for i in range(len(self.cells))]
        new = [
            cell.update(o, cell.batch(here, m, plus.inputs[cell.field]), cell.batch(gone, m, minus.inputs[cell.field]))
            for cell, o in zip(self.cells, old, strict=True)
        ]
        for at, delta in zip(places, deltas, strict=True):
            new = [added(c, t, d, at) for c, t, d in zip(self.cells, new, delta.totals, strict=True)]
        change = GroupChanges(codes, old_n, n, old, new)
        if memory.held or any(totals.errors for totals in new):
            self._hold(change)
        return self._only_changed(change)

    def state(self, change: GroupChanges, place: int, before: bool = False) -> RowState:
        """Return the state of one changed group, after the change or before it."""
        totals = change.old if before else change.new
        lanes = [x for t in totals for x in t.lanes[:, place].tolist()]
        spills = [t.spill.get(place) for t in totals]
        held = self.memory.held.get(int(change.codes[place])) if before else change.held.get(place)
        n = int((change.old_n if before else change.n)[place])
        return RowState(n, lanes, spills, held)

    def results(self, change: GroupChanges, before: bool = False) -> list[Any]:
        """Return the results of all changed groups; ABSENT for a group that has no row."""
        n, totals = (change.old_n, change.old) if before else (change.n, change.new)
        odd = self.odd(change).nonzero()[0].tolist()
        out = row_results(self.codec, np.concatenate([n[None, :], *(t.lanes for t in totals)]).T, odd)
        for place in odd:
            state = self.state(change, place, before)
            out[place] = self.codec.result(state) if state.n else ABSENT
        return out

    def rows(self, change: GroupChanges, groups: Groups) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
        """Return the rows to put, mostly in key order, and the keys to delete."""
        codes = change.codes
        gone = change.n == 0
        deletes = [groups.stored[c] for c in codes[gone].tolist()]
        odd = self._odd(change, groups)
        at = (~gone & ~odd).nonzero()[0] if gone.any() or odd.any() else np.arange(change.m)
        at = at[np.argsort(groups.order[codes[at]])]
        listed = codes[at].tolist()
        keys = list(map(groups.stored.__getitem__, listed))
        crcs = list(map(groups.crcs.__getitem__, listed))
        lanes = [t.lanes for t in change.new]
        every = np.concatenate(lanes)[:, at] if lanes else np.zeros((0, at.size), np.int64)
        puts = self.codec.fixed_rows(keys, crcs, change.n[at], every)
        for place in (odd & ~gone).nonzero()[0].tolist():
            code = int(codes[place])
            state = self.state(change, place)
            state.whole = groups.encoded.get(code)
            key = groups.stored[code]
            puts.append((key, self.codec.sealed(key, state)))
        return puts, deletes

    def newly_held(self, change: GroupChanges) -> int:
        """Return the increase of the number of held groups."""
        known = self.memory.held
        fresh = sum(1 for place in change.held if int(change.codes[place]) not in known)
        return fresh - len(change.released)

    def apply(self, change: GroupChanges) -> None:
        """Update memory after the commit of the change."""
        memory, codes = self.memory, change.codes
        memory.n[codes] = change.n
        memory.have[codes] = True
        for i, totals in enumerate(change.new):
            memory.lanes[i][:, codes] = totals.lanes
            spills = memory.spills[i]
            if spills or totals.spill:
                for place, code in enumerate(codes.tolist()):
                    spill = totals.spill.get(place)
                    if spill is not None:
                        spills[code] = spill
                    else:
                        spills.pop(code, None)
        for place in change.released:
            memory.held.pop(int(codes[place]), None)
        for place, held in change.held.items():
            memory.held[int(codes[place])] = held

    def states(self, change: GroupChanges, place: int) -> tuple[RowState, RowState]:
        """Return the states of one changed group, before and after."""
        return self.state(change, place, before=True), self.state(change, place)

    def odd(self, change: GroupChanges) -> NDArray[np.bool_]:
        """Mark the groups that have more than lanes, before or after."""
        odd = np.zeros(change.m, bool)
        for totals in (*change.old, *change.new):
            if totals.spill:
                odd[list(totals.spill)] = True
        for place in (*change.held, *change.released):
            odd[place] = True
        return odd

    def _odd(self, change: GroupChanges, groups: Groups) -> NDArray[np.bool_]:
        """Mark the rows that cannot have form A."""
        odd = np.zeros(change.m, bool)
        for totals in change.new:
            if totals.spill:
                odd[list(totals.spill)] = True
        if change.held:
            odd[list(change.held)] = True
        if groups.encoded:
            odd |= np.fromiter((c in groups.encoded for c in change.codes.tolist()), bool, change.m)
        return odd

    def load(self, reader: Reader, groups: Groups, codes: NDArray[np.int64]) -> None:
        """Read the rows of groups that are not in memory."""
        if not codes.size:
            return
        memory, listed = self.memory, codes.tolist()
        keys = [groups.stored[c] for c in listed]
        for code, key, row in zip(listed, keys, reader.get_many(self.db, keys), strict=True):
            if row is not None:
                state = self.codec.decode(key, row, f"view {self.name!r}")
                memory.n[code] = state.n
                for i, (a, b) in enumerate(self.codec.spans):
                    memory.lanes[i][:, code] = state.lanes[a:b]
                    if state.spills is not None and (spill := state.spills[i]) is not None:
                        memory.spills[i][code] = spill
                if state.held is not None:
                    memory.held[code] = state.held
        memory.have[codes] = True

    def _hold(self, change: GroupChanges) -> None:
        held = self.memory.held
        errors: dict[int, Exception] = {}
        for totals in change.new:
            errors.update(totals.errors)
        for place, code in enumerate(change.codes.tolist()):
            was = held.get(code)
            if place in errors and change.n[place]:
                state = self.state(change, place, before=True)
                last = was[1] if was is not None else self.codec.result(state) if state.n else None
                change.held[place] = [error_text(errors[place]), last]
            elif was is not None:
                change.released.add(place)

    def _only_changed(self, change: GroupChanges) -> GroupChanges:
        differs = change.n != change.old_n
        for old, new in zip(change.old, change.new, strict=True):
            if new.lanes.size:
                differs |= (old.lanes != new.lanes).any(axis=0)
            for place in old.spill.keys() | new.spill.keys():
                if not differs[place] and not _same_spill(old.spill.get(place), new.spill.get(place)):
                    differs[place] = True
        for place in (*change.held, *change.released):
            differs[place] = True
        if differs.all():
            return change
        keep = differs.nonzero()[0]
        places = {int(p): i for i, p in enumerate(keep.tolist())}

        def kept(totals: GroupTotals) -> GroupTotals:
            spill = {places[p]: s for p, s in totals.spill.items() if p in places}
            return GroupTotals(totals.lanes[:, keep], spill)

        return GroupChanges(
            change.codes[keep],
            change.old_n[keep],
            change.n[keep],
            [kept(t) for t in change.old],
            [kept(t) for t in change.new],
            {places[p]: h for p, h in change.held.items()},
            {places[p] for p in change.released},
        )


def _same_spill(a: list[Any] | None, b: list[Any] | None) -> bool:
    """Return True if two spills are identical. Python's == alone takes 1, 1.0 and True as equal."""
    return a == b and (a is None or b is None or pack(a) == pack(b))
