"""The transfer of columns from the process that decodes to the one that commits.

A group's encoding is sent once. After that the sender's code represents it, and the receiver translates it to its own
code. Invariants:

- received columns equal those of the receiver's own decoder, with codes of the receiver's dictionaries;
- replies are read once and in the order of their creation: a reply may rely on groups sent in an earlier one;
- a reply is unreadable if the receiver has dropped its dictionaries since. Then `columns` returns None, and the next
  request has the next `era`, at which the sender starts again. A sender that starts again by itself sends all groups
  from code 0, and the receiver replaces its translation.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

from penstock.cache import pack, unpack
from penstock.mapreduce.columns.column import Column
from penstock.mapreduce.columns.group_codes import BAD, MANY, NONE, Codes, Groups
from penstock.mapreduce.decode.decoder import DecodedColumns, Decoder
from penstock.mapreduce.maps.field_plan import FieldPlan, Spaces
from penstock.views import Key, Path, where_from

_MOST_GROUPS = 128 << 20  # bytes of groups at which a sender starts again
_BELOW = -BAD  # negative codes that give the reason for a missing group


class _Plan(msgspec.Struct):
    key: Any
    ts: Path | None
    groups: list[Any]
    group_paths: list[Path]
    inputs: list[tuple[Path, bool]]
    wheres: list[Any]
    paths: list[Path]
    seed: int


class _SentColumn(msgspec.Struct, array_like=True):
    lane: bytes
    kind: bytes | None
    at: bytes  # the indexes of the values in `objs`
    objs: bytes


class _Reply(msgspec.Struct, array_like=True):
    era: int
    n: int
    k0: bytes
    k1: bytes | None
    ts: bytes | None  # 64-bit ints
    stamps: bytes | None  # or values of any kind
    codes: list[bytes]
    fresh: list[tuple[int, list[bytes]]]  # by dictionary: the first code of these groups
    inputs: list[_SentColumn]
    where: list[bytes]
    bad: dict[int, str]


_encode = msgspec.msgpack.Encoder().encode
_reply = msgspec.msgpack.Decoder(_Reply).decode
_plan = msgspec.msgpack.Decoder(_Plan).decode


def plan_data(plan: FieldPlan, seed: int) -> bytes:
    """Encode a plan without functions, and the seed of hashed keys, as plain data."""
    assert not plan.functions, "functions stay where they are"
    keys = [key.describe() for key in plan.groups]
    wheres = [where.describe() for where in plan.wheres]
    inputs = list(plan.inputs.items())
    own = _Plan(plan.key.describe(), plan.ts, keys, list(plan.group_paths), inputs, wheres, list(plan.paths), seed)
    return _encode(own)


def plan_from(data: bytes) -> tuple[FieldPlan, int]:
    """Decode the plan and the seed."""
    own = _plan(data)
    groups = tuple(_key(key) for key in own.groups)
    wheres = tuple(where_from(where) for where in own.wheres)
    plan = FieldPlan(
        _key(own.key), own.ts, groups, tuple(own.group_paths), dict(own.inputs), wheres, False, tuple(own.paths)
    )
    return plan, own.seed


def _key(data: Any) -> Key:
    return Key(tuple(tuple(path) for path in data["paths"]), data["single"])


class Sender:
    """The side that decodes."""

    def __init__(self, plan: FieldPlan, seed: int) -> None:
        self._plan = plan
        self._seed = seed
        self._begin(0)

    def _begin(self, era: int) -> None:
        self._era = era
        self._spaces = Spaces()
        self._decoder = Decoder(self._plan, self._spaces, self._seed)
        self._sent = [0] * len(self._plan.groups)

    def reply(self, lines: list[bytes], era: int) -> bytes:
        """Return the encoded columns of these lines."""
        if era != self._era or self._spaces.nbytes > _MOST_GROUPS:
            self._begin(era)
        columns = self._decoder.columns(lines)
        dictionaries = [self._spaces.groups(key) for key in self._plan.groups]
        ts, stamps = columns.ts, None
        if isinstance(ts, list):
            ts, stamps = None, pack(ts)
        out = _Reply(
            era,
            columns.n,
            columns.k0.tobytes(),
            None if columns.k1 is None else columns.k1.tobytes(),
            None if ts is None else ts.tobytes(),
            stamps,
            [columns.codes[key].tobytes() for key in self._plan.groups],
            [(a, [g.whole(code) for code in range(a, g.size)]) for a, g in zip(self._sent, dictionaries, strict=True)],
            [_column(columns.inputs[path]) for path in self._plan.inputs],
            [columns.where[where].tobytes() for where in self._plan.wheres],
            columns.bad,
        )
        data = _encode(out)
        self._sent = [groups.size for groups in dictionaries]
        return data


class Receiver:
    """The side with the authoritative dictionaries."""

    def __init__(self, plan: FieldPlan) -> None:
        self.era = 0
        self._plan = plan
        self._spaces: Spaces | None = None
        self._own = [_Lookup() for _ in plan.groups]

    def columns(self, data: bytes, spaces: Spaces) -> DecodedColumns | None:
        """Decode a reply to columns with the codes of these dictionaries. Return None if the reply is unreadable."""
        if self._spaces is not spaces:
            self.era += self._spaces is not None
            self._spaces = spaces
            self._own = [_Lookup() for _ in self._plan.groups]
        got = _reply(data)
        if got.era != self.era:
            return None
        codes: dict[Key, Codes] = {}
        for key, own, column, (first, encoded) in zip(self._plan.groups, self._own, got.codes, got.fresh, strict=True):
            own.learn(first, encoded, spaces.groups(key))
            codes[key] = own.codes(np.frombuffer(column, np.int32))
        ts: list[Any] | NDArray[np.int64] | None = None
        if got.ts is not None:
            ts = _array(got.ts, np.int64)
        elif got.stamps is not None:
            ts = unpack(got.stamps)
        return DecodedColumns(
            got.n,
            _array(got.k0, np.uint64),
            None if got.k1 is None else _array(got.k1, np.uint64),
            ts,
            codes,
            {path: _column_from(column) for path, column in zip(self._plan.inputs, got.inputs, strict=True)},
            {where: _array(mask, np.bool_) for where, mask in zip(self._plan.wheres, got.where, strict=True)},
            {},
            got.bad,
        )


class _Lookup:
    """The translation of the sender's codes to the receiver's, for one dictionary. Negative codes stay the same."""

    __slots__ = ("_codes", "_size")

    def __init__(self) -> None:
        self._codes = np.array([BAD, MANY, NONE], np.int32)
        self._size = 0

    def learn(self, first: int, encoded: list[bytes], groups: Groups) -> None:
        """Add groups. `first` is the sender's code of the first of them."""
        assert first in (0, self._size), f"groups up to {self._size} are known, and these begin at {first}"
        self._size = first + len(encoded)
        if self._size + _BELOW > self._codes.size:
            grown = np.empty(2 * (self._size + _BELOW), np.int32)
            grown[: self._codes.size] = self._codes
            self._codes = grown
        for code, group in enumerate(encoded, first + _BELOW):
            self._codes[code] = groups.code_of_encoded(group)

    def codes(self, codes: Codes) -> Codes:
        """Return the receiver's codes."""
        found: Codes = self._codes.take(codes + np.int32(_BELOW))
        return found


def _array(data: bytes, dtype: DTypeLike) -> NDArray[Any]:
    """Return a writable array."""
    return np.frombuffer(data, dtype).copy()


def _column(column: Column) -> _SentColumn:
    at = np.fromiter(column.objs, np.int64, len(column.objs))
    kind = None if column.kind is None else column.kind.tobytes()
    return _SentColumn(column.lane.tobytes(), kind, at.tobytes(), pack(list(column.objs.values())))


def _column_from(got: _SentColumn) -> Column:
    at = np.frombuffer(got.at, np.int64).tolist()
    kind = None if got.kind is None else _array(got.kind, np.uint8)
    return Column(_array(got.lane, np.int64), kind, dict(zip(at, unpack(got.objs), strict=True)))
