"""The gate: access tokens, hosts, sizes, calls at once, deadlines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

import penstock as ps
from penstock.serve.http import parameters
from penstock.serve.store.rate_limit import TokenRates
from penstock.serve.store.store_access import LocalAccess
from tests.serve.asgi import AsgiServer, lines, shop, until


def server_of(**gate: Any) -> AsgiServer:
    app = shop()
    return AsgiServer(ps.open(app, None), app, **gate)


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer x", "Basic t0k", "Bearer t0k t0k", "Bearer t0K", "Bearer ÿ"])
def test_a_request_without_the_token_is_refused(given: str) -> None:
    with server_of() as server:
        for method, path in [(own.method, own.path) for own in server.service.routes]:
            answer = server.ask(method, path, authorization=given)
            if path in ("/healthz", "/readyz"):
                assert answer.status == 200
            else:
                assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:7181", 200),
        ("LOCALHOST", 200),
        ("evil.example:7181", 421),
        ("localhost.evil.example", 421),
        ("", 421),
    ],
)
def test_another_host_is_refused(host: str, status: int) -> None:
    with server_of() as server:
        assert server.ask("GET", "/v1/status", host=host).status == status


def test_a_long_body_is_refused_before_it_is_read() -> None:
    with server_of() as server:
        answer = server.ask("POST", "/v1/tables/orders", b"", content_length=str(parameters.MOST_BYTES + 1))
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        part = b" " * (1 << 19)
        answer = server.run(server.asked("POST", "/v1/tables/orders", [part] * 3))
        assert answer.status == 413


def test_a_body_of_the_greatest_length_is_one_transaction() -> None:
    with server_of() as server:
        documents = lines(*({"id": i, "ts": 1, "text": "x" * 80} for i in range(10_001)))[: parameters.MOST_BYTES]
        whole = documents[: documents.rindex(b"\n")]
        answer = server.ask("POST", "/v1/tables/orders", whole)
        assert (answer.json["applied"], answer.json["position"]) == (whole.count(b"\n") + 1, 1)


def test_a_slow_body_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parameters, "_START", 0.01)

    async def trickle(server: AsgiServer) -> dict[str, Any]:
        messages: AsyncIterator[dict[str, Any]] = server.messages("POST", "/v1/tables/orders", [])
        return await anext(messages)

    with server_of() as server:
        head = server.run(trickle(server))
        assert head["status"] == 408


def test_calls_of_a_token_beyond_its_rate_are_refused() -> None:
    now = 0.0
    with server_of(rates=TokenRates(2, lambda: now)) as server:
        assert [server.ask("GET", "/v1/status").status for _ in range(3)] == [200, 200, 429]
        late = server.ask("GET", "/v1/status")
        assert (late.json["error"]["code"], late.headers["retry-after"]) == ("rate", "1")
        assert server.ask("GET", "/healthz").status == 200
        now = 0.5
        assert server.ask("GET", "/v1/status").status == 200


class SlowAccess(LocalAccess):
    """A holder that answers when it is told to."""

    def __init__(self, engine: ps.Engine) -> None:
        super().__init__(engine)
        self.go = threading.Event()

    def call(self, operation: Any, progress: Any = None, /, **arguments: Any) -> Any:
        self.go.wait()
        return super().call(operation, progress, **arguments)


def test_calls_beyond_the_limit_are_refused_at_once() -> None:
    app = shop()
    engine = ps.open(app, None)
    access = SlowAccess(engine)

    async def crowd(server: AsgiServer) -> list[int]:
        tasks = [
            asyncio.ensure_future(server.asked("POST", "/v1/tables/orders", [lines({"id": i})])) for i in range(80)
        ]
        await until(lambda: server.gate.calls == 64)
        refused = [(await one).status for one in tasks[64:]]
        health = await server.asked("GET", "/healthz", [b""])
        access.go.set()
        done = [(await one).status for one in tasks[:64]]
        return [*refused, health.status, *done]

    with AsgiServer(engine, app, access) as server:
        assert server.run(crowd(server)) == [429] * 16 + [200] * 65
        assert server.gate.calls == 0


def test_a_call_beyond_its_deadline_has_an_unknown_outcome() -> None:
    app = shop()
    engine = ps.open(app, None)
    access = SlowAccess(engine)
    with AsgiServer(engine, app, access, deadline=0.02) as server:
        answer = server.ask("POST", "/v1/tables/orders", lines({"id": 1}))
        assert (answer.status, answer.json["error"]["code"]) == (504, "deadline")
        access.go.set()
