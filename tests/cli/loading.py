"""Shared parts of the tests of `load`: users in every format, and the content of a store."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from penstock.cli.app_file import load as load_app

PENSTOCK = [sys.executable, "-m", "penstock"]
STORE = "penstock-state"


def users(start: int, stop: int) -> list[dict[str, Any]]:
    return [
        {"id": i, "name": ("Sue", "Joe", "Sam")[i % 3], "country": "NO", "age": i % 50, "ts": i}
        for i in range(start, stop)
    ]


def lines(docs: Iterable[Any]) -> bytes:
    return b"".join(json.dumps(doc).encode() + b"\n" for doc in docs)


def csv(docs: list[dict[str, Any]]) -> bytes:
    rows = [",".join(docs[0]), *(",".join(map(str, doc.values())) for doc in docs)]
    return "\n".join(rows).encode() + b"\n"


def parquet(docs: list[dict[str, Any]]) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(docs), out)
    return bytes(out.getvalue())


def content(store: str | Path = STORE) -> tuple[int, str]:
    """Return the number of users in a store, and its digest."""
    with ps.open(load_app("app.py"), store, readonly=True) as engine, engine.snapshot() as snap:
        return len(snap.table("users")), engine.digest()


def rejected(store: str) -> int:
    """Return the number of lines of users that a store has rejected."""
    with ps.open(load_app("app.py"), store, readonly=True) as engine:
        found: int = engine.status()["tables"]["users"]["rejected"]
        return found


def digest_of(docs: Iterable[dict[str, Any]]) -> str:
    """Return the digest of a store with exactly these documents."""
    with ps.open(load_app("app.py"), None) as engine:
        engine.put_many("users", list(docs))
        return engine.digest()
