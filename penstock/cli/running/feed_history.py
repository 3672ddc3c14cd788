"""The changes of one group, from the changes feed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from penstock.cache import decode_key, encode_key
from penstock.cli.command_frame import view_by_name
from penstock.cli.context import NO, Context
from penstock.cli.exit_errors import ExitError
from penstock.cli.json_values import dumps, spelt
from penstock.cli.rows_output import OutputColumn, emit
from penstock.engine import Engine
from penstock.views import ABSENT, Change

_COLUMNS = ("position", "change", OutputColumn("old", empty=True), OutputColumn("new", empty=True))


def show_history(ctx: Context, engine: Engine, view: str, group: Any, format: str | None) -> None:
    """Print a row for each change of a group, the oldest first, and a note with the feed's first position."""
    with engine.snapshot() as snap:
        view_by_name(snap, view)
        first, exists = snap.followed, group in snap.view(view)
    began = first if isinstance(first, int) else any(first)
    changes = _changes(engine, view, group)
    reach = f"the feed has all changes since position {spelt(first)}" + ("" if began else ", which is the beginning")
    known = next(changes, None)
    if known is None:
        what = "has not changed since then" if exists else "does not exist, and did not since then"
        raise ExitError(f"{reach}, and group {dumps(group)} of view {view!r} {what}", NO)
    emit(ctx, map(_row, chain([known], changes)), _COLUMNS, format)
    ctx.note(reach)


def _changes(engine: Engine, view: str, group: Any) -> Iterator[Change]:
    whole = encode_key(group)
    known = decode_key(whole)
    unequal = known != known or known != decode_key(whole)  # it contains a NaN
    for change in engine.changes(view):
        # 1 and true are equal, and are two groups.
        if (unequal or change.group == known) and encode_key(change.group) == whole:
            yield change


def _row(change: Change) -> tuple[Any, ...]:
    what = "added" if change.old is ABSENT else "removed" if change.new is ABSENT else "changed"
    return change.position, what, *(None if value is ABSENT else value for value in (change.old, change.new))
