"""How far one partition is with the views that it builds, and one step of it.

Invariant: asking again changes nothing but by a further step; who has switched has none left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from penstock.core import built_of, finished, write_catalog

if TYPE_CHECKING:
    from penstock.core import Core

__all__ = ["AT_ONCE", "STEP", "Swept", "Switch", "swept_by"]

Switch = Literal["switch", "finish"]
"""Make the next generation the current one; or let go of the former one, since all partitions have switched."""

STEP = 1 << 12
"""Documents of a step that nobody waits for."""
AT_ONCE = 2_000
"""Documents and rows that opening a store may take the time for."""


@dataclass(frozen=True, slots=True)
class Swept:
    """Whether a partition has a step left, waits for others to switch, or switched before others.

    Documents and rows that it told, of how many, and since it was opened; the position at which it switched since.
    """

    more: bool
    waits: bool
    done: int
    total: int
    told: int
    switched: int | None
    unfinished: bool = False

    @property
    def waits_or_unfinished(self) -> bool:
        """Whether a switch of all partitions is due, or is not finished."""
        return self.waits or self.unfinished

    def data(self) -> list[Any]:
        """The same as plain data."""
        return [self.more, self.waits, self.done, self.total, self.told, self.switched, self.unfinished]


def swept_by(core: Core, limit: int | None, switch: Switch | None = None) -> Swept:
    """Take one step at a partition: of about so many documents or rows and all that came ahead; or of the switch.

    Without either it only looks.
    """
    if switch == "switch":
        if core.sweep is not None and core.sweep.waits:
            core.between(core.sweep.switch)
    elif switch == "finish":
        if core.catalog.unfinished is not None:
            core.between(lambda: _finish(core))
    elif limit is not None:
        core.sweep_step(limit)
        while behind := core.behind:
            core.sweep_step(min(behind, STEP))
    sweep = core.sweep
    waits = sweep is not None and sweep.waits
    done = total = 0
    if sweep is not None:
        with core.store.read() as reader:
            done, total = built_of(reader, core.catalog)
    unfinished = core.catalog.unfinished is not None
    return Swept(core.has_step, waits, done, total, core.told, core.switched, unfinished)


def _finish(core: Core) -> None:
    catalog = finished(core.catalog)
    with core.store.write() as writer:
        row = write_catalog(writer, catalog)
    core.take_catalog(catalog, row)
