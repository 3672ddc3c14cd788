"""Convert Kafka records to documents and deletions: JSON and MessagePack by key, and changes of Debezium.

Invariants: each record is converted alone, and an invalid one is refused with its bytes. Records that are JSON objects
pass without being parsed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.cache import (
    RecordError,
    TooManyDigits,
    decode_json,
    normalise,
    pack_document,
    received_document,
    unpack_received,
)
from penstock.gateway import Deletion, Form, ReceivedRecord, TableBatch
from penstock.kafka import MARK, Chunk
from penstock.spout.received_messages import CONVERSION_ERRORS, ConvertedRecords, document_line

# -- keys


def json_key(data: bytes) -> Any:
    """Decode a key as JSON. An object gives its values in their order. Any other bytes are text.

    >>> json_key(b"7"), json_key(b'{"shop": "x", "number": 2}'), json_key(b"Sue"), json_key(b'"7"')
    (7, ('x', 2), 'Sue', '7')
    """
    try:
        key = decode_json(data.decode(json.detect_encoding(data), "surrogatepass"))
    except TooManyDigits:
        raise
    except ValueError:
        return text_key(data)
    if isinstance(key, dict) and set(key) == {"schema", "payload"}:
        key = key["payload"]
    if isinstance(key, dict):
        values = tuple(key.values())
        return values[0] if len(values) == 1 else values
    return tuple(key) if isinstance(key, list) else key


def text_key(data: bytes) -> str:
    """Decode a key as text, even if it looks like JSON."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RecordError("its key is no UTF-8; keys=bytes takes keys as they are") from None


def packed_key(data: bytes) -> Any:
    """Decode a key as MessagePack."""
    try:
        key = unpack_received(data)
    except CONVERSION_ERRORS:
        raise RecordError("its key is no MessagePack") from None
    return tuple(key) if isinstance(key, list) else key


KEYS: Mapping[str, Callable[[bytes], Any]] = {"json": json_key, "text": text_key, "msgpack": packed_key, "bytes": bytes}


# -- records


@dataclass(frozen=True, slots=True)
class KafkaFormat:
    """The format of records: their keys, the fields that get the key, and whether they are changes of Debezium."""

    key_of: Callable[[bytes], Any] = json_key
    fields: tuple[str, ...] = ()
    debezium: bool = False

    @property
    def by_value(self) -> bool:
        """Return whether a JSON object is the document unchanged, and its key is ignored."""
        return not self.fields and not self.debezium

    def take(self, chunk: Chunk) -> ConvertedRecords:
        """Convert the records of a chunk."""
        if chunk.plain and self.by_value:
            return ConvertedRecords(TableBatch(chunk.values, beside=chunk.time if chunk.records else None))
        return self._one_by_one(chunk)

    def _one_by_one(self, chunk: Chunk) -> ConvertedRecords:
        out = ConvertedRecords(TableBatch([]))
        batch, places = out.batch, list[int]()
        for place, value in enumerate(chunk.values):
            if value is None and chunk.key(place) == MARK:
                out.skips.append(place)
                continue
            try:
                found, ts = self._change(value) if self.debezium and value is not None else (document_line(value), None)
                if found is None:
                    batch.deletes[batch.n] = Deletion(self._key(chunk, place))
                else:
                    batch.lines.append(self._keyed(found, chunk, place) if self.fields else found)
            except CONVERSION_ERRORS as error:
                out.refused[place] = str(getattr(error, "reason", error))
                out.received[place] = self._received(chunk, place)
                out.skips.append(place)
                continue
            if ts is not None:
                batch.stamps[len(places)] = normalise(ts)
            places.append(place)
        batch.beside = None if self.debezium else lambda record: chunk.time(places[record])
        return out

    def _key(self, chunk: Chunk, place: int) -> Any:
        key = chunk.key(place)
        if key is None:
            raise RecordError("it is null and has no key, so that it deletes nothing")
        return normalise(self.key_of(key))

    def _keyed(self, line: bytes, chunk: Chunk, place: int) -> bytes:
        """Return a document with the record's key in its fields."""
        data = chunk.key(place)
        if data is None:
            raise RecordError("it has no key to put into its document")
        key = self.key_of(data)
        values = key if isinstance(key, tuple) and len(self.fields) > 1 else (key,)
        if len(values) != len(self.fields):
            raise RecordError(f"its key has {len(values)} values for the fields {', '.join(self.fields)}")
        return pack_document(received_document(line) | dict(zip(self.fields, values, strict=True)))

    @staticmethod
    def _change(value: bytes) -> tuple[bytes | None, Any]:
        """Return the document after a change of Debezium, None if it was deleted, and the time of the change."""
        line = document_line(value)
        assert line is not None
        change = received_document(line)
        if isinstance(change.get("payload"), dict) and "op" not in change:
            change = change["payload"]
        op, source = change.get("op"), change.get("source")
        ts = source.get("ts_ms") if isinstance(source, dict) else None
        ts = change.get("ts_ms") if ts is None else ts
        if op == "d":
            return None, ts
        if op not in ("c", "r", "u"):
            raise RecordError(f"its op is {op!r}, and a change of Debezium has c, r, u or d")
        after = change.get("after")
        if not isinstance(after, dict):
            raise RecordError(f"its op is {op!r}, and it has no document in `after`")
        return pack_document(after), ts

    def _received(self, chunk: Chunk, place: int) -> ReceivedRecord:
        value: bytes | None = chunk.values[place]
        if value is None:
            return ReceivedRecord.made(Form.TEXT, chunk.key(place) or b"", chunk.time(place))
        form = Form.TEXT if self.debezium or self.fields else Form.JSON
        return ReceivedRecord.made(form, value, chunk.time(place))
