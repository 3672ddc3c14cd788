"""Read durations that users write, such as "2s" or "10m", as microseconds.

Invariant: a duration is an int of microseconds, 0 or more, and below 290,000 years.
"""

from __future__ import annotations

import math
import re
from typing import Literal

from penstock.cache.errors import DefinitionError
from penstock.cache.messages import key_text

__all__ = ["UNITS", "Unit", "duration_of", "duration_text"]

Unit = Literal["s", "ms", "us"]
UNITS: dict[str, int] = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""The microseconds of each unit of `ts`."""

_SIZES = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_TEXT = re.compile(r"([0-9]{1,18})(us|ms|s|m|h|d)")
_MOST = 290_000 * 31_556_952 * 1_000_000


def duration_of(given: object, what: str, unit: str = "s") -> int:
    """Return the microseconds of a duration: text, or a number in the unit. `what` names the argument in the error.

    >>> duration_of("250ms", "lateness="), duration_of("10m", "idle="), duration_of(1.5, "lateness=")
    (250000, 600000000, 1500000)
    """
    out: int | None = None
    if isinstance(given, str):
        found = _TEXT.fullmatch(given)
        out = None if found is None else int(found[1]) * _SIZES[found[2]]
    elif isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
        out = math.floor(given * UNITS[unit])
    if out is None or not 0 <= out < _MOST:
        raise DefinitionError(
            f"{what} is {key_text(given)}; write a duration such as '2s', '10m', '7d' or '250ms', or a number of 0 or "
            f"more in {unit}"
        )
    return out


def duration_text(micros: int) -> str:
    """Return the shortest text of a duration: in days, hours, minutes, seconds, milliseconds or microseconds.

    >>> duration_text(600_000_000), duration_text(90_000_000), duration_text(0)
    ('10m', '90s', '0s')
    """
    for name in ("d", "h", "m", "s", "ms"):
        if micros % _SIZES[name] == 0 and micros >= _SIZES[name]:
            return f"{micros // _SIZES[name]}{name}"
    return f"{micros}us" if micros else "0s"
