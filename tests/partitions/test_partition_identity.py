"""The file of each partition names its store and number, so an opening refuses any other file in its place."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import penstock as ps
from penstock.cache import PenstockError, encode_key, open_lmdb
from penstock.core.metadata.catalog import PartitionIdentity, read_catalog, write_catalog
from penstock.core.metadata.store_layout import read_layout
from penstock.engine import ForeignPartition, copy_any, partitioned_opening, repartition, restore_any
from penstock.partitions.partition_catalogs import catalogs_of

DOCS = [{"id": i, "g": f"g{i % 7}", "v": i} for i in range(60)]


def shop() -> ps.App:
    app = ps.App("shop")
    app.table("users", key="id").view("total", key="g", value="v", reduce=ps.sum())
    return app


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make two stores of two partitions, each with two folders."""
    folder = tmp_path_factory.mktemp("stores")
    for name in ("mine", "other"):
        with ps.open(shop(), folder / name, partitions=2, processes=False) as engine:
            engine.put_many("users", DOCS)
            engine.settle()
    return folder


@pytest.fixture
def mine(stores: Path, tmp_path: Path) -> Path:
    shutil.copytree(stores, tmp_path, dirs_exist_ok=True)
    return tmp_path / "mine"


def of_another_store(mine: Path) -> str:
    shutil.copy(mine.parent / "other" / "0-1" / "data.mdb", mine / "0-1" / "data.mdb")
    return r"0-1: its data\.mdb is of another store; put the file of this partition back"


def in_two_folders(mine: Path) -> str:
    shutil.copy(mine / "0-0" / "data.mdb", mine / "0-1" / "data.mdb")
    return r"0-1: its data\.mdb is of partition 0, and this is partition 1; "


def swapped(mine: Path) -> str:
    (mine / "0-0").rename(mine / "x")
    (mine / "0-1").rename(mine / "0-0")
    (mine / "x").rename(mine / "0-1")
    return r"0-0: its data\.mdb is of partition 1, and this is partition 0; "


def of_before(mine: Path) -> str:
    former = mine.parent / "former"
    shutil.copytree(mine, former)
    repartition(mine, 3)
    shutil.copy(former / "0-0" / "data.mdb", mine / "1-0" / "data.mdb")
    return r"1-0: its data\.mdb is of partition 0 of this store before a repartition; "


def missing(mine: Path) -> str:
    (mine / "0-1" / "data.mdb").unlink()
    return r"0-1: its data\.mdb is missing or empty; "


def in_two_folders_without_identity(mine: Path) -> str:
    without_identity(mine)
    shutil.copy(mine / "0-0" / "data.mdb", mine / "0-1" / "data.mdb")
    return r"0-1: its data\.mdb is of another partition than 1; "


def without_identity(mine: Path) -> None:
    """Write catalogs as an earlier version did."""
    for folder in ("0-0", "0-1"):
        store = open_lmdb(mine / folder)
        with store.write() as writer:
            catalog = read_catalog(writer, folder)
            assert catalog is not None
            write_catalog(writer, replace(catalog, partition=None))
        store.close()


def identities(path: Path) -> list[PartitionIdentity | None]:
    out: list[PartitionIdentity | None] = []
    for folder in sorted(path.glob("*-*")):
        store = open_lmdb(folder, readonly=True)
        with store.read() as reader:
            catalog = read_catalog(reader, str(folder))
            assert catalog is not None
            out.append(catalog.partition)
        store.close()
    return out


