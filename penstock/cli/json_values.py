r"""Values as JSON, in and out: groups, keys, documents, results.

Out: tuples are lists, ints and Decimals numbers with all their digits. What JSON can't hold is an object with one name
that begins with a dollar: {"$bytes": "base64"}, {"$float": "nan"}, and, where it must come back as it was (`exact`),
{"$decimal": "1.50"}. In: an argument that isn't JSON is text; as a group or key a list is a tuple, and an object with
such a name is the value it stands for. So what `query` shows of a group is what `get` takes.

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
from penstock.cli.exit_errors import Fault
from penstock.views import Position

_BYTES, _FLOAT, _DECIMAL = "$bytes", "$float", "$decimal"


def dumps(value: Any, exact: bool = False) -> str:
    """A value as JSON on one line."""
    try:
        return _quick(value)
    except (TypeError, ValueError):
        return "".join(_written(value, exact))


def spelt(position: Position) -> str:
    """A position as people read it: its number, or those of all partitions.

    >>> spelt(1200), spelt((1200, 7))
    ('1,200', '1,200 + 7')
    """
    return f"{position:,}" if isinstance(position, int) else " + ".join(f"{own:,}" for own in position)


def pretty(value: Any) -> str:
    """A value as JSON on as many lines as it needs, for people."""
    short = dumps(value)
    if len(short) <= _NARROW or not isinstance(value, dict | list | tuple):
        return short
    return _indented(value, "")


def loads(text: str | bytes) -> Any:
    """The value of a JSON text, ValueError where it is none: ints of at most 10,000 digits, finite floats."""
    return decode_json(text if isinstance(text, str) else text.decode())


def group_of(text: str) -> Any:
    """The group or key that an argument means."""
    try:
        value = loads(text)
    except ValueError:
        return text
    return as_group(value)


def as_group(value: Any) -> Any:
    """The group or key that a JSON value means."""
    if isinstance(value, list):
        return tuple(map(as_group, value))
    return restored(value) if isinstance(value, dict) else value


def restored(value: Any) -> Any:
    """A value with what stands for bytes, floats and Decimals put back; other maps and lists as they are."""
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
    """The JSON object of an argument; a fault that names the place where it is none."""
    try:
        value = loads(text)
    except json.JSONDecodeError as error:
        raise Fault(
            f"{what} is no JSON: {error.msg.lower()} at character {error.pos + 1} of {_cut(text)}; {_AS_IN}", WRONG
        ) from None
    except ValueError as error:
        raise Fault(f"{what} is no JSON: {error}", WRONG) from None
    if not isinstance(value, dict):
        raise Fault(
            f"""{what} is {_cut(text)} and no JSON object; write it as in '{{"id": 7, "name": "Sue"}}'""", WRONG
        )
    return value


_NARROW = 100
_AS_IN = """write it in single quotes, as in '{"id": 7, "name": "Sue"}'"""
_quick = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False).encode


def _cut(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")


def _written(value: Any, exact: bool) -> list[str]:
    """The parts of a value's text, one by one: for what the quick encoder refuses."""
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
