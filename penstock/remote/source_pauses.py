"""Pause and resume the sources that processes read into a store.

They get a signal, and the state that each process reports is its answer. A process that reads into the store says so in
a file that it has locked. Only such a process gets a signal. Its number may since belong to another process, which the
signal would end.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from penstock.cache import PenstockError
from penstock.remote.source_claims import claims

__all__ = [
    "ENDED",
    "PAUSED",
    "READING",
    "BusyProcess",
    "SourceUnread",
    "SwitchedSource",
    "SwitchedSources",
    "source_states",
    "switch_sources",
]

READING, PAUSED, ENDED = "reading", "paused", "ended"
"""The states of a source that a process reports."""
_PATIENCE = 10.0  # seconds to wait for a process
_LOOK = 0.02


class SourceUnread(PenstockError):
    """No process reads the source into the store; `others` are the sources that are read.

    >>> print(SourceUnread("state", "users=file:a", ["orders=file:b"]))
    no process reads users=file:a into the store at state; sources that are read: orders=file:b
    """

    def __init__(self, path: str, source: str | None, others: Iterable[str]) -> None:
        super().__init__(path, source, sorted(others))
        self.path = path
        self.source = source
        self.others = sorted(others)

    def __str__(self) -> str:
        if self.source is None:
            return f"no process reads a source into the store at {self.path}; `penstock run` does"
        names = ", ".join(self.others) or "none at all"
        return f"no process reads {self.source} into the store at {self.path}; sources that are read: {names}"


@dataclass(frozen=True, slots=True)
class SwitchedSource:
    """The state of one source in one process."""

    source: str
    process: int
    state: str


@dataclass(frozen=True, slots=True)
class BusyProcess:
    """A process that has not obeyed a signal yet.

    >>> print(BusyProcess(4711, True, 10.0))
    process 4711 has not paused after 10 s: it is stopped, or busy with a large batch
    """

    process: int
    to_pause: bool
    seconds: float

    def __str__(self) -> str:
        done = "paused" if self.to_pause else "gone on"
        after = f"after {self.seconds:g} s: it is stopped, or busy with a large batch"
        return f"process {self.process} has not {done} {after}"


@dataclass(frozen=True, slots=True)
class SwitchedSources:
    """The sources of the processes that got a signal, and the processes that have not obeyed yet."""

    sources: list[SwitchedSource]
    late: list[BusyProcess]


def source_states(path: str) -> dict[tuple[int, str], str]:
    """Return the state that each process reports, by process and source."""
    return {(one["pid"], one["source"]): one["state"] for one in claims(path) if "state" in one}


def switch_sources(path: str, source: str | None, to_pause: bool) -> SwitchedSources:
    """Pause or resume each process that reads a source into the store, or any source.

    A process pauses as a whole, with all its sources. SourceUnread if there is none. A process has 10 s to obey.
    """
    number = signal.SIGUSR1 if to_pause else signal.SIGUSR2
    states = source_states(path)
    wanted = {pid for (pid, name), state in states.items() if source in (None, name) and state != ENDED}
    if not wanted:
        raise SourceUnread(path, source, {name for (_, name), state in states.items() if state != ENDED})
    with ExitStack() as stack:
        signalled = {pid: process for pid in wanted if (process := _signal(stack, path, pid, number)) is not None}
        until = time.monotonic() + _PATIENCE
        while late := sorted(set(_unfinished(states, signalled, to_pause))):
            if time.monotonic() > until:
                break
            time.sleep(_LOOK)
            states |= source_states(path)
        left = sorted((name, pid) for pid, name in states if pid in signalled and not _has_ended(signalled[pid]))
    found = [SwitchedSource(name, pid, states[pid, name]) for name, pid in left if states[pid, name] != ENDED]
    return SwitchedSources(found, [BusyProcess(pid, to_pause, _PATIENCE) for pid in late])


def _unfinished(states: dict[tuple[int, str], str], signalled: dict[int, int], to_pause: bool) -> Iterator[int]:
    """Yield the processes that have not paused or resumed yet."""
    for (pid, _), state in states.items():
        if pid in signalled and state != ENDED and (state == PAUSED) != to_pause and not _has_ended(signalled[pid]):
            yield pid


def _has_ended(process: int) -> bool:
    return bool(select.select([process], [], [], 0)[0])


def _signal(stack: ExitStack, path: str, pid: int, number: signal.Signals) -> int | None:
    """Signal a process that reads into this store. Return a file descriptor of it, or None if it has ended."""
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        stack.callback(os.close, process)
        # Test again with the descriptor open: before that, the number may have passed to another process.
        if any(own == pid for own, _ in source_states(path)):
            try:
                signal.pidfd_send_signal(process, number)
            except PermissionError:
                raise PenstockError(f"process {pid} is of another user; run this as that user") from None
            return process
    return None
