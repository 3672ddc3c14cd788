"""Only one process writes a store. The error for another one names it."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

import pytest

from penstock.cache.errors import PenstockError, StoreInUse
from penstock.cache.files.writer_lock import WriterLock, writer_name, writer_pid
from tests.cache.processes import heard, in_fork, process, send_line

TAKE = """
from penstock.cache.files.writer_lock import WriterLock
owner = WriterLock(sys.argv[1]); say("taken"); wait(); owner.close(); say("closed"); wait()
"""


def test_the_error_names_the_process_that_writes(store_path: Path) -> None:
    with process(TAKE, store_path) as other:
        assert heard(other) == "taken"
        with pytest.raises(StoreInUse) as caught:
            WriterLock(store_path)
        assert caught.value.path == str(store_path)
        assert f"process {other.pid} on {socket.gethostname()} since 2" in caught.value.holder
        assert caught.value.holder.endswith("(-c)")
        send_line(other)
        assert heard(other) == "closed"
        WriterLock(store_path).close()


def test_the_death_of_the_holder_frees_the_lock(store_path: Path) -> None:
    with process(TAKE, store_path) as other:
        assert heard(other) == "taken"
        other.kill()
        other.wait()
        WriterLock(store_path).close()


def test_the_lock_is_exclusive_within_a_process(store_path: Path) -> None:
    with WriterLock(store_path), pytest.raises(StoreInUse, match=f"process {os.getpid()} "):
        WriterLock(store_path)
    with WriterLock(store_path) as owner:
        owner.close()
        owner.close()
        WriterLock(store_path).close()


def test_a_holder_without_a_description_is_named_by_the_kernel(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with WriterLock(store_path):
        (store_path / "owner").write_text("{")
        with pytest.raises(StoreInUse, match=f"process {os.getpid()} on .*python"):
            WriterLock(store_path)
        assert writer_pid(store_path) == os.getpid()
        monkeypatch.setattr("penstock.cache.files.writer_lock._locker", lambda fd: None)
        with pytest.raises(StoreInUse, match="another process"):
            WriterLock(store_path)


def test_a_forked_child_neither_has_nor_frees_the_lock(store_path: Path) -> None:
    with WriterLock(store_path) as owner:
        assert in_fork(lambda: WriterLock(store_path)).startswith("StoreInUse")
        assert in_fork(owner.close) == "None"
        with pytest.raises(StoreInUse):
            WriterLock(store_path)


def test_a_forked_child_does_not_keep_the_lock_of_a_dead_parent(store_path: Path) -> None:
    code = """
import os
from penstock.cache.files.writer_lock import WriterLock
owner = WriterLock(sys.argv[1]); out, into = os.pipe()
if os.fork() == 0:
    os.close(into); say("forked"); os.read(out, 1); os.read(0, 1); os._exit(0)
os.close(out); wait(); os._exit(0)
"""
    with process(code, store_path) as parent:
        assert heard(parent) == "forked"
        send_line(parent)
        parent.wait()
        WriterLock(store_path).close()


def test_a_collected_lock_is_released(store_path: Path) -> None:
    owner = WriterLock(store_path)
    del owner
    WriterLock(store_path).close()


def test_a_path_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PenstockError, match=r"file/store/owner: Not a directory; give this user"):
        WriterLock(tmp_path / "file" / "store")


def test_the_writer_can_be_looked_up(store_path: Path) -> None:
    assert writer_name(store_path) is None, "there is no store"
    with WriterLock(store_path):
        found = writer_name(store_path)
        assert found is not None
        assert found.startswith(f"process {os.getpid()} on ")
    assert writer_name(store_path) is None


def test_a_writer_waits_for_processes_that_only_test_the_lock(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    WriterLock(store_path).close()
    looking = os.open(store_path / "owner", os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr("penstock.cache.files.writer_lock.time.sleep", lambda seconds: os.close(looking))
    WriterLock(store_path).close()


@pytest.mark.parametrize("text", ["Sue owns this folder.", '{"name": "Sue"}'])
def test_the_file_of_another_program_is_refused_and_stays(text: str, store_path: Path) -> None:
    store_path.mkdir()
    (store_path / "owner").write_text(text)
    (store_path / "owner").chmod(0o644)
    with pytest.raises(PenstockError, match=r"owner is a file of another program, .*; move it away"):
        WriterLock(store_path)
    assert (store_path / "owner").read_text() == text
    assert (store_path / "owner").stat().st_mode & 0o777 == 0o644
    assert writer_name(store_path) is None


@pytest.mark.parametrize("text", ["", "\0" * 140, '{"pid": 7, "ho'])
def test_a_file_that_a_crash_left_short_is_overwritten(text: str, store_path: Path) -> None:
    store_path.mkdir()
    (store_path / "owner").write_text(text)
    with WriterLock(store_path):
        assert writer_pid(store_path) == os.getpid()
