"""Copies: made during writes, read back and completed in one step; and every fault that a copy can have."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest

import penstock as ps
from penstock.cache import ArgumentKind
from penstock.cache.errors import StoreDamaged
from penstock.cache.files import file_copy
from penstock.engine import Copied, copy_of, restore
from tests.cache.processes import heard, process
from tests.partitions.copies.copied import digest, filled
from tests.remote.holding import DOCS, held, shop
from tests.waiting import PATIENCE

CopyFailed = file_copy.CopyFailed


def test_a_copy_is_a_store_with_the_same_content(tmp_path: Path) -> None:
    before = filled(tmp_path / "store")
    said: list[tuple[str, int, int]] = []
    done = copy_of(str(tmp_path / "store"), str(tmp_path / "deep" / "copy"), lambda *at: said.append(at))
    size = (tmp_path / "deep" / "copy" / "data.mdb").stat().st_size
    assert done == Copied(str(tmp_path / "deep" / "copy"), size, "shop", 13)
    assert os.listdir(tmp_path / "deep") == ["copy"]
    assert os.listdir(done.path) == ["data.mdb"]
    assert digest(tmp_path / "deep" / "copy") == before
    assert [what for what, _, _ in said] == sorted(what for what, _, _ in said)[::-1]
    ends = {what: done / of for what, done, of in said}
    assert ends["checking"] == 1.0
    assert ends["copying"] > 0.9
    with ps.open(shop(), done.path) as engine:
        assert engine.put("users", DOCS[0]).late == 1


def test_a_copy_is_of_one_moment_while_others_write(tmp_path: Path) -> None:
    filled(tmp_path / "store")
    with ps.open(shop(), tmp_path / "store") as engine:
        stop = threading.Event()

        def write() -> None:
            n = 100
            while not stop.is_set():
                n += 1
                engine.put_many("users", [{"id": 2 * n + i, "name": "pair", "ts": 1} for i in (0, 1)])
                engine.put("marks", {"id": n}, ts=1)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for n in range(3):
                done = engine.copy(tmp_path / f"copy{n}")
                with ps.open(shop(), done.path, readonly=True) as copy, copy.snapshot() as snap:
                    assert snap.position == done.position
                    pairs, marks = snap.view("names").get("pair", 0), len(snap.table("marks"))
                    assert pairs % 2 == 0
                    assert pairs // 2 - (marks - 1) in (0, 1)
        finally:
            stop.set()
            thread.join(PATIENCE)


def test_a_store_is_copied_whose_writer_is_stopped(tmp_path: Path) -> None:
    before = filled(tmp_path / "store")
    with held(tmp_path / "store") as child:
        os.kill(child.pid, signal.SIGSTOP)
        copy_of(str(tmp_path / "store"), str(tmp_path / "copy"))
    assert digest(tmp_path / "copy") == before


def test_a_copy_reports_its_steps(tmp_path: Path) -> None:
    filled(tmp_path / "store")
    seen: list[tuple[str, bool]] = []
    with ps.open(shop(), tmp_path / "store") as engine:
        engine.copy(tmp_path / "copy", progress=lambda step, done, total: seen.append((step, done <= total)))
        with pytest.raises(ArgumentKind, match=r"give a function \(what, done, total\)"):
            engine.copy(tmp_path / "other", progress=lambda done, total: None)  # type: ignore[arg-type, misc]
    assert set(seen) == {("copying", True), ("checking", True)}


def test_a_store_in_memory_has_nothing_to_copy(tmp_path: Path) -> None:
    with ps.open(shop(), None) as engine, pytest.raises(CopyFailed, match="in memory"):
        engine.copy(tmp_path / "copy")


# -- where a copy can't go


def test_nothing_is_overwritten(tmp_path: Path, made: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("there", "file"):
        with pytest.raises(CopyFailed, match="there already and not empty; name a new folder"):
            copy_of(str(made), str(tmp_path / name))
    assert (tmp_path / "there" / "file").read_text() == (tmp_path / "file").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    copy_of(str(made), str(tmp_path / "empty"))
    assert sorted(os.listdir(tmp_path)) == ["empty", "file", "there"]


def test_a_copy_that_was_interrupted_leaves_no_copy(tmp_path: Path, made: Path) -> None:
    def interrupt(what: str, done: int, total: int) -> None:
        if what == "checking":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_of(str(made), str(tmp_path / "copy"), interrupt)
    assert os.listdir(tmp_path) == []


_KILLED = """
import os, signal
from penstock.engine import copy_of
copy_of(sys.argv[1], sys.argv[2], lambda what, done, of: what == sys.argv[3] and os.kill(os.getpid(), signal.SIGKILL))
"""


@pytest.mark.parametrize("when", ["copying", "checking"])
def test_a_copy_that_was_killed_is_made_anew(when: str, tmp_path: Path, made: Path) -> None:
    with process(_KILLED, made, tmp_path / "copy", when) as child:
        assert child.wait(PATIENCE) < 0
    assert os.listdir(tmp_path) == ["copy.partial"]
    copy_of(str(made), str(tmp_path / "copy"))
    assert os.listdir(tmp_path) == ["copy"]
    assert digest(tmp_path / "copy") == digest(made)


def test_two_copies_don_t_go_to_one_place(tmp_path: Path, made: Path) -> None:
    def another(what: str, done: int, total: int) -> None:
        with pytest.raises(CopyFailed, match="another process is copying to it"):
            copy_of(str(made), str(tmp_path / "copy"))

    copy_of(str(made), str(tmp_path / "copy"), another)
    assert os.listdir(tmp_path) == ["copy"]


def test_too_little_room_is_said_first(tmp_path: Path, made: Path) -> None:
    free = mock.Mock(f_bavail=3, f_frsize=4096)
    with mock.patch("os.statvfs", return_value=free):
        for make in (
            lambda: copy_of(str(made), str(tmp_path / "copy")),
            lambda: restore(str(made), str(tmp_path / "store")),
        ):
            with pytest.raises(CopyFailed, match=r"the copy takes \d+\.\d kB and 12.3 kB are free on that disk; free"):
                make()
    assert os.listdir(tmp_path) == ["store"]


@contextmanager
def full_disk() -> Iterator[None]:
    """Let every write fail, as if others filled the disk meanwhile."""
    real = file_copy._new_file

    def new_file(name: str) -> Any:
        file = real(name)
        full = mock.Mock(wraps=file)
        full.write.side_effect = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        full.__enter__ = lambda self: self
        full.__exit__ = lambda self, *_: file.close()
        return full

    with mock.patch.object(file_copy, "_new_file", new_file):
        yield


def test_a_disk_that_fills_ends_it(tmp_path: Path, made: Path) -> None:
    before = set(threading.enumerate())
    with full_disk():
        with pytest.raises(CopyFailed, match="no space left on device; free some room"):
            copy_of(str(made), str(tmp_path / "copy"))
        with pytest.raises(CopyFailed, match="no space left on device; free some room"):
            restore(str(made), str(tmp_path / "store"))
    assert os.listdir(tmp_path) == ["store"]
    assert set(threading.enumerate()) <= before


def test_a_disk_that_is_really_full(tmp_path: Path, made: Path) -> None:
    """A file can't grow beyond a limit, as with a quota."""
    code = """
import resource, signal
from penstock.engine import copy_of
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    copy_of(sys.argv[1], sys.argv[2])
except Exception as error:
    say(f"{type(error).__name__}: {error}")
"""
    with process(code, made, tmp_path / "copy") as child:
        assert heard(child) == f"CopyFailed: {tmp_path / 'copy'}: file too large; free some room, or use another disk"
    assert os.listdir(tmp_path) == []


