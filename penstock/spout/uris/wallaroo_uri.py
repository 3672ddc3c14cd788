"""Parse `wallaroo://HOST:PORT?cookie=C` and `wallaroo+source://…`, and open the spout that listens there."""

from __future__ import annotations

import re

from penstock.spout.errors import UriError
from penstock.spout.uri_parts import Uri
from penstock.spout.wallaroo_records import MessageFormat
from penstock.spout.wallaroo_source_spout import WallarooSourceSpout
from penstock.spout.wallaroo_spout import WallarooSpout

__all__ = ["address_in", "cookie_in", "open_wallaroo", "open_wallaroo_source"]

_ADDRESS = re.compile(r"//(?P<host>[^/@:,\s\[\]]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})/?")
_LOOPBACK = ("localhost", "::1")
_FORMATS = ("json", "msgpack")
_VIEW = "view"


def open_wallaroo(uri: Uri, table: str) -> WallarooSpout:
    """Open the spout that Wallaroo workers connect to."""
    return WallarooSpout(*_parts(uri, table))


def open_wallaroo_source(uri: Uri, table: str) -> WallarooSourceSpout:
    """Open the spout that source connectors connect to."""
    return WallarooSourceSpout(*_parts(uri, table))


def _parts(uri: Uri, table: str) -> tuple[str, str, int, str, str, MessageFormat]:
    """Return the arguments of a spout."""
    uri.only("cookie", "cookie-file", "name", "format", "envelope", "expose")
    host, port = address_in(uri)
    if not (host in _LOOPBACK or host.startswith("127.") or uri.flag("expose")):
        remedy = "listen on 127.0.0.1, or add expose=1 behind a proxy with TLS"
        raise UriError(
            uri.text, f"{host} can be reached from other machines, and the protocol is not encrypted", remedy
        )
    name = uri.options.get("name") or f"{host}:{port}"
    form = uri.one_of("format", _FORMATS)
    envelope = uri.one_of("envelope", (_VIEW,))
    source = f"{table}={uri.scheme}:{name}"
    return uri.text, host, port, cookie_in(uri), source, MessageFormat(envelope == _VIEW, form)


def address_in(uri: Uri) -> tuple[str, int]:
    """Return the host and the port of a URI."""
    found = _ADDRESS.fullmatch(uri.rest)
    if found is None or int(found["port"]) > 65535:
        raise UriError(uri.text, "it names no address", f"write it as {uri.scheme}://127.0.0.1:7100")
    return found["host"].strip("[]"), int(found["port"])


def cookie_in(uri: Uri) -> str:
    """Return the cookie, which both sides must know."""
    path = uri.options.get("cookie-file")
    if path is None:
        return uri.options.get("cookie", "")
    if "cookie" in uri.options:
        raise UriError(uri.text, "it has a cookie and a cookie-file", "give one of them")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise UriError(uri.text, f"the cookie-file {path} can't be read: {reason}", "check the path") from None
