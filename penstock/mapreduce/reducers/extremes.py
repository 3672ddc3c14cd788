"""The least and the greatest values of a group, for min, max, top and bottom.

Values compare in the total order of values, so every tree chooses the same among equal ones. Columns of ints or floats
are folded whole. Nodes with several kinds, and values outside lanes, are compared one by one.

A partial of `Extreme` is the value. A partial of `Ranking` is the list of the best values, best first. Null is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from math import isnan, nan
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.cache import canonical, value_text
from penstock.mapreduce.columns.column import KINDS, Column, Ints, LaneKind, lane_of, value_of
from penstock.mapreduce.reducers.contribution_cell import ContributionCell, node_numbers, nodes_of, partials_of
from penstock.mapreduce.reducers.value_order import (
    CODE_MAX,
    CODE_MIN,
    chosen,
    float_codes,
    float_lanes,
    sorted_values,
    unified,
)
from penstock.views import Leaves, Values, filtered_of

Mask = NDArray[np.bool_]
_LOWEST = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Extreme(ContributionCell):
    """The greatest or the least value."""

    greatest: bool

    def fold(self, leaves: Leaves) -> Column:
        """Return the extreme of each node's values."""
        return self._best(leaves.starts, leaves.column(self.field))

    def fold_small(self, values: Sequence[Any]) -> Any:
        """Return the extreme of the values of one node."""
        here = [_extreme_value(value) for value in values if value is not None]
        return chosen(here, self.greatest) if here else None

    def join(self, starts: Ints, partials: Values, groups: Callable[[], list[Any]]) -> Column:
        """Return the extreme of each node's children."""
        return self._best(starts, partials)

    def stepped(self, before: Values, came: Values, here: Ints, went: Values, gone: Ints) -> tuple[Column, Mask] | None:
        """Return next partials, and a mask of certain ones: the extreme stayed, or an added value is no worse."""
        kinds = (_kinds(before) | _kinds(came) | _kinds(went)) - {LaneKind.NULL}
        if len(kinds) > 1 or not kinds <= {LaneKind.INT, LaneKind.FLOAT}:
            return None
        floats = LaneKind.FLOAT in kinds
        m = len(before.lane)
        had, best = self._greatest_codes(before, np.arange(m), m, floats)
        new, top = self._greatest_codes(came, here, m, floats)
        left, lost = self._greatest_codes(went, gone, m, floats)
        sure = ~(left & (~had | (lost >= best))) | (new & (top >= best))
        codes = np.maximum(best, top)
        lane = codes if self.greatest else ~codes
        has = had | new
        kind = (
            None
            if not floats and has.all()
            else np.where(has, LaneKind.FLOAT if floats else LaneKind.INT, LaneKind.NULL)
        )
        lane = np.where(has, float_lanes(lane) if floats else lane, 0)
        return Column(lane, None if kind is None else kind.astype(np.uint8)), sure

    def _greatest_codes(self, column: Values, group: Ints, m: int, floats: bool) -> tuple[Mask, Ints]:
        """Return a mask of the m groups with values, and their greatest codes. The least inverts the codes."""
        lane = column.lane
        if column.kind is not None:
            own = column.kind != LaneKind.NULL
            lane, group = lane[own], group[own]
        codes = float_codes(lane) if floats else lane
        has, best = np.zeros(m, bool), np.full(m, _LOWEST, np.int64)
        has[group] = True
        np.maximum.at(best, group, codes if self.greatest else ~codes)
        return has, best

    def _best(self, starts: Ints, column: Values) -> Column:
        kind = column.kind
        if kind is None:
            return Column(self._reduced(column.lane, starts))
        m = int(starts.size)
        lane, kinds = np.zeros(m, np.int64), np.zeros(m, np.uint8)
        met: dict[int, list[Any]] = {}  # candidates of nodes with values of several kinds
        for which in (LaneKind.INT, LaneKind.FLOAT):
            own = kind == which
            if not own.any():
                continue
            best, has = self._best_of(own, float_codes(column.lane) if which is LaneKind.FLOAT else column.lane, starts)
            if which is LaneKind.FLOAT:
                best = float_lanes(best)
                for node in (has & (kinds == LaneKind.INT)).nonzero()[0].tolist():
                    met[node] = [int(lane[node]), value_of(int(best[node]), LaneKind.FLOAT, None)]
            lane[has], kinds[has] = best[has], which
        objs: dict[int, Any] = {}
        if column.objs:
            for node, value in self._best_objects(starts, column).items():
                if kinds[node] != LaneKind.NULL:
                    met.setdefault(node, [value_of(int(lane[node]), int(kinds[node]), None)]).append(value)
                else:
                    met[node] = [value]
        for node, values in met.items():
            value = chosen(values, self.greatest) if len(values) > 1 else values[0]
            lane[node], kinds[node] = lane_of(value)
            if kinds[node] >= LaneKind.BIG:
                objs[node] = value
        return Column(lane, kinds, objs)

    def _best_of(self, own: Mask, codes: Ints, starts: Ints) -> tuple[Ints, Mask]:
        """Return the extreme code among the marked rows of each node, and a mask of nodes that have any."""
        if own.all():
            return self._reduced(codes, starts), np.ones(starts.size, bool)
        worst = CODE_MIN if self.greatest else CODE_MAX
        has = np.logical_or.reduceat(own, starts) if starts.size else np.zeros(0, bool)
        return self._reduced(np.where(own, codes, worst), starts), has

    def _reduced(self, lane: Ints, starts: Ints) -> Ints:
        best: Ints = (np.maximum if self.greatest else np.minimum).reduceat(lane, starts)
        return best

    def _best_objects(self, starts: Ints, column: Values) -> dict[int, Any]:
        """Return by node the extreme of the values outside lanes."""
        at = np.sort(np.fromiter(column.objs, np.int64, len(column.objs)))
        nodes = np.searchsorted(starts, at, side="right") - 1
        begins = np.append(True, nodes[1:] != nodes[:-1]).nonzero()[0]
        values = [column.objs[i] for i in at.tolist()]
        spans = pairwise([*begins.tolist(), len(values)])
        return {node: chosen(values[a:b], self.greatest) for node, (a, b) in zip(nodes[begins].tolist(), spans)}


