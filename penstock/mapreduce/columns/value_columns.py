"""Columns from Python values: keys, groups, conditions and inputs of reducers.

Each function converts the values of one field of a block of documents to a column. Values that are not accepted are
reported by index, not raised, so one document cannot stop a block. `known` is the type of all values if the decoder has
checked it; otherwise the types are examined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cache import MAX_KEY, KeyKind, KeyTooLong, Lane, encode_key
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.group_codes import Codes, Groups
from penstock.mapreduce.columns.hash_lanes import hash_lane, hash_lanes
from penstock.views import COMPARE, And, Compare, Family, IsNull, IsTrue, Not, Or, Path, Where

Lanes = tuple[Lane, Lane | None]
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
_LANE = (1 << 64) - 1
_TEXT_TAG = encode_key("")


def encoded_texts(values: Iterable[str]) -> list[bytes]:
    """Return the encodings of text keys. Raise KeyTooLong if one is too long."""
    encoded = [_TEXT_TAG + v.encode() for v in values]
    longest = max(map(len, encoded), default=0)
    if longest > MAX_KEY:
        raise KeyTooLong(longest)
    return encoded


def key_lanes(values: Sequence[Any], seed: int) -> tuple[Lanes, dict[int, str]]:
    """Return the lanes of any keys, and by index the reasons why values cannot be keys."""
    types = set(map(type, values))
    if types == {int}:
        try:
            return (np.fromiter(values, np.int64, len(values)).view(np.uint64), None), {}
        except OverflowError:
            pass
    if types == {str}:
        try:
            return hash_lanes(encoded_texts(values), seed), {}
        except (UnicodeEncodeError, KeyTooLong):
            pass
    n = len(values)
    k0, k1 = np.zeros(n, np.uint64), np.zeros(n, np.uint64)
    bad: dict[int, str] = {}
    hashed: list[int] = []
    encoded: list[bytes] = []
    for i, value in enumerate(values):
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is int and _INT_MIN <= value <= _INT_MAX:
            k0[i] = value & 0xFFFFFFFFFFFFFFFF
            continue
        try:
            if value is None:
                bad[i] = "it is null"
            else:
                encoded.append(encode_key(value))
                hashed.append(i)
        except (KeyKind, KeyTooLong) as error:
            bad[i] = str(error)
    if hashed:
        k0[hashed], k1[hashed] = hash_lanes(encoded, seed)
    return (k0, k1 if hashed else None), bad


def key_lane(value: Any, seed: int) -> tuple[int, int] | None:
    """Return the lanes of one key, or None if it cannot be a key. `key_lanes` gives the reason."""
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is int and _INT_MIN <= value <= _INT_MAX:
        return value & _LANE, 0
    if value is None:
        return None
    try:
        return hash_lane(encode_key(value), seed)
    except (KeyKind, KeyTooLong):
        return None


def group_codes(values: Iterable[Any], n: int, groups: Groups, plain: bool) -> Codes:
    """Return the codes of groups. `plain`: all are known to be text, ints or null."""
    if plain:
        return groups.plain_codes(values, n)
    return groups.codes(values if isinstance(values, list) else list(values))


def condition(where: Where, get: Callable[[Path], list[Any]], n: int) -> NDArray[np.bool_]:
    """Mark the documents that a condition keeps."""
    if isinstance(where, And):
        return condition(where.left, get, n) & condition(where.right, get, n)
    if isinstance(where, Or):
        return condition(where.left, get, n) | condition(where.right, get, n)
    if isinstance(where, Not):
        return ~condition(where.inner, get, n)
    if isinstance(where, IsNull):
        return np.fromiter((v is None for v in get(where.path)), bool, n)
    if isinstance(where, IsTrue):
        return np.fromiter((v is True for v in get(where.path)), bool, n)
    if not isinstance(where, Compare):
        columns = {path: get(path) for path in where.paths()}
        rows = ({path: column[i] for path, column in columns.items()} for i in range(n))
        return np.fromiter((where.evaluate(row.get) for row in rows), np.bool_, n)
    return _comparison(where, get(where.path), n)


def _comparison(where: Compare, values: list[Any], n: int) -> NDArray[np.bool_]:
    types = set(map(type, values))
    literal = where.value
    if where.family is Family.NUMBER and len(types) == 1 and type(literal) in types:
        try:
            if types == {int} and isinstance(literal, int) and _INT_MIN <= literal <= _INT_MAX:
                out: NDArray[np.bool_] = COMPARE[where.op](np.fromiter(values, np.int64, n), np.int64(literal))
                return out
            if types == {float} and literal == literal:
                column = np.fromiter(values, np.float64, n)
                if not np.isnan(column).any():  # NumPy orders NaN differently
                    out = COMPARE[where.op](column, literal)
                    return out
        except OverflowError:
            pass
    if where.family is Family.TEXT and types == {str}:
        compare = COMPARE[where.op]
        return np.fromiter((compare(v, literal) for v in values), bool, n)
    return np.fromiter((where.evaluate({where.path: v}.get) for v in values), np.bool_, n)


def input_column(values: Iterable[Any], n: int, known: type | None, keep: bool) -> Column:
    """Return the values that reducers read."""
    if known is int:
        held = values if isinstance(values, list) else None
        try:
            return Column(np.fromiter(values, np.int64, n))
        except OverflowError:
            if held is None:
                raise  # the iterator is consumed, so the caller passes the values again as a list
            values = held
    return Column.of(values if isinstance(values, list) else list(values), keep)
