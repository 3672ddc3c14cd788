"""Refuse a store of a newer format with the next step, and leave it untouched.

A version that knows the format reads all.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import penstock as ps
from penstock.cache import META, open_lmdb, seal, unseal
from tests.core.crash import crash_writer as writer
from tests.faults import shop

BATCHES, SIZE = 3, 10
CATALOG = b"catalog"
LMDB_VERSION = 20  # the place of LMDB's version in a meta page, after the page's header and the magic number


@pytest.fixture
def filled(store_path: Path) -> Path:
    with shop.opened(store_path) as engine:
        for _ in writer.write(engine, 0, BATCHES, SIZE):
            pass
    return store_path


def change_catalog(path: Path, change: Callable[[Any], Any]) -> bytes:
    """Replace the catalog, under a right checksum. Return the former row."""
    store = open_lmdb(path)
    with store.write() as txn:
        [row] = txn.get_many(META, [CATALOG])
        assert row is not None
        catalog = change(msgspec.msgpack.decode(unseal(CATALOG, row, META)))
        txn.put_many(META, [(CATALOG, seal(CATALOG, msgspec.msgpack.encode(catalog)))])
    store.close()
    return row


@pytest.mark.parametrize(
    "change",
    [
        lambda catalog: {**catalog, "format": 3},
        lambda catalog: {"format": 3, "views": []},
        lambda catalog: {**catalog, "format": "3.1"},
        lambda catalog: [3, catalog],
    ],
    ids=["larger", "other", "text", "no map"],
)
def test_a_newer_format_is_refused_and_not_touched(filled: Path, change: Callable[[Any], Any]) -> None:
    was = change_catalog(filled, change)
    before = (filled / "data.mdb").read_bytes()
    for readonly in (False, True):
        with pytest.raises(ps.StoreFormat, match="this version of penstock reads format 2") as refused:
            ps.open(shop.WORLD.app(), filled, readonly=readonly)
        assert str(refused.value).startswith(f"the store at {filled} has format")
        assert "; open it with the version of penstock that wrote it, or fill a new path" in str(refused.value)
    assert (filled / "data.mdb").read_bytes() == before
    store = open_lmdb(filled)
    with store.write() as txn:
        txn.put_many(META, [(CATALOG, was)])
    store.close()
    assert shop.check_batches(filled, BATCHES, BATCHES + 1, SIZE) == BATCHES


def test_a_store_of_format_1_is_read_and_raised_at_its_first_opening_for_writing(filled: Path) -> None:
    change_catalog(filled, lambda catalog: {**catalog, "format": 1})
    ps.open(shop.WORLD.app(), filled, readonly=True).close()
    assert format_of(filled) == 1
    assert shop.check_batches(filled, BATCHES, BATCHES + 1, SIZE) == BATCHES
    ps.open(shop.WORLD.app(), filled).close()
    assert format_of(filled) == 2


def format_of(path: Path) -> int:
    """Return the format that the catalog of a store names."""
    store = open_lmdb(path, readonly=True)
    with store.read() as txn:
        [row] = txn.get_many(META, [CATALOG])
    store.close()
    assert row is not None
    return int(msgspec.msgpack.decode(unseal(CATALOG, row, META))["format"])


def test_a_newer_lmdb_is_refused_and_not_touched(filled: Path) -> None:
    was = (filled / "data.mdb").read_bytes()
    newer = bytearray(was)
    for page in (0, 4096):
        assert newer[page + LMDB_VERSION] == 1, "the version of the data is elsewhere"
        newer[page + LMDB_VERSION] = 2
    (filled / "data.mdb").write_bytes(newer)
    for readonly in (False, True):
        with pytest.raises(ps.StoreFormat, match=r"LMDB 0\.9"):
            ps.open(shop.WORLD.app(), filled, readonly=readonly)
    assert (filled / "data.mdb").read_bytes() == newer
    (filled / "data.mdb").write_bytes(was)
    assert shop.check_batches(filled, BATCHES, BATCHES + 1, SIZE) == BATCHES


def test_a_newer_layout_of_partitions_is_refused_with_its_number(tmp_path: Path) -> None:
    with ps.open(shop.WORLD.app(), tmp_path / "s", partitions=2, processes=False):
        pass
    (tmp_path / "s" / "partitions").write_text('{"format": 3, "folders": []}')
    with pytest.raises(ps.StoreFormat, match="has format 3 and this version of penstock reads format 2"):
        ps.open(shop.WORLD.app(), tmp_path / "s")
