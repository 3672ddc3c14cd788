"""Codecs for rows of views of which only the stored definition is available."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from penstock.mapreduce.fold.feed_rows import RowReading
from penstock.mapreduce.fold.row_format import RowCodec, RowState
from penstock.mapreduce.plain_index import IndexCodec
from penstock.mapreduce.reducers.invertible import reducer_from

__all__ = ["StoredCodec", "codec_from"]


class StoredCodec(RowReading, Protocol):
    """A decoder of a view's rows that also reads whole stored rows."""

    def decode(self, key: bytes, row: bytes, where: str) -> RowState:
        """Decode a stored row."""
        ...


def codec_from(described: Mapping[str, Any]) -> StoredCodec:
    """Return the codec of a view from its description."""
    if not described["reducers"]:
        return IndexCodec()
    return RowCodec([reducer_from(reducer) for reducer in described["reducers"]], described["fields"])
