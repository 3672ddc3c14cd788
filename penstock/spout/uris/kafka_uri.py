"""Parse `kafka://HOST:PORT/TOPIC?…` with its options, and open its spout."""

from __future__ import annotations

from datetime import datetime

from penstock.kafka import KafkaFault, address_of, connect
from penstock.spout.errors import UriError
from penstock.spout.kafka_records import KEYS, KafkaFormat
from penstock.spout.kafka_spout import EARLIEST, LATEST, KafkaSpout, ReadOptions
from penstock.spout.uri_parts import Uri

_DEBEZIUM, _TOPIC = "debezium", "topic"
_OPTIONS = ("from", "lost", "envelope", "key", "keys", "name")


def open_kafka(uri: Uri, table: str) -> tuple[KafkaSpout, bool]:
    """Open the spout of a topic. Also return whether its records name their own tables."""
    try:
        address = address_of(uri.text, uri.rest, uri.options, _OPTIONS)
    except KafkaFault as error:
        raise UriError(error.where, error.reason, error.remedy) from error
    lost = uri.one_of("lost", (EARLIEST, LATEST))
    envelope = uri.one_of("envelope", (_DEBEZIUM, _TOPIC))
    keys = uri.one_of("keys", tuple(KEYS)) or "json"
    fields = tuple(filter(None, uri.options.get("key", "").split(",")))
    shape = KafkaFormat(KEYS[keys], fields, envelope == _DEBEZIUM)
    reading = ReadOptions(moment_in(uri, "from", EARLIEST), lost, uri.options.get("name") or None, shape)
    return KafkaSpout(address, table, connect(address), reading), envelope == _TOPIC


def moment_in(uri: Uri, name: str, otherwise: str) -> str | int:
    """Parse the option that selects offsets: a moment in milliseconds, or the word earliest or latest."""
    value = uri.options.get(name, otherwise)
    if value in (EARLIEST, LATEST):
        return value
    if value.isascii() and value.isdigit():
        return int(value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        remedy = "write earliest, latest, or a moment as 2026-01-31T12:00:00Z or in milliseconds"
        raise UriError(uri.text, f"there is no {name}={value}", remedy)
    return int(moment.timestamp() * 1000)
