"""Compare the order of encoded keys with a rank of Python values that compares numbers as fractions."""

import math
from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.cache.encoding.keys import LONG, decode_key, encode_key, is_long, normal_key, prefix_bounds, stored_key
from penstock.cache.errors import KeyKind, StoreDamaged
from tests.oracle.values import group_of, identity, rank

TEXTS = st.text(st.sampled_from("a\0b\x01\x7fé\uffff😀"), max_size=4) | st.text(max_size=6)
BYTES = st.lists(st.sampled_from([0, 1, 5, 7, 254, 255]), max_size=4).map(bytes) | st.binary(max_size=6)
EDGES = st.sampled_from(
    [0, 1, 127, 128, 1 << 14, 1 << 15, 1 << 16, 1 << 53, 1 << 56, 1 << 57, 1 << 64, 1 << 80, 1 << 1024]
)
INTS = (
    st.integers(-300, 300)
    | st.integers()
    | st.integers(-(1 << 2000), 1 << 2000)
    | st.builds(lambda edge, off, sign: sign * (edge + off), EDGES, st.integers(-3, 3), st.sampled_from([1, -1]))
)
FLOATS = (
    st.floats()
    | st.sampled_from([0.5, -0.5, 5e-324, -5e-324, 2.0**-17, 2.0**-16, 1e300, 2.0**80, 2.0**53, 1.7976931348623157e308])
    | st.builds(lambda n, k: n / (1 << k), st.integers(-(1 << 30), 1 << 30), st.integers(0, 40))
)
SCALARS = st.none() | st.booleans() | INTS | FLOATS | TEXTS | BYTES
KEYS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple) | st.lists(inner, max_size=2), max_leaves=6
)


def _agree(a: Any, b: Any) -> None:
    x, y, p, q = encode_key(a), encode_key(b), rank(group_of(a)), rank(group_of(b))
    assert (x < y, x == y) == (p < q, p == q), (a, b)


@given(KEYS, KEYS)
@example("", b"")
@example(("a", "b"), ("a\0", "b"))
@example(("a\0",), ("a\0\0",))
@example((("a",), 1), (("a", None),))
@example(((),), ())
@example((1,), (1, None))
@example(math.nan, math.inf)
@example(-math.inf, -(1 << 5000))
@example(True, 1)
def test_bytes_are_ordered_as_keys(a: Any, b: Any) -> None:
    _agree(a, b)


@given(INTS | FLOATS, INTS | FLOATS)
def test_numbers_are_ordered_by_value(a: float, b: float) -> None:
    _agree(a, b)


@given(FLOATS.filter(math.isfinite), st.integers(-2, 2))
def test_ints_beside_a_float(x: float, off: int) -> None:
    _agree(x, int(x) + off)


@given(INTS, st.booleans())
def test_floats_beside_an_int(n: int, up: bool) -> None:
    if abs(n) < 1 << 1023:
        _agree(n, math.nextafter(float(n), math.inf if up else -math.inf))


def test_numbers_beside_every_power_of_two() -> None:
    powers = [*range(150), 511, 512, 1023]
    numbers: set[float] = {0, 0.25, 0.75}
    for power in powers:
        numbers |= {(1 << power) + off for off in (-3, -2, -1, 0, 1, 2, 3)}
        numbers |= {2.0**-power, 1.5 * 2.0**-power, 1.25 * 2.0**power, math.nextafter(2.0**power, 0)}
    ordered = sorted({sign * Fraction(n) for n in numbers for sign in (-1, 1)})
    encoded = [encode_key(int(n) if n.denominator == 1 else float(n)) for n in ordered]
    assert encoded == sorted(set(encoded))
    assert [decode_key(e) for e in encoded] == ordered


@given(st.lists(KEYS, max_size=12))
def test_sorting(keys: list[Any]) -> None:
    by_bytes = [rank(group_of(k)) for k in sorted(keys, key=encode_key)]
    assert by_bytes == sorted(rank(group_of(k)) for k in keys)


@given(KEYS)
def test_a_key_decodes_to_its_canonical_form(key: Any) -> None:
    back = decode_key(encode_key(key))
    assert identity(back) == identity(group_of(key))
    assert identity(normal_key(key)) == identity(back)
    assert encode_key(back) == encode_key(key)


@given(st.lists(KEYS, max_size=4), KEYS)
def test_inside_a_tuple_no_element_is_a_prefix_of_another(items: list[Any], last: Any) -> None:
    longer = decode_key(encode_key((tuple(items), *items, last)))
    assert identity(longer) == identity(group_of((tuple(items), *items, last)))


def _begins(key: Any, prefix: Any) -> bool:
    key, prefix = group_of(key), group_of(prefix)
    if isinstance(prefix, str):
        return isinstance(key, str) and key.startswith(prefix)
    return isinstance(key, tuple) and identity(key[: len(prefix)]) == identity(prefix)


@given(
    st.one_of(TEXTS, st.lists(SCALARS, max_size=2)), st.lists(KEYS, max_size=6), st.lists(SCALARS, max_size=2), TEXTS
)
@example(["a"], [("a\0",), ("a", 1)], [], "\0")
@example("a", ["b", "a\0", ("a",), b"a"], [], "")
@example([], ["", b"", (None,), b"\xff"], [], "")
def test_prefix_bounds_contain_all_keys_with_the_prefix(
    prefix: Any, others: list[Any], more: list[Any], text: str
) -> None:
    start, stop = prefix_bounds(prefix)
    near: Iterable[Any] = [prefix + text, prefix + "\U0010ffff"] if isinstance(prefix, str) else [[*prefix, *more]]
    last = [[*prefix[:-1], prefix[-1] + text]] if prefix and isinstance(prefix[-1], str) else []
    for key in [prefix, *near, *last, *others]:
        assert (start <= encode_key(key) < stop) is _begins(key, prefix), key


@pytest.mark.parametrize("value", [None, 1, b"a", 1.5, True, {"a": 1}])
def test_only_text_and_tuples_are_prefixes(value: Any) -> None:
    with pytest.raises(KeyKind, match="a prefix is of text or of a tuple"):
        prefix_bounds(value)


@given(st.integers(360, 420), st.integers(360, 420), TEXTS, TEXTS)
def test_stored_keys_are_whole_or_longer_digests(n: int, m: int, a: str, b: str) -> None:
    x, y = encode_key("x" * n + a), encode_key("x" * m + b)
    p, q = stored_key(x), stored_key(y)
    assert (p == q) is (x == y)
    for encoded, stored in ((x, p), (y, q)):
        assert len(stored) <= 511
        assert is_long(stored) is (len(encoded) > LONG)
        assert (stored == encoded) is not is_long(stored)
    if p[:368] != q[:368]:
        assert (p < q) is (x < y)


def test_a_whole_key_is_never_confused_with_a_digest() -> None:
    long = stored_key(encode_key(b"x" * 1000))
    assert stored_key(encode_key(long[1:LONG])) != long
    assert stored_key(encode_key(long[1:])) != long


@given(st.binary(max_size=12) | st.lists(st.integers(0, 8), max_size=10).map(bytes))
def test_damage_raises_only_store_damaged(data: bytes) -> None:
    with suppress(StoreDamaged):
        rank(decode_key(data))
