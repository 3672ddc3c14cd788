"""End a stopped member of a group that holds the store, so that another member can take the store over.

A process that is stopped, by SIGSTOP or by a terminal, keeps its locks, and would block the others. Records that it had
not committed are read again. Invariant: only a process that holds this store, is a member of this group, and is stopped
at that moment is ended.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from penstock.cache import writer_pid
from penstock.remote import claims, is_stopped


def end_stopped(store: str, groups: set[str]) -> int | None:
    """End the holder of a store if it is a stopped member of one of these groups. Return its process id, or None."""
    pid = writer_pid(store)
    if pid is None:
        return None
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            # Test again with the descriptor open: before that, the number may have passed to another process.
            if writer_pid(store) == pid and _is_member(store, pid, groups) and is_stopped(pid):
                signal.pidfd_send_signal(process, signal.SIGKILL)
                return pid
        finally:
            os.close(process)
    return None


def _is_member(store: str, pid: int, groups: set[str]) -> bool:
    return any(one["pid"] == pid and one.get("group") in groups for one in claims(store))
