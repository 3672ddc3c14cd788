"""Convert Python values to document values, and refuse invalid values and JSON lines with their path."""

import enum
import math
import struct
import uuid
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest

from penstock.cache.encoding.value_walk import MAX_DEPTH
from penstock.cache.encoding.values import (
    canonical,
    normalise,
    order_key,
    pack,
    pack_document,
    same_document,
    unpack,
    unpack_document,
)
from penstock.cache.errors import RecordError, StoreDamaged, ValueKind
from tests.oracle.values import identity


class _Colour(enum.IntEnum):
    RED = 3


class _Word(enum.StrEnum):
    SUE = "Sue"


class _Text(str):
    def __str__(self) -> str:
        return "another"


class _Plain(enum.Enum):
    A = 1


class _Struct(msgspec.Struct):
    a: int = 1


@dataclass
class _Data:
    a: int = 1


_Pair = namedtuple("_Pair", "a b")
_UUID = uuid.UUID(int=5)


@pytest.mark.parametrize(
    ("value", "means"),
    [
        ((1, (2,)), [1, [2]]),
        (_Pair(1, "x"), [1, "x"]),
        (date(2024, 1, 31), "2024-01-31"),
        (datetime(2024, 1, 31, 8, tzinfo=UTC), "2024-01-31T08:00:00+00:00"),
        (time(8, 30), "08:30:00"),
        (_UUID, "00000000-0000-0000-0000-000000000005"),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"abcd")[::2], b"ac"),
        (_Colour.RED, 3),
        (_Word.SUE, "Sue"),
        (_Text("Sue"), "Sue"),
        (OrderedDict(b=1, a=(2,)), {"b": 1, "a": [2]}),
        (defaultdict(list, a=[1]), {"a": [1]}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ({_Word.SUE: 1, np.str_("x"): 2}, {"Sue": 1, "x": 2}),
        (pd.NaT, None),
        (pd.NA, None),
        (pd.Timestamp("2024-01-31T08:00:00.000000001"), "2024-01-31T08:00:00.000000001"),
        (np.int64(5), 5),
        (np.uint64((1 << 64) - 1), (1 << 64) - 1),
        (np.float32(1.5), 1.5),
        (np.float64(2.0), 2.0),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        (np.bytes_(b"x"), b"x"),
        (np.datetime64("2024-01-31"), "2024-01-31"),
        (np.datetime64("2024-01-31T08:00:00", "ns"), "2024-01-31T08:00:00.000000000"),
        (np.datetime64("NaT"), None),
        (np.timedelta64("NaT"), None),
        (1 << 200, 1 << 200),
        (math.nan, math.nan),
        (Decimal("1.50"), Decimal("1.50")),
    ],
)
def test_python_values_become_document_values(value: Any, means: Any) -> None:
    assert identity(normalise(value)) == identity(means)
    assert identity(normalise({"a": [value], "b": value})) == identity({"a": [means], "b": means})
    assert identity(unpack(pack_document({"a": [value], "b": value}))) == identity({"a": [means], "b": means})
    assert type(normalise(value)) is type(means)


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        frozenset(),
        1j,
        object(),
        _Plain.A,
        _Struct(),
        _Data(),
        timedelta(1),
        np.timedelta64(1, "s"),
        np.complex128(1j),
        np.longdouble(1),
        np.zeros(2),
        np.void(b"ab"),
        msgspec.Raw(b"\x01"),
        msgspec.msgpack.Ext(5, b""),
        range(3),
        {1: 2},
        {None: 1},
        {b"a": 1},
        "\ud800",
        "é\udc00",
        {"\ud800": 1},
        {_Word.SUE: 1, "a": 1, 5: 2},
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("-Infinity"),
        Decimal("1E+6145"),
        Decimal("1E-6145"),
        Decimal("0E+7000"),
        pd.Timedelta("1s"),
        pd.Interval(0, 1),
    ],
)
def test_invalid_values_are_refused(value: Any) -> None:
    for refuse in (normalise, pack, canonical):
        with pytest.raises(ValueKind):
            refuse(value)
    doc = {"ok": 1, "a": {"b": [None, (value,)]}}
    for refuse in (normalise, pack, canonical, pack_document):
        with pytest.raises(ValueKind, match=r"at 'a\.b\.1\.0") as caught:
            refuse(doc)
        assert caught.value.path.startswith("a.b.1.0")


def test_the_error_gives_the_reason() -> None:
    wrong: Any = {1: 2}
    with pytest.raises(ValueKind, match="half a surrogate pair"):
        pack_document({"a": "\ud800"})
    with pytest.raises(ValueKind, match="one of its keys is of type int and no text"):
        pack_document(wrong)
    with pytest.raises(ValueKind, match="exponent is within ±6144"):
        normalise(Decimal("1E+9999"))


