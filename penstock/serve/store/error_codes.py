"""The status of each error of the store, as HTTP and gRPC spell it.

Invariant: a fault of the request can't succeed when it is repeated. After 429 and 503 a repeated request may succeed.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.cache import (
    ArgumentKind,
    BatchRejected,
    DefinitionChanged,
    DefinitionError,
    KeyKind,
    KeyTooLong,
    PenstockError,
    RecordError,
    StoreDamaged,
    StoreFull,
    StoreMissing,
    UnknownName,
    ValueKind,
)
from penstock.engine import ConditionFailed, SessionGap
from penstock.serve.store.store_access import UNAVAILABLE
from penstock.serve.store.store_reading import CallTimeout, WriteQueueFull
from penstock.serve.store.store_reads import DeadlinePassed
from penstock.views import PositionAhead, PositionExpired

__all__ = ["RETRY_SECONDS", "ErrorCode", "error_code"]

RETRY_SECONDS = 1
"""Seconds after which a client may repeat a call that found the server busy or without a writer."""


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """The status of HTTP, the name of the status of gRPC, and a text for programs."""

    http: int
    rpc: str
    text: str

    @property
    def passes(self) -> bool:
        """True if the same call may succeed later."""
        return self.http in (429, 503)


_CODES: list[tuple[type[PenstockError] | tuple[type[PenstockError], ...], ErrorCode]] = [
    (UnknownName, ErrorCode(404, "NOT_FOUND", "unknown name")),
    (
        (ArgumentKind, BatchRejected, DefinitionError, KeyKind, KeyTooLong, RecordError, ValueKind),
        ErrorCode(400, "INVALID_ARGUMENT", "bad request"),
    ),
    (PositionAhead, ErrorCode(400, "INVALID_ARGUMENT", "position not reached")),
    (PositionExpired, ErrorCode(410, "OUT_OF_RANGE", "position expired")),
    (DefinitionChanged, ErrorCode(409, "FAILED_PRECONDITION", "app and store differ")),
    (StoreFull, ErrorCode(429, "RESOURCE_EXHAUSTED", "store full")),
    (WriteQueueFull, ErrorCode(429, "RESOURCE_EXHAUSTED", "busy")),
    ((CallTimeout, DeadlinePassed), ErrorCode(504, "DEADLINE_EXCEEDED", "deadline")),
    (ConditionFailed, ErrorCode(409, "FAILED_PRECONDITION", "condition failed")),
    (SessionGap, ErrorCode(409, "FAILED_PRECONDITION", "session gap")),
    ((*UNAVAILABLE, StoreMissing), ErrorCode(503, "UNAVAILABLE", "unavailable")),
    (StoreDamaged, ErrorCode(500, "DATA_LOSS", "store damaged")),
    (PenstockError, ErrorCode(409, "FAILED_PRECONDITION", "refused")),
]


def error_code(error: PenstockError) -> ErrorCode:
    """Return the code of an error."""
    return next(code for kinds, code in _CODES if isinstance(error, kinds))
