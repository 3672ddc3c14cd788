"""The progress of a build in one partition, one step of it, and the report of a migration.

Invariant: a repeated request causes at most one more step. A partition that has switched has no step left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from penstock.core import Snapshot, built_of, differing, finished, write_catalog
from penstock.views import Changed, Migrated

if TYPE_CHECKING:
    from penstock.core import Core

__all__ = ["AT_ONCE", "STEP", "BuildProgress", "Switch", "catch_up", "migrated_of", "take_build_step"]

Switch = Literal["switch", "finish"]
""""switch" makes the next generation current, or that of the sides of the join `of`. "finish" drops the former one,
after all partitions have switched."""

STEP = 1 << 12
"""Documents of a step for which nobody waits."""
AT_ONCE = 2_000
"""The largest number of documents and rows that are built while a store opens."""


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """The progress of a partition: it has a step left, waits for others to switch, or has switched before others.

    `done` of `total` documents and rows are built; `told` counts those built since the partition was opened. `switched`
    is the position of a switch since then. If the sides of a join wait for the others, `of` is its name.
    """

    more: bool
    waits: bool
    done: int
    total: int
    applied: int
    switched: int | None
    unfinished: bool = False
    of: str = ""

    @property
    def waits_or_unfinished(self) -> bool:
        """Return True if all partitions must switch, or must finish a switch."""
        return self.waits or self.unfinished

    def data(self) -> list[Any]:
        """Return the progress as plain data."""
        return [self.more, self.waits, self.done, self.total, self.applied, self.switched, self.unfinished, self.of]


def take_build_step(core: Core, limit: int | None, switch: Switch | None = None, of: str = "") -> BuildProgress:
    """Run one step in a partition: build about `limit` documents or rows, or take part in the switch.

    Rows that arrived ahead of the build are built too. Without either argument it only reports the progress.
    """
    if switch == "switch":
        if core.build is not None and core.build.waits and core.build.waits_for == of:
            core.between(core.build.switch)
    elif switch == "finish":
        if core.catalog.unfinished is not None:
            core.between(lambda: _finish(core))
    elif limit is not None:
        core.build_step(limit)
        catch_up(core)
    scan = core.build
    waits = scan is not None and scan.waits
    done = total = 0
    if scan is not None:
        with core.store.read() as reader:
            done, total = built_of(reader, core.catalog)
    unfinished = core.catalog.unfinished is not None
    of = core.build.waits_for if waits and core.build is not None else ""
    return BuildProgress(core.has_step, waits, done, total, core.built_records, core.switched, unfinished, of)


def catch_up(core: Core) -> bool | None:
    """Process as many rows as came since the last step, so each turn leaves fewer.

    Return True if another step is left, and None if no rows came.
    """
    more: bool | None = None
    while behind := core.behind:
        more = core.build_step(min(behind, STEP))
    return more


def migrated_of(
    changed: Sequence[Changed], applied: int, switched: Sequence[int | None], feed: bool, look: Callable[[], Snapshot]
) -> Migrated:
    """Report a migration: `switched` are the positions at which partitions switched, `look` makes a snapshot of all.

    Without a feed no differences are stored, so nobody can count the groups that changed.
    """
    if all(position is None for position in switched):
        return Migrated(tuple(changed), 0, 0)
    if not feed:
        return Migrated(tuple(changed), applied, None)
    with look() as snap:
        names, groups = snap.schema.followed(), 0
        for part, position in zip(snap.parts, switched, strict=True):
            if position is not None:
                groups += sum(1 for _ in differing(part.reader(), part.schema, names, position))
    return Migrated(tuple(changed), applied, groups)


def _finish(core: Core) -> None:
    catalog = finished(core.catalog)
    with core.store.write() as writer:
        row = write_catalog(writer, catalog)
    core.take_catalog(catalog, row)
