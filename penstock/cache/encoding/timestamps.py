"""Convert RFC 3339 text to exact nanoseconds since 1970-01-01T00:00:00Z, so that texts compare by instant."""

from __future__ import annotations

import re
from datetime import date

_FORM = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_EPOCH = date(1970, 1, 1).toordinal()
_DAY = 86_400
_NANO = 1_000_000_000


def parse_rfc3339(text: str) -> int:
    """Convert an RFC 3339 text, from year 0001 to 9999, to nanoseconds since 1970. Raise ValueError for any other text.

    The UTC offset is required. The T may be a space. A fraction has at most nine digits. A leap second, which is the
    last second of a UTC day, counts as the second after it.

    >>> parse_rfc3339("1970-01-01T01:00:00.5+01:00"), parse_rfc3339("1969-12-31T23:59:59Z")
    (500000000, -1000000000)
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not RFC 3339; write it like 2024-01-31T08:00:00Z, with its offset")
    year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
    fraction, sign, offset_hour, offset_minute = match.group(7, 8, 9, 10)
    try:
        days = date(year, month, day).toordinal() - _EPOCH
    except ValueError as error:
        raise ValueError(f"{text!r} is no date: {error}") from None
    shift = 0
    if sign:
        if offset_hour > "23" or offset_minute > "59":
            raise ValueError(f"{text!r} has no such offset; it goes to 23:59")
        shift = (int(offset_hour) * 60 + int(offset_minute)) * 60
    if hour > 23 or minute > 59 or second > 60:
        raise ValueError(f"{text!r} is no time of day; it goes to 23:59:59")
    seconds = days * _DAY + hour * 3600 + minute * 60 + second - (-shift if sign == "-" else shift)
    if second == 60 and seconds % _DAY:
        raise ValueError(f"{text!r} is no leap second; it is the last one of a day of UTC")
    return seconds * _NANO + (int(fraction.ljust(9, "0")) if fraction else 0)
