"""Browsers: the link becomes a cookie, a cookie alone changes nothing, and other sites cause nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import penstock as ps
from tests.serve.asgi import TOKEN, AsgiServer, shop
from tests.serve.serving import Answer

COOKIE = f"penstock-1={TOKEN}"
ORIGIN = "http://localhost:1"


class Browser:
    """Requests as a browser sends them: without the header of programs."""

    def __init__(self, server: AsgiServer) -> None:
        self.server = server

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        async def sent() -> Answer:
            given = {"accept": "text/html", **headers}
            return await self.server.asked(method, path, [body], authorization=None, **given)  # type: ignore[arg-type]

        return self.server.run(sent())


@pytest.fixture
def browser() -> Iterator[Browser]:
    app = shop()
    with AsgiServer(ps.open(app, None), app) as own:
        yield Browser(own)


def test_the_link_becomes_a_cookie_and_leaves_the_address(browser: Browser) -> None:
    answer = browser.ask("GET", f"/views/revenue?token={TOKEN}&limit=5")
    assert (answer.status, answer.headers["location"]) == (303, "/views/revenue?limit=5")
    assert answer.headers["set-cookie"] == f"{COOKIE}; HttpOnly; SameSite=Strict; Path=/"
    assert browser.ask("GET", "/views/revenue", cookie=COOKIE).status == 200
    assert browser.ask("GET", f"/%2fevil.example/?token={TOKEN}").headers["location"] == "/evil.example/"


def test_a_page_without_a_token_leads_to_the_sign_in(browser: Browser) -> None:
    for path, headers in [("/views/revenue?limit=5", {}), ("/views/revenue?limit=5", {"cookie": "penstock-1=wrong"})]:
        answer = browser.ask("GET", path, **headers)
        assert (answer.status, answer.headers["location"]) == (303, "/sign-in?next=%2Fviews%2Frevenue%3Flimit%3D5")
    assert browser.ask("GET", "/?token=wrong").headers["location"] == "/sign-in"
    assert browser.ask("GET", "/v1/status").status == 401
    assert browser.ask("GET", "/index.json", accept="*/*").status == 401
    assert browser.ask("GET", "/", cookie=f"penstock-2={TOKEN}").status == 303


def test_the_form_signs_in_from_this_server_only(browser: Browser) -> None:
    form = f"token={TOKEN}".encode()
    answer = browser.ask("POST", "/sign-in?next=/graph", form, origin=ORIGIN)
    assert (answer.status, answer.headers["location"]) == (303, "/graph")
    assert COOKIE in answer.headers["set-cookie"]
    assert (
        browser.ask("POST", "/sign-in?next=//evil.example", form, origin=ORIGIN).headers["location"] == "/evil.example"
    )
    for origin in ("http://evil.example", "null", ""):
        assert browser.ask("POST", "/sign-in", form, origin=origin).status == 403
    assert browser.ask("POST", "/sign-in", b"token=a%3Bb", origin=ORIGIN).status == 401


def test_many_sign_ins_within_a_second_are_refused(browser: Browser) -> None:
    now = 0.0
    browser.server.console.sign_in.clock = lambda: now
    found = [browser.ask("POST", "/sign-in", b"token=x", origin=ORIGIN).status for _ in range(11)]
    assert found == [303] * 10 + [429]
    now = 1.5
    assert browser.ask("POST", "/sign-in", b"token=x", origin=ORIGIN).status == 303


def test_a_cookie_changes_nothing_by_itself(browser: Browser) -> None:
    document = b'{"id": 1, "ts": 1}'
    for origin in (ORIGIN, "http://evil.example"):
        answer = browser.ask("POST", "/v1/tables/orders", document, cookie=COOKIE, origin=origin)
        assert (answer.status, answer.json["error"]["code"]) == (403, "other origin")
    assert browser.ask("DELETE", "/v1/tables/orders?key=1", cookie=COOKIE, origin=ORIGIN).status == 403
    assert browser.ask("POST", "/sign-out", cookie=COOKIE, origin="http://evil.example").status == 403
    out = browser.ask("POST", "/sign-out", cookie=COOKIE, origin=ORIGIN)
    assert (out.status, out.headers["location"]) == (303, "/sign-in")
    assert "Max-Age=0" in out.headers["set-cookie"]


def test_a_name_that_points_here_is_refused(browser: Browser) -> None:
    assert browser.ask("GET", "/", cookie=COOKIE, host="evil.example:1").status == 421
