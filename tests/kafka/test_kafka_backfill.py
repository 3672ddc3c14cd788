"""Backfill a range of a topic: the store equals the result of `run`, and `run` continues after the range.

The tasks run in the test (`tests/spark/inprocess.py`). The brokers are real.
"""

from __future__ import annotations

import itertools
import json
import os
import pkgutil
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.spark import backfill
from penstock.spout import SourceMissing, UriError
from tests.kafka.reading import names, read, shop, spout, stamped
from tests.kafka.server import Row, Server
from tests.spark.inprocess import InProcess


def doc(key: int, name: str, **more: Any) -> Row:
    return b"%d" % key, json.dumps({"id": key, "name": name, **more}).encode()


def filled(server: Server, app: ps.App, topic: str, client: str, path: Path, options: str = "", **how: Any) -> Any:
    uri = f"kafka://{server.servers}/{topic}?client={client}{options}"
    return backfill(app, path, spark=InProcess(), users=uri, **how)


def test_a_topic_fills_a_store_and_its_spout_continues(server: Server, client: str, tmp_path: Path) -> None:
    topic, path = server.topic(3), tmp_path / "store"
    server.produce(topic, [*(doc(i, "Sue", n=i) for i in range(40)), (b"3", None), doc(4, "Joe"), (b"k", b"no")], 0)
    server.transaction(topic, [doc(5, "Ann")], commit=False)  # aborted records and transaction markers are no records
    server.produce(topic, [doc(i, "Bob") for i in range(100, 120)], 1)
    done = filled(server, shop(), topic, client, path)
    assert (done.documents, done.rejected) == ({"users": 59}, 1)
    with ps.open(shop(), None) as wanted, ps.open(shop(), path) as engine:
        with spout(server, wanted, topic, client) as own:
            read(wanted, own, 63)
        assert engine.digest() == wanted.digest()
        [kept], [other] = engine.quarantine(), wanted.quarantine()
        assert (kept.source, kept.offset, kept.place, kept.data) == (
            other.source,
            other.offset,
            other.place,
            other.data,
        )
        server.produce(topic, [doc(4, "Eve")], 0)
        server.produce(topic, [doc(200, "Eve")], 2)
        with spout(server, engine, topic, client) as own:
            assert own.contract.exact
            assert read(engine, own, 2).applied == 2
        assert names(engine) == {"Sue": 38, "Bob": 20, "Eve": 2}


def test_a_live_store_is_refilled_from_its_topic(server: Server, client: str, tmp_path: Path) -> None:
    topic, path = server.topic(), tmp_path / "store"
    server.produce(topic, [doc(i, "Sue") for i in range(30)])
    with ps.open(shop(), path) as engine:
        with spout(server, engine, topic, client) as own:
            read(engine, own, 30)
        engine.put("users", {"id": 5000, "name": "orphan"})
        server.produce(topic, [doc(1, "Joe")])
        done = filled(server, shop(), topic, client, path, refill=True)
        assert (done.sources, done.back) == ({f"users=kafka:{topic}/0": 31}, ())
        assert names(engine) == {"Sue": 29, "Joe": 1}


def test_the_range_has_the_given_bounds(server: Server, client: str, tmp_path: Path) -> None:
    topic, moment = server.topic(retention_ms="-1"), 1_700_000_000_000
    for i in range(9):
        server.produce(topic, [doc(i, f"n{i}"), doc(100, f"last{i}")], time_ms=moment + i * 1000)
    filled(server, stamped(), topic, client, tmp_path / "a", f"&from={moment + 2000}&until={moment + 5000}")
    with ps.open(stamped(), tmp_path / "a") as engine:
        assert names(engine) == {"n2": 1, "n3": 1, "n4": 1, "last4": 1}
        with spout(server, engine, topic, client) as own:
            assert read(engine, own, 8).applied == 8


def test_an_invalid_range_is_named(server: Server, client: str, tmp_path: Path) -> None:
    for options, error, why in (
        ("&until=noon", UriError, "there is no until=noon; write earliest, latest, or a moment"),
        ("&envelope=topic", UriError, "use `penstock run`"),
        ("&til=1", UriError, "there is no option 'til'"),
        ("", SourceMissing, "there is no topic 'nothing-here'"),
    ):
        with pytest.raises(error, match=why):
            filled(server, shop(), "nothing-here", client, tmp_path / "store", options)
    assert os.listdir(tmp_path) == []


def test_a_broker_that_pauses_loses_no_record(
    server: Server, client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, silent = server.topic(), itertools.count()
    server.produce(topic, [doc(i, "Sue") for i in range(20)])
    module = "kafka_python.PythonReader" if client.startswith("kafka-python") else "confluent_kafka.ConfluentReader"
    reader: Any = pkgutil.resolve_name(f"penstock.kafka.{module}")
    take = reader.take
    monkeypatch.setattr(reader, "take", lambda own, *how: [] if next(silent) < 20 else take(own, *how))
    assert filled(server, shop(), topic, client, tmp_path / "store").documents == {"users": 20}
