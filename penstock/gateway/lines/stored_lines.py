"""Stored lines: a document as it was received, or wrapped with what its table keeps beside it.

A wrapped line is a MessagePack array, which no document begins like:

    [0, key, ts]                the document is absent since ts (a table without ts: nil)
    [1, ts, line]               a document whose ts is not in it
    [2, floor, {field: ts}, {…}]
                                a document merged from patches: the ts of the last deletion, each field's ts, the fields
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.cache import pack, unpack

ABSENT, STAMPED, PATCHED = 0, 1, 2


def is_wrapped(line: bytes) -> bool:
    """Whether it is an array, and so no document itself."""
    return line[0] & 0xF0 == 0x90


def absent_line(key: Any, ts: Any) -> bytes:
    """The line that says that a key has no document."""
    return pack([ABSENT, list(key) if isinstance(key, tuple) else key, ts])


def stamped_line(ts: Any, line: bytes) -> bytes:
    """A document with its ts."""
    return pack([STAMPED, ts, line])


def patched_line(patched: PatchedDocument) -> bytes:
    """A document merged from patches."""
    return pack([PATCHED, patched.floor, patched.stamps, patched.fields])


@dataclass(slots=True)
class PatchedDocument:
    """A merged document: its fields, the ts of each, and the ts of the last deletion (None: none, or no ts at all)."""

    fields: dict[str, Any]
    stamps: dict[str, Any]
    floor: Any = None


@dataclass(slots=True)
class StoredLine:
    """What a stored line holds."""

    line: bytes | None  # the document, None if it is absent or merged
    patched: PatchedDocument | None
    ts: Any
    key: Any

    @property
    def absent(self) -> bool:
        """Whether there is no document."""
        return self.line is None and (self.patched is None or not self.patched.fields)


def unwrap(line: bytes) -> StoredLine:
    """What a stored line holds."""
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
