"""The interface of all readers of tables, and the reader of a table with several partitions.

Invariant: a document is in the partition that owns its key, so a point read asks one partition.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from penstock.cache import KeyKind, KeyTooLong, checked, encode_key, is_json, key_error, normal_key, unpack_document
from penstock.gateway.lines.stored_lines import is_wrapped, unwrap
from penstock.gateway.view_deltas import document_of, key_value
from penstock.views import Row, Table

__all__ = ["PartitionedTable", "TableReading"]

_ABSENT = object()


class TableReading(ABC):
    """The documents of one table in one snapshot."""

    def __init__(self, table: Table, held: Callable[[], frozenset[bytes]]) -> None:
        self.name = table.name
        self._table = table
        self._held = held

    def __repr__(self) -> str:
        return f"<table {self.name!r}>"

    def __getitem__(self, key: Any) -> dict[str, Any]:
        document = self.get(key, _ABSENT)
        if document is _ABSENT:
            raise key_error(key)
        out: dict[str, Any] = document
        return out

    def __contains__(self, key: Any) -> bool:
        return self.get(key, _ABSENT) is not _ABSENT

    @abstractmethod
    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Row]:
        return self.items()

    @property
    @abstractmethod
    def tombstones(self) -> int:
        """Count the deletions that the table remembers."""

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the document of a key, or `default` if there is none."""
        return self._get([key], default)[0]

    @checked
    def get_many(self, keys: Iterable[Any], default: Any = None) -> list[Any]:
        """Return the documents of several keys, in their order."""
        return self._get(keys, default)

    def _get(self, keys: Iterable[Any], default: Any) -> list[Any]:
        out: list[Any] = []
        for line in self.lines_of(keys):
            if line is None:
                out.append(default)
            else:
                out.append(document_of(line) if is_wrapped(line) else unpack_document(line))
        return out

    @abstractmethod
    def lines_of(self, keys: Iterable[Any]) -> list[bytes | None]:
        """Return the stored lines of several keys, in their order; None for a key without a document."""

    def row(self, key: Any) -> Row:
        """Return the document of a key as a row with a mark if a view holds it; KeyError if there is none."""
        document = self[key]
        try:
            return Row(normal_key(key), document, encode_key(key) in self._held())
        except (KeyKind, KeyTooLong):
            raise key_error(key) from None

    @checked
    def json_rows(self, keys: Iterable[Any], encode: Callable[[Any], bytes]) -> list[tuple[bytes, bool] | None]:
        """Return the documents of several keys as JSON, each with True if a view holds it; None for an absent one.

        A document that was put as JSON comes as it was stored. `encode` writes any other one.
        """
        wanted, held = list(keys), self._held()
        out: list[tuple[bytes, bool] | None] = []
        for key, line in zip(wanted, self.lines_of(wanted), strict=True):
            if line is None:
                out.append(None)
                continue
            if is_wrapped(line):
                text = encode(document_of(line))
            else:
                text = line if is_json(line) else encode(unpack_document(line))
            out.append((text, bool(held) and encode_key(key) in held))
        return out

    def items(self) -> Iterator[Row]:
        """Iterate over all documents, in the order of their lines in the store."""
        held = self._held()
        for line in self.lines():
            if unwrap(line).absent:
                continue
            document = document_of(line)
            key = key_value(self._table, document)
            yield Row(normal_key(key), document, encode_key(key) in held)

    @abstractmethod
    def lines(self) -> Iterator[bytes]:
        """Iterate over the newest lines of all keys, including tombstones."""


class PartitionedTable(TableReading):
    """The documents of a table with these partitions; `owners` returns the owners of encoded keys."""

    def __init__(
        self,
        table: Table,
        parts: Sequence[TableReading],
        owners: Callable[[Sequence[bytes]], Sequence[int]],
        held: Callable[[], frozenset[bytes]],
    ) -> None:
        super().__init__(table, held)
        self._parts = tuple(parts)
        self._owners = owners

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @property
    def tombstones(self) -> int:
        """Count the deletions that all partitions remember."""
        return sum(part.tombstones for part in self._parts)

    def lines_of(self, keys: Iterable[Any]) -> list[bytes | None]:
        """Return the stored lines of several keys, in their order; None for a key without a document."""
        wanted = list(keys)
        out: list[bytes | None] = [None] * len(wanted)
        where: dict[int, list[int]] = {}
        for i, owner in enumerate(self._owners([encode_key(key) for key in wanted])):
            where.setdefault(owner, []).append(i)
        for owner, places in where.items():
            for i, line in zip(places, self._parts[owner].lines_of([wanted[i] for i in places]), strict=True):
                out[i] = line
        return out

    def lines(self) -> Iterator[bytes]:
        """Iterate over the newest lines of all keys, including tombstones, partition by partition."""
        return chain.from_iterable(part.lines() for part in self._parts)
