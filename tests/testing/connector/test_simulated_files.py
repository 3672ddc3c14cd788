"""The simulated file system: a power loss keeps synced bytes and names, and some of the others."""

from __future__ import annotations

import os
from random import Random

import pytest

from penstock.testing.connector.simulated_files import SimulatedFiles
from penstock.testing.simulator.faults import Crash, Fault, Points, Strike

NEW = os.O_RDWR | os.O_CREAT


def written(files: SimulatedFiles, path: str, *pieces: bytes) -> int:
    file, at = files.open(path, NEW, 0o600), 0
    for piece in pieces:
        at += files.pwrite(file, piece, at)
    return file


def sync_folder(files: SimulatedFiles, path: str) -> None:
    files.fsync(files.open(path, os.O_RDONLY | os.O_DIRECTORY))


def test_a_synced_file_with_a_synced_name_survives() -> None:
    for seed in range(20):
        files = SimulatedFiles(Points(), "")
        files.fsync(written(files, "/a/log", b"one", b"two"))
        sync_folder(files, "/a")
        files.lose_power(Random(seed))
        assert files.content("/a/log") == files.durable_content("/a/log") == b"onetwo"


def test_each_unsynced_write_is_kept_or_lost_or_torn() -> None:
    found = set()
    for seed in range(300):
        files = SimulatedFiles(Points(), "")
        file = written(files, "/a/log")
        sync_folder(files, "/a")
        files.pwrite(file, b"ab", 0)
        files.pwrite(file, b"cd", 2)
        files.lose_power(Random(seed))
        found.add(files.content("/a/log"))
    assert found >= {b"", b"ab", b"abcd", b"\0\0cd", b"a", b"abc"}


def test_a_name_without_a_sync_may_be_lost_with_its_file() -> None:
    found = set()
    for seed in range(30):
        files = SimulatedFiles(Points(), "")
        files.fsync(written(files, "/a/log", b"old"))
        sync_folder(files, "/a")
        files.fsync(written(files, "/a/log.fresh", b"new"))
        files.replace("/a/log.fresh", "/a/log")
        files.lose_power(Random(seed))
        found.add(files.content("/a/log"))
    assert found == {b"old", b"new"}


def test_a_kill_keeps_writes_and_ends_open_files() -> None:
    files = SimulatedFiles(Points(), "")
    file = written(files, "/a/log", b"one")
    files.end_process()
    assert files.content("/a/log") == b"one"
    with pytest.raises(OSError, match="not open"):
        files.pwrite(file, b"two", 3)


@pytest.mark.parametrize(("nth", "content"), [(3, b""), (4, b"one")])
def test_a_fault_strikes_before_and_after_a_write(nth: int, content: bytes) -> None:
    points = Points()
    files = SimulatedFiles(points, "sink 0 ")
    points.arm(Strike(Fault.CRASH, nth, "sink 0 "))
    with pytest.raises(Crash):
        written(files, "/a/log", b"one")
    assert files.content("/a/log") == content


def test_a_full_disk_refuses_a_write_and_changes_nothing() -> None:
    points = Points()
    files = SimulatedFiles(points, "")
    file = written(files, "/a/log", b"one")
    points.arm(Strike(Fault.FAIL, 1))
    with pytest.raises(OSError, match="simulated, at pwrite before"):
        files.pwrite(file, b"two", 3)
    assert files.content("/a/log") == b"one"
