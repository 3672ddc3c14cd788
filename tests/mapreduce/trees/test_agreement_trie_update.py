"""A few items of tries with nodes: one by one they make the same nodes as in columns."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.mapreduce import small_trees
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.items import Items, sort_order
from penstock.mapreduce.nodes.node_format import Node
from penstock.mapreduce.nodes.node_levels import NewNodes, Tries
from penstock.mapreduce.reducers.from_contributions import resolved
from penstock.mapreduce.tries import canonical_trie as tries
from penstock.mapreduce.tries.canonical_trie import Trie
from penstock.mapreduce.tries.partials import CellFolding, ValueTally
from penstock.mapreduce.tries.path_refold import TrieUpdate
from penstock.views import is_tree_cell
from tests.harness.planting import Bug
from tests.mapreduce.reducers.tree_shapes import values_of
from tests.mapreduce.trees.test_agreement_inline_trie import described, items_of

_REDUCERS = resolved([ps.max("v"), ps.bottom(2, "v"), ps.collect(3, "v")])
_CELLS = [cell for reducer in _REDUCERS for cell in reducer.cells if is_tree_cell(cell)]
_KEYS = [f"g{i}".encode() for i in range(3)]
_CAPACITY = 3
_Group = dict[tuple[Any, int], Any]
moved = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.booleans()), min_size=1, max_size=5)


class _Same:
    """Tries of a few groups, changed by both forms. Each time the results must be equal."""

    def __init__(self, trie: Trie) -> None:
        self.trie = trie
        self.nodes: dict[bytes, Node | None] = {}
        self.items = np.zeros(3, np.int64)
        self.depth = np.zeros(3, np.int64)
        self.alone = 0  # changes that needed no columns

    def change(self, inline: Items, new: Items, gone: Any) -> NewNodes:
        """Change the tries in both forms. Return the result."""
        places = np.unique(new.node)
        place = np.searchsorted(places, new.node)
        known = Tries(_KEYS, self.items, self.depth).take(places)
        mine = np.isin(inline.node, places)
        inline = inline.take(mine)
        given = known, inline.moved(np.searchsorted(places, inline.node)), new.moved(place), gone
        with patch.object(tries, "FEW", 1 << 10), patch.object(TrieUpdate, "folded", self._counted(TrieUpdate.folded)):
            few = self.trie.change(self._fetch, *given)
        with patch.object(tries, "FEW", -1):
            all_ = self.trie.change(self._fetch, *given)
        assert described(few) == described(all_)
        self.nodes.update(few.nodes)
        self.items[places] = few.items
        for i, depth in few.depth.items():
            self.depth[places[i]] = depth
        return few

    def _counted(self, plain: Callable[[TrieUpdate, Any], NewNodes]) -> Any:
        def folded(work: TrieUpdate, leaves: Any) -> NewNodes:
            self.alone -= 1
            return plain(work, leaves)

        self.alone += 1
        return folded

    def _fetch(self, keys: list[bytes]) -> list[Node | None]:
        return [self.nodes.get(key) for key in keys]


def _contributions(batches: list[tuple[list[tuple[int, int, bool]], Any]]) -> int:
    """Add and remove contributions. Return the number of changes that needed no columns."""
    same = _Same(Trie(0, 1, CellFolding(_CELLS, [("v",)], lambda place: place)))
    held: list[_Group] = [{}, {}, {}]
    for batch, value in batches:
        now: list[_Group] = [{}, {}, {}]
        for place, key, goes in batch:
            if goes and (key, 0) not in held[place]:
                continue
            now[place][key, 0] = ... if goes else [value, key]
        if not any(now):
            continue
        small = [own if len(own) <= _CAPACITY else {} for own in held]
        same.change(items_of(small)[0], *items_of(now))
        for own, moves in zip(held, now, strict=True):
            own.update(moves)
            for source in [source for source, value in moves.items() if value is ...]:
                del own[source]
    return same.alone


def _counts(batches: list[list[tuple[int, int, bool]]]) -> int:
    """Count values. Return the number of changes that needed no columns."""
    same = _Same(Trie(1, 1, ValueTally(), counts=True))
    held: list[dict[int, int]] = [{}, {}, {}]
    for batch in batches:
        deltas: dict[tuple[int, int], int] = {}
        for place, code, goes in batch:
            there = held[place].get(code, 0) + deltas.get((place, code), 0)
            if not goes or there:
                deltas[place, code] = deltas.get((place, code), 0) + (-there if goes else 1)
        left = sorted((place, code, n) for (place, code), n in deltas.items() if n)
        if not left:
            continue
        text = np.empty(len(left), object)
        text[:] = [b"%d" % code for _, code, _ in left]
        at = np.array([(code & 31) << 59 | code for _, code, _ in left], np.uint64)
        node = np.array([place for place, _, _ in left], np.int64)
        count = Column(np.array([n for _, _, n in left], np.int64))
        items = Items(node, at, np.zeros(len(left), np.int64), text, None, (count,))
        same.change(Items.none(1), items.take(sort_order(items)), np.zeros(len(left), bool))
        for place, code, n in left:
            held[place][code] = held[place].get(code, 0) + n
    return same.alone


@given(st.lists(st.tuples(moved, st.one_of(values_of).flatmap(lambda own: own)), min_size=1, max_size=30))
def test_contributions(batches: list[tuple[list[tuple[int, int, bool]], Any]]) -> None:
    with small_trees(_CAPACITY):
        _contributions(batches)


@given(st.lists(moved, min_size=1, max_size=30))
def test_counts_of_values(batches: list[list[tuple[int, int, bool]]]) -> None:
    with small_trees(_CAPACITY):
        _counts(batches)


def _some() -> list[list[tuple[int, int, bool]]]:
    """Return values that are added to three groups one after another, and some that are removed."""
    come = [[(n % 3, n // 3, False)] for n in range(120)]
    two = [[(n % 3, n % 40, False), (n % 3, (n + 13) % 40, False)] for n in range(40)]
    return [*come, *two, *([(n % 3, (7 * n) % 40, n % 4 > 0)] for n in range(120))]


def _search() -> tuple[int, int]:
    with small_trees(_CAPACITY):
        return _contributions([(batch, float(i)) for i, batch in enumerate(_some())]), _counts(_some())


def test_most_of_what_comes_alone_goes_one_by_one() -> None:
    assert min(_search()) > len(_some()) / 3


BUGS = [
    Bug(
        "few: a child that is gone stays",
        "mapreduce.tries.small_trie_update:SmallTrieUpdate._parent",
        "counts[old] = [count] if count else []",
        "counts[old] = [count]",
    ),
    Bug(
        "few: a child that comes is passed over",
        "mapreduce.tries.small_trie_update:SmallTrieUpdate._parent",
        "i + (i <",
        "i + (0 * i <",
    ),
    Bug(
        "few: a node that became small stays",
        "mapreduce.tries.small_trie_update:SmallTrieUpdate._parent",
        "items <= trees",
        "0 > trees",
    ),
    Bug(
        "few: the root alone is made anew",
        "mapreduce.tries.small_trie_update:SmallTrieUpdate._up_one_by_one",
        "range(max(levels), 0",
        "range(1, 0",
    ),
    Bug(
        "few: what is deeper than known is not said",
        "mapreduce.tries.small_trie_update:SmallTrieUpdate.find_leaves",
        "if known < depth",
        "if False",
    ),
    Bug(
        "few: all partials are those of the first leaf",
        "mapreduce.tries.small_trie_update:SmallTrieUpdate._up_one_by_one",
        "column[i]",
        "column[0]",
    ),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    with pytest.raises((AssertionError, KeyError, IndexError, struct.error)):
        _search()
