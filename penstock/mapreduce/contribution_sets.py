"""Sets: the complete contributions of documents to groups of another partition. A set may be delivered repeatedly.

A difference is correct only once. A set names a document and a group, and has all current contributions of the one to
the other, or none. The owner of the group looks up its stored contributions of that document. The comparison gives the
contributions to add and to remove. Invariants:

- a set has all ranks of its document in its group, from 0 on;
- of several sets for one document and group the last one applies;
- a set that equals the stored contributions changes nothing, not one byte.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from penstock.cache import Reader, canonical
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.group_codes import Groups
from penstock.mapreduce.columns.items import Ints, Items, Mask, SourceKeys, same_items, sort_order
from penstock.mapreduce.maps.emissions import Contributions, ContributionSources
from penstock.mapreduce.trees.batch_items import items_of
from penstock.views import TS, Path

_OBJECTS = 3  # kinds from which on values stand beside the lanes
_FEW = 16  # limit of contributions up to which Python is faster than NumPy's fixed cost

_Name = tuple[int, tuple[bytes, int]]  # a group, and the key and rank of a contribution source


@dataclass(slots=True)
class ContributionSets:
    """Sets: the contributions, and all named documents and groups, with or without contributions."""

    plus: Contributions
    named: Items


def named_by(plus: Contributions, minus: Contributions) -> Items:
    """Return the distinct documents and groups of these contributions, sorted. `node` is the group's code."""
    return _once(Items.join([_names(side) for side in (plus, minus) if side.n] or [_names(plus)]))


def _once(named: Items) -> Items:
    if len(named) < 2:
        return named
    named = named.take(sort_order(named))
    earlier, after = np.arange(len(named))[:-1], np.arange(len(named))[1:]
    keep = np.ones(len(named), bool)
    keep[1:] = (named.node[1:] != named.node[:-1]) | ~same_items(named, earlier, named, after)
    return named.take(keep)


def of_others(minus: Contributions, plus: Contributions) -> Contributions:
    """Return the first removed contribution of each document and group that has no added one."""
    if minus.sources is not None and minus.sources.rank is not None:
        minus = minus.take(minus.sources.rank == 0)
    if not plus.n or not minus.n:
        return minus
    known = {(code, key) for code, (key, _) in _names_in(plus)}
    return minus.take(np.array([(code, key) not in known for code, (key, _) in _names_in(minus)], bool))


def _names(side: Contributions) -> Items:
    """Return the first contribution of each document to each group, without values. Each has one of rank 0."""
    items = items_of(side, side.code, ())
    if items.rank is None:
        return items
    first = items.take(items.rank == 0)
    return Items(first.node, first.at, first.lane, first.text, None, ())


class Keeping(Protocol):
    """A reduce node that keeps contributions."""

    def of_sources(self, reader: Reader, groups: Groups, named: Items) -> Contributions:
        """Return the contributions of these documents to these groups."""
        ...


@dataclass(slots=True)
class SetDeltas:
    """Contributions to add and to remove, and the former ones of the named documents."""

    plus: Contributions
    minus: Contributions
    before: Contributions
    named: Contributions


def set_deltas(keeping: Keeping, reader: Reader, groups: Groups, sets: Sequence[ContributionSets]) -> SetDeltas:
    """Compute the changes after which groups have the last sets of these documents."""
    plus, named = _last_of(sets)
    before = keeping.of_sources(reader, groups, named)
    plus, minus = _without_equal(plus, before)
    minus = Contributions(minus.code, {f: c for f, c in minus.inputs.items() if f != TS}, minus.sources)
    whose = ContributionSources(SourceKeys(named.lane, named.text), np.arange(len(named)))
    return SetDeltas(plus, minus, before, Contributions(named.node.astype(np.int32), {}, whose))


def _last_of(sets: Sequence[ContributionSets]) -> tuple[Contributions, Items]:
    """Combine sets to one. Later sets replace earlier ones."""
    if len(sets) == 1:
        return sets[0].plus, sets[0].named
    later: set[tuple[Any, ...]] = set()
    remaining: list[Contributions] = []
    for one in reversed(sets):
        holds = [(code, key) not in later for code, (key, _) in _names_in(one.plus)]
        remaining.append(one.plus.take(np.array(holds, bool)))
        later.update(_listed(one.named))
    plus = Contributions.join(remaining)
    return plus, _once(Items.join([one.named for one in sets]))