@pytest.mark.parametrize(
    "value", [date(2024, 1, 31), _UUID, _Colour.RED, OrderedDict(a=1), bytearray(b"a"), np.int64(1)]
)
def test_pack_refuses_values_that_are_not_normal(value: Any) -> None:
    for refuse in (pack, canonical):
        with pytest.raises(ValueKind):
            refuse(value)
        with pytest.raises(ValueKind):
            refuse({"a": [value]})


def test_a_document_is_a_map() -> None:
    values: list[Any] = [[], "a", None, 5, [("a", 1)]]
    for value in values:
        with pytest.raises(ValueKind, match="it is no map"):
            pack_document(value)
    with pytest.raises(StoreDamaged, match="is no map"):
        unpack_document(pack([1]))


def test_a_flat_map_is_returned_itself() -> None:
    doc = {"id": 7, "name": "Sue", "x": 1.5, "y": None, "z": True, "b": b""}
    assert normalise(doc) is doc
    nested = {"a": [1, {"b": (2,)}]}
    assert normalise(nested) == {"a": [1, {"b": [2]}]}
    assert nested == {"a": [1, {"b": (2,)}]}


def test_there_is_one_nan() -> None:
    odd = struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0]
    for write in (pack, canonical):
        assert write(odd) == write(math.nan) == bytes.fromhex("cb7ff8000000000000")
        assert write({"a": [odd, -math.inf]}) == write({"a": [math.nan, -math.inf]})
    assert pack_document({"a": odd}) == pack_document({"a": math.nan})
    assert order_key(odd) == order_key(math.nan) > order_key(math.inf)


def test_layout() -> None:
    assert pack({"b": 1 << 64, "a": Decimal("1.50")}) == b"\x82\xa1b\xc7\x14\x0118446744073709551616\xa1a\xd6\x021.50"
    longest = bytes.fromhex("92cfffffffffffffffffd3") + b"\x80" + bytes(7)
    assert pack([(1 << 64) - 1, -(1 << 63)]) == canonical([(1 << 64) - 1, -(1 << 63)]) == longest
    for write in (pack, canonical):
        assert write([(1 << 64) - 1, -(1 << 63), 1 << 64])[1:20] == longest[1:] + b"\xc7"
    assert canonical({"b": -1, "a": 128}) == b"\x82\xa1a\xcc\x80\xa1b\xff"
    assert canonical({"aa": 1, "b": 2}) == b"\x82\xa2aa\x01\xa1b\x02"


def _nested(depth: int) -> Any:
    value: Any = {"a": 1}
    for i in range(depth - 1):
        value = [value] if i % 2 else {"a": value}
    return value


def test_depth() -> None:
    deepest = _nested(MAX_DEPTH)
    assert normalise(deepest) == unpack(pack(deepest)) == deepest
    assert unpack(pack([[deepest]])) == [[deepest]]
    assert order_key([deepest]) == order_key([_nested(MAX_DEPTH)])
    with pytest.raises(ValueKind, match="nest more than 100 deep"):
        normalise([deepest])
    for refuse in (normalise, pack, canonical, order_key):
        with pytest.raises(ValueKind):
            refuse(_nested(100_000))
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueKind, match="nest more than 100 deep"):
        pack_document({"a": loop})


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "can't be taken"),
        (b'{"a": 1} {"b": 2}', "can't be taken"),
        (b'{"a": NaN}', "can't be taken"),
        (b'{"a": 1e400}', "out of range"),
        (b'{"a": ' + b"9" * 5000 + b', "b": NaN}', "NaN is no number"),
        (b'{"a": ' + b"9" * 5000 + rb', "b": "\ud800"}', "half a surrogate pair"),
        (b'{"a": ' + b"9" * 5000 + b', "b": "\xff"}', "can't be taken"),
        (b'{"a": "\xff"}', "can't be taken"),
        (rb'{"a": "\ud800"}', "can't be taken"),
        (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", "nest more than 100 deep"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nest more than 100 deep"),
        (b'{"a": ' + b"9" * 5000 + b', "b":' + b"[" * 99_999 + b"]" * 99_999 + b"}", "nest more than 100 deep"),
    ],
)
def test_invalid_json_is_refused(line: bytes, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        unpack_document(line)


def test_json_of_any_size() -> None:
    line = b'{"a": -' + b"9" * 5000 + b', "b": "' + b"[" * 200 + b'", "c": ' + b"[" * 99 + b"]" * 99 + b"}"
    doc = unpack_document(line)
    assert doc["a"] == 1 - 10**5000
    assert doc["b"] == "[" * 200
    assert same_document(line, pack(doc))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x92\x01",
        b"\xa1\xff",
        b"\x81\x80\x01",
        b"\xd6\x02nope",
        b"\xd4\x01x",
        b"\xd4\x05x",
        b"\x91" * 5000,
    ],
)
def test_damage_is_named(data: bytes) -> None:
    with pytest.raises(StoreDamaged, match="can't be unpacked"):
        unpack(data)
