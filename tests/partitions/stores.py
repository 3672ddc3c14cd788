"""Stores of several partitions for tests: a repartitioned one, and one whose partitions are written separately."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import penstock as ps
from penstock.cache import encode_key, open_lmdb
from penstock.core.metadata.store_layout import layout_of, read_layout, write_layout
from penstock.engine import open_on, repartition
from penstock.mapreduce import even_starts

SEED = 7
Doc = dict[str, Any]


def parted(app: ps.App, path: Path, docs: dict[str, list[Doc]], partitions: int) -> tuple[ps.Engine, ps.Engine]:
    """Put the same documents into a store of several partitions, open for reading, and into one in memory."""
    plain = ps.open(app, None)
    with ps.open(app, path, listen=False) as engine:
        for table, own in docs.items():
            engine.put_many(table, own)
            plain.put_many(table, own)
    repartition(path, partitions)
    return ps.open(app, path, readonly=True), plain


@contextmanager
def placed() -> Iterator[None]:
    """Make the owner of each key the same in every run, for stores that are created within this context."""
    with mock.patch("penstock.engine.partitioned_opening.secrets.randbits", return_value=SEED):
        yield


def misplaced(engine: ps.Engine) -> list[Any]:
    """Return the documents, held documents and rows that are not in the partition that owns them."""
    layout = read_layout(engine.status()["path"])
    if layout is None:
        return []
    ranges, out = layout.ranges(), list[Any]()
    with engine.snapshot() as snap:
        for i, part in enumerate(snap.parts):
            for name in part.schema.tables:
                out += [(name, row.key) for row in part.table(name) if ranges.of(encode_key(row.key)) != i]
            for name, view in part.schema.views.items():
                owned = [row.key[0] if view.view.index else row.key for row in part.view(name)]
                out += [(name, key) for key in owned if ranges.of(encode_key(key)) != i]
                if not view.chained:
                    out += [(name, "held") for whole in part.held(name)[1] if ranges.of(whole) != i]
    return out


class Partitions:
    """The partitions of a store, each written separately: its views have the documents' own keys as groups."""

    def __init__(self, app: ps.App, path: Path, partitions: int) -> None:
        layout = layout_of(app.name, SEED, even_starts(partitions), 1)
        self._stack = ExitStack()
        self._ranges = layout.ranges()
        self.engines = [
            self._stack.enter_context(open_on(app, open_lmdb(folder), seed=SEED)[0])
            for folder in layout.folders(str(path))
        ]
        write_layout(str(path), layout)

    def put(self, table: str, docs: Iterable[Doc]) -> None:
        """Put each document at the owner of its key."""
        for doc in docs:
            self.engines[self.owner(doc["id"])].put(table, doc)

    def delete(self, table: str, key: Any) -> None:
        """Delete a document."""
        self.engines[self.owner(key)].delete(table, key)

    def owner(self, key: Any) -> int:
        """Return the owner of a key."""
        return self._ranges.of(encode_key(key))

    def close(self) -> None:
        """Close all partitions."""
        self._stack.close()
