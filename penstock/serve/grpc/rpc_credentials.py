"""The TLS of a gRPC port: each handshake takes the files that were read last, and open connections stay."""

from __future__ import annotations

from typing import Any

import grpc

from penstock.serve.tls.tls_files import TlsContext

__all__ = ["rpc_credentials"]


def rpc_credentials(tls: TlsContext) -> grpc.ServerCredentials:
    """Return credentials that follow the files of a context."""
    seen = tls.version

    def configuration() -> grpc.ServerCertificateConfiguration:
        read = tls.pem
        return grpc.ssl_server_certificate_configuration([(read.key, read.certificate)], read.client_ca)

    def changed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal seen
        if seen == tls.version:
            return None
        seen = tls.version
        return configuration()

    fetch: Any = changed  # its type in the stubs has no None, by which the former configuration stays
    return grpc.dynamic_ssl_server_credentials(configuration(), fetch, tls.files.client_ca is not None)
