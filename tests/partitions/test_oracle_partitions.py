"""Any history on a store of several partitions, with repartitionings, gives the same as a store of one partition.

The engine writes the partitions in this process. A flush waits until productions between them have arrived. After each
turn any process reads the same as the oracle, and the digest equals that of a store of one partition.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import encode_key
from penstock.engine import repartition
from penstock.mapreduce import small_trees
from tests.harness import strategies as some
from tests.harness.checks import Picture
from tests.harness.worlds import RICH, TINY, TOLD, World
from tests.mapreduce.trees.tree_histories import TABLES, document
from tests.mapreduce.trees.tree_worlds import TREES
from tests.partitions.stores import misplaced
from tests.partitions.union.test_union_reading import DOCS, NAMES, VIEWS
from tests.partitions.union.test_union_reading import app as shop

TURNS = (3, 2, 1, 4)


def opened(world: World, path: Path, parts: int) -> Any:
    """Open a store of several partitions, all in this process."""
    if parts == 1:
        return ps.open(world.app(), path, limits=TINY, listen=False)
    return ps.open(world.app(), path, limits=TINY, listen=False, partitions=parts, processes=False)


@settings(max_examples=5)
@given(data=st.data())
def test_any_history_of_documents_over_turns(data: st.DataObject) -> None:
    ts = data.draw(st.sampled_from([some.NUMBERS, some.INSTANTS]))
    model = RICH.model()
    with tempfile.TemporaryDirectory(prefix="penstock-") as made, ps.open(RICH.app(), None, limits=TINY) as plain:
        path = Path(made) / "store"
        for turn, parts in enumerate(TURNS):
            if turn:
                repartition(path, parts)
            with opened(RICH, path, parts) as engine:
                for _ in range(data.draw(st.integers(1, 5))):
                    table = data.draw(st.sampled_from(TOLD))
                    docs = data.draw(st.lists(some.documents(table, ts), max_size=8))
                    for each in (engine, plain, model):
                        each.put_many(table.name, docs)
                    if data.draw(st.booleans()):
                        key = data.draw(some.keys(table))
                        engine.delete(table.name, key)
                        plain.delete(table.name, key)
                        model.delete(table.name, key, None)
            with ps.open(RICH.app(), path, readonly=True) as reader:
                with reader.snapshot() as snap:
                    found = Picture(model).differences(snap)
                assert not found, "\n" + "\n".join(found)
                assert reader.digest() == plain.digest()
                assert not misplaced(reader)


@pytest.mark.parametrize("seed", range(2))
def test_trees_over_turns(seed: int, store_path: Path) -> None:
    choose, model = Random(seed), TREES.model()
    with small_trees(), ps.open(TREES.app(), None, limits=TINY) as plain:
        for turn, parts in enumerate(TURNS):
            if turn:
                repartition(store_path, parts)
            with opened(TREES, store_path, parts) as engine:
                for ts in range(6):
                    table = choose.choice(list(TABLES))
                    docs = [
                        document(table, choose, 10 * turn + ts, wrong=False) for _ in range(choose.choice([1, 3, 12]))
                    ]
                    for each in (engine, plain, model):
                        each.put_many(table, docs)
            with ps.open(TREES.app(), store_path, readonly=True) as reader:
                with reader.snapshot() as snap:
                    found = Picture(model).differences(snap)
                assert not found, "\n" + "\n".join(found)
                assert reader.digest() == plain.digest()
                assert not misplaced(reader)


def test_why_and_changes_of_what_crossed(store_path: Path) -> None:
    with ps.open(shop(), None) as plain:
        plain.put_many("users", DOCS)
        with ps.open(shop(), store_path, listen=False, partitions=3, processes=False) as engine:
            engine.put_many("users", DOCS[:60])
            with ps.open(shop(), store_path, readonly=True) as reader:
                begin = [change.data() for change in reader.changes(initial=True)]
                since = [change.position for change in reader.changes(initial=True)][-1]
                engine.put_many("users", DOCS[60:])
                engine.flush()
                rows = {(one["view"], encode_key(one["group"])): one["new"] for one in begin}
                for change in reader.changes(since=list(since)):
                    at = change.view, encode_key(change.group)
                    assert rows.get(at, ps.ABSENT) == change.old, "each begins where the one before it ended"
                    rows[at] = change.new
                with plain.snapshot() as snap:
                    wanted = {(v, encode_key(row.key)): row.value for v in VIEWS for row in snap.view(v)}
                assert {at: value for at, value in rows.items() if value is not ps.ABSENT} == wanted
        for parts in (3, 2):
            repartition(store_path, parts)
            reader = ps.open(shop(), store_path, readonly=True)
            with reader, reader.snapshot() as union_snap, plain.snapshot() as plain_snap:
                for view in VIEWS:
                    groups: Any = NAMES if view == "index" else [row.key for row in plain_snap.view(view)]
                    assert union_snap.view(view).why_many(groups) == plain_snap.view(view).why_many(groups)
