"""Changelogs give back what was written. A damaged one, or one of another place, is refused as a whole."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from penstock.cache.store.changelog import ChangelogDamaged, ChangelogHead, encode_changelog, read_changelog
from penstock.cache.store.memory_store import MemoryStore
from penstock.cache.store.row_changes import RowChanges, apply_changes

HEAD = ChangelogHead("shop", 1, 7, "parent", "own")
CHANGES = [
    RowChanges("log:1", False, [], [(b"%04d" % i, bytes(i)) for i in range(5000)]),
    RowChanges("rows:2", True, [], [(b"Oslo", b"3")]),
    RowChanges("rows:3", False, [b"Bern", b"Rome"], []),
    RowChanges("rows:4", True, [], []),
]


def written(changes: list[RowChanges]) -> bytes:
    return b"".join(encode_changelog(HEAD, changes))


def test_a_changelog_gives_back_its_changes() -> None:
    found = list(read_changelog("own", written(CHANGES), HEAD))
    assert len(found) > len(CHANGES), "many rows are in several frames"
    stores = MemoryStore(), MemoryStore()
    for store, changes in zip(stores, (CHANGES, found), strict=True):
        with store.write() as txn:
            for db in ("rows:2", "rows:3", "rows:4"):
                txn.put_many(db, [(b"Bern", b"1"), (b"Nice", b"2")])
        with store.write() as txn:
            apply_changes(txn, changes)
    with stores[0].read() as one, stores[1].read() as other:
        for db in ("log:1", "rows:2", "rows:3", "rows:4"):
            assert list(one.scan(db)) == list(other.scan(db))


def test_a_changelog_without_changes_is_one() -> None:
    assert list(read_changelog("own", written([]), HEAD)) == []


@pytest.mark.parametrize("seed", range(40))
def test_damage_is_refused_before_a_row_is_read(seed: int) -> None:
    draw, data = Random(seed), bytearray(written(CHANGES[1:]))
    at = draw.randrange(len(data))
    if seed % 2:
        data[at] ^= 1 << draw.randrange(8)
    else:
        del data[at:]
    with pytest.raises(ChangelogDamaged):
        read_changelog("own", bytes(data), HEAD)


@pytest.mark.parametrize("other", [{"state": "x"}, {"partition": 2}, {"batch": 8}, {"parent": "x"}, {"id": "x"}])
def test_one_of_another_place_is_refused(other: dict[str, object]) -> None:
    with pytest.raises(ChangelogDamaged, match=r"another changelog|manifest names"):
        read_changelog("own", written(CHANGES), msgspec.structs.replace(HEAD, **other))


@pytest.mark.parametrize("data", [b"", b"penstock changelog 1\n", b"another file"])
def test_another_file_is_refused(data: bytes) -> None:
    with pytest.raises(ChangelogDamaged):
        read_changelog("own", data, HEAD)


def test_bytes_after_its_end_are_refused() -> None:
    with pytest.raises(ChangelogDamaged, match="after its end"):
        read_changelog("own", written([]) + b"x", HEAD)
