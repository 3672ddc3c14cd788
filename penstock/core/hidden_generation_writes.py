"""Transactions that change only hidden generations of tables and views.

Such a transaction has no position, and no row in the feed. Invariant: it saves its contributions to groups of other
partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from penstock.cache import Writer
from penstock.core.metadata.store_state import StateRow, added, write_state
from penstock.mapreduce import Writes

if TYPE_CHECKING:
    from penstock.core.commit import Core

__all__ = ["hidden_transaction", "write_hidden"]


def hidden_transaction(core: Core, change: Callable[[Writer, Writes], None]) -> None:
    """Run one hidden transaction, within a step of the core."""
    writes = Writes()
    with core.store.write() as writer:
        change(writer, writes)
        state = write_hidden(core, writer, writes)
    writes.committed()
    core.state = state


def write_hidden(core: Core, writer: Writer, writes: Writes) -> StateRow:
    """Write the changes of a hidden transaction. Return the state after it."""
    core.settle(writer, writes)
    if core.exchange is None:  # an exchange runs them with the other joins
        core.filling_joins.run(writer, writes)
    writes.write(writer)
    state = core.owing(writer, writes, core.state)
    if any(writes.held_groups.values()):
        state = msgspec.structs.replace(state, held_groups=added(state.held_groups, writes.held_groups))
    if state != core.state:
        write_state(writer, state)
    return state
