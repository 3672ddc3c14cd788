"""Actions: a page that changes nothing, a form of this session, an operation, and a result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import penstock as ps
from penstock.serve.access.access_tokens import AccessToken, Role, TokenBook, TokenFile, digest_of
from penstock.serve.console.action_pages import _last_lines
from penstock.serve.http.browser_session import form_value_of
from tests.serve.asgi import TOKEN, AsgiServer, lines, shop, until
from tests.serve.serving import Answer

ORIGIN = "http://localhost:1"


@pytest.fixture
def server() -> Iterator[AsgiServer]:
    app = shop()
    with AsgiServer(ps.open(app, None), app) as own:
        own.ask("POST", "/v1/tables/orders", lines({"id": 1, "ts": 1, "country": "NO", "amount": 5}, b"no json", b"7"))
        yield own


def ask(server: AsgiServer, method: str, path: str, secret: str = TOKEN, **fields: Any) -> Answer:
    """Ask as a browser with a form."""
    body = urlencode(fields, doseq=True).encode()
    headers: dict[str, Any] = {"authorization": None, "accept": "text/html", "origin": ORIGIN}
    return server.ask(method, path, body, cookie=f"penstock-1={secret}", **headers)


def done(server: AsgiServer, answer: Answer) -> dict[str, Any]:
    """Wait for the end of an operation, and return the data of its page."""
    assert answer.status == 303, answer
    number = answer.headers["location"].removeprefix("/operations/")

    async def ended() -> None:
        await until(lambda: (found := server.operations.folder.find(number)) is not None and found.state.ended)

    server.run(ended())
    assert b"<h1>" in ask(server, "GET", f"/operations/{number}").body
    found: dict[str, Any] = server.ask("GET", f"/operations/{number}.json").json
    return found


def ids(server: AsgiServer) -> list[str]:
    return [own["id"] for own in server.ask("GET", "/quarantine.json").json["entries"]]


def test_entries_are_dropped_after_the_name_was_typed(server: AsgiServer) -> None:
    first, second = ids(server)
    shown = ask(server, "GET", f"/actions/Drop?ids={first}&ids={second}").body.decode()
    assert "Drop 2" in shown
    assert server.ask("GET", f"/actions/Drop.json?ids={first}").json["total"] == 1
    assert ids(server) == [first, second], "the page changes nothing"
    form = {"form_value": form_value_of(TOKEN), "ids": [first, second]}
    assert ask(server, "POST", "/actions/Drop", **form, typed="other").status == 400
    assert ids(server) == [first, second]
    found = done(server, ask(server, "POST", "/actions/Drop", **form, typed=first))
    assert (found["state"], found["result"]["dropped"], ids(server)) == ("done", 2, [])


def test_a_form_of_another_session_is_refused(server: AsgiServer) -> None:
    for form in ({}, {"form_value": "x"}, {"form_value": form_value_of("other")}):
        assert ask(server, "POST", "/actions/Check", **form).status == 403
    assert ask(server, "POST", "/operations/1/cancel").status == 403
    given = urlencode({"form_value": form_value_of(TOKEN)}).encode()
    assert server.ask("POST", "/actions/Check", given).status == 403, "a program uses the API"
    assert server.ask("GET", "/operations.json").json["operations"] == []


def test_wrong_arguments_are_refused_before_the_form(server: AsgiServer) -> None:
    for path in ("/actions/Drop", "/actions/Restate?name=nothing", "/actions/Retry?kind=odd", "/actions/Check?odd=1"):
        assert ask(server, "GET", path).status in (400, 404), path
    assert ask(server, "GET", "/actions/Nothing").status == 404
    assert ask(server, "GET", "/operations/99").status == 404


def test_a_check_and_a_group_show_their_results(server: AsgiServer) -> None:
    found = done(server, ask(server, "POST", "/actions/Check", form_value=form_value_of(TOKEN)))
    assert (found["state"], found["error"], found["facts"]["ok"]) == ("done", None, True)
    shown = ask(server, "GET", "/actions/Restate?name=by_day&group=[%22NO%22,null]")
    assert b"now 1" in shown.body
    form = {"form_value": form_value_of(TOKEN), "name": "by_day", "group": '["NO",null]'}
    assert done(server, ask(server, "POST", "/actions/Restate", **form))["result"]["total"] == 0
    listed = server.ask("GET", "/operations.json").json["operations"]
    assert [own["kind"] for own in listed] == ["Restate", "Check"]
    looks = (server.ask("GET", "/audit.json").json["lines"] for _ in range(10_000))  # a line follows the outcome
    audited = next(lines for lines in looks if len(lines) == 2)
    assert [own["operation"] for own in audited] == ["Restate", "Check"]


def test_a_reader_is_refused_and_that_is_audited(tmp_path: Path) -> None:
    app = shop()
    file = TokenFile(str(tmp_path / "tokens"))
    secret = file.add("board", Role.READ, None, None)
    tokens = TokenBook(AccessToken("run", Role.ADMIN, digest_of(TOKEN)), file)
    with AsgiServer(ps.open(app, None), app, tokens=tokens) as server:
        assert ask(server, "GET", "/actions/Check", secret).status == 403
        assert ask(server, "POST", "/actions/Check", secret, form_value=form_value_of(secret)).status == 403
        assert ask(server, "GET", "/audit", secret).status == 403
        assert [own["by"] for own in _last_lines(server.operations.audit.path)] == ["board"] * 3
