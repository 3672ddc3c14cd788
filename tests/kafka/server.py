"""The broker that tests of Kafka use: create and delete topics, and produce records."""

from __future__ import annotations

import importlib
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pytest

from examples.kafka.broker import Broker, NoBroker
from tests.kafka.mock import Mock
from tests.waiting import PATIENCE

kafka: Any = importlib.import_module("kafka")
admin: Any = importlib.import_module("kafka.admin")
errors: Any = importlib.import_module("kafka.errors")
ck: Any = importlib.import_module("confluent_kafka")
_TRANSIENT = (errors.RetriableError, errors.UnknownBrokerIdError)
PASSWORD = "not-told"
Row = tuple[bytes | None, bytes | None]
_numbers = itertools.count()


@dataclass
class Server:
    """A broker and its kind: `real` was started here, `named` is the one of KAFKA_BOOTSTRAP, otherwise `mock`."""

    kind: str
    servers: str
    broker: Broker | None = None
    mock: Mock | None = None
    missing: str = ""  # the reason why no broker was started here
    lacking: dict[str, list[str]] = field(default_factory=dict)  # by missing feature: the tests that need it

    def __post_init__(self) -> None:
        self._own = {"api_version": (2, 3)} if self.mock is not None else {}
        self._admin = kafka.KafkaAdminClient(bootstrap_servers=self.servers, **self._own)

    def options(self, client: str) -> str:
        """Return the options that a client needs in the URI for this broker."""
        return "&api.version=2.3" if self.mock is not None and client == "kafka-python" else ""

    def lacks(self, what: str) -> NoReturn:
        """Skip the test, because this broker lacks a feature. The last lines of the run report it."""
        test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0].rpartition("/")[2]
        self.lacking.setdefault(what, []).append(test)
        pytest.skip(f"a broker of kind {self.kind} has no {what}")

    def must_be_own(self) -> Broker:
        """Return the broker that was started here, which can be killed and requires passwords.

        Skip the test without it.
        """
        if self.broker is None:
            self.lacks("kills and passwords")
        return self.broker

    def _administrates(self, what: str) -> None:
        if self.mock is not None:
            self.lacks(what)

    def _asked(self, ask: Callable[[], Any]) -> Any:
        """Return the answer of the broker, after it runs again and has leaders."""
        out: list[Any] = []

        def answered() -> bool:
            try:
                out.append(ask())
            except _TRANSIENT:
                return False
            return True

        until(answered, "the broker answers")
        return out[0]

    def topic(self, partitions: int = 1, **config: str) -> str:
        """Create a topic with a unique name."""
        name = f"t{os.getpid()}-{next(_numbers)}"
        self.make(name, partitions, **config)
        return name

    def make(self, name: str, partitions: int = 1, **config: str) -> None:
        """Create a topic, and wait until it exists."""
        own = {key.replace("_", "."): value for key, value in config.items()}
        if self.mock is not None:
            if "cleanup.policy" in own:
                self.lacks("compacted topics")
            self.mock.make(name, partitions)
            return
        until(lambda: self._made(name, partitions, own), f"topic {name} is made")
        until(lambda: self._leaders(name) == partitions, f"topic {name} has leaders")

    def _made(self, name: str, partitions: int, config: dict[str, str]) -> bool:
        topic = admin.NewTopic(name, partitions, 1, topic_configs=config)
        found = self._asked(lambda: self._admin.create_topics([topic], raise_errors=False))
        return found["topics"][0]["error_code"] in (0, errors.TopicAlreadyExistsError.errno)

    def _leaders(self, name: str) -> int:
        found = self._described(name)
        return sum(one["leader_id"] >= 0 and not one["error_code"] for one in found["partitions"])

    def _described(self, name: str) -> Any:
        (found,) = self._asked(lambda: self._admin.describe_topics([name]))
        return found

    def delete(self, name: str) -> None:
        """Delete a topic, and wait until it is gone."""
        self._administrates("topics that are deleted")
        self._asked(lambda: self._admin.delete_topics([name], raise_errors=False))
        gone = errors.UnknownTopicOrPartitionError.errno
        until(lambda: self._described(name)["error_code"] == gone, f"topic {name} is gone")

    def widen(self, name: str, partitions: int) -> None:
        """Add partitions to a topic."""
        self._administrates("topics that gain partitions")
        more = {name: admin.NewPartitions(partitions)}
        self._asked(lambda: self._admin.create_partitions(more, raise_errors=False))
        until(lambda: self._leaders(name) == partitions, f"topic {name} has {partitions} partitions")

    def expire(self, name: str, before: int, partition: int = 0) -> None:
        """Delete the records before an offset."""
        self._administrates("records that expire")
        self._asked(lambda: self._admin.delete_records({kafka.TopicPartition(name, partition): before}))

    def bounds(self, name: str, partition: int = 0) -> tuple[int, int]:
        """Return the first offset and the end of each partition."""
        own = kafka.TopicPartition(name, partition)
        first, last = (
            self._asked(lambda spec=spec: self._admin.list_partition_offsets({own: spec}))[own].offset
            for spec in (admin.OffsetSpec.EARLIEST, admin.OffsetSpec.LATEST)
        )
        return first, last

    def committed(self, group: str) -> dict[int, int]:
        """Return the offsets that a group has committed."""
        self._administrates("offsets of groups that can be asked for")
        found = self._asked(lambda: self._admin.list_group_offsets(group))[group]
        return {one.partition: own.offset for one, own in found.items()}

    def commit(self, group: str, name: str, offsets: dict[int, int]) -> None:
        """Commit offsets of a group."""
        other = ck.Consumer({"bootstrap.servers": self.servers, "group.id": group})
        other.commit(offsets=[ck.TopicPartition(name, *place) for place in offsets.items()], asynchronous=False)
        other.close()

    @contextmanager
    def subscribed(self, group: str, name: str) -> Iterator[Any]:
        """Yield a consumer that subscribed to the topic and got its partitions from the group."""
        self._administrates("groups that refuse offsets")
        other = ck.Consumer({"bootstrap.servers": self.servers, "group.id": group, "enable.auto.commit": False})
        other.subscribe([name])

        def dealt() -> bool:
            other.poll(0.1)
            return bool(other.assignment())

        try:
            until(dealt, "the group deals")
            yield other
        finally:
            other.close()

    def produce(self, name: str, rows: Iterable[Row], partition: int = 0, time_ms: int | None = None) -> None:
        """Append records."""
        if time_ms is not None:
            self._administrates("times of records")
        producer = ck.Producer({"bootstrap.servers": self.servers})
        failed: list[Any] = []

        def heard(error: Any, _: object) -> None:
            failed.extend([error] if error else [])

        for key, value in rows:
            producer.produce(name, value, key, partition, timestamp=time_ms or 0, on_delivery=heard)
        assert producer.flush(PATIENCE) == 0
        assert not failed, failed

    def transaction(self, name: str, rows: Sequence[Row], commit: bool) -> None:
        """Append records in a transaction, and commit or abort it."""
        producer = self.open_transaction(name, rows)
        (producer.commit_transaction if commit else producer.abort_transaction)(PATIENCE)

    def open_transaction(self, name: str, rows: Sequence[Row]) -> Any:
        """Yield a producer with an open transaction that has written these records."""
        self._administrates("transactions")
        producer = ck.Producer({"bootstrap.servers": self.servers, "transactional.id": f"{name}-{next(_numbers)}"})
        producer.init_transactions(PATIENCE)
        producer.begin_transaction()
        for key, value in rows:
            producer.produce(name, value, key, partition=0)
        producer.flush(PATIENCE)
        return producer

    def rows(self, name: str) -> list[tuple[int, bytes | None, bytes | None]]:
        """Return all committed records of a topic as (partition, key, value), read by a separate client."""
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.servers, enable_auto_commit=False, isolation_level="read_committed", **self._own
        )
        try:
            partitions = range(len(self._described(name)["partitions"]))
            places = [kafka.TopicPartition(name, partition) for partition in partitions]
            ends = self._asked(lambda: consumer.end_offsets(places))
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            out: list[tuple[int, bytes | None, bytes | None]] = []

            def read() -> bool:
                for place, records in consumer.poll(100).items():
                    out.extend((place.partition, record.key, record.value) for record in records)
                return all(consumer.position(place) >= ends[place] for place in places)

            until(read, f"topic {name} is read")
            return out
        finally:
            consumer.close()

    def close(self) -> None:
        """Close the clients, and stop a broker that was started here."""
        self._admin.close()
        if self.broker is not None:
            self.broker.stop()
        if self.mock is not None:
            self.mock.close()


def patience_of(_reason: str) -> float:
    """Return the seconds of a wait. A test of a planted bug shortens the one wait that the bug makes endless."""
    return PATIENCE


def until(found: Callable[[], bool], what: str) -> None:
    """Check a condition repeatedly up to a deadline. Each check takes time at the broker."""
    end = time.monotonic() + patience_of(f"in vain: {what}")
    while not found():
        assert time.monotonic() < end, f"in vain: {what}"


def serve() -> Server:
    """Return a broker that is started here, or the named one, or a mock."""
    try:
        broker = Broker(PASSWORD, session=60_000)  # this broker is never killed
        broker.start()
        return Server("real", broker.servers, broker)
    except NoBroker as error:
        missing = str(error)
    named = os.environ.get("KAFKA_BOOTSTRAP")
    if named:
        return Server("named", named, missing=missing)
    mock = Mock()
    return Server("mock", mock.servers, mock=mock, missing=missing)
