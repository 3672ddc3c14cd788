"""Encode and decode the fields of a frame: integers, texts, bytes, booleans, checked names, lists.

Each field kind reads a value at an offset and writes a value. Invariants:

- all integers are big-endian, and all lengths count bytes;
- reading any bytes returns a value or raises `ProtocolFault`, and nothing else;
- a boolean is 0 or 1. Decoders of other implementations disagree about every other byte, so it is refused.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any, Protocol

from penstock.connector.errors import ProtocolFault

__all__ = [
    "ADDRESS",
    "BOOLEAN",
    "BYTES16",
    "I64",
    "LONGEST_TRANSACTION",
    "REST",
    "TEXT16",
    "TRANSACTION",
    "U32",
    "U64",
    "WORKER",
    "FieldKind",
    "ListOf",
    "is_worker_name",
]

LONGEST_TRANSACTION = 512
"""The most characters of a transaction id."""

_WORKER = re.compile(r"(?!\.)[A-Za-z0-9_.-]{1,128}", re.ASCII)
_TRANSACTION = re.compile(rf"[!-~]{{1,{LONGEST_TRANSACTION}}}")


class FieldKind(Protocol):
    """One kind of field."""

    def read(self, data: bytes, at: int) -> tuple[Any, int]:
        """Return the value at an offset, and the offset after it."""
        ...

    def write(self, value: Any, out: bytearray) -> None:
        """Append a value; `ProtocolFault` if this kind cannot hold it."""
        ...


class Number:
    """An integer of fixed size."""

    def __init__(self, name: str, form: str) -> None:
        self._name = name
        self._form = struct.Struct(">" + form)

    def read(self, data: bytes, at: int) -> tuple[int, int]:
        end = at + self._form.size
        if end > len(data):
            raise _cut(self._name)
        (value,) = self._form.unpack_from(data, at)
        return value, end

    def write(self, value: int, out: bytearray) -> None:
        try:
            out += self._form.pack(value)
        except struct.error:
            raise ProtocolFault(f"the number {value!r} is no {self._name}") from None


class Sized:
    """Bytes after their length."""

    def __init__(self, length: Number) -> None:
        self._length = length

    def read(self, data: bytes, at: int) -> tuple[bytes, int]:
        size, start = self._length.read(data, at)
        if start + size > len(data):
            raise _cut(f"text of {size:,} bytes")
        return data[start : start + size], start + size

    def write(self, value: bytes, out: bytearray) -> None:
        self._length.write(len(value), out)
        out += value


class Text:
    """UTF-8 text after its length in bytes."""

    def __init__(self, sized: Sized) -> None:
        self._sized = sized

    def read(self, data: bytes, at: int) -> tuple[str, int]:
        raw, end = self._sized.read(data, at)
        try:
            return raw.decode(), end
        except UnicodeDecodeError:
            raise ProtocolFault("a text is not UTF-8") from None

    def write(self, value: str, out: bytearray) -> None:
        try:
            self._sized.write(value.encode(), out)
        except UnicodeEncodeError:
            raise ProtocolFault("a text has lone surrogates") from None


class Name:
    """ASCII text that matches a pattern."""

    def __init__(self, kind: str, pattern: re.Pattern[str], text: Text) -> None:
        self._kind = kind
        self._pattern = pattern
        self._text = text

    def read(self, data: bytes, at: int) -> tuple[str, int]:
        value, end = self._text.read(data, at)
        return self._checked(value), end

    def write(self, value: str, out: bytearray) -> None:
        self._text.write(self._checked(value), out)

    def _checked(self, value: str) -> str:
        if not self._pattern.fullmatch(value):
            raise ProtocolFault(f"{value[:40]!r} is no {self._kind}")
        return value


class Boolean:
    """One byte, 0 or 1."""

    def read(self, data: bytes, at: int) -> tuple[bool, int]:
        if at >= len(data):
            raise _cut("boolean")
        if data[at] > 1:
            raise ProtocolFault(f"the byte {data[at]} is no boolean")
        return data[at] == 1, at + 1

    def write(self, value: bool, out: bytearray) -> None:
        out.append(1 if value else 0)


class Rest:
    """All bytes up to the end of the frame."""

    def read(self, data: bytes, at: int) -> tuple[bytes, int]:
        return data[at:], len(data)

    def write(self, value: bytes, out: bytearray) -> None:
        out += value


class RestartAddress:
    """A text with a 32-bit length, or None. A body without any bytes is None too."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def read(self, data: bytes, at: int) -> tuple[str | None, int]:
        if at == len(data):
            return None, at
        value, end = self._text.read(data, at)
        return value or None, end

    def write(self, value: str | None, out: bytearray) -> None:
        self._text.write(value or "", out)


class ListOf:
    """A 32-bit count, then so many items. An item of several fields is a tuple."""

    def __init__(self, *fields: FieldKind) -> None:
        self._fields = fields

    def read(self, data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        count, at = U32.read(data, at)
        items: list[Any] = []
        for _ in range(count):  # an announced count takes no memory before its items arrive
            values = []
            for field in self._fields:
                value, at = field.read(data, at)
                values.append(value)
            items.append(tuple(values) if len(values) > 1 else values[0])
        return tuple(items), at

    def write(self, value: Sequence[Any], out: bytearray) -> None:
        U32.write(len(value), out)
        for item in value:
            for field, part in zip(self._fields, item if len(self._fields) > 1 else (item,)):
                field.write(part, out)


def _cut(kind: str) -> ProtocolFault:
    return ProtocolFault(f"a frame ends within a {kind}")


def is_worker_name(name: str) -> bool:
    """Return whether a name may identify a worker: it is safe in a path and in a shell.

    >>> is_worker_name("worker-1"), is_worker_name("../up"), is_worker_name("")
    (True, False, False)
    """
    return _WORKER.fullmatch(name) is not None


U32, U64, I64 = Number("u32", "I"), Number("u64", "Q"), Number("i64", "q")
BYTES16 = Sized(Number("u16", "H"))
TEXT16 = Text(BYTES16)
ADDRESS = RestartAddress(Text(Sized(U32)))
BOOLEAN = Boolean()
REST = Rest()
WORKER = Name("name of a worker (letters, digits, '_', '-' and '.', no dot first, at most 128)", _WORKER, TEXT16)
TRANSACTION = Name(f"transaction id (printable ASCII, at most {LONGEST_TRANSACTION})", _TRANSACTION, TEXT16)
