"""Rows of tree nodes, in MessagePack: a leaf holds its contributions, an inner node the data of its children.

    leaf   [0, keys, ranks, columns]    inner  [1, prefixes, columns]

`keys` are int64s as bytes if all are ints, else [hashes as u64s, [int or encoded key, …]]. `ranks` are u32s, or nil if
all are 0. `prefixes` are u64s. A column is nil if all is null, and int64s if all are ints. Else it is [int64s, kinds as
bytes], with a third part [[i, value], …] for values beyond 64 bits. Arrays are little-endian, values in canonical form.
So the items of a node determine its row.

Memory holds a node as one tuple of the parts of its row: (0, keys, ranks, column, …) or (1, prefixes, column, …). The
row is encoded when nodes are written. A batch takes columns from the parts without decoding.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.cache import StoreDamaged, canonical, mix, unpack, unpack_hook
from penstock.mapreduce.columns.column import Column, LaneKind, lane_of, value_of
from penstock.mapreduce.columns.items import Ints, Items, Mask, Texts, source_hash

LEAF, INNER = 0, 1
_SIMPLE = frozenset({str, bool, bytes})
_PLAIN_KINDS = frozenset({LaneKind.NULL, LaneKind.INT})
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ext_hook=unpack_hook).decode


Node = tuple[Any, ...]
"""A node in memory."""


def unpacked(payload: bytes) -> Node:
    """Decode a row's payload to its node."""
    try:
        row = _decode(payload)
    except (msgspec.DecodeError, ValueError, TypeError, ArithmeticError, RecursionError):
        row = unpack(payload)  # raises an error with the reason
    return (*row[:-1], *row[-1])


def packed(node: Node) -> bytes:
    """Encode a node to the payload of its row."""
    first = 2 if node[0] == INNER else 3
    columns = node[first:]
    encode: Callable[[Any], bytes] = _encode
    for column in columns:
        if column is None or isinstance(column, bytes) or len(column) <= 2:
            continue  # lanes alone
        if not are_simple(value for _, value in column[2]):
            encode = canonical
    return encode([*node[:first], list(columns)])


def are_simple(values: Iterable[Any]) -> bool:
    """Return True if MessagePack has one form only for these values beyond lanes."""
    return _SIMPLE.issuperset(map(type, values))


def is_inner(node: Node) -> bool:
    """Return True if a node has children."""
    return bool(node[0] == INNER)


def are_inner(nodes: Sequence[Node | None]) -> Mask:
    """Mark the nodes that exist and have children."""
    return np.array([node is not None and node[0] == INNER for node in nodes], bool)


