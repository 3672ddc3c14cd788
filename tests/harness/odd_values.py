"""Odd values that a caller may pass by mistake. Some of them fail when they are printed or compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps

Odd = Callable[[], Any]


class Strange:
    """An object that fails when it is printed, compared or asked for its length."""

    def __repr__(self) -> str:
        return "<strange>"

    def __len__(self) -> int:
        raise ValueError("no length")

    def __bool__(self) -> bool:
        raise ValueError("no truth value")


def _itself() -> list[Any]:
    out: list[Any] = []
    out.append(out)
    return out


def _deep() -> Any:
    out: Any = 1
    for _ in range(3_000):
        out = [out]
    return out


def constants(*values: Any) -> list[Odd]:
    """Return functions that return these values."""
    return [partial(same, value) for value in values]


def same(value: Any) -> Any:
    return value


ODD: tuple[Odd, ...] = (
    *constants(None, True, False, 0, 1, -1, 7, 2**63, 2**80, -(2**80), 10**5_000),
    *constants(0.0, -0.0, 1.5, 1e308, math.nan, math.inf, Decimal("NaN"), Decimal(3)),
    *constants("", "x", "t", "v", "id", "a.b", ".", "..", "/", "\0", "\ud800", "é" * 300),
    *constants(b"", b"t", b"{}", b"{", b"\xff\xfe", bytearray(b"x"), memoryview(b"x")),
    *constants((), ("t",), (1, 2), range(3), Ellipsis, NotImplemented, int, len, ps),
    list,
    dict,
    set,
    object,
    Strange,
    _itself,
    _deep,
    lambda: [None],
    lambda: ["t", 7],
    lambda: [{"id": 1}],
    lambda: [{}, 7, b"{}", "{", None],
    lambda: {"id": 1},
    lambda: {"id": None},
    lambda: {"t": 1, 2: 3},
    lambda: {"t": [{}]},
    lambda: {"\ud800": "\ud800"},
    lambda: {"id": {1, 2}},
    lambda: "y" * 70_000,
    lambda: "y" * 5_000,
    lambda: iter([1, 2]),
    lambda: (1 / 0 for _ in range(1)),
    lambda: lambda *args: None,
    lambda: lambda: None,
    lambda: Path("x") / "y",
    lambda: Path("\0"),
    lambda: datetime(2020, 1, 1),
    lambda: np.arange(3),
    lambda: np.float64(1.5),
    lambda: np.int64(7),
    lambda: ValueError("x"),
    lambda: ps.Record("t", 1, {"id": 1}),
    lambda: [ps.Record("t", 1, {"id": 1}, None, 0)],
    lambda: ps.field("g"),
    lambda: ps.ABSENT,
)


def _value(odd: Odd) -> Any:
    return odd() if isinstance(odd, partial) or odd.__name__ == "<lambda>" else None


TEXTS: tuple[Odd, ...] = tuple(odd for odd in ODD if not isinstance(odd, type) and isinstance(_value(odd), str))
