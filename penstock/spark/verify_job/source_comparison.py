"""Compare documents with their sources: find documents that a store lacks, or has in an older version.

The source is filled into a store of its own, and both stores are compared key by key. A document that only the store
has is counted and left alone, because the source may lag. Invariant: a document is posted as in the source, with its
ts, and the gateway decides whether it wins.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from penstock.cache import Tell, canonical
from penstock.engine import Snapshot, StoreWriter, open_engine
from penstock.recovery import Refused, moment_of
from penstock.spark.backfill_job.backfill_driver import fill_documents
from penstock.views import ABSENT, App, Table, reach

__all__ = ["Against", "Stale", "compare_with_source"]

_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class Stale:
    """A document that the store lacks, or has in another version than its source. ABSENT stands for no document."""

    table: str
    key: Any
    expected: Any
    stored: Any


@dataclass(slots=True)
class Against:
    """The result: missing or stale documents, and the number of documents that the source lacks, by table."""

    stale: list[Stale] = field(default_factory=list)
    beyond: dict[str, int] = field(default_factory=dict)

    def post(self, writing: StoreWriter) -> None:
        """Put the documents of the source."""
        tables = dict.fromkeys(one.table for one in self.stale)
        for table in tables:
            docs = iter([one.expected for one in self.stale if one.table == table])
            while chunk := list(islice(docs, _CHUNK)):
                writing.put_many(table, chunk)


def compare_with_source(
    app: App, path: str, sources: Mapping[str, Any], beside: str, spark: Any, tell: Tell | None = None
) -> Against:
    """Compare the documents of a copy with the sources of its tables. `beside` is a folder for the filled store."""
    out = Against()
    with tempfile.TemporaryDirectory(prefix="penstock-against-", dir=beside) as folder:
        fresh = os.path.join(folder, "store")
        fill_documents(app, fresh, sources, spark, tell)
        with (
            open_engine(app, fresh, readonly=True) as truth,
            open_engine(app, path, readonly=True) as engine,
            truth.snapshot() as expected,
            engine.snapshot() as snap,
        ):
            for name in sources:
                _compare(app.table_of(name), expected, snap, out)
    return out


def _compare(table: Table, expected: Snapshot, snap: Snapshot, out: Against) -> None:
    stored = snap.table(table.name)
    known = 0
    for rows in _chunks(iter(expected.table(table.name).items())):
        own = stored.get_many([row.key for row in rows], ABSENT)
        for row, doc in zip(rows, own, strict=True):
            known += doc is not ABSENT
            if doc is ABSENT or (canonical(doc) != canonical(row.value) and not _newer(table, doc, row.value)):
                out.stale.append(Stale(table.name, row.key, row.value, doc))
    if len(stored) > known:
        out.beyond[table.name] = len(stored) - known


def _newer(table: Table, stored: Any, source: Any) -> bool:
    """Test whether the store has a later version than the source."""
    if table.ts is None:
        return False
    try:
        return bool(moment_of(reach(stored, table.ts))[1] > moment_of(reach(source, table.ts))[1])
    except Refused:  # a document of patches may lack the field of its ts
        return False


def _chunks(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while chunk := list(islice(rows, _CHUNK)):
        yield chunk
