"""The commands that pause and resume the sources that processes read into a store.

They send a signal to these processes, and read each process's state as the answer. A process that reads into the store
says so in a file that it has locked. Only such a process gets a signal. Its number may since belong to another process,
which the signal would end.
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
from penstock.cli.exit_errors import ExitError
from penstock.cli.rows_output import emit, format_option
from penstock.cli.running.source_thread import ENDED, PAUSED
from penstock.engine import is_store
from penstock.remote import claims

_PATIENCE = 10.0  # seconds to wait for a process
_LOOK = 0.02


def _sources(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the names of sources that are being read."""
    store = str(ctx.params.get("store") or ctx.find_root().params.get("store") or STORE)
    return sorted({name for _, name in _reports(store) if name.startswith(incomplete)})


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
    """Pause each `penstock run` that reads SOURCE into the store, or any source, until `penstock resume`.

    Batches that were read are committed first. A member of a group stays in it and keeps its share. The names of
    sources are those of `penstock status`. A process pauses as a whole: its other sources pause too, and appear in the
    answer. A process that starts later is not paused. Exit code 1: no process reads SOURCE, or some are not paused
    after 10 s.
    """
    return _signalled(ctx, source, signal.SIGUSR1, True, format)


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
    """Resume each `penstock run` that reads SOURCE into the store, or any source, after `penstock pause`.

    Exit code 1: no process reads SOURCE, or some have not resumed after 10 s.
    """
    return _signalled(ctx, source, signal.SIGUSR2, False, format)


def _signalled(ctx: Context, source: str | None, number: signal.Signals, to_pause: bool, format: str | None) -> int:
    if not is_store(ctx.store):
        raise StoreMissing(ctx.store)
    states = _reports(ctx.store)
    wanted = {pid for (pid, name), state in states.items() if source in (None, name) and state != ENDED}
    if not wanted:
        raise _nobody(ctx.store, source, {name for (_, name), state in states.items() if state != ENDED})
    with ExitStack() as stack:
        signalled = {pid: process for pid in wanted if (process := _signal(stack, ctx.store, pid, number)) is not None}
        until = time.monotonic() + _PATIENCE
        while late := sorted(set(_unfinished(states, signalled, to_pause))):
            if time.monotonic() > until:
                break
            time.sleep(_LOOK)
            states |= _reports(ctx.store)
        left = sorted((name, pid) for pid, name in states if pid in signalled and not _has_ended(signalled[pid]))
    rows = [(name, pid, states[pid, name]) for name, pid in left if states[pid, name] != ENDED]
    emit(ctx, rows, ("source", "process", "state"), format)
    for pid in late:
        done = "paused" if to_pause else "gone on"
        ctx.note(f"process {pid} has not {done} after {_PATIENCE:g} s: it is stopped, or busy with a large batch")
    return NO if late else DONE


def _reports(store: str) -> dict[tuple[int, str], str]:
    """Return the state that each process reports, by process and source."""
    return {(one["pid"], one["source"]): one["state"] for one in claims(store) if "state" in one}


def _unfinished(states: dict[tuple[int, str], str], signalled: dict[int, int], to_pause: bool) -> Iterator[int]:
    """Yield the processes that have not paused or resumed yet."""
    for (pid, _), state in states.items():
        if pid in signalled and state != ENDED and (state == PAUSED) != to_pause and not _has_ended(signalled[pid]):
            yield pid


def _has_ended(process: int) -> bool:
    return bool(select.select([process], [], [], 0)[0])


def _nobody(store: str, source: str | None, others: Iterable[str]) -> ExitError:
    if source is None:
        return ExitError(f"no process reads a source into the store at {store}; `penstock run` does", NO)
    names = ", ".join(sorted(others)) or "none at all"
    return ExitError(f"no process reads {source} into the store at {store}; sources that are read: {names}", NO)


def _signal(stack: ExitStack, store: str, pid: int, number: signal.Signals) -> int | None:
    """Signal a process that reads into this store. Return a file descriptor of it, or None if it has ended."""
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        stack.callback(os.close, process)
        # Test again with the descriptor open: before that, the number may have passed to another process.
        if any(own == pid for own, _ in _reports(store)):
            try:
                signal.pidfd_send_signal(process, number)
            except PermissionError:
                raise ExitError(f"process {pid} is of another user; run this as that user", WRONG) from None
            return process
    return None
