"""Steps along the changes feed, for watchers: each step reads the changes after a position, and ends with a commit.

A watcher has a position and no queue. So a slow one costs no memory, and it falls behind only until its position leaves
the feed.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine import Engine
from penstock.views import ABSENT, Change, Position, json_text

__all__ = ["coalesced", "read_step"]

_CHANGES = 5_000  # changes of one step, to the end of a commit


def read_step(reader: Engine, views: Sequence[str], since: Position, until: Position) -> tuple[list[Change], Position]:
    """Return the next changes of views, and the position that they reach."""
    changes = list[Change]()
    for part in reader.feed(*views, since=since, until=until):
        if len(changes) >= _CHANGES and len(part) and part.positions[0] != changes[-1].position:
            return changes, changes[-1].position
        changes += part
    return changes, until


def coalesced(changes: Sequence[Change]) -> list[Change]:
    """Merge the changes of each group: its first old result, and its last new one."""
    merged: dict[tuple[str, str], Change] = {}
    for change in changes:
        key = (change.view, json_text(change.group))
        before = merged.pop(key, None)
        old = change.old if before is None else before.old
        merged[key] = Change(change.view, change.group, old, change.new, change.position)
    return [one for one in merged.values() if not (one.old is ABSENT and one.new is ABSENT)]
