"""Compare a view with its shadow, and replace the groups that differ.

A group is its row and the nodes of its tree; each row of a plain index is a group. A group that differs in a byte is
replaced as a whole, so one method repairs every kind of fault. Invariants:

- a right group is not touched, and a right view is not written to;
- a group on which a user's reducer fails is compared without the state that depends on its history, and keeps its last
  good result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from typing import Any

from penstock.cache import Reader, Writer, canonical, decode_key, is_long, seal, stored_key
from penstock.mapreduce import (
    FeedChanges,
    IndexReduce,
    RowState,
    TreeReduce,
    UserGroup,
    ViewNode,
    Writes,
    group_of_node,
    node_log_db,
    nodes_db,
    same_result,
)
from penstock.recovery.repair.stored_view import UNREADABLE, Item, StoredView
from penstock.recovery.repair.view_rebuild import Shadow
from penstock.recovery.repair_report import Mended, Repaired
from penstock.views import ABSENT

_CHUNK = 1 << 10


@dataclass(frozen=True, slots=True)
class ReplacedGroup:
    """A group that was replaced, the key of its row, and the number of its partition."""

    key: bytes
    repaired: Repaired
    place: int = 0


class GroupReplacement:
    """One view and its shadow."""

    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow
        self._reduce = shadow.node.reduce
        self._name = shadow.view.name
        self._number = shadow.node.number
        self._wholes = {stored_key(group): group for group in shadow.asked or ()}

    def _side(self, reader: Reader) -> StoredView:
        return StoredView(self._reduce, self._number, reader)

    # -- what differs

    def readable(self, reader: Reader) -> bool:
        """Return True if the deferred nodes are readable. If not, the whole view must be repaired."""
        return not self._side(reader).void

    def differing(self, reader: Reader) -> list[bytes]:
        """Return the sorted stored keys of groups that differ between a snapshot of the store and the shadow."""
        self._shadow.flush()
        with self._shadow.store.read() as made:
            stored, rebuilt = self._side(reader), self._side(made)
            if self._shadow.asked is None:
                return [key for key in self._all(stored, rebuilt) if not self._excused(stored, rebuilt, key)]
            if isinstance(self._reduce, IndexReduce):
                return sorted({key for group in self._shadow.asked for key in _entries(stored, rebuilt, group)})
            return [key for key in sorted(self._wholes) if self._differs(stored, rebuilt, key)]

    def _all(self, stored: StoredView, rebuilt: StoredView) -> list[bytes]:
        """Return the keys of all groups that differ; with unreadable deferred nodes, also of all groups with nodes."""
        found: dict[bytes, None] = {}
        if stored.void:
            found.update((_key_of(item), None) for item in rebuilt.items() if item[1])
        items, wanted = stored.items(), rebuilt.items()
        one, other = next(items, None), next(wanted, None)
        while one is not None or other is not None:
            if one == other:
                one, other = next(items, None), next(wanted, None)
            elif other is None or (one is not None and one < other):
                assert one is not None, "one of the two is left"
                found[_key_of(one)] = None
                one = next(items, None)
            else:
                found[_key_of(other)] = None
                other = next(wanted, None)
        return sorted(found)

    def _differs(self, stored: StoredView, rebuilt: StoredView, key: bytes) -> bool:
        pairs = zip_longest(stored.group(key), rebuilt.group(key))
        return any(one != other for one, other in pairs) and not self._excused(stored, rebuilt, key)

    def _excused(self, stored: StoredView, rebuilt: StoredView, key: bytes) -> bool:
        """Return True if a held group differs only in state that depends on how its reducer failed."""
        old, new = stored.state(key), rebuilt.state(key)
        if old is None or new is None or old.held is None or new.held is None:
            return False
        if any(one != other for one, other in zip_longest(stored.nodes(key), rebuilt.nodes(key))):
            return False
        return canonical(self._steady(old)) == canonical(self._steady(new))

    def _steady(self, state: RowState) -> list[Any]:
        """Return the fields of a held group's row that do not depend on its history."""
        cells: Sequence[Any] = () if isinstance(self._reduce, IndexReduce) else self._reduce.codec.cells
        spills = state.spills or [None] * len(cells)
        steady = [None if isinstance(cell, UserGroup) else spill for cell, spill in zip(cells, spills, strict=True)]
        return [state.n, state.lanes, steady, state.items, state.values, state.whole]

    def described(self, reader: Reader, keys: Sequence[bytes]) -> list[ReplacedGroup]:
        """Return the replacements that a repair of these groups would make in this snapshot."""
        with self._shadow.store.read() as made:
            stored, rebuilt = self._side(reader), self._side(made)
            return [self._replace(stored, rebuilt, key, Writes()) for key in keys]

    def wanted(self, key: bytes) -> Any:
        """Return the right result of the group with this stored key; ABSENT if it has none."""
        with self._shadow.store.read() as made:
            return self._result(self._side(made).state(key))

    # -- mending

    def replace_groups(
        self, writer: Writer, view: ViewNode, keys: Iterable[bytes], writes: Writes
    ) -> list[ReplacedGroup]:
        """Replace the groups that differ now. Before the call the shadow must reach the store's position."""
        self._shadow.flush()
        with self._shadow.store.read() as made:
            stored, rebuilt = self._side(writer), self._side(made)
            wrong = [key for key in keys if stored.void or self._differs(stored, rebuilt, key)]
            if not wrong and not stored.void:
                return []
            out = [self._replace(stored, rebuilt, key, writes) for key in wrong]
            if isinstance(self._reduce, TreeReduce):
                self._write_behind(writer, self._reduce, stored)
                for key in wrong:
                    self._replace_nodes(writer, rebuilt, key)
        writes.changed = True
        writes.after.append(view.reduce.forget)
        return out

    def _write_behind(self, writer: Writer, reduce: TreeReduce, stored: StoredView) -> None:
        """Write the deferred nodes. If they are unreadable, delete them."""
        if stored.void:
            writer.clear(node_log_db(self._number))
        else:
            reduce.read_node_log(writer).write_all(writer, {})

    def _replace_nodes(self, writer: Writer, rebuilt: StoredView, key: bytes) -> None:
        db = nodes_db(self._number)
        while gone := [node for node, _, _ in islice(self._side_of(writer).nodes(key), _CHUNK)]:
            writer.delete_many(db, gone)
        nodes = rebuilt.nodes(key)
        while chunk := [(node, row) for node, _, row in islice(nodes, _CHUNK)]:
            writer.put_many(db, chunk)

    def _side_of(self, writer: Writer) -> StoredView:
        """Return the store's side after its deferred nodes are written."""
        return StoredView(self._reduce, self._number, writer)

    def _replace(self, stored: StoredView, rebuilt: StoredView, key: bytes, writes: Writes) -> ReplacedGroup:
        """Replace the row of a group by the right one."""
        raw, wanted = stored.row(key), rebuilt.row(key)
        old, new = stored.state(key), rebuilt.state(key)
        if new is not None and new.held is not None:
            new = replace(new, held=[new.held[0], self._last_good(old)])
            wanted = seal(key, self._payload(new))
        if wanted != raw:
            if wanted is None:
                writes.deletes.append((self._reduce.db, [key]))
            else:
                writes.puts.append((self._reduce.db, [(key, wanted)]))
        held = (new is not None and new.held is not None) - (old is not None and old.held is not None)
        if held:
            writes.held_groups[self._name] = writes.held_groups.get(self._name, 0) + held
        whole = self._whole(key, old, new)
        if writes.feeding and wanted != raw:
            payloads = [None if s is None else self._payload(replace(s, items=None, values=None)) for s in (old, new)]
            writes.fed.append(FeedChanges(self._number, [whole], odd=[[0, *payloads]]))
        before, after = self._result(old), self._result(new)
        if raw is not None and old is None:
            what = Mended.UNREADABLE
        elif wanted == raw:
            what = Mended.TREE
        else:
            same = before is not ABSENT and after is not ABSENT and same_result(before, after)
            what = Mended.CONTENT if same else Mended.RESULT
        return ReplacedGroup(key, Repaired(self._name, _group(whole), before, after, what))

    def _last_good(self, old: RowState | None) -> Any:
        """Return the last good result of a group on which its reducer fails now."""
        if old is not None and old.held is not None:
            return old.held[1]
        result = self._result(old)
        return None if result is ABSENT else result

    def _result(self, state: RowState | None) -> Any:
        if state is None:
            return ABSENT
        try:
            return self._reduce.codec.result(state)
        except UNREADABLE:
            return ABSENT  # the row decodes to no result

    def _payload(self, state: RowState) -> bytes:
        if isinstance(self._reduce, IndexReduce):
            return self._reduce.codec.payload(self._reduce.codec.result(state))
        return self._reduce.codec.payload(state)

    def _whole(self, key: bytes, old: RowState | None, new: RowState | None) -> bytes:
        """Return the encoding of a group, as far as it is known."""
        if not is_long(key):
            return key
        wholes = [state.whole for state in (new, old) if state is not None and state.whole is not None]
        return next((whole for whole in wholes if stored_key(whole) == key), self._wholes.get(key, key))


def _entries(stored: StoredView, rebuilt: StoredView, group: bytes) -> Iterable[bytes]:
    """Return the keys of a group's index rows that differ."""
    value = (decode_key(group),)
    one, other = dict(stored.entries(value)), dict(rebuilt.entries(value))
    return [key for key in one.keys() | other.keys() if one.get(key) != other.get(key)]


def _key_of(item: Item) -> bytes:
    key, node, _ = item
    return group_of_node(key) if node else key


def _group(whole: bytes) -> Any:
    """Decode a group. If its row and name are lost, return the stored part of its key."""
    try:
        return decode_key(whole)
    except UNREADABLE:
        return whole
