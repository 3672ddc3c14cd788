"""The HTTP server of one socket: its connections, their limits, and TLS.

Invariants:

- a connection whose headers do not come in time, or are too long, is closed. So is one that stays idle;
- a handshake takes the certificate that was read last, and open connections stay.
"""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from penstock.serve.access.listen_address import ListenAddress
from penstock.serve.http.gate import CERTIFIED, Gate
from penstock.serve.tls.tls_files import TlsContext, names_of

__all__ = ["http_server", "known_hosts"]

_HEADERS = 10.0  # seconds in which the headers of a request must come, and the first request of a connection
_HEADER_BYTES = 64 << 10
_IDLE = 300  # seconds that a connection may wait for its next request


def http_server(gate: Gate, tls: TlsContext | None, finish: int) -> uvicorn.Server:
    """Return the server of a gate. At its end calls under way have `finish` seconds."""
    protocol: Any = HttpConnection
    config = uvicorn.Config(
        gate,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=finish,
    )
    config.load()
    config.ssl = None if tls is None else tls.context
    return uvicorn.Server(config)


def known_hosts(address: ListenAddress) -> list[str]:
    """Return the names by which clients may ask; a web page of another name that points here is refused."""
    host = address.host
    return [host, f"[{host}]", "localhost", "127.0.0.1", "[::1]"] if address.is_loopback else []


class HttpConnection(HttpToolsProtocol):
    """One connection, with the limits of its headers. Its requests know the names in the client's certificate."""

    _timer: asyncio.TimerHandle | None = None
    _waits = True
    _size = 0

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        own = transport.get_extra_info("ssl_object")
        if own is not None:
            self.app_state = {**self.app_state, CERTIFIED: names_of(own.getpeercert())}
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wait."""
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take data, and end a connection with too long headers."""
        self._size += len(data) if self._waits else 0
        super().data_received(data)
        if self._waits and self._size > _HEADER_BYTES:
            self.transport.close()

    def on_message_begin(self) -> None:
        """Begin to wait for the headers of a request."""
        super().on_message_begin()
        self._wait()

    def on_headers_complete(self) -> None:
        """End the wait: a body has limits of its own."""
        self._arrived()
        super().on_headers_complete()

    def _wait(self) -> None:
        if self._timer is None:
            self._waits, self._size = True, 0
            self._timer = self.loop.call_later(_HEADERS, self._expire)

    def _arrived(self) -> None:
        self._waits = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        self.transport.close()
