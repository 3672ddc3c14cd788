"""Pausing what is read into a store, and letting it go on, in the processes that read it.

They are told by the signals that a person could send as well; what they then say of themselves is the answer. A signal
goes to a process that says, in a file that it alone has locked, that it reads into this store: to no other one that was
given the same number since, which would end of it.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress

import click

from penstock.cache import StoreMissing
from penstock.cli.command_frame import command
from penstock.cli.context import DONE, NO, STORE, WRONG, Context
from penstock.cli.exit_errors import Fault
from penstock.cli.rows_output import emit, format_option
from penstock.cli.running.claims import claims
from penstock.cli.running.source_thread import ENDED, PAUSED
from penstock.engine import is_store

_PATIENCE = 10.0  # seconds until a process has done what it was told
_LOOK = 0.02


def _sources(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of sources that are being read, for a shell that completes them."""
    store = str(ctx.params.get("store") or ctx.find_root().params.get("store") or STORE)
    return sorted({name for _, name in _said(store) if name.startswith(incomplete)})


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
    said = _said(ctx.store)
    wanted = {pid for (pid, name), state in said.items() if source in (None, name) and state != ENDED}
    if not wanted:
        raise _nobody(ctx.store, source, {name for (_, name), state in said.items() if state != ENDED})
    with ExitStack() as stack:
        told = {pid: process for pid in wanted if (process := _tell(stack, ctx.store, pid, number)) is not None}
        until = time.monotonic() + _PATIENCE
        while late := sorted(set(_late(said, told, to_pause))):
            if time.monotonic() > until:
                break
            time.sleep(_LOOK)
            said |= _said(ctx.store)
        left = sorted((name, pid) for pid, name in said if pid in told and not _has_ended(told[pid]))
    rows = [(name, pid, said[pid, name]) for name, pid in left if said[pid, name] != ENDED]
    emit(ctx, rows, ("source", "process", "state"), format)
    for pid in late:
        done = "paused" if to_pause else "gone on"
        ctx.note(f"process {pid} has not {done} after {_PATIENCE:g} s: it is stopped, or has much in hand")
    return NO if late else DONE


def _said(store: str) -> dict[tuple[int, str], str]:
    """By process and source that it reads into the store, what it says that it does."""
    return {(one["pid"], one["source"]): one["state"] for one in claims(store) if "state" in one}


def _late(said: dict[tuple[int, str], str], told: dict[int, int], to_pause: bool) -> Iterator[int]:
    """The processes that have not done what they were told."""
    for (pid, _), state in said.items():
        if pid in told and state != ENDED and (state == PAUSED) != to_pause and not _has_ended(told[pid]):
            yield pid


def _has_ended(process: int) -> bool:
    return bool(select.select([process], [], [], 0)[0])


def _nobody(store: str, source: str | None, others: Iterable[str]) -> Fault:
    if source is None:
        return Fault(f"no process reads a source into the store at {store}; `penstock run` does", NO)
    there = ", ".join(sorted(others)) or "none at all"
    return Fault(f"no process reads {source} into the store at {store}; those that are read: {there}", NO)


def _tell(stack: ExitStack, store: str, pid: int, number: signal.Signals) -> int | None:
    """Signal a process that reads into this store; what it is known by from then on, None where it has ended."""
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        stack.callback(os.close, process)
        # Asked once it can't be another process any more: a number is given again when its process has ended.
        if any(own == pid for own, _ in _said(store)):
            try:
                signal.pidfd_send_signal(process, number)
            except PermissionError:
                raise Fault(f"process {pid} is of another user; run this as that user", WRONG) from None
            return process
    return None
