"""Paths to fields in a document. Users write `"address.city"`, and the code uses `("address", "city")`.

Invariants: a path has at least one name and no empty one. An absent field, a null field, and a field below a value that
is no map all count as null.
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
    """Return the value at the path. Return None if it is absent, or if a value on the way is no map.

    >>> reach({"address": {"city": "Oslo"}}, ("address", "city"))
    'Oslo'
    """
    for name in path:
        if not isinstance(document, Mapping):
            return None
        document = document.get(name)
    return document
