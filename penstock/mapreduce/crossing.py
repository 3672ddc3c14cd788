"""What a view owes groups that other partitions own, and what such a partition makes of it.

A batch's contributions are parted by who owns their groups. Those of a view whose cells are all exact totals cross as
totals, one for each group and batch; of any other view they cross one by one, with their sources. On the other side
both are folded with what else that transaction has for the view, once. Invariants:

- within one transaction a view folds once: what comes to it is gathered until the views that it stands on are done;
- what crosses is a difference: it is right only if it is taken once, and in order, which `recovery` sees to;
- a part names groups by their encodings, and a view by its number: codes and nodes are each partition's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.mapreduce.column import Column
from penstock.mapreduce.deltas import Delta
from penstock.mapreduce.emission import Contributions, Sources
from penstock.mapreduce.groups import Groups
from penstock.mapreduce.items import Items, SourceKeys
from penstock.mapreduce.noderow import Cut, read_leaves
from penstock.mapreduce.ranges import Ranges
from penstock.views import TS, Path

if TYPE_CHECKING:
    from penstock.mapreduce.viewnode import ViewNode

Side = list[Any]  # codes as u32s into a list of groups, and the contributions as a leaf
Part = list[Any]  # [number of the view, groups, delta or nil, what came, what went]


def side_data(side: Contributions, codes: NDArray[np.int64], fields: Sequence[Path | None]) -> Side:
    """Contributions as data, their groups by these numbers."""
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
    """The contributions that this is the data of, without those whose group has a negative code."""
    places, leaf = side
    own = codes[np.frombuffer(places, "<u4")] if len(places) else np.zeros(0, np.int32)
    items = read_leaves([leaf], len(fields))
    sources = Sources(SourceKeys(items.lane, items.text), np.arange(len(items)), items.rank)
    out = Contributions(own, dict(zip(fields, items.columns, strict=True)), sources)
    return out if not own.size or int(own.min()) >= 0 else out.take(np.flatnonzero(own >= 0))


@dataclass(slots=True)
class Gathered:
    """What one transaction has for a view."""

    plus: list[Contributions] = field(default_factory=list)
    minus: list[Contributions] = field(default_factory=list)
    deltas: list[Delta] = field(default_factory=list)


class Crossing:
    """Parts what views are told at one partition, and reads what others sent."""

    def __init__(self, here: int, ranges: Ranges) -> None:
        self.here = here
        self.ranges = ranges

    def part(
        self, view: ViewNode, plus: Contributions, minus: Contributions, leaving: dict[int, list[Part]]
    ) -> tuple[Contributions, Contributions]:
        """What stays here; the rest is added to what leaves, by who owns it."""
        groups = view.groups
        owners = groups.owners(self.ranges)
        came, went = owners[plus.code], owners[minus.code]
        others = np.unique(np.concatenate((came, went)))
        for other in others[others != self.here].tolist():
            own = plus.take(came == other), minus.take(went == other)
            leaving.setdefault(other, []).append(self._part(view, groups, *own))
        if others.size == 1 and int(others[0]) == self.here:
            return plus, minus
        return plus.take(came == self.here), minus.take(went == self.here)

    @staticmethod
    def _part(view: ViewNode, groups: Groups, plus: Contributions, minus: Contributions) -> Part:
        delta = view.combined(plus, minus)
        if delta is not None:
            return [view.number, [groups.whole(code) for code in delta.codes.tolist()], delta.data(), None, None]
        codes, places = np.unique(np.concatenate((plus.code, minus.code)), return_inverse=True)
        names, fields = [groups.whole(code) for code in codes.tolist()], view.crossing_fields
        here = places.ravel().astype(np.int64)
        sides = (side_data(plus, here[: plus.n], fields), side_data(minus, here[plus.n :], fields))
        return [view.number, names, None, *sides]

    @staticmethod
    def gather(view: ViewNode, part: Part, into: Gathered) -> None:
        """Take a part of a production for this view."""
        _, names, delta, came, went = part
        known = view.groups
        codes = np.array([known.code_of_encoded(name) for name in names], np.int32)
        if delta is not None:
            into.deltas.append(Delta.of_data(codes.astype(np.int64), delta))
            return
        fields = view.crossing_fields
        plus, minus = side_of(came, codes, fields), side_of(went, codes, fields)
        minus.inputs.pop(TS, None)
        if not view.keeps:
            plus.sources = minus.sources = None
        into.plus.append(plus)
        into.minus.append(minus)
