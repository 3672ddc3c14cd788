"""Kill the writer of a store on disk: all committed rows are there, and no others."""

from __future__ import annotations

from pathlib import Path

from penstock.cache.lmdb.lmdb_store import LmdbStore, open_lmdb
from penstock.cache.store.protocol import Store
from tests.cache.processes import heard, process


def content(store: Store, db: str = "rows") -> dict[bytes, bytes]:
    with store.read() as snap:
        return dict(snap.scan(db))


def test_a_killed_writer_leaves_its_committed_rows(store_path: Path) -> None:
    code = """
from penstock.cache.lmdb.lmdb_store import open_lmdb
store = open_lmdb(sys.argv[1])
with store.write() as txn: txn.put_many("rows", [(b"a", b"1")])
with store.write() as txn:
    txn.put_many("rows", [(b"a", b"2")]); txn.put_many("made", [(b"%06d" % n, b"x" * 999) for n in range(9999)])
    say("in"); wait()
"""
    reader: LmdbStore | None = None
    for _ in range(3):
        with process(code, store_path) as writer:
            assert heard(writer) == "in"
            reader = reader or open_lmdb(store_path, readonly=True)
            assert content(reader) == {b"a": b"1"}
            writer.kill()
            writer.wait()
        assert content(reader) == {b"a": b"1"}
    assert reader is not None
    store = open_lmdb(store_path)
    with store.write() as txn:
        assert txn.count("made") == 0
        txn.put_many("made", [(b"b", b"3")])
    assert content(reader, "made") == {b"b": b"3"}
    reader.close()
    store.close()
