"""How rows are read of a view of which only its stored definition is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from penstock.mapreduce.feed import RowReading
from penstock.mapreduce.indexed import IndexCodec
from penstock.mapreduce.reducers import reducer_from
from penstock.mapreduce.rowcodec import RowCodec, RowState

__all__ = ["StoredCodec", "codec_from"]


class StoredCodec(RowReading, Protocol):
    """Reads rows of a view as they are stored, too."""

    def decode(self, key: bytes, row: bytes, where: str) -> RowState:
        """What a stored row holds."""
        ...


def codec_from(described: Mapping[str, Any]) -> StoredCodec:
    """The codec of a view that was described so."""
    if not described["reducers"]:
        return IndexCodec()
    return RowCodec([reducer_from(reducer) for reducer in described["reducers"]], described["fields"])
