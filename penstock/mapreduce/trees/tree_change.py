"""The change that a batch makes to a view's groups and their trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.cache import Writer
from penstock.mapreduce.columns.group_codes import Groups
from penstock.mapreduce.columns.items import Items, Mask
from penstock.mapreduce.fold.feed_rows import FeedChanges
from penstock.mapreduce.fold.row_format import RowCodec
from penstock.mapreduce.nodes.node_log import Nodes
from penstock.mapreduce.trees.changed_rows import ChangedRows
from penstock.mapreduce.trees.deferred_items import WaitingItems
from penstock.views import ABSENT

Depths = dict[tuple[bytes, int], int]  # known depth by group and trie


class Stages(Protocol):
    """The reducer of a view, which writes the trees of its groups."""

    codec: RowCodec

    def stage(
        self, change: TreeChange, during: list[Callable[[Writer], None]], after: list[Callable[[], None]]
    ) -> None:
        """Add the writes of the change to `during`, and its updates of memory to `after`, for the commit."""
        ...


@dataclass(slots=True)
class TreeChange:
    """The groups that change, with the nodes and log rows to write."""

    node: Stages
    groups: Groups
    changed: ChangedRows
    nodes: Nodes = field(default_factory=dict)
    log: tuple[list[bytes], Items, Mask] | None = None
    depths: Depths = field(default_factory=dict)
    late: WaitingItems | None = None

    @property
    def m(self) -> int:
        """Return the number of rows that change."""
        return len(self.changed.old)

    def keyed(self) -> list[tuple[bytes, Any]]:
        """Return the groups of all changed rows: their stored keys and their values."""
        return self.groups.keyed(self.changed.codes)

    def results(self, before: bool = False) -> list[Any]:
        """Return the results of all changed rows after the batch or before it; ABSENT if there is no row."""
        states = self.changed.old if before else self.changed.new
        return [ABSENT if state is None else self.node.codec.result(state) for state in states]

    def rows(self) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
        """Return the rows to put and the keys to delete."""
        return self.changed.puts, self.changed.deletes

    def new_keys(self) -> list[bytes] | None:
        """Return the keys of added rows."""
        stored, now = self.groups.stored, self.changed
        sides = zip(now.codes.tolist(), now.old, now.new, strict=True)
        return [stored[code] for code, old, new in sides if old is None and new is not None]

    def newly_held(self) -> int:
        """Return the increase of the number of held groups."""
        return self.changed.held

    def fed(self, view: int) -> FeedChanges:
        """Return the entry for the feed: the old and new rows, without contributions, of groups with another result."""
        whole: list[bytes] = []
        odd: list[list[Any]] = []
        codec = self.node.codec
        for code, old, new in zip(self.changed.codes.tolist(), self.changed.old, self.changed.new, strict=True):
            if old is None or new is None or not codec.surely_shows(old, new):
                odd.append([len(whole), *(None if s is None else codec.payload(s, bare=True) for s in (old, new))])
                whole.append(self.groups.whole(code))
        return FeedChanges(view, whole, odd=odd)

    def stage(self, during: list[Callable[[Writer], None]], after: list[Callable[[], None]]) -> None:
        """Add the tree writes to `during`, and the updates of memory to `after`."""
        self.node.stage(self, during, after)
