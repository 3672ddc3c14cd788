"""A member of a group that holds the store and is stopped: another one ends it, and takes the store over.

A process that is stopped, by SIGSTOP or by a terminal, keeps its locks, and nobody could go on until somebody came.
What it had not committed is read again. Invariant: nobody is ended but who holds this store as a member of this group,
and is stopped in that moment.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from penstock.cache import owner_pid
from penstock.cli.running.claims import claims, is_stopped


def end_stopped(store: str, groups: set[str]) -> int | None:
    """End the holder of a store where it is a stopped member of one of these groups; the process that was ended."""
    pid = owner_pid(store)
    if pid is None:
        return None
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            # Asked once it can't be another process any more: a number is given again when its process has ended.
            if owner_pid(store) == pid and _is_member(store, pid, groups) and is_stopped(pid):
                signal.pidfd_send_signal(process, signal.SIGKILL)
                return pid
        finally:
            os.close(process)
    return None


def _is_member(store: str, pid: int, groups: set[str]) -> bool:
    return any(one["pid"] == pid and one.get("group") in groups for one in claims(store))
