"""Exact ratios, rounded once to the type of a result.

A ratio is two ints, with a positive denominator. Invariants:

- a float is the nearest one to the ratio (or its root), ties to even; beyond its range it is the signed infinity;
- a Decimal of 28 digits likewise; the user's decimal context does not affect it;
- equal Decimals have one form: no trailing zeros after the point, and no positive exponent;
- a Decimal is valid in a document: above its range it is the signed infinity, below it 0.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal

DIGITS = 28
_RANGE = 6144  # limit of the adjusted exponent of a Decimal in a document
_SHORT = 300  # characters of a number that Python converts to an int at little cost
_FAULTS = [decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow]
EXACT = decimal.Context(
    prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[*_FAULTS, decimal.Inexact]
)
"""The context of exact arithmetic. It raises instead of rounding."""
_SHOWN = decimal.Context(
    prec=DIGITS, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, rounding=decimal.ROUND_HALF_EVEN, traps=_FAULTS
)


def to_float(numerator: int, denominator: int) -> float:
    """The float nearest to the ratio.

    >>> to_float(1, 3), to_float(-(10**400), 1)
    (0.3333333333333333, -inf)
    """
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def to_decimal(numerator: int, denominator: int) -> Decimal | float:
    """The Decimal of 28 digits nearest to the ratio.

    >>> to_decimal(1, 3), to_decimal(300, 3)
    (Decimal('0.3333333333333333333333333333'), Decimal('100'))
    """
    return plain(_SHOWN.divide(Decimal(numerator), Decimal(denominator)))


def root_float(numerator: int, denominator: int) -> float:
    """The float nearest to the square root of the ratio, which is not negative.

    >>> root_float(2, 1), root_float(1, 4)
    (1.4142135623730951, 0.5)
    """
    # The root has at least 55 bits. Its last bit is set if anything was cut off, so the division rounds once.
    half = (numerator.bit_length() - denominator.bit_length() - 109) // 2
    if half >= 0:
        return to_float(_odd_root(numerator, denominator << 2 * half) << half, 1)
    return to_float(_odd_root(numerator << -2 * half, denominator), 1 << -half)


def root_decimal(numerator: int, denominator: int) -> Decimal | float:
    """The Decimal of 28 digits nearest to the square root of the ratio, which is not negative.

    >>> root_decimal(2, 1), root_decimal(9, 4)
    (Decimal('1.414213562373095048801688724'), Decimal('1.5'))
    """
    digits = round((numerator.bit_length() - denominator.bit_length()) * math.log10(2))
    places = DIGITS + 3 - digits // 2
    up, down = numerator * 10 ** (2 * max(places, 0)), denominator * 10 ** (2 * max(-places, 0))
    root = math.isqrt(up // down)
    # One more digit, beyond the digit that decides the rounding, marks a remainder that was cut off.
    rest = 0 if root * root * down == up else 1
    return plain(_SHOWN.plus(EXACT.scaleb(Decimal(root * 10 + rest), -places - 1)))


def _odd_root(numerator: int, denominator: int) -> int:
    """Return the integer square root of the ratio, made odd if it is not exact."""
    root = math.isqrt(numerator // denominator)
    return root | (root * root * denominator != numerator)


def decimal_of(mantissa: int, exponent: int) -> Decimal | float:
    """mantissa·10**exponent exactly, in its one form.

    >>> decimal_of(330, -2), decimal_of(1, 2)
    (Decimal('3.3'), Decimal('100'))
    """
    return plain(EXACT.scaleb(Decimal(mantissa), exponent))


def parts_of(value: Decimal) -> tuple[int, int]:
    """The mantissa and the exponent of a finite Decimal.

    >>> parts_of(Decimal("-3.30")), parts_of(Decimal("1E+2"))
    ((-330, -2), (1, 2))
    """
    text = str(value)
    if len(text) <= _SHORT:  # `as_tuple` makes an object of each digit
        whole, _, places = text.partition(".")
        if (whole + places).removeprefix("-").isdecimal():
            return int(whole + places), -len(places)
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise AssertionError(f"{value!r} is no finite Decimal and should have been refused where it came in")
    return int(EXACT.scaleb(value, -exponent)), exponent


def plain(value: Decimal) -> Decimal | float:
    """The one form of a Decimal.

    >>> plain(Decimal("1.50")), plain(Decimal("1E+9000")), plain(Decimal("1E-9000"))
    (Decimal('1.5'), inf, Decimal('0'))
    """
    short = value.normalize(EXACT)
    if not short or short.adjusted() < -_RANGE:
        return Decimal(0)
    if short.adjusted() > _RANGE:
        return math.inf if short > 0 else -math.inf
    exponent = short.as_tuple().exponent
    assert isinstance(exponent, int), "a finite Decimal has an exponent"
    return Decimal(int(short)) if exponent > 0 else short
