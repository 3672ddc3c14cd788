"""The received form of a rejected record, as quarantine keeps it.

Bytes are kept as they are, a dict as the MessagePack of its stored form, and any other value as text. A value of up to
128 MiB is kept whole. For a longer record of a spout, quarantine keeps the first 1 MiB and the size. A longer record
of a caller raises an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.cache import PenstockError, is_json, long_text, normalise, pack, pack_document, size_text

__all__ = ["MOST_RECEIVED", "Form", "ReceivedRecord"]

MOST_RECEIVED = 128 << 20
_HEAD = 1 << 20


class Form(Enum):
    """The format of the received bytes."""

    JSON = "json"
    """A document as it came."""
    PACKED = "packed"
    """A document in MessagePack."""
    WIRE = "wire"
    """A record that names its own table, as JSON or in MessagePack."""
    KEY = "key"
    """The key of a deletion, packed."""
    TEXT = "text"
    """Not a document: a row of a file with a header, or the text of a value that can't be stored."""


@dataclass(frozen=True, slots=True)
class ReceivedRecord:
    """The received form of one record; `size` is the full size, and `data` may hold only the beginning.

    >>> ReceivedRecord.of(b'{"name": "Sue"}').data, ReceivedRecord.of({"name": "Sue"}).form
    (b'{"name": "Sue"}', <Form.PACKED: 'packed'>)
    """

    form: Form
    data: bytes
    size: int
    ts: Any = None  # the ts that came beside it

    @property
    def whole(self) -> bool:
        """Return True if `data` holds the whole record."""
        return len(self.data) == self.size

    @classmethod
    def made(cls, form: Form, data: bytes, ts: Any = None, size: int | None = None) -> ReceivedRecord:
        """Keep the bytes, or the first 1 MiB if the size exceeds 128 MiB."""
        size = len(data) if size is None else size
        return cls(form, data if size <= MOST_RECEIVED else data[:_HEAD], size, ts)

    @classmethod
    def whole_of(cls, doc: Any, ts: Any = None) -> ReceivedRecord:
        """Keep the document of a caller; PenstockError if it is too large to keep whole."""
        received = cls.of(doc, ts)
        if not received.whole:
            raise PenstockError(
                f"a record of {size_text(received.size)} is too large, also for quarantine, which keeps up to "
                f"{size_text(MOST_RECEIVED)}; nothing of its batch was put. Put records of at most 16 MiB"
            )
        return received

    @classmethod
    def of(cls, doc: Any, ts: Any = None) -> ReceivedRecord:
        """Convert any value passed as a document."""
        ts = _ts(ts)
        if isinstance(doc, str):
            return cls.made(Form.JSON, doc.encode("utf-8", "surrogatepass"), ts)
        if isinstance(doc, bytes | bytearray | memoryview):
            return cls.made(Form.JSON, bytes(doc), ts)
        if isinstance(doc, Mapping):
            try:
                return cls.made(Form.PACKED, pack_document(doc), ts)
            except PenstockError:
                pass  # keep it as text
        return cls.made(Form.TEXT, long_text(doc).encode(), ts)

    @classmethod
    def of_line(cls, line: bytes, ts: Any = None) -> ReceivedRecord:
        """Convert a document in stored form: JSON as it came, or MessagePack."""
        return cls.made(Form.JSON if is_json(line) else Form.PACKED, line, ts)

    @classmethod
    def of_wire(cls, line: bytes) -> ReceivedRecord:
        """Convert a record that names its own table, in stored form."""
        return cls.made(Form.WIRE, line)

    @classmethod
    def of_key(cls, key: Any, ts: Any = None) -> ReceivedRecord:
        """Convert the key of a deletion."""
        try:
            return cls.made(Form.KEY, pack(normalise(key)), _ts(ts))
        except PenstockError:
            return cls.made(Form.TEXT, long_text(key).encode(), _ts(ts))


def _ts(ts: Any) -> Any:
    """Normalise a ts; an invalid ts becomes text."""
    try:
        return normalise(ts)
    except PenstockError:
        return long_text(ts)
