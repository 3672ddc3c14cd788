"""Use Kafka through kafka-python, which is pure Python and the default.

If the client raises while it decodes, its next poll would loop for ever, so the error ends the reader. The client
decodes no values, and never moves to another offset by itself.
"""

from __future__ import annotations

import importlib
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any, Self

from penstock.kafka.address import Address
from penstock.kafka.errors import BrokerAway, KafkaFault, OffsetLost
from penstock.kafka.protocol import Broker, Chunk, Fields, KafkaReader, Producer, Topic, refused

kafka: Any = importlib.import_module("kafka")
admin: Any = importlib.import_module("kafka.admin")
errors: Any = importlib.import_module("kafka.errors")
logging.getLogger("kafka").addHandler(logging.NullHandler())  # faults are raised as errors
_PATIENCE = 10_000  # milliseconds without an answer until a broker counts as away
_LAST = 5_000  # milliseconds that the last commit to a group may take
_FETCH = 8 << 20
_SAME_NAME = {
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.mechanisms": "sasl_mechanism",
}
_KNOWN = (kafka.KafkaConsumer, kafka.KafkaProducer, admin.KafkaAdminClient)
_LEADERLESS = (errors.UnknownBrokerIdError, errors.NotLeaderForPartitionError, errors.LeaderNotAvailableError)
_UNREACHABLE = (errors.RetriableError, errors.BrokerNotAvailableError, OSError, *_LEADERLESS)


def _time(record: Any) -> int | None:
    moment: int = record[4]
    return None if moment < 0 else moment


_FIELDS = Fields(itemgetter(7), itemgetter(6), itemgetter(3), _time, itemgetter(8))


