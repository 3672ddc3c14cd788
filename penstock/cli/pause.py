"""Pausing what is read into a store, and letting it go on, in the processes that read it.

They are told by the signals that a person could send as well; what they then say of themselves is the answer. A signal
goes to a process that says, in a file that it alone has locked, that it reads into this store: to no other one that was
given the same number since, which would end of it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from penstock.cache import StoreMissing
from penstock.cli.claims import claims
from penstock.cli.context import DONE, NO, STORE, WRONG, Context
from penstock.cli.faults import Fault
from penstock.cli.frame import command
from penstock.cli.output import emit, format_option
from penstock.cli.pump import ENDED, PAUSED
from penstock.engine import is_store

_PATIENCE = 10.0  # seconds until a process has done what it was told
_LOOK = 0.02


def _sources(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of sources that are being read, for a shell that completes them."""
    store = str(ctx.params.get("store") or ctx.find_root().params.get("store") or STORE)
    return sorted({one["source"] for one in claims(store) if one["source"].startswith(incomplete)})


_source = click.argument("source", required=False, shell_complete=_sources)


@command(
    "pause",
    store=True,
    examples=[
        "penstock pause",
        "penstock pause users=kafka:users",
        "penstock pause --format json | jq '.[].process'",
    ],
)
@_source
@format_option
def pause(ctx: Context, source: str | None, format: str | None) -> int:
    """Have each `penstock run` that reads SOURCE into the store, or any source, read no more until `penstock resume`.

    What was read is committed first; a member of a group stays in it and keeps its share. Sources are called as in
    `penstock status`. A process pauses as a whole: the other sources that it reads pause too, and are in the answer.
    One that is started later is not paused. Exit code 1: nobody reads SOURCE, or some are not paused after 10 s.
    """
    return _told(ctx, source, signal.SIGUSR1, True, format)


@command(
    "resume",
    store=True,
    examples=[
        "penstock resume",
        "penstock resume users=kafka:users",
    ],
)
@_source
@format_option
def resume(ctx: Context, source: str | None, format: str | None) -> int:
    """Let each `penstock run` that reads SOURCE into the store, or any source, go on after `penstock pause`.

    Exit code 1: nobody reads SOURCE, or some have not gone on after 10 s.
    """
    return _told(ctx, source, signal.SIGUSR2, False, format)


def _told(ctx: Context, source: str | None, number: signal.Signals, to_pause: bool, format: str | None) -> int:
    if not is_store(ctx.store):
        raise StoreMissing(ctx.store)
    asked = _reading(ctx.store, None)
    own = [one for one in asked if source in (None, one["source"])]
    if not own:
        raise _nobody(ctx.store, source, asked)
    processes = {one["pid"] for one in own if _tell(ctx.store, one["pid"], number)}
    until = time.monotonic() + _PATIENCE
    while late := [one for one in _reading(ctx.store, processes) if (one["state"] == PAUSED) != to_pause]:
        if time.monotonic() > until:
            break
        time.sleep(_LOOK)
    rows = [(one["source"], one["pid"], one["state"]) for one in _reading(ctx.store, processes)]
    emit(ctx, rows, ("source", "process", "state"), format)
    for pid in sorted({one["pid"] for one in late}):
        done = "paused" if to_pause else "gone on"
        ctx.note(f"process {pid} has not {done} after {_PATIENCE:g} s: it is stopped, or has much in hand")
    return NO if late else DONE


def _reading(store: str, processes: set[int] | None) -> list[dict[str, Any]]:
    """What the processes say of the sources that they read, those of them that have not ended."""
    found = [one for one in claims(store) if one["state"] != ENDED]
    return [one for one in found if processes is None or one["pid"] in processes]


def _nobody(store: str, source: str | None, others: Sequence[dict[str, Any]]) -> Fault:
    if source is None:
        return Fault(f"no process reads a source into the store at {store}; `penstock run` does", NO)
    there = ", ".join(sorted({one["source"] for one in others})) or "none at all"
    return Fault(f"no process reads {source} into the store at {store}; those that are read: {there}", NO)


def _tell(store: str, pid: int, number: signal.Signals) -> bool:
    """Signal a process that reads into this store; whether it was there."""
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            # Asked once it can't be another process any more: a number is given again when its process has ended.
            if any(one["pid"] == pid for one in claims(store)):
                signal.pidfd_send_signal(process, number)
                return True
        except PermissionError:
            raise Fault(f"process {pid} is of another user; run this as that user", WRONG) from None
        finally:
            os.close(process)
    return False