@dataclass(frozen=True, slots=True)
class Single(ContributionCell):
    """The least and the greatest value. The group is held if they differ: 1 and 1.0 are equal, as groups are."""

    runs: ClassVar[bool] = True  # so a partial may fail

    def fold(self, leaves: Leaves) -> Column:
        """Return both extremes of each node's values."""
        return self._both(lambda greatest: Extreme(self.field, greatest).fold(leaves))

    def join(self, starts: Ints, partials: Values, groups: Callable[[], list[Any]]) -> Column:
        """Return both extremes of each node's children."""
        pairs = [partial or (None, None) for partial in partials.values()]
        ends = tuple(Column.of(list(values)) for values in zip(*pairs, strict=True))
        return self._both(lambda greatest: Extreme(self.field, greatest).join(starts, ends[greatest], groups))

    @staticmethod
    def _both(end: Callable[[bool], Column]) -> Column:
        pairs = zip(end(False).values(), end(True).values(), strict=True)
        return partials_of([None if least is None else [least, most] for least, most in pairs])

    def failed(self, partial: Any) -> str | None:
        """Return the message if the values differ."""
        least, most = partial or (None, None)
        if canonical(unified(least)) == canonical(unified(most)):
            return None
        own = filtered_of(self.field)
        read = "its values" if (plain := self.field if own is None else own.field) is None else repr(".".join(plain))
        return (
            f"only() reads {read} and finds {value_text(least)} and {value_text(most)}; put documents of one value, or "
            "choose one by ps.first, ps.last or ps.argmax"
        )