# -- what is wrong with a copy


def test_each_damage_is_found(tmp_path: Path, made: Path) -> None:
    """A changed byte is reported wherever it is, and no process crashes."""
    good = (made / "data.mdb").read_bytes()
    random, found = Random(1), 0
    (tmp_path / "copy").mkdir()
    for at in [random.randrange(8192, len(good)) for _ in range(60)]:
        (tmp_path / "copy" / "data.mdb").write_bytes(good[:at] + bytes([good[at] ^ 0x41]) + good[at + 1 :])
        try:
            restore(str(tmp_path / "copy"), str(tmp_path / "store"), force=True)
        except StoreDamaged:
            found += 1
            continue
        assert digest(tmp_path / "store") == digest(made), "what is not found is where nothing is"
    assert found > 30


def test_a_row_that_is_not_what_was_written_is_found(tmp_path: Path, made: Path) -> None:
    good = (made / "data.mdb").read_bytes()
    at = good.index(b"x" * 100) + 50
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "data.mdb").write_bytes(good[:at] + b"y" + good[at + 1 :])
    with pytest.raises(StoreDamaged, match="log:1, log entry"):
        restore(str(tmp_path / "copy"), str(tmp_path / "store"))


@pytest.mark.parametrize("keep", [0, 100, 4096, 20_000, -1])
def test_a_copy_that_was_cut_is_found(keep: int, tmp_path: Path, made: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "data.mdb").write_bytes((made / "data.mdb").read_bytes()[:keep])
    with pytest.raises(StoreDamaged):
        restore(str(tmp_path / "copy"), str(tmp_path / "store"))
    assert os.listdir(tmp_path / "store") == ["owner"]


