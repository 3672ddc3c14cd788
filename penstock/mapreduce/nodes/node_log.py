"""The log of tree changes. A batch logs its tree changes; nodes are written once many have changed.

A row of the log is MessagePack: [groups, places, leaf, gone]. These are the encoded groups, the group index of each
item (u32s), the items as a leaf, and the mark of removed ones (bytes of 0 and 1). Invariants:

- in every snapshot the stored nodes with the log applied are the trees;
- a batch's transaction writes its log row. One transaction writes all nodes and empties the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice, repeat
from operator import itemgetter

import msgspec
import numpy as np

from penstock.cache import Reader, Writer, pack, record_key, seal, seal_many, unpack, unseal, unseal_many
from penstock.mapreduce.columns.items import Items, Mask, same_items, sort_order
from penstock.mapreduce.nodes.node_format import Cut, Node, are_simple, packed, read_leaves, unpacked

MOST_BYTES = 12 << 20
MOST_ITEMS = 1 << 17
_NODE = 400
_APART = 150  # bytes of a node beyond those of its row
_ASKED = 64  # nodes after which row sizes are sampled, and about the size of a sample
_encode = msgspec.msgpack.Encoder().encode
Nodes = dict[bytes, Node | None]
"""Nodes by address. None marks a deleted node."""


def log_row(key: bytes, groups: Sequence[bytes], items: Items, gone: Mask) -> bytes:
    """Return the log row of a batch. `node` is the group's index in `groups`. `gone` marks removed items."""
    leaf = Cut(items, inner=False).parts(0, len(items))
    places = items.node.astype("<u4").tobytes()
    encode = _encode if all(are_simple(column.objs.values()) for column in items.columns) else pack
    return seal(key, encode([list(groups), places, leaf, gone.astype(np.uint8).tobytes()]))


def read_log(
    reader: Reader, db: str, columns: int, only: frozenset[bytes] | None = None
) -> tuple[list[bytes], Items, Mask] | None:
    """Return the encoded groups in the log (or `only` these), and the last state of each of their items."""
    numbers: dict[bytes, int] = {}
    parts: list[Items] = []
    marks: list[Mask] = []
    for key, row in reader.scan(db):
        groups, places, leaf, marked = unpack(unseal(key, row, db))
        if only is not None and only.isdisjoint(groups):
            continue
        named = (numbers.setdefault(g, len(numbers)) if only is None or g in only else -1 for g in groups)
        node = np.fromiter(named, np.int64, len(groups))[np.frombuffer(places, "<u4")]
        asked = node >= 0
        parts.append(read_leaves([leaf], columns).moved(node).take(asked))
        marks.append((np.frombuffer(marked, np.uint8) != 0)[asked])
    if not parts:
        return None
    items, gone = last_of_each(Items.join(parts), np.concatenate(marks))
    return list(numbers), items, gone


def log_by_owner(
    reader: Reader, db: str, columns: int, owners: Callable[[Sequence[bytes]], Sequence[int]]
) -> dict[int, tuple[bytes, bytes]]:
    """Split the log into one row for each owner of groups."""
    found = read_log(reader, db, columns)
    if found is None:
        return {}
    names, items, gone = found
    owner = np.array(owners(names), np.int64)
    out: dict[int, tuple[bytes, bytes]] = {}
    for own in np.unique(owner).tolist():
        groups = np.flatnonzero(owner == own)
        place = np.full(len(names), -1, np.int64)
        place[groups] = np.arange(groups.size)
        mine = place[items.node] >= 0
        part = items.take(mine)
        row = log_row(record_key(0), [names[i] for i in groups.tolist()], part.moved(place[part.node]), gone[mine])
        out[own] = record_key(0), row
    return out


def last_of_each(items: Items, gone: Mask) -> tuple[Items, Mask]:
    """Sort items. Keep the last of several changes of one item."""
    order = sort_order(items)
    last = np.ones(order.size, bool)
    earlier, after = order[:-1], order[1:]
    last[:-1] = (items.node[earlier] != items.node[after]) | ~same_items(items, earlier, items, after)
    order = order[last]
    return items.take(order), gone[order]


