"""Group keys as dense codes: each group is encoded once, and columns of codes replace columns of groups.

Invariants:

- equal groups have one code, different groups never share one. 1 and 1.0 are equal, true is not 1, and NaN is one;
- a code is valid until the whole dictionary is dropped;
- `[]` is correct for a str, int or None, and for a tuple of these. Any other value needs `code`, since Python takes
  True, 1 and 1.0 as equal and every NaN as different. Its token is a tuple of its encoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from penstock.cache import KeyKind, KeyTooLong, decode_key, encode_key, stored_key

if TYPE_CHECKING:
    from penstock.mapreduce.columns.partition_ranges import KeyRanges

Codes = NDArray[np.int32]
NONE = -1  # no contribution
MANY = -2  # several contributions, stored next to the column
BAD = -3  # the value cannot be a group

_PLAIN = frozenset({str, int, type(None)})
_FEW = 16  # limit of codes up to which Python is faster than NumPy's fixed cost
_GROWING = 4  # a column has many new groups if they are more than this part of it
_COST = 230  # bytes of an entry besides its key, measured with tracemalloc over 1M text groups
_TUPLE_COST = 100  # further bytes of a tuple of a text and an int, measured likewise


class Groups(dict[Any, int]):
    """The groups of one key, in order of first occurrence."""

    __slots__ = ("_growing", "_owners", "crcs", "encoded", "nbytes", "order", "stored", "tokens")

    def __init__(self) -> None:
        self.tokens: list[Any] = []  # the keys of this dictionary, by code
        self.stored: list[bytes] = []
        self.crcs: list[int] = []
        self.order: NDArray[np.uint64] = np.zeros(256, np.uint64)  # the first 8 bytes of stored keys
        self.encoded: dict[int, bytes] = {}  # of groups too long to be stored whole
        self.nbytes = 0
        self._owners = np.zeros(0, np.int64)
        self._growing = False  # many values of the last column had no code

    def __missing__(self, value: Any) -> int:
        return self._add(value, encode_key(value))

    @property
    def size(self) -> int:
        """Return the number of groups."""
        return len(self.stored)

    def code(self, value: Any) -> int:
        """Return the code of any value. Raise KeyKind or KeyTooLong if it cannot be a group."""
        if _is_plain(value):
            return self[value]
        kind = type(value)
        if kind is float and value.is_integer():
            return self[int(value)]
        encoded = encode_key(value)
        token = (encoded,)  # the encoding distinguishes them
        found = self.get(token)
        if found is not None:
            return found
        own = value if kind is bool or kind is float else decode_key(encoded)  # of base types, with ints where possible
        if not _is_plain(own):
            return self._add(token, encoded)
        self.nbytes += len(encoded) + _COST
        code = self[token] = self[own]
        return code

    def code_or_bad(self, value: Any) -> int:
        """Return the code of a value, or BAD."""
        try:
            return self.code(value)
        except (KeyKind, KeyTooLong):
            return BAD

    def plain_codes(self, values: Iterable[Any], n: int) -> Codes:
        """Return the codes of a column of n texts, ints or nulls. Raise KeyKind or KeyTooLong like `[]`.

        After a column with many new groups, those of the next one are added together, which costs half as much.
        Either way they get their codes in order of first occurrence.
        """
        before = self.size
        if self._growing:
            values = list(values)
            found = map(self.get, values)
            self._add_plain(list(dict.fromkeys([value for value, code in zip(values, found) if code is None])))
        codes = np.fromiter(map(self.__getitem__, values), np.int32, n)
        self._growing = self.size - before > n // _GROWING
        return codes

    def codes(self, values: list[Any]) -> Codes:
        """Return the codes of a column of any values, BAD for values that cannot be groups."""
        if _all_plain(values):
            try:
                return np.fromiter(map(self.__getitem__, values), np.int32, len(values))
            except (KeyKind, KeyTooLong):
                pass
        return np.fromiter(map(self.code_or_bad, values), np.int32, len(values))

    def ordered_codes(self, values: list[Any]) -> Codes:
        """Return the codes of a column like `codes`. Groups that have none get theirs in canonical order.

        Then codes do not follow the order of a Python set, which differs between processes.
        """
        try:
            if _all_plain(values):
                known = np.fromiter(map(self.get, values, repeat(NONE)), np.int32, len(values))
                unknown = (known == NONE).nonzero()[0].tolist()
                added = [values[i] for i in unknown]
                for value in sorted(set(added), key=encode_key):
                    self._add(value, encode_key(value))
                known[unknown] = list(map(self.__getitem__, added))
                return known
            for _, value in sorted({encode_key(value): value for value in values}.items()):
                self.code(value)
        except (KeyKind, KeyTooLong):
            pass  # a value that cannot be a group
        return self.codes(values)

    def code_of_encoded(self, encoded: bytes) -> int:
        """Return the code of an encoded group."""
        return self.code(decode_key(encoded))

    def value(self, code: int) -> Any:
        """Return the group with this code."""
        token = self.tokens[code]
        return decode_key(self.whole(code)) if _is_encoded(token) else token

    def keyed(self, codes: NDArray[Any]) -> list[tuple[bytes, Any]]:
        """Return the stored keys and the values of the groups with these codes."""
        stored = self.stored
        return [(stored[code], self.value(code)) for code in codes.tolist()]

    def whole(self, code: int) -> bytes:
        """Return the encoding of the group with this code."""
        return self.encoded.get(code) or self.stored[code]

    def owners(self, ranges: KeyRanges) -> NDArray[np.int64]:
        """Return the owner of each group by code. Every call must pass the same ranges."""
        known = self._owners.size
        if known < self.size:
            fresh = ranges.of_encoded([self.whole(code) for code in range(known, self.size)])
            self._owners = np.concatenate((self._owners, fresh))
        return self._owners

    def _add(self, token: Any, encoded: bytes) -> int:
        code = len(self.stored)
        key = stored_key(encoded)
        if key is not encoded and key != encoded:
            self.encoded[code] = encoded
        self.stored.append(key)
        self.tokens.append(token)
        self.crcs.append(crc32c(key))
        self._reach(code + 1)
        self.order[code] = int.from_bytes(key[:8].ljust(8, b"\0"), "big")
        self.nbytes += len(encoded) + _COST + (_TUPLE_COST if type(token) is tuple else 0)
        self[token] = code
        return code

    def _add_plain(self, values: list[Any]) -> None:
        """Add texts, ints or null that have no code, like `_add`. Add none if one of them cannot be a group."""
        try:
            encoded = list(map(encode_key, values))
        except (KeyKind, KeyTooLong):
            return  # they are added one by one up to that value
        start, keys = self.size, list(map(stored_key, encoded))
        if keys != encoded:
            long = zip(range(start, start + len(keys)), keys, encoded, strict=True)
            self.encoded.update((code, whole) for code, key, whole in long if key != whole)
        self._reach(start + len(keys))
        self.order[start : start + len(keys)] = np.array(keys, "S8").view(">u8")
        self.stored += keys
        self.tokens += values
        self.crcs += map(crc32c, keys)
        self.nbytes += sum(map(len, encoded)) + _COST * len(keys)
        self.update(zip(values, range(start, start + len(keys)), strict=True))

    def _reach(self, size: int) -> None:
        """Allocate space for the order of so many groups."""
        if size > self.order.size:
            grown = np.zeros(max(size, 2 * self.order.size), np.uint64)
            grown[: self.order.size] = self.order
            self.order = grown


class TupleGroups:
    """Groups of several fields: the codes of the parts determine the code of the tuple."""

    __slots__ = ("_codes", "_parts", "groups")

    def __init__(self, parts: list[Groups]) -> None:
        self.groups = Groups()
        self._parts = parts
        self._codes: dict[tuple[int, ...], int] = {}

    @property
    def nbytes(self) -> int:
        """Estimate the bytes in use."""
        return self.groups.nbytes + 120 * len(self._codes)

    def combine(self, columns: list[Codes]) -> Codes:
        """Return the codes of tuples from the codes of their parts. A tuple with a BAD part is BAD."""
        n = int(columns[0].size)
        if not n:
            return np.zeros(0, np.int32)
        joined = columns[0].astype(np.int64)
        for column in columns[1:]:
            _, inverse = np.unique(joined, return_inverse=True)
            joined = inverse.ravel().astype(np.int64) << 32 | (column.astype(np.int64) + 4)
        _, first, inverse = np.unique(joined, return_index=True, return_inverse=True)
        rows = list(zip(*(c[first].tolist() for c in columns), strict=True))
        own = np.fromiter(map(self.code, rows), np.int32, len(rows))
        return own[inverse.ravel()]

    def code(self, row: tuple[int, ...]) -> int:
        """Return the code of one tuple from the codes of its parts. A tuple with a BAD part is BAD."""
        found = self._codes.get(row)
        if found is None:
            if BAD in row:
                return BAD
            value = tuple(part.value(code) for part, code in zip(self._parts, row, strict=True))
            found = self._codes[row] = self.groups.code_or_bad(value)
        return found


def _is_plain(value: Any) -> bool:
    """Return True if Python takes the value as equal to its equal groups only."""
    kind = type(value)
    return kind in _PLAIN or kind is bytes or (kind is tuple and _PLAIN.issuperset(map(type, value)))


def _is_encoded(token: Any) -> bool:
    """Return True if a token holds the encoding of its group, not the group itself."""
    return type(token) is tuple and len(token) == 1 and type(token[0]) is bytes


def _all_plain(values: Sequence[Any]) -> bool:
    """Return True if all values are plain groups, by the types that occur; False also for bytes."""
    types = set(map(type, values))
    if tuple in types:
        tuples = values if len(types) == 1 else [value for value in values if type(value) is tuple]
        types = types - {tuple} | set(map(type, chain.from_iterable(tuples)))
    return types <= _PLAIN


def local_codes(codes: Codes, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct codes, and the index of each code among them."""
    if codes.size <= _FEW:
        listed = codes.tolist()
        known = sorted(set(listed))
        return np.array(known, np.int64), np.array([known.index(c) for c in listed], np.int64)
    if size <= 32 * codes.size:
        mark = np.zeros(size, bool)
        mark[codes] = True
        distinct = mark.nonzero()[0]
        place = np.empty(size, np.int64)
        place[distinct] = np.arange(distinct.size)
        return distinct, place[codes]
    found, inverse = np.unique(codes, return_inverse=True)
    return found.astype(np.int64), inverse.ravel().astype(np.int64)