def test_rows_that_are_missing_are_found(tmp_path: Path) -> None:
    """An incomplete copy is found, although all its rows and pages are intact."""
    filled(tmp_path / "store")
    filled(tmp_path / "less", rounds=1)
    real = file_copy._pass_on

    def passed(read: Callable[[], bytes], file: Any, total: int, tell: Any) -> None:
        while read():
            pass
        copy_of(str(tmp_path / "less"), str(tmp_path / "less.copy"))
        with open(tmp_path / "less.copy" / "data.mdb", "rb") as other:
            real(lambda: other.read(1 << 20), file, total, tell)

    calls = iter([passed, real])
    with (
        mock.patch.object(file_copy, "_pass_on", lambda *args: next(calls)(*args)),
        pytest.raises(StoreDamaged, match="fewer or more than there were"),
    ):
        copy_of(str(tmp_path / "store"), str(tmp_path / "copy"))


def test_no_permission(made: Path) -> None:
    """A user without write permission gets an error; if the test runs as root, another user tries it."""
    code = """
import os
from penstock.engine import copy_of, restore
if not os.geteuid():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
os.chdir(sys.argv[1])
for call in (copy_of, restore):
    try:
        call("copy", "closed/copy")
    except Exception as error:
        say(f"{type(error).__name__}: {error}")
"""
    with tempfile.TemporaryDirectory() as where:  # a folder that other users can reach
        (Path(where) / "copy").mkdir()
        shutil.copy(made / "data.mdb", Path(where) / "copy")
        (Path(where) / "closed").mkdir(mode=0o555)
        (Path(where) / "copy").chmod(0o777)
        (Path(where) / "copy" / "data.mdb").chmod(0o644)
        Path(where).chmod(0o755)
        with process(code, where) as child:
            copied, restored = heard(child), heard(child)
            assert child.wait(PATIENCE) == 0
    assert copied.endswith("permission denied; see that this user may write there, or name another folder")
    assert "give this user the right to write there" in restored


def test_no_file_is_left_open(tmp_path: Path, made: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    copy_of(str(made), str(tmp_path / "copy"))
    restore(str(made), str(tmp_path / "store"))
    with pytest.raises(CopyFailed):
        copy_of(str(made), str(tmp_path / "copy"))
    assert len(os.listdir("/proc/self/fd")) == before


def limit_for(more: int) -> int:
    """Return the limit under which so many more files can be opened: the kernel limits numbers, which may have gaps."""
    limit = 0
    while more or os.path.exists(f"/proc/self/fd/{limit}"):
        more -= not os.path.exists(f"/proc/self/fd/{limit}")
        limit += 1
    return limit


def test_at_the_limit_of_open_files_a_copy_says_so(tmp_path: Path, made: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    said: list[str] = []
    with ps.open(shop(), made, readonly=True) as reader:
        for more in range(20):
            folder = tmp_path / f"copy {more}"
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit_for(more), hard))
            try:
                reader.copy(folder)
                break
            except ps.PenstockError as error:
                said.append(str(error))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            reader.copy(folder)  # a leftover is no obstacle
    assert len(said) > 2
    assert [one for one in said if "ulimit -n" not in one] == []


def test_a_relative_path_in_a_folder_that_is_gone_says_so(
    tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with ps.open(shop(), made, readonly=True) as reader, pytest.raises(CopyFailed, match="working folder is gone"):
        reader.copy("copy")
