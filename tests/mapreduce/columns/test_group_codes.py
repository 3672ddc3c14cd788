"""Groups as codes: equal groups share a code, and others never do. The types of their columns make no difference."""

import enum
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from penstock.cache import KeyKind, KeyTooLong, encode_key, stored_key
from penstock.mapreduce.columns.group_codes import BAD, Groups, TupleGroups
from tests.oracle.values import group_of, rank

SCALARS = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, -0.0, 0.0, 1.0, 0.5, 2**53, 2.0**53, 2**70, 2.0**70, 1e300, float("nan"), -float("nan")])
    | st.sampled_from([float("inf"), -float("inf"), "", "1", "None", b"", b"1", "é", "x" * 500, "x" * 500 + "y"])
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=3)
)
GROUPS = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple) | st.lists(inner, max_size=2))
ODD: list[Any] = [{"a": 1}, 1j, object(), "x" * (1 << 16), "\ud800", ({},), [b"x" * (1 << 16)]]


def _same(a: Any, b: Any) -> bool:
    return rank(group_of(a)) == rank(group_of(b))


@given(st.lists(GROUPS, min_size=1, max_size=12), st.booleans())
def test_codes_are_equal_where_groups_are(values: list[Any], at_once: bool) -> None:
    groups = Groups()
    codes = groups.codes(values).tolist() if at_once else [groups.code(v) for v in values]
    for v, code in zip(values, codes, strict=True):
        assert groups.whole(code) == encode_key(v)
        assert _same(groups.value(code), v)
        assert [c == code for c in codes] == [_same(v, w) for w in values]
        assert groups.code_of_encoded(encode_key(v)) == code
    assert sorted(set(codes)) == list(range(groups.size))


@given(st.lists(GROUPS, max_size=12))
def test_what_rows_are_written_with(values: list[Any]) -> None:
    groups = Groups()
    groups.codes(values)
    for code in range(groups.size):
        key = stored_key(groups.whole(code))
        assert groups.stored[code] == key
        assert groups.crcs[code] == crc32c(key)
        assert int(groups.order[code]) == int.from_bytes(key[:8].ljust(8, b"\0"), "big")
        assert groups.encoded.get(code) == (None if key == groups.whole(code) else groups.whole(code))


@given(st.lists(st.sampled_from(ODD) | SCALARS, max_size=10))
def test_what_is_no_group_is_bad_and_leaves_the_rest(values: list[Any]) -> None:
    groups = Groups()
    odd = [any(v is o for o in ODD) for v in values]
    assert [c == BAD for c in groups.codes(values).tolist()] == odd
    assert groups.size == len({encode_key(v) for v, is_odd in zip(values, odd, strict=True) if not is_odd})


@pytest.mark.parametrize("value", ODD, ids=lambda v: type(v).__name__)
def test_one_that_is_no_group_raises(value: Any) -> None:
    with pytest.raises((KeyKind, KeyTooLong)):
        Groups().code(value)


class _Text(str):
    __slots__ = ()


class _Day(enum.IntEnum):
    MONDAY = 1


class _Name(enum.StrEnum):
    SUE = "Sue"


class _Bytes(bytes):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (_Text("Sue"), "Sue"),
        (_Name.SUE, "Sue"),
        (_Day.MONDAY, 1),
        (np.float64(3), 3),
        (_Bytes(b"x"), b"x"),
        (np.float64(0.5), 0.5),
        (np.str_("Sue"), "Sue"),
    ],
    ids=lambda v: type(v).__name__,
)
@pytest.mark.parametrize("first", [0, 1])
def test_a_subclass_is_what_it_is_made_of(value: Any, plain: Any, first: int) -> None:
    groups = Groups()
    both = [value, plain][:: 1 if first == 0 else -1]
    assert groups.codes(both).tolist() == [0, 0]
    assert [groups.code(v) for v in both] == [0, 0]
    assert groups.size == 1


@given(st.lists(st.tuples(SCALARS, SCALARS, st.sampled_from([0, 1, 1.0, "a", {"no": "group"}])), max_size=14))
def test_tuples_are_coded_by_their_parts(rows: list[tuple[Any, ...]]) -> None:
    parts = [Groups(), Groups(), Groups()]
    tuples = TupleGroups(parts)
    for chunk in (rows[:5], rows[5:]):
        codes = tuples.combine([part.codes([row[i] for row in chunk]) for i, part in enumerate(parts)]).tolist()
        for row, code in zip(chunk, codes, strict=True):
            if isinstance(row[2], dict):
                assert code == BAD
            else:
                assert tuples.groups.whole(code) == encode_key(row)


def test_parts_may_be_shared() -> None:
    part = Groups()
    tuples = TupleGroups([part, part])
    assert tuples.combine([part.codes(["a", "b", "a"]), part.codes(["b", "a", "b"])]).tolist() == [0, 1, 0]


def test_a_tuple_too_long_is_bad() -> None:
    parts = [Groups(), Groups()]
    long = "x" * 40_000
    codes = TupleGroups(parts).combine([parts[0].codes([long, "a"]), parts[1].codes([long, "b"])])
    assert codes.tolist() == [BAD, 0]


def test_bytes_are_counted() -> None:
    groups = Groups()
    groups.codes([f"group {i}" for i in range(1000)])
    assert 200 * 1000 < groups.nbytes < 400 * 1000


PLAIN: Any = (
    st.none() | st.integers() | st.text(max_size=3) | st.sampled_from(["x" * 500, "x" * 500 + "y", "é" * 9, "\0"])
)
BAD_TEXT = st.sampled_from(["\ud800", "x" * (1 << 16)])


@given(
    st.lists(st.lists(PLAIN | BAD_TEXT, max_size=12), min_size=2, max_size=4), st.lists(PLAIN, min_size=8, max_size=12)
)
def test_groups_added_together_equal_groups_added_one_by_one(columns: list[list[Any]], first: list[Any]) -> None:
    together, alone = Groups(), Groups()
    for column in (first, *columns):  # most groups of the first column are new, so those of the next are added together
        codes: list[list[int] | type] = []
        for groups, one_by_one in ((together, False), (alone, True)):
            try:
                found = map(groups.__getitem__, column) if one_by_one else groups.plain_codes(iter(column), len(column))
                codes.append(list(map(int, found)))
            except (KeyKind, KeyTooLong) as error:
                codes.append(type(error))
        assert codes[0] == codes[1]
        assert dict(together) == dict(alone)
        assert (together.stored, together.tokens, together.crcs) == (alone.stored, alone.tokens, alone.crcs)
        assert together.order[: alone.size].tolist() == alone.order[: alone.size].tolist()
        assert (together.encoded, together.nbytes) == (alone.encoded, alone.nbytes)
