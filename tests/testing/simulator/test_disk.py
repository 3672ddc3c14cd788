"""The fault model of the simulated store, sentence by sentence."""

from random import Random

import pytest

from penstock.cache import Closed, StoreFull
from penstock.testing.simulator.disk import Disk
from penstock.testing.simulator.faults import Crash, Fault, Interrupted, Points, Strike


def rows(disk: Disk) -> dict[bytes, bytes]:
    with disk.open().read() as snap:
        return dict(snap.scan("rows"))


def commit(disk: Disk, key: bytes, strike: Strike | None = None) -> None:
    """Commit a transaction of two calls, with this fault armed."""
    store = disk.open()
    disk.points.arm(strike)
    try:
        with store.write() as txn:
            txn.put_many("rows", [(key, b"1")])
            txn.put_many("rows", [(key + b"'", b"2")])
    finally:
        disk.points.arm(None)


@pytest.mark.parametrize("fault", Fault)
def test_a_transaction_is_whole_or_absent(fault: Fault) -> None:
    places = Points()
    places.names = []
    commit(Disk(places), b"k")
    assert places.names == ["begin", "put rows", "put rows", "commit before", "commit after"]
    for nth in range(1, 6):
        disk = Disk(Points())
        after = nth == 5
        if fault is Fault.FAIL and after:
            continue  # the disk cannot be full after the commit
        with pytest.raises((Crash, Interrupted, StoreFull)):
            commit(disk, b"k", Strike(fault, nth))
        assert rows(disk) == ({b"k": b"1", b"k'": b"2"} if after else {})


def test_a_commit_that_returned_is_durable() -> None:
    disk = Disk(Points())
    commit(disk, b"k")
    disk.lose_power(Random(0))
    assert set(rows(disk)) == {b"k", b"k'"}


def test_without_syncing_any_of_the_last_commits_may_go() -> None:
    seen = set()
    for seed in range(60):
        disk = Disk(Points(), synced=False)
        commit(disk, b"a")
        disk.sync()
        for key in (b"b", b"c", b"d"):
            commit(disk, key)
        disk.lose_power(Random(seed))
        left = frozenset(rows(disk))
        assert all((key + b"'" in left) == (key in left) for key in (b"a", b"b", b"c", b"d")), "torn"
        seen.add(left & {b"a", b"b", b"c", b"d"})
    assert seen == {
        frozenset({b"a", *some}) for some in ((), (b"b",), (b"c",), (b"d",), (b"b", b"c"), (b"b", b"d"))
    } | {
        frozenset({b"a", b"c", b"d"}),
        frozenset({b"a", b"b", b"c", b"d"}),
    }


def test_a_crash_of_the_process_leaves_what_the_system_has() -> None:
    disk = Disk(Points(), synced=False)
    commit(disk, b"k")
    disk.end_process()
    assert set(rows(disk)) == {b"k", b"k'"}


def test_nothing_writes_from_the_grave() -> None:
    disk = Disk(Points())
    store = disk.open()
    txn = store.write()
    txn.put_many("rows", [(b"k", b"1")])
    disk.end_process()
    for call in (store.read, store.write, store.info, store.trim):
        with pytest.raises(Closed):
            call()
    with pytest.raises(Closed):
        txn.__exit__(None, None, None)
    assert rows(disk) == {}


def test_rows_with_a_name_have_places_of_their_own() -> None:
    disk = Disk(Points())
    disk.name_rows({("rows", b"k"): "red_joe"})
    disk.points.names = []
    with disk.open().write() as txn:
        txn.put_many("rows", [(b"j", b"1"), (b"k", b"1")])
        txn.delete_many("rows", [b"k"])
        txn.clear("others")
    assert disk.points.names == [
        "begin",
        "put rows",
        "red_joe before",
        "red_joe at",
        "red_joe before",
        "red_joe at",
        "clear others",
        "commit before",
        "commit after",
        "red_joe after",
        "red_joe after",
    ]
    assert rows(disk) == {b"j": b"1"}
