"""The stored rows and nodes of one view in one snapshot, for a comparison byte by byte.

Deferred nodes appear as if they were written, so the time of writing makes no difference. Only deferred nodes are
decoded: a damaged row is compared like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge

from penstock.cache import PenstockError, Reader, encode_entry, is_long, seal
from penstock.mapreduce import IndexReduce, Node, ReduceNode, RowState, TreeReduce, group_of_node, nodes_db, packed

Reduce = ReduceNode | TreeReduce | IndexReduce
Item = tuple[bytes, int, bytes]
"""The key, 1 for a node and 0 for a row, and the stored bytes."""
UNREADABLE = (PenstockError, AssertionError, ValueError, KeyError, IndexError, TypeError)
"""Errors that the decoding of damaged rows may raise."""
_HEAD = 368  # bytes of a long key's group that its stored key contains
_PAST = b"\xff" * 40


class StoredView:
    """One side of the comparison; `reduce` decodes its rows and names their database."""

    def __init__(self, reduce: Reduce, number: int, reader: Reader) -> None:
        self.reader = reader
        self._reduce = reduce
        self._number = number
        self._node_log: dict[bytes, Node | None] = {}
        self.void = False  # deferred nodes are unreadable
        if isinstance(reduce, TreeReduce):
            try:
                self._node_log = reduce.read_node_log(reader).nodes
            except UNREADABLE:
                self.void = True
        self._deferred: dict[bytes, list[bytes]] = {}
        for node in sorted(self._node_log):
            self._deferred.setdefault(group_of_node(node), []).append(node)

    def row(self, key: bytes) -> bytes | None:
        """Return the row of a group."""
        return self.reader.get_many(self._reduce.db, [key])[0]

    def state(self, key: bytes) -> RowState | None:
        """Decode the row of a group; None if it is absent or damaged."""
        row = self.row(key)
        return None if row is None else self.read(key, row)

    def read(self, key: bytes, row: bytes) -> RowState | None:
        """Decode a row; None if it is damaged."""
        try:
            return self._reduce.codec.decode(key, row, f"key {key.hex()}")
        except UNREADABLE:
            return None

    def items(self) -> Iterator[Item]:
        """Return all rows and nodes, in order."""
        rows = ((key, 0, row) for key, row in self.reader.scan(self._reduce.db))
        if not isinstance(self._reduce, TreeReduce):
            return rows
        late = self._sealed(sorted(self._node_log))
        early = ((key, 1, row) for key, row in self.reader.scan(nodes_db(self._number)) if key not in self._node_log)
        return merge(rows, early, late)

    def group(self, key: bytes) -> Iterator[Item]:
        """Yield the row and the nodes of one group, in order."""
        row = self.row(key)
        if row is not None:
            yield key, 0, row
        yield from self.nodes(key)

    def nodes(self, key: bytes) -> Iterator[Item]:
        """Yield the nodes of one group, in order."""
        if not isinstance(self._reduce, TreeReduce):
            return
        yield from merge(self._written(key, self._reduce), self._sealed(self._deferred.get(key, ())))

    def _sealed(self, behind: Sequence[bytes]) -> Iterator[Item]:
        """Yield deferred nodes in the form in which they would be written."""
        for key in behind:
            node = self._node_log[key]
            if node is not None:
                yield key, 1, seal(key, packed(node))

    def _written(self, key: bytes, reduce: TreeReduce) -> Iterator[Item]:
        db = nodes_db(self._number)
        for trie in range(1 + len(reduce.value_trees)):
            for node, row in self.reader.scan(db, key + bytes([trie]), key + bytes([trie + 1])):
                if node not in self._node_log and group_of_node(node) == key:
                    yield node, 1, row

    def entries(self, group: tuple[object]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of a group of a plain index."""
        begin = encode_entry(group)
        for key, row in self.reader.scan(self._reduce.db, begin[:_HEAD], begin[:_HEAD] + _PAST):
            whole: bytes | None = key
            if is_long(key):
                state = self.read(key, row)
                whole = None if state is None else state.whole
            if whole is not None and whole.startswith(begin):
                yield key, row