class NodeLog:
    """The nodes of one view that changed since nodes were last written."""

    __slots__ = ("_db", "_each", "_items", "_log", "_next", "_unasked", "_written", "nodes")

    def __init__(self, db: str, log: str) -> None:
        self._db = db
        self._log = log
        self.nodes: Nodes = {}
        self._written: Nodes = {}  # the changed nodes of the time before the last write
        self._each = _NODE  # estimated bytes of a node
        self._unasked = _ASKED  # nodes since the last sample
        self._items = self._next = 0

    @property
    def nbytes(self) -> int:
        """Estimate the bytes in use."""
        return (self._each + _APART) * (len(self.nodes) + len(self._written))

    def begin(self, reader: Reader, nodes: Nodes, items: int) -> None:
        """Begin with the changes in the log."""
        self._next = next((int.from_bytes(key, "big") + 1 for key, _ in reader.scan(self._log, reverse=True)), 0)
        self._items = items
        self._take(nodes)

    def get_many(self, reader: Reader, keys: list[bytes]) -> list[Node | None]:
        """Return the current nodes."""
        out: list[Node | None] = list(map(self.nodes.get, keys, repeat(())))
        cold = [i for i, node in enumerate(out) if node == ()]
        if cold and self._written:
            written = self._written.get
            for i in cold:
                out[i] = written(keys[i], ())
            cold = [i for i in cold if out[i] == ()]
        if cold:
            found = self._stored(reader, [keys[i] for i in cold])
            for i, row in zip(cold, found):
                out[i] = None if row is None else unpacked(row)
        return out

    def payloads(self, reader: Reader, keys: list[bytes]) -> list[bytes | None]:
        """Return the payloads of nodes. A stored payload is returned as it is."""
        late = self.nodes
        stored = iter(self._stored(reader, [key for key in keys if key not in late]))
        return [_payload(late[key]) if key in late else next(stored) for key in keys]

    def _stored(self, reader: Reader, keys: list[bytes]) -> list[bytes | None]:
        return unseal_many(keys, reader.get_many(self._db, keys), self._db)

    def due(self, nodes: Nodes, items: int) -> bool:
        """Return True if this batch should write all nodes, including these, instead of a log row."""
        return self._each * (len(self.nodes) + len(nodes)) > MOST_BYTES or self._items + items > MOST_ITEMS

    def write_all(self, writer: Writer, nodes: Nodes) -> None:
        """Write all nodes and empty the log."""
        every = sorted({**self.nodes, **nodes}.items(), key=itemgetter(0))
        puts = seal_many((key, packed(node)) for key, node in every if node is not None)
        if puts:
            writer.put_many(self._db, puts)
        gone = [key for key, node in every if node is None]
        if gone:
            writer.delete_many(self._db, gone)
        if self._next:
            writer.clear(self._log)

    def wrote_all(self, nodes: Nodes) -> None:
        """Record the commit of `write_all`."""
        self._written = {**self.nodes, **nodes}
        self.nodes = {}
        self._items = self._next = 0

    def laid(self, nodes: Nodes) -> None:
        """Keep nodes made from items that are already in the log."""
        self._take(nodes)

    def log_key(self) -> bytes:
        """Return the key of the next log row."""
        return record_key(self._next)

    def logged(self, nodes: Nodes, items: int) -> None:
        """Record the commit of a log row and the nodes that its batch made."""
        self._next += 1
        self._items += items
        self._take(nodes)

    def _take(self, nodes: Nodes) -> None:
        self._unasked += len(nodes)
        if nodes and self._unasked >= _ASKED:
            self._unasked = 0
            asked = list(islice(nodes.values(), 0, None, 1 + len(nodes) // _ASKED))
            size = sum(len(packed(node)) for node in asked if node is not None)
            self._each = max(self._each, _NODE // 2 + size // len(asked))
        self.nodes.update(nodes)


def _payload(node: Node | None) -> bytes | None:
    return None if node is None else packed(node)
