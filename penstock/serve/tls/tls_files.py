"""The files of TLS: the certificate of the server, its key, and the authority that signs certificates of clients.

A running server reads them again when it is told to. Invariants:

- connections stay: each handshake takes the files as they were read last;
- while a file has a fault, the files before it stay;
- with a client authority, a client without a certificate of it gets no connection.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.cache import PenstockError

__all__ = ["PemTexts", "TlsContext", "TlsFiles", "names_of"]

_log = logging.getLogger("penstock.serve")


@dataclass(frozen=True, slots=True)
class PemTexts:
    """The contents of the files, as gRPC takes them."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The paths of PEM files. `client_ca` is None if clients need no certificate."""

    certificate: str
    key: str
    client_ca: str | None = None

    def read(self) -> ssl.SSLContext:
        """Return a context of the files as they are now. PenstockError names the file at fault."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        for path in self.paths:
            if not os.access(path, os.R_OK):
                raise PenstockError(f"the file {path} of TLS can't be read; name a PEM file that this user may read")
        try:
            context.load_cert_chain(self.certificate, self.key, password="")
        except (ssl.SSLError, OSError) as error:
            raise PenstockError(
                f"{self.certificate} and {self.key} are no certificate with its key, both as PEM without a password: "
                f"{error}"
            ) from None
        if self.client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(self.client_ca)
            except (ssl.SSLError, OSError) as error:
                raise PenstockError(f"{self.client_ca} has no certificates of an authority as PEM: {error}") from None
        return context

    def texts(self) -> PemTexts:
        """Return the contents of the files as they are now."""
        found = [Path(path).read_bytes() for path in self.paths]
        return PemTexts(found[0], found[1], found[2] if self.client_ca is not None else None)

    @property
    def paths(self) -> list[str]:
        """The paths of all files."""
        return [self.certificate, self.key, *([] if self.client_ca is None else [self.client_ca])]


class TlsContext:
    """The TLS of one server. `context` is for its listeners; each handshake takes the files that were read last."""

    def __init__(self, files: TlsFiles) -> None:
        self.files = files
        self.context = files.read()
        self.pem = files.texts()
        self.version = 1
        """The number of times that the files were read."""
        self._current = self.context
        self.context.sni_callback = self._begin

    def reload(self) -> bool:
        """Read the files again. Return False, and keep the former ones, if they have a fault."""
        try:
            self._current, self.pem = self.files.read(), self.files.texts()
        except (PenstockError, OSError) as error:
            _log.warning("the certificates stay as they were: %s", error)
            return False
        self.version += 1
        _log.info("the certificates were read again")
        return True

    def _begin(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._current


def names_of(certificate: Mapping[str, Any] | None) -> list[str]:
    """Return the alternative names of a client's certificate, as Python decodes it.

    >>> names_of({"subjectAltName": (("DNS", "board.shop"), ("URI", "spiffe://shop/board"))})
    ['board.shop', 'spiffe://shop/board']
    """
    return [str(value) for _, value in (certificate or {}).get("subjectAltName", ())]
