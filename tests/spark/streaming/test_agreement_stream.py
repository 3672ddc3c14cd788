"""A stream on Spark leaves what the embedded engine has, also if drivers and state processes are killed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import penstock as ps
from penstock.cache import DefinitionError, PenstockError
from penstock.spark import session
from penstock.spark.streaming.manifests import Manifest, SparkState, StateOfAnotherStream
from penstock.spark.streaming.state_restore import restore_state
from penstock.spark.streaming.stream_driver import SparkStream, ZombieDriver, stream
from tests.spark.streaming.stream_app import append, documents, streamed


class Streams:
    """Streams over one state, and the embedded engine with the same documents."""

    def __init__(self, spark: Any, path: Path) -> None:
        self.spark = spark
        self.path = path
        self.marker = path / "marker"
        self.app = streamed(str(self.marker))
        self.plain = ps.open(self.app, None)
        self.on_commit: list[Manifest] = []
        self.restored = 0

    def add(self, seed: int, many: int) -> None:
        """Append documents to the files, and put them into the embedded engine."""
        docs = documents(seed, many)
        self.uris = append(self.path, docs)
        for table, own in docs.items():
            self.plain.put_many(table, own)

    def start(self, **options: Any) -> SparkStream:
        settings = {"partitions": 3, "batch": 40, "every": "0 seconds", "local": str(self.path / "local")} | options
        return stream(
            self.app, str(self.path / "state"), self.uris, spark=self.spark, on_commit=self.on_commit.append, **settings
        )

    def agree(self) -> None:
        """Compare a store that is made of the state with the embedded engine."""
        self.restored += 1
        path = self.path / f"store{self.restored}"
        restore_state(str(self.path / "state"), str(path))
        with ps.open(self.app, path, listen=False, processes=False) as store:
            assert store.digest() == self.plain.digest()
            assert not store.check().wrong


@pytest.fixture
def streams(spark: Any, tmp_path: Path) -> Iterator[Streams]:
    own = Streams(spark, tmp_path)
    yield own
    own.plain.close()


def test_batches_leave_what_the_embedded_engine_has(streams: Streams) -> None:
    streams.add(1, 110)
    streams.start(snapshot_every=1).finish()
    assert [own.batch for own in streams.on_commit] == list(range(len(streams.on_commit)))
    assert sum(map(sum, (own.counts for own in streams.on_commit))) == 110
    assert any(own.version.snapshot for own in streams.on_commit[-1].partitions)
    streams.agree()
    streams.add(2, 30)  # the files grow while the stream is stopped
    shutil.rmtree(streams.path / "local")
    with streams.start() as run:
        run.finish()
    assert streams.on_commit[-1].run == 2
    streams.agree()


def test_kills_lose_nothing_and_count_nothing_twice(streams: Streams) -> None:
    streams.add(3, 70)
    marker = streams.marker
    marker.touch()  # a state process dies in the middle of a stage
    commit = SparkState.commit
    before = mock.patch.object(SparkState, "commit", side_effect=OSError("the driver dies before the manifest"))
    with before, pytest.raises(PenstockError, match="dies before"):
        streams.start(partitions=2).finish()
    assert not marker.exists(), "a state process was killed"
    assert SparkState(str(streams.path / "state")).newest() is None

    def after(self: SparkState, manifest: Manifest) -> bool:
        commit(self, manifest)
        raise OSError("the driver dies after the manifest")

    with mock.patch.object(SparkState, "commit", after), pytest.raises(PenstockError, match="dies after"):
        streams.start(partitions=2).finish()
    assert [own.batch for own in streams.on_commit] == []
    marker.touch()
    streams.start(partitions=2).finish()
    assert streams.on_commit[0].batch == 1, "batch 0 was committed, and is not run again"
    assert not marker.exists(), "a state process was killed again"
    streams.agree()


def test_a_zombie_driver_and_another_checkpoint_are_refused(streams: Streams) -> None:
    streams.add(4, 40)

    def first(self: SparkState, manifest: Manifest) -> bool:
        commit(self, manifest)  # the other driver was quicker
        return commit(self, manifest)

    commit = SparkState.commit
    with mock.patch.object(SparkState, "commit", first), pytest.raises(ZombieDriver):
        streams.start(partitions=2).finish()
    streams.start(partitions=2).finish()
    streams.agree()
    shutil.rmtree(streams.path / "state" / "spark")
    with pytest.raises(StateOfAnotherStream, match="batch 0 is of query"):
        streams.start(partitions=2).finish()


def test_what_a_stream_can_not_do_is_refused_by_name(streams: Streams, tmp_path: Path) -> None:
    streams.add(5, 10)
    state, app = str(tmp_path / "refused"), streams.app
    with pytest.raises(DefinitionError, match=r"s3: is not supported; name a folder"):
        stream(app, "s3://bucket/shop", streams.uris)
    with pytest.raises(PenstockError, match="there is no table named 'ordres'"):
        stream(app, state, {"ordres": "x.jsonl"})
    clicks = ps.App("clicks")
    clicks.stream("clicks", ts="at")
    with pytest.raises(DefinitionError, match="has the stream 'clicks'"):
        stream(clicks, state, {"clicks": "x.jsonl"})
    with pytest.raises(DefinitionError, match="reads files of one table; run it without"):
        stream(app, state, {"orders": f"file:{streams.uris['orders']}?envelope=topic"}, spark=streams.spark)
    with pytest.raises(PenstockError, match="name the file of each table"):
        stream(app, state, {})
    stream(app, state, streams.uris, spark=streams.spark, partitions=2, local=str(tmp_path / "local")).finish()
    with pytest.raises(DefinitionError, match="has 2 partitions, and that number is fixed"):
        stream(app, state, streams.uris, spark=streams.spark, partitions=3)
    other = ps.App("other")
    other.table("orders", key="id")
    with pytest.raises(DefinitionError, match="is of the app 'streamed', and this is 'other'"):
        stream(other, state, {"orders": streams.uris["orders"]}, spark=streams.spark)


def test_a_stream_uses_the_session_that_is_there(spark: Any) -> None:
    assert session() is spark
