"""Read files of lines, continue at the stored offset, and recognise replaced files."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.cache import unpack_document
from penstock.gateway.intake import received_records
from penstock.spout import SourceUnreadable, Standing, open_file
from penstock.spout.files import line_splitter
from penstock.spout.files.file_identity import BLOCK
from tests.spout.reading import Memory, begun, drain, each_kind, ids, numbered


@each_kind
def test_a_file_is_continued_after_every_batch(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    path, memory, found = tmp_path / name, Memory(), list[bytes]()
    path.write_bytes(pack(numbered(0, 20)))
    standings = []
    for _ in range(8):
        with begun(path, memory) as spout:
            standings.append(spout.standing)
            first = spout.number
            found += drain(spout, memory, most=1)
            assert spout.number == min(first + 3, 20)
    assert ids(found) == list(range(20))
    assert standings == [Standing.FRESH] + [Standing.BEGUN] * 6 + [Standing.FINISHED]


@each_kind
def test_a_file_that_was_read_to_its_end_has_ended(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    path, memory = tmp_path / name, Memory()
    for text in (numbered(0, 6), b"", b"\n", numbered(0, 1)[:-1]):
        path.write_bytes(pack(text))
        with begun(path, memory, again=True) as spout:
            drain(spout, memory)
            assert spout.ended
        with begun(path, memory) as spout:
            assert (spout.standing, spout.ended, spout.next_batch(3)) == (Standing.FINISHED, True, None)


@each_kind
def test_a_file_that_has_grown_is_continued(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    path, memory = tmp_path / name, Memory()
    path.write_bytes(pack(numbered(0, 5)))
    with begun(path, memory) as spout:
        drain(spout, memory)
    with path.open("ab") as file:
        file.write(pack(numbered(5, 9)))
    with begun(path, memory) as spout:
        assert (spout.standing, spout.number) == (Standing.GROWN, 5)
        batch = spout.next_batch(10)
        assert (ids(batch.records.lines), batch.first) == ([5, 6, 7, 8], 6)


@each_kind
@pytest.mark.parametrize(
    "other",
    [numbered(0, 3), numbered(10, 16), numbered(0, 5) + b'{"id":55}\n', b"x" + numbered(0, 100)],
    ids=["shorter", "of equal size", "the last differs", "longer"],
)
def test_another_file_is_read_from_its_start(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes], other: bytes
) -> None:
    path, memory = tmp_path / name, Memory()
    path.write_bytes(pack(numbered(0, 6)))
    with begun(path, memory) as spout:
        drain(spout, memory)
    path.write_bytes(pack(other))
    with begun(path, memory) as spout:
        assert spout.standing is Standing.REPLACED
        first = spout.next_batch(2)
        assert (first.again, first.start, first.first) == (True, 0, 1)
        memory.commit(first)
        rest = drain(spout, memory)
    assert b"\n".join([*first.records.lines, *rest, b""]) == other
    with begun(path, memory) as spout:
        assert spout.standing is Standing.FINISHED


@each_kind
def test_again_starts_once_and_then_continues(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    path, memory = tmp_path / name, Memory()
    path.write_bytes(pack(numbered(0, 9)))
    with begun(path, memory) as spout:
        drain(spout, memory)
    with begun(path, memory, again=True) as spout:
        assert ids(drain(spout, memory, most=2)) == [0, 1, 2, 3, 4, 5]
    with begun(path, memory) as spout:
        assert ids(drain(spout, memory)) == [6, 7, 8]


def test_the_blocks_that_are_compared_are_those_of_large_files_too(tmp_path: Path) -> None:
    path, memory = tmp_path / "a.jsonl", Memory()
    text = numbered(0, BLOCK // 4)
    path.write_bytes(text)
    with begun(path, memory) as spout:
        drain(spout, memory, limit=5_000, most=2)
        standing_at = spout.number
    with begun(path, memory) as spout:
        assert (spout.standing, spout.number) == (Standing.BEGUN, standing_at)
        drain(spout, memory, limit=5_000)
    with begun(path, memory) as spout:
        assert spout.standing is Standing.FINISHED
    path.write_bytes(text[:-2] + b"7\n")
    with begun(path, memory) as spout:
        assert spout.standing is Standing.REPLACED


def test_an_incomplete_last_line_waits_until_it_is_complete(tmp_path: Path) -> None:
    path, memory = tmp_path / "a.jsonl", Memory()
    path.write_bytes(numbered(0, 2) + b'{"id": ')
    for _ in range(2):
        with begun(path, memory) as spout:
            found = drain(spout, memory)
            assert spout.ended
            assert spout.unended
            assert spout.number == 2
    assert found == []
    with path.open("ab") as file:
        file.write(b'2}\n{"id": 3}')
    with begun(path, memory) as spout:
        assert ids(drain(spout, memory)) == [2, 3]
        assert not spout.unended
    with path.open("ab") as file:
        file.write(b"\n" + numbered(4, 5))
    with begun(path, memory) as spout:
        assert drain(spout, memory) == [b"", b'{"id": 4}']


@pytest.mark.parametrize("text", [b"id,x\n1,a\n2", b'id,x\n1,a\n2,"b\nc', b'id,x\n1,a\n2,"b"x'])
def test_an_incomplete_last_row_waits_too(tmp_path: Path, text: bytes) -> None:
    path, memory = tmp_path / "a.csv", Memory()
    path.write_bytes(text)
    with begun(path, memory) as spout:
        assert ids(drain(spout, memory)) == [1]
        assert spout.unended


@pytest.mark.parametrize("text", [b"id,x\n1,a\n2,b", b'id,x\n1,a\n2,"b\nc"'])
def test_a_row_that_ends_with_the_file_is_read(tmp_path: Path, text: bytes) -> None:
    path, memory = tmp_path / "a.csv", Memory()
    path.write_bytes(text)
    with begun(path, memory) as spout:
        assert ids(drain(spout, memory)) == [1, 2]
        assert not spout.unended


def test_csv_continues_with_the_names_of_its_first_row(tmp_path: Path) -> None:
    path, memory, found = tmp_path / "a.csv", Memory(), list[bytes]()
    path.write_bytes(b'id,x\n1,"a\nb\nc\nd"\n2,b\n' + b"".join(b"%d,z\n" % i for i in range(3, 12)))
    for _ in range(20):
        with begun(path, memory) as spout:
            found += drain(spout, memory, limit=2, most=1)
    assert ids(found) == list(range(1, 12))
    assert unpack_document(found[0])["x"] == "a\nb\nc\nd", "though that spans more lines than a batch has"


def test_a_file_in_another_format_is_read_from_its_start(tmp_path: Path) -> None:
    path, memory = tmp_path / "a.csv", Memory()
    path.write_bytes(b"id\n1\n")
    for format, count in (("csv", 1), ("tsv", 1), ("jsonl", 2)):
        with begun(path, memory, format=format) as spout:
            assert len(drain(spout, memory)) == count


def test_a_line_that_is_too_long_is_refused_and_the_next_is_not(tmp_path: Path) -> None:
    path, memory = tmp_path / "a.jsonl", Memory()
    size = (16 << 20) + (3 << 20)
    path.write_bytes(numbered(0, 1) + b"x" * size + b"\n" + numbered(2, 3))
    with begun(path, memory) as spout:
        batches = [spout.next_batch(10) for _ in range(3)]
        for batch in batches:
            memory.commit(batch)
    assert batches[1].refused == {0: "it has 19,922,944 bytes, more than 16,777,216"}
    assert [batch.first for batch in batches] == [1, 2, 3]
    assert batches[1].received[0].data == b"x" * size
    with begun(path, memory) as spout:
        assert spout.standing is Standing.FINISHED


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "pipe"])
def test_a_line_too_long_for_quarantine_stays_in_its_file(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_splitter, "MOST_KEPT", 18 << 20)
    monkeypatch.setattr(received_records, "MOST_RECEIVED", 18 << 20)
    path, memory, size = tmp_path / f"a.{kind}", Memory(), 30 << 20
    text = numbered(0, 1) + b"x" * size + b"\n" + numbered(2, 3)
    if kind == "pipe":
        os.mkfifo(path)

        def write() -> None:
            with suppress(BrokenPipeError), path.open("wb", 0) as file:
                file.write(text)

        writer = threading.Thread(target=write)
        writer.start()
        with begun(path, memory) as spout:
            assert ids(spout.next_batch(10, 60.0).records.lines) == [0]
            with pytest.raises(SourceUnreadable, match="line 2 has 31,457,280 bytes; save it to a file"):
                all(spout.next_batch(10, 1.0) is None for _ in range(10_000))
        writer.join()
        return
    path.write_bytes(gzip.compress(text) if kind.endswith("gz") else text)
    with begun(path, memory) as spout:
        _, batch, _ = [spout.next_batch(10) for _ in range(3)]
    unpacked = "unpacked " if kind.endswith("gz") else ""
    at = f"{unpacked}bytes {len(numbered(0, 1))} to {len(numbered(0, 1)) + size} of the file"
    assert batch.refused[0].endswith(f"; only its beginning is kept, all of it is {at}")
    assert (len(batch.received[0].data), batch.received[0].size) == (1 << 20, size)


def test_the_offset_of_a_file_belongs_to_one_table(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(numbered(0, 1))
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    sources = []
    for name, table in ((path, "t"), (link, "t"), (path, "u")):
        spout = open_file(str(name), table)
        sources.append(spout.source)
        spout.close()
    assert sources == [f"t=file:{path}", f"t=file:{path}", f"u=file:{path}"]
