"""Compare packed values with the `msgpack` package, and the ways to encode a value with each other.

`tests.oracle.values.identity` says when two values are one document, and its `rank` gives their order.
"""

import json
import math
from collections.abc import Iterator
from decimal import Context, Decimal, FloatOperation, Inexact, localcontext
from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

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
from tests.oracle.values import identity, rank

DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30) | st.sampled_from(
    [Decimal(t) for t in ("0", "-0", "0.00", "1E+2", "100", "1.0", "1.00", "1E-6143", "-9E+6144", "0.1", "0.5")]
)
INTS = st.integers() | st.sampled_from(
    [e + o for e in (0, 128, 1 << 16, 1 << 32, 1 << 63, -(1 << 63), 1 << 64, 10**700, -(10**4000)) for o in (-1, 0, 1)]
)
FLOATS = st.floats() | st.sampled_from([0.5, 0.1, 1.0, 2.0**64, 1.7e308])
TEXT = st.text(max_size=4)
SCALARS = st.none() | st.booleans() | INTS | FLOATS | DECIMALS | TEXT | st.binary(max_size=4)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=8
)
DOCUMENTS = st.dictionaries(TEXT, VALUES, max_size=6) | st.dictionaries(TEXT, SCALARS, max_size=6)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | INTS | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)


def _read(data: bytes) -> Any:
    """Decode the bytes like any MessagePack reader that knows that extensions 1 and 2 are decimal texts."""

    def number(code: int, text: bytes) -> Any:
        return {1: lambda t: int(Decimal(t)), 2: Decimal}[code](text.decode("ascii"))

    return msgpack.unpackb(data, ext_hook=number, strict_map_key=True)


@given(VALUES)
def test_any_reader_of_messagepack_reads_it(value: Any) -> None:
    assert identity(_read(pack(value))) == identity(value)
    assert identity(unpack(pack(value))) == identity(value)
    assert identity(unpack(memoryview(pack(value)))) == identity(value)


@given(DOCUMENTS)
def test_the_order_of_fields_is_kept(doc: dict[str, Any]) -> None:
    assert list(_read(pack(doc))) == list(doc)
    assert pack_document(doc) == pack(normalise(doc)) == pack(doc)


def _standard(value: Any) -> Any:
    """Return the value for the encoder of the `msgpack` package, with sorted maps and explicit extensions."""
    if isinstance(value, dict):
        return {k: _standard(value[k]) for k in sorted(value, key=lambda k: k.encode())}
    if isinstance(value, list):
        return [_standard(v) for v in value]
    if isinstance(value, Decimal):
        return msgpack.ExtType(2, str(value).encode())
    if type(value) is int and not -(1 << 63) <= value < 1 << 64:
        return msgpack.ExtType(1, str(Decimal(value)).encode())
    return math.nan if isinstance(value, float) and math.isnan(value) else value


@given(VALUES)
def test_canonical_bytes_equal_those_of_another_encoder(value: Any) -> None:
    assert canonical(value) == msgpack.packb(_standard(value))


def _turned(value: Any) -> Any:
    """Return the same value with its maps filled in reverse order."""
    if isinstance(value, dict):
        return {k: _turned(v) for k, v in reversed(value.items())}
    return [_turned(v) for v in value] if isinstance(value, list) else value


@given(VALUES, VALUES)
@example(1, 1.0)
@example(True, 1)
@example(0.0, -0.0)
@example([math.nan], [-math.nan])
@example(Decimal("1.0"), Decimal("1.00"))
@example({"aa": 1, "b": 2}, {"b": 2, "aa": 1})
def test_canonical_bytes_are_equal_for_equal_documents_only(a: Any, b: Any) -> None:
    assert canonical(a) == canonical(_turned(a)) == canonical(unpack(canonical(a)))
    assert (canonical(a) == canonical(b)) is (identity(a) == identity(b))
    x, y = pack({"v": a}), pack({"v": b})
    assert same_document(x, y) is (identity(a) == identity(b))
    assert same_document(x, pack({"v": _turned(a)}))


@given(st.dictionaries(TEXT, JSON_VALUES, max_size=5), st.booleans())
def test_a_json_line_decodes_to_its_document(doc: dict[str, Any], ascii_only: bool) -> None:
    line = _json(doc, ascii_only).encode()
    assert identity(unpack_document(line)) == identity(doc)
    assert same_document(line, pack(doc))
    assert same_document(pack(_turned(doc)), line)
    assert not same_document(line, pack({**doc, "and": 1, "more": 2}))


def _json(value: Any, ascii_only: bool) -> str:
    """Write JSON with ints of any size, which Python's own writer refuses."""
    if isinstance(value, dict):
        items = (f"{json.dumps(k, ensure_ascii=ascii_only)}: {_json(v, ascii_only)}" for k, v in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_json(v, ascii_only) for v in value) + "]"
    return str(Decimal(value)) if type(value) is int else json.dumps(value, ensure_ascii=ascii_only)


@pytest.fixture(params=[None, Context(prec=2, capitals=0, traps=[FloatOperation, Inexact])], ids=["default", "odd"])
def _decimal_context(request: pytest.FixtureRequest) -> Iterator[None]:
    """Change the caller's decimal context, on which no result may depend."""
    with localcontext(request.param):
        yield


@pytest.mark.usefixtures("_decimal_context")
def test_decimals_are_kept_under_any_context() -> None:
    for text in ("1.000000000000000000001", "1E+100", "-0.00", "123456789E-20"):
        value = Decimal(text)
        assert str(unpack(pack(value))) == str(value)
        assert pack(value)[-len(text) :] == canonical(value)[-len(text) :]
        assert b"e" not in pack(value)
        assert order_key(value) < order_key(1 << 400)
        assert order_key(-0.25) < order_key(value) < order_key(1e200)


@given(st.lists(VALUES, max_size=8))
def test_values_sort_by_rank(values: list[Any]) -> None:
    by_key = sorted(values, key=order_key)
    expected = sorted(values, key=lambda v: (rank(v), canonical(v)))
    assert [identity(v) for v in by_key] == [identity(v) for v in expected]


NUMBERS = INTS | FLOATS | DECIMALS


@given(NUMBERS, NUMBERS, st.sampled_from([lambda v: v, lambda v: [v, 1], lambda v: {"a": v}]))
@example(0.1, Decimal("0.1"), lambda v: v)
@example(Decimal("9E+6144"), math.inf, lambda v: [v])
@example(1, Decimal("1.0"), lambda v: {"a": [v]})
def test_numbers_of_all_types_are_ordered_by_value(a: Any, b: Any, wrap: Any) -> None:
    x, y = order_key(wrap(a)), order_key(wrap(b))
    p, q = (rank(wrap(a)), canonical(wrap(a))), (rank(wrap(b)), canonical(wrap(b)))
    assert (x < y, x == y) == (p < q, p == q)


def test_equal_elements_are_ordered_by_their_bytes_last() -> None:
    assert sorted([[1, 2], [1.0, 1], [1.0, 2]], key=order_key) == [[1.0, 1], [1, 2], [1.0, 2]]
    assert [type(v[0]) for v in sorted([[1.0, 2], [1, 2]], key=order_key)] == [int, float]
