"""The limits of the machine, measured in the same run as the figures.

- decode-only: the lines become typed msgspec structs, in blocks of 1,024 so that the objects stay in the cache.
- append: the same bytes, one write and one fdatasync per batch.
- commit: the same bytes as one value per batch, in one synced LMDB transaction.
- smallest commit: one tiny LMDB transaction, synced.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import lmdb
import msgspec

_BLOCK = 1024


class _TextUser(msgspec.Struct, gc=False):
    id: str
    name: str
    city: str
    amount: int
    ts: int


class _IntUser(msgspec.Struct, gc=False):
    id: int
    name: str
    city: str
    amount: int
    ts: int


def decode_only(lines: Sequence[bytes]) -> float:
    """Return the seconds to decode these lines. The structs are discarded."""
    text = isinstance(msgspec.json.decode(lines[0])["id"], str)
    decode = msgspec.json.Decoder(_TextUser if text else _IntUser).decode
    began = perf_counter()
    for a in range(0, len(lines), _BLOCK):
        list(map(decode, lines[a : a + _BLOCK]))
    return perf_counter() - began


def synced(batches: Sequence[Sequence[bytes]], folder: Path) -> dict[str, float]:
    """Return the seconds per document of both ways to write these batches."""
    docs = sum(map(len, batches))
    return {"append": append(batches, folder) / docs, "commit": commit(batches, folder) / docs}


def append(batches: Sequence[Sequence[bytes]], folder: Path) -> float:
    """Return the seconds to append these batches to a file, each synced."""
    joined = [b"".join(batch) for batch in batches]
    path = folder / "append"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    try:
        began = perf_counter()
        for data in joined:
            os.write(file, data)
            os.fdatasync(file)
        return perf_counter() - began
    finally:
        os.close(file)
        path.unlink()


def commit(batches: Sequence[Sequence[bytes]], folder: Path) -> float:
    """Return the seconds to put these batches into LMDB, one value and one synced transaction each."""
    joined = [b"".join(batch) for batch in batches]
    with SmallestCommit(folder) as env:
        began = perf_counter()
        for number, data in enumerate(joined):
            with env.env.begin(write=True) as txn:
                txn.put(number.to_bytes(8, "big"), data, append=True)
        return perf_counter() - began


class SmallestCommit:
    """An LMDB environment of its own, for the seconds of its smallest synced transaction."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "limit"
        shutil.rmtree(self._path, ignore_errors=True)
        self.env = lmdb.open(str(self._path), map_size=1 << 36, metasync=False, readahead=False)
        self._count = 0

    def once(self) -> float:
        self._count += 1
        began = perf_counter()
        with self.env.begin(write=True) as txn:
            txn.put(b"one", self._count.to_bytes(8, "big"))
        return perf_counter() - began

    def __enter__(self) -> SmallestCommit:
        return self

    def __exit__(self, *_: object) -> None:
        self.env.close()
        shutil.rmtree(self._path)
