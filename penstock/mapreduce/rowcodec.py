"""View rows: one stored row a group, its accumulators, from which its result follows.

Form A, a row whose lanes say all, is fixed-width MessagePack, so that many rows are cut from one record array:

    array [n, lane, lane, …], every int as int64 (d3)

Form B, any other row, is a MessagePack map of what applies:

    n: contributions   l: lanes   s: per cell its spill or nil   h: [error, last good result]   k: the whole key

Which form a row has follows from its content alone. `k` is there where the group is too long to be the row's key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from penstock.cache import PenstockError, canonical, pack, said, seal, unpack, unseal
from penstock.views import Cell, Reducer, State

_SHORT_ARRAY = 15
_decode = msgspec.msgpack.Decoder(list[int]).decode
_MAP_BITS = (0x80, 0xDE)


@dataclass(slots=True)
class RowState:
    """The accumulators of one group."""

    n: int
    lanes: list[int]
    spills: list[list[Any] | None] | None = None
    held: list[Any] | None = None
    whole: bytes | None = None


class RowCodec:
    """How rows of one view are written and read."""

    __slots__ = ("_dtype", "_fields", "_head", "_reads", "cells", "lanes", "spans")

    def __init__(self, reducers: Sequence[Reducer], fields: Sequence[str] | None) -> None:
        self.cells: tuple[Cell, ...] = tuple(dict.fromkeys(cell for r in reducers for cell in r.cells))
        starts = np.cumsum([0, *(cell.lanes for cell in self.cells)]).tolist()
        self.spans = tuple(pairwise(starts))
        self.lanes: int = starts[-1]
        self._fields = None if fields is None else tuple(fields)
        places = {cell: i for i, cell in enumerate(self.cells)}
        self._reads = tuple((r, tuple(places[cell] for cell in r.cells)) for r in reducers)
        size = self.lanes + 1
        self._head = bytes([0x90 | size]) if size <= _SHORT_ARRAY else b"\xdc" + size.to_bytes(2, "big")
        names = [(f"h{i}", "u1") for i in range(len(self._head))]
        for i in range(size):
            names += [(f"t{i}", "u1"), (f"v{i}", ">i8")]
        self._dtype = np.dtype(names)

    # -- writing

    def fixed_rows(
        self, keys: Sequence[bytes], crcs: Sequence[int], n: NDArray[np.int64], lanes: NDArray[np.int64]
    ) -> list[tuple[bytes, bytes]]:
        """Rows of form A, sealed: one for each key, n and column of lanes."""
        m = len(keys)
        records = np.empty(m, self._dtype)
        for i, byte in enumerate(self._head):
            records[f"h{i}"] = byte
        records["t0"], records["v0"] = 0xD3, n
        for i in range(self.lanes):
            records[f"t{i + 1}"], records[f"v{i + 1}"] = 0xD3, lanes[i]
        width, raw = records.itemsize, records.tobytes()
        rows = [raw[i : i + width] for i in range(0, m * width, width)]
        seals = np.fromiter(map(crc32c, rows, crcs), np.uint32, m).astype(">u4").tobytes()
        return [(key, row + seals[i : i + 4]) for key, row, i in zip(keys, rows, range(0, 4 * m, 4), strict=True)]

    def sealed(self, key: bytes, state: RowState) -> bytes:
        """A row of form B, sealed."""
        row: dict[str, Any] = {"n": state.n, "l": state.lanes}
        if state.spills is not None and any(spill is not None for spill in state.spills):
            row["s"] = state.spills
        if state.held is not None:
            row["h"] = state.held
        if state.whole is not None:
            row["k"] = state.whole
        return seal(key, pack(row))

    # -- reading

    def decode(self, key: bytes, row: bytes, where: str) -> RowState:
        """The state that a stored row holds; StoreDamaged where it isn't what was written."""
        payload = unseal(key, row, where)
        first = payload[0]
        if first & 0xF0 != 0x80 and first not in _MAP_BITS:
            n, *lanes = _decode(payload)
            return RowState(n, lanes)
        found = unpack(payload)
        return RowState(found["n"], found["l"], found.get("s"), found.get("h"), found.get("k"))

    def merged(self, states: Sequence[RowState]) -> RowState:
        """The accumulators of several groups together; held without a result where a user's functions raise."""
        out = states[0]
        try:
            for state in states[1:]:
                out = self._merged(out, state)
        except PenstockError:
            raise
        except Exception as error:
            return RowState(sum(state.n for state in states), [], None, [said(error), None])
        return out

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

    def result(self, state: RowState) -> Any:
        """The result that a reader is shown."""
        return state.held[1] if state.held is not None else self.fresh_result(state)

    def fresh_result(self, state: RowState) -> Any:
        """The result of the accumulators."""
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


def same_result(a: Any, b: Any) -> bool:
    """Whether two results are one and the same value."""
    return type(a) is type(b) and (canonical(a) == canonical(b))
