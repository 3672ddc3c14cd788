"""Choose the client library for an address: the one that it names, or the installed one. kafka-python comes first."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Protocol

from penstock.cache import MissingExtra
from penstock.kafka.address import CLIENTS, Address
from penstock.kafka.protocol import Broker, KafkaReader, Producer

_MODULES: dict[str, str] = dict(zip(CLIENTS, ("kafka", "confluent_kafka"), strict=True))
_EXTRAS: dict[str, tuple[str, str]] = {
    "kafka-python": ("kafka-python", "kafka"),
    "confluent": ("confluent-kafka", "confluent"),
}


class Client(Protocol):
    """A client library that opens brokers, readers and producers."""

    def broker(self, address: Address) -> Broker:
        """Connect to the brokers of the topic."""
        ...

    def reader(self, address: Address, lean: bool = False) -> KafkaReader:
        """Open a reader of the topic. A `lean` one keeps no timestamps, and of JSON objects only the values."""
        ...

    def producer(self, address: Address) -> Producer:
        """Open a producer for the topic."""
        ...


def connect(address: Address) -> Client:
    """Return the client of an address, and import its library. Raise MissingExtra if it is not installed."""
    wanted = CLIENTS if address.client is None else (address.client,)
    installed = [name for name in wanted if find_spec(_MODULES[name]) is not None]
    if not installed:
        raise MissingExtra(*_EXTRAS[wanted[0]])
    if installed[0] == CLIENTS[0]:
        from penstock.kafka.kafka_python import PythonClient

        return PythonClient()
    from penstock.kafka.confluent_kafka import ConfluentClient

    return ConfluentClient()


def broker(address: Address) -> Broker:
    """Connect to the brokers of an address."""
    return connect(address).broker(address)
