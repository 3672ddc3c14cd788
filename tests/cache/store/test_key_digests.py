"""Every transaction updates the digests of keys. They differ from the keys after a row was lost behind LMDB's back."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import lmdb
import msgspec
import pytest

from penstock.cache import META, MemoryStore, StoreDamaged, open_lmdb, scrub_pages
from penstock.cache.encoding.checksum import seal, unseal
from penstock.cache.lmdb.lmdb_store import LmdbStore
from penstock.cache.lmdb.lmdb_transaction import LmdbWriter
from penstock.cache.lmdb.page_scrub import Scrub
from penstock.cache.store.key_digests import DIGESTS, Digest, digest_of

ROW = b"row"


def scrubbed(store: LmdbStore) -> Scrub:
    scrub = scrub_pages(store.read)
    assert scrub is not None
    assert not scrub.found
    return scrub


def change(txn: LmdbWriter, rng: random.Random) -> None:
    """Put new, present and repeated keys in any order, delete present and absent ones, and more."""
    for db in rng.sample(("a", "b", META), 2):
        keys = [b"%d" % rng.randrange(60) for _ in range(rng.choice([1, 5, 30]))]
        match rng.randrange(5):
            case 0:
                txn.delete_many(db, keys)
            case 1 if db != META:
                txn.clear(db)
            case 2:
                txn.put_many(db, [(b"z%06d" % (txn.count(db) + n), ROW) for n in range(3)], append=txn.count(db) == 0)
            case _:
                txn.put_many(db, [(key, ROW) for key in keys])


@pytest.mark.parametrize("map_size", [1 << 40, 1 << 16])
def test_every_transaction_updates_the_digests(map_size: int, tmp_path: Path) -> None:
    """This includes transactions that are repeated in a larger map, and stores that are reopened."""
    rng = random.Random(map_size)
    for _ in range(4):
        store = open_lmdb(tmp_path, map_size=map_size)
        for _ in range(15):
            with store.write() as txn:
                txn.put_many(META, [(b"state", bytes(rng.randrange(3_000)))])
                change(txn, rng)
            scrub = scrubbed(store)
            assert (scrub.lost, scrub.uncounted) == ({}, {})
        txn = store.write()
        change(txn, rng)
        txn.close()
        assert scrubbed(store).lost == {}
        store.close()


def behind(path: Path, db: str, put: Mapping[bytes, bytes], delete: bytes | None = None) -> None:
    """Change rows by LMDB alone."""
    with lmdb.open(str(path), max_dbs=9) as env, env.begin(write=True, db=env.open_db(db.encode())) as txn:
        for key, row in put.items():
            txn.put(key, row)
        if delete is not None:
            txn.delete(delete)


def filled(path: Path) -> None:
    store = open_lmdb(path)
    with store.write() as txn:
        txn.put_many(META, [(b"state", ROW)])
        txn.put_many("a", [(b"%d" % n, ROW) for n in range(20)])
    store.close()


def test_a_lost_key_is_found_after_it_was_put_again(tmp_path: Path) -> None:
    filled(tmp_path)
    behind(tmp_path, "a", {b"?": ROW}, delete=b"7")  # the count stays the same
    store = open_lmdb(tmp_path)
    assert scrubbed(store).lost == {"a": digest_of([b"?"]).minus(digest_of([b"7"]))}
    with store.write() as txn:
        txn.put_many("a", [(b"7", ROW)])  # a later put does not hide the loss
    assert scrubbed(store).lost == {"a": digest_of([b"?"]).minus(digest_of([b"7"]))}
    with store.write() as txn:
        txn.complete(scrubbed(store).lost)
    assert scrubbed(store).lost == {}
    store.close()


def test_a_writer_that_knows_its_new_keys_notices_a_lost_one(tmp_path: Path) -> None:
    filled(tmp_path)
    behind(tmp_path, "a", {}, delete=b"7")
    store = open_lmdb(tmp_path)
    with pytest.raises(StoreDamaged, match="a, rows that were there are lost"), store.write() as txn:
        txn.put_many("a", [(b"%d" % n, ROW) for n in range(25)], new=[b"%d" % n for n in range(20, 25)])
    store.close()


def test_lost_rows_of_meta_and_lost_databases_are_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    whole = (tmp_path / "data.mdb").read_bytes()
    behind(tmp_path, META, {b"stbte": ROW}, delete=b"state")
    with pytest.raises(StoreDamaged, match="meta, it has other rows than were written"):
        open_lmdb(tmp_path)
    (tmp_path / "data.mdb").write_bytes(whole)
    with lmdb.open(str(tmp_path), max_dbs=9) as env, env.begin(write=True) as txn:
        txn.drop(env.open_db(b"a", txn=txn))
    with pytest.raises(StoreDamaged, match="a, the database is lost, and it had 20 rows"):
        open_lmdb(tmp_path, readonly=True)


def test_a_store_without_digests_gets_them_with_its_next_write(tmp_path: Path) -> None:
    filled(tmp_path)
    behind(tmp_path, META, {}, delete=DIGESTS)
    store = open_lmdb(tmp_path)
    assert scrubbed(store).uncounted == {}
    with store.write() as txn:
        txn.put_many("b", [(b"new", ROW)])
        txn.put_many(META, [(b"state", b"")])
    assert scrubbed(store).uncounted == {"a": digest_of([b"%d" % n for n in range(20)])}
    with store.write() as txn:
        txn.put_many("a", [(b"7", ROW), (b"77", ROW)])
    uncounted = scrubbed(store).uncounted
    with store.write() as txn:
        txn.delete_many("a", [b"3"])  # a write after the count does not affect it
        txn.complete(uncounted)
    scrub = scrubbed(store)
    assert (scrub.lost, scrub.uncounted) == ({}, {})
    store.close()


def test_a_write_without_a_new_key_adds_digests(tmp_path: Path) -> None:
    filled(tmp_path)
    behind(tmp_path, META, {}, delete=DIGESTS)
    store = open_lmdb(tmp_path)
    with store.write() as txn:
        txn.put_many(META, [(b"state", b"")])
        assert not txn.counted
    with store.write() as txn:
        assert txn.counted
    assert set(scrubbed(store).uncounted) == {"a"}
    store.close()


def test_the_map_of_an_earlier_version_is_read_and_replaced(tmp_path: Path) -> None:
    filled(tmp_path)
    former = {META: digest_of([DIGESTS, b"state"]), "a": digest_of([b"%d" % n for n in range(20)])}
    behind(tmp_path, META, {DIGESTS: seal(DIGESTS, msgspec.msgpack.encode(former))})
    behind(tmp_path, "a", {}, delete=b"7")
    store = open_lmdb(tmp_path)
    lost = {"a": Digest().minus(digest_of([b"7"]))}
    assert scrubbed(store).lost == lost
    with store.write() as txn:
        txn.put_many("a", [(b"new", ROW)])
    for _ in range(2):
        assert scrubbed(store).lost == lost
        with store.read() as snap:
            [row] = snap.get_many(META, [DIGESTS])
        assert row is not None
        assert msgspec.msgpack.decode(unseal(DIGESTS, row, META))[0] == [META, "a"]
        store.close()
        store = open_lmdb(tmp_path)
    store.close()


def test_a_transaction_changes_only_its_own_digests(tmp_path: Path) -> None:
    filled(tmp_path)
    store = open_lmdb(tmp_path)
    rows: list[bytes] = []
    for db, key in (("b", b"1"), ("b", b"2"), ("a", b"new"), ("a", b"new"), (META, b"state")):
        with store.write() as txn:
            txn.put_many(db, [(key, ROW)])
        with store.read() as snap:
            [row] = snap.get_many(META, [DIGESTS])
        assert row is not None
        rows.append(unseal(DIGESTS, row, META))
    first, second, third, fourth, fifth = rows
    assert first[:-17] == second[:-17] != first
    assert second[-17:] == third[-17:]
    assert second[:-34] == third[:-34]
    assert third == fourth == fifth
    store.close()


def test_stores_without_metadata_have_no_digests(tmp_path: Path) -> None:
    store = open_lmdb(tmp_path)
    with store.write() as txn:
        txn.put_many("a", [(b"Joe", ROW)])
    with store.read() as snap:
        assert snap.names() == ["a"]
    store.close()
    assert scrub_pages(MemoryStore().read) is None


def test_a_digest_depends_on_each_bit_of_each_key() -> None:
    whole = digest_of([b"Joe", b"Sue"])
    assert digest_of([]) == Digest() == whole.minus(whole)
    for bit in range(24):
        turned = bytearray(b"Joe")
        turned[bit // 8] ^= 1 << bit % 8
        assert not digest_of([bytes(turned), b"Sue"]).like(whole)
