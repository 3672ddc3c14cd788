"""How rows are read of a view of which only its stored definition is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from penstock.mapreduce.fold.feed_rows import RowReading
from penstock.mapreduce.fold.row_format import RowCodec, RowState
from penstock.mapreduce.plain_index import IndexCodec
from penstock.mapreduce.reducers.invertible import reducer_from

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