@dataclass(frozen=True, slots=True)
class Ranking(ContributionCell):
    """The n greatest or n least values, best first."""

    n: int
    greatest: bool

    def fold(self, leaves: Leaves) -> Column:
        """Return the best of each node's values."""
        column, starts = leaves.column(self.field), leaves.starts
        kind = column.kind
        if kind is None:
            return self._best_codes(starts, Column(column.lane), column.lane, None)
        seen = np.bincount(kind, minlength=KINDS).tolist()
        if not (column.objs or seen[LaneKind.FLOAT]):
            return self._best_codes(starts, Column(column.lane, kind), column.lane, kind != LaneKind.NULL)
        if not (column.objs or seen[LaneKind.INT]):
            codes = float_codes(column.lane)
            return self._best_codes(starts, Column(float_lanes(codes), kind), codes, kind != LaneKind.NULL)
        return partials_of([self._best(values) or None for values in nodes_of(starts, column.values())])

    def fold_small(self, values: Sequence[Any]) -> list[Any] | None:
        """Return the best of the values of one node."""
        return self._best([_extreme_value(value) for value in values if value is not None]) or None

    def join(self, starts: Ints, partials: Values, groups: Callable[[], list[Any]]) -> Column:
        """Return the best among the lists of each node's children."""
        children = nodes_of(starts, partials.values())
        return partials_of([self._best(list(chain.from_iterable(lists))) or None for lists in children])

    def stepped(self, before: Values, came: Values, here: Ints, went: Values, gone: Ints) -> tuple[Column, Mask] | None:
        """Return next partials, and a mask of certain ones: n values remain that are no worse than the former last one.

        A list of less than n values has all values of its group, so its next one is certain.
        """
        lists = [partial or [] for partial in before.values()]
        sizes = np.fromiter(map(len, lists), np.int64, len(lists))
        known = Column.of(list(chain.from_iterable(lists)))
        kinds = _kinds(known) | _kinds(came) | _kinds(went)
        if not kinds <= {LaneKind.NULL, LaneKind.INT} and not kinds <= {LaneKind.NULL, LaneKind.FLOAT}:
            return None
        floats = LaneKind.FLOAT in kinds
        m, stops = len(lists), np.cumsum(sizes)
        group, code = np.repeat(np.arange(m), sizes), self._falling(known, floats)[0]
        last = np.full(m, CODE_MAX, np.int64)  # codes fall with the rank, so the last one is the greatest
        full = sizes >= self.n
        last[full] = code[stops[full] - 1]
        groups, codes, signs = [group], [code], [np.ones(code.size, np.int64)]
        for column, places, change in ((came, here, 1), (went, gone, -1)):
            own, there = self._falling(column, floats)
            places = places[there]
            near = own <= last[places]
            groups.append(places[near])
            codes.append(own[near])
            signs.append(np.full(int(near.sum()), change, np.int64))
        group, code, sign = np.concatenate(groups), np.concatenate(codes), np.concatenate(signs)
        order = np.lexsort((code, group))
        group, code = group[order], code[order]
        starts = np.append(True, (np.diff(group) != 0) | (np.diff(code) != 0)).nonzero()[0] if group.size else order
        counts = np.add.reduceat(sign[order], starts) if group.size else order
        group, code = group[starts], code[starts]
        sure = ~full | (np.bincount(group, np.maximum(counts, 0), m) >= self.n)
        sure[group[(counts < 0) & ~full[group]]] = False
        counts = np.clip(counts, 0, self.n)
        group, code = np.repeat(group, counts), np.repeat(code, counts)
        lane = ~code if self.greatest else code
        values = (float_lanes(lane).view(np.float64) if floats else lane).tolist()
        ends = np.searchsorted(group, np.arange(m + 1)).tolist()
        return partials_of([values[a : min(b, a + self.n)] or None for a, b in pairwise(ends)]), sure

    def _falling(self, column: Values, floats: bool) -> tuple[Ints, Ints]:
        """Return codes of the values that are not null, the best value first, and the indexes of these values."""
        at = np.arange(len(column.lane)) if column.kind is None else (column.kind != LaneKind.NULL).nonzero()[0]
        codes = float_codes(column.lane[at]) if floats else column.lane[at]
        return ~codes if self.greatest else codes, at

    def _best(self, values: list[Any]) -> list[Any]:
        return sorted_values(values, self.greatest)[: self.n]

    def _best_codes(self, starts: Ints, column: Column, codes: Ints, here: Mask | None) -> Column:
        """Return the best of columns of one kind. `codes` order the values; `here` marks those that are not null."""
        node = node_numbers(starts, len(column))
        at = np.arange(len(column)) if here is None else here.nonzero()[0]
        order = at[np.lexsort((~codes[at] if self.greatest else codes[at], node[at]))]
        ends = np.append(np.searchsorted(node[order], np.arange(starts.size)), order.size).tolist()
        values = column.take(order).values()
        return partials_of([values[a : min(b, a + self.n)] or None for a, b in pairwise(ends)])


def _extreme_value(value: Any) -> Any:
    """Return the value. Map all NaNs to one, as columns of floats do."""
    return nan if type(value) is float and isnan(value) else value


def _kinds(column: Values) -> set[int]:
    """Return the kinds that occur."""
    if column.kind is None:
        return {LaneKind.INT} if column.lane.size else set()
    return set(np.unique(column.kind).tolist())
