"""Kafka: what a URI says of a topic, and the two clients that read and write it behind one seam."""

from penstock.kafka.address import CLIENTS, Address, address_of
from penstock.kafka.client_choice import Client, broker, connect
from penstock.kafka.errors import BrokerAway, KafkaFault, OffsetLost
from penstock.kafka.protocol import MARK, Broker, Chunk, Fields, Producer, Reader, Topic
from penstock.kafka.retry import until_ready

__all__ = [
    "CLIENTS",
    "MARK",
    "Address",
    "Broker",
    "BrokerAway",
    "Chunk",
    "Client",
    "Fields",
    "KafkaFault",
    "OffsetLost",
    "Producer",
    "Reader",
    "Topic",
    "address_of",
    "broker",
    "connect",
    "until_ready",
]
