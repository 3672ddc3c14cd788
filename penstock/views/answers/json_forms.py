r"""Values as JSON, in and out: groups, keys, documents, results.

Out: tuples become lists; ints and Decimals become numbers with all their digits. A value without a JSON form becomes an
object with one name that begins with a dollar: {"$bytes": "base64"}, {"$float": "nan"}. With `exact` Decimals become
{"$decimal": "1.50"}.

In: a text that isn't JSON is itself. In a group or key a list becomes a tuple, and an object with a dollar name becomes
its value. So a reader accepts groups as they are printed.

>>> group_of_text("Joe"), group_of_text("7"), group_of_text('"7"'), group_of_text('["NO", 1]')
('Joe', 7, '7', ('NO', 1))
>>> json_text({"sum": Decimal("1.50"), "at": (1, b"\x00")})
'{"sum": 1.50, "at": [1, {"$bytes": "AA=="}]}'
"""

from __future__ import annotations

import binascii
import json
import math
from base64 import b64decode, b64encode
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from penstock.cache import decode_json, int_to_text

__all__ = ["group_of_json", "group_of_text", "json_text", "json_value", "restored_json"]

_BYTES, _FLOAT, _DECIMAL = "$bytes", "$float", "$decimal"


def json_text(value: Any, exact: bool = False) -> str:
    """Return a value as JSON on one line."""
    try:
        return _quick(value)
    except (TypeError, ValueError):
        return "".join(_written(value, exact))


def json_value(text: str | bytes) -> Any:
    """Return the value of a JSON text: ints of at most 10,000 digits, finite floats. Raise ValueError otherwise."""
    return decode_json(text if isinstance(text, str) else text.decode())


def group_of_text(text: str) -> Any:
    """Return the group or key that a text stands for."""
    try:
        value = json_value(text)
    except ValueError:
        return text
    return group_of_json(value)


def group_of_json(value: Any) -> Any:
    """Return the group or key that a JSON value stands for."""
    if isinstance(value, list):
        return tuple(map(group_of_json, value))
    return restored_json(value) if isinstance(value, dict) else value


def restored_json(value: Any) -> Any:
    """Return a value with the forms of bytes, floats and Decimals decoded. Other maps and lists stay as they are."""
    if isinstance(value, list):
        return list(map(restored_json, value))
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (name, inner), *_ = value.items()
        try:
            if name == _BYTES:
                return b64decode(inner, validate=True)
            if name == _FLOAT:
                return float(inner)
            if name == _DECIMAL:
                return Decimal(inner)
        except (TypeError, ValueError, ArithmeticError, binascii.Error):
            return value
    return {name: restored_json(inner) for name, inner in value.items()}


_quick = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False).encode


def _written(value: Any, exact: bool) -> list[str]:
    """Return the parts of a value's text. This is the slow form, for values that the quick encoder refuses."""
    out: list[str] = []
    if isinstance(value, Mapping):
        out.append("{")
        for i, (name, inner) in enumerate(value.items()):
            out.append(f"{', ' if i else ''}{_quick(str(name))}: ")
            out += _written(inner, exact)
        out.append("}")
    elif isinstance(value, list | tuple):
        out.append("[")
        for i, inner in enumerate(value):
            out += [", "] if i else []
            out += _written(inner, exact)
        out.append("]")
    else:
        out.append(_scalar(value, exact))
    return out


def _scalar(value: Any, exact: bool) -> str:
    if value is None or isinstance(value, bool | str):
        return _quick(value)
    if isinstance(value, int):
        return int_to_text(value)
    if isinstance(value, float):
        return _quick(value) if math.isfinite(value) else _quick({_FLOAT: repr(value)})
    if isinstance(value, Decimal):
        return _quick({_DECIMAL: str(value)}) if exact or not value.is_finite() else str(value)
    if isinstance(value, bytes):
        return _quick({_BYTES: b64encode(value).decode()})
    raise TypeError(f"{type(value).__name__} is no document value")
