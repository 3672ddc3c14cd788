"""A store with rows of every kind, all reads of it, and a bit flipped in any row.

The views have rows in both forms (columns of fixed width, and packed), with short and long keys. The store has
remembered emissions of documents and of rows, held and resting entries, tree nodes, and deferred items. It also has an
index, a log with tombstones and copied lines, the feed, a quarantine, and the metadata.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.cache import open_lmdb
from penstock.gateway import TableBatch
from penstock.mapreduce import small_trees
from penstock.spout import SpoutBatch
from tests.harness.histories import small_buckets
from tests.harness.worlds import TINY
from tests.mapreduce.trees.tree_worlds import UNLUCKY

LONG = "x" * 600
NAMES = ["Sue", "Joe", "Bob", "odd", LONG]
KINDS = {
    *("meta", "feed", "quarantine", "log", "index", "moved"),
    *("view", "told", "held", "resting", "tree", "behind"),
}


class Sizes:
    """A user's invertible reducer that fails on one value."""

    zero = 0

    def lift(self, value: Any) -> int:
        if value == UNLUCKY:
            raise ValueError("unlucky")
        return len(str(value))

    def merge(self, a: int, b: int) -> int:
        return a + b

    def unmerge(self, a: int, b: int) -> int:
        return a - b


def tags(doc: dict[str, Any]) -> Iterator[Any]:
    """Yield any number of groups for a document. A document without a list is an error."""
    for tag in doc["tags"]:
        yield tag, doc["amount"]


def lengths(row: Any) -> Iterator[Any]:
    """Yield a group for a row of the parent view. One row is an error."""
    if row.key == "odd":
        raise ValueError("odd")
    yield len(row.key), row.value


def app_of() -> ps.App:
    """Return an app with views of every kind."""
    app = ps.App("kinds")
    users, plain = app.table("users", key="id", ts="ts"), app.table("plain", key="id")
    names = users.view("names", key="name", reduce=ps.count())
    users.view("most", key="city", reduce={"most": ps.max("amount"), "n": ps.count()})
    users.view("listed", key="name", value="amount", reduce=None)
    plain.view("sizes", key="city", reduce=ps.group(Sizes(), "amount"))
    users.view("sums", key="city", reduce={"total": ps.sum("amount"), "avg": ps.mean("amount")})
    users.view("tags", reduce=ps.count())(tags)
    names.view("lengths", reduce=ps.sum())(lengths)
    return app


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open the engine at a path, with small limits for everything."""
    with ExitStack() as stack:
        stack.enter_context(small_buckets())
        stack.enter_context(small_trees(most_bytes=1 << 20, most_items=30))
        yield stack.enter_context(ps.open(app_of(), path, limits=TINY, listen=False))


def document(number: int, ts: int = 0) -> dict[str, Any]:
    """Return a document that every view accepts."""
    amount = [1, 0.1, 2**70, "1e3"][number % 4]
    city, tag = "abc"[number % 3], "pqr"[(number + ts) % 3]
    return {"id": number, "name": NAMES[(number + ts) % 5], "city": city, "tags": [tag], "amount": amount, "ts": ts}


def fill(path: Path) -> None:
    """Make a store with rows of all kinds."""
    with opened(path) as engine:
        for ts in range(4):
            engine.put_many("users", [document(number, ts) for number in range(12)])
            engine.put_many("plain", [document(number, ts) for number in range(8)])
            engine.put("plain", {"name": "no id"})
        lines = [json.dumps(document(number, 5)).encode() for number in range(12, 15)]
        list(engine.load("users", [SpoutBatch(TableBatch(lines), "file:a", 0, 3, note=b"n")], long=False))
        engine.delete("users", 3, ts=9)
        engine.put("users", document(1, 6) | {"tags": None})
        engine.put("users", document(2, 6) | {"tags": None})
        (first, _) = engine.quarantine("document", view="tags")
        engine.drop(first.id)
        engine.put("plain", document(1) | {"amount": UNLUCKY})
        engine.compact()
        engine.put("users", {"id": 30, "ts": "no ts"})


class Damaged:
    """Copies of a store, each with one bit flipped in one row."""

    def __init__(self, whole: Path, folder: Path) -> None:
        self._whole, self._folder = whole, folder
        with stored(whole) as store, store.read() as reader:
            self.rows = {db: list(reader.scan(db)) for db in reader.names()}

    @contextmanager
    def copy(self, db: str, key: bytes, bit: int) -> Iterator[Path]:
        """Yield a store with this bit flipped in a row. A negative bit counts from the end of the row."""
        path = self._folder / "copy"
        path.mkdir()
        shutil.copyfile(self._whole / "data.mdb", path / "data.mdb")
        row = bytearray(dict(self.rows[db])[key])
        row[bit % (8 * len(row)) // 8] ^= 1 << bit % 8
        with stored(path) as store, store.write() as txn:
            txn.put_many(db, [(key, bytes(row))])
        yield path
        shutil.rmtree(path)


@contextmanager
def stored(path: Path) -> Iterator[Any]:
    """Yield the store at a path, without an engine."""
    store = open_lmdb(path)
    yield store
    store.close()


Reading = Callable[[Any], Any]


def readings(app: ps.App) -> dict[str, Reading]:
    """Return all reads of an engine by name. Each returns a value to compare."""
    out: dict[str, Reading] = {
        "status": lambda engine: {k: engine.status()[k] for k in ("position", "sources", "tables", "views")},
        "sources": lambda engine: engine.snapshot().remembered("file:a"),
        "digest": lambda engine: engine.digest(),
        "feed": lambda engine: [str(change) for change in engine.changes(since=0)],
        "quarantine": lambda engine: [str(entry) for entry in engine.quarantine(resting=True)],
    }
    for table in app.tables():
        out[f"{table.name}: documents"] = lambda engine, name=table.name: sorted(
            str(row) for row in engine.snapshot().table(name).items()
        )
        out[f"{table.name}: one by one"] = lambda engine, name=table.name: [
            str(engine.snapshot().table(name).get(key)) for key in range(20)
        ]
        out[f"{table.name}: told"] = lambda engine, name=table.name: [
            str(engine.snapshot().stored(name, key)) for key in range(20)
        ]
    for view in app.views():
        out[f"{view.name}: rows"] = lambda engine, name=view.name: list(map(str, engine.snapshot().view(name).items()))
        if view.index:
            continue
        out[f"{view.name}: one by one"] = lambda engine, name=view.name: [
            str(engine.snapshot().view(name).get(group)) for group in [*NAMES, *"abcpqr", 3, 600]
        ]
        out[f"{view.name}: why"] = lambda engine, name=view.name: [
            str(engine.snapshot().view(name).why(group)) for group in [*NAMES, *"abcpqr", 3, 600]
        ]
    return out


def read(engine: Any) -> dict[str, Any]:
    """Return the results of all reads.

    A read of damaged data returns its StoreDamaged error; other errors are raised.
    """
    out: dict[str, Any] = {}
    for name, reading in readings(engine.store.core.app).items():
        try:
            out[name] = reading(engine)
        except ps.StoreDamaged as damage:
            out[name] = damage
    return out


def names_of(path: Path) -> dict[str, str]:
    """Return the names of tables and views by their numbers."""
    with opened(path) as engine:
        return {str(entry.written): name for name, entry in engine.store.core.catalog.entries.items()}
