"""Times of stream records as int64 microseconds since 1970, and their forms for users.

A ts finer than a microsecond is floored. `NEVER` is the time before all others: the watermark before the first record.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from penstock.cache import UNITS
from penstock.gateway import Stamps

__all__ = ["FAR", "NEVER", "micros_of", "micros_of_value", "shown_time", "time_text"]

Times = NDArray[np.int64]
NEVER = -(1 << 63)
"""The time before all others."""
FAR = 290_000 * 31_556_952 * 1_000_000
"""No ts is farther from 1970 than this."""
_NANOS = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros_of(stamps: Stamps, text: bool, unit: str) -> tuple[Times, NDArray[np.bool_]]:
    """Return the microseconds of ts, and a mask of those that are too far from 1970.

    `text` says that the ts are RFC 3339 texts, which stamps keep in nanoseconds.
    """
    factor = UNITS[unit]
    most = FAR * _NANOS if text else FAR // factor
    if stamps.hi is None:
        far = (stamps.lo > most) | (stamps.lo < -most)
        lane = np.where(far, 0, stamps.lo)
        return (lane // _NANOS if text else lane * factor), far
    values = [_exact(hi, lo) for hi, lo in zip(stamps.hi.tolist(), stamps.lo.tolist(), strict=True)]
    micros = [_micros(value, text, factor) for value in values]
    far = np.array([not -FAR <= value <= FAR for value in micros], bool)
    return np.array([0 if f else m for m, f in zip(micros, far.tolist(), strict=True)], np.int64), far


def micros_of_value(value: int | float, unit: str) -> int:
    """Return the microseconds of one number in a unit, floored.

    >>> micros_of_value(1.25, "s"), micros_of_value(-1, "ms")
    (1250000, -1000)
    """
    return _micros(value, False, UNITS[unit])


def _exact(hi: float, lo: int) -> int | float:
    return int(hi) + lo if hi.is_integer() else hi


def _micros(value: int | float, text: bool, factor: int) -> int:
    if text:
        return math.floor(value) // _NANOS
    return value * factor if isinstance(value, int) else math.floor(value * factor)


def shown_time(micros: int, unit: str) -> int | float | None:
    """Return a time as a number in the unit, an int if it is whole; None for `NEVER`.

    >>> shown_time(1_500_000, "s"), shown_time(2_000_000, "s"), shown_time(NEVER, "s")
    (1.5, 2, None)
    """
    if micros == NEVER:
        return None
    factor = UNITS[unit]
    return micros // factor if micros % factor == 0 else micros / factor


def time_text(micros: int) -> str:
    """Return a time as text for people.

    >>> time_text(1_500_000), time_text(0), time_text(NEVER)
    ('1970-01-01 00:00:01.500000', '1970-01-01 00:00:00', 'none yet')
    """
    if micros == NEVER:
        return "none yet"
    try:
        shown = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return f"{micros // 1_000_000} s since 1970"
    return shown.strftime("%Y-%m-%d %H:%M:%S") + (f".{shown.microsecond:06d}" if shown.microsecond else "")
