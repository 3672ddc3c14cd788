"""Lose, move or duplicate rows in sound pages, as after a bit flip in a key and later writes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb

from penstock.cache import seal
from tests.faults.flips import outcome, worlds

_CRC = 4


def begin(folder: Path) -> Any:
    """Return the function that runs a trial: LMDB itself changes the rows, so that Penstock does not notice."""
    found = worlds(folder.parent)

    def trial(rng: random.Random, place: Path) -> str:
        world = found[rng.randrange(2)]
        (place / "data.mdb").write_bytes(world.file)
        with lmdb.open(str(place), max_dbs=100) as env:
            names = [bytes(name) for name, _ in _rows(env, None)]
            db = rng.choice([name for name in names if _rows(env, name)])
            what = rng.choice(list(CHANGES))
            CHANGES[what](rng, env, db)
        return f"{what}: {outcome(world, place)}"

    return trial


def _rows(env: lmdb.Environment, db: bytes | None) -> list[tuple[bytes, bytes]]:
    handle = None if db is None else env.open_db(db, create=False)
    with env.begin(db=handle) as txn:
        return [(bytes(key), bytes(row)) for key, row in txn.cursor()]


def _lost(rng: random.Random, env: lmdb.Environment, db: bytes) -> None:
    """Delete one row."""
    key, _ = rng.choice(_rows(env, db))
    with env.begin(write=True, db=env.open_db(db, create=False)) as txn:
        txn.delete(key)


def _moved(rng: random.Random, env: lmdb.Environment, db: bytes) -> None:
    """Flip a bit of a key, and seal the row under the other key."""
    _doubled(rng, env, db, keep=False)


def _doubled(rng: random.Random, env: lmdb.Environment, db: bytes, keep: bool = True) -> None:
    """Copy a row to another key, which has a bit flipped."""
    key, row = rng.choice(_rows(env, db))
    bit = rng.randrange(8 * len(key))
    turned = bytearray(key)
    turned[bit // 8] ^= 1 << bit % 8
    other = bytes(turned)
    with env.begin(write=True, db=env.open_db(db, create=False)) as txn:
        if not keep:
            txn.delete(key)
        txn.put(other, row if db.startswith(b"log:") else seal(other, row[:-_CRC]))


def _emptied(rng: random.Random, env: lmdb.Environment, db: bytes) -> None:
    """Delete all rows of a database."""
    handle = env.open_db(db, create=False)
    with env.begin(write=True) as txn:
        txn.drop(handle, delete=False)


def _renamed(rng: random.Random, env: lmdb.Environment, db: bytes) -> None:
    """Flip a bit in the name of a database."""
    turned = bytearray(db)
    turned[rng.randrange(len(turned))] ^= 1 << rng.randrange(5)
    rows = _rows(env, db)
    with env.begin(write=True) as txn:
        txn.drop(env.open_db(db, txn=txn, create=False))
        other = env.open_db(bytes(turned), txn=txn)
        for key, row in rows:
            txn.put(key, row, db=other)


CHANGES: dict[str, Callable[[random.Random, lmdb.Environment, bytes], None]] = {
    "lost": _lost,
    "moved": _moved,
    "doubled": _doubled,
    "emptied": _emptied,
    "renamed": _renamed,
}
