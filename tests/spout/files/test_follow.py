"""Follow growing files and pipes, and wait for later lines."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.spout import (
    FileSpout,
    open_file,
)
from penstock.spout.files.line_files import FileFormat
from tests.spout.reading import Memory, begun, drain, ids, numbered


class Happenings:
    """Events that happen while the spout waits, one per pause. Then time runs out."""

    def __init__(self, *things: Callable[[], object]) -> None:
        self.things = list(things)
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        if self.things:
            self.things.pop(0)()
        else:
            self.now += 1.0


def followed(path: Path, happenings: Happenings, memory: Memory) -> FileSpout:
    file = os.open(path, os.O_RDONLY)
    spout = FileSpout(file, "a", "t=a", FileFormat("jsonl"), str(path), clock=happenings.clock, pause=happenings.pause)
    spout.begin(memory.recall)
    return spout


def waited(spout: FileSpout, memory: Memory) -> list[list[bytes]]:
    """Return the lines of each batch until no more come."""
    out: list[list[bytes]] = []
    while (batch := spout.next_batch(100, 0.5)) is not None:
        out.append(batch.records.lines)
        memory.commit(batch)
    assert not spout.ended
    return out


def add(path: Path, text: bytes) -> Callable[[], object]:
    def now() -> None:
        with path.open("ab") as file:
            file.write(text)

    return now


def test_a_followed_file_is_read_as_it_grows(tmp_path: Path) -> None:
    path, memory = tmp_path / "a", Memory()
    path.write_bytes(b"1\n2")
    happenings = Happenings(add(path, b"2\n3\n"), lambda: None, add(path, b"4\n"))
    spout = followed(path, happenings, memory)
    assert [lines for lines in waited(spout, memory) if lines] == [[b"1"], [b"22", b"3"], [b"4"]]
    assert spout.lag() == 0
    spout.close()


def test_a_file_that_is_rotated_is_read_to_its_end_first(tmp_path: Path) -> None:
    path, old, memory = tmp_path / "a", tmp_path / "a.1", Memory()
    path.write_bytes(b"1\n")
    happenings = Happenings(
        lambda: (path.rename(old), add(old, b"2\nhalf")()), lambda: None, add(path, b"3\n"), add(path, b"4\n")
    )
    spout = followed(path, happenings, memory)
    assert [lines for lines in waited(spout, memory) if lines] == [[b"1"], [b"2"], [b"half"], [b"3"], [b"4"]]
    assert spout.number == 2
    spout.close()
    with begun(path, Memory()) as again:
        assert len(drain(again, Memory())) == 2


def test_a_file_that_was_cut_is_read_from_its_start(tmp_path: Path) -> None:
    path, memory = tmp_path / "a", Memory()
    path.write_bytes(b"1\n2\n3\n")
    happenings = Happenings(lambda: path.write_bytes(b""), add(path, b"4\n"))
    spout = followed(path, happenings, memory)
    assert [lines for lines in waited(spout, memory) if lines] == [[b"1", b"2", b"3"], [b"4"]]
    spout.close()


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[tuple[FileSpout, int]]:
    out, into = os.pipe()
    spout = FileSpout(out, "standard input", None, FileFormat("jsonl"))
    spout.begin(Memory().recall)
    yield spout, into
    spout.close()


def test_a_pipe_is_read_without_long_waits(pipe: tuple[FileSpout, int]) -> None:
    spout, into = pipe
    assert spout.next_batch(10, 0.0) is None
    assert not spout.ended
    os.write(into, b"1\n2\nhalf")
    batch = spout.next_batch(10, 10.0)
    assert batch is not None
    assert (batch.records.lines, batch.source, batch.note) == ([b"1", b"2"], None, b"")
    os.close(into)
    last = spout.next_batch(10, 10.0)
    assert last is not None
    assert last.records.lines == [b"half"], "it never gets an end"
    assert spout.next_batch(10, 10.0) is None
    assert spout.ended
    assert not spout.contract.exact
    assert spout.lag() is None


def test_a_named_pipe_is_read_like_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    idle = open_file(str(path), "t")
    assert (idle.next_batch(2), idle.ended) == (None, False), "nobody writes yet"
    idle.close()
    writer = threading.Thread(target=path.write_bytes, args=(gzip.compress(numbered(0, 5)),))
    writer.start()
    spout = open_file(str(path), "t", format="jsonl.gz")
    spout.begin(Memory().recall)
    found: list[bytes] = []
    while not spout.ended:
        batch = spout.next_batch(2, 10.0)
        found += batch.records.lines if batch is not None else []
    writer.join()
    spout.close()
    assert ids(found) == list(range(5))
