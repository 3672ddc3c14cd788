"""The contributions that a view keeps, read group by group: from the group's row, its tree or an index.

A group costs the read of its row. A group with nodes also costs a read per level of its tree and a scan of the log of
later changes. A group of an index costs its rows. The code writes nothing, needs no memory of the writer and runs no
user function. So any process can read concurrently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.cache import (
    LONG,
    Reader,
    StoreDamaged,
    decode_key,
    encode_entry,
    encode_key,
    key_text,
    stored_key,
    unseal_many,
)
from penstock.mapreduce.columns.items import Items, merge
from penstock.mapreduce.nodes.node_format import Node, read_leaves, unpacked
from penstock.mapreduce.nodes.node_levels import address
from penstock.mapreduce.nodes.node_log import read_log
from penstock.mapreduce.plain_index import IndexReduce
from penstock.mapreduce.trees.snapshot_nodes import node_log_db, nodes_db
from penstock.mapreduce.trees.tree_fold import TreeReduce
from penstock.mapreduce.tries.canonical_trie import Trie
from penstock.mapreduce.tries.partials import CellFolding
from penstock.mapreduce.view_node import ViewNode
from penstock.mapreduce.why.contribution_shape import ContributionShape

Found = tuple[bytes, int, Any]
"""One contribution: the encoded key of its document, its rank and its value."""

_HEAD = 368  # bytes at the start of a long key that are stored whole
_PAST = b"\xff" * (LONG - _HEAD + 2)
_CONTRIBUTIONS = 0


def stored_contributions(view: ViewNode, reader: Reader, groups: Sequence[bytes]) -> list[list[Found]]:
    """Return the contributions of each group, in any order, in a view that keeps contributions."""
    if isinstance(view.reduce, IndexReduce):
        return [_indexed(view.reduce, reader, group, view.name) for group in groups]
    assert isinstance(view.reduce, TreeReduce), "no other keeps contributions"
    shape = ContributionShape(view.reduce.stored_fields)
    out: list[list[Found]] = []
    for items in stored_items(view.reduce, reader, groups):
        values = shape.of_columns(items.columns, len(items))
        out.append([(key, rank, value) for (key, rank), value in zip(items.sources(), values, strict=True)])
    return out


def _indexed(index: IndexReduce, reader: Reader, group: bytes, name: str) -> list[Found]:
    begin = encode_entry((decode_key(group),))
    out: list[Found] = []
    for key, row in reader.scan(index.db, begin[:_HEAD], begin[:_HEAD] + _PAST):
        state = index.codec.decode(key, row, f"view {name!r}")
        whole = state.whole or key
        if not whole.startswith(begin):
            continue  # a long key shares its stored beginning with other keys
        entry: Any = decode_key(whole)
        _, source, *rank = entry  # views written by earlier versions omit rank 0
        out.append((encode_key(source), rank[0] if rank else 0, index.codec.result(state)))
    return out


def stored_items(tree: TreeReduce, reader: Reader, groups: Sequence[bytes]) -> list[Items]:
    """Return the contributions of each group as columns, in the order of `tree.kept`."""
    width = len(tree.stored_fields)
    keys = [stored_key(group) for group in groups]
    rows = reader.get_many(tree.db, keys)
    where = f"view {tree.name!r}"
    states = [None if row is None else tree.codec.decode(key, row, where) for key, row in zip(keys, rows)]
    deep = [i for i, state in enumerate(states) if state is not None and state.items is None]
    grown = _with_nodes(tree, reader, [groups[i] for i in deep]) if deep else []
    out = [
        Items.none(width) if state is None or state.items is None else read_leaves([state.items], width)
        for state in states
    ]
    for i, items in zip(deep, grown, strict=True):
        out[i] = items
    for group, state, items in zip(groups, states, out, strict=True):
        if state is not None and state.n != len(items):
            raise StoreDamaged(
                f"view {tree.name!r}, group {key_text(decode_key(group))}: its tree has {len(items)} contributions "
                f"and its row {state.n}; run penstock check --fix"
            )
    return out


def _with_nodes(tree: TreeReduce, reader: Reader, groups: Sequence[bytes]) -> list[Items]:
    """Return the contributions of groups with nodes: the stored nodes with the log applied."""
    width, db = len(tree.stored_fields), nodes_db(tree.number)

    def fetch(nodes: list[bytes]) -> list[Node | None]:
        payloads = unseal_many(nodes, reader.get_many(db, nodes), db)
        return [None if payload is None else unpacked(payload) for payload in payloads]

    trie = Trie(
        _CONTRIBUTIONS, width, CellFolding(tree.tree_cells, tree.stored_fields, lambda place: decode_key(groups[place]))
    )
    log = read_log(reader, node_log_db(tree.number), width, frozenset(groups))
    numbers = {} if log is None else {name: i for i, name in enumerate(log[0])}
    out: list[Items] = []
    for group in groups:
        key = stored_key(group)
        written = fetch([address(key, _CONTRIBUTIONS, 0, 0)])[0] is not None
        items = trie.items(fetch, key) if written else Items.none(width)
        if log is not None and group in numbers:
            own = log[1].node == numbers[group]
            late = log[1].take(own)
            items, _ = merge(items, late.moved(np.zeros(len(late), np.int64)), log[2][own])
        out.append(items)
    return out
