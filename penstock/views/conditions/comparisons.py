"""Compare values in field expressions: the operators, and the families of comparable values.

Invariant: two values of one family compare in group order. Values of different families are unequal and have no order.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from typing import Any


class Family(Enum):
    """A kind of values that compare with each other."""

    NULL = "null"
    BOOL = "bool"
    NUMBER = "number"
    TEXT = "text"
    BYTES = "bytes"
    OTHER = "other"


_FAMILIES: dict[type, Family] = {
    type(None): Family.NULL,
    bool: Family.BOOL,
    int: Family.NUMBER,
    float: Family.NUMBER,
    Decimal: Family.NUMBER,
    str: Family.TEXT,
    bytes: Family.BYTES,
}


def family_of(value: object) -> Family:
    """Return the family of a value.

    >>> family_of(True), family_of(1.5), family_of([1])
    (<Family.BOOL: 'bool'>, <Family.NUMBER: 'number'>, <Family.OTHER: 'other'>)
    """
    family = _FAMILIES.get(type(value))
    if family is not None:
        return family
    return next((_FAMILIES[base] for base in type(value).__mro__ if base in _FAMILIES), Family.OTHER)


class Op(Enum):
    """A comparison operator."""

    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


COMPARE: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
