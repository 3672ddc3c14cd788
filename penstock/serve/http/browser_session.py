"""The session of a browser: the access token in a cookie, and the checks of requests that other sites might cause.

Invariants:

- scripts can't read the cookie, and other sites can't cause a request with it;
- a cookie alone changes nothing: a change needs the origin of this server, and the value of a form that it sent.

The name of the cookie has the port, since browsers share cookies between the ports of a host.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from penstock.serve.http.responses import RequestRefused

__all__ = ["check_origin", "cookie_of", "form_value_of", "secret_of_cookie", "split_link"]

_SAFE = {"GET", "HEAD"}


def secret_of_cookie(headers: Mapping[bytes, str]) -> str | None:
    """Return the access token in the cookie of a request; None without one."""
    try:
        found = SimpleCookie(headers.get(b"cookie", "")).get(_name(headers.get(b"host", "")))
    except CookieError:
        return None
    return None if found is None else found.value


def cookie_of(host: str, secret: str, secure: bool = False) -> str:
    """Return the header that stores an access token in the browser. An empty one is removed.

    >>> cookie_of("localhost:7181", "s3cret")
    'penstock-7181=s3cret; HttpOnly; SameSite=Strict; Path=/'
    """
    end = "" if secret else "; Max-Age=0"
    return f"{_name(host)}={secret}; HttpOnly; SameSite=Strict; Path=/{'; Secure' if secure else ''}{end}"


def form_value_of(secret: str) -> str:
    """Return the value that forms of this session must have. It follows from the access token alone."""
    return hmac.new(secret.encode("utf-8", "surrogateescape"), b"penstock form", sha256).hexdigest()


def check_origin(method: str, path: str, headers: Mapping[bytes, str]) -> None:
    """Refuse a change with a cookie, unless a page of this server sent it.

    The API takes no cookie for changes: programs send the token in a header.
    """
    if method in _SAFE:
        return
    if path.startswith("/v1/"):
        raise _refused("the API takes no cookie for a change; send the header `authorization: Bearer TOKEN`")
    origin, host = headers.get(b"origin", ""), headers.get(b"host", "")
    if not host or origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
        raise _refused(f"a page of {origin or 'no known origin'} sent this form; open it on this server")


def split_link(query: bytes) -> tuple[str | None, str]:
    """Return the access token of a link, and the rest of its query.

    >>> split_link(b"token=abc&level=1")
    ('abc', 'level=1')
    """
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    secret = next((value for name, value in pairs if name == "token"), None)
    return secret, urlencode([pair for pair in pairs if pair[0] != "token"])


def _name(host: str) -> str:
    port = host.rpartition(":")[2]
    return f"penstock-{port if port.isdecimal() else 80}"


def _refused(message: str) -> RequestRefused:
    return RequestRefused(403, "other origin", message)
