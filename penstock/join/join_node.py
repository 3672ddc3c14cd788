"""A join as a node: once per transaction it turns the changes of its sides into rows for the views on it.

Invariants:

- it runs after all tables of the transaction have their final documents, so no view sees a row that never existed;
- views get the rows that go and come. They retract by the projections that the side indexes have;
- a condition value above the limit has no rows. Its matches are stored, so that quarantine and status can list it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.cache import Reader, Store, pack, seal, stored_key
from penstock.join.joined_columns import RowColumns, selected
from penstock.join.joined_rows import How, JoinChange, JoinedRows
from penstock.join.joined_view import RowInput, row_deltas, row_input
from penstock.join.side_node import SideNode
from penstock.join.stored_join import SideDocuments, StoredJoin, StoredSide
from penstock.mapreduce import ViewNode, Writes, held_db
from penstock.views import Join

__all__ = ["JoinNode", "JoinNodes"]


class JoinNode:
    """The node of one join of two sides."""

    def __init__(
        self,
        join: Join,
        number: int,
        sides: Sequence[SideNode],
        documents: Sequence[SideDocuments],
        views: Sequence[ViewNode],
    ) -> None:
        self.join = join
        self.name = join.name
        self.number = number
        self.sides = tuple(sides)
        self.views = tuple(views)  # and the sides of other joins that read its rows
        self._stored = [StoredSide(side.side, side.index, own) for side, own in zip(self.sides, documents, strict=True)]
        self._projected = self.stored.row_sides

    @property
    def stored(self) -> StoredJoin:
        """Return the join for reading all of its rows in a transaction of the writer."""
        return StoredJoin(self.join, self.number, self._stored)

    def nbytes(self) -> int:
        """Estimate the bytes in use."""
        indexes = [side.index for side in self.sides if side.index is not None]
        return sum(index.nbytes for index in indexes) + sum(view.nbytes(spaces=True) for view in self.views)

    def run(self, reader: Reader, writes: Writes) -> None:
        """Send the views the rows that a transaction takes and adds, and change the side indexes."""
        own = [writes.gathered.pop(side.number, None) for side in self.sides]
        if not any(own):
            return
        left, right = (side.change(reader, part, writes) for side, part in zip(self.sides, own, strict=True))
        if not any(len(part) for side in (left, right) for part in (side.minus, side.plus)):
            return  # the changes stop at the sides
        change = JoinChange(left, right, How(self.join.how), self.join.limit)
        self._send(reader, change, writes)
        for side, entries in zip(self.sides, (left, right), strict=True):
            side.stage(reader, entries, writes)
        self._hold(change, writes)

    def _rows(self, change: JoinChange) -> Iterator[JoinedRows]:
        for rows in change.rows():
            kept = selected(self._projected, rows, self.join.filter)
            if kept.i.size:
                yield kept

    def _send(self, reader: Reader, change: JoinChange, writes: Writes) -> None:
        inputs = {view: one for view in self.views if (one := row_input(view)) is not None}
        if inputs:
            self._add(change, inputs)
        deltas = row_deltas(self._projected, self._rows(change)) if len(inputs) < len(self.views) else []
        for view in self.views:
            one = inputs.get(view)
            if one is None:
                if deltas:
                    view.on_rows(reader, deltas, writes)
            else:
                one.fold(reader, writes)

    def _add(self, change: JoinChange, inputs: dict[ViewNode, RowInput]) -> None:
        """Add rows to the inputs as columns, in blocks. Drop the input of a view that can't take a row."""
        for rows in self._rows(change):
            columns = RowColumns(self._projected, rows)
            for view, one in list(inputs.items()):
                if not one.add(rows, columns):
                    del inputs[view]

    def _hold(self, change: JoinChange, writes: Writes) -> None:
        """Store the condition values above the limit with their matches, and release those that are not above it."""
        db = held_db(self.number)
        held = [(stored_key(one.value), one) for one in change.limited if one.is_held]
        if held:
            writes.puts.append((db, [(key, seal(key, pack([one.value, one.left, one.right]))) for key, one in held]))
        freed = [stored_key(one.value) for one in change.limited if one.was_held and not one.is_held]
        if freed:
            writes.deletes.append((db, freed))


class JoinNodes:
    """The nodes of all joins. They run once per transaction, and fold the logs of their indexes between batches."""

    def __init__(self, nodes: Sequence[JoinNode] = ()) -> None:
        self._nodes = {node.name: node for node in nodes}
        self.sides = {side.name: side for node in nodes for side in node.sides}  # by the names of their views

    def __iter__(self) -> Iterator[JoinNode]:
        return iter(self._nodes.values())

    def stored(self, name: str) -> StoredJoin:
        """Return a join for reading all of its rows in a transaction of the writer."""
        return self._nodes[name].stored

    def run(self, reader: Reader, writes: Writes) -> None:
        """Run all joins, after the tables of a transaction have their final documents."""
        for node in self:
            node.run(reader, writes)

    def fold(self, store: Store) -> None:
        """Run the steps that are due to fold logs into pages, each index in a transaction of its own."""
        for side in self.sides.values():
            index = side.index
            if index is not None and (steps := index.fold_steps()):
                with store.write() as writer:
                    done = index.fold_step(writer, steps)
                done()
