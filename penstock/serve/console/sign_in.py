"""Sign in and out: the access token of a form becomes a cookie."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from penstock.serve.console.page_rendering import PageRendering
from penstock.serve.http.browser_session import check_origin, cookie_of
from penstock.serve.http.parameters import read_body
from penstock.serve.http.responses import RequestRefused

__all__ = ["SignIn"]

_PER_SECOND = 10


class SignIn:
    """The pages to sign in and out."""

    def __init__(self, rendering: PageRendering, clock: Callable[[], float] = time.monotonic) -> None:
        self._rendering = rendering
        self.clock = clock
        self._last: deque[float] = deque(maxlen=_PER_SECOND)

    async def get(self, request: Request) -> Response:
        """Show the form."""
        return self._rendering.response(request, "sign_in.html", {"wrong": False, "next": _place(request)})

    async def post(self, request: Request) -> Response:
        """Store the token in a cookie, and go on. The first page refuses a wrong token."""
        headers = {name: value.decode("latin-1") for name, value in request.scope["headers"]}
        check_origin("POST", "/sign-in", headers)
        now = self.clock()
        if len(self._last) == _PER_SECOND and now - self._last[0] < 1:
            again = {"retry-after": "1"}
            raise RequestRefused(429, "busy", f"more than {_PER_SECOND} signed in within a second", again)
        self._last.append(now)
        form = parse_qs((await read_body(request)).decode("utf-8", "replace"))
        token = "".join(form.get("token", [""])[0].split())
        if not token.isascii() or any(mark in token for mark in ';,"\\'):
            return self._rendering.response(request, "sign_in.html", {"wrong": True, "next": _place(request)}, 401)
        answer = RedirectResponse(_place(request), 303)
        answer.headers["set-cookie"] = cookie_of(headers.get(b"host", ""), token, request.url.scheme == "https")
        return answer

    async def sign_out(self, request: Request) -> Response:
        """Remove the cookie."""
        answer = RedirectResponse("/sign-in", 303)
        host = request.headers.get("host", "")
        answer.headers["set-cookie"] = cookie_of(host, "", request.url.scheme == "https")
        return answer


def _place(request: Request) -> str:
    """Return the page to go to: a path of this server."""
    return "/" + str(request.query_params.get("next", "/")).lstrip("/\\")
