"""Steps of a refill at one partition of several, asked for in plain data by the process that serves the store.

    open ─▶ copy, again and again ─▶ wake ─▶ carry, repeat ─▶ ready ─▶ switch ─▶ end

All partitions take one kind of step before any of them takes the next kind. So contributions reach views of the refill
only at partitions that have copied them. Invariants:

- `ready`, `switch` and `give_up` go by the catalog, so that a process that replaces another one can take them again;
- every other step fails at such a process, which has discarded the refill when it opened its partition.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from penstock.cache import PenstockError, open_lmdb
from penstock.core import is_ready
from penstock.generations.refill import Refilling, begin, give_up, switch

if TYPE_CHECKING:
    from penstock.core import Core

__all__ = ["refill_step"]


def refill_step(core: Core, do: str, *what: Any) -> Any:
    """Run a step by its name; the caller has the writer's lock."""
    core.ready()
    return core.between(lambda: _STEPS[do](core, *what))


def _highest(core: Core) -> int:
    """Return the highest number ever given."""
    return core.catalog.highest()


def _open(core: Core, folder: str, first: int) -> None:
    """Begin to copy the store in this folder, under numbers from `first` on."""
    core.end_refill()
    with ExitStack() as stack:
        fresh = open_lmdb(folder, readonly=True)
        stack.callback(fresh.close)
        run = Refilling(core, folder, stack.enter_context(fresh.read()), stack.pop_all().close)
    core.refilling = run
    run.allot(first)


def _run(core: Core) -> Refilling:
    run = core.refilling
    if not isinstance(run, Refilling):
        raise PenstockError("the process of a partition was replaced during the backfill; run the backfill again")
    run.must_go_on()
    return run


def _copy(core: Core) -> tuple[int, int] | None:
    """Copy some rows. Return the rows copied and their total, or None at the end."""
    return next(_run(core).copying, None)


def _wake(core: Core) -> None:
    _run(core).wake()


def _records_behind(core: Core) -> int:
    return _run(core).behind()


def _carry(core: Core, limit: int | None) -> int:
    """Apply about `limit` of the later records, or all. Return the number of records passed."""
    run = _run(core)
    return run.carried(run.behind() if limit is None else limit)


def _repeat(core: Core) -> None:
    _run(core).repeat()


def _ready(core: Core, first: int) -> tuple[dict[str, int], tuple[str, ...]]:
    """Store all data for the switch. Return the offsets of the source partitions, and those that go back."""
    refill = core.catalog.refill
    if core.refilling is None and is_ready(core.catalog) and refill is not None and refill.first == first:
        return refill.answer()
    return _run(core).make_ready()


def _end(core: Core) -> None:
    core.end_refill()


_STEPS: dict[str, Callable[..., Any]] = {
    "highest": _highest,
    "begin": begin,
    "open": _open,
    "copy": _copy,
    "wake": _wake,
    "behind": _records_behind,
    "carry": _carry,
    "repeat": _repeat,
    "ready": _ready,
    "switch": switch,
    "give_up": give_up,
    "end": _end,
}
