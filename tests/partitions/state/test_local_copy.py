"""A local copy is brought to any state version, or made again. It never trusts a copy of another place."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from penstock.cache import TurnStore, open_lmdb, seal
from penstock.partitions.state.local_copy import LocalCopy, SnapshotDamaged
from penstock.partitions.state.state_files import LocalStateFiles, StateFileMissing
from penstock.partitions.state.turns import ChainLink, StateVersion, changelog_name, snapshot_name


class Writer:
    """A state with one row per batch."""

    def __init__(self, path: Path) -> None:
        self.files = LocalStateFiles(str(path / "state"))
        self.version = StateVersion()
        self.path = path
        self.copy = self.other("writer")

    def other(self, name: str, state: str = "shop", partition: int = 0) -> LocalCopy:
        folder = self.path / name
        folder.mkdir(exist_ok=True)
        return LocalCopy(str(folder), state, partition, self.files)

    def batches(self, first: int, last: int) -> StateVersion:
        store = self.copy.open(self.version)
        for batch in range(first, last):
            turn, link = TurnStore(store), ChainLink(batch, f"id{batch}")
            with turn.write() as txn:
                txn.put_many("rows", [(key := b"%d" % batch, seal(key, b"x" * 5000))])
            self.copy.write_changelog(self.version.id, link, turn.changes())
            turn.keep_turn([self.copy.mark(link)])
            self.version = self.version.after([link])
        store.close()
        return self.version


def rows(copy: LocalCopy, version: StateVersion) -> int:
    store = copy.open(version)
    with store.read() as snap:
        found = snap.count("rows")
    store.close()
    return found


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


def test_a_copy_goes_to_earlier_and_later_versions(writer: Writer) -> None:
    early, late = writer.batches(0, 3), writer.batches(3, 6)
    other = writer.other("other")
    assert [rows(other, version) for version in (early, late, early, StateVersion(), late)] == [3, 6, 3, 0, 6]


def test_a_snapshot_file_takes_the_place_of_changelogs(writer: Writer) -> None:
    early = writer.batches(0, 3)
    store = writer.copy.open(early)
    snapshot = writer.copy.write_snapshot(store)
    store.close()
    assert (snapshot.batch, snapshot.id) == (2, "id2")
    late = writer.batches(3, 5).over(snapshot)
    assert [link.id for link in late.chain] == ["id3", "id4"]
    for link in early.chain:
        (Path(writer.files.folder) / changelog_name(0, link)).unlink()
    assert rows(writer.other("other"), late) == 5


def test_a_snapshot_file_is_read_back_with_its_checksum(writer: Writer) -> None:
    store = writer.copy.open(writer.batches(0, 3))
    snapshot = writer.copy.write_snapshot(store)
    store.close()
    version = StateVersion(snapshot)
    with pytest.raises(SnapshotDamaged, match="its checksum differs"):
        rows(writer.other("other"), StateVersion(msgspec.structs.replace(snapshot, crc=1)))
    file = Path(writer.files.folder) / snapshot_name(0, snapshot)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(SnapshotDamaged, match="bytes and had"):
        rows(writer.other("other"), version)
    file.unlink()
    with pytest.raises(StateFileMissing, match="snapshot/0/000000000002-id2"):
        rows(writer.other("other"), version)


@pytest.mark.parametrize(("state", "partition"), [("another", 0), ("shop", 1)])
def test_a_copy_of_another_place_is_made_again(writer: Writer, state: str, partition: int) -> None:
    version = writer.batches(0, 3)
    store = writer.other("other", state, partition).open(StateVersion())
    with store.write() as txn:
        txn.put_many("rows", [(b"foreign", b"")])
        txn.put_many("meta", [writer.other("other", state, partition).mark(version.chain[-1])])
    store.close()
    assert rows(writer.other("other"), version) == 3


def test_a_damaged_copy_is_made_again(writer: Writer) -> None:
    version = writer.batches(0, 3)
    other = writer.other("other")
    assert rows(other, version) == 3
    (Path(other.folder) / "data.mdb").write_bytes(b"no LMDB" * 1000)
    assert rows(other, version) == 3


def test_rows_of_no_version_are_made_again(writer: Writer) -> None:
    version = writer.batches(0, 3)
    other = writer.other("other")
    store = open_lmdb(other.folder)
    with store.write() as txn:
        txn.put_many("meta", [(b"catalog", b"foreign")])
    store.close()
    assert rows(other, version) == 3


def test_a_name_of_the_state_is_written_once(writer: Writer) -> None:
    writer.files.write("a/b", [b"1"])
    with pytest.raises(FileExistsError):
        writer.files.write("a/b", [b"2"])
    assert b"".join(writer.files.read("a/b")) == b"1"


def test_a_failed_write_leaves_no_name(writer: Writer) -> None:
    with pytest.raises(ZeroDivisionError):
        writer.files.write("a/b", (b"%d" % (1 // n) for n in (1, 0)))
    with pytest.raises(StateFileMissing):
        list(writer.files.read("a/b"))
