"""Contributions spread over the nodes of a tree, folded and joined, for all tests of cells without an inverse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from penstock.cache import canonical, encode_key, pack, unpack
from penstock.mapreduce.columns.column import Column
from penstock.views import TS, Ints, Path, State, TreeCell, reach
from tests.mapreduce.reducers.histories import all_ints, decimals, finite, floats, ints, money, nulls, small_ints
from tests.oracle.reducers import Given
from tests.oracle.values import rank

GROUP = ("group", 7)

texts = st.text("ab\x00é", max_size=3)
few = st.sampled_from([0, 1, 2])
ties = st.sampled_from([0, 0.0, -0.0, 1, 1.0, True, False, [1], [1.0], {"a": 1}, {"a": 1.0}, "1", b"1", None])
things: st.SearchStrategy[Any] = st.one_of(
    texts, st.binary(max_size=2), st.booleans(), st.lists(few, max_size=2), st.dictionaries(texts, few, max_size=2)
)
anything = st.one_of(all_ints, floats, decimals, nulls)
mixed = st.one_of(all_ints, floats, things, nulls)
one_kind = [few, small_ints, ints, money, finite, floats, decimals]
numbers_of = st.sampled_from([*one_kind, all_ints, ints | nulls, floats | nulls, ints | floats, anything])
values_of = st.one_of(numbers_of, st.sampled_from([nulls, texts, ties, texts | nulls, things, mixed]))


@dataclass(frozen=True)
class Item:
    """One contribution: its value, the field beside the value, its source and its ts."""

    value: Any
    by: Any
    key: Any
    number: int
    ts: Any

    @property
    def whole(self) -> dict[str, Any]:
        """The value as a document."""
        return {"v": self.value, "by": self.by}

    def given(self) -> Given:
        """This contribution in the oracle's form."""
        return Given(GROUP, self.whole, self.key, rank(self.key), self.number, Fraction(self.ts))


@st.composite
def contributions(draw: st.DrawFn, of: st.SearchStrategy[Any] = values_of, least: int = 0) -> list[Item]:
    """Draw contributions to one group, each of a source of its own, in any order."""
    values = draw(st.lists(draw(of), min_size=least, max_size=30))
    n = len(values)
    beside = draw(st.lists(draw(values_of), min_size=n, max_size=n))
    stamps = draw(st.lists(draw(st.sampled_from([few, small_ints, money])), min_size=n, max_size=n))
    keys = draw(st.lists(st.one_of(few, texts, st.tuples(few, texts)), min_size=n, max_size=n))
    seen: dict[Any, int] = {}
    items = []
    for value, by, key, ts in zip(values, beside, keys, stamps, strict=True):
        number = seen[rank(key)] = seen.get(rank(key), -1) + 1
        items.append(Item(value, by, key, number, ts))
    return items


class Nodes:
    """The contributions of some nodes."""

    def __init__(self, nodes: Sequence[Sequence[Item]]) -> None:
        self.items = [item for node in nodes for item in node]
        self.starts: Ints = np.cumsum([0, *map(len, nodes)])[:-1]

    def column(self, field: Path | None) -> Column:
        """Return the values of a field."""
        if field == TS:
            return Column.of([item.ts for item in self.items])
        return Column.of([item.whole if field is None else reach(item.whole, field) for item in self.items])

    def sources(self, at: Ints) -> list[tuple[bytes, int]]:
        """Return the sources of these contributions."""
        return [(encode_key(self.items[i].key), self.items[i].number) for i in at.tolist()]

    def groups(self) -> list[Any]:
        """Return the same group for all nodes."""
        return [GROUP] * len(self.starts)


def cut(items: Sequence[Any], random: Random) -> list[list[Any]]:
    """Shuffle the items and cut them into parts of any size."""
    left = random.sample(items, len(items))
    parts = []
    while left:
        size = random.randint(1, len(left))
        parts.append(left[:size])
        left = left[size:]
    return parts


def folded(cell: TreeCell, nodes: Sequence[Sequence[Item]]) -> list[Any]:
    """Return the partials of leaves."""
    column = cell.fold(Nodes(nodes))
    assert isinstance(column, Column)
    assert len(column) == len(nodes)
    return column.values()


def joined(cell: TreeCell, nodes: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the partials of nodes with these children."""
    starts: Ints = np.cumsum([0, *map(len, nodes)])[:-1]
    column = cell.join(starts, Column.of([p for node in nodes for p in node]), lambda: [GROUP] * len(nodes))
    assert isinstance(column, Column)
    assert len(column) == len(nodes)
    return column.values()


def partial_of(cell: TreeCell, items: Sequence[Item], random: Random | None = None, stored: bool = False) -> Any:
    """Return the partial of a tree of any shape over these contributions. Without `random` the tree is one leaf.

    `stored` encodes and decodes every partial on the way.
    """
    if not items:
        return None
    if random is None:
        return folded(cell, [items])[0]
    partials = folded(cell, cut(items, random))
    while len(partials) > 1:
        if stored:
            partials = [unpack(canonical(partial)) for partial in partials]
        partials = joined(cell, cut(partials, random))
    return partials[0]


def state_of(cell: TreeCell, items: Sequence[Item], random: Random | None = None) -> State:
    """Return the state of a group with these contributions."""
    return (), cell.state(partial_of(cell, items, random))


def packed_spill(state: State) -> bytes:
    """Return a spill as bytes that are equal for equal spills only."""
    return pack(state[1])
