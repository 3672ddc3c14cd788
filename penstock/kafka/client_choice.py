"""Which client serves an address: the one that it names, else the one that is installed, kafka-python first."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Protocol

from penstock.cache import MissingExtra
from penstock.kafka.address import CLIENTS, Address
from penstock.kafka.protocol import Broker, Producer, Reader

_MODULES: dict[str, str] = dict(zip(CLIENTS, ("kafka", "confluent_kafka"), strict=True))
_EXTRAS: dict[str, tuple[str, str]] = {
    "kafka-python": ("kafka-python", "kafka"),
    "confluent": ("confluent-kafka", "confluent"),
}


class Client(Protocol):
    """What a client opens."""

    def broker(self, address: Address) -> Broker:
        """Its brokers, asked about the topic."""
        ...

    def reader(self, address: Address, lean: bool = False) -> Reader:
        """A reader of the topic; a `lean` one keeps no times, and of records that are JSON objects values alone."""
        ...

    def producer(self, address: Address) -> Producer:
        """A producer into the topic."""
        ...


def connect(address: Address) -> Client:
    """The client of an address; MissingExtra where it is not installed. Only here is it imported."""
    wanted = CLIENTS if address.client is None else (address.client,)
    there = [name for name in wanted if find_spec(_MODULES[name]) is not None]
    if not there:
        raise MissingExtra(*_EXTRAS[wanted[0]])
    if there[0] == CLIENTS[0]:
        from penstock.kafka.kafka_python import PythonClient

        return PythonClient()
    from penstock.kafka.confluent_kafka import ConfluentClient

    return ConfluentClient()


def broker(address: Address) -> Broker:
    """The brokers of an address."""
    return connect(address).broker(address)