def _names_in(side: Contributions) -> Iterator[_Name]:
    """Return the group, the source and the rank of each contribution."""
    assert side.sources is not None, "a view that keeps contributions is told whose they are"
    return zip(side.code.tolist(), side.sources.listed())


def _listed(items: Items) -> list[tuple[Any, ...]]:
    return [(node, key) for node, (key, _) in zip(items.node.tolist(), items.sources(), strict=True)]


def net(steps: Sequence[tuple[Contributions, Contributions]]) -> tuple[Contributions, Contributions]:
    """Combine several steps to one. Each step adds and removes contributions of a view that keeps them.

    It leaves out contributions that are added and removed within the steps, or removed and added with the same values.
    """
    came: dict[_Name, int] = {}
    went: dict[_Name, int] = {}
    first_plus = first_minus = 0
    for plus, minus in steps:
        for i, name in enumerate(_names_in(minus), first_minus):
            if came.pop(name, None) is None:
                went[name] = i
        came.update((name, i) for i, name in enumerate(_names_in(plus), first_plus))
        first_plus, first_minus = first_plus + plus.n, first_minus + minus.n
    sides = [Contributions.join([step[side] for step in steps]) for side in (0, 1)]
    plus, minus = (side.take(np.array(list(own.values()), np.int64)) for side, own in zip(sides, (came, went)))
    return _without_equal(plus, minus)


def _without_equal(plus: Contributions, minus: Contributions) -> tuple[Contributions, Contributions]:
    """Drop the contributions that are equal on both sides."""
    if not plus.n or not minus.n:
        return plus, minus
    fields = tuple(minus.inputs)
    if plus.n + minus.n <= _FEW:
        return _few_without_equal(plus, minus, fields)
    both = Items.join([items_of(minus, minus.code, fields), items_of(plus, plus.code, fields)])
    order = sort_order(both)
    first, second = order[:-1], order[1:]
    pairs = (both.node[first] == both.node[second]) & same_items(both, first, both, second)
    first, second = first[pairs], second[pairs]
    same = _equal(both, first, second)
    stays = np.ones(len(both), bool)
    stays[first[same]] = stays[second[same]] = False
    return plus.take(stays[minus.n :]), minus.take(stays[: minus.n])


def _few_without_equal(
    plus: Contributions, minus: Contributions, fields: Sequence[Path | None]
) -> tuple[Contributions, Contributions]:
    came, went = (dict(_rows(side, fields)) for side in (plus, minus))
    same = [name for name, values in came.items() if name in went and went[name] == values]
    if not same:
        return plus, minus
    return plus.take(_all_but(came, same)), minus.take(_all_but(went, same))


def _all_but(names: Collection[_Name], others: Collection[_Name]) -> Mask:
    return np.array([name not in others for name in names], bool)


def _rows(side: Contributions, fields: Sequence[Path | None]) -> Iterator[tuple[_Name, list[Any]]]:
    """Yield the group, source and rank of each contribution, and its values in comparable form."""
    none = Column(np.zeros(side.n, np.int64))
    columns = [_distinct_values(side.inputs.get(field, none)) for field in fields]
    for i, (code, source) in enumerate(_names_in(side)):
        yield (code, source), [column[i] for column in columns]


def _distinct_values(column: Column) -> list[tuple[int, int, bytes]]:
    lanes, kinds, objects = column.lane.tolist(), column.kinds().tolist(), column.objs
    return [
        (lane, kind, canonical(objects.get(i, True)) if kind >= _OBJECTS else b"")
        for i, (lane, kind) in enumerate(zip(lanes, kinds, strict=True))
    ]


def _equal(items: Items, first: Ints, second: Ints) -> Mask:
    """Mark the items with identical values."""
    same = np.ones(first.size, bool)
    for column in items.columns:
        left, right = column.take(first), column.take(second)
        kinds = left.kinds()
        same &= (left.lane == right.lane) & (kinds == right.kinds())
        beside = np.flatnonzero(same & (kinds >= _OBJECTS)).tolist()
        for i, a, b in zip(
            beside, left.take(np.array(beside, np.int64)).values(), right.take(np.array(beside, np.int64)).values()
        ):
            same[i] = canonical(a) == canonical(b)
    return same
