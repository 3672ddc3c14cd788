"""Paths to fields in a document. Users write `"address.city"`, and the code uses `("address", "city")`.

Invariants: a path has at least one name and no empty one. An absent field, a null field, and a field below a value that
is no map all count as null. The key of a view row may be a tuple: `"key.0"` is its first part. Documents of tables hold
lists, not tuples, and a list has no parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.cache import DefinitionError, key_text
from penstock.views.reducer_protocols import Path


def parse_path(text: object, what: str) -> Path:
    """Convert a dotted path to a tuple. `what` names the argument in the error.

    >>> parse_path("address.city", "key=")
    ('address', 'city')
    """
    if not isinstance(text, str):
        raise DefinitionError(f"{what} is {key_text(text)}; write a path as text, such as 'name' or 'address.city'")
    path = tuple(text.split("."))
    if "" in path:
        raise DefinitionError(
            f"{what} is {key_text(text)}; a path is names with dots between them, such as 'address.city'"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DefinitionError(f"{what} is {key_text(text)}; write a path without half a surrogate pair") from None
    return path


def reach(document: object, path: Path) -> Any:
    """Return the value at the path. Return None if it is absent, or if a value on the way is no map and no tuple.

    >>> reach({"address": {"city": "Oslo"}}, ("address", "city"))
    'Oslo'
    >>> reach({"key": ("Oslo", "Sue")}, ("key", "1"))
    'Sue'
    """
    for name in path:
        if isinstance(document, Mapping):
            document = document.get(name)
        elif isinstance(document, tuple):
            document = _part(document, name)
        else:
            return None
    return document


def is_part(name: str) -> bool:
    """Return True if a name in a path is the number of a part of a tuple.

    >>> [is_part(name) for name in ("0", "12", "01", "-1", "city")]
    [True, True, False, False, False]
    """
    return name.isascii() and name.isdigit() and (name == "0" or name[0] != "0") and len(name) <= _DIGITS


_DIGITS = 5  # a key has at most 65,536 bytes


def _part(key: tuple[Any, ...], name: str) -> Any:
    return key[int(name)] if is_part(name) and int(name) < len(key) else None
