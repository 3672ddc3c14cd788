"""Use Kafka through confluent-kafka, which is based on librdkafka.

It is faster, because it fetches in its own threads.
"""

from __future__ import annotations

import base64
import importlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, Self

from penstock.kafka.address import Address
from penstock.kafka.errors import BrokerAway, KafkaFault, OffsetLost
from penstock.kafka.protocol import Broker, Chunk, Fields, KafkaReader, Producer, Topic, are_plain, refused

ck: Any = importlib.import_module("confluent_kafka")
admin: Any = importlib.import_module("confluent_kafka.admin")
_PATIENCE = 10.0  # seconds without an answer until a broker counts as away
_NO_GROUP = "penstock"  # the client requires a group name; nothing is committed under this one
_QUEUED = 100_000
_ATONCE = 1_000
_FLUSHING = 120.0
_LOST = (ck.KafkaError._AUTO_OFFSET_RESET, ck.KafkaError.OFFSET_OUT_OF_RANGE)
_UNREACHABLE = (
    ck.KafkaError._ALL_BROKERS_DOWN,
    ck.KafkaError._TRANSPORT,
    ck.KafkaError._TIMED_OUT,
    ck.KafkaError._TIMED_OUT_QUEUE,
    ck.KafkaError._MSG_TIMED_OUT,
    ck.KafkaError._RESOLVE,
    ck.KafkaError._WAIT_COORD,
    ck.KafkaError._UNKNOWN_BROKER,
    ck.KafkaError._DESTROY_BROKER,
    ck.KafkaError.REQUEST_TIMED_OUT,
    ck.KafkaError.BROKER_NOT_AVAILABLE,
    ck.KafkaError.NETWORK_EXCEPTION,
    ck.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    ck.KafkaError.COORDINATOR_NOT_AVAILABLE,
    ck.KafkaError.NOT_COORDINATOR,
    ck.KafkaError.NOT_CONTROLLER,
    ck.KafkaError.NOT_ENOUGH_REPLICAS,
    ck.KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ck.KafkaError.KAFKA_STORAGE_ERROR,
    ck.KafkaError.THROTTLING_QUOTA_EXCEEDED,
)
_LEADERLESS = (
    ck.KafkaError._NOENT,
    ck.KafkaError.NOT_LEADER_FOR_PARTITION,
    ck.KafkaError.LEADER_NOT_AVAILABLE,
    ck.KafkaError.REPLICA_NOT_AVAILABLE,
    ck.KafkaError.OFFSET_NOT_AVAILABLE,
    ck.KafkaError.FENCED_LEADER_EPOCH,
    ck.KafkaError.UNKNOWN_LEADER_EPOCH,
    ck.KafkaError.UNKNOWN_TOPIC_OR_PART,
)  # for an existing topic: some brokers do not know its leaders yet
_GONE = (ck.KafkaError.UNKNOWN_TOPIC_OR_PART, ck.KafkaError._UNKNOWN_TOPIC, ck.KafkaError._UNKNOWN_PARTITION)
_DENIED = (
    ck.KafkaError.TOPIC_AUTHORIZATION_FAILED,
    ck.KafkaError.GROUP_AUTHORIZATION_FAILED,
    ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    ck.KafkaError._AUTHENTICATION,
    ck.KafkaError.SASL_AUTHENTICATION_FAILED,
)


def _time(message: Any) -> int | None:
    kind, moment = message.timestamp()
    return None if kind == ck.TIMESTAMP_NOT_AVAILABLE else int(moment)


def _headers(message: Any) -> list[tuple[str, bytes | None]]:
    return message.headers() or []


_FIELDS = Fields(ck.Message.value, ck.Message.key, ck.Message.offset, _time, _headers)


def _fault(address: Address, error: Any) -> KafkaFault:
    """Translate an error of the client."""
    code, words = error.code(), " ".join(str(error.str()).split())[:200]
    if code in _DENIED:
        return KafkaFault(address.where, f"it is not allowed ({words})", "see who this user is to the broker")
    if code in _LEADERLESS:
        return BrokerAway(address.where, f"a partition has no leader yet ({words})")
    if code in _UNREACHABLE or error.retriable():
        return BrokerAway(address.where, f"no broker answers ({words})")
    return KafkaFault(address.where, words, "see the client's words, and the broker's log")


