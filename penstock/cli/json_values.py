"""JSON of the command line: values for people, and the objects that arguments stand for.

The forms of values are those of `penstock.views`: an argument that isn't JSON is text.
"""

from __future__ import annotations

import json
from typing import Any

from penstock.cli.context import WRONG
from penstock.cli.exit_errors import ExitError
from penstock.views import Position
from penstock.views import group_of_json as as_group
from penstock.views import group_of_text as group_of
from penstock.views import json_text as dumps
from penstock.views import json_value as loads
from penstock.views import restored_json as restored

__all__ = ["as_group", "dumps", "group_of", "loads", "object_of", "pretty", "restored", "spelt"]


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


def _cut(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")


def _indented(value: Any, margin: str) -> str:
    short = dumps(value)
    if len(short) + len(margin) <= _NARROW or not isinstance(value, dict | list | tuple) or not value:
        return short
    inner = margin + "  "
    if isinstance(value, dict):
        rows = [f"{dumps(name)}: {_indented(item, inner)}" for name, item in value.items()]
        return "{\n" + ",\n".join(inner + row for row in rows) + f"\n{margin}}}"
    return "[\n" + ",\n".join(inner + _indented(item, inner) for item in value) + f"\n{margin}]"
