"""Tree nodes written behind: a batch adds what changed in trees to a log, and nodes are written once many have changed.

A row of the log is MessagePack: [groups, places, leaf, gone]: the encodings of the groups, for each item which of them
(u32s), the items as a leaf has them, and which were removed (bytes of 0 and 1). Invariants:

- the nodes of the store with the log laid over them are the trees, in every snapshot;
- a log row is written in the transaction of its batch; the nodes, once, in one that also empties the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np

from penstock.cache import Reader, Writer, pack, record_key, seal, unpack, unseal
from penstock.mapreduce.items import Items, Mask, same_items, sort_order
from penstock.mapreduce.noderow import Cut, read_nodes

MOST_BYTES = 12 << 20
MOST_ITEMS = 1 << 17
_NODE = 400


def log_row(key: bytes, groups: Sequence[bytes], items: Items, gone: Mask) -> bytes:
    """The row of a batch: the items of groups 0, 1, 2 … that came, and where `gone` holds went."""
    leaf = Cut(items, inner=False).parts(0, len(items))
    places = items.node.astype("<u4").tobytes()
    return seal(key, pack([list(groups), places, leaf, gone.astype(np.uint8).tobytes()]))


def read_log(
    reader: Reader, db: str, columns: int, only: frozenset[bytes] | None = None
) -> tuple[list[bytes], Items, Mask] | None:
    """The groups that the log names (or `only` these of them), by their encodings, and the last of each item there."""
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
        parts.append(read_nodes([leaf], columns).moved(node).take(asked))
        marks.append((np.frombuffer(marked, np.uint8) != 0)[asked])
    if not parts:
        return None
    items, gone = Items.join(parts), np.concatenate(marks)
    order = sort_order(items)
    last = np.ones(order.size, bool)
    here, after = order[:-1], order[1:]
    last[:-1] = (items.node[here] != items.node[after]) | ~same_items(items, here, items, after)
    order = order[last]
    return list(numbers), items.take(order), gone[order]


class Behind:
    """Nodes of one view that changed since nodes were last written."""

    __slots__ = ("_db", "_each", "_items", "_log", "_next", "_written", "nodes")

    def __init__(self, db: str, log: str) -> None:
        self._db = db
        self._log = log
        self.nodes: dict[bytes, bytes | None] = {}
        self._written: dict[bytes, bytes | None] = {}  # what was behind until nodes were last written
        self._each = _NODE  # bytes that a node takes, about
        self._items = self._next = 0

    @property
    def nbytes(self) -> int:
        """Bytes in use, about."""
        return self._each * (len(self.nodes) + len(self._written))

    def begin(self, reader: Reader, nodes: dict[bytes, bytes | None], items: int) -> None:
        """Begin with what the log says."""
        self._next = next((int.from_bytes(key, "big") + 1 for key, _ in reader.scan(self._log, reverse=True)), 0)
        self._items = items
        self._take(nodes)

    def get_many(self, reader: Reader, keys: list[bytes]) -> list[bytes | None]:
        """The payloads of nodes as they are now."""
        out: list[bytes | None] = list(map(self.nodes.get, keys, repeat(b"")))
        cold = [i for i, row in enumerate(out) if row == b""]
        if cold and self._written:
            written = self._written.get
            for i in cold:
                out[i] = written(keys[i], b"")
            cold = [i for i in cold if out[i] == b""]
        if cold:
            wanted, db = [keys[i] for i in cold], self._db
            for i, key, found in zip(cold, wanted, reader.get_many(db, wanted)):
                out[i] = None if found is None else unseal(key, found, db)
        return out

    def due(self, nodes: dict[bytes, bytes | None], items: int) -> bool:
        """Whether this batch is to write all nodes, these too, instead of a row of the log."""
        return self._each * (len(self.nodes) + len(nodes)) > MOST_BYTES or self._items + items > MOST_ITEMS

    def write_all(self, writer: Writer, nodes: dict[bytes, bytes | None]) -> None:
        """Write all nodes, and empty the log."""
        every = sorted({**self.nodes, **nodes}.items())
        puts = [(key, seal(key, row)) for key, row in every if row is not None]
        if puts:
            writer.put_many(self._db, puts)
        gone = [key for key, row in every if row is None]
        if gone:
            writer.delete_many(self._db, gone)
        if self._next:
            writer.clear(self._log)

    def wrote_all(self, nodes: dict[bytes, bytes | None]) -> None:
        """That is committed."""
        self._written = {**self.nodes, **nodes}
        self.nodes = {}
        self._items = self._next = 0

    def log_key(self) -> bytes:
        """The key of the next row of the log."""
        return record_key(self._next)

    def logged(self, nodes: dict[bytes, bytes | None], items: int) -> None:
        """A row of the log is committed, which made these nodes."""
        self._next += 1
        self._items += items
        self._take(nodes)

    def _take(self, nodes: dict[bytes, bytes | None]) -> None:
        if nodes:
            size = sum(map(len, filter(None, nodes.values())))
            self._each = max(self._each, _NODE // 2 + size // len(nodes))
        self.nodes.update(nodes)
