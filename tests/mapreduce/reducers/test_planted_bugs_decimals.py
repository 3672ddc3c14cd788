"""Decimals of any scale, packed and summed exactly, compared with fractions; planted bugs in both are found."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from penstock.cache import ValueKind, normalise, pack, pack_document, unpack
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.reducers.sums import Moments
from tests.harness.planting import Bug

EDGES = ["0", "-0", "0.00", "0E-9", "1E+6144", "1E-6144", "-7E+3", "9" * 40 + ".5", "1" * 6_000, "." + "3" * 6_000]
REFUSED = ["1E+6145", "1E-6145", "NaN", "-Infinity", "1" * 10_001]
BUGS = [
    Bug("digits after the point count as if before", "mapreduce.reducers.rounding:parts_of", "-len(places)", "0"),
    Bug(
        "a sum is rounded", "mapreduce.reducers.exact_group_sums:decimal_sums", "localcontext(EXACT)", "localcontext()"
    ),
    Bug("squares are not squared", "mapreduce.reducers.exact_group_sums:decimal_sums", "value * value", "value"),
    Bug("a flat map packs any Decimal", "cache.encoding.value_walk:_decimal_bytes", "_in_range(value)", "pass"),
]


def check() -> None:
    """Pack Decimals and sum them by group."""
    draw = random.Random(3)
    values = [Decimal(draw.randrange(-(10**6), 10**6)).scaleb(draw.randrange(-9, 9)) for _ in range(200)]
    values += map(Decimal, EDGES)
    for value in values:
        doc = {"id": 1, "price": value, "name": "é"}
        assert pack_document(doc) == pack(normalise(doc))
        assert repr(unpack(pack_document(doc))) == repr(doc)
    for text in REFUSED:
        with pytest.raises(ValueKind, match=r"price"):
            pack_document({"id": 1, "price": Decimal(text)})
    _compare(values)
    _compare(values[:200])


def _compare(values: list[Decimal]) -> None:
    loc = np.array([i % 3 for i in range(len(values))])
    side: Any = Moments(None, 2).batch(loc, 3, Column.of(values))
    for group in range(3):
        own = [Fraction(value) for value, at in zip(values, loc.tolist(), strict=True) if at == group]
        count, *pairs = side.decimals[group]
        sums = [Fraction(m) * Fraction(10) ** e for m, e in zip(pairs[::2], pairs[1::2], strict=True)]
        assert (count, *sums) == (len(own), sum(own), sum(x * x for x in own))


def test_decimals_are_packed_and_summed_exactly() -> None:
    check()
    with localcontext(prec=3):
        check()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check()
