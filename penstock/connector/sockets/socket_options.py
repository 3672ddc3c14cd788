"""Options of the sockets of all roles: small frames leave at once, and a dead peer is noticed."""

from __future__ import annotations

import socket

__all__ = ["prepare_socket"]

_KEEP_ALIVE = 15  # seconds until the first probe, and until a silent peer counts as dead
_PROBES = 3


def prepare_socket(connection: socket.socket) -> None:
    """Switch off the delay of small frames, and probe a silent peer."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _KEEP_ALIVE // _PROBES),
        ("TCP_KEEPINTVL", _KEEP_ALIVE // _PROBES),
        ("TCP_KEEPCNT", _PROBES - 1),
    ):
        option = getattr(socket, name, None)  # other systems have other names
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
