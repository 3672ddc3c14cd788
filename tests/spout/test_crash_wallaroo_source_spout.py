"""Kills of a store that receives from a source connector: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

import penstock as ps
from penstock.cache import PenstockError
from penstock.connector import stream_id_of
from tests.harness.planting import Bug, assert_found
from tests.spout.wallaroo_connector import STREAM, Connector
from tests.spout.wallaroo_worker import Store, expected, found, kill_at, message

SOURCE = f"orders=wallaroo+source:test/{STREAM:016x}"
LAST = 120  # messages of a history


def opened(path: Path, partitions: int | None = None, more: str = "", app: ps.App | None = None) -> Store:
    return Store(path, partitions, 0, more, app, "wallaroo+source")


def run(path: Path, seed: int, partitions: int | None, last: int = LAST) -> int:
    """Send messages with cuts and kills at random places; return the number of kills that struck."""
    choose = random.Random(f"wallaroo source {seed}")
    first = choose.choice((0, 1, 1 << 63))  # ids have any size, and gaps
    kills = 0
    with Connector() as connector:
        while len(connector.sent) < last:
            commit = choose.randrange(1, 10 if partitions is None else 30) if choose.random() < 0.7 else None
            with opened(path, partitions) as store:
                with kill_at(commit), suppress(OSError):
                    _work(connector, store, first, last, choose)
                kills += store.stop()
        with opened(path, partitions) as store:
            connector.connect(store.address)
            connector.end()
            assert found(store.engine) == expected([body for _, body in connector.sent])
            known = store.engine.remembered(SOURCE)
            assert known is not None
            assert known.offset == connector.sent[-1][0] + 1
    return kills


def _work(connector: Connector, store: Store, first: int, last: int, choose: random.Random) -> None:
    """Send messages until the store is killed."""
    connector.connect(store.address)
    while len(connector.sent) < last:
        if choose.random() < 0.2:
            connector.connect(store.address)
        at = connector.sent[-1][0] + 1 if connector.sent else first
        sent = len(connector.sent)
        connector.send(*((at + 2 * i, message(sent + i)) for i in range(choose.randrange(1, 9))))
        if choose.random() < 0.5:
            connector.settle()


def test_kills_of_one_store_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    assert sum(run(tmp_path / str(seed), seed, None) for seed in range(5)) > 6


def test_kills_between_partitions_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    assert sum(run(tmp_path / str(seed), seed, 2) for seed in range(4)) > 4


def one_partition_ahead(path: Path) -> None:
    """Kill the store between the partitions of a batch, and send its messages again in a larger batch."""
    with Connector() as connector:
        with opened(path, 2) as store:
            connector.connect(store.address)
            with kill_at(2):
                connector.send(*((i, message(i)) for i in range(11)))
                with pytest.raises(ConnectionError):
                    connector.settle()
            assert store.stop()
        connector.sent += [(i, message(i)) for i in range(11, 20)]
        with opened(path, 2) as store:
            connector.connect(store.address)
            connector.end()
            assert found(store.engine) == expected([body for _, body in connector.sent])


def test_a_partition_that_is_ahead_leaves_out_the_messages_that_it_has(tmp_path: Path) -> None:
    one_partition_ahead(tmp_path / "store")


def test_a_partition_that_does_not_know_the_ids_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Bug("one id", SPOUT + "_take", "[message.message for", "[messages[-1].message for").plant(monkeypatch)
    with pytest.raises(AssertionError):
        one_partition_ahead(tmp_path / "store")


def test_the_streams_of_one_connector_have_points_of_their_own(tmp_path: Path) -> None:
    names = (b"a", b"b")
    with opened(tmp_path / "store") as store:
        for first in (0, 3):
            for name in names:
                with Connector(stream_id_of(name), name) as connector:
                    connector.sent = [(i, message(i)) for i in range(first)]
                    connector.acked = first - 1 if first else None
                    connector.connect(store.address)
                    connector.send(*((i, message(i)) for i in range(first, first + 3)))
                    connector.end()
        offsets = store.engine.status()["sources"]
        assert [offsets[source] for source in sources(names)] == [6, 6]


def test_each_form_is_taken_and_a_bad_message_goes_to_quarantine(tmp_path: Path) -> None:
    good = msgspec.msgpack.encode({"id": 1, "name": "n0", "v": 3})
    with opened(tmp_path / "store") as store, Connector() as connector:
        connector.connect(store.address)
        connector.send((5, good), (9, b"no document"), (12, b'{"id": 2, "name": "n0", "v": 4}\n'))
        connector.end()
        assert found(store.engine) == ({1: {"id": 1, "name": "n0", "v": 3}, 2: {"id": 2, "name": "n0", "v": 4}}, 1)
        [bad] = store.engine.quarantine()
        assert (bad.source, bad.place, bad.offset, bad.data) == (SOURCE, "message 9", 9, b"no document")


def sources(names: tuple[bytes, ...]) -> list[str]:
    return [f"orders=wallaroo+source:test/{stream_id_of(name):016x}" for name in names]


SPOUT = "spout.wallaroo_source_spout:WallarooSourceSpout."
BUGS = [
    Bug(
        "a message is acknowledged before its commit",
        "spout.listening_spout:ListeningSpout._save",
        "self._changed.wait_for(lambda: self._closed or self._waiting.get(source) is not batch)",
        "self._waiting.pop(source)",
    ),
    Bug(
        "a stream continues one message too early",
        SPOUT + "_point",
        "self._offsets[stream] - 1",
        "self._offsets[stream] - 3",
    ),
    Bug(
        "a stream continues one message too late",
        SPOUT + "_point",
        "self._offsets[stream] - 1",
        "self._offsets[stream] + 1",
    ),
    Bug("the point is not stored", SPOUT + "_take", "messages[-1].message + 1", "self._offsets[stream]"),
    Bug(
        "the acknowledgement is one message ahead",
        "connector.source_acceptor:SourceAcceptor.begin_checkpoint",
        "stream.acked = stream.seen",
        "stream.acked = None if stream.seen is None else stream.seen + 1",
    ),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bugs_are_found(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert_found(lambda path, seed: run(path, seed, None), tmp_path, range(8), OSError, PenstockError)
