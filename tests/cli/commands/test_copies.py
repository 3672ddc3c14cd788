"""`penstock snapshot`, `restore` and `compact`: their output, and their errors."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import lmdb
import msgspec
import pytest

import penstock as ps
from penstock.cache import seal
from penstock.cli.app_file import load as load_app
from penstock.engine.writers import open_writer
from tests.cache.processes import heard, process
from tests.cli.conftest import APP, Run
from tests.cli.terminal import Terminal
from tests.waiting import PATIENCE

STORE = "penstock-state"


def content(store: str = STORE) -> tuple[int, str]:
    """Return the number of users in a store, and its digest."""
    with ps.open(load_app("app.py"), store, readonly=True) as engine, engine.snapshot() as snap:
        return len(snap.table("users")), engine.digest()


def grow(store: str = STORE, rounds: int = 8) -> None:
    """Put many versions of some users."""
    with ps.open(load_app("app.py"), store) as engine:
        for ts in range(10, 10 + rounds):
            engine.put_many("users", [{"id": i, "name": "x" * 900, "ts": ts} for i in range(200)])


def test_a_copy_is_made_and_a_store_of_it(filled: Path, run: Run) -> None:
    before = content()
    assert re.fullmatch(r"backup: \d+\.\d kB of app shop, position 1, checked\n", run("snapshot", "backup").stdout)
    assert content("backup") == before
    run("put", "users", '{"id": 9, "name": "Bob", "ts": 1}')
    done = run("--store", "other", "restore", "backup")
    assert re.fullmatch(r"other: \d+\.\d kB of app shop, position 1, from backup\n", done.stdout)
    refused = run("restore", "backup", code=3)
    assert refused.stderr == (
        f"penstock: {STORE}: there is a store with content; name another folder, or replace it with --force\n"
    )
    run("restore", "backup", "--force", "-q")
    assert content() == content("other") == before


def test_neither_needs_an_app(filled: Path, run: Run) -> None:
    (filled / "app.py").unlink()
    run("snapshot", "backup")
    run("--store", "other", "restore", "backup")


def test_what_was_typed_wrong(filled: Path, run: Run) -> None:
    run("snapshot", "backup")
    assert "there already and not empty" in run("snapshot", "backup", code=3).stderr
    assert "app.py" in run("snapshot", "app.py", code=3).stderr
    assert "nothing has no copy of a store" in run("restore", "nothing", code=2).stderr
    assert "it is the copy itself" in run("restore", STORE, "--force", code=3).stderr
    for command in (["snapshot", "copy"], ["compact"]):
        assert re.search(
            "there is no store at .*nowhere; `penstock load", run("--store", "nowhere", *command, code=2).stderr
        )
    assert not (filled / "nowhere").exists()


def test_compacting_says_what_it_gives_back(filled: Path, run: Run) -> None:
    grow()
    with ps.open(load_app("app.py"), STORE) as engine:
        engine.delete("users", 1, ts=99)
    before = content()
    shown = run("compact").stdout.splitlines()
    assert re.fullmatch(r"rows: \d\.\d MB before, \d+\.\d kB now", shown[0])
    assert re.fullmatch(r"gone: 1,\d\d\d old versions, 0 deletions", shown[1])
    assert re.fullmatch(r"file: \d\.\d MB before, \d+\.\d kB now", shown[2])
    assert content() == before
    again = run("compact").stdout.splitlines()
    assert again[1] == "gone: 0 old versions, 0 deletions"
    assert re.fullmatch(r"file: \d+\.\d kB", again[2])


def test_while_others_have_it_open_the_file_stays(filled: Path, run: Run) -> None:
    grow()
    pattern = r"file: \d\.\d MB, of which \d\.\d MB are free for later writes; to shrink it, compact while no other .*"
    with ps.open(load_app("app.py"), STORE, readonly=True) as engine:
        assert re.fullmatch(pattern, run("compact").stdout.splitlines()[2])
        engine.digest()
    grow()
    with ps.open(load_app("app.py"), STORE) as engine:
        before = engine.digest()
        done = run("compact", "-v")
        assert f"handed over to process {os.getpid()}" in done.stderr
        assert re.fullmatch(pattern, done.stdout.splitlines()[2])
        assert engine.digest() == before


def test_how_far_it_is_is_shown(filled: Path) -> None:
    grow(rounds=40)
    with Terminal("snapshot", "backup", cwd=filled) as terminal:
        terminal.until("copying")
        terminal.until("checking")
        assert terminal.end() == 0
        assert "backup: " in terminal.plain()
        assert "records" not in terminal.plain()
    with Terminal("compact", cwd=filled) as terminal:
        terminal.until("compacting")
        assert terminal.end() == 0


# -- what can be wrong: one line and the right code

WRITING: dict[str, list[str]] = {
    "put": ["put", "users", '{"id": 5, "name": "Sue", "ts": 5}'],
    "delete": ["delete", "users", "1"],
    "post": ["post", '{"topic": "users", "ts": 5, "id": 5, "name": "Sue"}'],
    "load": ["load", "users", "users.jsonl"],
    "import": ["import", "users", "users.jsonl"],
    "run": ["run", "--from", "users=users.jsonl"],
    "compact": ["compact"],
    "repost": ["repost", "users", '{"id": 1, "name": "Sam"}'],
    "restate": ["restate", "users"],
    "check": ["check", "--fix"],
    "retry": ["quarantine", "retry"],
    "drop": ["quarantine", "drop", "--kind", "record"],
    "migrate": ["migrate"],
}
READING: dict[str, list[str]] = {"snapshot": ["snapshot", "copy"], "export": ["export", "users"]}


def one_line(result: Any) -> str:
    """Return the error of a command that failed, which must be one line."""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    return str(lines[0])


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """Return a store whose holder is stopped, and the holder's process id. No command can change this store."""
    folder = tmp_path_factory.mktemp("stopped")
    (folder / "app.py").write_text(APP)
    with process(_HOLDS, folder / STORE, folder / "app.py") as child:
        assert heard(child) == "stopped"
        yield folder / STORE, child.pid


