"""The error of a call that a server refused, or did not answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from penstock.cache import PenstockError

__all__ = ["ServiceError", "service_error"]

_NOTHING_DONE = {"BUSY", "NO_HOLDER", "STORE_FULL"}
_PASSING = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"}


class ServiceError(PenstockError):
    """A call failed. `code` is the status of gRPC, `reason` names the cause for programs, and `about` has its parts.

    `again` is the number of seconds after which the call may succeed, or None. `nothing_done` tells that the server
    refused the call before it changed anything.

    >>> print(ServiceError("NOT_FOUND", "UNKNOWN_NAME", "there is no view 'revenu'; there is 'revenue'"))
    there is no view 'revenu'; there is 'revenue'
    """

    def __init__(
        self,
        code: str,
        reason: str,
        message: str,
        about: Mapping[str, str] | None = None,
        again: float | None = None,
    ) -> None:
        super().__init__(code, reason, message)
        self.code = code
        self.reason = reason
        self.message = message
        self.about = dict(about or {})
        self.again = again

    @property
    def nothing_done(self) -> bool:
        """True if the call changed nothing, so any call may be repeated."""
        return self.reason in _NOTHING_DONE

    @property
    def passes(self) -> bool:
        """True if the same call may succeed later."""
        return self.again is not None or self.code in _PASSING

    def __str__(self) -> str:
        return self.message


def service_error(error: grpc.RpcError) -> ServiceError:
    """Return the error of a failed call."""
    call: Any = error
    about, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    again: float | None = None
    status = rpc_status.from_call(call)
    for detail in () if status is None else status.details:
        detail.Unpack(about)
        if detail.Unpack(retry):
            again = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    code = call.code().name
    message = call.details() or code
    if status is None and code == "UNAVAILABLE":
        message = f"no server answers: {message}; start `penstock serve`, or give its address of gRPC"
    return ServiceError(code, about.reason or code, message, about.metadata, again)
