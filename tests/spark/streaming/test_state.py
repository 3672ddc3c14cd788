"""Headers, manifests and garbage of a state, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.cache import DefinitionError, PenstockError
from penstock.partitions import SnapshotFile, StateVersion, changelog_name, snapshot_name
from penstock.partitions.state.turns import ChainLink
from penstock.spark.streaming.batch_stages import levels_of
from penstock.spark.streaming.manifests import Manifest, NoState, PartitionCounts, SparkState, files_of
from penstock.spark.streaming.state_garbage import remove_garbage
from penstock.spark.streaming.state_restore import restore_state
from tests.spark.streaming.stream_app import streamed


def manifest(batch: int, version: StateVersion) -> Manifest:
    return Manifest(batch, "s", "q", 1, [PartitionCounts(version)])


@pytest.fixture
def state(tmp_path: Path) -> SparkState:
    return SparkState(str(tmp_path / "state"))


def test_the_header_never_changes(state: SparkState) -> None:
    first = state.opened("shop", 3)
    assert SparkState(state.uri).opened("shop", None) == first
    assert len(first.ranges()) == 3
    with pytest.raises(DefinitionError, match="has 3 partitions"):
        state.opened("shop", 4)
    with pytest.raises(DefinitionError, match="of the app 'shop'"):
        state.opened("other", 3)


def test_a_header_of_another_format_is_refused(state: SparkState) -> None:
    state.opened("shop", 1)
    file = Path(state.uri) / "state.json"
    file.write_text(file.read_text().replace('"format": 1', '"format": 9'))
    with pytest.raises(PenstockError, match="has format 9"):
        state.header()


def test_of_two_drivers_one_commits_a_batch(state: SparkState) -> None:
    one, other = manifest(0, StateVersion()), manifest(0, StateVersion(None, (ChainLink(0, "a"),)))
    assert state.commit(one)
    assert not SparkState(state.uri).commit(other)
    assert state.newest() == state.manifest(0) == one


def test_numbers_of_driver_runs_grow(state: SparkState) -> None:
    assert [SparkState(state.uri).begin_run() for _ in range(4)] == [1, 2, 3, 4]


def test_garbage_is_what_no_kept_manifest_names(state: SparkState) -> None:
    links = [ChainLink(batch, f"id{batch}") for batch in range(9)]
    lost = [ChainLink(batch, "lost") for batch in range(9)]
    for link in (*links, *lost):
        state.files.write(changelog_name(0, link), [b""])
    old, new = SnapshotFile(1, "id1", 0, 0), SnapshotFile(4, "id4", 0, 0)
    for snapshot in (old, new):
        state.files.write(snapshot_name(0, snapshot), [b""])
    for batch in range(5, 9):
        state.commit(manifest(batch, StateVersion(new, tuple(links[5 : batch + 1]))))
    assert remove_garbage(state) == 0, "all files are young"
    assert remove_garbage(state, young=-1.0) == 5 + 7 + 1
    assert state.files.names("log/0") == sorted(
        changelog_name(0, link).rpartition("/")[2] for link in (*links[5:], *lost[7:])
    )
    assert state.files.names("snapshot/0") == [snapshot_name(0, new).rpartition("/")[2]]
    assert remove_garbage(state, young=-1.0) == 0


def test_a_state_without_a_batch_is_not_restored(state: SparkState, tmp_path: Path) -> None:
    with pytest.raises(NoState, match="there is no state"):
        restore_state(state.uri, str(tmp_path / "store"))
    state.opened("shop", 1)
    with pytest.raises(PenstockError, match="has no batch yet"):
        restore_state(state.uri, str(tmp_path / "store"))


@pytest.mark.parametrize("uri", ["s3://bucket/shop", "abfs://x/y", "hdfs://host/x"])
def test_a_scheme_without_a_tested_server_is_refused(uri: str) -> None:
    with pytest.raises(DefinitionError, match="is not supported"):
        files_of(uri)


def test_levels_are_those_of_the_longest_chain() -> None:
    assert levels_of(streamed()) == 3  # totals, sizes, spread
    plain = ps.App("plain")
    plain.table("users", key="id")
    assert levels_of(plain) == 1
    assert files_of("file:///srv/shop") is not None
