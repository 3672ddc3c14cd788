"""Connect to Kafka: parse topic URIs, and read and write topics through one of two client libraries."""

from penstock.kafka.address import CLIENTS, Address, address_of
from penstock.kafka.client_choice import Client, broker, connect
from penstock.kafka.errors import BrokerAway, KafkaFault, OffsetLost
from penstock.kafka.protocol import MARK, Broker, Chunk, Fields, KafkaReader, Producer, Topic
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
    "KafkaReader",
    "OffsetLost",
    "Producer",
    "Topic",
    "address_of",
    "broker",
    "connect",
    "until_ready",
]
