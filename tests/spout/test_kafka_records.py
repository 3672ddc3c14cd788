"""Convert Kafka records to documents and deletions, and refuse invalid ones with a reason."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import pytest

from penstock.cache import unpack_document
from penstock.gateway import Form
from penstock.kafka import MARK, Chunk, Fields
from penstock.spout.kafka_records import KEYS, KafkaFormat
from penstock.spout.received_messages import ConvertedRecords


class Row(NamedTuple):
    """A record as a client returns it."""

    offset: int
    key: bytes | None
    value: bytes | None
    time: int | None = None


FIELDS = Fields(itemgetter(2), itemgetter(1), itemgetter(0), itemgetter(3), lambda record: ())


def taken(shape: KafkaFormat, *rows: tuple[bytes | None, bytes | None]) -> ConvertedRecords:
    records = [Row(i, key, value, 1_000 + i) for i, (key, value) in enumerate(rows)]
    return shape.take(Chunk.of(0, records, FIELDS))


def documents(found: ConvertedRecords) -> list[Any]:
    return [unpack_document(line) for line in found.batch.lines]


def packed(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


def change(op: str, **more: Any) -> bytes:
    return json.dumps({"op": op, "source": {"ts_ms": 5}, "ts_ms": 9, **more}).encode()


def test_json_objects_pass_unchanged() -> None:
    lines = [b'{"id": 1}', b'{"id": ']
    found = taken(KafkaFormat(), *((None, line) for line in lines))
    assert found.batch.lines == lines
    assert [found.batch.stamp(0), found.batch.stamp(1)] == [1_000, 1_001]


@pytest.mark.parametrize("before", [0, 40])
def test_white_space_before_a_document_is_no_part_of_it(before: int) -> None:
    values = [b'{"id": 1}'] * before + [b'\t{"id": 2}', b'\r\n {"id": 3}', b'\x0b{"id": 4}']
    found = taken(KafkaFormat(), *((None, value) for value in values))
    assert documents(found)[before:] == [{"id": 2}, {"id": 3}]
    assert found.refused.keys() == {before + 2}


def test_numbers_of_too_many_digits_are_refused_by_name() -> None:
    digits = b"7" * 4_000_000
    rows = [
        (None, packed({"id": 1, "v": msgspec.msgpack.Ext(1, digits)})),
        (digits, None),
        (packed(msgspec.msgpack.Ext(1, digits)), None),
    ]
    assert "number" in taken(KafkaFormat(), rows[0]).refused[0]
    assert "10,000 digits" in taken(KafkaFormat(), rows[1]).refused[0]
    assert "no MessagePack" in taken(KafkaFormat(key_of=KEYS["msgpack"]), rows[2]).refused[0]
    assert taken(KafkaFormat(), (b"7" * 10_000, None)).batch.deletes[0].key == int("7" * 4_000) * 10**6_000 + int(
        "7" * 4_000
    ) * 10**2_000 + int("7" * 2_000)


def test_messagepack_and_json_side_by_side() -> None:
    own = {"id": 1, "name": "Sue", "tags": [1, None, b"\0"]}
    rows = [(None, packed(own)), (None, b' {"id": 2}\n'), (b"7", None), (None, packed([1])), (None, packed(own) + b"x")]
    found = taken(KafkaFormat(), *rows)
    assert documents(found) == [own, {"id": 2}]
    assert {at: one.key for at, one in found.batch.deletes.items()} == {2: 7}
    assert found.refused.keys() == {3, 4} == set(found.skips)
    assert found.refused[3] == "it is no JSON object and no MessagePack map"
    assert found.refused[4].startswith("it is no MessagePack that can be stored")
    assert [found.batch.stamp(at) for at in range(3)] == [1_000, 1_001, 1_002]


@pytest.mark.parametrize(
    ("kind", "data", "key"),
    [
        ("json", b"7", 7),
        ("json", b"007", "007"),
        ("json", b'"7"', "7"),
        ("json", b"Sue", "Sue"),
        ("json", b'{"id": 7}', 7),
        ("json", b'{"schema": {}, "payload": {"shop": "x", "number": 2}}', ("x", 2)),
        ("json", b'["x", 2]', ("x", 2)),
        ("json", b"123456789012345678901", 123456789012345678901),
        ("text", b"7", "7"),
        ("bytes", b"\xff", b"\xff"),
        ("msgpack", packed(["x", 2]), ("x", 2)),
    ],
)
def test_keys_are_decoded(kind: str, data: bytes, key: Any) -> None:
    found = taken(KafkaFormat(KEYS[kind]), (data, None))
    assert found.batch.deletes[0].key == (list(key) if isinstance(key, tuple) else key), "stored form"


@pytest.mark.parametrize(
    ("kind", "data", "says"),
    [
        ("json", None, "it is null and has no key, so that it deletes nothing"),
        ("json", b"\xff", "its key is no UTF-8; keys=bytes takes keys as they are"),
        ("msgpack", b"\xc1", "its key is no MessagePack"),
    ],
)
def test_invalid_keys_are_refused(kind: str, data: bytes | None, says: str) -> None:
    found = taken(KafkaFormat(KEYS[kind]), (data, None))
    assert found.refused == {0: says}
    assert found.received[0].data == (data or b"")


def test_the_key_goes_into_the_document() -> None:
    rows = [(b'["x", 2]', b'{"n": 1}'), (b"x", b'{"n": 1}'), (None, b'{"n": 1}')]
    found = taken(KafkaFormat(fields=("shop", "number")), *rows)
    assert documents(found) == [{"n": 1, "shop": "x", "number": 2}]
    assert found.refused == {
        1: "its key has 1 values for the fields shop, number",
        2: "it has no key to put into its document",
    }


def test_a_sink_s_mark_is_no_record() -> None:
    found = taken(KafkaFormat(), (MARK, None), (b"7", None))
    assert found.skips == [0]
    assert found.refused == {}
    assert [one.key for one in found.batch.deletes.values()] == [7]


def test_debezium() -> None:
    rows = [
        (b'{"id": 1}', change("r", after={"id": 1, "name": "Sue"})),
        (b'{"id": 1}', change("u", before={"id": 1}, after={"id": 1, "name": "Joe"})),
        (b'{"id": 2}', json.dumps({"schema": {}, "payload": json.loads(change("c", after={"id": 2}))}).encode()),
        (b'{"id": 1}', change("d", before={"id": 1})),
        (b'{"id": 1}', None),
        (None, change("t")),
        (None, change("c")),
        (None, change("d")),
        (None, b"no"),
    ]
    found = taken(KafkaFormat(debezium=True), *rows)
    assert documents(found) == [{"id": 1, "name": "Sue"}, {"id": 1, "name": "Joe"}, {"id": 2}]
    assert {at: one.key for at, one in found.batch.deletes.items()} == {3: 1, 4: 1}
    assert found.batch.stamps == {0: 5, 1: 5, 2: 5, 3: 5}, "when it was at the source"
    assert found.refused == {
        5: "its op is 't', and a change of Debezium has c, r, u or d",
        6: "its op is 'c', and it has no document in `after`",
        7: "it is null and has no key, so that it deletes nothing",
        8: "it is no JSON object and no MessagePack map",
    }
    assert {one.form for one in found.received.values()} == {Form.TEXT}, "a retry does not take one for a document"
