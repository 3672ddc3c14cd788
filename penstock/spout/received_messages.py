"""Convert received messages to documents: JSON objects pass unchanged, and maps of MessagePack become documents."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from penstock.cache import PenstockError, RecordError, pack_document, unpack_received
from penstock.gateway import ReceivedRecord, TableBatch

__all__ = ["CONVERSION_ERRORS", "ConvertedRecords", "document_line"]

CONVERSION_ERRORS = (PenstockError, msgspec.MsgspecError, ValueError, RecursionError)
_SPACE = b" \t\r\n"
_MAPS = frozenset((*range(0x80, 0x90), 0xDE, 0xDF))  # first bytes of a map in MessagePack


@dataclass(slots=True)
class ConvertedRecords:
    """The result of converting records. Places count from 0, and those in `skips` gave no record."""

    batch: TableBatch
    skips: list[int] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    received: dict[int, ReceivedRecord] = field(default_factory=dict)


def document_line(value: bytes | None) -> bytes | None:
    """Return the stored form of a document, or None for a null."""
    if value is None:
        return None
    line = value.strip(_SPACE)
    if line[:1] == b"{":
        return line
    if value[:1] and value[0] in _MAPS:
        try:
            return pack_document(unpack_received(value))
        except CONVERSION_ERRORS as error:
            raise RecordError(f"it is no MessagePack that can be stored: {error}") from None
    raise RecordError("it is no JSON object and no MessagePack map" if line else "it is empty")
