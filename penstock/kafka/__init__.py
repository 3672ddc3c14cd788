"""Kafka: what a URI says of a topic, and the two clients that read and write it behind one seam."""

from penstock.kafka.address import CLIENTS, Address, address_of
from penstock.kafka.connecting import Client, GroupClient, broker, connect
from penstock.kafka.errors import BrokerAway, KafkaFault, OffsetLost
from penstock.kafka.protocols import (
    MARK,
    SESSION,
    Broker,
    Chunk,
    Fields,
    GroupBroker,
    GroupReader,
    Producer,
    Reader,
    Topic,
)

__all__ = [
    "CLIENTS",
    "MARK",
    "SESSION",
    "Address",
    "Broker",
    "BrokerAway",
    "Chunk",
    "Client",
    "Fields",
    "GroupBroker",
    "GroupClient",
    "GroupReader",
    "KafkaFault",
    "OffsetLost",
    "Producer",
    "Reader",
    "Topic",
    "address_of",
    "broker",
    "connect",
]
