"""The settings of one server: addresses, processes, times.

Invariant: a server listens on loopback addresses only, unless `exposed` is set.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from dataclasses import dataclass, field
from typing import Self

from penstock.cache import DefinitionError, PenstockError
from penstock.serve.access.access_tokens import TokenFile

__all__ = ["ListenAddress", "NotLoopback", "ServerSettings"]


class NotLoopback(PenstockError):
    """The address is open to other machines, and the server has no TLS.

    >>> print(NotLoopback(ListenAddress("0.0.0.0", 7181)))
    0.0.0.0:7181 is open to other machines, and access tokens and data would be readable on the way; write \
--expose-without-tls if that is meant, or listen on 127.0.0.1:7181
    """

    def __init__(self, address: ListenAddress) -> None:
        super().__init__(address)
        self.address = address

    def __str__(self) -> str:
        return (
            f"{self.address} is open to other machines, and access tokens and data would be readable on the way; write "
            f"--expose-without-tls if that is meant, or listen on 127.0.0.1:{self.address.port}"
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


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of one server of the store at `path`."""

    path: str
    http: ListenAddress = field(default_factory=lambda: ListenAddress("127.0.0.1", 7181))
    metrics: ListenAddress = field(default_factory=lambda: ListenAddress("127.0.0.1", 7182))
    fronts: int = 1
    in_process: bool = False
    exposed: bool = False
    tokens: str | None = None
    """The file of access tokens; None is the one beside the store."""
    drain: float = 2.0
    """Seconds between the first signal and the end of new requests, for load balancers that look at /readyz."""

    @property
    def token_file(self) -> TokenFile:
        """The file of access tokens."""
        return TokenFile.of_store(self.path) if self.tokens is None else TokenFile(os.path.abspath(self.tokens))

    def __post_init__(self) -> None:
        for address in (self.http, self.metrics):
            if not self.exposed and not address.is_loopback:
                raise NotLoopback(address)
        if self.fronts < 1:
            raise DefinitionError(f"fronts= is {self.fronts}; write 1 or more")
