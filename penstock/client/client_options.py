"""The options of a client: access token, TLS, times, and which failed calls it repeats."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

import grpc

from penstock.client.call_steps import CallStep
from penstock.client.service_error import ServiceError

__all__ = ["ClientOptions", "ClientTls", "RetryTimes"]

_MOST = 64 << 20  # bytes of an answer
_FIRST, _LONGEST = 0.05, 2.0  # seconds between two tries


@dataclass(frozen=True, slots=True)
class ClientTls:
    """Files for TLS: the certificate authority of the server, and the client's own certificate and key for mTLS.

    Without `ca` the authorities of the machine are used. `server_name` is the name in the server's certificate, if it
    differs from the address.
    """

    ca: str | os.PathLike[str] | None = None
    cert: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    server_name: str | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """Return the credentials of a channel."""
        ca, key, cert = (None if path is None else _read(path) for path in (self.ca, self.key, self.cert))
        return grpc.ssl_channel_credentials(ca, key, cert)


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The options of one client."""

    target: str
    token: str
    tls: ClientTls | None
    timeout: float
    patience: float

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata of each call."""
        return (("authorization", f"Bearer {self.token}"),) if self.token else ()

    def channel(self, library: Any) -> Any:
        """Return a channel of `grpc` or `grpc.aio`."""
        options: list[tuple[str, Any]] = [
            ("grpc.max_receive_message_length", _MOST),
            ("grpc.enable_retries", 0),
        ]
        if self.tls is None:
            return library.insecure_channel(self.target, options=options)
        if self.tls.server_name is not None:
            options.append(("grpc.ssl_target_name_override", self.tls.server_name))
        return library.secure_channel(self.target, self.tls.credentials(), options=options)


class RetryTimes:
    """The tries of one call, until the patience of its client ends."""

    def __init__(self, patience: float) -> None:
        self._until = time.monotonic() + patience
        self._pause = _FIRST

    def pause(self, step: CallStep, failed: ServiceError) -> float:
        """Return the seconds to wait before the call is repeated. Raise its error if it must not be."""
        allowed = failed.passes and (step.repeated or failed.nothing_done)
        pause = self._pause if failed.again is None else min(self._pause, failed.again)
        if not allowed or time.monotonic() + pause > self._until:
            raise failed from None
        self._pause = min(self._pause * 2, _LONGEST)
        return pause


def _read(path: str | os.PathLike[str]) -> bytes:
    with open(path, "rb") as file:
        return file.read()