def _called(address: Address, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ck.KafkaException as error:
        raise _fault(address, error.args[0]) from error
    except (ValueError, TypeError) as error:
        raise KafkaFault(address.where, str(error), "see the options of the URI, and of config=") from error


def _config(address: Address, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the client. Its log is discarded, because faults are raised as errors."""
    return {
        "bootstrap.servers": address.servers,
        "reconnect.backoff.max.ms": 500,
        "logger": _Silent(),
        **own,
        **address.config,
    }


class _Silent:
    """A logger that discards everything.

    Without it the client's log would mix with a command's output on standard error.
    """

    def log(self, *_: object) -> None:
        """Discard a message."""


class ConfluentClient:
    """The client confluent-kafka."""

    def broker(self, address: Address) -> Broker:
        """Connect to the brokers."""
        return ConfluentBroker(address)

    def reader(self, address: Address, lean: bool = False) -> KafkaReader:
        """Open a reader."""
        return ConfluentReader(address, lean)

    def producer(self, address: Address) -> Producer:
        """Open a producer."""
        return ConfluentProducer(address)


class ConfluentBroker:
    """Queries about a topic through confluent-kafka."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._admin = _called(address, lambda: admin.AdminClient(_config(address, {})))

    def look(self, policy: bool = False) -> Topic | None:
        """Return the current state of the topic."""
        name = self._address.topic
        asked = self._admin.describe_topics(ck.TopicCollection([name]), request_timeout=_PATIENCE)
        try:
            found = asked[name].result()
        except ck.KafkaException as error:
            if error.args[0].code() in _GONE:
                return None
            raise _fault(self._address, error.args[0]) from error
        own = str(found.topic_id)
        return Topic(
            base64.b64decode(own + "=" * (-len(own) % 4)) if own else b"",
            len(found.partitions),
            self._compacted() if policy else None,
        )

    def _compacted(self) -> bool | None:
        asked = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, self._address.topic)
        try:
            found = self._admin.describe_configs([asked], request_timeout=_PATIENCE)[asked].result()
            return "compact" in str(found["cleanup.policy"].value)
        except (ck.KafkaException, KeyError):
            return None  # a user with read access may lack access to the topic's configuration

    def bounds(self, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Return the first offset and the end of each partition."""
        first = self._offsets(partitions, admin.OffsetSpec.earliest())
        last = self._offsets(partitions, admin.OffsetSpec.latest())
        return {partition: (first[partition], last[partition]) for partition in partitions}

    def since(self, moment: int, partitions: Sequence[int]) -> dict[int, int]:
        """Return the first offset from a moment on."""
        found = self._offsets(partitions, admin.OffsetSpec.for_timestamp(moment))
        if min(found.values(), default=0) < 0:
            ends = self._offsets(partitions, admin.OffsetSpec.latest())
            return {partition: own if own >= 0 else ends[partition] for partition, own in found.items()}
        return found

    def _offsets(self, partitions: Sequence[int], spec: Any) -> dict[int, int]:
        asked = {ck.TopicPartition(self._address.topic, partition): spec for partition in partitions}
        if not asked:
            return {}
        committed = ck.IsolationLevel.READ_COMMITTED
        found = self._admin.list_offsets(asked, isolation_level=committed, request_timeout=_PATIENCE)
        try:
            return {one.partition: own.result().offset for one, own in found.items()}
        except ck.KafkaException as error:
            if error.args[0].code() in _LEADERLESS:
                self._refresh()
            raise _fault(self._address, error.args[0]) from error

    def _refresh(self) -> None:
        """Read the leaders of the topic again: the client keeps a missing leader for minutes."""
        with suppress(ck.KafkaException):
            self._admin.list_topics(self._address.topic, timeout=_PATIENCE)

    def close(self) -> None:
        """Do nothing: the connection ends with the object."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class ConfluentReader:
    """A reader based on a Consumer. It assigns partitions itself, so it is not a member of its group."""

    def __init__(self, address: Address, lean: bool) -> None:
        self._address = address
        self._lean = lean
        self._fields = _FIELDS.timeless() if lean else _FIELDS
        config = _config(
            address,
            {
                "group.id": address.group or _NO_GROUP,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "fetch.queue.backoff.ms": 5,
                "queued.min.messages": _QUEUED,
                "allow.auto.create.topics": False,
                "topic.metadata.refresh.interval.ms": 5_000,
                "on_commit": self._on_commit,
            },
        )
        self._consumer = _called(address, lambda: ck.Consumer(config))
        self._partitions: list[int] = []
        self._errors: deque[KafkaFault] = deque()
        self._read: dict[int, int] = {}  # by partition: the end that was reached
        self._refusal: str | None = None

    def assign(self, places: Mapping[int, int]) -> None:
        """Read these partitions from these offsets."""
        topic = self._address.topic
        own = [ck.TopicPartition(topic, partition, offset) for partition, offset in places.items()]
        _called(self._address, lambda: self._consumer.assign(own))
        self._partitions = list(places)
        self._errors.clear()
        self._read.clear()

    def take(self, most: int, wait: float) -> list[Chunk]:
        """Return the next records.

        Small portions are faster, since they are still in the processor's cache when they are read.
        """
        if self._errors:
            raise self._errors.popleft()
        found = _called(self._address, lambda: self._consumer.consume(min(most, _ATONCE), wait))
        values = list(map(_FIELDS.value, found))
        plain = are_plain(values)  # errors are not plain: their value is a message of the client
        if not plain and any(map(ck.Message.error, found)):
            found = self._sound(found)
            if self._errors and not found:
                raise self._errors.popleft()
            values = list(map(_FIELDS.value, found))
            plain = are_plain(values)
        if not found:
            return []
        if len(set(map(ck.Message.partition, found))) == 1:
            return [Chunk.made(found[0].partition(), found, self._fields, values, plain, self._lean)]
        parts: dict[int, list[Any]] = {}
        for partition, run in groupby(found, ck.Message.partition):
            parts.setdefault(partition, []).extend(run)
        return [Chunk.of(partition, records, self._fields, self._lean) for partition, records in parts.items()]

    def _sound(self, found: list[Any]) -> list[Any]:
        """Return the records without errors. An error is raised after the records before it were returned."""
        sound: list[Any] = []
        for message in found:
            error = message.error()
            if error is None:
                sound.append(message)
            elif error.code() == ck.KafkaError._PARTITION_EOF:
                self._read[message.partition()] = message.offset()
            elif error.code() in _LOST:
                self._errors.append(OffsetLost(self._address.where, message.partition(), message.offset()))
            elif error.code() not in (*_GONE, *_UNREACHABLE, *_LEADERLESS):
                self._errors.append(_fault(self._address, error))
        return sound

    def ends(self) -> dict[int, int]:
        """Return the high watermarks that arrived with records."""
        out: dict[int, int] = {}
        for partition in self._partitions:
            own = ck.TopicPartition(self._address.topic, partition)
            _, end = self._consumer.get_watermark_offsets(own, cached=True)
            if end >= 0:
                out[partition] = end
        return out

    def reached(self, partition: int) -> int:
        """Return the last end that the client reported. Its own position does not pass over transaction markers."""
        return self._read.get(partition, -1)

    def commit(self, places: Mapping[int, int], last: bool = False) -> None:
        """Send the offsets to the group. `close` waits for the answer."""
        if self._address.group is not None:
            topic = self._address.topic
            own = [ck.TopicPartition(topic, partition, offset) for partition, offset in places.items()]
            with suppress(ck.KafkaException):  # only monitoring sees a delay
                self._consumer.commit(offsets=own, asynchronous=True)

    def _on_commit(self, error: Any, partitions: object) -> None:
        if error is None:
            self._refusal = None
        elif not isinstance(fault := _fault(self._address, error), BrokerAway):
            subscribed = error.code() == ck.KafkaError.UNKNOWN_MEMBER_ID
            self._refusal = refused(self._address.group, fault.reason, subscribed)

    def refusal(self) -> str | None:
        """Return the reason of the last refusal, or None."""
        return self._refusal

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


class ConfluentProducer:
    """A producer based on a Producer. It maps keys to partitions like the Java client and kafka-python."""

    idempotent = "librdkafka numbers what it sends, and the broker drops what comes again"

    def __init__(self, address: Address) -> None:
        self._address = address
        config = _config(
            address,
            {
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "queue.buffering.max.messages": 1_000_000,
                "delivery.report.only.error": True,
                "on_delivery": self._delivered,
                "allow.auto.create.topics": False,
            },
        )
        self._failed: list[Any] = []
        self._producer = _called(address, lambda: ck.Producer(config))

    def _delivered(self, error: Any, message: object) -> None:
        if error is not None:
            self._failed.append(error)

    def send(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], headers: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        """Put records into the client's queue."""
        topic, produce, own = self._address.topic, self._producer.produce, list(headers) or None
        try:
            for key, value in zip(keys, values, strict=True):
                try:
                    produce(topic, value, key, -1, None, None, 0, own)
                except BufferError:
                    self._retry_when_full(value, key, own)
        except ck.KafkaException as error:
            raise _fault(self._address, error.args[0]) from error

    def _retry_when_full(self, value: bytes | None, key: bytes | None, headers: Any) -> None:
        while True:
            self._producer.poll(0.1)
            with suppress(BufferError):
                self._producer.produce(self._address.topic, value, key, headers=headers)
                return

    def flush(self) -> None:
        """Wait until all records have arrived."""
        left = self._producer.flush(_FLUSHING)
        if self._failed:
            raise _fault(self._address, self._failed[0])
        if left:
            raise BrokerAway(self._address.where, f"{left:,} records did not arrive within {_FLUSHING:.0f} s")

    def close(self) -> None:
        """Do nothing: the producer ends with the object."""