def _config(address: Address, kind: Any, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a class of the client, including those in the address."""
    out: dict[str, Any] = {
        "bootstrap_servers": address.servers.split(","),
        "bootstrap_timeout_ms": _PATIENCE,
        "request_timeout_ms": 3 * _PATIENCE,
        "reconnect_backoff_max_ms": 500,
        **own,
    }
    for given, text in address.config.items():
        name = _SAME_NAME.get(given, given.replace(".", "_"))
        defaults = [one.DEFAULT_CONFIG for one in _KNOWN if name in one.DEFAULT_CONFIG]
        if not defaults:
            raise KafkaFault(address.where, f"kafka-python has no option {given!r}", "see the options of that client")
        if name in kind.DEFAULT_CONFIG:
            out[name] = _typed(address, given, text, type(defaults[0][name]))
    return out


def _typed(address: Address, name: str, text: str, kind: type) -> Any:
    """Convert a text to the type of the client's default value."""
    try:
        if name == "api.version":  # for a broker that does not report its version: 2.3
            return tuple(map(int, text.split(".")))
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        return kind(text) if kind in (int, float) else text
    except (KeyError, ValueError):
        reason = f"{name}={text} is no {kind.__name__}"
        raise KafkaFault(address.where, reason, f"write {name}= and a value of that kind") from None


def _called(address: Address, call: Callable[[], Any]) -> Any:
    """Call the client, and translate its errors."""
    try:
        return call()
    except (errors.KafkaError, OSError) as error:
        raise _fault(address, error) from error
    except (ValueError, TypeError, AssertionError) as error:
        raise KafkaFault(address.where, _line(error), "see the options of the URI, and of config=") from error


def _fault(address: Address, error: Exception) -> KafkaFault:
    if isinstance(error, _LEADERLESS):
        return BrokerAway(address.where, f"a partition has no leader yet ({_line(error)})")
    if isinstance(error, _UNREACHABLE):
        return BrokerAway(address.where, f"no broker answers ({_line(error)})")
    if isinstance(error, errors.AuthorizationError | errors.SaslAuthenticationFailedError):
        return KafkaFault(address.where, f"it is not allowed ({_line(error)})", "see who this user is to the broker")
    remedy = "see the client's words, and the broker's log"
    if isinstance(error, errors.UnsupportedCodecError):
        remedy = "install that codec's package for kafka-python, or read with client=confluent"
    return KafkaFault(address.where, _line(error), remedy)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


class PythonClient:
    """The client kafka-python."""

    def broker(self, address: Address) -> Broker:
        """Connect to the brokers."""
        return PythonBroker(address)

    def reader(self, address: Address, lean: bool = False) -> KafkaReader:
        """Open a reader."""
        return PythonReader(address, lean)

    def producer(self, address: Address) -> Producer:
        """Open a producer."""
        return PythonProducer(address)


class PythonBroker:
    """Queries about a topic through kafka-python."""

    def __init__(self, address: Address) -> None:
        self._address = address
        config = _config(address, admin.KafkaAdminClient, {"request_timeout_ms": _PATIENCE})
        self._admin = _called(address, lambda: admin.KafkaAdminClient(**config))

    def look(self, policy: bool = False) -> Topic | None:
        """Return the current state of the topic."""
        name = self._address.topic
        (found,) = _called(self._address, lambda: self._admin.describe_topics([name]))
        code = found["error_code"]
        if code == errors.UnknownTopicOrPartitionError.errno:
            return None
        if code:
            kind = errors.for_code(code)
            if issubclass(kind, errors.RetriableError):
                raise BrokerAway(self._address.where, f"the topic is not ready ({kind.__name__})")
            raise _fault(self._address, kind(name))
        own = found.get("topic_id")
        return Topic(
            b"" if own is None else uuid.UUID(str(own)).bytes,
            len(found["partitions"]),
            self._compacted() if policy else None,
        )

    def _compacted(self) -> bool | None:
        name, key = self._address.topic, "cleanup.policy"
        asked = [admin.ConfigResource(admin.ConfigResourceType.TOPIC, name, [key])]
        try:
            found = self._admin.describe_configs(asked, config_filter="all")
            return "compact" in found["topic"][name][key]["value"]
        except (errors.KafkaError, KeyError):
            return None  # a user with read access may lack access to the topic's configuration

    def bounds(self, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Return the first offset and the end of each partition."""
        first = self._offsets(partitions, admin.OffsetSpec.EARLIEST)
        last = self._offsets(partitions, admin.OffsetSpec.LATEST)
        return {partition: (first[partition], last[partition]) for partition in partitions}

    def since(self, moment: int, partitions: Sequence[int]) -> dict[int, int]:
        """Return the first offset from a moment on."""
        found = self._offsets(partitions, moment)
        if min(found.values(), default=0) < 0:
            ends = self._offsets(partitions, admin.OffsetSpec.LATEST)
            return {partition: own if own >= 0 else ends[partition] for partition, own in found.items()}
        return found

    def _offsets(self, partitions: Sequence[int], spec: Any) -> dict[int, int]:
        asked = {kafka.TopicPartition(self._address.topic, partition): spec for partition in partitions}
        committed = 1  # the isolation level
        found = _called(self._address, lambda: self._admin.list_partition_offsets(asked, isolation_level=committed))
        return {one.partition: own.offset for one, own in found.items()}

    def close(self) -> None:
        """Close the connection."""
        self._admin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class PythonReader:
    """A reader based on a KafkaConsumer. It assigns partitions itself, so it is not a member of its group."""

    def __init__(self, address: Address, lean: bool) -> None:
        self._address = address
        self._lean = lean
        self._fields = _FIELDS.timeless() if lean else _FIELDS
        config = _config(
            address,
            kafka.KafkaConsumer,
            {
                "group_id": address.group,
                "enable_auto_commit": False,
                "auto_offset_reset": "none",
                "isolation_level": "read_committed",
                "max_partition_fetch_bytes": _FETCH,
                "metadata_max_age_ms": 5_000,
                "allow_auto_create_topics": False,
                "metrics_enabled": False,
            },
        )
        self._consumer = _called(address, lambda: kafka.KafkaConsumer(**config))
        self._places: list[Any] = []
        self._refusal: str | None = None

    def assign(self, places: Mapping[int, int]) -> None:
        """Read these partitions from these offsets."""
        own = {kafka.TopicPartition(self._address.topic, partition): offset for partition, offset in places.items()}
        self._consumer.assign(list(own))
        for partition, offset in own.items():
            self._consumer.seek(partition, offset)
        self._places = list(own)

    def take(self, most: int, wait: float) -> list[Chunk]:
        """Return the records of the next poll."""
        try:
            found = self._consumer.poll(timeout_ms=int(wait * 1000), max_records=most)
        except errors.OffsetOutOfRangeError as error:
            ((partition, offset), *_) = error.args[0].items()
            raise OffsetLost(self._address.where, partition.partition, offset) from error
        except (errors.LogTruncationError, errors.NoOffsetForPartitionError) as error:
            partition = self._places[0]
            raise OffsetLost(self._address.where, partition.partition, self._consumer.position(partition)) from error
        except _UNREACHABLE:
            return []
        except (errors.KafkaError, ValueError, AssertionError) as error:
            raise _fault(self._address, error) from error
        given = ((partition.partition, records) for partition, records in found.items() if records)
        return [Chunk.of(partition, records, self._fields, self._lean) for partition, records in given]

    def ends(self) -> dict[int, int]:
        """Return the high watermarks that arrived with records."""
        found = {partition.partition: self._consumer.highwater(partition) for partition in self._places}
        return {partition: end for partition, end in found.items() if end is not None}

    def reached(self, partition: int) -> int:
        """Return the position, which passes over transaction markers."""
        try:
            return int(self._consumer.position(kafka.TopicPartition(self._address.topic, partition)))
        except (*_UNREACHABLE, TypeError):  # no answer yet, and so no position
            return -1

    def commit(self, places: Mapping[int, int], last: bool = False) -> None:
        """Send the offsets to the group."""
        if self._address.group is None:
            return
        own = {
            kafka.TopicPartition(self._address.topic, partition): kafka.OffsetAndMetadata(offset, "", -1)
            for partition, offset in places.items()
        }
        with suppress(errors.KafkaError):  # only monitoring sees a delay
            if last:
                self._consumer.commit(own, timeout_ms=_LAST)
            else:
                self._consumer.commit_async(own, self._on_commit)

    def _on_commit(self, offsets: object, answer: object) -> None:
        if not isinstance(answer, Exception):
            self._refusal = None
        elif not isinstance(answer, _UNREACHABLE):
            subscribed = isinstance(answer, errors.CommitFailedError)
            self._refusal = refused(self._address.group, _line(answer), subscribed)

    def refusal(self) -> str | None:
        """Return the reason of the last refusal, or None."""
        return self._refusal

    def close(self) -> None:
        """Close the consumer. Commits to the group that are in flight are lost."""
        self._consumer.close(autocommit=False, timeout_ms=2_000)


class PythonProducer:
    """A producer based on a KafkaProducer."""

    idempotent = "kafka-python numbers what it sends, and the broker drops what comes again"

    def __init__(self, address: Address) -> None:
        self._address = address
        config = _config(
            address,
            kafka.KafkaProducer,
            {
                "enable_idempotence": True,
                "acks": "all",
                "linger_ms": 5,
                "batch_size": 1 << 18,
                "metrics_enabled": False,
            },
        )
        self._producer = _called(address, lambda: kafka.KafkaProducer(**config))
        self._failed: list[Exception] = []

    def send(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], headers: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        """Put records into the client's buffer."""
        topic, send, own, failed = self._address.topic, self._producer.send, list(headers), self._failed.append
        try:
            for key, value in zip(keys, values, strict=True):
                send(topic, value, key=key, headers=own).add_errback(failed)
        except errors.KafkaError as error:
            raise _fault(self._address, error) from error

    def flush(self) -> None:
        """Wait until all records have arrived."""
        _called(self._address, self._producer.flush)
        if self._failed:
            raise _fault(self._address, self._failed[0])

    def close(self) -> None:
        """Close the producer."""
        self._producer.close(timeout=2)
