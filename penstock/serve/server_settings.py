"""The settings of one server: addresses, processes, times.

Invariant: a server listens on loopback addresses only, unless it has TLS or `exposed` is set.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from penstock.cache import DefinitionError
from penstock.serve.access.access_tokens import TokenFile
from penstock.serve.access.listen_address import ListenAddress, NotLoopback
from penstock.serve.tls.tls_files import TlsFiles

__all__ = ["ServerSettings"]


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of one server of the store at `path`."""

    path: str
    http: ListenAddress = field(default_factory=lambda: ListenAddress("127.0.0.1", 7181))
    metrics: ListenAddress = field(default_factory=lambda: ListenAddress("127.0.0.1", 7182))
    grpc: ListenAddress = field(default_factory=lambda: ListenAddress("127.0.0.1", 7180))
    control: ListenAddress = field(default_factory=lambda: ListenAddress("127.0.0.1", 7183))
    fronts: int = 1
    in_process: bool = False
    exposed: bool = False
    tokens: str | None = None
    """The file of access tokens; None is the one beside the store."""
    snapshots: str | None = None
    """The folder of snapshots; None is STORE.snapshots beside the store."""
    app_file: str | None = None
    """The file of the app, which `Migrate` compares with the store."""
    tls: TlsFiles | None = None
    """The certificate of the server; None for a server without TLS."""
    control_tls: TlsFiles | None = None
    """The certificate of the control plane; None for that of the server."""
    rate: float | None = None
    """The calls per second of one access token in each front; None is no limit."""
    drain: float = 2.0
    """Seconds between the first signal and the end of new requests, for load balancers that look at /readyz."""

    @property
    def token_file(self) -> TokenFile:
        """The file of access tokens."""
        return TokenFile.of_store(self.path) if self.tokens is None else TokenFile(os.path.abspath(self.tokens))

    @property
    def snapshot_folder(self) -> str:
        """The folder of snapshots."""
        return os.path.abspath(self.snapshots or f"{self.path}.snapshots")

    def __post_init__(self) -> None:
        for address in (self.http, self.metrics, self.grpc, self.control):
            if self.tls is None and not self.exposed and not address.is_loopback:
                raise NotLoopback(address)
        if self.fronts < 1:
            raise DefinitionError(f"fronts= is {self.fronts}; write 1 or more")
