"""What tests of Kafka talk to, and what they do to it: topics made and deleted, records produced."""

from __future__ import annotations

import importlib
import itertools
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from examples.kafka.broker import Broker, NoBroker

kafka: Any = importlib.import_module("kafka")
admin: Any = importlib.import_module("kafka.admin")
errors: Any = importlib.import_module("kafka.errors")
ck: Any = importlib.import_module("confluent_kafka")
PATIENCE = 120.0
PASSWORD = "not-told"
Row = tuple[bytes | None, bytes | None]
_numbers = itertools.count()


@dataclass
class Server:
    """A broker and what kind it is: `real` is one of our own, `named` one that KAFKA_BOOTSTRAP names, else `mock`."""

    kind: str
    servers: str
    broker: Broker | None = None
    keep: Any = None

    def __post_init__(self) -> None:
        own = {"api_version": (2, 3)} if self.kind == "mock" else {}
        self._admin = kafka.KafkaAdminClient(bootstrap_servers=self.servers, **own)

    def _asked(self, ask: Callable[[], Any]) -> Any:
        """What the broker answers, once it is there again."""
        out: list[Any] = []

        def answered() -> bool:
            try:
                out.append(ask())
            except errors.RetriableError:
                return False
            return True

        until(answered, "the broker answers")
        return out[0]

    def topic(self, partitions: int = 1, **config: str) -> str:
        """A topic of its own."""
        name = f"t{os.getpid()}-{next(_numbers)}"
        self.make(name, partitions, **config)
        return name

    def make(self, name: str, partitions: int = 1, **config: str) -> None:
        """Make a topic, and wait until it is there."""
        own = {key.replace("_", "."): value for key, value in config.items()}
        until(lambda: self._made(name, partitions, own), f"topic {name} is made")
        until(lambda: self._leaders(name) == partitions, f"topic {name} has leaders")

    def _made(self, name: str, partitions: int, config: dict[str, str]) -> bool:
        found = self._admin.create_topics(
            [admin.NewTopic(name, partitions, 1, topic_configs=config)], raise_errors=False
        )
        return found["topics"][0]["error_code"] in (0,)

    def _leaders(self, name: str) -> int:
        (found,) = self._asked(lambda: self._admin.describe_topics([name]))
        return sum(one["leader_id"] >= 0 and not one["error_code"] for one in found["partitions"])

    def delete(self, name: str) -> None:
        """Delete a topic, and wait until it is gone."""
        self._admin.delete_topics([name])
        until(lambda: bool(self._admin.describe_topics([name])[0]["error_code"]), f"topic {name} is gone")

    def widen(self, name: str, partitions: int) -> None:
        """Give a topic more partitions."""
        self._admin.create_partitions({name: admin.NewPartitions(partitions)})
        until(lambda: self._leaders(name) == partitions, f"topic {name} has {partitions} partitions")

    def expire(self, name: str, before: int, partition: int = 0) -> None:
        """Delete the records before an offset."""
        self._admin.delete_records({kafka.TopicPartition(name, partition): before})

    def bounds(self, name: str, partition: int = 0) -> tuple[int, int]:
        """First and end."""
        own = kafka.TopicPartition(name, partition)
        first, last = (
            self._asked(lambda spec=spec: self._admin.list_partition_offsets({own: spec}))[own].offset
            for spec in (admin.OffsetSpec.EARLIEST, admin.OffsetSpec.LATEST)
        )
        return first, last

    def committed(self, group: str) -> dict[int, int]:
        """What a group has committed."""
        found = self._asked(lambda: self._admin.list_group_offsets(group))[group]
        return {one.partition: own.offset for one, own in found.items()}

    def produce(self, name: str, rows: Iterable[Row], partition: int = 0, time_ms: int | None = None) -> None:
        """Append records."""
        producer = ck.Producer({"bootstrap.servers": self.servers})
        failed: list[Any] = []

        def heard(error: Any, _: object) -> None:
            failed.extend([error] if error else [])

        for key, value in rows:
            producer.produce(name, value, key, partition, timestamp=time_ms or 0, on_delivery=heard)
        assert producer.flush(PATIENCE) == 0
        assert not failed, failed

    def transaction(self, name: str, rows: Sequence[Row], commit: bool) -> None:
        """Append records in a transaction that is committed or aborted."""
        producer = self.open_transaction(name, rows)
        (producer.commit_transaction if commit else producer.abort_transaction)(PATIENCE)

    def open_transaction(self, name: str, rows: Sequence[Row]) -> Any:
        """A producer whose transaction has begun, and has written so much."""
        producer = ck.Producer({"bootstrap.servers": self.servers, "transactional.id": f"{name}-{next(_numbers)}"})
        producer.init_transactions(PATIENCE)
        producer.begin_transaction()
        for key, value in rows:
            producer.produce(name, value, key, partition=0)
        producer.flush(PATIENCE)
        return producer

    def rows(self, name: str) -> list[tuple[int, bytes | None, bytes | None]]:
        """All committed records of a topic: partition, key, value; read by a client of its own."""
        own = {"api_version": (2, 3)} if self.kind == "mock" else {}
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.servers, enable_auto_commit=False, isolation_level="read_committed", **own
        )
        try:
            places = [kafka.TopicPartition(name, partition) for partition in range(self._leaders(name))]
            ends = consumer.end_offsets(places)
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
        """Let go of it, and end what was started."""
        self._admin.close()
        if self.broker is not None:
            self.broker.stop()


def until(found: Callable[[], bool], what: str) -> None:
    """Look again and again, for a while; each look takes its time at the broker."""
    end = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < end, f"in vain: {what}"


def serve() -> Server:
    """A broker of our own, else the one that is named, else a mock."""
    try:
        broker = Broker(PASSWORD)
        broker.start()
        return Server("real", broker.servers, broker)
    except NoBroker as error:
        missing = str(error)
    named = os.environ.get("KAFKA_BOOTSTRAP")
    if named:
        return Server("named", named, keep=missing)
    mock = ck.Producer({"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": 1})
    brokers = mock.list_topics(timeout=10).brokers
    servers = ",".join(f"{one.host}:{one.port}" for one in brokers.values())
    return Server("mock", servers, keep=(mock, missing))
