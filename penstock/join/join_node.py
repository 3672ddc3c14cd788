"""A join as a node: once per transaction it turns the changes of its sides into rows for the views on it.

Invariants:

- it runs after all tables of the transaction have their final documents, so no view sees a row that never existed;
- views get the rows that go and come. They retract by the projections that the side indexes have;
- a condition value above the limit has no rows. Its matches are stored, so that quarantine and status can list it;
- a view that is being built gets only rows with places before `until`. The build sends it the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from penstock.cache import Reader, Store, stored_key
from penstock.join.join_parts import FIRST_PLACE, JoinParts
from penstock.join.joined_columns import selected
from penstock.join.joined_rows import How, JoinChange, JoinedRows
from penstock.join.joined_view import send_rows
from penstock.join.side_node import SideNode
from penstock.join.stored_join import SideDocuments, StoredJoin, StoredSide, held_values, put_limit_holds
from penstock.mapreduce import ViewNode, Writes, held_db
from penstock.views import Join

__all__ = ["JoinNode", "JoinNodes"]


class JoinNode:
    """The node of one join of two sides.

    While views on it are built, `until` is the place before which they have all rows; None means all rows. `ahead`
    counts rows that came beyond it since the last step of the build. At the first place a `fresh` join has no rows and
    no holds: its sides are built. `wider` are next generations of its sides, which become its sides once complete.
    """

    def __init__(
        self,
        join: Join,
        number: int,
        sides: Sequence[SideNode],
        documents: Sequence[SideDocuments],
        views: Sequence[ViewNode],
        wider: Sequence[SideNode] = (),
    ) -> None:
        self.join = join
        self.name = join.name
        self.number = number
        self.sides = tuple(sides)
        self.wider = tuple(wider)
        self.views = tuple(views)  # and the sides of other joins that read its rows
        self.until: bytes | None = None
        self.ahead = 0
        self.fresh = False
        self._stored = [StoredSide(side.side, side.index, own) for side, own in zip(self.sides, documents, strict=True)]
        self._projected = self.stored.row_sides

    @property
    def stored(self) -> StoredJoin:
        """Return the join for reading all of its rows in a transaction of the writer."""
        return StoredJoin(self.join, self.number, self._stored)

    def nbytes(self) -> int:
        """Estimate the bytes in use."""
        indexes = [side.index for side in (*self.sides, *self.wider) if side.index is not None]
        return sum(index.nbytes for index in indexes) + sum(view.nbytes(spaces=True) for view in self.views)

    def run(self, reader: Reader, writes: Writes) -> None:
        """Send the views the rows that a transaction takes and adds, and change the side indexes."""
        for side in self.wider:
            side.stage(reader, side.change(reader, writes.gathered.pop(side.number, None), writes), writes)
        own = [writes.gathered.pop(side.number, None) for side in self.sides]
        if not any(own):
            return
        left, right = (side.change(reader, part, writes) for side, part in zip(self.sides, own, strict=True))
        if not any(len(part) for side in (left, right) for part in (side.minus, side.plus)):
            return  # the changes stop at the sides
        if self.until != FIRST_PLACE or not self.fresh:
            change = JoinChange(left, right, How(self.join.how), self.join.limit)
            live = [view for view in self.views if self.until is None or view.building is None]
            self._send(reader, live, lambda: self._rows(change), writes)
            if self.until is not None:
                self._send_before(reader, change, self.until, writes)
            self._hold(change, writes)
        for side, entries in zip(self.sides, (left, right), strict=True):
            side.stage(reader, entries, writes)

    def _rows(self, change: JoinChange) -> Iterator[JoinedRows]:
        for rows in change.rows():
            kept = selected(self._projected, rows, self.join.filter)
            if kept.i.size:
                yield kept

    def _send_before(self, reader: Reader, change: JoinChange, until: bytes, writes: Writes) -> None:
        """Send the rows before a place to the views that are being built."""
        views = [view for view in self.views if view.building is not None]
        parts, beyond = JoinParts(self.stored), 0

        def rows() -> Iterator[JoinedRows]:
            nonlocal beyond
            beyond = 0
            for block in self._rows(change):
                own = parts.before(block, until)
                beyond += int(np.count_nonzero(~own)) * (1 if block.plus else -1)
                if own.any():
                    yield JoinedRows(block.plus, block.left, block.i[own], block.right, block.j[own])

        if views and until:
            self._send(reader, views, rows, writes)
            self.ahead += max(0, beyond)

    def _send(
        self, reader: Reader, views: Sequence[ViewNode], rows: Callable[[], Iterator[JoinedRows]], writes: Writes
    ) -> None:
        send_rows(reader, self._projected, views, rows, writes)

    def _hold(self, change: JoinChange, writes: Writes) -> None:
        """Store the condition values above the limit with their matches, and release those that are not above it."""
        put_limit_holds(self.number, held_values(change), writes)
        freed = [stored_key(one.value) for one in change.limited if one.was_held and not one.is_held]
        if freed:
            writes.deletes.append((held_db(self.number), freed))

    # -- builds

    def build(self, reader: Reader, limit: int, writes: Writes) -> tuple[bytes | None, int]:
        """Send about `limit` rows from `until` on to the views that are being built.

        Return the place after them, None after the last one, and the number of entries that were read.
        """
        assert self.until is not None, "rows are left"
        part = JoinParts(self.stored).part(reader, self.until, limit)
        views = [view for view in self.views if view.building is not None]
        if views:
            self._send(reader, views, part.rows, writes)
        if self.fresh:
            put_limit_holds(self.number, part.limited, writes)
        return part.end, part.entries

    def passed(self, end: bytes | None) -> int:
        """Note that views have the rows before a place. Return the number of rows that came beyond it since."""
        ahead, self.until, self.ahead = self.ahead, end, 0
        return ahead


class JoinNodes:
    """The nodes of all joins. They run once per transaction, and fold the logs of their indexes between batches."""

    def __init__(self, nodes: Sequence[JoinNode] = ()) -> None:
        self._nodes = {node.name: node for node in nodes}
        self.sides = {side.name: side for node in nodes for side in node.sides}  # by the names of their views

    def __iter__(self) -> Iterator[JoinNode]:
        return iter(self._nodes.values())

    def __getitem__(self, name: str) -> JoinNode:
        return self._nodes[name]

    def stored(self, name: str) -> StoredJoin:
        """Return a join for reading all of its rows in a transaction of the writer."""
        return self._nodes[name].stored

    def run(self, reader: Reader, writes: Writes) -> None:
        """Run all joins, after the tables of a transaction have their final documents."""
        for node in self:
            node.run(reader, writes)

    def fold(self, store: Store) -> None:
        """Run the steps that are due to fold logs into pages, each index in a transaction of its own."""
        for side in [side for node in self for side in (*node.sides, *node.wider)]:
            index = side.index
            if index is not None and (steps := index.fold_steps()):
                with store.write() as writer:
                    done = index.fold_step(writer, steps)
                done()
