"""Convert ints of any size to decimal text and back: beyond Python's limit, in less than quadratic time."""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, Inexact

MAX_DIGITS = 10_000
"""The most digits of a received int or Decimal. The cost of arithmetic and conversion grows faster than the digits."""

_DIGITS = 600  # Python converts this many digits under any setting of its limit
_BITS = 1990  # an int of this many bits has at most _DIGITS digits


_TOO_LARGE = 10**MAX_DIGITS


class TooManyDigits(ValueError):
    """A received number has more digits than the limit."""

    def __init__(self) -> None:
        super().__init__(f"a number has more than {MAX_DIGITS:,} digits")


def has_too_many_digits(value: int) -> bool:
    """Return whether an int has more digits than the limit for received values.

    >>> has_too_many_digits(10**10_000 - 1), has_too_many_digits(-(10**10_000))
    (False, True)
    """
    return not -_TOO_LARGE < value < _TOO_LARGE


def received_int(text: str) -> int:
    """Convert received decimal digits to an int.

    Raise TooManyDigits beyond the limit, and ValueError for any other text.

    >>> received_int("-7")
    -7
    """
    if len(text) > MAX_DIGITS and len(text.lstrip("-")) > MAX_DIGITS:
        raise TooManyDigits
    return text_to_int(text)


def int_to_text(value: int) -> str:
    """Return the decimal digits of an int.

    >>> len(int_to_text(-(10**5000)))
    5002
    """
    if value.bit_length() <= _BITS:
        return str(value)
    bits = abs(value).bit_length()
    context = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[Inexact])
    text = str(_to_decimal(abs(value), bits, context, {}))
    return "-" + text if value < 0 else text


def text_to_int(text: str) -> int:
    """Convert decimal digits to an int. Raise ValueError for any other text.

    >>> text_to_int("-" + "9" * 5000) == 1 - 10**5000
    True
    """
    if len(text) <= _DIGITS:
        return int(text)
    sign = text.startswith("-")
    digits = text[sign:]
    powers = [10**_DIGITS]
    while _DIGITS << len(powers) < len(digits):
        powers.append(powers[-1] ** 2)
    size = _to_int(digits, powers, len(powers) - 1)
    return -size if sign else size


def _to_decimal(value: int, bits: int, context: Context, powers: dict[int, Decimal]) -> Decimal:
    """Convert an int by halves. Decimal multiplies in nearly linear time, but converts in quadratic time."""
    if bits <= _BITS:
        return Decimal(value)
    half = bits >> 1
    upper = _to_decimal(value >> half, bits - half, context, powers)
    lower = _to_decimal(value & ((1 << half) - 1), half, context, powers)
    return context.fma(upper, _power(half, context, powers), lower)


def _power(bits: int, context: Context, powers: dict[int, Decimal]) -> Decimal:
    if bits not in powers:
        if bits <= _BITS:
            powers[bits] = Decimal(1 << bits)
        else:
            half = bits >> 1
            powers[bits] = context.multiply(_power(half, context, powers), _power(bits - half, context, powers))
    return powers[bits]


def _to_int(digits: str, powers: list[int], level: int) -> int:
    """Convert digits to an int. There are at most twice as many digits as the power of ten at this level has."""
    if len(digits) <= _DIGITS:
        return int(digits)
    size = _DIGITS << level
    if len(digits) <= size:
        return _to_int(digits, powers, level - 1)
    upper, lower = digits[:-size], digits[-size:]
    return _to_int(upper, powers, level - 1) * powers[level] + _to_int(lower, powers, level - 1)
