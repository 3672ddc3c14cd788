"""Fields of messages that contain JSON: keys, groups, values and position tokens.

A value without a JSON form is an object with one name that begins with a dollar, so a client gets the exact value back.
"""

from __future__ import annotations

from typing import Any

from penstock.cache import DefinitionError
from penstock.views import Position, group_of_json, json_text, json_value, restored_json

__all__ = ["json_field", "key_of_field", "position_field", "position_of_field", "value_of_field"]


def json_field(value: Any) -> bytes:
    """Return the field of a key, a group or a value.

    >>> json_field(("NO", b"x"))
    b'["NO", {"$bytes": "eA=="}]'
    """
    return json_text(value, exact=True).encode()


def key_of_field(data: bytes, name: str) -> Any:
    """Return the key or group of a field; `name` is its place in the request.

    >>> key_of_field(b'["NO", 1]', "keys 1")
    ('NO', 1)
    """
    return group_of_json(_value(data, name))


def value_of_field(data: bytes) -> Any:
    """Return the value of a field of an answer."""
    return restored_json(_value(data, "value"))


def position_field(position: Position) -> bytes:
    """Return the position token of a position.

    >>> position_field((181, 7)), position_of_field(b"[181, 7]", "token")
    (b'[181, 7]', (181, 7))
    """
    return json_text(position if isinstance(position, int) else list(position)).encode()


def position_of_field(data: bytes, name: str) -> Position:
    """Return the position of a token."""
    found = _value(data, name)
    numbers = found if isinstance(found, list) else [found]
    if not numbers or any(type(one) is not int or one < 0 for one in numbers):
        raise DefinitionError(f"{name} is no position token; send one that an answer had")
    return tuple(found) if isinstance(found, list) else found


def _value(data: bytes, name: str) -> Any:
    try:
        return json_value(data)
    except (ValueError, RecursionError):
        raise DefinitionError(f'{name} is no JSON; write text in quotes, for example "NO"') from None
