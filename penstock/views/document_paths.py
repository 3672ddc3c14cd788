"""Paths: how a definition names a place in a document, `"address.city"` for a person and `("address", "city")` inside.

Invariants: a path has at least one name and no empty one; absent, null, and a place below something that is no map
are the same, null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.cache import DefinitionError, shown_key
from penstock.views.reducer_protocols import Path


def parse_path(text: object, what: str) -> Path:
    """The dotted path as a tuple; `what` names the argument in the error.

    >>> parse_path("address.city", "key=")
    ('address', 'city')
    """
    if not isinstance(text, str):
        raise DefinitionError(f"{what} is {shown_key(text)}; write a path as text, such as 'name' or 'address.city'")
    path = tuple(text.split("."))
    if "" in path:
        raise DefinitionError(
            f"{what} is {shown_key(text)}; a path is names with dots between them, such as 'address.city'"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DefinitionError(f"{what} is {shown_key(text)}; write a path without half a surrogate pair") from None
    return path


def reach(document: object, path: Path) -> Any:
    """What stands at the path; None where it is absent or where something on the way is no map.

    >>> reach({"address": {"city": "Oslo"}}, ("address", "city"))
    'Oslo'
    """
    for name in path:
        if not isinstance(document, Mapping):
            return None
        document = document.get(name)
    return document
