"""Contributions to groups of other partitions: how they are sent, and how the receiver gathers them.

A batch's contributions are divided by the owner of their group. A view with exact totals only sends totals, one per
group and batch. Other views send single contributions with their sources, or sets if the view may send them early. The
receiver folds them together with the view's other contributions of that transaction. Invariants:

- within one transaction a view folds once: its input is gathered until its parent views are done;
- a sent difference must be applied exactly once and in order, which `recovery` ensures. A set may be applied at any
  time, unless a later one has been applied;
- a part names groups by their encodings, and a view by its number: codes and nodes are local to a partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.group_codes import Groups, local_codes
from penstock.mapreduce.columns.items import Items, SourceKeys
from penstock.mapreduce.columns.partition_ranges import KeyRanges
from penstock.mapreduce.contribution_sets import ContributionSets, named_by, net, of_others
from penstock.mapreduce.fold.group_deltas import Delta
from penstock.mapreduce.maps.emissions import Contributions, ContributionSources
from penstock.mapreduce.nodes.node_format import Cut, read_leaves
from penstock.views import TS, Path

Places = NDArray[np.int64]
Side = list[Any]  # codes as u32s into a list of groups, and the contributions as a leaf
Part = list[Any]  # [number of the view, groups, delta or nil, added, removed], or for sets:
# [number of the view, groups, nil, contributions, other named sources, number of the batch].
# Entries of a side of a join cross as [number of the side, their changes, nil].
_SETS = 6  # the length of a part with sets
_ENTRIES = 3  # the length of a part with entries
_DELTA = 2  # index of the sums in a part


class CrossingView(Protocol):
    """A view whose contributions cross between partitions."""

    number: int

    @property
    def groups(self) -> Groups:
        """The dictionary of its groups."""
        ...

    @property
    def early(self) -> bool:
        """True if its contributions cross as sets, which may be sent before the batch is saved."""
        ...

    @property
    def keeps(self) -> bool:
        """True if it keeps contributions with their sources."""
        ...

    @property
    def crossing_fields(self) -> tuple[Path | None, ...]:
        """The columns of contributions that cross."""
        ...

    def combined(self, plus: Contributions, minus: Contributions) -> Delta | None:
        """Return one delta for each group; None if the view has cells that are not exact totals."""
        ...


def side_data(side: Contributions, codes: NDArray[np.int64], fields: Sequence[Path | None]) -> Side:
    """Encode contributions as data. `codes` number their groups."""
    if not side.n:
        return [b"", Cut(Items.none(len(fields)), inner=False).parts(0, 0)]
    none = Column(np.zeros(side.n, np.int64))
    columns = tuple(side.inputs.get(f, none) for f in fields)
    lane, text, rank = np.zeros(side.n, np.int64), None, None
    if side.sources is not None:
        keys = side.sources.keys
        lane, rank = keys.lane[side.sources.index], side.sources.rank
        text = None if keys.text is None else keys.text[side.sources.index]
    items = Items(codes, np.zeros(side.n, np.uint64), lane, text, rank, columns)
    return [codes.astype("<u4").tobytes(), Cut(items, inner=False).parts(0, side.n)]


def side_of(side: Side, codes: NDArray[Any], fields: Sequence[Path | None]) -> Contributions:
    """Decode contributions. Drop the ones with a negative group code."""
    places, leaf = side
    if not places:
        return _none(fields)
    own = codes[np.frombuffer(places, "<u4")]
    items = read_leaves([leaf], len(fields))
    sources = ContributionSources(SourceKeys(items.lane, items.text), np.arange(len(items)), items.rank)
    out = Contributions(own, dict(zip(fields, items.columns, strict=True)), sources)
    return out if int(own.min()) >= 0 else out.take(np.flatnonzero(own >= 0))


def _none(fields: Sequence[Path | None]) -> Contributions:
    """Return no contributions."""
    at = np.zeros(0, np.int64)
    sources = ContributionSources(SourceKeys(at, None), at)
    return Contributions(np.zeros(0, np.int32), {f: Column(at) for f in fields}, sources)


def entries_part(number: int, changes: bytes) -> Part:
    """Make a part of changed entries of a side of a join."""
    return [number, changes, None]


def is_entries(part: Part) -> bool:
    """Return True if a part has entries of a side of a join."""
    return len(part) == _ENTRIES


def is_sets(part: Part) -> bool:
    """Return True if a part has sets, which may be sent repeatedly."""
    return len(part) == _SETS


def numbered(part: Part, batch: int) -> Part:
    """Return the part of sets with the number of its batch."""
    return [*part[:-1], batch]


def number_of(part: Part) -> int:
    """Return the batch number of a part of sets."""
    number: int = part[-1]
    return number


def _sides(view: CrossingView, plus: Contributions, minus: Contributions) -> tuple[list[bytes], Places, Places]:
    """Return the groups of both sides, and the group index of each contribution."""
    codes, here = local_codes(np.concatenate((plus.code, minus.code)), view.groups.size)
    return [view.groups.whole(code) for code in codes.tolist()], here[: plus.n], here[plus.n :]


@dataclass(slots=True)
class TransactionContributions:
    """The input of one view in one transaction."""

    plus: list[Contributions] = field(default_factory=list)
    minus: list[Contributions] = field(default_factory=list)
    deltas: list[Delta] = field(default_factory=list)
    sets: list[ContributionSets] = field(default_factory=list)
    entries: list[bytes] = field(default_factory=list)  # of a side of a join: changed entries, in order

    def add(self, plus: Contributions, minus: Contributions) -> None:
        """Add contributions to add and to remove."""
        self.plus.append(plus)
        self.minus.append(minus)


class GroupCrossing:
    """The split of a view's contributions by partition, and the decoder of received parts."""

    def __init__(self, partition: int, ranges: KeyRanges) -> None:
        self.partition = partition
        self.ranges = ranges

    def part(
        self, view: CrossingView, plus: Contributions, minus: Contributions, leaving: dict[int, list[Part]]
    ) -> tuple[Contributions, Contributions]:
        """Return the contributions to local groups. Add parts for other partitions to `leaving`, by owner."""
        groups = view.groups
        owners = groups.owners(self.ranges)
        came, went = owners[plus.code], owners[minus.code]
        parties = np.bincount(np.concatenate((came, went))).nonzero()[0].tolist()
        for other in parties:
            if other != self.partition:
                own = (plus, minus) if len(parties) == 1 else (plus.take(came == other), minus.take(went == other))
                leaving.setdefault(other, []).append(self._part(view, *own))
        if parties in ([], [self.partition]):
            return plus, minus
        return plus.take(came == self.partition), minus.take(went == self.partition)

    @staticmethod
    def _part(view: CrossingView, plus: Contributions, minus: Contributions) -> Part:
        if view.early:
            return GroupCrossing.sets(view, plus, minus)
        delta = view.combined(plus, minus)
        if delta is not None:
            groups = view.groups
            return [view.number, [groups.whole(code) for code in delta.codes.tolist()], delta.data(), None, None]
        names, came, went = _sides(view, plus, minus)
        fields = view.crossing_fields
        return [view.number, names, None, side_data(plus, came, fields), side_data(minus, went, fields)]

    @staticmethod
    def sets(view: CrossingView, plus: Contributions, minus: Contributions) -> Part:
        """Return the part of sets. A document in `minus` only has no contribution left in that group."""
        minus = of_others(minus, plus)
        names, came, went = _sides(view, plus, minus)
        return [view.number, names, None, side_data(plus, came, view.crossing_fields), side_data(minus, went, ()), 0]

    @staticmethod
    def joined(view: CrossingView, parts: Sequence[Part]) -> list[Part]:
        """Make one step of the parts that several transactions owe groups of a view, in this order."""
        if len(parts) < 2 or is_entries(parts[0]):
            return list(parts)
        sums = [part for part in parts if part[_DELTA] is not None]
        own = TransactionContributions()
        for part in parts:
            if part[_DELTA] is None:
                GroupCrossing.gather(view, part, own)
        if not own.plus:
            return sums
        if view.keeps:
            plus, minus = net(list(zip(own.plus, own.minus, strict=True)))
        else:
            plus, minus = Contributions.join(own.plus), Contributions.join(own.minus)
        return [*sums, GroupCrossing._part(view, plus, minus)] if plus.n or minus.n else sums

    @staticmethod
    def gather(view: CrossingView, part: Part, into: TransactionContributions) -> None:
        """Decode a part of a production for this view."""
        if is_entries(part):
            into.entries.append(part[1])
            return
        _, names, delta, came, went = part[:5]
        known = view.groups
        codes = np.array([known.code_of_encoded(name) for name in names], np.int32)
        if delta is not None:
            into.deltas.append(Delta.of_data(codes.astype(np.int64), delta))
            return
        fields = view.crossing_fields
        if is_sets(part):
            plus = side_of(came, codes, fields)
            into.sets.append(ContributionSets(plus, named_by(plus, side_of(went, codes, ()))))
            return
        plus, minus = side_of(came, codes, fields), side_of(went, codes, fields)
        minus.inputs.pop(TS, None)
        if not view.keeps:
            plus.sources = minus.sources = None
        into.add(plus, minus)
