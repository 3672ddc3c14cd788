"""Small input that could cost much work or memory: each step stays bounded, and a stop is noticed between two steps."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
import zstandard

from penstock.cache import unpack_document
from penstock.spout import open_file
from penstock.spout.files import line_splitter as lines_module
from penstock.spout.files.json_csv_lines import Csv
from penstock.spout.files.line_splitter import LineSplitter
from penstock.spout.files.streams import CHUNK, Unpacked
from tests.spout.files.test_line_splitter import Pieces
from tests.spout.reading import Memory, begun, drain, ids, numbered

MB = 1 << 20
PACKINGS = pytest.mark.parametrize(
    ("kind", "pack"), [("gz", gzip.compress), ("zst", zstandard.ZstdCompressor().compress)], ids=["gz", "zst"]
)


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Fail if this much memory or more is allocated at one time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


def test_a_head_of_many_columns_is_read() -> None:
    """A comparison of each name with all others would take hours."""
    names = [f"n{i}" for i in range(200_000)]
    shape = Csv("wide.csv")
    shaped = shape.shape([",".join(names).encode(), b"," * 199_998 + b",7"], True)
    assert shape.columns == tuple(names)
    assert unpack_document(shaped.lines[0])["n199999"] == 7


@PACKINGS
def test_a_packed_line_of_any_length_takes_bounded_memory(
    tmp_path: Path, kind: str, pack: Callable[[bytes], bytes]
) -> None:
    path, memory = tmp_path / f"a.jsonl.{kind}", Memory()
    path.write_bytes(pack(numbered(0, 3) + bytes(100 * MB) + b"\n" + numbered(3, 5)))
    assert path.stat().st_size < MB
    calls: list[int] = []
    bounds = mock.patch.multiple(lines_module, _MOST_PASSED=8 * MB, MOST_KEPT=18 * MB)
    with begun(path, memory) as spout, bounds, at_most(75 * MB):
        while not spout.ended:
            batch = spout.next_batch(10)
            calls.append(0 if batch is None else len(batch.records.lines))
            if batch is not None:
                memory.commit(batch)
                assert not batch.refused or "more than 16,777,216" in batch.refused[0]
    assert sum(calls) == 5
    assert calls.count(0) >= 100 // 8, "a reader can stop between parts of one line"


@PACKINGS
def test_members_and_steps_do_not_affect_the_bytes(tmp_path: Path, kind: str, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / f"a.jsonl.{kind}"
    path.write_bytes(b"".join(pack(numbered(i, i + 7)) for i in range(0, 700, 7)) + bytes(40))
    with begun(path, Memory()) as spout:
        assert ids(drain(spout, Memory(), limit=1_000)) == list(range(700))


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_stop_is_noticed_inside_padding(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.jsonl.{kind}"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with begun(path, Memory()) as spout:
        assert spout.next_batch(10) is None
        assert not spout.ended


def test_a_stop_is_noticed_on_the_way_to_an_offset(tmp_path: Path) -> None:
    path, memory = tmp_path / "a.jsonl.gz", Memory()
    path.write_bytes(gzip.compress(numbered(0, 1_000_000), 1))
    with begun(path, memory) as spout:
        drain(spout, memory, limit=100_000, most=9)
    reads: list[int] = []
    read = Unpacked.read

    def counted(self: Unpacked, size: int, wait: float = 0.0) -> bytes | None:
        reads.append(size)
        return read(self, size, wait)

    spout = open_file(str(path), "t")
    spout.stopped = lambda: len(reads) >= 2  # type: ignore[union-attr]
    with mock.patch.object(Unpacked, "read", counted):
        spout.begin(memory.recall)
    assert spout.ended
    assert reads == [CHUNK] * 2
    spout.close()
    with begun(path, memory) as spout:
        assert ids(drain(spout, memory, limit=500_000))[-1] == 999_999


def test_a_line_in_many_pieces_is_joined_once() -> None:
    """The pieces of a pipe are small. Joining at each piece would copy all earlier ones again."""
    piece = b"x" * 1_000
    with mock.patch.object(lines_module, "_MOST_PASSED", 10 * MB):
        found = LineSplitter(Pieces(*[piece] * 10_000, b"\n"))
        with at_most(25 * MB):
            [line] = found.take(1, 0.0)
    assert line == piece * 10_000
