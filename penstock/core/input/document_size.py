"""The largest size of a document, and the refusal of a longer one."""

from __future__ import annotations

from penstock.cache import RecordError

MOST_BYTES = 16 << 20


def sized(line: bytes) -> bytes:
    """Return the line. Raise RecordError if it is longer than a document may be."""
    if len(line) > MOST_BYTES:
        raise RecordError(f"it has {len(line)} bytes, more than {MOST_BYTES}")
    return line