@pytest.mark.parametrize("name", WRITING)
def test_a_holder_that_does_not_answer(name: str, stopped: tuple[Path, int], shop: Path, run: Run) -> None:
    store, holder = stopped
    (shop / "users.jsonl").write_text('{"id": 5, "name": "Sue", "ts": 5}\n')
    with mock.patch.object(open_writer, "PATIENCE", 0.2):
        said = one_line(run("--store", str(store), *WRITING[name], code=3))
    assert f"is held by process {holder} " in said
    assert "has not answered for 0.2 s; see whether it is stopped or hangs, end it, then run this again" in said


_HOLDS = """
import os, signal, threading
import penstock as ps
from penstock.cli.app_file import load
engine = ps.open(load(sys.argv[2]), sys.argv[1])
say("stopped")
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_stopped_holder_is_in_nobody_s_way_who_reads(filled: Path, run: Run) -> None:
    with process(_HOLDS, STORE, "app.py") as child:
        assert heard(child) == "stopped"
        run("snapshot", "copy")
        assert len(run("export", "users").stdout.splitlines()) == 3
        assert f"being written by process {child.pid} " in one_line(run("restore", "copy", "--force", code=3))


@pytest.mark.parametrize("name", [*WRITING, *READING])
def test_a_store_of_another_format(name: str, filled: Path, run: Run) -> None:
    (filled / "users.jsonl").write_text('{"id": 5, "name": "Sue", "ts": 5}\n')
    env = lmdb.open(STORE, max_dbs=64, map_size=1 << 30)
    with env.begin(write=True) as txn:
        meta = env.open_db(b"meta", txn=txn)
        catalog = msgspec.msgpack.decode(txn.get(b"catalog", db=meta)[:-4]) | {"format": 99}
        txn.put(b"catalog", seal(b"catalog", msgspec.msgpack.encode(catalog)), db=meta)
    env.close()
    said = one_line(run(*{**WRITING, **READING}[name], code=3))
    assert "has format 99 and this version of penstock reads format" in said
    assert "open it with the version of penstock that wrote it" in said


@pytest.mark.parametrize("name", [*WRITING, *READING])
def test_a_file_that_is_no_store(name: str, filled: Path, run: Run) -> None:
    (filled / "users.jsonl").write_text('{"id": 5, "name": "Sue", "ts": 5}\n')
    (filled / STORE / "data.mdb").write_bytes(b"?" * 8192)
    assert "has format unknown" in one_line(run(*{**WRITING, **READING}[name], code=3))


def test_a_damaged_copy(filled: Path, run: Run) -> None:
    run("snapshot", "backup")
    whole = (filled / "backup" / "data.mdb").read_bytes()
    (filled / "backup" / "data.mdb").write_bytes(whole[: len(whole) // 2])
    said = one_line(run("--store", "other", "restore", "backup", code=3))
    assert said.startswith("penstock: damaged row: ")
    at = whole.index(b'"name": "Sue"')
    (filled / "backup" / "data.mdb").write_bytes(whole[:at] + b"!" + whole[at + 1 :])
    assert "log:1, log entry 0" in one_line(run("--store", "other", "restore", "backup", code=3))


@pytest.mark.parametrize("command", [["snapshot", "copy"], ["--store", "other", "restore", "backup"]])
def test_a_full_disk(command: list[str], filled: Path, run: Run) -> None:
    before = set(threading.enumerate())
    run("snapshot", "backup")
    with mock.patch("os.statvfs", return_value=mock.Mock(f_bavail=1, f_frsize=4096)):
        said = one_line(run(*command, code=3))
    assert re.search(r"the copy takes \d+\.\d kB and 4\.1 kB are free on that disk; free some room", said)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with mock.patch("os.fsync", side_effect=full):
        assert "no space left on device; free some room, or use another disk" in one_line(run(*command, code=3))
    assert not (filled / "copy").exists()
    assert set(threading.enumerate()) <= before


_NOBODY = """
import os
from penstock.cli.commands import copies, load, records, repair
from penstock.cli.program import group
import penstock.engine, penstock.spout, penstock.cli.app_file, rich.console
if not os.geteuid():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
os.chdir(sys.argv.pop(1))
sys.path.insert(0, ".")
sys.stderr = sys.stdout
group.main(sys.argv[1:], prog_name="penstock")
"""


@pytest.mark.parametrize("name", ["put", "load", "check", "compact", "snapshot", "restore"])
def test_no_permission(name: str, filled: Path, run: Run) -> None:
    """A user may read the copy but not the store. If the test runs as root, it becomes another user."""
    run("snapshot", "backup")
    (filled / "users.jsonl").write_text('{"id": 5, "name": "Sue", "ts": 5}\n')
    commands = {**WRITING, "snapshot": ["snapshot", "copy"], "restore": ["restore", "backup", "--force"]}
    with tempfile.TemporaryDirectory() as where:  # one that others can reach
        place = Path(where) / "filled"
        shutil.copytree(filled, place)
        os.chmod(place / "backup" / "data.mdb", 0o644)
        for folder in (where, place, place / "backup"):
            os.chmod(folder, 0o555)
        with process(_NOBODY, place, *commands[name]) as child:
            said = heard(child)
            assert child.wait(PATIENCE) == 3, said
        for folder in (where, place, place / "backup"):
            os.chmod(folder, 0o755)
    assert re.match("penstock: .*[pP]ermission", said), said
    assert ";" in said


def test_ctrl_c_leaves_nothing(filled: Path) -> None:
    grow(rounds=40)
    with Terminal("snapshot", "backup", cwd=filled) as terminal:
        terminal.until("copying")
        terminal.interrupt()
        code = terminal.end()
    assert (code, (filled / "backup").exists()) in [(130, False), (0, True)]
    assert not (filled / "backup.partial").exists()
