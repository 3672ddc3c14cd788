r"""Values as JSON, in and out: groups, keys, documents, results.

Out: tuples become lists; ints and Decimals become numbers with all their digits. A value without a JSON form becomes an
object with one name that begins with a dollar: {"$bytes": "base64"}, {"$float": "nan"}. With `exact` Decimals become
{"$decimal": "1.50"}.

In: an argument that isn't JSON is text. In a group or key a list becomes a tuple, and an object with a dollar name
becomes its value. So `get` accepts groups as `query` prints them.

>>> group_of("Joe"), group_of("7"), group_of('"7"'), group_of('["NO", 1]')
('Joe', 7, '7', ('NO', 1))
>>> dumps({"sum": Decimal("1.50"), "at": (1, b"\x00")})
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
from penstock.cli.context import WRONG
from penstock.cli.exit_errors import ExitError
from penstock.views import Position

_BYTES, _FLOAT, _DECIMAL = "$bytes", "$float", "$decimal"


def dumps(value: Any, exact: bool = False) -> str:
    """Return a value as JSON on one line."""
    try:
        return _quick(value)
    except (TypeError, ValueError):
        return "".join(_written(value, exact))


def spelt(position: Position) -> str:
    """Return a position for people: one number, or the numbers of all partitions.

    >>> spelt(1200), spelt((1200, 7))
    ('1,200', '1,200 + 7')
    """
    return f"{position:,}" if isinstance(position, int) else " + ".join(f"{own:,}" for own in position)


def pretty(value: Any) -> str:
    """Return a value as JSON for people, on several lines if it is long."""
    short = dumps(value)
    if len(short) <= _NARROW or not isinstance(value, dict | list | tuple):
        return short
    return _indented(value, "")


def loads(text: str | bytes) -> Any:
    """Return the value of a JSON text: ints of at most 10,000 digits, finite floats. Raise ValueError otherwise."""
    return decode_json(text if isinstance(text, str) else text.decode())


def group_of(text: str) -> Any:
    """Return the group or key that an argument stands for."""
    try:
        value = loads(text)
    except ValueError:
        return text
    return as_group(value)


def as_group(value: Any) -> Any:
    """Return the group or key that a JSON value stands for."""
    if isinstance(value, list):
        return tuple(map(as_group, value))
    return restored(value) if isinstance(value, dict) else value


def restored(value: Any) -> Any:
    """Return a value with the forms of bytes, floats and Decimals decoded. Other maps and lists stay as they are."""
    if isinstance(value, list):
        return list(map(restored, value))
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
    return {name: restored(inner) for name, inner in value.items()}


def object_of(text: str, what: str = "the document") -> dict[str, Any]:
    """Return the JSON object of an argument. The fault for any other text names the place of the error."""
    try:
        value = loads(text)
    except json.JSONDecodeError as error:
        raise ExitError(
            f"{what} is no JSON: {error.msg.lower()} at character {error.pos + 1} of {_cut(text)}; {_AS_IN}", WRONG
        ) from None
    except ValueError as error:
        raise ExitError(f"{what} is no JSON: {error}", WRONG) from None
    if not isinstance(value, dict):
        raise ExitError(
            f"""{what} is {_cut(text)} and no JSON object; write it as in '{{"id": 7, "name": "Sue"}}'""", WRONG
        )
    return value


_NARROW = 100
_AS_IN = """write it in single quotes, as in '{"id": 7, "name": "Sue"}'"""
_quick = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False).encode


def _cut(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")


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


def _indented(value: Any, margin: str) -> str:
    short = dumps(value)
    if len(short) + len(margin) <= _NARROW or not isinstance(value, dict | list | tuple) or not value:
        return short
    inner = margin + "  "
    if isinstance(value, dict):
        rows = [f"{_quick(name)}: {_indented(item, inner)}" for name, item in value.items()]
        return "{\n" + ",\n".join(inner + row for row in rows) + f"\n{margin}}}"
    return "[\n" + ",\n".join(inner + _indented(item, inner) for item in value) + f"\n{margin}]"
