"""Pack rows of columns as documents, each through one struct: to the bytes that `pack_document` gives for its map."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from penstock.cache.encoding.value_walk import PLAIN

_encode = msgspec.msgpack.Encoder().encode


class RowPacker:
    """The packer of rows with these field names.

    >>> from penstock.cache.encoding.values import pack_document
    >>> RowPacker(("id", "name")).lines([[7, 8], ["Sue", None]])[1] == pack_document({"id": 8, "name": None})
    True
    """

    __slots__ = ("_struct",)

    def __init__(self, names: Sequence[str]) -> None:
        fields = [(f"f{i}", Any) for i in range(len(names))]
        rename = dict(zip((name for name, _ in fields), names, strict=True))
        self._struct: Any = None
        if len(set(names)) == len(names):
            with suppress(ValueError):  # msgspec can't give a field some names
                self._struct = msgspec.defstruct("Row", fields, rename=rename, gc=False)

    def lines(self, columns: Sequence[Sequence[Any]]) -> list[bytes] | None:
        """Return the documents of the rows. Return None if a value is not plain, and the rows need a closer look."""
        if self._struct is None:
            return None
        for column in columns:
            types = set(map(type, column))
            if not types <= PLAIN or (float in types and any(value != value for value in column)):
                return None
        try:
            return list(map(_encode, map(self._struct, *columns)))
        except (OverflowError, UnicodeEncodeError):
            return None
