"""Serve a store over the network: front processes that read, and the holder that writes."""

from penstock.serve.access.access_tokens import AccessToken, Role, TokenFile, moment_of
from penstock.serve.access.listen_address import ListenAddress, NotLoopback
from penstock.serve.first_process import serve
from penstock.serve.server_settings import ServerSettings
from penstock.serve.tls.tls_files import TlsFiles

__all__ = [
    "AccessToken",
    "ListenAddress",
    "NotLoopback",
    "Role",
    "ServerSettings",
    "TlsFiles",
    "TokenFile",
    "moment_of",
    "serve",
]
