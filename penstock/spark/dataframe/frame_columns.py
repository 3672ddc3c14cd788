"""Groups, results and documents as columns of a DataFrame: their names, types and Arrow values.

A view has the column `key`, or for tuple groups `key_1`, `key_2` and so on, then `value` or the fields of its rows. A
plain index has `source` before the value. A table has a column for each field. Types are those of the first rows,
unless a schema is given. A column of lists, maps or several types is JSON text. Invariant: a value that does not fit
its column is an error, and is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from penstock.cache import PenstockError, value_text
from penstock.engine import Snapshot

__all__ = ["FrameColumns", "Unfit", "arrow_of", "chunks", "group_columns", "key_names", "shape_of"]

_LOOKED = 1000
_INT = 1 << 63
_SCALARS = {bool: "boolean", int: "bigint", float: "double", str: "string", bytes: "binary", Decimal: "decimal(38,18)"}
_json = msgspec.json.Encoder(decimal_format="number").encode


class Unfit(PenstockError):
    """A value that is not of its column's type.

    >>> print(Unfit("view 'revenue'", "value", "'much' is no int"))
    view 'revenue', column 'value': 'much' is no int; give another schema, as in .schema("key string, value string")
    """

    def __init__(self, where: str, column: str, reason: str) -> None:
        super().__init__(where, column, reason)
        self.where = where
        self.column = column
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.where}, column {self.column!r}: {self.reason}; give another schema, as in "
            '.schema("key string, value string")'
        )


@dataclass(frozen=True, slots=True)
class FrameColumns:
    """The columns of a view or table: names and types, as Spark writes them. The columns `keys` distinguish rows."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    keys: int = 0

    @property
    def ddl(self) -> str:
        """Return the columns as a schema."""
        return ", ".join(
            f"`{name.replace('`', '``')}` {kind}" for name, kind in zip(self.names, self.types, strict=True)
        )


def shape_of(snap: Snapshot, view: str | None, table: str | None) -> FrameColumns:
    """Return the shape of a view or table, from its first rows."""
    if table is not None:
        rows = [row.value for _, row in zip(range(_LOOKED), snap.table(table).items(), strict=False)]
        names = list(dict.fromkeys(name for row in rows for name in row))
        return FrameColumns(tuple(names), tuple(_type_of([row.get(name) for row in rows]) for name in names))
    assert view is not None, "one of the two is asked for"
    node = snap.schema.view(view, snap.reader())
    looked = [(row.key, row.value) for _, row in zip(range(_LOOKED), snap.view(view).items(), strict=False)]
    keys = _key_columns([key for key, _ in looked], node.view.index)
    fields = node.view.fields
    values = {"value": [value for _, value in looked]}
    if fields is not None:
        values = {name: [None if value is None else value[name] for _, value in looked] for name in fields}
    columns = {**keys, **values}
    return FrameColumns(tuple(columns), tuple(map(_type_of, columns.values())), len(keys))


def _key_columns(keys: Sequence[Any], index: bool) -> dict[str, list[Any]]:
    if index:
        return _entry_columns(keys)
    sizes = {len(key) if isinstance(key, tuple) else -1 for key in keys}
    if len(sizes) == 1 and (size := next(iter(sizes))) > 0:
        return {f"key_{i + 1}": [key[i] for key in keys] for i in range(size)}
    return {"key": list(keys)}


def _entry_columns(keys: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the columns of a plain index. A view of an earlier version of Penstock has no rank of 0."""
    ranks = [key[2] if len(key) > 2 else 0 for key in keys]
    return {"key": [key[0] for key in keys], "source": [key[1] for key in keys], "rank": ranks}


def key_names(names: Sequence[str]) -> list[str]:
    """Return the columns that are parts of a group."""
    return [name for name in names if name == "key" or name.startswith("key_")]


def _type_of(values: Sequence[Any]) -> str:
    """Return the common type of these values."""
    kinds = {type(value) for value in values if value is not None}
    big = int in kinds and any(type(v) is int and not -_INT <= v < _INT for v in values)
    if len(kinds) == 1 and not big:
        return _SCALARS.get(next(iter(kinds)), "string")
    if kinds == {int}:
        return "decimal(38,0)"
    if kinds == {int, float} and not big:
        return "double"
    return "decimal(38,18)" if kinds == {int, Decimal} and not big else "string"


def group_columns(keys: Sequence[Any], names: Sequence[str], index: bool) -> dict[str, list[Any]]:
    """Return the columns of groups, by name."""
    if index:
        return _entry_columns(keys)
    own = [name for name in names if name.startswith("key_")]
    if not own:
        return {"key": list(keys)}
    return {
        name: [key[i] if isinstance(key, tuple) and i < len(key) else None for key in keys]
        for i, name in ((int(name[4:]) - 1, name) for name in own)
    }


def arrow_of(columns: dict[str, list[Any]], schema: Any, where: str) -> Any:
    """Return a batch of columns of these types. Raise Unfit if a value does not have its type."""
    import pyarrow as pa

    arrays = []
    for field in schema:
        values = columns.get(field.name)
        if values is None:
            raise Unfit(where, field.name, f"there is no such column, but {', '.join(columns)}")
        make = _maker(field.type)
        try:
            arrays.append(pa.array([None if v is None else make(v) for v in values], field.type))
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            bad = next((v for v in values if not _fits(v, make, field.type)), None)
            raise Unfit(where, field.name, f"{value_text(bad)} is no {field.type}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _maker(kind: Any) -> Callable[[Any], Any]:
    """Return a function that converts a value to a type."""
    import pyarrow as pa

    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text
    if pa.types.is_decimal(kind):
        return Decimal
    if pa.types.is_floating(kind):
        return _number
    return _same


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value).decode()


def _number(value: Any) -> float:
    if isinstance(value, bool | str):
        raise TypeError(value)
    return float(value)


def _same(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _fits(value: Any, make: Callable[[Any], Any], kind: Any) -> bool:
    import pyarrow as pa

    try:
        pa.array([None if value is None else make(value)], kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return False
    return True


def chunks(rows: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Yield lists of at most `size` rows."""
    chunk: list[Any] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
