"""Share a store on disk within a process, read it from other processes, and refuse invalid uses with a message."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb
import pytest

from penstock.cache.errors import (
    Closed,
    PenstockError,
    ReadOnly,
    StoreDamaged,
    StoreFormat,
    StoreFull,
    StoreMissing,
)
from penstock.cache.lmdb.lmdb_environment import Environment, Opening
from penstock.cache.lmdb.lmdb_errors import translated
from penstock.cache.lmdb.lmdb_store import LmdbStore, open_lmdb
from penstock.cache.store.protocol import Store
from tests.cache.processes import heard, in_fork, process, send_line


@pytest.fixture
def store(store_path: Path) -> Iterator[LmdbStore]:
    """An open store with one row."""
    opened = open_lmdb(store_path)
    put(opened, "rows", Joe=b"1")
    yield opened
    opened.close()


def put(store: Store, db: str, **rows: bytes) -> None:
    with store.write() as txn:
        txn.put_many(db, [(key.encode(), value) for key, value in rows.items()])


def put_each(store: Store, dbs: list[str]) -> None:
    with store.write() as txn:
        for db in dbs:
            txn.put_many(db, [(b"k", b"w")])


def rows(store: Store, db: str) -> dict[bytes, bytes]:
    with store.read() as snap:
        return dict(snap.scan(db))


def in_thread(act: Callable[[], object]) -> object:
    """Run a call in another thread, and return its result or its error."""
    got: list[object] = []

    def run() -> None:
        try:
            got.append(act())
        except Exception as error:
            got.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return got[0]


def test_a_process_shares_one_environment(store: LmdbStore, store_path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store_path)
    reader = open_lmdb(tmp_path / "link", readonly=True)
    put(store, "more", Sue=b"2")
    assert rows(reader, "more") == {b"Sue": b"2"}
    with pytest.raises(ReadOnly, match=str(store_path)):
        reader.write()
    store.close()
    assert rows(reader, "rows") == {b"Joe": b"1"}
    reader.close()
    reader.close()
    with pytest.raises(Closed, match=str(store_path)):
        reader.read()


def test_a_store_that_is_read_here_can_be_opened_to_write(store: LmdbStore, store_path: Path) -> None:
    store.close()
    reader = open_lmdb(store_path, readonly=True)
    with reader.read(), pytest.raises(PenstockError, match="this thread has a snapshot open; close it first"):
        open_lmdb(store_path)
    assert rows(reader, "rows") == {b"Joe": b"1"}
    writer = open_lmdb(store_path)
    put(writer, "rows", Joe=b"2")
    assert rows(reader, "rows") == {b"Joe": b"2"}
    reader.close()
    writer.close()


def test_a_database_made_after_another_process_opened_to_read(store: LmdbStore, store_path: Path) -> None:
    code = """
from penstock.cache.lmdb.lmdb_store import open_lmdb
store = open_lmdb(sys.argv[1], readonly=True)
held = store.read()
say(held.count("late"))
while wait():
    with store.read() as snap: say([held.count("late"), held.get_many("late", [b"k"]), snap.get_many("late", [b"k"])])
"""
    with process(code, store_path) as other:
        assert heard(other) == "0"
        for value in (b"1", b"2"):
            put(store, "late", k=value)
            put(store, f"other{value.decode()}", k=b"x")
            send_line(other)
            assert heard(other) == f"[0, [None], [{value!r}]]"
        with store.write() as txn:
            txn.clear("late")
        send_line(other)
        assert heard(other) == "[0, [None], [None]]"


def test_another_process_reads_a_snapshot_while_rows_change(store: LmdbStore, store_path: Path) -> None:
    code = """
from penstock.cache.lmdb.lmdb_store import open_lmdb
store = open_lmdb(sys.argv[1], readonly=True)
with store.read() as snap:
    while wait(): say(dict(snap.scan("rows")))
"""
    with process(code, store_path) as other:
        send_line(other)
        assert heard(other) == "{b'Joe': b'1'}"
        for n in range(50):
            put(store, "rows", Joe=b"%d" % n, **{f"k{n}": b"x" * 3000})
        send_line(other)
        assert heard(other) == "{b'Joe': b'1'}"


def test_a_dead_reader_pins_no_pages_once_the_store_is_opened_again(store: LmdbStore, store_path: Path) -> None:
    code = """
