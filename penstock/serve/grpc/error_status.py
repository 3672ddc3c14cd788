"""The status that a failed call ends with: code, message and details.

Each status has an ErrorInfo, whose reason is for programs. A status that may pass has a RetryInfo with the seconds to
wait.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NoReturn

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from penstock.cache import BatchRejected, PenstockError, StoreDamaged, UnknownName
from penstock.engine import ConditionFailed, SessionGap
from penstock.serve.store.error_codes import RETRY_SECONDS, error_code
from penstock.serve.store.store_access import HolderAbsent
from penstock.views import PositionExpired, position_text

__all__ = ["CallRefused", "abort", "refusal_of"]

_DOMAIN = "penstock"
_MOST = 100  # rejections that a status names
_FAULT = "this is a fault of penstock itself; the server's log has the details"
_log = logging.getLogger("penstock.serve")


class CallRefused(Exception):
    """A call that ends with a status of its own; `again` are the seconds after which it may succeed."""

    def __init__(
        self,
        code: grpc.StatusCode,
        reason: str,
        message: str,
        about: Mapping[str, str] | None = None,
        again: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.about = dict(about or {})
        self.again = again

    @property
    def status(self) -> grpc.Status:
        """The status with its details."""
        details: list[Message] = [error_details_pb2.ErrorInfo(reason=self.reason, domain=_DOMAIN, metadata=self.about)]
        if self.again is not None:
            delay = duration_pb2.Duration(nanos=int(self.again % 1 * 1e9), seconds=int(self.again))
            details.append(error_details_pb2.RetryInfo(retry_delay=delay))
        packed = []
        for detail in details:
            own = any_pb2.Any()
            own.Pack(detail)
            packed.append(own)
        number: Any = self.code.value[0]
        status: grpc.Status = rpc_status.to_status(status_pb2.Status(code=number, message=str(self), details=packed))
        return status


def refusal_of(error: Exception, method: str) -> CallRefused:
    """Return the refusal for an error. A fault of this package is logged, and its text stays here."""
    if isinstance(error, CallRefused):
        return error
    if not isinstance(error, PenstockError):
        _log.error("%s failed", method, exc_info=error)
        return CallRefused(grpc.StatusCode.INTERNAL, "FAULT", _FAULT)
    code = error_code(error)
    return CallRefused(
        grpc.StatusCode[code.rpc],
        "NO_HOLDER" if isinstance(error, HolderAbsent) else code.text.replace(" ", "_").upper(),
        str(error),
        _about(error),
        RETRY_SECONDS if code.passes else None,
    )


def abort(context: grpc.ServicerContext, refusal: CallRefused) -> NoReturn:
    """End a call with the status of a refusal."""
    context.abort_with_status(refusal.status)
    raise AssertionError("abort raises")


def _about(error: PenstockError) -> dict[str, str]:
    """Return the parts of an error that programs need, as texts."""
    if isinstance(error, UnknownName) and error.nearest is not None:
        return {"nearest": error.nearest}
    if isinstance(error, PositionExpired):
        return {"oldest": position_text(error.oldest)}
    if isinstance(error, StoreDamaged):
        return {"where": str(error.where), "key": str(error.key)}
    if isinstance(error, ConditionFailed):
        return {key: found for key, _, found in error.failed}
    if isinstance(error, SessionGap):
        return {"upto": str(error.upto)}
    if isinstance(error, BatchRejected):
        return {own.where: own.reason for own in error.rejections[:_MOST]}
    return {}
