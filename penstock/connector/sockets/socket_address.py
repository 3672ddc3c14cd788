"""Addresses of connectors, connections to them, and waits that grow after failures.

A port without a host means this machine only. Another host must be named.
"""

from __future__ import annotations

import socket

from penstock.connector.errors import ConnectorFault
from penstock.connector.session import Session
from penstock.connector.sockets.session_socket import SessionSocket
from penstock.connector.sockets.socket_options import prepare_socket

__all__ = ["Backoff", "address_of", "connect_session", "connected"]

_HERE = "127.0.0.1"
_FIRST, _LAST = 0.02, 2.0  # seconds of the first and of the longest wait


def address_of(text: str) -> tuple[str, int]:
    """Return the host and the port of an address.

    >>> address_of("7100"), address_of("10.0.0.1:7100"), address_of("[::1]:7100")
    (('127.0.0.1', 7100), ('10.0.0.1', 7100), ('::1', 7100))
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ConnectorFault(text, "this is no address", "write HOST:PORT or a port, for example 127.0.0.1:7100")
    return host or _HERE, int(port)


def connected(address: tuple[str, int], patience: float) -> socket.socket:
    """Connect within so many seconds; OSError if nothing listens there."""
    sock = socket.create_connection(address, max(patience, _FIRST))
    prepare_socket(sock)
    sock.setblocking(False)
    return sock


def connect_session(session: Session, address: tuple[str, int], patience: float) -> SessionSocket:
    """Connect a session within so many seconds; OSError if nothing listens there."""
    return SessionSocket(session, connected(address, patience))


class Backoff:
    """Waits that double after each failure, up to a limit.

    >>> backoff = Backoff()
    >>> [backoff.next() for _ in range(3)]
    [0.02, 0.04, 0.08]
    """

    def __init__(self) -> None:
        self._wait = _FIRST

    def next(self) -> float:
        """Return the seconds to wait now."""
        wait, self._wait = self._wait, min(self._wait * 2, _LAST)
        return wait

    def reset(self) -> None:
        """Start again: the peer answered."""
        self._wait = _FIRST