from penstock.cache.lmdb.lmdb_store import open_lmdb
snap = open_lmdb(sys.argv[1], readonly=True).read(); say("open"); wait()
"""
    with process(code, store_path) as other:
        assert heard(other) == "open"
        other.kill()
        other.wait()
        store.close()
        again = open_lmdb(store_path)
        for n in range(300):
            put(again, "rows", Joe=b"%d" % n * 1000)
        assert again.info()["bytes"] < 1 << 18
        again.close()


def test_empty_databases_lose_their_names_when_names_run_short(store: LmdbStore, store_path: Path) -> None:
    with store.write() as txn:
        for n in range(600):
            txn.put_many(f"view{n}", [(b"k", b"v")])
    with store.write() as txn:
        for n in range(590):
            txn.clear(f"view{n}")
    store.close()
    again = open_lmdb(store_path)
    with again.write() as txn:
        for n in range(900):
            txn.put_many(f"next{n}", [(b"k", b"w")])
        assert txn.get_many("view599", [b"k"]) == [b"v"]
        assert txn.get_many("view1", [b"k"]) == [None]
        txn.put_many("view1", [(b"k", b"again")])
    assert rows(again, "view1") == {b"k": b"again"}
    with pytest.raises(PenstockError, match="1024 databases; drop views"):
        put_each(again, [f"many{n}" for n in range(200)])
    assert rows(again, "next899") == {b"k": b"w"}
    again.close()


def test_a_database_made_in_a_transaction_that_is_undone_can_be_made_again(store: LmdbStore) -> None:
    txn = store.write()
    txn.put_many("made", [(b"k", b"1")])
    assert txn.count("made") == 1
    txn.close()
    assert rows(store, "made") == {}
    put(store, "another", k=b"2")
    put(store, "made", k=b"3")
    assert (rows(store, "made"), rows(store, "another")) == ({b"k": b"3"}, {b"k": b"2"})


def test_a_transaction_is_one_at_a_time_and_of_one_thread(store: LmdbStore) -> None:
    with store.write() as txn:
        with pytest.raises(PenstockError, match="open in this thread"):
            store.write()
        wrong = in_thread(lambda: txn.count("rows"))
        assert isinstance(wrong, PenstockError)
        assert "the thread that began it" in str(wrong)
        waiting = threading.Thread(target=lambda: put(store, "rows", Sue=b"2"))
        waiting.start()
        txn.put_many("rows", [(b"Joe", b"3")])
    waiting.join()
    assert rows(store, "rows") == {b"Joe": b"3", b"Sue": b"2"}


def test_threads_read_one_snapshot_without_mixing_rows_up(store: LmdbStore) -> None:
    with store.write() as txn:
        txn.put_many("rows", [(b"%05d" % n, b"%05d" % n) for n in range(2000)])
    with store.read() as snap:

        def wrong(first: int) -> int:
            keys = [b"%05d" % n for n in range(first, 2000, 7)]
            return sum(snap.get_many("rows", keys) != keys for _ in range(30))

        counts: list[int] = []
        threads = [threading.Thread(target=lambda first=n: counts.append(wrong(first))) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counts == [0, 0, 0, 0]


def test_after_close_every_use_is_refused(store: LmdbStore) -> None:
    with store.read() as snap:
        scan = snap.scan("rows")
        next(scan)
    with pytest.raises(Closed, match="the snapshot is closed"):
        snap.get_many("rows", [b"Joe"])
    with pytest.raises(Closed, match="the snapshot is closed"):
        next(scan)
    with store.write() as txn:
        scan = txn.scan("rows")
        next(scan)
    with pytest.raises(Closed, match="the transaction is closed"):
        txn.put_many("rows", [(b"a", b"")])
    with pytest.raises(Closed, match="the transaction is closed"):
        next(scan)
    snap = store.read()
    store.close()
    with pytest.raises(Closed, match="the store at"):
        snap.count("rows")
    snap.close()


def test_a_forked_child_is_refused_and_harms_nothing(store: LmdbStore, store_path: Path) -> None:
    with store.read() as snap:
        words = f"ForkedStore: the store at {store_path} was opened by process {os.getpid()}"
        acts: list[Callable[[], object]] = [
            store.read,
            store.write,
            store.info,
            lambda: snap.get_many("rows", [b"Joe"]),
            lambda: snap.count("rows"),
        ]
        for act in acts:
            assert in_fork(act).startswith(words)
        assert "close them before forking" in in_fork(lambda: open_lmdb(store_path))
        assert in_fork(lambda: (snap.close(), store.close())) == "(None, None)"
        for n in range(100):
            put(store, "rows", Joe=b"%d" % n * 500)
        assert snap.get_many("rows", [b"Joe"]) == [b"1"]


def test_a_forked_child_can_open_the_store_itself(store: LmdbStore, store_path: Path) -> None:
    assert in_fork(lambda: rows(open_lmdb(store_path), "rows")) == "{b'Joe': b'1'}"
    assert in_fork(lambda: put(open_lmdb(store_path), "rows", Sue=b"2")) == "None"
    assert rows(store, "rows") == {b"Joe": b"1", b"Sue": b"2"}


def test_the_end_of_a_forked_child_does_not_affect_its_parent(store: LmdbStore, store_path: Path) -> None:
    code = """
