"""The format of a store, which its catalog and its layout name, and the refusal of any other format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from penstock.cache import StoreFormat

FORMAT = 2
_READABLE = (1, FORMAT)  # the first opening for writing raises an older one


class NamedFormat(msgspec.Struct):
    """The part of a catalog or a layout that every version can read."""

    format: Any = None


format_in_row = msgspec.msgpack.Decoder(NamedFormat).decode
format_in_file = msgspec.json.Decoder(NamedFormat).decode


def must_be_readable(path: str, data: bytes, decode: Callable[[bytes], NamedFormat]) -> None:
    """Raise StoreFormat if this version can't read the format that a store's catalog or layout names."""
    try:
        found = decode(data).format
    except msgspec.ValidationError:
        found = None
    if found not in _READABLE:
        raise StoreFormat(path, "unknown" if found is None else found, FORMAT)
