"""The check of trees finds each fault: one wrong node, item, count or partial at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.cache import MemoryStore, canonical, seal, unpack, unseal
from penstock.engine import open_on
from penstock.mapreduce import SourceKeys, check_trees, nodes_db, rows_db, small_trees
from penstock.mapreduce.nodes.node_format import INNER, is_inner, unpacked

DOCUMENTS = 14
REDUCE = {
    "n": ps.count(),
    "max": ps.max("v"),
    "sum": ps.sum("v"),
    "kinds": ps.distinct("v"),
    "q": ps.quantiles([0.5], "v"),
}


class Damaged:
    """A store with trees, in which one row at a time is replaced."""

    def __init__(self) -> None:
        app = ps.App("check")
        app.table("t", key="id").view("all", key="g", reduce=REDUCE)
        self.store = MemoryStore()
        self.engine, core = open_on(app, self.store)
        docs = [{"id": i if i % 2 else f"k{i}", "g": "A", "v": 3 * i % 10} for i in range(DOCUMENTS)]
        self.engine.put_many("t", [*docs, {"id": 100, "g": "B", "v": 1}, {"id": 101, "g": "B", "v": 2.5}])
        self.tree: Any = core.views["all"].reduce
        self.nodes, self.rows = nodes_db(self.tree.number), rows_db(self.tree.number)

    def all(self, db: str) -> dict[bytes, bytes]:
        """Return the payloads of a database."""
        with self.store.read() as reader:
            return {key: unseal(key, row, db) for key, row in reader.scan(db)}

    def faults(self) -> list[str]:
        """Return all faults that the check finds."""
        with self.store.read() as reader:
            return [str(fault) for fault in check_trees(self.tree, reader)]

    @contextmanager
    def being(self, db: str, key: bytes, payload: bytes | None) -> Iterator[None]:
        """Replace or remove a row within this context."""
        with self.store.read() as reader:
            was = reader.get_many(db, [key])[0]
        self._set(db, key, None if payload is None else seal(key, payload))
        yield
        self._set(db, key, was)

    def _set(self, db: str, key: bytes, row: bytes | None) -> None:
        with self.store.write() as writer:
            if row is None:
                writer.delete_many(db, [key])
            else:
                writer.put_many(db, [(key, row)])


@pytest.fixture(scope="module")
def damaged() -> Iterator[Damaged]:
    with small_trees(capacity=2, most_items=0):
        yield Damaged()


def test_there_is_something_to_look_at(damaged: Damaged) -> None:
    nodes = damaged.all(damaged.nodes)
    tries = {key[-10] for key in nodes}
    assert tries == {0, 1, 2}, "contributions, distinct values, values in order"
    assert {is_inner(unpacked(row)) for row in nodes.values()} == {True, False}
    assert max(key[-1] for key in nodes) >= 3
    assert not damaged.faults()


def test_a_node_that_is_gone_is_missed(damaged: Damaged) -> None:
    for key in damaged.all(damaged.nodes):
        with damaged.being(damaged.nodes, key, None):
            assert damaged.faults(), key
    assert not damaged.faults()


def test_a_node_too_many_is_seen(damaged: Damaged) -> None:
    nodes = damaged.all(damaged.nodes)
    leaf = next(row for key, row in nodes.items() if not is_inner(unpacked(row)) and key[-10] == 0)
    for stray in (b"\x05A" + bytes([0]) + b"\x10" * 8 + b"\x09", b"\x05B" + bytes(10), b"\x05C" + bytes(10)):
        with damaged.being(damaged.nodes, stray, leaf):
            assert [fault for fault in damaged.faults() if "nothing names it" in fault]


def test_each_lane_of_each_node_counts(damaged: Damaged) -> None:
    """Change each number of each column of each node by one: items, counts and partials."""
    looked = 0
    for key, payload in damaged.all(damaged.nodes).items():
        row = unpack(payload)
        columns = row[2] if row[0] == INNER else row[3]
        for i, column in enumerate(columns):
            lanes = column if isinstance(column, bytes) else column[0]
            for at in range(len(lanes) // 8):
                other = np.frombuffer(lanes, "<i8").copy()
                other[at] += 1
                raw = other.tobytes()
                columns[i] = raw if isinstance(column, bytes) else [raw, *column[1:]]
                with damaged.being(damaged.nodes, key, canonical(row)):
                    assert damaged.faults(), (key, i, at)
                looked += 1
            columns[i] = column
    assert looked > 60


def elsewhere(node: bytes) -> int:
    """Return a key that belongs below another node. A key that belongs here could be right."""
    others = list(range(1_000, 1_100))
    places = SourceKeys.of(others).hashes().tolist()
    return next(key for key, place in zip(others, places, strict=True) if place >> 60 != node[-9] >> 4)


def test_each_source_and_prefix_counts(damaged: Damaged) -> None:
    for key, payload in damaged.all(damaged.nodes).items():
        row = unpack(payload)
        for at in range(len(row[1]) // 8 if isinstance(row[1], bytes) else len(row[1][1])):
            other = unpack(payload)
            if isinstance(other[1], bytes):
                lanes = np.frombuffer(other[1], "<u8").copy()
                lanes[at] = lanes[at] ^ np.uint64(1) if row[0] == INNER else elsewhere(key)
                other[1] = lanes.tobytes()
            else:
                name = other[1][1][at]
                other[1][1][at] = name + 1 if isinstance(name, int) else name + b"x"
            with damaged.being(damaged.nodes, key, canonical(other)):
                assert damaged.faults(), (key, at)


def test_what_a_row_says_is_held_against_its_contributions(damaged: Damaged) -> None:
    for key, payload in damaged.all(damaged.rows).items():
        row = unpack(payload)
        assert row["n"] in (2, DOCUMENTS)
        others = [row | {"n": row["n"] + 1}, row | {"l": [lane + 1 for lane in row["l"]]}]
        others += [row | {"s": [*row["s"][:i], [99], *row["s"][i + 1 :]]} for i in range(len(row["s"]))]
        others.append(row | {"h": ["held", None]})
        if "v" in row:
            others += [row | {"v": [row["v"][0] + 1, row["v"][1]]}, row | {"v": [row["v"][0], row["v"][1] - 1]}]
        else:
            short = row["c"][2][0][0] if isinstance(row["c"][2][0], list) else row["c"][2][0]
            assert len(short) == 16
            others.append({name: part for name, part in row.items() if name != "c"})
        for other in others:
            with damaged.being(damaged.rows, key, canonical(other)):
                assert damaged.faults(), other
    assert not damaged.faults()


def test_a_row_that_is_gone_leaves_its_nodes_behind(damaged: Damaged) -> None:
    with damaged.being(damaged.rows, b"\x05A", None):
        assert len(damaged.faults()) == len(damaged.all(damaged.nodes))


def test_a_fault_names_the_view_the_group_and_the_node(damaged: Damaged) -> None:
    key = next(key for key, row in damaged.all(damaged.nodes).items() if is_inner(unpacked(row)) and key[-1] == 1)
    with damaged.being(damaged.nodes, key, None):
        found = damaged.faults()
    assert f"view 'all', group 'A', trie 0, node {key[-9:-1].hex()}/1: there is no such node" in found
    assert all(fault.startswith("view 'all', group 'A', ") for fault in found)