WRONG = [of_another_store, in_two_folders, swapped, of_before, missing, in_two_folders_without_identity]
WAYS: dict[str, Callable[[Path], Any]] = {
    "in one process": lambda path: ps.open(shop(), path, processes=False).close(),
    "to read": lambda path: ps.open(shop(), path, readonly=True).close(),
    "repartition": lambda path: repartition(path, 1),
    "copy": lambda path: copy_any(str(path), str(path.parent / "copy")),
    "restore": lambda path: restore_any(str(path), str(path.parent / "restored")),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wrong", WRONG)
def test_the_file_of_another_partition_is_refused(wrong: Callable[[Path], str], way: str, mine: Path) -> None:
    words = wrong(mine)
    if wrong is missing and way == "to read":
        with pytest.raises(ps.StoreMissing, match="0-1"):
            WAYS[way](mine)
        return
    with pytest.raises(ForeignPartition, match=words):
        WAYS[way](mine)


def test_the_process_of_a_partition_refuses_it_too(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = read_layout(str(mine))
    assert layout is not None
    known = catalogs_of(layout.folders(str(mine)), layout.ranges())
    words = in_two_folders(mine)
    monkeypatch.setattr(partitioned_opening, "catalogs_of", lambda *_: known)
    with pytest.raises(ForeignPartition, match=words):
        ps.open(shop(), mine)


def test_a_store_of_an_earlier_version_opens_and_gets_its_identity(mine: Path) -> None:
    half = 1 << 63
    wanted = [PartitionIdentity(0, 0, half - 1), PartitionIdentity(1, half, 2 * half - 1)]
    assert identities(mine) == wanted
    without_identity(mine)
    assert identities(mine) == [None, None]
    with ps.open(shop(), mine, readonly=True) as engine, engine.snapshot() as snap:
        assert sum(row.value for row in snap.view("total").items()) == sum(range(60))
    assert identities(mine) == [None, None]
    with ps.open(shop(), mine, processes=False):
        pass
    assert identities(mine) == wanted


def test_a_repartition_gives_new_identities(mine: Path) -> None:
    repartition(mine, 3)
    found = identities(mine)
    assert [own.number for own in found if own is not None] == [0, 1, 2]
    assert [own.first for own in found[1:] if own is not None] == [
        own.last + 1 for own in found[:-1] if own is not None
    ]
    repartition(mine, 1)
    with ps.open(shop(), mine) as engine, engine.snapshot() as snap:
        assert sum(row.value for row in snap.view("total").items()) == sum(range(60))


@pytest.mark.parametrize(
    "way",
    [
        lambda path: ps.open(shop(), path),
        lambda path: ps.open(shop(), path, readonly=True),
        lambda path: repartition(path, 2),
        lambda path: copy_any(str(path), str(path) + ".copy"),
    ],
)
def test_one_partition_is_no_store(way: Callable[[Path], Any], mine: Path) -> None:
    with pytest.raises(PenstockError, match="0-1 is partition 1 of a store of several partitions; open the folder of"):
        way(mine / "0-1")


def test_a_store_that_was_killed_while_it_was_made_opens(mine: Path) -> None:
    fresh = mine.parent / "fresh"
    with ps.open(shop(), fresh, partitions=2, processes=False):
        pass
    (fresh / "0-1" / "data.mdb").unlink()
    with ps.open(shop(), fresh, processes=False) as engine:
        engine.put_many("users", DOCS)
    assert None not in identities(fresh)


def crossing(engine: Any, begin: int) -> None:
    """Put documents whose groups other partitions own, in both directions."""
    engine.put_many("users", [{"id": i, "g": f"g{i}", "v": 1} for i in range(begin, begin + 40)])
    engine.settle()


OPEN: list[Callable[[Path], Any]] = [
    lambda path: ps.open(shop(), path, processes=False).close(),
    lambda path: ps.open(shop(), path).close(),
    lambda path: copy_any(str(path), str(path.parent / "copy")),
    lambda path: repartition(path, 1),
]


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("way", OPEN, ids=["open", "processes", "copy", "repartition"])
def test_an_older_copy_of_one_partition_is_refused(way: Callable[[Path], Any], number: int, mine: Path) -> None:
    folder = mine / f"0-{number}"
    shutil.copytree(folder, mine.parent / "older")
    with ps.open(shop(), mine, processes=False) as engine:
        crossing(engine, 1_000)
    shutil.copytree(folder, mine.parent / "newer")
    shutil.rmtree(folder)
    shutil.copytree(mine.parent / "older", folder)
    with pytest.raises(ForeignPartition, match=rf"0-{number}: its data\.mdb is an older copy: it has .* productions"):
        way(mine)
    shutil.rmtree(folder)
    shutil.copytree(mine.parent / "newer", folder)
    with ps.open(shop(), mine, processes=False) as engine, engine.snapshot() as snap:
        assert snap.view("total")["g1039"] == 1


def test_an_older_copy_of_a_receiver_alone_is_refused(mine: Path) -> None:
    """Documents of partition 0 have groups of partition 1 only: partition 1 saved nothing."""
    with ps.open(shop(), mine, processes=False) as engine:
        layout = read_layout(str(mine))
        assert layout is not None
        ranges = layout.ranges()
        keys = [i for i in range(2_000, 4_000) if ranges.of(encode_key(i)) == 0][:40]
        groups = [f"h{i}" for i in range(400) if ranges.of(encode_key(f"h{i}")) == 1][:40]
        shutil.copytree(mine / "0-1", mine.parent / "older")
        for _ in range(2):  # the second batch deletes the productions of the first one
            engine.put_many("users", [{"id": i, "g": g, "v": 1} for i, g in zip(keys, groups, strict=True)])
            engine.settle()
            groups = groups[::-1]
    shutil.rmtree(mine / "0-1")
    shutil.copytree(mine.parent / "older", mine / "0-1")
    with pytest.raises(ForeignPartition, match=r"0-1: its data\.mdb is an older copy: it has applied \d+ productions"):
        ps.open(shop(), mine, processes=False)
