"""Run operations in threads of this process, note their progress, and log their outcome.

Invariant: each operation that began, and each that was refused, has one line in the audit log.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.cache import PenstockError
from penstock.serve.operations.audit_log import AuditLog
from penstock.serve.operations.controlled_store import ControlledStore
from penstock.serve.operations.idle_request import IdleAnswer, IdleRequest
from penstock.serve.operations.operation_folder import OperationClaim, OperationFolder
from penstock.serve.operations.operation_kinds import OperationKind
from penstock.serve.operations.operation_record import OperationCancelled, OperationRecord, OperationState
from penstock.views import Progress, json_text

__all__ = ["AskFirst", "OperationRunner", "perform"]

_FINISH = 10.0  # seconds for operations to end at their next step when the server stops
AskFirst = Callable[[dict[str, Any]], object]
"""Sends the request of an operation to the first process."""
_log = logging.getLogger("penstock.serve")


@dataclass(frozen=True, slots=True)
class _Run:
    """One operation under way."""

    claim: OperationClaim
    thread: threading.Thread


class OperationRunner:
    """The operations that one front runs; `folder` has those of all fronts."""

    def __init__(
        self, store: ControlledStore, folder: OperationFolder, audit: AuditLog, ask: AskFirst | None = None
    ) -> None:
        self.store = store
        self.folder = folder
        self.audit = audit
        self._ask = ask
        self._runs: list[_Run] = []
        self._lock = threading.Lock()
        self._closed = False
        folder.lost = lambda record: log_outcome(audit, record, {})

    def start(self, kind: OperationKind, given: Mapping[str, Any], by: str) -> OperationRecord:
        """Begin an operation in a thread, and return its record. PenstockError if it is refused."""
        about: Mapping[str, Any] = {}
        try:
            asked = kind.asked(given)
            about = asked.about()
            asked.check(self.store)
            if kind.idle:
                return self._start_idle(IdleRequest(kind.name, by, given, self._answer()))
            with self._lock:
                if self._closed:
                    raise PenstockError("the server is stopping; start the operation at the next one")
                claim = self.folder.begin(kind.name, by)
                work = (claim, asked, about)
                thread = threading.Thread(target=self._run, args=work, name=f"penstock-{kind.name}", daemon=True)
                self._runs = [run for run in self._runs if run.thread.is_alive()] + [_Run(claim, thread)]
                began = claim.record
                thread.start()
        except PenstockError as error:
            self.audit.add(by, kind.name, "refused", about, error=str(error))
            raise
        return began

    def _answer(self) -> str:
        """Return the path of a file for an answer."""
        self.folder.path.mkdir(0o700, exist_ok=True)
        return str(self.folder.path / f"{secrets.token_hex(8)}.answer")

    def _start_idle(self, request: IdleRequest) -> OperationRecord:
        """Have the first process begin an operation that needs the store for itself."""
        if self._ask is None:
            raise PenstockError(
                f"{request.kind} needs the store for itself, and this server is one process that has it open; end it, "
                "then run `penstock repartition` or `penstock restore`"
            )
        self._ask(request.data())
        number = IdleAnswer(request.answer).number()
        record = self.folder.find(number)
        if record is None:
            raise PenstockError(f"the record of operation {number} was removed")
        return record

    def refused(self, kind: str, by: str, error: str) -> None:
        """Log an operation that the role of a token does not allow."""
        self.audit.add(by, kind, "refused", {}, error=error)

    def cancel(self, number: str, by: str) -> OperationRecord | None:
        """Ask an operation to end at its next step. Return its record at present; None if there is none."""
        record = self.folder.cancel(number)
        if record is not None:
            self.audit.add(by, "Cancel", "ended already" if record.state.ended else "asked", {"id": number})
        return record

    def stop(self) -> None:
        """End all operations at their next step."""
        with self._lock:
            self._closed = True
            for run in self._runs:
                run.claim.stop()

    def close(self) -> None:
        """Stop, and wait for the operations."""
        self.stop()
        for run in self._runs:
            run.thread.join(_FINISH)

    def _run(self, claim: OperationClaim, asked: Any, about: Mapping[str, Any]) -> None:
        perform(claim, self.audit, about, lambda tell: asked.run(self.store, tell))


def perform(claim: OperationClaim, audit: AuditLog, about: Mapping[str, Any], work: Callable[[Progress], Any]) -> None:
    """Do the work of an operation, write its outcome, and log it."""
    try:
        claim.tell(0, 0)
        result = json_text(work(claim.tell))
        record = claim.end(OperationState.DONE, result)
    except OperationCancelled as error:
        record = claim.end(OperationState.CANCELLED, error=str(error))
    except PenstockError as error:
        record = claim.end(OperationState.FAILED, error=str(error))
    except Exception as error:
        _log.exception("operation %s, a %s, failed", claim.record.id, claim.record.kind)
        fault = f"a fault of penstock itself: {type(error).__name__}; the server's log has the details"
        record = claim.end(OperationState.FAILED, error=fault)
    log_outcome(audit, record, about)


def log_outcome(audit: AuditLog, record: OperationRecord, about: Mapping[str, Any]) -> None:
    """Log an operation that ended."""
    audit.add(record.by, record.kind, record.state.value, about, record.id, record.error)
