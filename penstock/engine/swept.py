"""How far one partition is with the views that it builds, and one step of it.

Invariant: asking again changes nothing but by a further step; who has switched has none left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.engine.schema import built_of

if TYPE_CHECKING:
    from penstock.engine.core import Core

__all__ = ["AT_ONCE", "STEP", "Swept", "swept_by"]

STEP = 1 << 12
"""Documents of a step that nobody waits for."""
AT_ONCE = 2_000
"""Documents and rows that opening a store may take the time for."""


@dataclass(frozen=True, slots=True)
class Swept:
    """Whether a partition has a step left, or waits for others to switch.

    Documents and rows that it told, of how many, and since it was opened; the position at which it switched since.
    """

    more: bool
    waits: bool
    done: int
    total: int
    told: int
    switched: int | None

    def data(self) -> list[Any]:
        """The same as plain data."""
        return [self.more, self.waits, self.done, self.total, self.told, self.switched]


def swept_by(core: Core, limit: int | None, switch: bool) -> Swept:
    """One step of a partition, of about so many documents or rows and all that came ahead; its switch; or a look."""
    sweep = core.sweep
    if switch:
        if sweep is not None and sweep.waits:
            core.between(sweep.switch)
    elif limit is not None:
        core.sweep_step(limit)
        while behind := core.behind:
            core.sweep_step(min(behind, STEP))
    sweep = core.sweep
    waits = sweep is not None and sweep.waits
    more = (sweep is not None and not waits) or bool(core.catalog.trash)
    done = total = 0
    if sweep is not None:
        with core.store.read() as reader:
            done, total = built_of(reader, core.catalog)
    return Swept(more, waits, done, total, core.told, core.switched)