import os, threading
from penstock.cache.lmdb.lmdb_store import open_lmdb
store = open_lmdb(sys.argv[1]); begun, end = threading.Event(), threading.Event()
def put(*items):
    with store.write() as txn:
        txn.put_many("rows", items)
        if not begun.is_set(): begun.set(); end.wait()
snap = store.read(); snap.count("rows")
thread = threading.Thread(target=put, args=[(b"Sue", b"2")]); thread.start(); begun.wait()
pid = os.fork()
if pid == 0:
    sys.exit(7)
say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
end.set(); thread.join()
for n in range(100): put((b"Joe", b"%d" % n * 500))
say(dict(snap.scan("rows"))); snap.close()
with store.read() as snap: say(snap.get_many("rows", [b"Sue"]))
"""
    store.close()
    with process(code, store_path) as other:
        assert heard(other) == "7"
        assert heard(other) == "{b'Joe': b'1'}"
        assert heard(other) == "[b'2']"


def test_a_missing_store_is_reported_and_not_created(store_path: Path) -> None:
    with pytest.raises(StoreMissing, match=str(store_path)):
        open_lmdb(store_path, readonly=True)
    assert not store_path.exists()
    store_path.mkdir()
    with pytest.raises(StoreMissing):
        open_lmdb(store_path, readonly=True)
    assert list(store_path.iterdir()) == []


def test_a_file_that_is_no_store_is_refused(store_path: Path, tmp_path: Path) -> None:
    store_path.mkdir()
    (store_path / "data.mdb").write_bytes(b"not a store" * 1000)
    with pytest.raises(StoreFormat, match="not an LMDB file"):
        open_lmdb(store_path)
    (tmp_path / "file").write_text("")
    for readonly in (False, True):
        with pytest.raises(PenstockError, match="is not a folder"):
            open_lmdb(tmp_path / "file", readonly=readonly)


def test_an_environment_with_rows_outside_databases_is_refused(store_path: Path) -> None:
    with lmdb.open(str(store_path)) as env, env.begin(write=True) as txn:
        txn.put(b"row", b"value")
    with pytest.raises(StoreFormat, match="named databases"):
        open_lmdb(store_path)
    with lmdb.open(str(store_path)) as env, env.begin() as txn:
        assert txn.get(b"row") == b"value"


def test_missing_permissions_are_reported(store: LmdbStore, store_path: Path) -> None:
    store.close()
    code = """
import os
from penstock.cache.errors import PenstockError
from penstock.cache.lmdb.lmdb_store import open_lmdb
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
for readonly in (False, True):
    try: say(open_lmdb(sys.argv[1], readonly=readonly))
    except PenstockError as error: say(error)
"""
    for path, mode in ((store_path.parent, 0o755), (store_path / "data.mdb", 0), (store_path / "lock.mdb", 0)):
        path.chmod(mode)
    with process(code, store_path) as other:
        for _ in range(2):
            assert heard(other).startswith(f"no permission for the store at {store_path}: Permission denied; this user")


def test_errors_of_lmdb_are_translated() -> None:
    assert isinstance(translated("state", lmdb.CorruptedError("mdb_get")), StoreDamaged)
    assert isinstance(translated("state", lmdb.MapFullError("mdb_put")), StoreFull)
    assert isinstance(translated("state", OSError(28, "no space")), StoreFull)
    assert "snapshots open; close some" in str(translated("state", lmdb.ReadersFullError("mdb_txn_begin")))
    assert "state failed: mdb_put" in str(translated("state", lmdb.PanicError("mdb_put")))


def test_info_and_trim(store: LmdbStore, store_path: Path) -> None:
    put(store, "rows", big=b"x" * (1 << 22))
    with store.read() as snap:
        snap.get_many("rows", [b"big"])
        mapped = resident(store_path)
        store.trim()
        assert resident(store_path) < mapped - (1 << 21)
        assert snap.get_many("rows", [b"big"]) == [b"x" * (1 << 22)]
    info = store.info()
    assert info["path"] == str(store_path)
    assert 1 << 22 < info["bytes"] < 1 << 23
    assert info["bytes"] >= (store_path / "data.mdb").stat().st_size
    assert info["map_size"] == 1 << 40
    assert info["readers"] == 1


def resident(path: Path) -> int:
    """Return the bytes of the store's map that are in this process's memory."""
    maps = Path("/proc/self/smaps").read_text().split(str(path / "data.mdb"))[1]
    return int(maps.split("Rss:")[1].split()[0]) * 1024


def test_an_interrupt_while_a_transaction_begins_leaves_no_lock(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_lmdb(store_path)
    enter = Environment.enter_write

    def interrupted(self: Environment, opening: Opening) -> None:
        enter(self, opening)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Environment, "enter_write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.write()
    put(store, "db", a=b"1")
    assert rows(store, "db") == {b"a": b"1"}
    store.close()
