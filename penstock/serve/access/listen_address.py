"""An address on which a server listens, and the error for one that other machines reach."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import Self

from penstock.cache import DefinitionError, PenstockError

__all__ = ["ListenAddress", "NotLoopback"]


class NotLoopback(PenstockError):
    """The address is open to other machines, and the server has no TLS.

    >>> print(NotLoopback(ListenAddress("0.0.0.0", 7181)))
    0.0.0.0:7181 is open to other machines, and access tokens and data would be readable on the way; write \
--tls-cert CERT.pem --tls-key KEY.pem, or --expose-without-tls if that is meant, or listen on 127.0.0.1:7181
    """

    def __init__(self, address: ListenAddress) -> None:
        super().__init__(address)
        self.address = address

    def __str__(self) -> str:
        return (
            f"{self.address} is open to other machines, and access tokens and data would be readable on the way; write "
            "--tls-cert CERT.pem --tls-key KEY.pem, or --expose-without-tls if that is meant, or listen on "
            f"127.0.0.1:{self.address.port}"
        )


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """An address to listen on.

    >>> print(ListenAddress.of("[::1]:80"), ListenAddress.of("localhost:0").is_loopback)
    [::1]:80 True
    """

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the address that HOST:PORT names."""
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isdecimal() or int(port) > 65535:
            raise DefinitionError(f"{text!r} is no address; write HOST:PORT, for example 127.0.0.1:7181")
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Return True if only this machine reaches the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def bound(self, sockets: int) -> list[socket.socket]:
        """Bind this many sockets to the address, which share its port. Raise OSError if another process has it."""
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, place = found[0]
        with socket.socket(family) as probe:  # a shared port would hide that another server has it
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
            place = (place[0], probe.getsockname()[1], *place[2:])
        own: list[socket.socket] = []
        try:
            for _ in range(sockets):
                sock = socket.socket(family)
                own.append(sock)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                sock.bind(place)
        except BaseException:
            for sock in own:
                sock.close()
            raise
        return own

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