class Cut:
    """Cuts rows of nodes out of items: converts the columns to bytes once, then slices them."""

    def __init__(self, items: Items, inner: bool) -> None:
        self._items = items
        self._inner = inner
        self._at = items.at.astype("<u8", copy=False).tobytes() if inner or items.text is not None else b""
        self._lane = b"" if inner else items.lane.astype("<i8", copy=False).tobytes()
        self._columns = [_CutColumn(column) for column in items.columns]
        self._plain = all(column.plain for column in self._columns) and items.text is None

    def node(self, a: int, b: int) -> Node:
        """Return the node of items a to b."""
        if self._inner:
            return INNER, self._at[8 * a : 8 * b], *(c.part(a, b) for c in self._columns)
        return LEAF, self._keys(a, b), self._ranks(a, b), *(c.part(a, b) for c in self._columns)

    def nodes(self, starts: Ints, stops: Ints) -> list[Node]:
        """Return the nodes of the items from each start to its stop."""
        spans = zip((8 * starts).tolist(), (8 * stops).tolist())
        if self._plain and self._inner:
            at, lanes = self._at, [column.lane for column in self._columns]
            return [(INNER, at[x:y], *[lane[x:y] for lane in lanes]) for x, y in spans]
        if self._plain and len(self._columns) == 1:
            keys, own = self._lane, self._columns[0].lane
            ranks = self._ranks_of_each(starts, stops)
            return [(LEAF, keys[x:y], rank, own[x:y]) for (x, y), rank in zip(spans, ranks)]
        return [self.node(x >> 3, y >> 3) for x, y in spans]

    def parts(self, a: int, b: int) -> list[Any]:
        """Return a leaf as data for another row."""
        return [self._keys(a, b), self._ranks(a, b), [c.part(a, b) for c in self._columns]]

    def _keys(self, a: int, b: int) -> Any:
        text = self._items.text
        if text is not None:
            own = text[a:b].tolist()
            if any(t is not None for t in own):
                lanes = self._items.lane[a:b].tolist()
                return [self._at[8 * a : 8 * b], [lane if t is None else t for lane, t in zip(lanes, own)]]
        return self._lane[8 * a : 8 * b]

    def _ranks_of_each(self, starts: Ints, stops: Ints) -> Iterable[bytes | None]:
        """Return the ranks of the items from each start to its stop, like `_ranks`."""
        rank = self._items.rank
        if rank is None:
            return repeat(None)
        above: Ints = np.concatenate((np.zeros(1, np.int64), np.cumsum(rank > 0, dtype=np.int64)))
        found = (above[stops] != above[starts]).tolist()
        own = rank.astype("<u4").tobytes()
        spans = zip(found, (4 * starts).tolist(), (4 * stops).tolist())
        return [own[x:y] if some else None for some, x, y in spans]

    def _ranks(self, a: int, b: int) -> bytes | None:
        rank = self._items.rank
        if rank is None or not rank[a:b].any():
            return None
        return rank[a:b].astype("<u4").tobytes()


class _CutColumn:
    """One column of a `Cut`."""

    __slots__ = ("_kind", "_objs", "lane", "plain")

    def __init__(self, column: Column) -> None:
        self.lane = column.lane.astype("<i8", copy=False).tobytes()
        self.plain = column.kind is None or bool((column.kind == LaneKind.INT).all())
        self._kind = b"" if self.plain or column.kind is None else column.kind.tobytes()
        self._objs = column.objs

    def part(self, a: int, b: int) -> Any:
        """Return the encoded items a to b."""
        lane = self.lane[8 * a : 8 * b]
        if self.plain:
            return lane
        kind = self._kind[a:b]
        first = kind[:1]
        if kind == first * (b - a):
            if first == b"\1":
                return lane
            if first == b"\0":
                return None
        objs = [[i - a, self._objs[i]] for i in range(a, b) if i in self._objs] if self._objs else []
        return [lane, kind, objs] if objs else [lane, kind]


def read_nodes(nodes: Sequence[Node], columns: int) -> Items:
    """Return the items of nodes. All nodes are leaves, or all are inner nodes."""
    if not nodes:
        return Items.none(columns)
    if nodes[0][0] == LEAF:
        own = [[node[3 + i] for node in nodes] for i in range(columns)]
        return _read_leaves([node[1] for node in nodes], [node[2] for node in nodes], own)
    prefixes = [node[1] for node in nodes]
    at = np.frombuffer(b"".join(prefixes), "<u8")
    counts = [len(own) >> 3 for own in prefixes]
    zeros = np.zeros(at.size, np.int64)
    read = tuple(_read_column([node[2 + i] for node in nodes], counts) for i in range(columns))
    return Items(_nodes(counts), at, zeros, None, None, read)


def read_leaves(leaves: Sequence[Sequence[Any]], columns: int) -> Items:
    """Return the items of leaves that are parts of other rows."""
    if not leaves:
        return Items.none(columns)
    own = [[leaf[2][i] for leaf in leaves] for i in range(columns)]
    return _read_leaves([leaf[0] for leaf in leaves], [leaf[1] for leaf in leaves], own)


