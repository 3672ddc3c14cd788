"""Numbers with too many digits: every input rejects them before any computation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import msgspec
import pytest

import penstock as ps
from penstock.cache import MAX_DIGITS, TooManyDigits, decode_json, pack, unpack, unpack_document, unpack_received
from penstock.spout import Record

MOST = 10**MAX_DIGITS - 1
HUGE = 4_000_000
"""Digits of a number that takes minutes where it is converted."""


class Product:
    """A monoid whose results grow with each value."""

    zero = 1

    def lift(self, value: Any) -> Any:
        return value

    def merge(self, one: Any, other: Any) -> Any:
        return one * other


def app() -> ps.App:
    """Return an app with a field view, a function view and a view with a user's monoid."""
    out = ps.App("digits")
    table = out.table("plain", key="id")
    table.view("sums", key="g", reduce=ps.sum("v"))
    table.view("products", key="g", value="v", reduce=ps.monoid(Product()))
    table.view("whole", key="g", value="v", reduce=lambda values, rereduce: 1 << len(values) * 40_000)

    @table.view(reduce=ps.sum())
    def powers(doc: dict[str, Any]) -> Iterator[Any]:
        yield "all", 10 ** doc["power"] if "power" in doc else 0

    return out


@pytest.fixture
def engine() -> Iterator[ps.Engine]:
    with ps.open(app(), None) as engine:
        yield engine


def text(digits: int) -> str:
    return "7" * digits


def line(number: int, digits: int) -> bytes:
    return b'{"id": %d, "g": 1, "v": 1, "other": %b}' % (number, text(digits).encode())


def plain(numbers: range) -> list[bytes]:
    return [b'{"id": %d, "g": 1, "v": 1}' % number for number in numbers]


WAYS: dict[str, Callable[[ps.Engine], Any]] = {
    "a line": lambda engine: engine.put("plain", line(1, HUGE)),
    "text": lambda engine: engine.put("plain", line(1, HUGE).decode()),
    "a short batch": lambda engine: engine.put_many("plain", [line(1, HUGE), line(2, HUGE)]),
    "a long batch": lambda engine: engine.put_many("plain", [*plain(range(3_000)), line(1, HUGE)]),
    "a dict": lambda engine: engine.put("plain", {"id": 1, "v": 10**MAX_DIGITS}),
    "a negative int": lambda engine: engine.put("plain", {"id": 1, "v": -(10**MAX_DIGITS)}),
    "inside": lambda engine: engine.put("plain", {"id": 1, "v": {"in": [1, 1 << 40_000]}}),
    "a Decimal": lambda engine: engine.put("plain", {"id": 1, "v": Decimal("0." + text(HUGE))}),
    "a document's key": lambda engine: engine.put("plain", {"id": 1 << 4_000_000, "v": 1}),
    "a deletion": lambda engine: engine.delete("plain", 1 << 4_000_000),
    "an ingested record": lambda engine: engine.ingest([Record("plain", 1, line(1, HUGE))], source="s", resume=1),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_record_with_too_many_digits_is_rejected_alone(engine: ps.Engine, way: str) -> None:
    answer = WAYS[way](engine)
    bad = 2 if way == "a short batch" else 1
    assert answer.rejected == bad
    assert answer.held == 0
    assert all("10,000 digits" in rejection.reason for rejection in answer.rejections)
    assert len(list(engine.quarantine("record"))) == bad
    assert engine.put("plain", {"id": 1, "g": 1, "v": 1}).rejected == 0


def test_the_limit_holds_where_python_has_none(engine: ps.Engine) -> None:
    limit = sys.get_int_max_str_digits()
    try:
        sys.set_int_max_str_digits(0)
        assert engine.put_many("plain", [*plain(range(100)), line(1, HUGE)]).rejected == 1
        assert engine.put("plain", line(1, HUGE)).rejected == 1
    finally:
        sys.set_int_max_str_digits(limit)


@pytest.mark.parametrize("batch", [1, 3, 10])
def test_numbers_of_as_many_digits_as_the_limit_are_taken(engine: ps.Engine, batch: int) -> None:
    docs = [
        {"id": i, "g": 1, "v": MOST if i % 2 else -MOST, "d": Decimal("0." + "7" * MAX_DIGITS)} for i in range(batch)
    ]
    lines = [b'{"id": %d, "g": 2, "v": %b}' % (batch + i, b"9" * MAX_DIGITS) for i in range(batch)]
    assert engine.put_many("plain", docs).rejected == engine.put_many("plain", lines).rejected == 0
    with engine.snapshot() as snap:
        assert [snap.table("plain")[i] for i in range(batch)] == docs
        assert snap.view("sums")[2] == batch * MOST  # a sum may have more digits than its addends
        assert snap.table("plain")[batch] == {"id": batch, "g": 2, "v": MOST}


def test_results_of_too_many_digits_hold_their_group(engine: ps.Engine) -> None:
    answer = engine.put_many("plain", [{"id": i, "g": 1, "v": 10**4_000} for i in range(3)])
    assert answer.applied == 3
    held = {entry.view: entry.reason for entry in engine.quarantine("group")}
    assert set(held) == {"products", "whole"}
    assert all("10,000 digits" in reason for reason in held.values())


def test_a_value_of_a_function_holds_its_document(engine: ps.Engine) -> None:
    assert engine.put("plain", {"id": 1, "power": MAX_DIGITS}).held == 1
    [entry] = engine.quarantine("document")
    assert "10,000 digits" in entry.reason
    assert engine.put("plain", {"id": 1, "power": MAX_DIGITS - 1}).held == 0


def test_a_condition_compares_with_no_such_number() -> None:
    with pytest.raises(ps.DefinitionError, match="10,000 digits"):
        ps.field("v") > 10**MAX_DIGITS  # noqa: B015
    with pytest.raises(ps.DefinitionError, match="compared with"):
        ps.field("v") == [MOST]  # noqa: B015
    assert (ps.field("v") == MOST) is not None


def test_what_is_stored_is_read_whatever_its_size() -> None:
    """A store may hold larger numbers: sums, and documents of versions that had no limit."""
    value = 10**20_000
    assert unpack(pack([value])) == [value]
    assert unpack_document(b'{"v": 1' + b"0" * 20_000 + b"}") == {"v": value}


def test_received_values_are_measured_before_they_are_converted() -> None:
    with pytest.raises(TooManyDigits):
        decode_json(text(HUGE))
    ext = msgspec.msgpack.encode({"v": msgspec.msgpack.Ext(1, text(HUGE).encode())})
    with pytest.raises(ps.StoreDamaged, match="number"):
        unpack_received(ext)


def test_a_reason_stays_short(engine: ps.Engine) -> None:
    answer = engine.put("plain", b'{"id": 1, "v": ' + b"7" * 100_000 + b".5}")
    assert answer.rejected == 1
    assert len(answer.rejections[0].reason) < 200
