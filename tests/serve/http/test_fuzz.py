"""Random requests: each gets an answer below 500, and the server keeps answering."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.serve.console.console import routes_of_console
from penstock.serve.http.routes import routes_of_api
from tests.serve.asgi import TOKEN, AsgiServer, lines, shop

TEXT = st.text(max_size=12) | st.sampled_from(
    ["7", "-1", "1e999", '{"$bytes": "AA"}', "[" * 300, "[[],{}]", '"\\ud800"', "null", "[181,7]", "9" * 12_000]
)
NAMES = st.sampled_from(
    ["key", "group", "ts", "start", "stop", "prefix", "reverse", "limit", "level", "cursor", "strict"]
)
BODIES = st.binary(max_size=60) | st.sampled_from(
    [b'{"id": 1, "ts": 1}\n' * 9, b"[" * 50_000, b'[{"id": 1}, 2, null]', b'{"id": "\\ud800"}', b"\xff\n{}", b"null"]
)
TYPES = st.sampled_from(["application/json", "application/x-ndjson", "", "APPLICATION/JSON; charset=x", "é"])
HEADERS = st.dictionaries(
    st.sampled_from(["if-none-match", "last-event-id", "content-length", "accept", "host", "authorization", "range"]),
    st.just("text/html") | st.text(st.characters(max_codepoint=255, exclude_characters="\r\n"), max_size=20),
    max_size=2,
)
ROUTES = [
    (method, path) for method, path in [*routes_of_api(), *routes_of_console()] if path not in ("/v1/events", "/live")
]  # streams have no end


@pytest.fixture(scope="module")
def server() -> Iterator[AsgiServer]:
    app = shop()
    with AsgiServer(ps.open(app, None), app) as own:
        own.ask("POST", "/v1/tables/orders", lines({"id": 1, "ts": 1, "country": "NO"}))
        yield own


@settings(max_examples=150)
@given(
    route=st.sampled_from(ROUTES),
    name=TEXT | st.sampled_from(["revenue", "by_day", "orders"]),
    asked=st.lists(st.tuples(NAMES, TEXT), max_size=3),
    headers=HEADERS,
    body=BODIES,
    kind=TYPES,
)
def test_a_random_request_is_answered(
    server: AsgiServer,
    route: tuple[str, str],
    name: str,
    asked: list[tuple[str, str]],
    headers: dict[str, str],
    body: bytes,
    kind: str,
) -> None:
    path = re.sub("{.*}", quote(name or "revenue", safe=""), route[1])
    query = "&".join(f"{quote(one)}={quote(value)}" for one, value in asked)
    sent = {"authorization": f"Bearer {TOKEN}", "content-type": kind, **headers}
    answer = server.ask(route[0], f"{path}?{query}", body, **sent)
    assert answer.status < 500, answer
    assert server.ask("GET", "/v1/status").status == 200
    assert server.gate.calls == 0
