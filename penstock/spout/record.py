"""What a spout delivers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.cache import repr_by_fields


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a source: a document of a table, or with `doc=None` a deletion of `key`.

    `doc` is a map, or a JSON object as bytes or text. `ts` counts for deletions, and for documents of a table whose ts
    is "@kafka"; else the document's own field does. `offset` is the record's place in its source. A `repost` changes no
    document: it says that `doc` may once have been told, and nothing should be left of that.

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
