"""The record that a spout delivers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.cache import repr_by_fields


@dataclass(frozen=True, slots=True)
class Record:
    """One record: a document of a table, or with `doc=None` a deletion of `key`.

    `doc` is a map, or a JSON object as bytes or text. `ts` is used for deletions, and for documents of a table whose ts
    is "@kafka". Other documents have their ts in a field. `offset` is the record's offset. A `repost` does not change
    the document: it removes all that views may have counted for the old value `doc`.

    >>> Record("users", 7, {"id": 7, "name": "Sue"}, offset=41).doc["name"]
    'Sue'
    """

    table: str
    key: Any
    doc: Mapping[str, Any] | bytes | str | None
    ts: Any = None
    offset: int | None = None
    repost: bool = False

    __repr__ = repr_by_fields