def _read_leaves(keys: list[Any], ranks: list[bytes | None], columns: list[list[Any]]) -> Items:
    if set(map(type, keys)) == {bytes}:
        counts = [len(key) >> 3 for key in keys]
        lane = np.frombuffer(b"".join(keys), "<i8")
        text: Texts | None = None
        at = mix(lane.view(np.uint64))
    else:
        counts = [len(key) >> 3 if isinstance(key, bytes) else len(key[1]) for key in keys]
        lane, text, at = _read_keys(keys, ranks, sum(counts))
    rank: NDArray[np.int64] | None = None
    if ranks.count(None) < len(ranks):
        parts = [bytes(4 * n) if own is None else own for own, n in zip(ranks, counts)]
        rank = np.frombuffer(b"".join(parts), "<u4").astype(np.int64)
        if text is None:
            at = source_hash(at, rank)
    read = tuple(_read_column(column, counts) for column in columns)
    return Items(_nodes(counts), at, lane, text, rank, read)


def _nodes(counts: list[int]) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(counts)), counts)


def _read_keys(
    keys: list[Any], ranks: list[bytes | None], n: int
) -> tuple[NDArray[np.int64], Texts, NDArray[np.uint64]]:
    lanes: list[int] = []
    texts: list[bytes | None] = []
    hashes: list[bytes] = []
    for key, rank in zip(keys, ranks):
        if isinstance(key, bytes):
            own = np.frombuffer(key, "<i8")
            lanes += own.tolist()
            texts += [None] * own.size
            ranked = None if rank is None else np.frombuffer(rank, "<u4").astype(np.int64)
            hashes.append(source_hash(mix(own.view(np.uint64)), ranked).astype("<u8").tobytes())
        else:
            hashes.append(key[0])
            lanes += [k if type(k) is int else 0 for k in key[1]]
            texts += [None if type(k) is int else k for k in key[1]]
    text: Texts = np.empty(n, object)
    text[:] = texts
    return np.fromiter(lanes, np.int64, n), text, np.frombuffer(b"".join(hashes), "<u8")


def _read_column(parts: list[Any], counts: list[int]) -> Column:
    if set(map(type, parts)) == {bytes}:
        return Column(np.frombuffer(b"".join(parts), "<i8"))
    lanes: list[bytes] = []
    kinds: list[bytes] = []
    objs: dict[int, Any] = {}
    at = 0
    for part, n in zip(parts, counts):
        if part is None:
            lanes.append(bytes(8 * n))
            kinds.append(bytes(n))
        elif isinstance(part, bytes):
            lanes.append(part)
            kinds.append(bytes([LaneKind.INT]) * n)
        else:
            lanes.append(part[0])
            kinds.append(part[1])
            if len(part) > 2:
                objs.update((at + i, value) for i, value in part[2])
        at += n
    return Column(np.frombuffer(b"".join(lanes), "<i8"), np.frombuffer(b"".join(kinds), np.uint8), objs)


# -- a few values


def short_column_values(part: Any, n: int) -> Sequence[Any]:
    """Return the n values of one column of a node."""
    if part is None:
        return [None] * n
    if isinstance(part, bytes):
        return struct.unpack(f"<{n}q", part)
    lanes, kinds, *rest = part
    objs = dict(rest[0]) if rest else {}
    own = enumerate(zip(struct.unpack(f"<{n}q", lanes), kinds, strict=True))
    return [value_of(lane, kind, objs.get(i, True)) for i, (lane, kind) in own]


def short_column(values: list[Any]) -> tuple[Any, bool]:
    """Encode values as one column of a node. Also return True if all are ints or nulls."""
    found = list(map(lane_of, values))
    kinds = {kind for _, kind in found}
    if kinds == {LaneKind.NULL}:
        return None, True
    lanes = struct.pack(f"<{len(found)}q", *[lane for lane, _ in found])
    if kinds <= {LaneKind.INT}:
        return lanes, True
    objs = [[i, value] for i, (value, (_, kind)) in enumerate(zip(values, found)) if kind >= LaneKind.BIG]
    part = [lanes, bytes([kind for _, kind in found])]
    return ([*part, objs] if objs else part), kinds <= _PLAIN_KINDS


def node_lost(address: bytes) -> StoreDamaged:
    """Return the error for a node that its parent names and that is absent."""
    step = "run `penstock check --fix`, or engine.check(fix=True)"
    return StoreDamaged("the trees of a view, where a node is lost", address, step)
