"""Helpers for tests of spouts: a memory of source partitions, files of numbered lines, ways to compress them."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zstandard

from penstock.cache import unpack_document
from penstock.spout import Remembered, SpoutBatch, open_file


class Memory:
    """A store's memory of source partitions."""

    def __init__(self) -> None:
        self.sources: dict[str, Remembered] = {}

    def recall(self, source: str) -> Remembered | None:
        return self.sources.get(source)

    def commit(self, batch: SpoutBatch) -> None:
        assert batch.source is not None
        known = self.sources.get(batch.source, Remembered(0))
        assert batch.again or batch.start == known.offset
        self.sources[batch.source] = Remembered(batch.resume, batch.note)


def drain(spout: Any, memory: Memory, limit: int = 3, most: int = 1_000, out: list[bytes] | None = None) -> list[bytes]:
    """Return the lines of all batches, committed one by one."""
    out = [] if out is None else out
    for _ in range(most):
        batch = spout.next_batch(limit)
        if batch is None:
            break
        out += batch.records.lines
        memory.commit(batch)
    return out


@contextmanager
def begun(path: Path, memory: Memory, **options: Any) -> Iterator[Any]:
    spout = open_file(str(path), "t", **options)
    spout.begin(memory.recall)
    try:
        yield spout
    finally:
        spout.close()


def numbered(start: int, stop: int) -> bytes:
    return b"".join(b'{"id": %d}\n' % i for i in range(start, stop))


def ids(lines: list[bytes]) -> list[Any]:
    return [unpack_document(line)["id"] for line in lines]


def as_is(data: bytes) -> bytes:
    return data


def two_members(pack: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def packed(data: bytes) -> bytes:
        half = len(data) // 2
        return pack(data[:half]) + pack(data[half:])

    return packed


FILES = [
    ("a.jsonl", as_is),
    ("a.jsonl.gz", gzip.compress),
    ("a.jsonl.gz", two_members(gzip.compress)),
    ("a.jsonl.zst", zstandard.compress),
    ("a.jsonl.zst", two_members(zstandard.compress)),
]
each_kind = pytest.mark.parametrize(("name", "pack"), FILES, ids=["plain", "gz", "gz+gz", "zst", "zst+zst"])
