"""Tries without nodes: `inline` gives the same result as columns of paths and levels."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.items import Items, Mask, SourceKeys, sort_order, source_hash
from penstock.mapreduce.nodes import node_levels as trees
from penstock.mapreduce.nodes.node_levels import NewNodes, Tries
from penstock.mapreduce.reducers.from_contributions import resolved
from penstock.mapreduce.tries import canonical_trie as tries
from penstock.mapreduce.tries.canonical_trie import Trie
from penstock.mapreduce.tries.partials import CellFolding
from penstock.views import is_tree_cell
from tests.mapreduce.reducers.tree_shapes import few, texts, values_of

_REDUCERS = resolved([ps.max("v"), ps.bottom(2, "v"), ps.collect(3, "v")])
_CELLS = [cell for reducer in _REDUCERS for cell in reducer.cells if is_tree_cell(cell)]
_FIELD = ("v",)
_Source = tuple[Any, int]
keys = st.one_of(few, texts, st.tuples(few, texts))
sources = st.tuples(keys, st.sampled_from([0, 0, 0, 1]))


@st.composite
def changes(draw: st.DrawFn) -> tuple[list[dict[_Source, Any]], list[dict[_Source, Any]]]:
    """Draw for each group its values and its changes; `...` removes a value. Each group has at least one change."""
    of = draw(values_of)
    held, moved = [], []
    for _ in range(draw(st.integers(1, 4))):
        before = draw(st.dictionaries(sources, of, max_size=6))
        come = draw(st.dictionaries(sources, of, max_size=4))
        go = draw(st.sets(st.sampled_from(sorted(before, key=repr)))) if before else set()
        now: dict[_Source, Any] = {**come, **dict.fromkeys(go, ...)}
        held.append(before)
        moved.append(now or {(7, 0): draw(of)})
    return held, moved


def items_of(groups: list[dict[_Source, Any]]) -> tuple[Items, Mask]:
    """Return the contributions of groups 0, 1, 2 … in order, and a flag for those that are removed."""
    rows = [(node, *source, value) for node, group in enumerate(groups) for source, value in group.items()]
    n = len(rows)
    own = SourceKeys.of([key for _, key, _, _ in rows])
    rank = np.array([rank for _, _, rank, _ in rows], np.int64)
    gone = np.array([value is ... for _, _, _, value in rows], bool)
    column = Column.of([None if value is ... else value for _, _, _, value in rows])
    node = np.array([node for node, _, _, _ in rows], np.int64)
    items = Items(node, source_hash(own.hashes(), rank), own.lane, own.text, rank if n else None, (column,))
    order = sort_order(items)
    return items.take(order), gone[order]


def shown(items: Items) -> list[Any]:
    """Return items as plain data."""
    return [items.node.tolist(), items.at.tolist(), items.sources(), [repr(c.values()) for c in items.columns]]


def described(grown: NewNodes) -> list[Any]:
    """Return a whole change as plain data."""
    inner = [grown.nodes, grown.items.tolist(), grown.was.tolist(), grown.depth]
    return [*inner, shown(grown.inline), shown(grown.before), [repr(c.values()) for c in grown.partials]]


@given(changes())
def test_what_stays_inline_is_what_paths_and_levels_make(
    change: tuple[list[dict[_Source, Any]], list[dict[_Source, Any]]],
) -> None:
    held, moved = change
    inline, _ = items_of(held)
    new, gone = items_of(moved)
    size = np.array([len(group) for group in held], np.int64)
    known = Tries([b"g%d" % i for i in range(len(held))], size, np.zeros(size.size, np.int64))
    trie = Trie(0, 1, CellFolding(_CELLS, [_FIELD], lambda place: place))
    assert int(size.max()) + int(np.bincount(new.node).max()) <= trees.CAPACITY
    own = trie.change(lambda nodes: [None] * len(nodes), known, inline, new, gone)
    with patch.object(tries, "stays_inline", lambda *_: False):
        every = trie.change(lambda nodes: [None] * len(nodes), known, inline, new, gone)
    assert described(own) == described(every)
