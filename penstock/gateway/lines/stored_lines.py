"""Stored lines: a document as it was received, or wrapped with additional data of its table.

A wrapped line is a MessagePack array. No document begins with an array:

    [0, key, ts]                the document is absent since ts (a table without ts: nil)
    [1, ts, line]               a document with a ts from outside it
    [2, floor, {field: ts}, {…}]
                                a document merged from patches: the ts of the last deletion, ts by field, the fields
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.cache import pack, unpack

ABSENT, STAMPED, PATCHED = 0, 1, 2


def is_wrapped(line: bytes) -> bool:
    """Return True if the line is an array, and so not a plain document."""
    return line[0] & 0xF0 == 0x90


def absent_line(key: Any, ts: Any) -> bytes:
    """Encode the line of a key without a document."""
    return pack([ABSENT, list(key) if isinstance(key, tuple) else key, ts])


def stamped_line(ts: Any, line: bytes) -> bytes:
    """Encode a document with its ts."""
    return pack([STAMPED, ts, line])


def patched_line(patched: PatchedDocument) -> bytes:
    """Encode a document merged from patches."""
    return pack([PATCHED, patched.floor, patched.stamps, patched.fields])


@dataclass(slots=True)
class PatchedDocument:
    """A merged document: its fields, their ts, and the ts of the last deletion (None: no deletion, or no ts)."""

    fields: dict[str, Any]
    stamps: dict[str, Any]
    floor: Any = None


@dataclass(slots=True)
class StoredLine:
    """The decoded content of a stored line."""

    line: bytes | None  # the document, None if it is absent or merged
    patched: PatchedDocument | None
    ts: Any
    key: Any

    @property
    def absent(self) -> bool:
        """Return True if there is no document."""
        return self.line is None and (self.patched is None or not self.patched.fields)


def unwrap(line: bytes) -> StoredLine:
    """Decode a stored line."""
    if not is_wrapped(line):
        return StoredLine(line, None, None, None)
    kind, *rest = unpack(line)
    if kind == ABSENT:
        key = tuple(rest[0]) if isinstance(rest[0], list) else rest[0]
        return StoredLine(None, None, rest[1], key)
    if kind == STAMPED:
        return StoredLine(rest[1], None, rest[0], None)
    floor, stamps, fields = rest
    return StoredLine(None, PatchedDocument(fields, stamps, floor), None, None)
