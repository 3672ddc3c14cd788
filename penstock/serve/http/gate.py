"""The gate before all routes: access tokens, known hosts, limits and deadlines.

Invariant: a refused request reads no body and touches no store.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from math import ceil
from typing import Any
from urllib.parse import quote

from penstock.serve.access.access_tokens import AccessToken, TokenBook
from penstock.serve.http.browser_session import check_origin, cookie_of, form_value_of, secret_of_cookie, split_link
from penstock.serve.http.responses import RequestRefused, refused
from penstock.serve.store.call_meters import FrontMeter
from penstock.serve.store.rate_limit import TokenRates

__all__ = ["CERTIFIED", "FORM_VALUE", "TEMPLATE", "TOKEN", "Gate"]

TEMPLATE = "penstock.route"
"""The name under which the scope of a request has the path of its route, with {name} in place of names."""
TOKEN = "penstock.token"
"""The name under which the scope of a request has its access token."""
CERTIFIED = "penstock.certified"
"""The name under which the state of a connection has the names in the client's certificate."""
FORM_VALUE = "penstock.form_value"
"""The name under which the scope of a browser's request has the value that its forms must have."""

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_OPEN = {"/healthz", "/readyz", "/sign-in"}  # routes without a token
_OPEN_FOLDER = "/static/"
_STREAM = re.compile("/live|/v1/(events|operations/[^/]+/events)")  # routes without a deadline
_CALLS = 64
_DEADLINE = 10.0
_STALLED = 60.0  # seconds after which a client that reads nothing is disconnected


class Gate:
    """The gate of one front; `hosts` are the names of the server, or none if any will do."""

    def __init__(
        self,
        inner: Application,
        tokens: TokenBook,
        hosts: Collection[str],
        deadline: float = _DEADLINE,
        meter: FrontMeter | None = None,
        answer: Callable[[Scope, RequestRefused], Application] = lambda _, error: refused(error),
        rates: TokenRates | None = None,
    ) -> None:
        self._rates = rates or TokenRates(None)
        self._inner = inner
        self._answer = answer
        self._meter = meter
        self._tokens = tokens
        self._hosts = {host.lower() for host in hosts}
        self._deadline = deadline
        self.calls = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request, hand it to its route, and count it."""
        if scope["type"] != "http":
            return
        if self._meter is None:
            await self._pass(scope, receive, send)
            return
        clock, status = asyncio.get_running_loop().time, 500

        async def noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        began = clock()
        try:
            await self._pass(scope, receive, noted)
        finally:
            method = "GET" if scope["method"] == "HEAD" else scope["method"]
            self._meter.count((method, scope.get(TEMPLATE, "")), status, clock() - began)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._check(scope)
        except RequestRefused as error:
            await self._answer(scope, error)(scope, receive, send)
            return
        if _STREAM.fullmatch(scope["path"]):
            await self._inner(scope, receive, _patient(send))
            return
        await self._call(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if self._hosts and name.lower() not in self._hosts:
            raise RequestRefused(421, "unknown host", f"this server is not {name!r}; ask it by its address")
        if scope["path"] in _OPEN or scope["path"].startswith(_OPEN_FOLDER):
            return
        kind, _, given = headers.get(b"authorization", "").partition(" ")
        if b"authorization" in headers:
            token = self._tokens.find(given.strip()) if kind.lower() == "bearer" else None
        else:
            token = self._token_of_browser(scope, headers)
        certified = scope.get("state", {}).get(CERTIFIED, ())
        if token is None and not given and certified:
            token = self._tokens.find_certificate(certified)
            if token is not None and b"origin" in headers:  # a browser sends the certificate for any site
                check_origin(scope["method"], scope["path"], headers)
                scope[FORM_VALUE] = form_value_of(token.digest)
        if token is None:
            raise RequestRefused(
                401,
                "no access token",
                "the access token is missing, unknown or expired; send the header `authorization: Bearer TOKEN`",
                {"www-authenticate": "Bearer"},
            )
        wait = self._rates.wait(token.name)
        if wait:
            again = {"retry-after": str(ceil(wait))}
            raise RequestRefused(429, "rate", f"more than {self._rates.most:g} calls per second of one token", again)
        scope[TOKEN] = token

    def _token_of_browser(self, scope: Scope, headers: dict[bytes, str]) -> AccessToken | None:
        """Return the token in the cookie. The token of a link becomes a cookie, and leaves the address."""
        method, path = scope["method"], scope["path"]
        linked, rest = split_link(scope["query_string"])
        if linked is not None and method == "GET" and not path.startswith("/v1/"):
            if self._tokens.find(linked) is None:
                return None
            cookie = cookie_of(headers.get(b"host", ""), linked, scope.get("scheme") == "https")
            place = quote("/" + path.lstrip("/")) + (f"?{rest}" if rest else "")  # one slash: never another host
            raise RequestRefused(303, "signed in", "go on", {"location": place, "set-cookie": cookie})
        secret = secret_of_cookie(headers)
        token = None if secret is None else self._tokens.find(secret)
        if secret is not None and token is not None:
            check_origin(method, path, headers)
            scope[FORM_VALUE] = form_value_of(secret)
        return token

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one call within its deadline, unless too many run."""
        if self.calls >= _CALLS and scope["path"] not in _OPEN:
            busy = RequestRefused(429, "busy", f"{_CALLS} calls run already", {"retry-after": "1"})
            await refused(busy)(scope, receive, send)
            return
        began = False

        async def noted(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        clock = asyncio.get_running_loop().time

        async def received() -> Message:
            limit.reschedule(None)  # a body has a limit of its own
            message = await receive()
            limit.reschedule(clock() + self._deadline)
            return message

        self.calls += 1
        try:
            async with asyncio.timeout(self._deadline) as limit:
                await self._inner(scope, received, noted)
        except TimeoutError:
            if began:
                raise
            late = f"no answer within {self._deadline:g} s; a write may be done or not, and may be repeated"
            await refused(RequestRefused(504, "deadline", late))(scope, receive, send)
        finally:
            self.calls -= 1


def _patient(send: Send) -> Send:
    """Return a `send` that ends the connection of a client that reads nothing for a minute."""

    async def patient(message: Message) -> None:
        async with asyncio.timeout(_STALLED):
            await send(message)

    return patient
