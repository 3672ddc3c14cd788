"""An operation that needs the store for itself, in a child of the first process.

    front ── request ──▶ first process ── ends the holder, begins the child
    child ── copies the store, and has the fronts read the copy ── works ── ends
    first process ── has the fronts read the store again, and begins the holder

Invariants:

- reads go on, at the position that the store had. Writes get an answer that they may be repeated;
- the work takes the writer's lock itself, so no write of another process is lost;
- the child claims the operation before it answers the front, so a second one of the kind is refused.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from typing import Any

from penstock.cache import PenstockError, StoreInUse, WriterLock, process_with, writer_name
from penstock.core import read_layout
from penstock.engine import copy_any
from penstock.serve.operations.audit_log import AuditLog
from penstock.serve.operations.controlled_store import IdleStore
from penstock.serve.operations.idle_request import IdleAnswer, IdleRequest
from penstock.serve.operations.operation_folder import OperationFolder
from penstock.serve.operations.operation_kinds import KINDS
from penstock.serve.operations.operation_runner import perform
from penstock.views import Progress

__all__ = ["reading_copy", "run_idle"]

_LONGEST = 90.0  # seconds for the holder and the fronts to release the store
_LOOK = 0.05


def reading_copy(path: str) -> str:
    """Return the folder of the copy that fronts read meanwhile."""
    return os.path.abspath(path) + ".reading"


def run_idle(
    request: IdleRequest,
    store: IdleStore,
    folder: OperationFolder,
    audit: AuditLog,
    report: Callable[[dict[str, Any]], object],
) -> None:
    """Claim the operation, answer the front, and do the work. `report` tells the first process of the copy."""
    answer, kind, path = IdleAnswer(request.answer), KINDS[request.kind], store.path
    asked = kind.asked(request.given)

    def work(tell: Progress) -> Any:
        _await(lambda: _is_unlocked(path), lambda: StoreInUse(path, writer_name(path) or "another process"), tell)
        copy = reading_copy(path)
        shutil.rmtree(copy, ignore_errors=True)
        copy_any(path, copy, lambda _, done, total: tell(done, total))
        report({"reading": copy})
        _await(lambda: _reader_of(path) is None, lambda: StoreInUse(path, f"process {_reader_of(path)}"), tell)
        return asked.run_idle(store, tell)

    try:
        claim = folder.begin(kind.name, request.by)
    except PenstockError as error:
        answer.refused(error)
        return
    answer.begun(claim.record.id)
    perform(claim, audit, asked.about(), work)


def _await(free: Callable[[], bool], error: Callable[[], PenstockError], tell: Progress) -> None:
    """Wait until other processes have released the store."""
    until, pause = time.monotonic() + _LONGEST, threading.Event()
    while not free():
        if time.monotonic() > until:
            raise error()
        tell(0, 0)
        pause.wait(_LOOK)


def _is_unlocked(path: str) -> bool:
    try:
        WriterLock(path).close()
    except StoreInUse:
        return False
    return True


def _reader_of(path: str) -> int | None:
    layout = read_layout(path)
    for folder in [path] if layout is None else layout.folders(path):
        found = process_with(folder)
        if found is not None:
            return found
    return None
