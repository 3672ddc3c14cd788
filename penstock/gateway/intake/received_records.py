"""What was received of a record that can't be taken, as quarantine keeps it.

Of bytes it is the bytes, of a dict the MessagePack that it would have been stored as, of anything else what can be told
of it. Up to 128 MiB it is kept whole. Of a longer record of a spout the first 1 MiB is kept, and the size. A
longer record of a caller is refused to the caller.
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
    """What the bytes are."""

    JSON = "json"
    """A document as it came."""
    PACKED = "packed"
    """A document in MessagePack."""
    WIRE = "wire"
    """A record that names its own table, as JSON or in MessagePack."""
    KEY = "key"
    """The key of a deletion, packed."""
    TEXT = "text"
    """No document in itself: a row of a file with a head, or the text of what can't be stored."""


@dataclass(frozen=True, slots=True)
class ReceivedRecord:
    """What was received of one record; `size` is that of all of it, of which `data` may be the beginning.

    >>> ReceivedRecord.of(b'{"name": "Sue"}').data, ReceivedRecord.of({"name": "Sue"}).form
    (b'{"name": "Sue"}', <Form.PACKED: 'packed'>)
    """

    form: Form
    data: bytes
    size: int
    ts: Any = None  # what came beside it

    @property
    def whole(self) -> bool:
        """Whether all of it is kept."""
        return len(self.data) == self.size

    @classmethod
    def made(cls, form: Form, data: bytes, ts: Any = None, size: int | None = None) -> ReceivedRecord:
        """Keep the bytes, or the beginning of more than 128 MiB."""
        size = len(data) if size is None else size
        return cls(form, data if size <= MOST_RECEIVED else data[:_HEAD], size, ts)

    @classmethod
    def whole_of(cls, doc: Any, ts: Any = None) -> ReceivedRecord:
        """Keep a document that a caller hands over; PenstockError if it can't be kept whole."""
        received = cls.of(doc, ts)
        if not received.whole:
            raise PenstockError(
                f"a record of {size_text(received.size)} is too large, also for quarantine, which keeps up to "
                f"{size_text(MOST_RECEIVED)}; nothing of its batch was put. Put records of at most 16 MiB"
            )
        return received

    @classmethod
    def of(cls, doc: Any, ts: Any = None) -> ReceivedRecord:
        """What was handed over as a document."""
        ts = _ts(ts)
        if isinstance(doc, str):
            return cls.made(Form.JSON, doc.encode("utf-8", "surrogatepass"), ts)
        if isinstance(doc, bytes | bytearray | memoryview):
            return cls.made(Form.JSON, bytes(doc), ts)
        if isinstance(doc, Mapping):
            try:
                return cls.made(Form.PACKED, pack_document(doc), ts)
            except PenstockError:
                pass  # its text is what can be kept of it
        return cls.made(Form.TEXT, long_text(doc).encode(), ts)

    @classmethod
    def of_line(cls, line: bytes, ts: Any = None) -> ReceivedRecord:
        """A document in stored form: JSON as it came, or MessagePack."""
        return cls.made(Form.JSON if is_json(line) else Form.PACKED, line, ts)

    @classmethod
    def of_wire(cls, line: bytes) -> ReceivedRecord:
        """A record that names its own table, in stored form."""
        return cls.made(Form.WIRE, line)

    @classmethod
    def of_key(cls, key: Any, ts: Any = None) -> ReceivedRecord:
        """The key of a deletion."""
        try:
            return cls.made(Form.KEY, pack(normalise(key)), _ts(ts))
        except PenstockError:
            return cls.made(Form.TEXT, long_text(key).encode(), _ts(ts))


def _ts(ts: Any) -> Any:
    """A ts as it can be kept: what can't be one is told in words."""
    try:
        return normalise(ts)
    except PenstockError:
        return long_text(ts)
