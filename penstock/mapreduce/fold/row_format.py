"""View rows: one stored row per group, its accumulators, from which its result follows.

Form A, a row that consists of lanes only, is fixed-width MessagePack. So many rows are cut from one record array:

    array [n, lane, lane, …], every int as int64 (d3)

Form B, any other row, is a MessagePack map of the fields that apply:

    n: contributions   l: lanes   s: per cell its spill or nil   h: [error, last good result]   k: the whole key
    c: the contributions themselves, as in a leaf, for a small group of a view that keeps them
    v: for a larger one, per value cell: the number of distinct values

The content of a row alone determines its form. `k` is present if the group is too long for the row's key.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import msgspec
import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from penstock.cache import PenstockError, StoreDamaged, canonical, error_text, seal, unpack_hook, unseal, unseal_many
from penstock.mapreduce.reducers.exact_group_sums import LANE_MAX
from penstock.views import Cell, Coded, Reducer, State, is_tree_cell, is_value_cell

_SHORT_ARRAY = 15
_INT64 = 0xD3
_SIMPLE = frozenset({int, str, bool, bytes, type(None)})
_are_simple = _SIMPLE.issuperset
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[int]).decode
_MAP_BITS = (0x80, 0xDE)
_FEW = 8  # limit of rows up to which a loop is faster than one record array


@dataclass(slots=True)
class RowState:
    """The accumulators of one group."""

    n: int
    lanes: list[int]
    spills: list[list[Any] | None] | None = None
    held: list[Any] | None = None
    whole: bytes | None = None
    items: list[Any] | None = None
    values: list[int | None] | None = None


_LETTERS = {"items": "c", "held": "h", "whole": "k", "lanes": "l", "n": "n", "spills": "s", "values": "v"}


class _FormB(msgspec.Struct, omit_defaults=True, rename=_LETTERS):
    """An encoded row of form B: the fields that apply, sorted by letter."""

    items: list[Any] | None = None
    held: list[Any] | None = None
    whole: bytes | None = None
    lanes: list[int] | None = None
    n: int | None = None
    spills: list[Any] | None = None
    values: list[Any] | None = None


def _stands_alone(cell: Cell) -> bool:
    """Return True if the merged states of groups may have no result."""
    return is_value_cell(cell) or (is_tree_cell(cell) and cell.runs)


_decode_form_b = msgspec.msgpack.Decoder(_FormB, ext_hook=unpack_hook).decode


class RowCodec:
    """The encoding of one view's rows."""

    __slots__ = (
        "_counts",
        "_dtype",
        "_fields",
        "_head",
        "_one",
        "_reads",
        "_types",
        "adds_up",
        "cells",
        "lanes",
        "spans",
    )

    def __init__(self, reducers: Sequence[Reducer], fields: Sequence[str] | None) -> None:
        self.cells: tuple[Cell, ...] = tuple(dict.fromkeys(cell for r in reducers for cell in r.cells))
        starts = list(accumulate([0, *(cell.lanes for cell in self.cells)]))
        self.spans = tuple(pairwise(starts))
        self.lanes: int = starts[-1]
        self._fields = None if fields is None else tuple(fields)
        places = {cell: i for i, cell in enumerate(self.cells)}
        self._counts = any(not r.cells for r in reducers)  # a result depends on the number of contributions
        self._reads = tuple((r, tuple(places[cell] for cell in r.cells)) for r in reducers)
        self.adds_up = not any(isinstance(r, Coded) for r in reducers) and not any(map(_stands_alone, self.cells))
        size = self.lanes + 1
        self._head = bytes([0x90 | size]) if size <= _SHORT_ARRAY else b"\xdc" + size.to_bytes(2, "big")
        self._one = struct.Struct(f">{len(self._head)}s" + "Bq" * size)
        self._types = [_INT64, 0] * size  # each int follows the byte of its type
        self._dtype: np.dtype[Any] | None = None  # dtype of a form A row, created when many rows are written

    # -- writing

    def fixed_rows(
        self, keys: Sequence[bytes], crcs: Sequence[int], n: NDArray[np.int64], lanes: NDArray[np.int64]
    ) -> list[tuple[bytes, bytes]]:
        """Encode and seal rows of form A, one for each key, n and column of lanes."""
        m = len(keys)
        if m <= _FEW:
            return list(map(self.fixed_row, keys, np.concatenate((n[None, :], lanes)).T.tolist()))
        if self._dtype is None:
            self._dtype = _fixed(len(self._head), self.lanes + 1)
        records = np.empty(m, self._dtype)
        for i, byte in enumerate(self._head):
            records[f"h{i}"] = byte
        records["t0"], records["v0"] = _INT64, n
        for i in range(self.lanes):
            records[f"t{i + 1}"], records[f"v{i + 1}"] = _INT64, lanes[i]
        width, raw = records.itemsize, records.tobytes()
        rows = [raw[i : i + width] for i in range(0, m * width, width)]
        seals = np.fromiter(map(crc32c, rows, crcs), np.uint32, m).astype(">u4").tobytes()
        return [(key, row + seals[i : i + 4]) for key, row, i in zip(keys, rows, range(0, 4 * m, 4), strict=True)]

    def fixed_row(self, key: bytes, row: Sequence[int]) -> tuple[bytes, bytes]:
        """Encode and seal one row of form A: n, then the lanes."""
        ints = self._types[:]
        ints[1::2] = row
        return key, seal(key, self._one.pack(self._head, *ints))

    def sealed(self, key: bytes, state: RowState, ints: bool = False) -> bytes:
        """Encode and seal a row of form B. `ints`: all its values are 64-bit ints."""
        if ints and state.held is None:
            return seal(key, _encode(_form_b(state)))
        return seal(key, self.payload(state))

    def payload(self, state: RowState, bare: bool = False) -> bytes:
        """Encode a row of form B with sorted maps, also inside values. `bare` leaves out the contributions."""
        row = _form_b(state)
        if bare:
            row.items = row.values = None
        if _is_simple(row):
            try:
                return _encode(row)  # equals `canonical`, without its walk
            except OverflowError:
                pass
        parts = zip(_LETTERS.values(), msgspec.structs.astuple(row), strict=True)
        return canonical({letter: part for letter, part in parts if part is not None})

    # -- reading

    def decode(self, key: bytes, row: bytes, where: str) -> RowState:
        """Decode a stored row. Raise StoreDamaged if its bytes have changed."""
        return self.state_of(unseal(key, row, where))

    def state_of(self, payload: bytes) -> RowState:
        """Decode a row's payload."""
        first = payload[0]
        if first & 0xF0 != 0x80 and first not in _MAP_BITS:
            n, *lanes = _decode(payload)
            return RowState(n, lanes)
        try:
            found = _decode_form_b(payload)
        except (msgspec.DecodeError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
            raise StoreDamaged(f"a row that begins with {payload[:16]!r} and can't be unpacked: {error}") from error
        if found.n is None or found.lanes is None:
            raise StoreDamaged(f"a row that begins with {payload[:16]!r} and does not say what it counts")
        return RowState(found.n, found.lanes, found.spills, found.held, found.whole, found.items, found.values)

    def states(self, rows: Sequence[tuple[bytes, bytes]], where: str) -> list[RowState]:
        """Return states that together equal these rows. Many rows of form A are added to one state."""
        payloads = unseal_many([key for key, _ in rows], [row for _, row in rows], where)
        plain, states = list[bytes](), list[RowState]()
        for payload in payloads:
            assert payload is not None, "each is a row"
            if payload[0] == self._head[0]:
                plain.append(payload)
            else:
                states.append(self.state_of(payload))
        total = self._total(plain) if len(plain) > _FEW else None
        return [*map(self.state_of, plain), *states] if total is None else [total, *states]

    def _total(self, payloads: Sequence[bytes]) -> RowState | None:
        """Add up rows of form A. Return None if the sums may exceed 64 bits."""
        if self._dtype is None:
            self._dtype = _fixed(len(self._head), self.lanes + 1)
        records = np.frombuffer(b"".join(payloads), self._dtype)
        sums: list[int] = []
        for i in range(self.lanes + 1):
            lane = records[f"v{i}"]
            if max(int(lane.max()), -int(lane.min())) * len(lane) > LANE_MAX:
                return None
            sums.append(int(lane.sum()))
        return RowState(sums[0], sums[1:])

    def merged(self, states: Sequence[RowState]) -> RowState:
        """Merge the accumulators of several groups. If user functions raise, the state is held without a result.

        Neighbours are merged first, so a growing accumulator is copied log n times, not n times.
        """
        left = list(states)
        try:
            while len(left) > 1:
                left = [*map(self._merged, left[:-1:2], left[1::2]), *left[len(left) & ~1 :]]
        except PenstockError:
            raise
        except Exception as error:
            return RowState(sum(state.n for state in states), [], None, [error_text(error), None])
        return left[0]

    def _merged(self, first: RowState, second: RowState) -> RowState:
        lanes: list[int] = []
        spills: list[list[Any] | None] = []
        for i, (cell, (a, b)) in enumerate(zip(self.cells, self.spans, strict=True)):
            one = (tuple(first.lanes[a:b]), None if first.spills is None else first.spills[i])
            two = (tuple(second.lanes[a:b]), None if second.spills is None else second.spills[i])
            own, spill = cell.merge(one, two)
            lanes += own
            spills.append(spill)
        return RowState(first.n + second.n, lanes, spills)

    def surely_shows(self, old: RowState, new: RowState) -> bool:
        """Return True if two states certainly have the same result. The check is quick, so False may be wrong."""
        if old.held is not None or new.held is not None or old.lanes != new.lanes or (self._counts and old.n != new.n):
            return False
        mine, yours = old.spills, new.spills
        return mine == yours and (mine is None or yours is None or all(map(_same_spill, mine, yours)))

    def result(self, state: RowState) -> Any:
        """Return the result that readers see."""
        return state.held[1] if state.held is not None else self.fresh_result(state)

    def fresh_result(self, state: RowState) -> Any:
        """Compute the result from the accumulators."""
        n, lanes, spills = state.n, state.lanes, state.spills
        states: list[State] = [
            (tuple(lanes[a:b]), None if spills is None else spills[i]) for i, (a, b) in enumerate(self.spans)
        ]
        if self._fields is None:
            reducer, places = self._reads[0]
            return reducer.result(n, [states[i] for i in places])
        return {
            name: reducer.result(n, [states[i] for i in places])
            for name, (reducer, places) in zip(self._fields, self._reads, strict=True)
        }

    def results(self, rows: NDArray[np.int64]) -> list[Any]:
        """Return the results of rows of form A. Each has n and its lanes."""
        n, cells = rows[:, 0], [rows[:, 1 + a : 1 + b] for a, b in self.spans]
        columns = [reducer.results(n, [cells[i] for i in places]) for reducer, places in self._reads]
        if self._fields is None:
            return columns[0]
        return [dict(zip(self._fields, row, strict=True)) for row in zip(*columns, strict=True)]


def _fixed(head: int, ints: int) -> np.dtype[Any]:
    """Return a row of form A as a record type: the bytes of its head, and for each int its type byte and value."""
    names = [(f"h{i}", "u1") for i in range(head)]
    for i in range(ints):
        names += [(f"t{i}", "u1"), (f"v{i}", ">i8")]
    return np.dtype(names)


def _form_b(state: RowState) -> _FormB:
    spills = state.spills
    if spills is not None and spills.count(None) == len(spills):
        spills = None
    return _FormB(state.items, state.held, state.whole, state.lanes, state.n, spills, state.values)


def _same_spill(a: list[Any] | None, b: list[Any] | None) -> bool:
    """Return True if equal spills also have equal types. Python takes 1, 1.0 and True as equal."""
    if a is None or b is None:
        return a is b
    if len(a) == 1:
        one = type(a[0])
        if one is not list:
            return one in _SIMPLE and type(b[0]) is one
        if type(b[0]) is list:
            return _same_types(a[0], b[0])
    return _same_types(a, b)


def _same_types(a: list[Any], b: list[Any]) -> bool:
    types = list(map(type, a))
    return _are_simple(types) and types == list(map(type, b))


def _is_simple(row: _FormB) -> bool:
    """Return True if `canonical` is not needed: by types there is no Decimal, map, NaN or large value."""
    if row.held is not None:
        return False
    if row.items is not None:
        for part in row.items[2]:
            if type(part) is list and len(part) > 2:
                return False
    if row.spills is not None:
        for spill in row.spills:
            if spill is not None and not _is_plain(spill):
                return False
    return True


def _is_plain(spill: list[Any]) -> bool:
    """Return True if a spill consists of plain values, or of one list of them."""
    if _are_simple(map(type, spill)):
        return True
    return len(spill) == 1 and type(spill[0]) is list and _are_simple(map(type, spill[0]))


def same_result(a: Any, b: Any) -> bool:
    """Return True if two results are the same value of the same type."""
    return type(a) is type(b) and (canonical(a) == canonical(b))
