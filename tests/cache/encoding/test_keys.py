"""Encode keys of documents and groups, byte by byte, and refuse values that can't be keys."""

from collections import OrderedDict
from datetime import date
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
import pytest

from penstock.cache.encoding.keys import MAX_KEY, MAX_KEY_DEPTH, decode_key, encode_key, normal_key
from penstock.cache.errors import KeyKind, KeyTooLong, StoreDamaged


@pytest.mark.parametrize(
    ("key", "encoded"),
    [
        (None, "01"),
        (False, "02"),
        (True, "03"),
        (0, "0480"),
        (-0.0, "0480"),
        (1, "049200"),
        (-1, "046dff"),
        (2, "049300"),
        (3, "049380"),
        (1001, "049bf540"),
        (0.5, "049100"),
        (1.5, "049280"),
        (2.0**-17, "0481042100"),
        (1 << 80, "04e20000005000"),
        (5e-324, "0481000000"),
        (float("inf"), "04f0"),
        (float("-inf"), "040f"),
        (float("nan"), "04f1"),
        ("", "05"),
        ("é\0", "05c3a900"),
        (b"\0\xff", "0600ff"),
        ((), "07"),
        (("a\0", 1, b"\0"), "07056100ff000492000600ff00"),
        (((), ("x",), None), "070700070578000001"),
    ],
)
def test_the_bytes_of_a_key(key: Any, encoded: str) -> None:
    assert encode_key(key).hex() == encoded


class _Colour(IntEnum):
    RED = 3


class _Word(StrEnum):
    SUE = "Sue"


class _Bytes(bytes):
    def __bytes__(self) -> bytes:
        return b"another"


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (_Colour.RED, 3),
        (_Word.SUE, "Sue"),
        (_Bytes(b"a\0"), b"a\0"),
        (np.float64(1e3), 1000),
        (np.float64(1.5), 1.5),
        ([_Colour.RED, [_Word.SUE], (_Bytes(b"a"), np.float64(2.5))], (3, ("Sue",), (b"a", 2.5))),
        (1e300, int(1e300)),
        (-2.0, -2),
    ],
)
def test_subclasses_encode_as_their_base_types(value: Any, key: Any) -> None:
    for back in (normal_key(value), decode_key(encode_key(value))):
        assert back == key
        assert type(back) is type(key)
    assert encode_key(value) == encode_key(key)


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1},
        OrderedDict(),
        Decimal(1),
        1j,
        {1},
        bytearray(b"a"),
        date(2024, 1, 31),
        object(),
        np.int64(1),
        "\ud800",
        "é\udc00",
    ],
)
def test_values_that_can_not_be_keys_are_refused(value: Any) -> None:
    for key in (value, (value,), [1, [value]]):
        with pytest.raises(KeyKind):
            encode_key(key)
        with pytest.raises(KeyKind):
            normal_key(key)


def _nested(depth: int) -> Any:
    key: Any = 1
    for _ in range(depth):
        key = (key,)
    return key


def test_depth() -> None:
    deepest = _nested(MAX_KEY_DEPTH)
    assert decode_key(encode_key(deepest)) == deepest
    for depth in (MAX_KEY_DEPTH + 1, 100_000):
        with pytest.raises(KeyKind, match="tuples nest more than 100 deep"):
            encode_key(_nested(depth))
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(KeyKind, match="nest"):
        normal_key(loop)


@pytest.mark.parametrize(
    "fits", ["x" * (MAX_KEY - 1), "é" * (MAX_KEY // 2 - 1), b"x" * (MAX_KEY - 1), (b"\0" * (MAX_KEY // 2 - 3), 0)]
)
def test_length(fits: Any) -> None:
    assert len(encode_key(fits)) <= MAX_KEY
    assert normal_key(fits) == fits
    longer = (*fits, 1) if isinstance(fits, tuple) else fits + fits[:1]
    for encode in (encode_key, normal_key):
        with pytest.raises(KeyTooLong, match="is too long"):
            encode(longer)


def test_ints_of_any_size() -> None:
    for key in (3**200_000, -(3**200_000), 1 << 5_000_000, -(1 << 5_000_000)):
        assert decode_key(encode_key(key)) == key
    assert len(encode_key(1 << 5_000_000)) == 7
    with pytest.raises(KeyTooLong):
        encode_key(3**300_000)


def test_trailing_bytes_are_damage() -> None:
    with pytest.raises(StoreDamaged, match="1 bytes too many"):
        decode_key(encode_key(7) + b"\x01")
    with pytest.raises(StoreDamaged):
        decode_key(b"")
    with pytest.raises(StoreDamaged):
        decode_key(b"\x07" * 200_000)
